/** One device: its state and chart, why something was told, links, labels, desired values, and its end. */
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { once } from "node:events";
import { test } from "node:test";
import { accessible, readable, startSite, undo, until, visit } from "./harness.mjs";

const HOSTILE = "<img src=x onerror=alert(1)>";
const PRIVATE = "[notify]\nallow_private = true\n";

async function answerNext(site, id, answer) {
  const { message_id } = await site.api("GET", `/v1/devices/${id}/poll?wait=10s`);
  await site.api("POST", `/v1/devices/${id}/ack`, { message_id, ...answer });
}

test("state is live, and a device that is not there is said so", async (t) => {
  const site = await startSite(t);
  await site.api("POST", "/v1/devices", { id: "lock1", address: "שלום עולם" });
  await visit(site, "/devices/lock1", {}, async (page) => {
    await page.getByText("none yet", { exact: true }).waitFor();
    await site.report({ device_id: "lock1", data: 1 });
    await page.getByRole("region", { name: "Value" }).getByText("1", { exact: true }).waitFor();
    await page.getByText("online").first().waitFor();
    await page.locator("section", { hasText: "Latest readings" }).getByText("changed").waitFor();
    await accessible(page);
  });
  await visit(site, "/devices/nobody", { expected: [/status of 404/] }, async (page) => {
    await page.getByRole("alert").waitFor();
    assert.equal(await page.getByRole("button", { name: "Delete" }).count(), 0);
  });
});

test("labels are set and taken away, with undo, and markup is text", async (t) => {
  const site = await startSite(t);
  await site.api("POST", "/v1/devices", { id: "lock1", labels: { note: HOSTILE } });
  const labels = async () => (await site.api("GET", "/v1/devices/lock1")).labels;
  await visit(site, "/devices/lock1", {}, async (page) => {
    await page.getByText(HOSTILE).waitFor();
    assert.equal(await page.locator("main img").count(), 0);
    await page.getByLabel("Labels to set").fill("site=12, floor=3");
    await page.getByRole("button", { name: "Set", exact: true }).click();
    await until({ floor: "3", note: HOSTILE, site: "12" }, labels);
    await page.getByRole("button", { name: "Undo" }).click();
    await until({ note: HOSTILE }, labels);
    await page.getByRole("button", { name: "Remove the label note" }).click();
    await until({}, labels);
    await page.getByRole("button", { name: "Undo" }).click();
    await until({ note: HOSTILE }, labels);
    await page.getByText(HOSTILE).waitFor();
  });
});

test("links are made and taken away, with undo", async (t) => {
  const site = await startSite(t);
  await site.api("POST", "/v1/devices", { id: "lock1" });
  await site.api("POST", "/v1/clients", { id: "acme", name: HOSTILE, url: "https://acme.example/hook" });
  const linked = async () => (await site.api("GET", "/v1/devices/lock1/clients")).items.map(({ id }) => id);
  await visit(site, "/devices/lock1", { expected: [/status of 404/] }, async (page) => {
    await page.getByLabel("Client to link").fill("nobody");
    await page.getByRole("button", { name: "Link", exact: true }).click();
    await page.locator(".toast.failed").waitFor();
    await page.getByLabel("Client to link").fill("acme");
    await page.getByRole("button", { name: "Link", exact: true }).click();
    await until(["acme"], linked);
    await page.getByText(HOSTILE).waitFor();
    await page.getByRole("button", { name: "Remove the link to acme" }).click();
    await until([], linked);
    await undo(page, "acme is unlinked.");
    await until(["acme"], linked);
  });
});

