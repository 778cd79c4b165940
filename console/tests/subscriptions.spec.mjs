/** Subscriptions of a stream: made, read, posted, moved, changed, deleted. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { accessible, readable, startSite, undo, until, visit } from "./harness.mjs";
import { HOSTILE, LOCAL, startReceiver } from "./receiver.mjs";

const TOKENS = [
  { name: "root-token", scopes: ["admin"] },
  { name: "look-token", scopes: ["streams:shop:read"] },
  { name: "reader-token", scopes: ["read"] },
];
const ORDERS = "/v1/streams/shop/orders";
const TAB = "/streams/shop/orders?tab=subscriptions";

function append(site, count) {
  return site.api("POST", `${ORDERS}/messages`, { messages: Array.from({ length: count }, (_, n) => ({ payload: { order: n } })) });
}

function subscription(site, name) {
  return site.api("GET", `${ORDERS}/subscriptions/${name}`);
}

function position(site, name) {
  return async () => (await subscription(site, name)).position;
}

/** The cells of a subscription's row that a wide table shows. */
function cells(page, name) {
  return page.locator("[role=row]", { has: page.getByRole("link", { name, exact: true }) }).getByRole("gridcell");
}

test("a subscription is made, falls behind, is read, moved back, changed and deleted", async (t) => {
  const site = await startSite(t);
  await append(site, 3);
  await visit(site, TAB, { expected: [/status of 409/, /status of 404/] }, async (page) => {
    const dialog = page.getByRole("dialog");
    await page.getByText("No subscription yet").waitFor();
    await accessible(page);
    await page.getByRole("button", { name: "New subscription" }).click();
    await page.getByLabel("Name").fill("billing");
    await page.getByLabel("It begins").selectOption("id");
    await page.getByLabel("Id of the message").fill("1");
    await page.getByLabel("Segments").fill("north,south");
    await accessible(page);
    await dialog.getByRole("button", { name: "Make it" }).click();
    await page.getByText("Subscription billing is made.").waitFor();
    await until(["1", "north,south"], async () => Object.values(await subscription(site, "billing").then(({ position, segment }) => ({ position, segment }))));
    const lag = () => cells(page, "billing").nth(1).textContent().then((text) => text.trim());
    await until("at most 2", lag);

    // What is appended shows at once; who reads holds the position.
    await append(site, 2);
    await until("at most 4", lag);
    await page.getByRole("link", { name: "billing", exact: true }).click();
    const view = page.getByRole("region", { name: "Subscription" });
    await view.getByText("at most 4 messages").waitFor();
    await view.getByText("nobody reads now").waitFor();
    await site.api("POST", `${ORDERS}/subscriptions/billing/read`, { reader: "host-1", ttl: "1h" });
    await page.getByRole("button", { name: "Refresh" }).click();
    await view.getByText("host-1").waitFor();
    await accessible(page);
    await view.getByRole("button", { name: "Move its position" }).click();
    await page.getByLabel("Id of the message").fill("3");
    await dialog.getByRole("button", { name: "Move it" }).click();
    await dialog.getByText("409 subscription_busy").waitFor();
    await accessible(page);
    await dialog.getByRole("button", { name: "Cancel" }).click();

    await view.getByRole("button", { name: "Change" }).click();
    await page.getByLabel("Segments").fill("");
    await dialog.getByRole("button", { name: "Save" }).click();
    await until(null, async () => (await subscription(site, "billing")).segment);
    await undo(page, "The subscription is changed.");
    await until("north,south", async () => (await subscription(site, "billing")).segment);
    assert.equal(await position(site, "billing")(), "1");

    await view.getByRole("button", { name: "Delete it" }).click();
    await page.getByLabel("Type billing to confirm").fill("billing");
    await dialog.getByRole("button", { name: "Delete the subscription" }).click();
    await page.getByText("No subscription yet").waitFor();
    assert.deepEqual((await site.api("GET", `${ORDERS}/subscriptions`)).items, []);

    // Behind a message that does not exist it cannot go on.
    await site.api("PUT", `${ORDERS}/subscriptions/reports`, { from: "4" });
    await page.goto(`${site.url}/console${TAB}&subscription=reports`);
    await view.getByText("1 message", { exact: true }).waitFor();
    await view.getByRole("button", { name: "Move its position" }).click();
    await page.getByLabel("Id of the message").fill("99");
    await dialog.getByRole("button", { name: "Move it" }).click();
    await dialog.getByText("404 unknown_message").waitFor();
    await page.getByLabel("Id of the message").fill("2");
    await dialog.getByRole("button", { name: "Move it" }).click();
    await until("2", position(site, "reports"));
    await undo(page, "goes on at another position");
    await until("4", position(site, "reports"));
    for (const [where, wanted] of [["end", "5"], ["start", "0"]]) {
      await view.getByRole("button", { name: "Move its position" }).click();
      await page.getByLabel("It goes on").selectOption(where);
      await dialog.getByRole("button", { name: "Move it" }).click();
      await until(wanted, position(site, "reports"));
    }
  });
});

