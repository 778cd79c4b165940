/** Campaigns: made, changed, paused and deleted; their slots, results and coverage. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { accessible, readable, shared, startSite, undo, until, visit } from "./harness.mjs";
import { probes } from "./mqtt.mjs";
import { CAMPAIGN, campaignAnswers } from "./picks.mjs";

const site = shared((t) => startSite(t));

test("a campaign is made from its form", async () => {
  const made = [];
  const answers = { ...campaignAnswers(), "POST /v1/campaigns": (_, body) => (made.push(body), [201, CAMPAIGN]) };
  await visit(await site(), "/campaigns", { answers }, async (page) => {
    await page.getByRole("gridcell", { name: "100 every 5m" }).waitFor();
    await page.getByRole("gridcell", { name: "100 over 1h" }).waitFor();
    await page.getByRole("link", { name: "New campaign" }).click();
    await page.getByRole("textbox", { name: "Id" }).fill("ping");
    await page.getByRole("textbox", { name: /^Selector/ }).fill("kind=probe");
    await page.getByLabel("Payload").fill("1");
    await page.getByLabel("that many in all").check();
    await page.getByLabel("Over", { exact: false }).last().fill("2h");
    await page.getByLabel("Phase").fill("0s");
    await page.getByLabel("a panel").check();
    await page.getByLabel("Each result goes to").selectOption("queue");
    await page.getByText("Say where the results go.").waitFor();
    await page.getByLabel("Address").fill("shop/pings");
    await accessible(page);
    await page.getByRole("button", { name: "Create the campaign" }).click();
    await page.waitForURL("**/campaigns/ping");
    assert.deepEqual(made, [{ payload: 1, selector: "kind=probe", count: 10, over: "2h", id: "ping", phase: "0s", panel: true, results: { queue: "shop/pings" } }]);
  });
});

test("it is changed, paused, resumed, and deleted when its id is typed", async () => {
  const done = [];
  let now = CAMPAIGN;
  const turn = (status) => () => ((now = { ...now, status }), done.push(status), [204]);
  const answers = {
    ...campaignAnswers(),
    "GET /v1/campaigns/ping": () => now,
    "PATCH /v1/campaigns/ping": (_, body) => (done.push(body), (now = { ...now, count: 50, every: null, over: "1h" })),
    "POST /v1/campaigns/ping/pause": turn("paused"),
    "POST /v1/campaigns/ping/resume": turn("running"),
    "DELETE /v1/campaigns/ping": turn("deleted"),
  };
  await visit(await site(), "/campaigns/ping?tab=edit", { answers }, async (page) => {
    await page.getByLabel("How many to ask").fill("50");
    await page.getByLabel("that many in all").check();
    await page.getByLabel("Over", { exact: false }).last().fill("1h");
    await page.getByRole("textbox", { name: "Name", exact: true }).fill("");
    await page.getByRole("button", { name: "Save" }).click();
    await page.waitForURL("**/campaigns/ping?tab=settings");
    assert.deepEqual(done.shift(), { name: null, count: 50, every: null, over: "1h" });
    await page.getByText("50 over 1h").waitFor();
    await page.getByRole("button", { name: "Pause" }).click();
    await undo(page, "The campaign is paused.");
    await page.getByRole("button", { name: "Pause" }).waitFor();
    await page.getByRole("button", { name: "Delete" }).click();
    const go = page.getByRole("button", { name: "Delete the campaign" });
    assert.equal(await go.isDisabled(), true);
    await page.getByLabel("to confirm").fill("ping");
    await go.click();
    await page.waitForURL("**/campaigns");
    assert.deepEqual(done, ["paused", "running", "deleted"]);
  });
});

test("slots, results and coverage are shown", async () => {
  await visit(await site(), "/campaigns/ping", { answers: campaignAnswers() }, async (page) => {
    await page.getByText("skipped", { exact: true }).waitFor();
    await until(["20 of 100", "0 of 100", "95 of 100"], () => page.locator(".body").getByRole("gridcell", { name: /^\d+ of/ }).allTextContents());
    await page.getByRole("link", { name: "Results" }).click();
    await page.getByRole("button", { name: "Answer of probe003:" }).waitFor();
    await page.getByRole("link", { name: "Coverage" }).click();
    await page.getByRole("region", { name: "Devices by their picks" }).getByText("14 devices with 10 picks").waitFor({ state: "attached" });
    await page.getByLabel("Split by a label").fill("region");
    await page.keyboard.press("Enter");
    await page.getByRole("list", { name: "Picks by region" }).getByText("220 picks").waitFor();
    assert.equal(await page.locator("main img").count(), 0);
    await accessible(page);
  });
});

test("slots and results of devices are shown as they come", async (t) => {
  const site = await startSite(t);
  const ids = ["p1", "p2", "p3"];
  await site.api("POST", "/v1/devices/import", ids.map((id) => JSON.stringify({ id })).join("\n"));
  await probes(t, site, ids, (id) => ({ ok: true, result: id }));
  await visit(site, "/campaigns?new=yes", {}, async (page) => {
    await page.getByText("3 devices match now, 3 connected: the whole fleet.").waitFor();
    await page.getByRole("textbox", { name: "Id" }).fill("ping");
    await page.getByLabel("Payload").fill("1");
    await page.getByLabel("How many to ask").fill("2");
    await page.getByLabel("Every", { exact: false }).last().fill("1s");
    await page.getByRole("button", { name: "Create the campaign" }).click();
    await page.waitForURL("**/campaigns/ping");
    await until(true, async () => (await page.getByRole("gridcell", { name: "2 of 2" }).count()) >= 2);
    await page.getByRole("button", { name: "Pause" }).click();
    await until("paused", async () => (await site.api("GET", "/v1/campaigns/ping")).status);
    await page.getByRole("link", { name: "Results" }).click();
    await page.getByRole("button", { name: /^Answer of p\d: "p\d"/ }).first().waitFor();
    await page.getByRole("link", { name: "Coverage" }).click();
    await page.locator(".tile", { hasText: "eligible devices" }).getByText("3", { exact: true }).waitFor();
  });
});

test("both themes and a narrow window can be read", async () => {
  const paths = ["/campaigns", "/campaigns?new=yes", "/campaigns/ping", "/campaigns/ping?tab=coverage&by=region", "/campaigns/ping?tab=settings", "/campaigns/ping?tab=results"];
  const ready = (page) => page.locator("main :is([role=gridcell], fieldset, .tile, .facts)").first().waitFor();
  await readable(await site(), paths, ready, { answers: campaignAnswers() });
});