test("the chart covers the whole history, looks closer when it is asked to, and takes any number of the data", async (t) => {
  const site = await startSite(t);
  await site.api("POST", "/v1/devices", { id: "probe1", kind: "probe" });
  const [now, n] = [Date.now(), 300];
  await site.report(...Array.from({ length: n }, (_, i) => ({
    device_id: "probe1", ts: new Date(now - (n - i) * 60_000).toISOString(), data: { door: { open: i % 2 === 0 }, temperature: i / 10 },
  })));
  await visit(site, "/devices/probe1?tab=readings", {}, async (page) => {
    await page.getByText(`${n} readings in steps of`).waitFor();
    assert.equal(await page.getByRole("combobox", { name: "Value" }).inputValue(), "/temperature");
    await page.getByRole("combobox", { name: "Value" }).selectOption("/door/open");
    await page.waitForURL(/path=%2Fdoor%2Fopen/);
    const plot = await page.locator(".chart .u-over").boundingBox();
    await page.mouse.move(plot.x + plot.width * 0.5, plot.y + 20);
    await page.mouse.down();
    await page.mouse.move(plot.x + plot.width * 0.75, plot.y + 20, { steps: 5 });
    await page.mouse.up();
    await page.waitForURL(/from=.*to=/);
    await until(true, async () => {
      const [, seen] = /^(\d+) readings in steps of/.exec(await page.locator("section p.small").last().textContent()) ?? [];
      return Number(seen) > 60 && Number(seen) < 90;
    });
    await accessible(page);
    await page.reload();
    await page.getByRole("button", { name: "Whole history" }).click();
    await page.getByText(`${n} readings in steps of`).waitFor();
    await page.getByRole("button", { name: "Zoom in" }).click();
    await page.waitForURL(/from=.*to=/);
    await page.goBack();
    await page.getByText(`${n} readings in steps of`).waitFor();
  });
});

test("the timeline says why, in sentences, as it happens", async (t) => {
  const receiver = createServer((request, response) => request.resume().on("end", () => response.writeHead(500).end())).listen(0, "127.0.0.1");
  receiver.unref();
  t.after(() => receiver.close());
  await once(receiver, "listening");
  const site = await startSite(t, { settings: PRIVATE });
  await site.api("POST", "/v1/clients", { id: "acme", name: "Acme", url: `http://127.0.0.1:${receiver.address().port}/` });
  await site.api("POST", "/v1/devices", { id: "lock1" });
  await visit(site, "/devices/lock1?tab=timeline", {}, async (page) => {
    await page.getByText("Nothing yet").waitFor();
    await site.api("PUT", "/v1/devices/lock1/clients/acme");
    await page.getByText("Client acme is told of this device from here on.").waitFor();
    await site.report({ device_id: "lock1", data: 1 });
    await page.getByText("It reported its first value, 1: its clients are told.").waitFor();
    await page.getByText("A client was told, and refused it with 500").first().waitFor();
    await site.report({ device_id: "lock1", data: 0 });
    await page.getByText("Its value changed from 1 to 0: its clients are told.").waitFor();
    await accessible(page);
  });
});

test("events and commands of the device come as they happen", async (t) => {
  const site = await startSite(t);
  await site.api("POST", "/v1/devices", { id: "lock1" });
  await visit(site, "/devices/lock1?tab=events", {}, async (page) => {
    await page.getByText("No event yet").waitFor();
    await site.report({ device_id: "lock1", data: 1 });
    await page.getByRole("gridcell", { name: "changed" }).waitFor();
    await page.getByRole("navigation", { name: "Sections of the device" }).getByRole("link", { name: "Commands" }).click();
    await page.getByText("No command yet").waitFor();
    await site.api("POST", "/v1/devices/lock1/commands", { payload: { open: HOSTILE } });
    await page.getByRole("gridcell", { name: "scheduled" }).waitFor();
    await answerNext(site, "lock1", { ok: true });
    await page.getByRole("gridcell", { name: "acknowledged" }).waitFor();
    assert.equal(await page.locator("main img").count(), 0);
  });
});

test("a desired value is set, confirmed by the device, changed and taken back", async (t) => {
  const site = await startSite(t);
  await site.api("POST", "/v1/devices", { id: "lock1" });
  const desired = async () => (await site.api("GET", "/v1/devices/lock1/desired")).items.map((entry) => [entry.key, entry.desired]);
  await visit(site, "/devices/lock1?tab=desired", {}, async (page) => {
    await page.getByText("No desired values").waitFor();
    await page.getByLabel("Key", { exact: true }).fill("volume");
    await page.getByRole("textbox", { name: /^Value/ }).fill("{7");
    assert.equal(await page.getByRole("button", { name: "Set", exact: true }).isDisabled(), true);
    await page.getByRole("textbox", { name: /^Value/ }).fill("7");
    await page.getByRole("button", { name: "Set", exact: true }).click();
    await until([["volume", 7]], desired);
    await page.getByRole("cell", { name: "pending" }).waitFor();
    await answerNext(site, "lock1", { ok: true });
    await page.getByRole("cell", { name: "confirmed", exact: true }).waitFor();
    await accessible(page);
    await page.getByRole("button", { name: "Change volume" }).click();
    await page.getByRole("textbox", { name: /^Value/ }).fill('"loud"');
    await page.getByRole("button", { name: "Set", exact: true }).click();
    await until([["volume", "loud"]], desired);
    await undo(page, 'volume is set to "loud"');
    await until([["volume", 7]], desired);
    await page.getByRole("button", { name: "Delete volume" }).click();
    await until(true, async () => (await desired()).every(([, value]) => value === null));
  });
});

