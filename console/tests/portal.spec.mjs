/** The portal: one client's deliveries by a link, and nothing of another's. */
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { once } from "node:events";
import { test } from "node:test";
import { accessible, startSite, until, visit } from "./harness.mjs";

const TOKENS = [{ name: "root-token", scopes: ["admin"] }];
const SETTINGS = "[notify]\nallow_private = true\n";

/** A server with the clients acme and bolt, each with a device that has reported; answers `portal`. */
async function start(t) {
  const receiver = createServer((request, response) => request.resume().on("end", () => response.writeHead(204).end()));
  receiver.listen(0, "127.0.0.1");
  await once(receiver, "listening");
  t.after(() => receiver.close());
  const site = await startSite(t, { tokens: TOKENS, settings: SETTINGS });
  for (const [client, device] of [["acme", "lock1"], ["bolt", "lock2"]]) {
    await site.api("POST", "/v1/clients", { id: client, name: client, url: `http://127.0.0.1:${receiver.address().port}/${client}` });
    await site.api("POST", "/v1/devices", { id: device });
    await site.api("PUT", `/v1/devices/${device}/clients/${client}`);
    await site.report({ device_id: device, data: 1 });
    const delivered = async () => (await site.api("GET", `/v1/deliveries?client=${client}&status=delivered`)).items.length;
    await until(1, delivered);
  }
  const portal = (client, may) => site.api("POST", `/v1/clients/${client}/portal`, { ttl: "10m", may });
  return { site, portal };
}

test("a link shows its client's deliveries and nothing of another's", async (t) => {
  const { site, portal } = await start(t);
  const acme = await portal("acme", ["read"]);
  assert.match(acme.url, /^\/console\/portal#/);
  await visit(site, acme.url.replace("/console", ""), {}, async (page) => {
    const devices = () => page.locator(".body [role=row] [role=gridcell]:nth-child(2)").allTextContents();
    await until(["lock1"], async () => (await devices()).map((text) => text.trim()));
    await page.getByRole("heading", { name: "acme" }).waitFor();
    for (const name of ["Send a test", "Resend states", "Change the URL", "Rotate secret"]) {
      assert.equal(await page.getByRole("button", { name }).count(), 0, name);
    }
    await accessible(page);
    await page.locator(".body [role=row] a").first().click();
    await page.getByRole("heading", { name: "Attempts" }).waitFor();
    assert.ok(page.url().endsWith(acme.url.slice(acme.url.indexOf("#"))), "the token stays in the link");
    await page.reload();
    await page.getByRole("heading", { name: "Attempts" }).waitFor();
    assert.equal(await page.evaluate(() => sessionStorage.length), 0, "nothing is stored that another portal could read");
    await accessible(page);
  });
  const other = await fetch(`${site.url}/v1/deliveries?client=bolt`, { headers: { authorization: `Bearer ${acme.token}` } });
  assert.equal(other.status, 403);
});

test("two portals in one tab do not meet", async (t) => {
  const { site, portal } = await start(t);
  const [acme, bolt] = [await portal("acme", ["read"]), await portal("bolt", ["read"])];
  await visit(site, acme.url.replace("/console", ""), {}, async (page) => {
    await page.getByRole("heading", { name: "acme" }).waitFor();
    await page.goto("about:blank");
    await page.goto(site.url + bolt.url);
    await page.getByRole("heading", { name: "bolt" }).waitFor();
    assert.equal(await page.getByText("lock1").count(), 0);
  });
});

test("what a link allows is done, and its effect is there", async (t) => {
  const { site, portal } = await start(t);
  const { url } = await portal("acme", ["read", "retry", "url"]);
  await visit(site, url.replace("/console", ""), {}, async (page) => {
    await page.getByRole("button", { name: "Send a test" }).click();
    await page.getByText("The test succeeded.").waitFor();
    await page.getByRole("button", { name: "Change the URL" }).click();
    await page.getByRole("textbox", { name: "URL" }).fill("http://127.0.0.1:9/moved");
    await page.getByRole("button", { name: "Change", exact: true }).click();
    await until("http://127.0.0.1:9/moved", async () => (await site.api("GET", "/v1/clients/acme")).url);
    await page.getByText("http://127.0.0.1:9/moved").waitFor();
  });
});

test("a link without a token, or with one that has ended, says so", async (t) => {
  const { site } = await start(t);
  for (const path of ["/portal", "/portal#fp_gone"]) {
    await visit(site, path, { expected: [/status of 401/] }, async (page) => {
      await page.getByText("This link has expired.").waitFor();
      await accessible(page);
    });
  }
});
