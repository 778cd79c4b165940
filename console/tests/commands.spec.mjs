/** Commands: sent, watched until their end, cancelled and tried anew, one and many. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { accessible, readable, startSite, until, visit } from "./harness.mjs";

const HOSTILE = "<img src=x onerror=alert(1)>";

async function answerNext(site, id, answer) {
  const { message_id } = await site.api("GET", `/v1/devices/${id}/poll?wait=10s`);
  await site.api("POST", `/v1/devices/${id}/ack`, { message_id, ...answer });
}

const send = (site, id, more = {}) => site.api("POST", `/v1/devices/${id}/commands`, { payload: { open: true }, ...more });
const statuses = async (site) => (await site.api("GET", "/v1/commands?order=asc")).items.map(({ status }) => status);

test("a command is sent, and each of its steps is shown as it happens, to its result", async (t) => {
  const site = await startSite(t);
  await site.api("POST", "/v1/devices", { id: "lock1" });
  await visit(site, "/commands", { expected: [/status of 4/] }, async (page) => {
    await page.getByText("No command yet").waitFor();
    await page.getByRole("button", { name: "Send a command" }).click();
    const dialog = page.getByRole("dialog", { name: "Send a command" });
    await dialog.getByLabel("Device").fill("nobody");
    await dialog.getByLabel("Payload").fill("{open");
    assert.equal(await dialog.getByRole("button", { name: "Send" }).isDisabled(), true);
    await dialog.getByLabel("Payload").fill(`{"open": "${HOSTILE}"}`);
    await dialog.getByRole("button", { name: "Send" }).click();
    await dialog.getByRole("alert").waitFor();
    await dialog.getByLabel("Device").fill("lock1");
    await dialog.getByLabel("Expires after").fill("1h");
    await dialog.getByLabel("Origin").fill("shift plan 4");
    await dialog.getByLabel("Priority").fill("7");
    await accessible(page);
    await dialog.getByRole("button", { name: "Send" }).click();
    await page.waitForURL("**/commands/cmd_*");
    await page.getByText("A command was accepted and waits for its turn.").waitFor();
    const [sent] = (await site.api("GET", "/v1/commands")).items;
    assert.deepEqual([sent.payload, sent.origin, sent.priority], [{ open: HOSTILE }, "shift plan 4", 7]);
    const { message_id } = await site.api("GET", "/v1/devices/lock1/poll?wait=10s");
    await page.getByText("The command went out to the device.").waitFor();
    await site.api("POST", "/v1/devices/lock1/ack", { message_id, progress: { step: 1 } });
    await page.getByText("running", { exact: true }).waitFor();
    await page.getByRole("region", { name: "Progress" }).waitFor();
    await site.api("POST", "/v1/devices/lock1/ack", { message_id, ok: true, result: { door: "open" } });
    await page.getByText("The device carried out the command.").waitFor();
    await page.getByRole("region", { name: "Result" }).getByText('"door": "open"').waitFor();
    assert.equal(await page.getByRole("button", { name: "Cancel", exact: true }).count(), 0);
    assert.equal(await page.locator("main img").count(), 0);
    await accessible(page);
  });
});

test("a command is cancelled and tried anew", async (t) => {
  const site = await startSite(t);
  await site.api("POST", "/v1/devices", { id: "lock1" });
  const { id } = await send(site, "lock1");
  await visit(site, `/commands/${id}`, {}, async (page) => {
    await page.getByRole("button", { name: "Cancel", exact: true }).click();
    await page.getByRole("button", { name: "Cancel the command" }).click();
    await until(["cancelled"], () => statuses(site));
    await page.getByText("The command was cancelled.").waitFor();
    await page.getByRole("button", { name: "Retry" }).click();
    await until(["scheduled"], () => statuses(site));
    await page.getByRole("button", { name: "Cancel", exact: true }).waitFor();
  });
});

