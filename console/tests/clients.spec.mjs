/** Clients: the list, one client, and everything that is done with it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { accessible, readable, startSite, until, visit } from "./harness.mjs";
import { HOSTILE, LOCAL, startReceiver } from "./receiver.mjs";

const TOKENS = [
  { name: "root-token", scopes: ["admin"] },
  { name: "reader-token", scopes: ["read"] },
];

test("clients are registered, and their secret is shown once", async (t) => {
  const site = await startSite(t);
  await visit(site, "/clients", {}, async (page) => {
    await page.getByText("No client yet").waitFor();
    await accessible(page);
    await page.getByRole("button", { name: "Register a client" }).click();
    await page.getByLabel("Name").fill("Acme Doors");
    await page.getByLabel("URL of its webhooks").fill("https://acme.example/hook");
    await page.getByLabel("Id", { exact: true }).fill("acme");
    await accessible(page);
    await page.getByRole("button", { name: "Register", exact: true }).click();
    await page.getByText(/^whsec_/).waitFor();
    const { items } = await site.api("GET", "/v1/clients");
    assert.deepEqual(items.map(({ id, name, url }) => [id, name, url]), [["acme", "Acme Doors", "https://acme.example/hook"]]);
    await page.getByRole("button", { name: "Done" }).click();
    assert.equal(await page.getByText(/^whsec_/).count(), 0);
    await page.getByRole("link", { name: "acme" }).click();
    await page.getByRole("heading", { name: "Acme Doors" }).waitFor();
  });
});

test("a refusal is shown in the form, which stays", async (t) => {
  const site = await startSite(t);
  await visit(site, "/clients", { expected: [/status of 422/] }, async (page) => {
    await page.getByRole("button", { name: "Register a client" }).click();
    await page.getByLabel("Name").fill("Inside");
    await page.getByLabel("URL of its webhooks").fill("http://127.0.0.1:9/hook");
    await page.getByRole("button", { name: "Register", exact: true }).click();
    await page.getByRole("alert").waitFor();
    assert.equal(await page.getByLabel("Name").inputValue(), "Inside");
    assert.deepEqual((await site.api("GET", "/v1/clients")).items, []);
  });
});

test("clients are found by how their id begins", async (t) => {
  const site = await startSite(t);
  for (const id of ["acme", "acme2", "bolt"]) await site.api("POST", "/v1/clients", { id, name: id, url: "https://c.example/" });
  await visit(site, "/clients?id_prefix=acme", {}, async (page) => {
    await page.getByText("2 rows").waitFor();
    await page.getByRole("combobox", { name: "Failing", exact: true }).selectOption("true");
    await page.waitForURL("**/console/clients?id_prefix=acme&failing=true");
    await page.getByText("No client matches").waitFor();
    await page.getByRole("button", { name: "Clear" }).click();
    await page.getByText("3 rows").waitFor();
  });
});

test("a client is tested, changed, disabled, rotated and deleted", async (t) => {
  const [site, receiver] = [await startSite(t, { settings: LOCAL }), await startReceiver(t)];
  await site.api("POST", "/v1/clients", { id: "acme", name: "Acme", url: receiver.url });
  const client = (name) => async () => (await site.api("GET", "/v1/clients/acme"))[name];
  await visit(site, "/clients/acme", {}, async (page) => {
    await page.getByRole("button", { name: "Send a test" }).click();
    await page.getByRole("heading", { name: "The test succeeded" }).waitFor();
    assert.equal(JSON.parse(receiver.received[0].body).type, "client.test");
    receiver.answer.status = 500;
    await page.getByRole("button", { name: "Send a test" }).click();
    await page.getByRole("heading", { name: "The test failed" }).waitFor();
    await page.getByRole("region", { name: "Test" }).getByText("500", { exact: true }).waitFor();

    await page.getByRole("button", { name: "Edit" }).click();
    await page.getByLabel("Name").fill("Acme & Sons");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("heading", { name: "Acme & Sons" }).waitFor();
    await until("Acme & Sons", client("name"));
    await page.getByRole("button", { name: "Undo" }).click();
    await until("Acme", client("name"));

    await page.getByRole("button", { name: "Disable" }).click();
    await until(false, client("enabled"));
    await page.getByRole("button", { name: "Enable" }).click();
    await until(true, client("enabled"));

    await page.getByRole("button", { name: "Rotate secret" }).click();
    await page.getByRole("button", { name: "Rotate the secret" }).click();
    await page.getByText(/^whsec_/).waitFor();
    await accessible(page);

    await page.getByRole("button", { name: "Delete", exact: true }).click();
    const confirm = page.getByRole("button", { name: "Delete the client" });
    assert.ok(await confirm.isDisabled());
    await page.getByLabel("Type acme to confirm").fill("acme");
    await confirm.click();
    await page.getByText("No client yet").waitFor();
    assert.deepEqual((await site.api("GET", "/v1/clients")).items, []);
  });
});

