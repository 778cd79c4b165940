/** Rollouts: started with a count of whom they mean, watched, paused, approved and cancelled. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { accessible, readable, startSite, undo, until, visit } from "./harness.mjs";

const IDS = Array.from({ length: 10 }, (_, i) => `lock${i}`);

async function fleet(site) {
  const lines = IDS.map((id, i) => JSON.stringify({ id, labels: { site: i < 4 ? "12" : "13" } }));
  await site.api("POST", "/v1/devices/import", lines.join("\n"));
}

/** The device asks for what it is to do, and answers. */
async function answer(site, id, ok) {
  const polled = await site.api("GET", `/v1/devices/${id}/poll?wait=10s`);
  await site.api("POST", `/v1/devices/${id}/ack`, { message_id: polled.message_id, ok });
}

const rollout = (site, id) => site.api("GET", `/v1/rollouts/${id}`);
const status = (site, id) => async () => (await rollout(site, id)).status;

test("a rollout is started from its form, which counts whom it means before", async (t) => {
  const site = await startSite(t);
  await fleet(site);
  await visit(site, "/rollouts", { expected: [/status of 422/] }, async (page) => {
    await page.getByText("No rollout yet").waitFor();
    await page.getByRole("link", { name: "Start a rollout" }).click();
    await page.getByText("10 devices match now, 0 connected: the whole fleet.").waitFor();
    await page.getByRole("textbox", { name: /^Selector/ }).fill("site in (12)");
    await page.getByText("4 devices match now, 0 connected.").waitFor();
    await page.getByRole("textbox", { name: /^Selector/ }).fill("site in (12");
    await page.locator("p.bad").waitFor();
    await page.getByRole("textbox", { name: /^Selector/ }).fill("site=12, kind=lock");
    await page.getByText("4 devices match now, 0 connected.").waitFor();
    await page.getByLabel("Payload").fill('{"firmware": "7.1"}');
    await page.getByLabel("Commands a minute").fill("600");
    await page.getByLabel("Unanswered at a time").fill("5");
    await page.getByRole("button", { name: "Add a stage" }).click();
    await page.getByLabel("Up to % of devices").fill("7");
    await page.getByLabel("Soak time").fill("eternity");
    await page.getByLabel("needs approval").check();
    await page.getByLabel("Window, as cron").fill("* * * * *");
    await page.getByLabel("Open for").fill("1h");
    await page.getByLabel("Stop if more than").fill("10");
    await page.getByLabel("of at least this many ended").fill("5");
    await page.getByRole("textbox", { name: /^Id/ }).fill("firmware-7-1");
    await accessible(page);
    await page.getByRole("button", { name: "Start…" }).click();
    const dialog = page.getByRole("dialog", { name: "Start the rollout" });
    await dialog.getByText("4 devices match now, 0 connected.").waitFor();
    await accessible(page);
    await dialog.getByRole("button", { name: "Start the rollout" }).click();
    await dialog.getByRole("alert").waitFor();
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await page.getByLabel("Soak time").fill("1m");
    await page.getByRole("button", { name: "Start…" }).click();
    await dialog.getByRole("button", { name: "Start the rollout" }).click();
    await page.waitForURL("**/rollouts/firmware-7-1");
    const { devices, stage } = await rollout(site, "firmware-7-1");
    assert.deepEqual([devices, stage], [4, 1]);
    // The very same rollout by the API: what the form sent is what was meant.
    const same = {
      payload: { firmware: "7.1" }, selector: "site=12, kind=lock", rate: 600, in_flight: 5, stages: [{ share: 0.07, soak: "1m", approve: true }],
      window: { cron: "* * * * *", for: "1h" }, stop: { failed_share: 0.1, after: 5 },
    };
    assert.equal((await site.api("PUT", "/v1/rollouts/firmware-7-1", same)).id, "firmware-7-1");
    await page.getByRole("link", { name: "Rollouts" }).first().click();
    await page.getByRole("link", { name: "firmware-7-1" }).waitFor();
    await site.api("PUT", "/v1/rollouts/another", { payload: 1, devices: ["lock9"] });
    await page.getByRole("link", { name: "another" }).waitFor();
    await answer(site, "lock9", true);
    await page.getByRole("img", { name: "1 acknowledged" }).waitFor();
  });
});

test("its progress is followed, device by device", async (t) => {
  const site = await startSite(t);
  await fleet(site);
  await site.api("PUT", "/v1/rollouts/try", { payload: 1, devices: IDS.slice(0, 3) });
  await visit(site, "/rollouts/try", {}, async (page) => {
    await page.getByRole("img", { name: "3 waiting" }).waitFor();
    await answer(site, "lock0", true);
    await page.getByRole("img", { name: "1 acknowledged, 2 waiting" }).waitFor();
    await answer(site, "lock1", false);
    await page.getByRole("img", { name: "1 acknowledged, 1 failed, 1 waiting" }).waitFor();
    await page.getByRole("gridcell", { name: "failed" }).waitFor();
    await accessible(page);
    await page.getByLabel("Device status").selectOption("acknowledged");
    await page.waitForURL("**/rollouts/try?status=acknowledged");
    await until(["lock0"], () => page.locator(".body a[href*='/devices/']").allTextContents());
    await answer(site, "lock2", true);
    await page.getByText("done", { exact: true }).waitFor();
    assert.equal(await page.getByRole("button", { name: "Pause" }).count(), 0);
  });
});

