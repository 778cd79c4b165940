/** The system: health, sizes, limits, settings without secrets. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { accessible, readable, startSite, visit } from "./harness.mjs";

const TOKENS = [
  { name: "root-token", scopes: ["admin"] },
  { name: "sender-token", scopes: ["commands"] },
];

test("the server shows itself, and none of its secrets", async (t) => {
  const site = await startSite(t, { tokens: TOKENS, settings: '[amqp]\nqueue = "hush-queue"\n' });
  const system = await site.api("GET", "/v1/system");
  await visit(site, "/system", { token: "root-token" }, async (page) => {
    await page.getByText(system.version, { exact: true }).waitFor();
    await page.getByText("ready", { exact: true }).waitFor();
    await page.getByRole("heading", { name: "Limits" }).waitFor();
    assert.equal(await page.locator("meter").count(), system.limits.length);
    await page.getByLabel("Search").fill("amqp.queue");
    await page.waitForURL("**/console/system?setting=amqp.queue");
    await page.getByRole("cell", { name: "hush-queue" }).waitFor();
    await page.getByLabel("Search").fill("no such setting");
    await page.getByText("No setting matches").waitFor();
    await page.getByRole("button", { name: "Clear" }).click();
    await page.getByRole("cell", { name: /sha256.*hidden/ }).first().waitFor();
    await accessible(page);
  });
});

test("a token that may not look is told so, and nothing is asked for", async (t) => {
  const site = await startSite(t, { tokens: TOKENS });
  await visit(site, "/system", { token: "sender-token" }, async (page) => {
    await page.getByText("This token may not see this page.").waitFor();
  });
});

test("the system can be read in both themes and narrow", async (t) => {
  const site = await startSite(t);
  await readable(site, ["/system"], (page) => page.getByRole("heading", { name: "Settings in force" }).waitFor());
});
