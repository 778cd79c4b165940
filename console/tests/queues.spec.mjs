/** Queues, jobs and dead letters, and everything that is done with them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { accessible, readable, startSite, undo, until, visit } from "./harness.mjs";
import { HOSTILE } from "./receiver.mjs";

const TOKENS = [
  { name: "root-token", scopes: ["admin"] },
  { name: "shop-token", scopes: ["jobs:shop"] },
  { name: "reader-token", scopes: ["read"] },
];
const MAILS = "/v1/queues/shop/mails";

async function publish(site, jobs, queue = MAILS) {
  return (await site.api("POST", `${queue}/jobs`, { jobs })).jobs.map(({ id }) => id);
}

/** A queue that is busy, in place of the server's. */
const busy = {
  "GET /v1/live": () => new Promise(() => {}),
  "GET /v1/queues/shop/mails": () => ({
    namespace: "shop", queue: "mails", scheduled: 0, ready: 7, reserved: 2, dead: 0, oldest_ready_ms: null, oldest_ready_at: null,
    rates: { published: 12.25, consumed: 11.5, acked: 11 }, paused: false, settings: {},
  }),
};

/** As many dead letters as there are `[payload, error]`. */
async function bury(site, letters) {
  await publish(site, letters.map(([payload]) => ({ payload })));
  const { jobs } = await site.api("POST", `${MAILS}/consume`, { max: letters.length });
  for (const { id, reservation, payload } of jobs) {
    const [, error] = letters.find(([of]) => JSON.stringify(of) === JSON.stringify(payload));
    await site.api("POST", `${MAILS}/jobs/${id}/release`, { reservation, error });
  }
}

function figure(site, name) {
  return async () => (await site.api("GET", MAILS))[name];
}

test("the rates of a queue are beside its figures", async (t) => {
  const site = await startSite(t);
  await visit(site, "/queues/shop/mails", { answers: busy }, async (page) => {
    await until(["12.3", "11.5", "11"], () => page.locator(".tile", { hasText: "/s" }).locator("dd").allTextContents());
  });
});

test("figures of queues move, and a queue is found by its namespace", async (t) => {
  const site = await startSite(t);
  await visit(site, "/queues", {}, async (page) => {
    await page.getByText("No queue yet").waitFor();
    await accessible(page);
    await page.getByRole("button", { name: "Publish a job" }).click();
    await page.getByLabel("Namespace").last().fill("shop");
    await page.getByLabel("Queue", { exact: true }).fill("mails");
    await page.getByLabel("Payload, as JSON").fill('{"to": "somebody"}');
    await accessible(page);
    await page.getByRole("button", { name: "Publish", exact: true }).click();
    await page.getByRole("link", { name: "shop/mails" }).waitFor();
    assert.deepEqual((await site.api("GET", `${MAILS}/jobs`)).items[0].payload, { to: "somebody" });
    const ready = page.locator("[role=row]", { has: page.getByRole("link", { name: "shop/mails" }) }).getByRole("gridcell").nth(1);
    await until("1", async () => (await ready.textContent()).trim());
    await publish(site, [{ payload: 2 }, { payload: 3 }]);
    await until("3", async () => (await ready.textContent()).trim());
    // It waits, and its figures do not change: how long it has waited does.
    await page.getByRole("gridcell", { name: /^[1-9]\d* s$/ }).waitFor();
    await page.getByLabel("Namespace").first().fill("other");
    await page.waitForURL("**/console/queues?namespace=other");
    await page.getByText("No queue in this namespace").waitFor();
  });
});