test("what a client is told of, and how often, has its tabs", async (t) => {
  const [site, receiver] = [await startSite(t, { settings: LOCAL }), await startReceiver(t)];
  await site.api("POST", "/v1/clients", { id: "acme", name: "Acme", url: receiver.url });
  await site.api("POST", "/v1/devices", { id: "lock1" });
  await site.api("PUT", "/v1/devices/lock1/clients/acme");
  await visit(site, "/clients/acme", {}, async (page) => {
    await page.getByText("No delivery yet").waitFor();
    await site.report({ device_id: "lock1", data: 1 });
    await page.getByRole("link", { name: "lock1" }).waitFor();
    await page.getByRole("link", { name: "Devices", exact: true }).last().click();
    await page.waitForURL("**/console/clients/acme?tab=devices");
    await page.getByText("1 row").waitFor();
    await page.getByRole("link", { name: "Figures" }).click();
    await page.locator(".chart canvas").waitFor();
    await accessible(page);
  });
});

test("a portal's link is made, works, and is closed", async (t) => {
  const site = await startSite(t, { tokens: TOKENS });
  await site.api("POST", "/v1/clients", { id: "acme", name: "Acme", url: "https://acme.example/" });
  await visit(site, "/clients/acme?tab=portals", { token: "root-token" }, async (page) => {
    await page.getByText("No portal is open").waitFor();
    await page.getByLabel("retry, resend and test").check();
    await page.getByRole("button", { name: "Create a link" }).click();
    const link = await page.locator("code", { hasText: "/console/portal#" }).textContent();
    await page.getByText("expires in").waitFor();
    await accessible(page);
    const token = link.split("#")[1];
    const caller = await site.api("GET", "/v1/caller", undefined, token);
    assert.deepEqual([caller.client, caller.may], ["acme", ["read", "retry"]]);
    await visit(site, new URL(link).pathname.slice("/console".length) + new URL(link).hash, {}, async (portal) => {
      await portal.getByRole("heading", { name: "Acme" }).waitFor();
    });
    await page.getByRole("button", { name: "Close" }).click();
    await page.getByText("No portal is open").waitFor();
    const answer = await fetch(`${site.url}/v1/clients/acme`, { headers: { authorization: `Bearer ${token}` } });
    assert.equal(answer.status, 401);
  });
});

test("a reader sees a client, and no button that changes it", async (t) => {
  const site = await startSite(t, { tokens: TOKENS });
  await site.api("POST", "/v1/clients", { id: "acme", name: "Acme", url: "https://acme.example/" });
  await visit(site, "/clients/acme", { token: "reader-token" }, async (page) => {
    await page.getByText("No delivery yet").waitFor();
    for (const name of ["Send a test", "Resend states", "Disable", "Edit", "Rotate secret", "Delete", "Retry all that match"]) {
      assert.equal(await page.getByRole("button", { name }).count(), 0, name);
    }
    assert.equal(await page.getByRole("link", { name: "Portals" }).count(), 0);
    await page.goto(`${site.url}/console/clients`);
    await page.getByText("1 row").waitFor();
    assert.equal(await page.getByRole("button", { name: "Register a client" }).count(), 0);
  });
});

test("a client that is not there is told of in the server's words", async (t) => {
  const site = await startSite(t);
  await visit(site, "/clients/nobody", { expected: [/status of 404/] }, async (page) => {
    await page.getByRole("alert").first().waitFor();
    await page.getByText("unknown_client").first().waitFor();
    await accessible(page);
  });
});

test("hostile names are texts, in both themes and narrow", async (t) => {
  const site = await startSite(t);
  const names = Object.entries(HOSTILE);
  for (const [id, name] of names) await site.api("POST", "/v1/clients", { id, name, url: `https://c.example/${"x".repeat(300)}` });
  await readable(site, ["/clients", ...names.map(([id]) => `/clients/${id}`)], async (page, path) => {
    await page.getByText(HOSTILE[path.split("/")[2] ?? "markup"]).first().waitFor();
    assert.notEqual(await page.title(), "taken");
  });
});
