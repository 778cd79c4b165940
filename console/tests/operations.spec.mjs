/** Operations: what was begun, how far it is, and how it is cancelled. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { accessible, readable, startSite, until, visit } from "./harness.mjs";

const JOBS = 60;

/** Begins to delete jobs, `rate` a second. */
async function begin(site, rate) {
  await site.api("POST", "/v1/queues/shop/mails/jobs", { jobs: Array.from({ length: JOBS }, (_, payload) => ({ payload })) });
  return site.api("POST", "/v1/operations", { action: "jobs.delete", filter: { queue: "shop/mails" }, ...(rate ? { rate } : {}) });
}

test("an operation is followed to its end", async (t) => {
  const site = await startSite(t);
  await visit(site, "/operations", {}, async (page) => {
    await page.getByText("No operation yet").waitFor();
    await accessible(page);
    const { id } = await begin(site);
    await page.getByRole("button", { name: "Refresh" }).click();
    await page.getByRole("link", { name: "jobs.delete" }).click();
    await page.waitForURL(`**/console/operations?id=${id}`);
    await page.getByText(`${JOBS} done, 0 refused, 0 skipped of ${JOBS}`).waitFor();
    await page.getByRole("region", { name: "Filter" }).getByText("shop/mails").waitFor();
    await accessible(page);
  });
});

test("an operation is cancelled: what was done stays done", async (t) => {
  const site = await startSite(t);
  const { id } = await begin(site, 1);
  await visit(site, `/operations?id=${id}`, {}, async (page) => {
    await page.getByRole("button", { name: "Cancel" }).click();
    await until("cancelled", async () => (await site.api("GET", `/v1/operations/${id}`)).status);
    await page.getByRole("region", { name: /^Operation/ }).getByText("cancelled").waitFor();
    assert.equal(await page.getByRole("button", { name: "Cancel" }).count(), 0);
  });
});

test("operations can be read in both themes and narrow", async (t) => {
  const site = await startSite(t);
  const { id } = await begin(site);
  await readable(site, [`/operations?id=${id}`], (page) => page.getByText(`${JOBS} done`).waitFor());
});
