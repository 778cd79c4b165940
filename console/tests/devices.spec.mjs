/** The devices: found, registered, imported, and acted on together; many of them, and hostile texts. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { accessible, readable, startSite, until, visit } from "./harness.mjs";

const HOSTILE = '<img src=x onerror="document.title=1">';
const TOKENS = [
  { name: "root-token", scopes: ["admin"] },
  { name: "reader-token", scopes: ["read"] },
  { name: "sender-token", scopes: ["commands"] },
];
const ids = (page) => page.locator(".body [role=row] a").allTextContents();

function lines(n, more = () => ({})) {
  return Array.from({ length: n }, (_, i) => JSON.stringify({ id: `lock${String(i).padStart(6, "0")}`, ...more(i) })).join("\n");
}

test("filters find devices by what they are, and are in the address", async (t) => {
  const site = await startSite(t);
  await site.api("POST", "/v1/devices/import", lines(4, (i) => ({ labels: { site: String(i % 2), floor: "3" } })));
  await site.report({ device_id: "lock000001", data: 1 });
  await visit(site, "/devices?labels=site%3D1%2C%20floor%3D3", {}, async (page) => {
    await until(["lock000001", "lock000003"], () => ids(page));
    await page.getByText("2 devices match now, 0 connected.").waitFor();
    await page.getByRole("searchbox", { name: "Selector" }).fill("site in (1,2)");
    await page.waitForURL(/selector=/);
    await until("/console/rollouts?selector=site+in+%281%2C2%29%2Csite%3D1%2Cfloor%3D3&start=yes", () => page.getByRole("link", { name: "Roll out a command…" }).getAttribute("href"));
    await until(["lock000001", "lock000003"], () => ids(page));
    await page.getByLabel("Connection").selectOption("online");
    await page.waitForURL(/connection=online/);
    await until(["lock000001"], () => ids(page));
    await page.getByRole("button", { name: "Clear" }).click();
    await page.getByRole("searchbox", { name: "Id begins with" }).fill("lock000002");
    await page.waitForURL("**/devices?id_prefix=lock000002");
    await until(["lock000002"], () => ids(page));
    await page.getByRole("searchbox", { name: "Labels" }).fill("site");
    await page.getByText("is not a label yet").waitFor();
    await page.getByRole("searchbox", { name: "Labels" }).fill("site=7");
    await page.getByText("No device matches").waitFor();
    await accessible(page);
  });
});

test("a selection is counted as it is typed, and again when the fleet changes", async (t) => {
  const site = await startSite(t, { settings: '[fleet]\nplace = ["country", "city"]\n' });
  await site.api("POST", "/v1/devices/import", lines(4, (i) => ({ labels: { country: i < 3 ? "CN" : "DE", city: String(i) } })));
  await visit(site, "/devices", { expected: [/status of 422/] }, async (page) => {
    await page.getByText("4 devices match now, 0 connected: the whole fleet.").waitFor();
    await page.getByRole("searchbox", { name: "Place" }).fill("CN");
    await page.getByText("3 devices match now, 0 connected.").waitFor();
    await until(3, async () => (await ids(page)).length);
    await site.api("DELETE", "/v1/devices/lock000002");
    await page.getByText("2 devices match now, 0 connected.").waitFor();
    await page.getByRole("searchbox", { name: "Selector" }).fill("city in (");
    await page.getByRole("alert").waitFor();
    await page.getByRole("searchbox", { name: "Selector" }).fill("city notin (0)");
    await until(["lock000001"], () => ids(page));
  });
});

test("the table is live", async (t) => {
  const site = await startSite(t);
  await site.api("POST", "/v1/devices", { id: "lock1" });
  await visit(site, "/devices", {}, async (page) => {
    await page.getByRole("gridcell", { name: "never seen" }).waitFor();
    await site.report({ device_id: "lock1", data: 1 });
    await page.getByRole("gridcell", { name: "online" }).waitFor();
  });
});

test("a device is registered in the page, and a refusal is said there", async (t) => {
  const site = await startSite(t);
  await visit(site, "/devices", { expected: [/status of 4/] }, async (page) => {
    await page.getByText("No device yet").waitFor();
    await page.getByRole("button", { name: "Register a device" }).click();
    await page.getByLabel("Id", { exact: true }).fill("no good");
    await page.getByRole("button", { name: "Register", exact: true }).click();
    await page.getByRole("dialog").getByRole("alert").waitFor();
    await page.getByLabel("Id", { exact: true }).fill("probe1");
    await page.getByLabel("Kind", { exact: true }).last().fill("probe");
    await page.getByRole("dialog").getByLabel("Labels").fill(`site=12, note="${HOSTILE.replaceAll('"', "")}"`);
    await accessible(page);
    await page.getByRole("button", { name: "Register", exact: true }).click();
    await until(["probe1"], () => ids(page));
    const { kind, labels } = await site.api("GET", "/v1/devices/probe1");
    assert.deepEqual([kind, labels], ["probe", { site: "12", note: HOSTILE.replaceAll('"', "") }]);
    await page.getByText("<img src=x", { exact: false }).first().waitFor();
    assert.equal(await page.locator("main img").count(), 0);
  });
});

