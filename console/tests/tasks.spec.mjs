/** Tasks: devices are asked from the form, and each answer is shown. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { accessible, readable, shared, startSite, until, visit } from "./harness.mjs";
import { probes } from "./mqtt.mjs";
import { HOSTILE_TEXT, TASK, taskAnswers } from "./picks.mjs";

const site = shared((t) => startSite(t));

test("devices are asked from the form, which counts whom it may ask", async () => {
  const asked = [];
  const answers = { ...taskAnswers(), "POST /v1/tasks": (_, body) => (asked.push(body), asked.length === 1 ? [403, { code: "forbidden_class", detail: "`class` is not this token's" }] : [201, TASK]) };
  await visit(await site(), "/tasks?place=CN_52", { answers, expected: [/status of 403/] }, async (page) => {
    await page.getByText("12,345 devices match now, 9,876 connected.").waitFor();
    await page.getByRole("textbox", { name: /^Selector/ }).fill("kind=probe");
    await page.getByLabel("Payload").fill('{"op": "ping"}');
    await page.getByLabel("How many to ask").fill("5");
    await page.getByLabel("Spread by").fill("operator");
    await page.getByLabel("Class").selectOption("large");
    await page.getByLabel("Deadline").fill("20s");
    await page.getByLabel("Beside another task").selectOption("not_as");
    await page.getByText("Name the other task.").waitFor();
    await page.getByLabel("That task").fill("tsk_00");
    await accessible(page);
    await page.getByRole("button", { name: "Ask…" }).click();
    const dialog = page.getByRole("dialog", { name: "Ask devices now" });
    await dialog.getByText("9,876 connected").waitFor();
    await dialog.getByRole("button", { name: "Ask 5" }).click();
    await dialog.getByRole("alert").getByText("is not this token's").waitFor();
    await dialog.getByRole("button", { name: "Ask 5" }).click();
    await page.waitForURL("**/tasks/tsk_01");
    assert.deepEqual(asked[1], {
      payload: { op: "ping" }, selector: "kind=probe", place: "CN_52", count: 5, class: "large", spread_by: "operator", deadline: "20s", not_as: "tsk_00",
    });
    await page.getByRole("img", { name: "2 answered, 1 failed, 1 expired, 2 asked" }).waitFor();
    await page.getByRole("link", { name: "Tasks" }).first().click();
    await page.getByRole("region", { name: "Asked in this tab" }).getByRole("link", { name: "tsk_01" }).waitFor();
  });
});

test("answers are shown as text, with the reason where there is none", async () => {
  await visit(await site(), "/tasks/tsk_01", { answers: taskAnswers() }, async (page) => {
    await page.getByRole("button", { name: "Answer of probe002: no answer (late answer)" }).waitFor();
    await page.getByRole("button", { name: "Answer of probe004:" }).click();
    const dialog = page.getByRole("dialog", { name: "Answer of probe004" });
    await dialog.getByText(HOSTILE_TEXT.replaceAll('"', '\\"')).waitFor();
    assert.equal(await page.locator("main img, dialog img").count(), 0);
    await accessible(page);
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "Answer of probe002:" }).click();
    await page.getByRole("dialog").getByText("After the end the device carried it out.").waitFor();
  });
});

test("answers of devices are shown as they come, and a task is cancelled", async (t) => {
  const site = await startSite(t);
  const ids = ["p1", "p2", "p3", "p4"];
  await site.api("POST", "/v1/devices/import", ids.map((id) => JSON.stringify({ id })).join("\n"));
  const held = [];
  await probes(t, site, ids, (id, { op }) => {
    if (op === "wait") return void held.push(id);
    return { ok: id !== "p4", result: { from: id } };
  });
  await visit(site, "/tasks", {}, async (page) => {
    await page.getByText("4 devices match now, 4 connected: the whole fleet.").waitFor();
    await page.getByLabel("Payload").fill('{"op": "ping"}');
    await page.getByLabel("How many to ask").fill("4");
    await page.getByRole("button", { name: "Ask…" }).click();
    await page.getByRole("button", { name: "Ask 4" }).click();
    await page.getByRole("img", { name: "3 answered, 1 failed" }).waitFor();
    await page.getByText("done", { exact: true }).waitFor();
    await until(ids, async () => (await page.locator(".body a").allTextContents()).toSorted());
    await page.getByRole("button", { name: /^Answer of p2: \{"from":"p2"\}/ }).waitFor();
    const task = await site.api("POST", "/v1/tasks", { payload: { op: "wait" }, count: 2, answer_timeout: "1m", deadline: "1m" });
    await page.goto(`${site.url}/console/tasks/${task.id}`);
    await page.getByRole("img", { name: "2 asked" }).waitFor();
    await until(2, () => held.length);
    await page.getByRole("button", { name: "Cancel", exact: true }).click();
    await page.getByRole("button", { name: "Cancel the task" }).click();
    await page.getByText("cancelled", { exact: true }).waitFor();
  });
});

test("who may only look is offered no asking, and a token of tasks sees its own pages", async (t) => {
  const site = await startSite(t, { tokens: [{ name: "root-token", scopes: ["admin"] }, { name: "reader-token", scopes: ["read"] }, { name: "asker-token", scopes: ["tasks"] }] });
  await site.api("PUT", "/v1/campaigns/ping", { payload: 1, count: 1, every: "1h" });
  await visit(site, "/tasks", { token: "reader-token" }, async (page) => {
    await page.getByRole("textbox", { name: "Id of a task" }).waitFor();
    assert.equal(await page.getByRole("button", { name: "Ask…" }).count(), 0);
    await page.goto(`${site.url}/console/campaigns/ping`);
    await page.getByText("1 every 1h").waitFor();
    assert.equal(await page.getByRole("button", { name: /Pause|Delete/ }).count(), 0);
  });
  await visit(site, "/", { token: "asker-token" }, async (page) => {
    const refused = [];
    page.on("response", (response) => response.status() === 403 && refused.push(response.url()));
    await page.getByRole("heading", { name: "Fleet" }).waitFor();
    assert.deepEqual(await page.getByRole("navigation", { name: "Pages" }).getByRole("link").allTextContents(), ["Fleet", "Tasks", "Campaigns"]);
    await page.goto(`${site.url}/console/campaigns/ping?tab=coverage`);
    await page.getByRole("button", { name: "Pause" }).waitFor();
    await page.getByText("eligible devices").waitFor();
    assert.deepEqual(refused, []);
  });
});

test("both themes and a narrow window can be read", async () => {
  const ready = (page, path) => page.getByText(path === "/tasks" ? "9,876 connected" : "x".repeat(64)).first().waitFor();
  await readable(await site(), ["/tasks", "/tasks/tsk_01"], ready, { answers: taskAnswers() });
});
