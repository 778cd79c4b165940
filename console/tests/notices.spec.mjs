/** Notices: what the server tells of itself, as it comes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { accessible, readable, startSite, visit } from "./harness.mjs";
import { HOSTILE } from "./receiver.mjs";

test("a notice comes while the page is open, and is filtered by its type", async (t) => {
  const site = await startSite(t);
  await site.api("POST", "/v1/clients", { id: "acme", name: HOSTILE.markup, url: "https://acme.example/" });
  await visit(site, "/notices", {}, async (page) => {
    await page.getByText("No notice").waitFor();
    await accessible(page);
    await site.api("PATCH", "/v1/clients/acme", { enabled: false });
    await page.locator(".body [role=row]").getByText("client.disabled").waitFor();
    await page.getByText("1 row").waitFor();
    assert.equal(await page.getByRole("link", { name: "client acme" }).getAttribute("href"), "/console/clients/acme");
    await page.getByLabel("Type").selectOption("storage.low");
    await page.waitForURL("**/console/notices?type=storage.low");
    await page.getByText("No notice").waitFor();
    assert.notEqual(await page.title(), "taken");
  });
});

test("notices can be read in both themes and narrow", async (t) => {
  const site = await startSite(t);
  await site.api("POST", "/v1/clients", { id: "acme", name: "Acme", url: "https://acme.example/" });
  await site.api("PATCH", "/v1/clients/acme", { enabled: false });
  await readable(site, ["/notices"], (page) => page.getByText("1 row").waitFor());
});
