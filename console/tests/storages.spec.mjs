/** Storages, moved to by settings that the console makes. */
import assert from "node:assert/strict";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { accessible, startSite, until, visit } from "./harness.mjs";

const ORDERS = "/v1/streams/shop/orders";

test("blocks move to a storage that the settings name, and are shown there", async (t) => {
  const cold = await mkdtemp(join(process.env["FIELDPOST_FOLDER"] ?? tmpdir(), "cold-"));
  const site = await startSite(t, { settings: `[[storages]]\nname = "cold"\nkind = "disk"\npath = "${cold}"\n` });
  await site.api("PUT", `${ORDERS}/settings`, { block: { messages: 2 } });
  for (let n = 0; n < 5; n += 1) await site.api("POST", `${ORDERS}/messages`, { payload: n });
  await visit(site, "/streams/shop/orders?tab=blocks", { expected: [/status of 422/] }, async (page) => {
    await page.getByText(/^2 blocks, /).waitFor();
    await page.getByRole("button", { name: "Settings" }).click();
    await page.getByRole("button", { name: "Add a move" }).click();
    await page.getByLabel("After", { exact: true }).fill("1ms");
    await page.getByLabel("To", { exact: true }).fill("tape");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("422 unknown_storage").waitFor();
    await page.getByLabel("To", { exact: true }).fill("cold");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("to cold after").waitFor();
    const storages = async () => Object.entries((await site.api("GET", ORDERS)).storages).filter(([, { blocks }]) => blocks > 0).map(([name, { blocks }]) => `${name} ${blocks}`);
    await until(["cold 2"], storages);
    await page.getByRole("button", { name: "Refresh" }).click();
    const bars = page.getByRole("list", { name: "Closed blocks by storage" });
    await bars.getByText("cold").waitFor();
    await page.getByRole("region", { name: "Handlers" }).getByText("move cold").waitFor();
    await until(["cold", "cold", "open"], async () => (await page.getByRole("grid", { name: "Blocks" }).getByRole("gridcell").allTextContents()).map((text) => text.trim()).filter((text) => ["cold", "open", "local"].includes(text)));
    await accessible(page);
  });
});
