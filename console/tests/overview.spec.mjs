/** The overview: figures that move, what fails, the last events. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { accessible, startSite, until, visit } from "./harness.mjs";

test("the overview moves without being loaded again", async (t) => {
  const site = await startSite(t);
  await site.api("POST", "/v1/devices", { id: "lock1" });
  await visit(site, "/", {}, async (page) => {
    const figure = (name) => page.locator(`dl.tiles div:has(dt:text-is("${name}")) dd`).textContent();
    await until("1", () => figure("devices"));
    await page.getByText("No event yet").waitFor();
    await page.getByText("Nothing is failing.").waitFor();
    await site.report({ device_id: "lock1", data: 1 });
    await page.locator("section", { hasText: "Last events" }).getByRole("link", { name: "lock1" }).waitFor();
    await until("1", () => figure("online"));
    await page.locator(".chart canvas").waitFor();
    await accessible(page);
  });
});

test("what fails is named, and leads to where it is", async (t) => {
  const site = await startSite(t);
  await site.api("POST", "/v1/queues/shop/mails/jobs", { payload: 1 });
  await site.api("POST", "/v1/queues/shop/mails/pause");
  await visit(site, "/", {}, async (page) => {
    const failing = page.locator("section", { hasText: "Failing now" });
    await failing.getByText("queue paused").waitFor();
    const link = failing.getByRole("link").first();
    assert.match(await link.getAttribute("href"), /^\/console\/queues\/shop\/mails/);
  });
});