test("a queue is paused, resumed, set and deleted", async (t) => {
  const site = await startSite(t);
  await publish(site, [{ payload: 1 }]);
  await visit(site, "/queues/shop/mails", {}, async (page) => {
    await page.getByRole("button", { name: "Pause" }).click();
    await until(true, figure(site, "paused"));
    await page.getByRole("button", { name: "Resume" }).click();
    await until(false, figure(site, "paused"));
    await undo(page, "The queue hands out jobs again.");
    await until(true, figure(site, "paused"));

    await page.getByRole("button", { name: "Settings" }).click();
    const shown = ["Maximum jobs", "Maximum dead letters"].map((name) => page.getByLabel(name).getAttribute("placeholder"));
    assert.deepEqual(await Promise.all(shown), ["no limit", "1,000,000"]);
    await page.getByLabel("Order").selectOption("lifo");
    await page.getByLabel("Reserved jobs at a time").fill("7");
    await page.getByLabel("Dead letters are kept for").fill("2d");
    await accessible(page);
    await page.getByRole("button", { name: "Save" }).click();
    const set = async () => {
      const { order, concurrency, dead_max_age, rate } = (await site.api("GET", MAILS)).settings;
      return [order, concurrency, dead_max_age, rate];
    };
    await until(["lifo", 7, "2d", null], set);
    await undo(page, "The settings are in force.");
    await until(["fifo", null, null, null], set);

    await page.getByRole("button", { name: "Delete the queue" }).click();
    await page.getByLabel("Type shop/mails to confirm").fill("shop/mails");
    await page.getByRole("dialog").getByRole("button", { name: "Delete the queue" }).click();
    await page.getByText("No queue yet").waitFor();
    assert.deepEqual((await site.api("GET", "/v1/queues")).items, []);
  });
});

test("workers are told to run, drain and stop, how many jobs they may have, and anything else", async (t) => {
  const site = await startSite(t, { tokens: TOKENS });
  let control;
  const answers = {
    "GET /v1/queues/shop/mails/control": () => control ?? [404, { code: "unknown_control", detail: "nothing was told" }],
    "PUT /v1/queues/shop/mails/control": (_, body) => ((control = body), [204, undefined]),
    "DELETE /v1/queues/shop/mails/control": () => ((control = undefined), [204, undefined]),
  };
  const tab = "/queues/shop/mails?tab=workers";
  await visit(site, tab, { answers, token: "shop-token", expected: [/status of 404/] }, async (page) => {
    const told = page.getByRole("region", { name: "What workers are told" });
    await told.getByText("nothing: they run as they were started").waitFor();
    await accessible(page);
    await page.getByRole("button", { name: "Drain" }).click();
    await told.getByText("workers finish the jobs they have, and take no more").waitFor();
    assert.deepEqual(control, { state: "drain" });
    await undo(page, "Workers are told to drain.");
    await told.getByText("nothing: they run as they were started").waitFor();

    await page.getByRole("button", { name: "Change" }).click();
    const dialog = page.getByRole("dialog");
    await page.getByLabel("State").selectOption("stop");
    await page.getByLabel("Jobs that a worker has at a time, at most").fill("4");
    await page.getByLabel("Data, as JSON").fill("not json");
    await dialog.getByRole("button", { name: "Save" }).click();
    await dialog.getByText("The data is no JSON").waitFor();
    await page.getByLabel("Data, as JSON").fill(JSON.stringify({ note: HOSTILE.markup }));
    await accessible(page);
    await dialog.getByRole("button", { name: "Save" }).click();
    await told.getByText("Each has at most 4 jobs at a time.").waitFor();
    await told.getByText("<img src=x").waitFor();
    assert.deepEqual(control, { state: "stop", max_in_flight: 4, data: { note: HOSTILE.markup } });
    assert.notEqual(await page.title(), "taken");
    // Another state leaves the rest as it is.
    await page.getByRole("button", { name: "Run" }).click();
    await until({ state: "run", max_in_flight: 4, data: { note: HOSTILE.markup } }, () => control);
    await page.getByRole("button", { name: "Clear" }).click();
    await told.getByText("nothing: they run as they were started").waitFor();
    await undo(page, "Workers are told nothing any more.");
    await told.getByText("Each has at most 4 jobs at a time.").waitFor();
  });
  await visit(site, tab, { answers, token: "reader-token" }, async (page) => {
    await page.getByText("Each has at most 4 jobs at a time.").waitFor();
    for (const name of ["Drain", "Stop", "Change", "Clear"]) assert.equal(await page.getByRole("button", { name, exact: true }).count(), 0, name);
  });
  await readable(site, [tab], (page) => page.getByText("Each has at most").waitFor(), { answers, token: "root-token" });
});

