/** Copies between two servers, as the console makes them and shows how they stand. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { accessible, startSite, until, visit } from "./harness.mjs";

const ORDERS = "/v1/streams/shop/orders";

function append(site, from, count) {
  return site.api("POST", `${ORDERS}/messages`, { messages: Array.from({ length: count }, (_, n) => ({ payload: { order: from + n } })) });
}

test("messages are copied to another server, through a pause and while it is away", async (t) => {
  const [site, other] = [await startSite(t), await startSite(t, { restarts: true })];
  await append(site, 0, 3);
  const copied = async () => (await site.api("GET", `${ORDERS}/copies/dc`)).copied;
  const there = async () => (await other.api("GET", ORDERS)).messages;
  await visit(site, "/nodes", {}, async (page) => {
    const dialog = page.getByRole("dialog");
    await page.getByRole("button", { name: "Register a node" }).click();
    await page.getByLabel("Name").fill("dc1");
    await page.getByLabel("URL of its API").fill(other.url);
    await dialog.getByRole("button", { name: "Register" }).click();
    await page.getByText("Node dc1 is registered.").waitFor();

    await page.goto(`${site.url}/console/streams/shop/orders?tab=copies`);
    await page.getByText("No copy yet").waitFor();
    await page.getByRole("button", { name: "New copy" }).click();
    await page.getByLabel("Name").fill("dc");
    await until("dc1", () => dialog.getByRole("combobox", { name: "Node", exact: true }).inputValue());
    await page.getByLabel("Bytes a second, at most").fill("10000000");
    await dialog.getByRole("button", { name: "Make it" }).click();
    await page.getByText("Copy dc is made.").waitFor();
    await until(3, copied);
    assert.equal(await there(), 3);

    const view = page.getByRole("region", { name: "Copy", exact: true });
    await page.getByRole("link", { name: "dc", exact: true }).click();
    await view.getByText("level").waitFor();
    await until(["0", "3", "0", "0"], () => view.locator(".tile dd").allTextContents());
    await view.getByRole("button", { name: "Pause" }).click();
    await view.getByText("paused", { exact: true }).waitFor();
    await append(site, 3, 2);
    // What is appended shows at once: it is not copied.
    await until("2", () => view.locator(".tile dd").first().textContent());
    await accessible(page);
    await view.getByRole("button", { name: "Resume" }).click();
    await until(5, copied);

    await view.getByRole("button", { name: "Change" }).click();
    await page.getByLabel("Bytes a second, at most").fill("");
    await page.getByLabel("Share of new messages, %").fill("7");
    await dialog.getByRole("button", { name: "Save" }).click();
    await page.getByText("The copy is changed.").waitFor();
    const { rate, live_share, position } = await site.api("GET", `${ORDERS}/copies/dc`);
    assert.deepEqual([rate, live_share, position], [null, 0.07, "5"]);

    await other.kill();
    await append(site, 5, 1);
    await until("waiting", async () => (await site.api("GET", `${ORDERS}/copies/dc`)).state);
    await page.goto(`${site.url}/console/nodes`);
    await page.getByRole("img", { name: /1 other node, 1 copy; 1 not reachable, 1 failing/ }).waitFor();
    await page.getByRole("region", { name: "Other nodes" }).getByText("not reachable").waitFor();
    await accessible(page);
    await other.start();
    await until(6, copied);
    await until(true, async () => (await site.api("GET", "/v1/nodes/dc1")).reachable);
    // The page looks again by itself.
    await page.getByRole("img", { name: /1 other node, 1 copy; 0 not reachable, 0 failing/ }).waitFor();
    assert.equal(await there(), 6);

    await page.getByRole("link", { name: "dc", exact: true }).click();
    await view.getByRole("button", { name: "Delete it" }).click();
    await page.getByLabel("Type dc to confirm").fill("dc");
    await dialog.getByRole("button", { name: "Delete the copy" }).click();
    await page.getByText("No copy yet").waitFor();
    await page.goto(`${site.url}/console/nodes`);
    await page.getByRole("button", { name: "Delete dc1" }).click();
    await page.getByLabel("Type dc1 to confirm").fill("dc1");
    await dialog.getByRole("button", { name: "Delete the node" }).click();
    await page.getByText("No other node is registered").waitFor();
    assert.deepEqual((await site.api("GET", "/v1/nodes")).items, []);
  });
});
