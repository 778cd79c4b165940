/** Streams, their messages and blocks, and everything that is done with them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { accessible, readable, startSite, undo, until, visit } from "./harness.mjs";
import { HOSTILE } from "./receiver.mjs";

const TOKENS = [
  { name: "root-token", scopes: ["admin"] },
  { name: "shop-token", scopes: ["streams:shop"] },
  { name: "look-token", scopes: ["streams:shop:read"] },
  { name: "two-token", scopes: ["streams:shop:append", "streams:other:read"] },
  { name: "reader-token", scopes: ["read"] },
];
const ORDERS = "/v1/streams/shop/orders";

function append(site, messages, stream = ORDERS) {
  return site.api("POST", `${stream}/messages`, { messages });
}

function orders(from, until, more = {}) {
  return Array.from({ length: until - from }, (_, n) => ({ payload: { order: from + n }, ...more }));
}

/** The ids that the table of messages shows, the topmost first. */
function ids(page) {
  return page.getByRole("grid", { name: "Messages" }).getByRole("link").allTextContents();
}

test("a stream is made by its first message, and found by its namespace", async (t) => {
  const site = await startSite(t);
  await visit(site, "/streams", {}, async (page) => {
    await page.getByText("No stream yet").waitFor();
    await accessible(page);
    await page.getByRole("button", { name: "Append a message" }).click();
    const form = page.getByRole("dialog");
    await form.getByLabel("Namespace").fill("shop");
    await form.getByLabel("Stream", { exact: true }).fill("orders");
    await form.getByLabel("Payload, as JSON").fill("not json");
    await form.getByRole("button", { name: "Append" }).click();
    await form.getByRole("alert").getByText("The payload is no JSON").waitFor();
    await form.getByLabel("Payload, as JSON").fill('{"order": 1}');
    await form.getByLabel("Segment").fill("north");
    await form.getByLabel("Source").fill("till-4");
    await form.getByLabel("External id").fill("1001");
    await accessible(page);
    await form.getByRole("button", { name: "Append" }).click();
    await page.getByText("Appended as message 1.").waitFor();
    const [message] = (await site.api("GET", `${ORDERS}/messages`)).items;
    assert.deepEqual([message.payload, message.segment, message.source, message.external_id], [{ order: 1 }, "north", "till-4", "1001"]);
    await page.getByLabel("Namespace").first().fill("other");
    await page.waitForURL("**/console/streams?namespace=other");
    await page.getByText("No stream in this namespace").waitFor();
    await page.getByRole("button", { name: "Clear" }).click();
    await page.getByRole("link", { name: "shop/orders" }).click();
    await page.waitForURL("**/console/streams/shop/orders");
    await page.getByRole("link", { name: "1", exact: true }).click();
    await page.waitForURL("**/console/streams/shop/orders/messages/1");
    await page.getByRole("heading", { name: "Message 1" }).waitFor();
    await page.getByText("till-4").waitFor();
  });
});

test("messages are shown newest first, and those that are appended come on top", async (t) => {
  const site = await startSite(t);
  await append(site, orders(0, 500));
  await visit(site, "/streams/shop/orders", {}, async (page) => {
    await page.getByRole("link", { name: "500", exact: true }).waitFor();
    assert.deepEqual((await ids(page)).slice(0, 3), ["500", "499", "498"]);
    await append(site, [{ payload: "new" }]);
    await until(["501", "500"], async () => (await ids(page)).slice(0, 2));
    await until("501", () => page.locator(".tile", { hasText: "messages" }).locator("dd").textContent());
    // All of them are reached, down to the first.
    await page.getByRole("grid", { name: "Messages" }).focus();
    await until("501 rows", async () => {
      await page.keyboard.press("End");
      return (await page.locator(".foot").textContent()).trim();
    });
    await page.keyboard.press("End");
    await page.getByRole("link", { name: "1", exact: true }).waitFor();
  });
});

test("more messages than a call brings make the list begin anew", async (t) => {
  const site = await startSite(t);
  await append(site, orders(0, 3));
  await visit(site, "/streams/shop/orders", {}, async (page) => {
    await page.getByText("3 rows").waitFor();
    await append(site, orders(3, 1_000));
    await until(["1000", "999", "998"], async () => (await ids(page)).slice(0, 3));
    await append(site, orders(0, 1));
    await until("1001", async () => (await ids(page))[0]);
  });
});

test("messages are filtered by segment and time, also those that come", async (t) => {
  const site = await startSite(t);
  await append(site, orders(0, 2, { segment: "north" }));
  await append(site, orders(2, 5, { segment: "south" }));
  await visit(site, "/streams/shop/orders", {}, async (page) => {
    await page.getByText("5 rows").waitFor();
    await page.getByLabel("Segment").fill("north");
    await page.getByText("2 rows").waitFor();
    assert.deepEqual(await ids(page), ["2", "1"]);
    await append(site, [...orders(5, 6, { segment: "south" }), ...orders(6, 7, { segment: "north" })]);
    await until(["7", "2", "1"], () => ids(page));
    await page.getByLabel("Received from").fill("2099-01-01T00:00");
    await page.getByText("No message matches").waitFor();
    await page.getByRole("button", { name: "Clear" }).click();
    await page.getByText("7 rows").waitFor();
    await page.getByLabel("Received from").fill("2020-01-01T00:00");
    await page.waitForURL(/from=/);
    await until(["7", "6", "5", "4", "3", "2", "1"], () => ids(page));
  });
});

