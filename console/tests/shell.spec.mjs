/** What is around every page: letting in, banners, keys, narrow windows, both themes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { accessible, readable, startSite, until, visit } from "./harness.mjs";

const TOKENS = [
  { name: "root-token", scopes: ["admin"] },
  { name: "sender-token", scopes: ["commands"] },
];
/** Of the overview's files, as they are sent. */
const FIRST_LOAD_BYTES_MAX = 150_000;
/** A server that is away, as the browser tells of it. */
const AWAY = [/ERR_CONNECTION_REFUSED/, /ERR_SOCKET_NOT_CONNECTED/, /ERR_INCOMPLETE_CHUNKED_ENCODING/, /ERR_EMPTY_RESPONSE/, /ERR_CONNECTION_RESET/, /status of 503/];

test("the files come with a strict policy, and nothing but them is loaded", async (t) => {
  const site = await startSite(t);
  const page = await fetch(`${site.url}/`);
  assert.equal(page.url, `${site.url}/console/`);
  assert.match(page.headers.get("content-security-policy"), /^default-src 'none'; script-src 'self'/);
  await visit(site, "/", {}, async (page) => {
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    await page.getByRole("heading", { name: "Failing now" }).waitFor();
    const loaded = await page.evaluate(() =>
      performance.getEntriesByType("resource").map(({ name, encodedBodySize }) => ({ url: new URL(name), bytes: encodedBodySize }))
        .map(({ url, bytes }) => ({ origin: url.origin, bytes: url.pathname.startsWith("/console/") ? bytes : 0 })),
    );
    assert.deepEqual([...new Set(loaded.map(({ origin }) => origin))], [site.url]);
    const bytes = loaded.reduce((sum, file) => sum + file.bytes, 0);
    assert.ok(bytes > 10_000 && bytes < FIRST_LOAD_BYTES_MAX, `${bytes} bytes`);
  });
});

test("an open server says that anybody may act", async (t) => {
  const site = await startSite(t);
  await visit(site, "/", {}, async (page) => {
    await page.getByText("No tokens are configured: anybody on the server's machine may see and change everything.").waitFor();
    assert.equal(await page.getByRole("button", { name: "Log out" }).count(), 0);
  });
});

test("a guarded server asks for a token, keeps it for the tab, and forgets it", async (t) => {
  const site = await startSite(t, { tokens: TOKENS });
  await visit(site, "/events?type=device.lost", { expected: [/status of 401/] }, async (page) => {
    await page.getByLabel("Token").fill("wrong");
    await page.getByRole("button", { name: "Log in" }).click();
    await page.getByRole("alert").waitFor();
    await accessible(page);
    await page.getByLabel("Token").fill("root-token");
    await page.getByRole("button", { name: "Log in" }).click();
    await page.getByRole("heading", { name: "Events" }).waitFor();
    assert.equal(await page.getByText("No tokens are configured").count(), 0);
    await page.reload();
    await page.getByRole("heading", { name: "Events" }).waitFor();
    assert.equal(await page.getByLabel("Type").inputValue(), "device.lost");
    await page.getByRole("button", { name: "Log out" }).click();
    await page.getByLabel("Token").waitFor();
    assert.equal(await page.evaluate(() => sessionStorage.length), 0);
  });
});

test("a narrow token sees only its pages, and asks for nothing else", async (t) => {
  const site = await startSite(t, { tokens: TOKENS });
  await visit(site, "/", { token: "sender-token" }, async (page) => {
    const refused = [];
    page.on("response", (response) => response.status() === 403 && refused.push(response.url()));
    await page.locator("dl.tiles").first().waitFor();
    assert.equal(await page.getByRole("link", { name: "Events" }).count(), 0);
    await page.goto(`${site.url}/console/events`);
    await page.getByText("This token may not see this page.").waitFor();
    assert.deepEqual(refused, []);
  });
});