test("messages are posted to a URL, its secret is shown once, and a failure is told", async (t) => {
  const [site, receiver] = [await startSite(t, { settings: LOCAL }), await startReceiver(t)];
  await append(site, 2);
  await visit(site, TAB, {}, async (page) => {
    const dialog = page.getByRole("dialog");
    await page.getByRole("button", { name: "New subscription" }).click();
    await page.getByLabel("Name").fill("erp");
    await page.getByLabel("Post the messages to a URL").check();
    await dialog.getByLabel("URL", { exact: true }).fill(receiver.url);
    await page.getByLabel("Messages of a post, at most").fill("50");
    await accessible(page);
    await dialog.getByRole("button", { name: "Make it" }).click();
    const secret = await page.locator("code", { hasText: /^whsec_/ }).textContent();
    await page.getByText("The secret of erp").waitFor();
    await page.getByRole("button", { name: "Done" }).click();
    assert.equal(await page.getByText(secret).count(), 0);
    await until("2", position(site, "erp"));
    assert.deepEqual(JSON.parse(receiver.received[0].body).items.map(({ id }) => id), ["1", "2"]);
    await page.getByRole("link", { name: "erp", exact: true }).click();
    const view = page.getByRole("region", { name: "Subscription" });
    await view.getByText("at most 50").waitFor();
    await view.getByText("taken", { exact: true }).waitFor();

    receiver.answer.status = 500;
    await append(site, 1);
    await until(true, async () => (await subscription(site, "erp")).push.failures > 0);
    await page.getByRole("button", { name: "Refresh" }).click();
    await view.getByText("failing").waitFor();
    await view.getByText("Last failure").waitFor();
    await page.getByText("post fails").waitFor();
    await accessible(page);

    // Its secret goes with the URL: that is said, and cannot be undone.
    await view.getByRole("button", { name: "Change" }).click();
    await page.getByLabel("Post the messages to a URL").uncheck();
    await page.getByText("Its URL and its secret are forgotten.").waitFor();
    await dialog.getByRole("button", { name: "Save" }).click();
    await until(null, async () => (await subscription(site, "erp")).push);
    await page.getByText("The subscription is changed.").waitFor();
    assert.equal(await page.getByRole("button", { name: "Undo" }).count(), 0);
    assert.equal(await position(site, "erp")(), "2");
  });
});

test("tokens see subscriptions, and change those that they reach", async (t) => {
  const site = await startSite(t, { tokens: TOKENS, settings: LOCAL });
  const name = "n".repeat(120);
  await append(site, 1);
  await site.api("PUT", `${ORDERS}/subscriptions/billing`, {});
  await site.api("PUT", `${ORDERS}/subscriptions/${name}`, { push: { url: `http://127.0.0.1:9/${"x".repeat(300)}` }, segment: "a".repeat(64) });
  await site.api("POST", `${ORDERS}/subscriptions/billing/read`, { reader: "r".repeat(64), ttl: "1h" });
  for (const [token, buttons] of [["look-token", 1], ["reader-token", 0]]) {
    await visit(site, `${TAB}&subscription=billing`, { token }, async (page) => {
      await page.getByRole("region", { name: "Subscription" }).getByText("1 message").waitFor();
      for (const button of ["New subscription", "Change", "Move its position", "Delete it"]) {
        assert.equal(await page.getByRole("button", { name: button }).count(), buttons, `${token}: ${button}`);
      }
    });
  }
  const paths = [TAB, `${TAB}&subscription=billing`, `${TAB}&subscription=${name}`];
  await readable(site, paths, async (page, path) => {
    await page.getByRole("gridcell").first().waitFor();
    if (path !== TAB) await page.getByRole("region", { name: "Subscription" }).waitFor();
  }, { token: "root-token" });
  const failed = { ...(await subscription(site, name)), push: { url: "https://x.example/", max: 1, failures: 3, error: HOSTILE.markup, last_failed_at: "2026-11-22T12:00:00Z" } };
  const answers = {
    [`GET ${ORDERS}/subscriptions`]: () => ({ items: [failed], next_cursor: null }),
    [`GET ${ORDERS}/subscriptions/${name}`]: () => failed,
  };
  await visit(site, `${TAB}&subscription=${name}`, { token: "root-token", answers, width: 360 }, async (page) => {
    await page.getByText(HOSTILE.markup).waitFor();
    await page.getByText("the last 3 were not taken").waitFor();
    assert.notEqual(await page.title(), "taken");
  });
});