test("a large message does not hide those before it", async (t) => {
  const site = await startSite(t);
  const large = "x".repeat(900_000);
  for (let n = 0; n < 12; n += 1) await append(site, [{ payload: `${n}${large}` }]);
  await visit(site, "/streams/shop/orders", {}, async (page) => {
    await until(Array.from({ length: 12 }, (_, n) => String(12 - n)), () => ids(page));
  });
});

test("messages of a storage that is away do not hide those of the others", async (t) => {
  const site = await startSite(t);
  await append(site, orders(0, 500));
  const away = [503, { code: "storage_unavailable", detail: 'storage "cold": messages of stream shop/orders cannot be read' }];
  const messages = async (query) => {
    if (Number(query.after) < 470) return away;
    if (query.wait !== undefined) return new Promise(() => {});
    return site.api("GET", `${ORDERS}/messages?${new URLSearchParams(query).toString()}`);
  };
  await visit(site, "/streams/shop/orders", { answers: { [`GET ${ORDERS}/messages`]: messages }, expected: [/status of 503/] }, async (page) => {
    await until(Array.from({ length: 12 }, (_, n) => String(500 - n)), async () => (await ids(page)).slice(0, 12));
  });
});

test("a stream is set, set back, and deleted", async (t) => {
  const site = await startSite(t);
  await append(site, orders(0, 1));
  await visit(site, "/streams/shop/orders", {}, async (page) => {
    const settings = async () => {
      const { save, save_interval, keep, when_full, block } = (await site.api("GET", ORDERS)).settings;
      return [save, save_interval, keep.age, keep.bytes, when_full, block.messages];
    };
    const before = await settings();
    await page.getByRole("button", { name: "Settings" }).click();
    await page.getByLabel("Messages are saved").selectOption("periodic");
    await page.getByLabel("Save interval").fill("250ms");
    await page.getByLabel("Messages are kept for").fill("");
    await page.getByLabel("Maximum size").fill("10GB");
    await page.getByLabel("When it is full").selectOption("reject");
    await page.getByLabel("Number of messages").fill("500");
    await accessible(page);
    await page.getByRole("button", { name: "Save" }).click();
    await until(["periodic", "250ms", null, "10GB", "reject", 500], settings);
    await page.getByText("10GB, then appends are refused").waitFor();
    await undo(page, "The settings are in force.");
    await until(before, settings);

    await page.getByRole("button", { name: "Delete the stream" }).click();
    await page.getByLabel("Type shop/orders to confirm").fill("shop/orders");
    await page.getByRole("dialog").getByRole("button", { name: "Delete the stream" }).click();
    await page.getByText("No stream yet").waitFor();
    assert.deepEqual((await site.api("GET", "/v1/streams")).items, []);
  });
});

test("blocks are listed with their storage, and what the server does with them", async (t) => {
  const site = await startSite(t);
  await site.api("PUT", `${ORDERS}/settings`, { block: { messages: 2 } });
  for (let n = 0; n < 5; n += 1) await append(site, orders(n, n + 1));
  await visit(site, "/streams/shop/orders?tab=blocks", {}, async (page) => {
    await page.getByText("3 rows").waitFor();
    const cells = page.getByRole("grid", { name: "Blocks" }).getByRole("gridcell");
    await until(["1 to 2", "3 to 4", "5 to 5"], async () => (await cells.allTextContents()).filter((text) => text.includes(" to ")));
    await page.getByText(/^2 blocks, /).waitFor();
    await page.getByText("takes blocks out of memory that nobody uses").waitFor();
    await accessible(page);
  });
});