test("a job is published by hand with all that it can have", async (t) => {
  const site = await startSite(t);
  await visit(site, "/queues/shop/mails", {}, async (page) => {
    const form = page.getByRole("dialog");
    const begin = async (payload) => {
      await page.getByRole("button", { name: "Publish a job" }).click();
      await page.getByLabel("Payload, as JSON").fill(payload);
    };
    const send = () => form.getByRole("button", { name: "Publish", exact: true }).click();
    await begin("not json");
    await send();
    await form.getByRole("alert").getByText("The payload is no JSON").waitFor();
    await page.getByLabel("Payload, as JSON").fill(JSON.stringify(HOSTILE.markup));
    await page.getByLabel("Runs").selectOption("delay");
    await page.getByRole("textbox", { name: "Delay" }).fill("1h");
    await page.getByLabel("Tries").fill("3");
    await page.getByLabel("Group").fill("g1");
    await page.getByLabel("Alias").fill("nightly");
    await send();
    await until(1, figure(site, "scheduled"));
    const [job] = (await site.api("GET", `${MAILS}/jobs`)).items;
    assert.deepEqual([job.payload, job.tries, job.group, job.alias], [HOSTILE.markup, 3, "g1", "nightly"]);
    await begin("1");
    await page.getByLabel("Runs").selectOption("every");
    await page.getByRole("textbox", { name: "Every" }).fill("15m");
    await page.getByLabel("Runs in total").fill("4");
    await send();
    await until(2, figure(site, "scheduled"));
    await begin("2");
    await page.getByLabel("Runs").selectOption("cron");
    await page.getByRole("textbox", { name: "Cron" }).fill("0 7 * * *");
    await page.getByLabel("Time zone").fill("Europe/Vienna");
    await send();
    await until(3, figure(site, "scheduled"));
    const recurring = (await site.api("GET", `${MAILS}/jobs`)).items.map(({ every, cron, tz }) => every ?? `${cron} ${tz}`);
    assert.deepEqual(recurring.filter((text) => !text.startsWith("undefined")).sort(), ["0 7 * * * Europe/Vienna", "15m"]);
    assert.notEqual(await page.title(), "taken");
  });
});

