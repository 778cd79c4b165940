/** The events: live rows, filters in the URL, and texts that would do harm if they were not texts. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { accessible, startSite, until, visit } from "./harness.mjs";

const HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=2</script>';

test("events come live, newest on top, and filters narrow them by the address", async (t) => {
  const site = await startSite(t);
  for (const id of ["lock1", "lock2"]) await site.api("POST", "/v1/devices", { id });
  await site.report({ device_id: "lock1", data: 1 });
  await visit(site, "/events", {}, async (page) => {
    const rows = () => page.locator(".body [role=row] a").allTextContents();
    await until(["lock1"], rows);
    await site.report({ device_id: "lock2", data: 1 });
    await until(["lock2", "lock1"], rows);
    await page.getByRole("searchbox", { name: "Device" }).fill("lock1");
    await page.waitForURL("**/events?device=lock1");
    await until(["lock1"], rows);
    // One after the other: what comes in one call may be written in any order.
    await site.report({ device_id: "lock2", data: 0 });
    await site.report({ device_id: "lock1", data: 0 });
    await until(["lock1", "lock1"], rows);
    await page.getByRole("button", { name: "Clear" }).click();
    await until(["lock1", "lock2", "lock2", "lock1"], rows);
    await accessible(page);
  });
});

test("a value with markup is shown as text, and right-to-left text in its own direction", async (t) => {
  const site = await startSite(t);
  await site.api("POST", "/v1/devices", { id: "probe1", kind: "probe" });
  await site.report({ device_id: "probe1", data: HOSTILE });
  await site.report({ device_id: "probe1", data: "שלום עולם" });
  await visit(site, "/events", {}, async (page) => {
    await page.getByText("<img src=x onerror=", { exact: false }).first().waitFor();
    assert.equal(await page.locator(".body img, .body script").count(), 0);
    assert.match(await page.title(), /^Events/);
    const cell = page.getByRole("gridcell", { name: "שלום עולם" }).first();
    assert.equal(await cell.getAttribute("dir"), "auto");
  });
});