test("lines are imported, and each that was refused is said", async (t) => {
  const site = await startSite(t);
  await visit(site, "/devices", {}, async (page) => {
    await page.getByRole("button", { name: "Import" }).click();
    await page.getByLabel("or lines").fill('{"id":"lock1"}\n{"id":"lock 2"}\n{"id":"lock3"}');
    await page.getByRole("dialog").getByRole("button", { name: "Import" }).click();
    await page.getByText("2 registered").waitFor();
    await page.getByRole("cell", { name: "2", exact: true }).waitFor();
    await accessible(page);
    await page.getByRole("button", { name: "Close" }).click();
    await until(["lock1", "lock3"], () => ids(page));
  });
});

test("what is selected, and what matches, is labelled and deleted", async (t) => {
  const site = await startSite(t);
  await site.api("POST", "/v1/devices/import", lines(6, (i) => ({ labels: { site: String(i % 2) } })));
  const all = async () => (await site.api("GET", "/v1/devices")).items;
  await visit(site, "/devices", {}, async (page) => {
    await page.getByLabel("Select lock000000").check();
    await page.getByLabel("Labels to set").fill("checked=yes");
    await page.getByRole("button", { name: "Apply to 1 selected…" }).click();
    await page.getByText("1 matches.").waitFor();
    await page.getByRole("button", { name: "Label: 1 selected" }).click();
    await until(["lock000000"], async () => (await all()).filter(({ labels }) => labels.checked === "yes").map(({ id }) => id));
    await page.getByText("1 done, 0 refused").waitFor();
    await accessible(page);
    await page.getByRole("searchbox", { name: "Labels" }).fill("site=1");
    await until(["lock000001", "lock000003", "lock000005"], () => ids(page));
    await page.getByLabel("Action").selectOption({ label: "Delete" });
    await page.getByRole("button", { name: "Apply to all that match…" }).click();
    const go = page.getByRole("button", { name: "Delete: all that match" });
    await page.getByText("3 match.").waitFor();
    assert.equal(await go.isDisabled(), true);
    await page.getByRole("dialog").getByLabel("to confirm").fill("3");
    await go.click();
    await until(["lock000000", "lock000002", "lock000004"], async () => (await all()).map(({ id }) => id));
    await page.getByText("No device matches").waitFor();
  });
});

test("links of many devices are made and taken away", async (t) => {
  const site = await startSite(t);
  await site.api("POST", "/v1/devices/import", lines(3));
  await site.api("POST", "/v1/clients", { id: "acme", name: "Acme", url: "https://acme.example/hook" });
  const linked = async () => (await site.api("GET", "/v1/clients/acme/devices")).items.length;
  await visit(site, "/devices", {}, async (page) => {
    for (const [action, title, left] of [["Link to a client", "Link to a client: all that match", 3], ["Unlink from a client", "Unlink from a client: all that match", 0]]) {
      await page.getByLabel("Action").selectOption({ label: action });
      await page.getByLabel("Client", { exact: true }).fill("acme");
      await page.getByRole("button", { name: "Apply to all that match…" }).click();
      await page.getByText("3 match.").waitFor();
      await page.getByRole("button", { name: title }).click();
      await until(left, linked);
      await page.getByRole("button", { name: "Close" }).click();
    }
  });
});

test("a hundred thousand devices are scrolled through, with few of them in the page", async (t) => {
  const site = await startSite(t);
  for (let part = 0; part < 10; part += 1) {
    const some = Array.from({ length: 10_000 }, (_, i) => `{"id":"lock${String(part * 10_000 + i).padStart(6, "0")}"}`);
    await site.api("POST", "/v1/devices/import", some.join("\n"));
  }
  await visit(site, "/devices", {}, async (page) => {
    const grid = page.getByRole("grid", { name: "Devices" });
    await page.getByRole("link", { name: "lock000000" }).waitFor();
    await grid.focus();
    for (let n = 0; n < 20; n += 1) {
      await page.keyboard.press("End");
      await until(true, async () => Number((await page.locator(".foot").textContent()).replaceAll(",", "").match(/\d+/)[0]) >= (n + 2) * 200);
    }
    assert.ok((await page.locator("[role=row]").count()) < 80);
    await page.keyboard.press("Home");
    await page.getByRole("link", { name: "lock000000" }).waitFor();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.waitForURL("**/devices/lock000001");
  });
});

test("who may only look is offered nothing else", async (t) => {
  const site = await startSite(t, { tokens: TOKENS });
  await site.api("POST", "/v1/devices", { id: "lock1" });
  for (const [token, acts] of [["reader-token", 0], ["sender-token", 1]]) {
    await visit(site, "/devices", { token }, async (page) => {
      await until(["lock1"], () => ids(page));
      assert.equal(await page.getByRole("button", { name: "Register a device" }).count(), 0);
      assert.equal(await page.getByLabel("Action").count(), 0);
      assert.equal(await page.getByRole("link", { name: "Roll out a command…" }).count(), acts);
    });
  }
});

test("both themes and a narrow window can be read, also with long ids", async (t) => {
  const site = await startSite(t, { settings: "[devices]\nid_max_len = 64\n" });
  await site.api("POST", "/v1/devices", { id: "x".repeat(64), labels: { name: "שלום עולם", note: HOSTILE } });
  await readable(site, ["/devices"], (page) => page.getByRole("link", { name: "x".repeat(64) }).waitFor());
});
