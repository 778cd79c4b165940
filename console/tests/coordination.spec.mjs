/** Locks and limits, as programs share them. What programs do is told by stand-ins. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { accessible, readable, startSite, until, visit } from "./harness.mjs";

const TOKENS = [
  { name: "root-token", scopes: ["admin"] },
  { name: "jobs-token", scopes: ["jobs:shop"] },
];

function lock(name, more = {}) {
  return { namespace: "shop", name, held: true, owner: `host-of-${name}`, fence: "41", waiting: 0, expires_at: new Date(Date.now() + 600_000).toISOString(), ...more };
}

/** Locks and limits in place of the server's; `asked` are the queries of their lists. */
function world(locks, limits = []) {
  const asked = [];
  const page = (items) => (query) => (asked.push(query), { items: items.filter(({ namespace }) => (query.namespace ?? namespace) === namespace), next_cursor: null });
  const answers = { "GET /v1/locks": (query) => page(locks)(query), "GET /v1/limits": (query) => page(limits)(query) };
  for (const one of locks) {
    const path = `/v1/locks/${one.namespace}/${one.name}`;
    // As the call of one lock answers: without its name.
    answers[`GET ${path}`] = () => {
      const { namespace: _, name: __, ...rest } = one;
      return rest;
    };
    answers[`POST ${path}/release`] = (_, { owner }) => {
      if (owner !== one.owner) return [409, { code: "not_owner", detail: `the lock ${one.name} is not that owner's` }];
      Object.assign(one, { held: false, owner: undefined, expires_at: undefined });
      return [204, undefined];
    };
  }
  return { answers, asked };
}

test("locks held and waited for are listed, looked at and released, and limits say what is left", async (t) => {
  const site = await startSite(t, { tokens: TOKENS });
  const mine = [lock("stock"), lock("invoice.2026", { waiting: 3, fence: "9007199254740993" }), lock("night", { namespace: "depot" })];
  const limits = [
    { namespace: "shop", name: "sms:7", kind: "window", limit: 1_000, per: "1m", remaining: 0 },
    { namespace: "shop", name: "login", kind: "smooth", limit: 5, per: "30s", remaining: 4 },
  ];
  const { answers, asked } = world(mine, limits);
  await visit(site, "/coordination", { answers, token: "root-token", expected: [/status of 409/] }, async (page) => {
    const view = page.getByRole("region", { name: "Lock" });
    await page.getByText("3 rows").waitFor();
    await accessible(page);
    await page.getByRole("link", { name: "shop/invoice.2026" }).click();
    await page.waitForURL("**/console/coordination?lock=shop%2Finvoice.2026");
    await view.getByText("host-of-invoice.2026").waitFor();
    await view.getByText("3 callers").waitFor();
    await view.getByText("9007199254740993").waitFor();
    await accessible(page);
    // It has gone to another one meanwhile.
    mine[1].owner = "somebody-else";
    const dialog = page.getByRole("dialog");
    await view.getByRole("button", { name: "Release it" }).click();
    await page.getByLabel("Type invoice.2026 to confirm").fill("invoice.2026");
    await dialog.getByRole("button", { name: "Release the lock" }).click();
    await dialog.getByText("409 not_owner").waitFor();
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await view.getByRole("button", { name: "Look again" }).click();
    await view.getByText("somebody-else").waitFor();
    await view.getByRole("button", { name: "Release it" }).click();
    await page.getByLabel("Type invoice.2026 to confirm").fill("invoice.2026");
    await dialog.getByRole("button", { name: "Release the lock" }).click();
    await view.getByText("free", { exact: true }).waitFor();
    assert.equal(await view.getByRole("button", { name: "Release it" }).count(), 0);
    await view.getByRole("button", { name: "Close" }).click();

    await page.getByLabel("Any lock, by its name").fill("depot/night");
    await page.getByRole("button", { name: "Look at it" }).click();
    await view.getByText("host-of-night").waitFor();

    await page.getByRole("link", { name: "Limits" }).click();
    await page.getByText("2 rows").waitFor();
    const cells = page.getByRole("grid", { name: "Limits" }).getByRole("gridcell");
    assert.deepEqual((await cells.allTextContents()).map((text) => text.trim()), [
      "shop/sms:7", "1,000 per 1m", "0", "window, by the clock", "shop/login", "5 per 30s", "4", "smooth",
    ]);
    await accessible(page);
    await page.getByLabel("Namespace", { exact: true }).fill("other");
    await page.getByText("No limit is in use in this namespace").waitFor();
    await page.getByRole("link", { name: "Locks" }).click();
    await page.getByText("No lock is held in this namespace").waitFor();
    assert.equal(asked.at(-1).namespace, "other");
  });
});

test("a token sees the locks that it reaches, in narrow windows and both themes too", async (t) => {
  const site = await startSite(t, { tokens: TOKENS });
  const locks = [lock("l".repeat(255), { owner: undefined, waiting: 1_234 }), lock("free", { held: false, owner: undefined, expires_at: undefined, fence: "0", waiting: 0 })];
  const { answers } = world(locks, [{ namespace: "shop", name: "m".repeat(255), kind: "smooth", limit: 1_000_000, per: "24h", remaining: 999_999 }]);
  const caller = () => ({ open: false, token: "shop", scopes: ["coordinate:shop", "coordinate:depot"] });
  await visit(site, "/", { answers: { ...answers, "GET /v1/caller": caller }, token: "root-token" }, async (page) => {
    // It is the only page that the token reaches.
    await page.waitForURL("**/console/coordination");
    await page.getByRole("combobox", { name: "Namespace", exact: true }).selectOption("depot");
    await page.waitForURL("**/console/coordination?namespace=depot");
    await page.goto(`${site.url}/console/coordination?lock=shop/${locks[0].name}`);
    await page.getByText("shown to administrators").waitFor();
    assert.equal(await page.getByRole("button", { name: "Release it" }).count(), 0);
    await page.goto(`${site.url}/console/coordination?lock=shop/free`);
    await page.getByText("it was never held").waitFor();
  });
  await visit(site, "/queues", { token: "jobs-token" }, async (page) => {
    await page.getByRole("heading", { name: "Queues" }).waitFor();
    assert.equal(await page.getByRole("link", { name: "Coordination" }).count(), 0);
  });
  // A server may list neither: any lock is looked at by its name all the same.
  const unlisted = [404, { code: "unknown_route", detail: "there is no such path" }];
  const none = { ...answers, "GET /v1/locks": () => unlisted, "GET /v1/limits": () => unlisted };
  await visit(site, "/coordination?lock=shop/free", { answers: none, token: "root-token", expected: [/status of 404/] }, async (page) => {
    await page.getByText("Locks are not listed here").waitFor();
    await page.getByText("it was never held").waitFor();
    await page.getByRole("link", { name: "Limits" }).click();
    await page.getByText("Limits are not listed here").waitFor();
    await accessible(page);
  });
  const paths = ["/coordination", `/coordination?lock=shop/${locks[0].name}`, "/coordination?tab=limits"];
  await readable(site, paths, (page) => page.getByRole("gridcell").first().waitFor(), { answers, token: "root-token" });
});