test("it is paused, resumed, and cancelled when its id is typed", async (t) => {
  const site = await startSite(t);
  await fleet(site);
  await site.api("PUT", "/v1/rollouts/try", { payload: 1, selector: "" });
  await visit(site, "/rollouts/try", {}, async (page) => {
    await page.getByText("every device").waitFor();
    await page.getByRole("button", { name: "Pause" }).click();
    await until("paused", status(site, "try"));
    await page.getByRole("button", { name: "Resume" }).click();
    await until("running", status(site, "try"));
    await page.getByRole("button", { name: "Pause" }).click();
    await until("paused", status(site, "try"));
    await undo(page, "The rollout is paused.");
    await until("running", status(site, "try"));
    await page.getByRole("button", { name: "Cancel", exact: true }).click();
    const go = page.getByRole("button", { name: "Cancel the rollout" });
    assert.equal(await go.isDisabled(), true);
    await page.getByLabel("to confirm").fill("try");
    await go.click();
    await until("cancelled", status(site, "try"));
    await page.getByRole("img", { name: "10 cancelled" }).waitFor();
  });
});

test("a rollout says what it waits for, and only an approval is asked for", async (t) => {
  const site = await startSite(t);
  const zero = { devices: 4, waiting: 2, scheduled: 0, published: 0, acknowledged: 2, failed: 0, expired: 0, superseded: 0, cancelled: 0 };
  for (const [waits_for, said, approvals] of [["soak", "its soak time to pass", 0], ["window", "its window to open", 0], ["approval", "somebody to approve it", 1]]) {
    const answers = {
      "GET /v1/rollouts/try": () => ({ ...zero, id: "try", status: "waiting", waits_for, stage: 1, created_at: "2026-11-22T12:00:00.000Z" }),
      "GET /v1/rollouts/try/devices": () => ({ items: [], next_cursor: null }),
    };
    await visit(site, "/rollouts/try", { answers }, async (page) => {
      await page.getByText(said).waitFor();
      assert.equal(await page.getByRole("button", { name: "Approve stage 1" }).count(), approvals);
    });
  }
});

test("a stage that waits is approved", async (t) => {
  const site = await startSite(t);
  await fleet(site);
  const ids = IDS.slice(0, 4);
  await site.api("PUT", "/v1/rollouts/try", { payload: 1, devices: ids, stages: [{ share: 0.5, approve: true }] });
  await visit(site, "/rollouts/try", {}, async (page) => {
    // Those of the stage are told at once, the others when it is approved.
    const answering = Promise.all(ids.map(async (id) => {
      const polled = await site.api("GET", `/v1/devices/${id}/poll?wait=60s`);
      if (polled !== undefined) await site.api("POST", `/v1/devices/${id}/ack`, { message_id: polled.message_id, ok: true });
    }));
    // If the page fails first, the server ends before it answers; otherwise this is awaited below.
    answering.catch(() => {});
    await page.getByRole("img", { name: "2 acknowledged, 2 waiting" }).waitFor();
    await page.getByRole("button", { name: "Approve stage 1" }).click();
    await until(null, async () => (await rollout(site, "try")).stage);
    await page.getByRole("button", { name: "Approve stage 1" }).waitFor({ state: "detached" });
    await answering;
  });
});

test("selected devices start a rollout by id, and who may only look is offered none", async (t) => {
  const site = await startSite(t, { tokens: [{ name: "root-token", scopes: ["admin"] }, { name: "reader-token", scopes: ["read"] }] });
  await fleet(site);
  await site.api("PUT", "/v1/rollouts/try", { payload: 1, selector: "" });
  await visit(site, "/devices", { token: "root-token" }, async (page) => {
    await page.getByLabel("Select lock1").check();
    await page.getByLabel("Select lock3").check();
    await page.getByRole("link", { name: "Roll out a command…" }).click();
    await page.getByText("2 devices are listed.").waitFor();
    await page.getByLabel("Payload").fill("1");
    await page.getByRole("button", { name: "Start…" }).click();
    await page.getByRole("dialog", { name: "Start the rollout" }).getByRole("button", { name: "Start the rollout" }).click();
    await page.getByRole("img", { name: "2 waiting" }).waitFor();
    await until(["lock1", "lock3"], async () => (await page.locator(".body a[href*='/devices/']").allTextContents()).toSorted());
  });
  await visit(site, "/rollouts/try?start=yes", { token: "reader-token" }, async (page) => {
    await page.getByRole("img", { name: "10 waiting" }).waitFor();
    assert.equal(await page.getByRole("button", { name: /Pause|Cancel|Approve|Resume/ }).count(), 0);
    await page.goto(`${site.url}/console/rollouts?start=yes`);
    await page.getByRole("link", { name: "try" }).waitFor();
    assert.equal(await page.getByText("Start a rollout").count(), 0);
  });
});

test("both themes and a narrow window can be read", async (t) => {
  const site = await startSite(t);
  await fleet(site);
  const id = "a".repeat(64);
  await site.api("PUT", `/v1/rollouts/${id}`, { payload: 1, selector: "", origin: "שלום עולם <b>bold</b>" });
  const ready = (page) => page.locator("main :is([role=gridcell], fieldset, [role=alert])").first().waitFor();
  await readable(site, ["/rollouts", `/rollouts/${id}`, "/rollouts?start=yes", "/rollouts/nothing"], ready, { expected: [/status of 404/] });
});