test("a job is shown, put off, changed and cancelled", async (t) => {
  const site = await startSite(t);
  const [id] = await publish(site, [{ payload: { to: "ann" }, delay: "1h" }]);
  const job = async () => site.api("GET", `${MAILS}/jobs/${id}`);
  await visit(site, "/queues/shop/mails?state=scheduled", {}, async (page) => {
    await page.getByRole("link", { name: /^scheduled, / }).click();
    await page.waitForURL(`**/console/queues/shop/mails/jobs/${id}`);
    const before = (await job()).run_at;
    await page.getByRole("button", { name: "Change the time" }).click();
    await page.getByLabel("Delay from now").fill("5h");
    await accessible(page);
    await page.getByRole("button", { name: "Change", exact: true }).click();
    await until(true, async () => Date.parse((await job()).run_at) - Date.parse(before) > 3.9 * 3_600_000);
    await page.getByRole("button", { name: "Undo" }).click();
    await until(before, async () => (await job()).run_at);
    await page.getByRole("button", { name: "Change the payload" }).click();
    await page.getByLabel("Payload, as JSON").fill('{"to": "bob"}');
    await page.getByRole("button", { name: "Change", exact: true }).click();
    await until({ to: "bob" }, async () => (await job()).payload);
    await page.getByRole("button", { name: "Cancel the job" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Cancel the job" }).click();
    await page.getByText("No job waits here").waitFor();
    await until(0, figure(site, "scheduled"));
  });
});

test("jobs are deleted as they are selected, or all that match", async (t) => {
  const site = await startSite(t);
  await publish(site, [{ payload: 1 }, { payload: 2 }, { payload: 3 }, { payload: 4, delay: "1h" }]);
  await visit(site, "/queues/shop/mails?state=ready", {}, async (page) => {
    await page.getByText("3 rows").waitFor();
    await page.getByRole("checkbox").first().check();
    await page.getByRole("button", { name: "Delete 1 selected" }).click();
    await page.getByLabel("Type 1 to confirm").fill("1");
    await page.getByRole("button", { name: "Delete jobs" }).click();
    await until(2, figure(site, "ready"));
    await page.getByText("2 rows").waitFor();
    await page.getByRole("button", { name: "Delete all that match" }).click();
    await page.getByLabel("Type 2 to confirm").fill("2");
    await page.getByRole("button", { name: "Delete jobs" }).click();
    await until(0, figure(site, "ready"));
    await page.getByText("No job is ready").waitFor();
    assert.equal(await figure(site, "scheduled")(), 1);
  });
});

test("dead letters are found by their errors, respawned and deleted", async (t) => {
  const site = await startSite(t);
  await bury(site, [["a", "no route to host"], ["b", "no route to host"], ["c", HOSTILE.markup], [{ to: "dora" }, null], ["e", "no address"]]);
  await visit(site, "/queues/shop/mails/dead", {}, async (page) => {
    await page.waitForURL("**/console/queues/shop/mails?tab=dead");
    await page.getByText("5 rows").waitFor();
    await page.getByRole("link", { name: HOSTILE.markup }).click();
    await page.waitForURL(/letter=/);
    const letter = page.getByRole("region", { name: "Dead letter" });
    await letter.getByText(HOSTILE.markup).waitFor();
    await accessible(page);
    await page.reload();
    await letter.getByRole("button", { name: "Respawn" }).click();
    await until([4, 1], async () => [await figure(site, "dead")(), await figure(site, "ready")()]);
    await page.getByText("4 rows").waitFor();

    await page.getByLabel("Error contains").fill("no route");
    await page.getByText("2 rows").waitFor();
    await page.getByRole("button", { name: "Respawn all that match" }).click();
    await page.getByText("2 match.").waitFor();
    await page.getByRole("button", { name: "Respawn dead letters" }).click();
    await until([2, 3], async () => [await figure(site, "dead")(), await figure(site, "ready")()]);
    await page.getByText("No dead letter matches").waitFor();

    await page.getByRole("button", { name: "Clear" }).click();
    await page.getByText("2 rows").waitFor();
    await page.getByLabel("Payload contains").fill("dora");
    await page.getByText("1 row").waitFor();
    await page.getByRole("checkbox").first().check();
    await page.getByRole("button", { name: "Delete 1 selected" }).click();
    await page.getByLabel("Type 1 to confirm").fill("1");
    await page.getByRole("button", { name: "Delete dead letters" }).click();
    await until(1, figure(site, "dead"));
    assert.notEqual(await page.title(), "taken");
  });
});

test("a token of one namespace works on its queues, and asks for no other", async (t) => {
  const site = await startSite(t, { tokens: TOKENS });
  await bury(site, [["dead", "broken"]]);
  await publish(site, [{ payload: 1 }], "/v1/queues/other/mails");
  const refused = [];
  await visit(site, "/queues", { token: "shop-token" }, async (page) => {
    page.on("response", (response) => response.status() === 403 && refused.push(response.url()));
    await page.getByRole("link", { name: "shop/mails" }).click();
    await page.getByRole("link", { name: /^Dead letters/ }).click();
    await page.getByRole("button", { name: "Respawn all that match" }).click();
    await page.getByRole("button", { name: "Respawn dead letters" }).click();
    await until(0, figure(site, "dead"));
    await page.getByRole("region", { name: /^Operation/ }).getByText("done", { exact: true }).waitFor();
    assert.equal(await page.getByRole("link", { name: "Clients" }).count(), 0);
    assert.deepEqual(refused, []);
  });
});

test("a reader sees queues, and no button that changes them", async (t) => {
  const site = await startSite(t, { tokens: TOKENS });
  const [id] = await publish(site, [{ payload: 1 }]);
  for (const [path, shown] of [["/queues", "1 row"], ["/queues/shop/mails", "1 row"], [`/queues/shop/mails/jobs/${id}`, "Payload"]]) {
    await visit(site, path, { token: "reader-token" }, async (page) => {
      await page.getByText(shown, { exact: true }).waitFor();
      const names = await page.locator("main").getByRole("button").allTextContents();
      assert.deepEqual(names.filter((name) => !["Refresh", "Clear", "Copy"].includes(name)), [], path);
    });
  }
});

test("queues can be read in both themes and narrow, with hostile texts", async (t) => {
  const site = await startSite(t);
  const name = "q".repeat(200);
  const [id] = await publish(site, [{ payload: HOSTILE.markup, alias: HOSTILE.backwards, group: HOSTILE.long, delay: "1h" }], `/v1/queues/shop/${name}`);
  await bury(site, [["a", HOSTILE.long]]);
  const paths = ["/queues", `/queues/shop/${name}`, `/queues/shop/${name}/jobs/${id}`, "/queues/shop/mails?tab=dead", "/queues/shop/mails?tab=chart"];
  await readable(site, paths, async (page, path) => {
    await page.getByText(path === "/queues" ? "2 rows" : /^shop\//).first().waitFor();
    await page.locator("main :is([role=grid], pre, .empty, canvas)").first().waitFor();
    assert.notEqual(await page.title(), "taken");
  });
});
