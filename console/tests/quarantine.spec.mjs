/** Refused reports: read as text, replayed, deleted. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { accessible, readable, startSite, until, visit } from "./harness.mjs";
import { HOSTILE } from "./receiver.mjs";

/** Hands in lines that are refused. */
function refuse(site, ...lines) {
  return site.api("POST", "/v1/reports", lines.map((line) => (typeof line === "string" ? line : JSON.stringify(line))).join("\n"));
}

function inQuarantine(site) {
  return async () => (await site.api("GET", "/v1/quarantine")).items.length;
}

test("a refused report is shown as it was received, and taken once its device is there", async (t) => {
  const site = await startSite(t);
  const report = { device_id: "lock1", data: 1, note: HOSTILE.markup };
  await visit(site, "/quarantine", { expected: [/status of 404/] }, async (page) => {
    await page.getByText("Nothing is in quarantine").waitFor();
    await accessible(page);
    await refuse(site, report);
    await page.getByRole("button", { name: "Refresh" }).click();
    await page.getByRole("link", { name: "unknown device" }).click();
    await page.waitForURL(/id=qua_/);
    const payload = page.getByRole("region", { name: "Payload" });
    assert.deepEqual(JSON.parse(await payload.textContent()), report);
    await accessible(page);
    await page.getByRole("button", { name: "Replay", exact: true }).click();
    await page.getByRole("status").getByText(/lock1 is not registered/).waitFor();
    await site.api("POST", "/v1/devices", { id: "lock1" });
    await page.getByRole("button", { name: "Replay", exact: true }).click();
    await page.getByText("The report was accepted.").waitFor();
    await until(1, async () => (await site.api("GET", "/v1/devices/lock1")).state.value);
    assert.notEqual(await page.title(), "taken");
  });
});

test("one is deleted by itself", async (t) => {
  const site = await startSite(t);
  await refuse(site, "garbage");
  const [{ id }] = (await site.api("GET", "/v1/quarantine")).items;
  await visit(site, `/quarantine?id=${id}`, {}, async (page) => {
    await page.getByRole("button", { name: "Delete", exact: true }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByText("Nothing is in quarantine").waitFor();
    assert.equal(await inQuarantine(site)(), 0);
  });
});

test("all that match are replayed, and those selected deleted", async (t) => {
  const site = await startSite(t);
  await refuse(site, { device_id: "lock1", data: 1 }, { device_id: "lock2", data: 1 }, "garbage");
  for (const id of ["lock1", "lock2"]) await site.api("POST", "/v1/devices", { id });
  await visit(site, "/quarantine", {}, async (page) => {
    await page.getByText("3 rows").waitFor();
    await page.getByRole("button", { name: "Replay all that match" }).click();
    await page.getByText("3 match.").waitFor();
    await accessible(page);
    await page.getByRole("button", { name: "Replay refused reports" }).click();
    const value = async (id) => (await site.api("GET", `/v1/devices/${id}`)).state.value;
    await until([1, 1], async () => [await value("lock1"), await value("lock2")]);
    await page.getByRole("region", { name: /^Operation/ }).getByText("done", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Close" }).click();
    await page.getByRole("link", { name: "unreadable" }).first().waitFor();
    const left = await inQuarantine(site)();
    // A list that begins anew forgets what was selected before.
    await page.getByText(`${left} row`).waitFor();
    await page.getByRole("checkbox").first().check();
    await page.getByRole("button", { name: "Delete 1 selected" }).click();
    await page.getByLabel("Type 1 to confirm").fill("1");
    await page.getByRole("button", { name: "Delete refused reports" }).click();
    await until(left - 1, inQuarantine(site));
  });
});

test("buttons are those that the token reaches", async (t) => {
  const tokens = ["admin", "operate", "read"].map((scope) => ({ name: `${scope}-token`, scopes: [scope] }));
  const site = await startSite(t, { tokens });
  await refuse(site, "garbage");
  for (const [token, names] of [["operate-token", ["Replay all that match"]], ["read-token", []]]) {
    await visit(site, "/quarantine", { token }, async (page) => {
      await page.getByText("1 row").waitFor();
      const shown = await page.locator("main").getByRole("button").allTextContents();
      assert.deepEqual(shown.map((name) => name.trim()).filter((name) => name !== "Refresh"), names);
    });
  }
});

test("quarantine can be read in both themes and narrow, with hostile texts", async (t) => {
  const site = await startSite(t);
  await refuse(site, ...Object.values(HOSTILE), { device_id: "lock1", data: HOSTILE.backwards });
  const { items } = await site.api("GET", "/v1/quarantine");
  await readable(site, items.map(({ id }) => `/quarantine?id=${id}`), async (page) => {
    await page.getByRole("region", { name: "Payload" }).waitFor();
    await page.getByText("4 rows").waitFor();
    assert.notEqual(await page.title(), "taken");
  });
});