test("a page says that it is old while the server is away, and goes on when it is back", async (t) => {
  const site = await startSite(t, { restarts: true });
  await site.api("POST", "/v1/devices", { id: "lock1" });
  await visit(site, "/events", { expected: AWAY }, async (page) => {
    await page.getByText("No event matches").waitFor();
    await site.kill();
    await page.getByText("The data below is out of date").waitFor();
    await accessible(page);
    await site.start();
    await site.report({ device_id: "lock1", data: 1 });
    await page.getByText("The data below is out of date").waitFor({ state: "detached" });
    await page.getByRole("link", { name: "lock1" }).waitFor();
  });
});

test("a stream that alone is refused is told of, and nothing is loaded again and again", async (t) => {
  const site = await startSite(t);
  await site.api("POST", "/v1/devices", { id: "lock1" });
  await visit(site, "/events", { expected: AWAY }, async (page) => {
    await page.getByText("No event matches").waitFor();
    let [streams, lists] = [0, 0];
    const problem = { type: "about:blank", title: "Busy", status: 503, code: "too_many_live", detail: "too many streams" };
    await page.route("**/v1/live?*", async (route) => {
      streams += 1;
      // Until somebody presses: a retry by itself that succeeds takes the button away.
      if (await page.evaluate(() => globalThis.pressed)) return route.continue();
      return route.fulfill({ status: 503, contentType: "application/problem+json", body: JSON.stringify(problem) });
    });
    page.on("request", (request) => (lists += new URL(request.url()).pathname === "/v1/events" ? 1 : 0));
    await page.reload();
    await page.evaluate(() => {
      const press = ({ target }) => (globalThis.pressed ||= target.textContent === "Retry now");
      document.addEventListener("click", press, { capture: true });
    });
    await page.getByText("Not live.").waitFor();
    await until(true, () => streams >= 3);
    assert.equal(lists, 1);
    assert.equal(await page.getByText("Disconnected.").count(), 0);
    await page.getByRole("button", { name: "Retry now" }).click();
    await page.getByText("Not live.").waitFor({ state: "detached" });
    await site.report({ device_id: "lock1", data: 1 });
    await page.getByRole("link", { name: "lock1" }).waitFor();
    assert.equal(lists, 2);
  });
});

test("keys lead everywhere", async (t) => {
  const site = await startSite(t);
  await site.api("POST", "/v1/devices", { id: "lock9" });
  await visit(site, "/events", {}, async (page) => {
    await page.getByRole("heading", { name: "Events" }).waitFor();
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to content");
    await page.keyboard.press("Enter");
    assert.equal(await page.evaluate(() => document.activeElement.id), "main");
    await page.keyboard.press("/");
    assert.equal(await page.evaluate(() => document.activeElement.dataset.search), "");
    // At once: a busy machine would pause between two keys, and the list be asked for a part of it.
    await page.keyboard.insertText("lock9");
    await page.waitForURL("**/console/events?device=lock9");
    await page.evaluate(() => document.activeElement.blur());
    await page.keyboard.press("?");
    await page.getByRole("heading", { name: "Keys" }).waitFor();
    await accessible(page);
    await page.keyboard.press("Escape");
    await page.keyboard.press("g");
    await page.keyboard.press("o");
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    await page.goBack();
    await page.waitForURL("**/console/events?device=lock9");
  });
});

test("both themes and a narrow window can be read", async (t) => {
  const site = await startSite(t);
  await readable(site, ["/", "/events", "/no/such/page"], async (page) => {
    await page.getByRole("button", { name: "Menu" }).waitFor();
    await page.locator("main :is(h1, p)").first().waitFor();
  });
  for (const scheme of ["light", "dark"]) {
    await visit(site, "/events", { scheme, width: 360 }, async (page) => {
      await page.getByRole("button", { name: "Menu" }).click();
      await page.getByRole("link", { name: "Overview" }).first().waitFor();
      await accessible(page);
    });
  }
});

test("the theme that was chosen stays", async (t) => {
  const site = await startSite(t);
  await visit(site, "/", { scheme: "light" }, async (page) => {
    const page_is = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    await page.getByLabel("Theme").selectOption("light");
    const light = await page_is();
    await page.getByLabel("Theme").selectOption("dark");
    const dark = await page_is();
    assert.notEqual(dark, light);
    await page.reload();
    await page.getByLabel("Theme").waitFor();
    assert.equal(await page_is(), dark);
  });
});
