/** Relays, as they say how they stand. One that works needs a PostgreSQL: most of these are stand-ins. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { accessible, readable, startSite, until, visit } from "./harness.mjs";
import { HOSTILE } from "./receiver.mjs";

const TOKENS = [
  { name: "root-token", scopes: ["admin"] },
  { name: "shop-token", scopes: ["jobs:shop"] },
];

function relay(name, more = {}) {
  return {
    name, database: "postgres://shop@db.example:5432/shop", table: `${name}_outbox`, state: "working", on_refused: "skip", waiting: 0, bytes: 0, held: 0, refused: 0,
    oldest_at: null, oldest_age_ms: null, moved: 0, rate: 0, error: null, last_seen_at: new Date().toISOString(), ...more,
  };
}

test("relays say who works, how many rows wait and since when, and what was refused", async (t) => {
  const site = await startSite(t, { tokens: TOKENS });
  let items = [];
  const answers = { "GET /v1/relays": () => ({ items, next_cursor: null }) };
  await visit(site, "/relays", { answers, token: "root-token" }, async (page) => {
    await page.getByText("No relay runs").waitFor();
    await accessible(page);
    const oldest_at = new Date(Date.now() - 90_000).toISOString();
    items = [
      relay("standby", { state: "waiting", waiting: null, bytes: null, held: null, refused: null }),
      relay("orders", { waiting: 1_234_567, bytes: 5 * 1024 ** 2, refused: 3, oldest_at, moved: 98_000, rate: 812.5 }),
      relay("audit", { state: "connecting", error: HOSTILE.markup, on_refused: "hold", held: 2 }),
    ];
    await page.getByRole("button", { name: "Refresh" }).click();
    await until(["audit_outbox", "orders_outbox", "standby_outbox"], () => page.getByRole("heading", { level: 2 }).allTextContents());
    const figures = (name) => page.locator(`dl[aria-label="Rows of ${name}"] dd`).allTextContents();
    assert.deepEqual((await figures("orders_outbox")).slice(0, 6), ["1.2M", "5.0 MB", "0", "3", "812.5", "98K"]);
    assert.deepEqual((await figures("standby_outbox")).slice(0, 4), ["–", "–", "–", "–"]);
    await page.getByText("another relay works on the table").waitFor();
    await page.getByText("holds up the rows of its key").waitFor();
    await page.getByText(HOSTILE.markup).waitFor();
    assert.equal(await page.getByText("fieldpost relay refused ls").count(), 2);
    assert.notEqual(await page.title(), "taken");
  });
  items.push(relay("n".repeat(200), { database: `postgres://${"x".repeat(200)}/`, error: HOSTILE.backwards }));
  await readable(site, ["/relays"], (page) => page.getByRole("heading", { level: 2 }).first().waitFor(), { answers, token: "root-token" });
  await visit(site, "/queues", { token: "shop-token" }, async (page) => {
    await page.getByRole("heading", { name: "Queues" }).waitFor();
    assert.equal(await page.getByRole("link", { name: "Relays" }).count(), 0);
  });
});

test("what a relay tells the server is shown", async (t) => {
  const site = await startSite(t);
  const said = {
    database: "db.example:5432/shop", table: "fieldpost_outbox", state: "working", on_refused: "skip", waiting: 12, bytes: 3_000, held: 0, refused: 1,
    oldest_at: new Date(Date.now() - 60_000).toISOString(), moved: 5,
  };
  await visit(site, "/relays", {}, async (page) => {
    await page.getByText("No relay runs").waitFor();
    // Told before every look: ten seconds later the server forgets the relay.
    const tell = async (more) => {
      await site.api("PUT", "/v1/relays/shop-1", { ...said, ...more });
      const refresh = page.getByRole("button", { name: "Refresh" });
      const [answer] = await Promise.all([page.waitForResponse("**/v1/relays?*"), refresh.click()]);
      await answer.finished();
    };
    await until(["fieldpost_outbox", "12", "2.9 KB", "0", "1"], async () => {
      await tell({});
      const figures = await page.locator('dl[aria-label="Rows of fieldpost_outbox"] dd').allTextContents();
      return [...(await page.getByRole("heading", { level: 2 }).allTextContents()), ...figures.slice(0, 4)];
    });
    await until([1, 1], async () => {
      await tell({ error: "the server answers 503" });
      return [await page.getByText("the server answers 503").count(), await page.getByText("stuck").count()];
    });
  });
});
