/** Deliveries: lists, one delivery with both halves, and sending again. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { accessible, readable, startSite, until, visit } from "./harness.mjs";
import { HOSTILE, LOCAL, startReceiver } from "./receiver.mjs";

const ONE_TRY = `${LOCAL}max_attempts = 1\n`;

/** Three locks, whose client refuses what it is told of the first and takes the rest. */
async function startFleet(t, { ids = ["lock1", "lock2", "lock3"], settings = ONE_TRY, ...more } = {}) {
  const [site, receiver] = [await startSite(t, { settings, ...more }), await startReceiver(t)];
  await site.api("POST", "/v1/clients", { id: "acme", name: "Acme", url: receiver.url });
  await site.api("POST", "/v1/devices/import", ids.map((id) => JSON.stringify({ id, clients: ["acme"] })).join("\n"));
  return { site, receiver, report: (data, ...some) => site.report(...some.map((device_id) => ({ device_id, data }))) };
}

function withStatus(site, status) {
  return async () => (await site.api("GET", `/v1/deliveries?status=${status}`)).items.length;
}

test("deliveries are filtered by the URL, and come as they are made", async (t) => {
  const { site, report } = await startFleet(t);
  await visit(site, "/deliveries", {}, async (page) => {
    await page.getByText("No delivery yet").waitFor();
    await accessible(page);
    await report(1, "lock1", "lock2");
    await page.getByText("2 rows").waitFor();
    await page.getByRole("link", { name: /^delivered/ }).nth(1).waitFor();
    await page.getByLabel("Device").fill("lock2");
    await page.waitForURL("**/console/deliveries?device=lock2");
    await page.getByText("1 row").waitFor();
    await page.getByLabel("Status").selectOption("failed");
    await page.getByText("No delivery matches").waitFor();
    await page.getByRole("button", { name: "Clear" }).click();
    await page.getByLabel("Until").fill("2020-01-01T00:00");
    await page.waitForURL(/to=20(19|20)-/);
    await page.getByText("No delivery matches").waitFor();
    await page.reload();
    await page.getByText("No delivery matches").waitFor();
    assert.equal(await page.getByLabel("Until").inputValue(), "2020-01-01T00:00");
  });
});

test("one delivery shows both halves of every attempt, and is sent again", async (t) => {
  const { site, receiver, report } = await startFleet(t);
  Object.assign(receiver.answer, { status: 500, body: HOSTILE.markup });
  await report(1, "lock1");
  await until(1, withStatus(site, "failed"));
  await visit(site, "/deliveries", {}, async (page) => {
    await page.getByRole("link", { name: /^failed/ }).click();
    await page.getByRole("heading", { name: "Body as sent" }).waitFor();
    assert.equal(await page.getByRole("region", { name: "Body" }).textContent(), receiver.received[0].body);
    assert.equal(await page.getByRole("region", { name: "Answer" }).textContent(), HOSTILE.markup);
    await page.getByText("500", { exact: true }).waitFor();
    assert.notEqual(await page.title(), "taken");
    await accessible(page);
    receiver.answer.status = 204;
    await page.getByRole("button", { name: "Retry now" }).click();
    await until(1, withStatus(site, "delivered"));
    await page.getByRole("link", { name: "acme" }).click();
    await page.getByRole("heading", { name: "Acme" }).waitFor();
  });
});

test("copied as curl it is the same request without the signature", async (t) => {
  const { site, receiver, report } = await startFleet(t);
  receiver.answer.status = 500;
  await report(1, "lock1");
  await until(1, withStatus(site, "failed"));
  const [{ id }] = (await site.api("GET", "/v1/deliveries")).items;
  await visit(site, `/deliveries/${id}`, {}, async (page) => {
    await page.evaluate(() => {
      globalThis.copied = [];
      Object.defineProperty(navigator, "clipboard", { value: { writeText: async (text) => void globalThis.copied.push(text) } });
    });
    await page.getByRole("button", { name: /^Copy as curl/ }).click();
    await page.getByText(/^Copied/).waitFor();
    const [curl] = await page.evaluate(() => globalThis.copied);
    assert.match(curl, /^curl --globoff --proto =http,https -X POST/);
    assert.ok(curl.includes(receiver.url) && curl.includes(receiver.received[0].body), curl);
    assert.ok(curl.includes(`webhook-id: ${id}`), curl);
    assert.doesNotMatch(curl, /signature|whsec_/i);
  });
});

test("what failed is retried all at once, or as it was selected", async (t) => {
  const { site, receiver, report } = await startFleet(t);
  receiver.answer.status = 500;
  await report(1, "lock1", "lock2", "lock3");
  await until(3, withStatus(site, "failed"));
  const tried = receiver.received.length;
  await visit(site, "/deliveries?status=failed", {}, async (page) => {
    await page.getByText("3 rows").waitFor();
    await page.getByRole("checkbox").first().check();
    await page.getByRole("button", { name: "Retry 1 selected" }).click();
    await page.getByRole("button", { name: "Retry deliveries" }).click();
    await page.getByRole("region", { name: /^Operation/ }).getByText("done", { exact: true }).waitFor();
    await until(tried + 1, () => receiver.received.length);
    await until(3, withStatus(site, "failed"));
    receiver.answer.status = 204;
    await page.getByRole("button", { name: "Close" }).click();
    await page.getByRole("button", { name: "Retry all that match" }).click();
    await page.getByText("3 match.").waitFor();
    await accessible(page);
    await page.getByRole("button", { name: "Retry deliveries" }).click();
    await until(3, withStatus(site, "delivered"));
  });
});

test("a reader sees deliveries, and sends none", async (t) => {
  const tokens = [{ name: "root-token", scopes: ["admin"] }, { name: "reader-token", scopes: ["read"] }];
  const { site, receiver, report } = await startFleet(t, { tokens });
  receiver.answer.status = 500;
  await report(1, "lock1");
  await until(1, withStatus(site, "failed"));
  await visit(site, "/deliveries", { token: "reader-token" }, async (page) => {
    await page.getByRole("link", { name: /^failed/ }).waitFor();
    assert.equal(await page.getByRole("checkbox").count(), 0);
    assert.equal(await page.getByRole("button", { name: /Retry|Resend/ }).count(), 0);
    await page.getByRole("link", { name: /^failed/ }).click();
    await page.getByRole("heading", { name: "Attempts" }).waitFor();
    assert.equal(await page.getByRole("button", { name: "Retry now" }).count(), 0);
  });
});

test("deliveries can be read in both themes and narrow", async (t) => {
  const { site, report } = await startFleet(t);
  await report(1, "lock1");
  await until(1, withStatus(site, "delivered"));
  const [{ id }] = (await site.api("GET", "/v1/deliveries")).items;
  const ready = (page) => page.locator(".badge", { hasText: "delivered" }).first().waitFor();
  await readable(site, ["/deliveries", `/deliveries/${id}`], ready);
});