test("blocks are shown by storage, and moved between storages as the settings say", async (t) => {
  const site = await startSite(t);
  await append(site, orders(0, 1));
  const stream = await site.api("GET", ORDERS);
  stream.storages = { local: { blocks: 2, bytes: 2_048 }, cold: { blocks: 40, bytes: 41_943_040 } };
  stream.settings.move = [{ after: "1d", to: "cold" }];
  const away = `the storage "cold" cannot be reached: ${HOSTILE.markup}`;
  const handlers = [
    { handler: "move", name: "cold", state: "waiting", last_run_at: new Date(0).toISOString(), blocks: 40, bytes: 41_943_040, error: away },
    { handler: "copy", name: "dc1", state: "paused", last_run_at: null, blocks: 0, bytes: 0, error: null },
  ];
  const sent = [];
  const answers = {
    [`GET ${ORDERS}`]: () => stream,
    [`GET ${ORDERS}/handlers`]: () => ({ items: handlers, next_cursor: null }),
    [`PUT ${ORDERS}/settings`]: (_, body) => {
      sent.push(body);
      if (body.move.some(({ to }) => to === "tape")) return [422, { code: "unknown_storage", detail: 'move: there is no storage "tape"' }];
      stream.settings = body;
      return [204, undefined];
    },
  };
  await visit(site, "/streams/shop/orders?tab=blocks", { answers, expected: [/status of 422/] }, async (page) => {
    await page.getByText("40 blocks, 40 MB").waitFor();
    await page.getByText("2 blocks, 2.0 KB").waitFor();
    await page.getByText("to cold after").waitFor();
    const region = page.getByRole("region", { name: "Handlers" });
    await region.getByText("brings blocks to another storage").waitFor();
    await region.getByText(away).waitFor();
    await region.getByText("waiting").waitFor();
    assert.notEqual(await page.title(), "taken");
    await page.getByRole("button", { name: "Settings" }).click();
    await page.getByRole("button", { name: "Add a move" }).click();
    await page.getByLabel("After", { exact: true }).last().fill("30d");
    await page.getByLabel("To", { exact: true }).last().fill("tape");
    await page.getByLabel("Kept longer until copies and posts have them").uncheck();
    await accessible(page);
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("422 unknown_storage").waitFor();
    await page.getByLabel("To", { exact: true }).last().fill("bucket");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByText("to bucket after").waitFor();
    assert.deepEqual(sent.at(-1).move, [{ after: "1d", to: "cold" }, { after: "30d", to: "bucket" }]);
    assert.equal(sent.at(-1).keep.until_copied, false);
    await undo(page, "The settings are in force.");
    await until([{ after: "1d", to: "cold" }], () => sent.at(-1).move);
    // The form begins with the settings that the page knows.
    await page.getByText("to bucket after").waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Settings" }).click();
    await page.getByRole("button", { name: "Remove move 1" }).click();
    await page.getByRole("button", { name: "Save" }).click();
    await until([], () => sent.at(-1).move);
  });
});

test("a message that is there already is not appended again", async (t) => {
  const site = await startSite(t);
  await append(site, [{ payload: 1, source: "till-4", external_id: 7 }]);
  await visit(site, "/streams/shop/orders", {}, async (page) => {
    await page.getByRole("button", { name: "Append a message" }).click();
    await page.getByLabel("Payload, as JSON").fill("2");
    await page.getByLabel("Source").fill("till-4");
    await page.getByLabel("External id").fill("7");
    await page.getByRole("dialog").getByRole("button", { name: "Append" }).click();
    await page.getByText("Nothing was appended: message 1 has this source and external id, and another payload.").waitFor();
    assert.equal((await site.api("GET", ORDERS)).messages, 1);
  });
});

test("tokens see the streams that they reach, and the buttons that they may use", async (t) => {
  const site = await startSite(t, { tokens: TOKENS });
  await append(site, orders(0, 1));
  await append(site, orders(0, 1), "/v1/streams/other/orders");
  const seen = [
    ["shop-token", "shop/orders", ["Append a message", "Settings", "Delete the stream"]],
    ["look-token", "shop/orders", []],
    ["two-token", "other/orders", []],
    ["reader-token", "shop/orders", []],
    ["root-token", "other/orders", ["Append a message", "Settings", "Delete the stream"]],
  ];
  for (const [token, name, buttons] of seen) {
    await visit(site, "/streams", { token }, async (page) => {
      await page.getByRole("link", { name }).waitFor();
      assert.equal(await page.getByRole("button", { name: "Append a message" }).count(), ["look-token", "reader-token"].includes(token) ? 0 : 1, token);
      if (token !== "reader-token" && token !== "root-token") await page.getByText("1 row", { exact: true }).waitFor();
      await page.getByRole("link", { name }).click();
      await page.getByText("1 row", { exact: true }).waitFor();
      const names = await page.locator("main").getByRole("button").allTextContents();
      assert.deepEqual(names.filter((text) => !["Refresh", "Clear"].includes(text)), buttons, token);
    });
  }
});

test("streams can be read in both themes and narrow, with hostile texts", async (t) => {
  const site = await startSite(t);
  const name = "s".repeat(200);
  const stream = `/v1/streams/shop/${name}`;
  const headers = { [HOSTILE.backwards.slice(0, 60)]: HOSTILE.markup };
  await append(site, [{ payload: HOSTILE.markup, segment: "a".repeat(64), source: "b".repeat(64), external_id: "c".repeat(64), headers }], stream);
  await append(site, [{ payload_base64: "/////w==" }], stream);
  const paths = ["/streams", `/streams/shop/${name}`, `/streams/shop/${name}?tab=blocks`, `/streams/shop/${name}/messages/1`];
  await readable(site, paths, async (page, path) => {
    await page.locator("main :is(h1)").first().waitFor();
    await page.locator("main :is([role=gridcell], pre)").first().waitFor();
    if (path.endsWith("blocks")) await page.getByText("deletes blocks").waitFor();
    assert.notEqual(await page.title(), "taken");
  });
});