test("new commands come by themselves, and filters narrow them by the address", async (t) => {
  const site = await startSite(t);
  for (const id of ["lock1", "lock2"]) await site.api("POST", "/v1/devices", { id, labels: { site: id.slice(-1) } });
  const devices = (page) => page.locator(".body [role=row] a[href*='/devices/']").allTextContents();
  await send(site, "lock1", { origin: "shift plan 4" });
  await visit(site, "/commands", {}, async (page) => {
    await until(["lock1"], () => devices(page));
    await send(site, "lock2");
    await until(["lock2", "lock1"], () => devices(page));
    await page.getByRole("searchbox", { name: "Origin" }).fill("shift plan 4");
    await until(["lock1"], () => devices(page));
    await page.getByRole("button", { name: "Clear" }).click();
    await page.getByRole("searchbox", { name: "Labels of the device" }).fill("site=2");
    await page.waitForURL(/labels=site%3D2/);
    await until(["lock2"], () => devices(page));
    await page.getByRole("search").getByLabel("Status").selectOption("failed");
    await page.getByText("No command matches").waitFor();
    await accessible(page);
  });
});

test("all that match are counted by status, cancelled and tried anew; those that are selected too", async (t) => {
  const site = await startSite(t);
  for (const id of ["lock1", "lock2", "lock3"]) {
    await site.api("POST", "/v1/devices", { id });
    await send(site, id, { origin: id === "lock3" ? "by hand" : "plan" });
  }
  await visit(site, "/commands?origin=plan", {}, async (page) => {
    await page.getByRole("button", { name: "Count by status" }).click();
    await page.getByRole("button", { name: "scheduled 2" }).waitFor();
    await page.getByRole("button", { name: "Cancel all that match" }).click();
    await page.getByText("2 match.").waitFor();
    await page.getByRole("dialog").getByLabel("to confirm").fill("2");
    await page.getByRole("dialog").getByRole("button", { name: "Cancel commands" }).click();
    await until(["cancelled", "cancelled", "scheduled"], () => statuses(site));
    await page.getByText("2 done, 0 refused").waitFor();
    await page.getByRole("gridcell", { name: "cancelled" }).first().waitFor();
    await accessible(page);
    await page.locator(".body input[type=checkbox]").first().check();
    await page.getByRole("button", { name: "Retry 1 selected" }).click();
    await page.getByText("1 matches.").waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Retry commands" }).click();
    await until(["cancelled", "scheduled", "scheduled"], async () => (await statuses(site)).toSorted());
  });
});

test("a late answer is shown, and who may only look is offered nothing else", async (t) => {
  const site = await startSite(t, { tokens: [{ name: "root-token", scopes: ["admin"] }, { name: "reader-token", scopes: ["read"] }] });
  await site.api("POST", "/v1/devices", { id: "lock1" });
  const { id } = await send(site, "lock1");
  const { message_id } = await site.api("GET", "/v1/devices/lock1/poll?wait=10s");
  await site.api("DELETE", `/v1/commands/${id}`);
  await site.api("POST", "/v1/devices/lock1/ack", { message_id, ok: true, result: "done all the same" });
  await visit(site, `/commands/${id}`, { token: "reader-token" }, async (page) => {
    await page.getByText("the device carried it out after the end.").waitFor();
    for (const name of ["Cancel", "Retry", "Refresh"]) assert.equal(await page.getByRole("button", { name, exact: true }).count(), 0);
    await page.getByRole("link", { name: "Commands" }).first().click();
    await page.getByRole("gridcell", { name: "cancelled" }).waitFor();
    assert.equal(await page.getByRole("button", { name: /Cancel|Retry|Send|Count/ }).count(), 0);
  });
});

test("both themes and a narrow window can be read, also with long texts", async (t) => {
  const site = await startSite(t);
  await site.api("POST", "/v1/devices", { id: "lock1" });
  const { id } = await send(site, "lock1", { payload: { text: "x".repeat(2_000) }, origin: "שלום עולם".repeat(10), key: "k".repeat(200) });
  const ready = async (page) => {
    await page.locator("main h1").waitFor();
    await page.locator("main :is([role=gridcell], pre, [role=alert])").first().waitFor();
  };
  await readable(site, ["/commands", `/commands/${id}`, "/commands/cmd_nothing"], ready, { expected: [/status of 4/] });
});