test("a device is changed, with undo, and deleted only when its id is typed", async (t) => {
  const site = await startSite(t);
  await site.api("POST", "/v1/devices", { id: "lock1", address: "1 Harbour St" });
  const address = async () => (await site.api("GET", "/v1/devices/lock1")).address;
  await visit(site, "/devices/lock1", {}, async (page) => {
    await page.getByRole("button", { name: "Edit" }).click();
    await page.getByLabel("Address").fill("2 Harbour St");
    await page.getByRole("button", { name: "Save" }).click();
    await until("2 Harbour St", address);
    await page.getByRole("button", { name: "Undo" }).click();
    await until("1 Harbour St", address);
    await page.getByRole("button", { name: "Delete", exact: true }).click();
    const go = page.getByRole("button", { name: "Delete the device" });
    await page.getByLabel("to confirm").fill("lock");
    assert.equal(await go.isDisabled(), true);
    await accessible(page);
    await page.getByLabel("to confirm").fill("lock1");
    await go.click();
    await page.waitForURL("**/console/devices");
    await until([], async () => (await site.api("GET", "/v1/devices")).items);
  });
});

test("tokens are shown and offered what they reach", async (t) => {
  const site = await startSite(t, {
    tokens: [{ name: "root-token", scopes: ["admin"] }, { name: "reader-token", scopes: ["read"] }, { name: "sender-token", scopes: ["commands"] }],
  });
  await site.api("POST", "/v1/devices", { id: "lock1" });
  const offered = { "reader-token": ["Readings", "Events", []], "sender-token": [undefined, undefined, ["Send a command"]] };
  for (const [token, [readings, events, buttons]] of Object.entries(offered)) {
    await visit(site, "/devices/lock1", { token }, async (page) => {
      const refused = [];
      page.on("response", (response) => response.status() === 403 && refused.push(response.url()));
      await page.getByRole("heading", { name: "State" }).waitFor();
      const parts = page.getByRole("navigation", { name: "Sections of the device" });
      for (const name of ["Readings", "Events"]) {
        assert.equal(await parts.getByRole("link", { name }).count(), [readings, events].includes(name) ? 1 : 0);
      }
      for (const name of ["Send a command", "Edit", "Delete", "Set", "Link"]) {
        assert.equal(await page.getByRole("button", { name, exact: true }).count(), buttons.includes(name) ? 1 : 0, `${token} ${name}`);
      }
      for (const name of ["Timeline", "Commands", "Desired values"]) await parts.getByRole("link", { name }).click();
      await page.getByText("No desired values").waitFor();
      assert.deepEqual(refused, []);
    });
  }
});

test("every part can be read in both themes and a narrow window", async (t) => {
  const site = await startSite(t);
  await site.api("POST", "/v1/devices", { id: "probe1", kind: "probe", labels: { note: "long ".repeat(20), name: "שלום" } });
  await site.report({ device_id: "probe1", data: { text: "x".repeat(500), value: 3 } });
  await site.api("PUT", "/v1/devices/probe1/desired/volume", { value: "y".repeat(500) });
  const paths = ["now", "readings", "events", "timeline", "commands", "desired"].map((tab) => `/devices/probe1?tab=${tab}`);
  await readable(site, paths, async (page) => {
    await page.getByRole("navigation", { name: "Sections of the device" }).waitFor();
    await page.locator("nav[aria-label='Sections of the device'] ~ *").first().waitFor();
  });
});
