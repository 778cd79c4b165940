/**
 * Nodes and copies: the picture and the lists that say the same, and everything that is done with
 * both. The other nodes are stand-ins, so that thirty of them fit into a test.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { accessible, readable, startSite, undo, until, visit } from "./harness.mjs";
import { HOSTILE } from "./receiver.mjs";

const TOKENS = [
  { name: "root-token", scopes: ["admin"] },
  { name: "shop-token", scopes: ["streams:shop"] },
];
const ORDERS = "/v1/streams/shop/orders";
const TAB = "/streams/shop/orders?tab=copies";
const UNKNOWN = (what) => [404, { code: what, detail: "it is not there" }];

function copy(name, more = {}) {
  return {
    name, direction: "to", node: "dc1", stream: "shop/orders", segments: [], live_share: 0, rate: null, state: "running", position: "3", lag: 0,
    oldest_uncopied_at: null, copied: 3, duplicates: 0, dropped: 0, error: null, ...more,
  };
}

function node(name, more = {}) {
  return { name, url: `https://${name}.example`, reachable: true, last_contact_at: new Date().toISOString(), error: null, ...more };
}

/** The calls of nodes and of one stream's copies, in place of the server's; `sent` are the changes. */
function world({ nodes = [], copies = [] } = {}) {
  const [known, held, sent] = [new Map(nodes.map((one) => [one.name, one])), new Map(copies.map((one) => [one.name, one])), []];
  const answers = {
    "GET /v1/nodes": () => ({ items: [...known.values()], next_cursor: null }),
    [`GET ${ORDERS}/copies`]: () => ({ items: [...held.values()], next_cursor: null }),
  };
  const names = new Set([...known.keys(), ...held.keys(), "dc1", "edge", "out", "in", "loop"]);
  for (const name of names) {
    const [of, path] = [`/v1/nodes/${name}`, `${ORDERS}/copies/${name}`];
    answers[`PUT ${of}`] = (_, body) => (sent.push(["node", name, body]), known.set(name, node(name, { url: body.url })), known.get(name));
    answers[`DELETE ${of}`] = () => (known.delete(name), [204, undefined]);
    answers[`GET ${path}`] = () => held.get(name) ?? UNKNOWN("unknown_copy");
    answers[`PUT ${path}`] = (_, body) => (sent.push(["copy", name, body]), held.set(name, { ...copy(name), ...held.get(name), ...body }), held.get(name));
    answers[`DELETE ${path}`] = () => (held.delete(name), [204, undefined]);
    for (const [call, state] of [["pause", "paused"], ["resume", "running"]]) {
      answers[`POST ${path}/${call}`] = () => (held.set(name, { ...held.get(name), state }), [204, undefined]);
    }
  }
  return { answers, sent, held, known };
}

async function siteWithOrders(t, options) {
  const site = await startSite(t, options);
  await site.api("POST", `${ORDERS}/messages`, { messages: [{ payload: 1 }, { payload: 2 }, { payload: 3 }] });
  return site;
}

test("a node is registered, changed and deleted, and its copies are drawn with how far behind they are", async (t) => {
  const site = await siteWithOrders(t);
  const { answers, sent, held, known } = world();
  await visit(site, "/nodes", { answers }, async (page) => {
    const dialog = page.getByRole("dialog");
    await page.getByText("No other node is registered").waitFor();
    await page.getByText("Nothing is copied").waitFor();
    await accessible(page);
    await page.getByRole("button", { name: "Register a node" }).click();
    await page.getByLabel("Name").fill("dc1");
    await page.getByLabel("URL of its API").fill("https://dc1.example");
    await page.getByLabel("Token").fill("fp_secret");
    await accessible(page);
    await dialog.getByRole("button", { name: "Register" }).click();
    await page.getByText("Node dc1 is registered.").waitFor();
    await page.getByRole("img", { name: "Picture of the nodes: 1 other node, 0 copies; 0 not reachable, 0 failing." }).waitFor();
    assert.deepEqual(sent.pop(), ["node", "dc1", { url: "https://dc1.example", token: "fp_secret" }]);

    await page.getByRole("button", { name: "Change dc1" }).click();
    await page.getByLabel("URL of its API").fill("https://dc1.example/two");
    await dialog.getByRole("button", { name: "Save" }).click();
    await page.getByText("https://dc1.example/two").waitFor();
    // The token of before is known to nobody: it is given again, or goes.
    assert.deepEqual(sent.pop(), ["node", "dc1", { url: "https://dc1.example/two" }]);
    assert.equal(await page.getByRole("button", { name: "Undo" }).count(), 0);

    held.set("out", copy("out", { lag: 1_234, oldest_uncopied_at: new Date(0).toISOString() }));
    held.set("in", copy("in", { direction: "from", state: "waiting", lag: 7, error: HOSTILE.markup }));
    held.set("loop", copy("loop", { node: "self", stream: "shop/all", state: "paused", lag: 2 }));
    await page.getByRole("button", { name: "Refresh" }).click();
    const picture = page.getByRole("img", { name: /^Picture of the nodes: 1 other node, 3 copies; 0 not reachable, 1 failing/ });
    for (const text of ["shop/orders · 1,234 behind", "shop/orders · fails, 7 behind", "shop/orders · paused, 2 behind"]) await picture.getByText(text).waitFor();
    const list = page.getByRole("region", { name: "Copies" });
    assert.deepEqual(await list.getByRole("row").filter({ hasText: "shop/orders" }).locator("td:nth-child(3)").allTextContents(), ["1,234", "7", "2"]);
    await list.getByText(HOSTILE.markup).waitFor();
    assert.notEqual(await page.title(), "taken");
    await accessible(page);
    await list.getByRole("link", { name: "in" }).click();
    await page.waitForURL("**/console/streams/shop/orders?tab=copies&copy=in");
    await page.getByRole("region", { name: "Copy", exact: true }).getByText("fails").waitFor();
    await page.goBack();

    await page.getByRole("button", { name: "Delete dc1" }).click();
    await page.getByLabel("Type dc1 to confirm").fill("dc1");
    await dialog.getByRole("button", { name: "Delete the node" }).click();
    await until(0, () => known.size);
    // Its copies name it all the same.
    await page.getByRole("img").getByText("not registered").waitFor();
  });
});

test("a copy is made, paused, resumed, changed back and deleted", async (t) => {
  const site = await siteWithOrders(t);
  const { answers, sent, held } = world({ nodes: [node("dc1"), node("edge")] });
  await visit(site, TAB, { answers }, async (page) => {
    const dialog = page.getByRole("dialog");
    const view = page.getByRole("region", { name: "Copy", exact: true });
    await page.getByText("No copy yet").waitFor();
    await accessible(page);
    await page.getByRole("button", { name: "New copy" }).click();
    await page.getByLabel("Name").fill("edge");
    await page.getByLabel("Direction").selectOption("from");
    await dialog.getByRole("combobox", { name: "Node", exact: true }).selectOption("edge");
    await page.getByLabel("Stream at the other end").fill("shop/intake");
    await page.getByLabel("It begins").selectOption("id");
    await page.getByLabel("Id of the message").fill("41");
    await page.getByLabel("Segments").fill("north, south");
    await page.getByLabel("Bytes a second, at most").fill("1048576");
    await dialog.getByText("1.0 MB a second").waitFor();
    await page.getByLabel("Share of new messages, %").fill("7");
    await accessible(page);
    await dialog.getByRole("button", { name: "Make it" }).click();
    await page.getByText("Copy edge is made.").waitFor();
    const body = { direction: "from", node: "edge", stream: "shop/intake", from: "41", segments: ["north", "south"], live_share: 0.07, rate: 1_048_576 };
    assert.deepEqual(sent.pop(), ["copy", "edge", body]);

    await page.getByRole("link", { name: "edge", exact: true }).click();
    await view.getByText("get 7 % of the rate").waitFor();
    await view.getByText("level").waitFor();
    await view.getByRole("button", { name: "Pause" }).click();
    await view.getByText("paused", { exact: true }).waitFor();
    await undo(page, "The copy is paused.");
    await view.getByText("level").waitFor();
    await view.getByRole("button", { name: "Pause" }).click();
    await view.getByRole("button", { name: "Resume" }).click();
    await until("running", () => held.get("edge").state);

    await view.getByRole("button", { name: "Change" }).click();
    await page.getByLabel("Bytes a second, at most").fill("");
    await dialog.getByRole("button", { name: "Save" }).click();
    await page.getByText("The copy is changed.").waitFor();
    const { from: _, rate: __, ...kept } = body;
    assert.deepEqual(sent.pop(), ["copy", "edge", kept]);
    await undo(page, "The copy is changed.");
    await until(1, () => sent.length);

    const reset = { state: "source_reset", lag: 1_204_000, copied: 98_765, duplicates: 12, dropped: 40, oldest_uncopied_at: new Date(0).toISOString() };
    held.set("edge", { ...held.get("edge"), ...reset });
    await page.getByRole("button", { name: "Refresh" }).click();
    await view.getByText("The stream at the other end was made anew").waitFor();
    await view.getByText("40 messages were deleted before being copied").waitFor();
    await until(["1.2M", "98.8K", "12", "40"], () => view.locator(".tile dd").allTextContents());
    await accessible(page);

    await view.getByRole("button", { name: "Delete it" }).click();
    await page.getByLabel("Type edge to confirm").fill("edge");
    await dialog.getByRole("button", { name: "Delete the copy" }).click();
    await page.getByText("No copy yet").waitFor();
    assert.equal(held.size, 0);

    // A copy within this node needs another stream.
    await page.getByRole("button", { name: "New copy" }).click();
    await page.getByLabel("Name").fill("dc1");
    await dialog.getByRole("combobox", { name: "Node", exact: true }).selectOption("self");
    await dialog.getByRole("button", { name: "Make it" }).click();
    assert.equal(await page.getByLabel("Stream at the other end").evaluate((field) => field.validity.valueMissing), true);
  });
});

test("thirty nodes, hostile texts, narrow windows and both themes are readable", async (t) => {
  const site = await siteWithOrders(t, { tokens: TOKENS });
  const nodes = Array.from({ length: 30 }, (_, n) => node(`n${n}-${"x".repeat(n * 2)}`.slice(0, 64), n % 7 === 2 ? { reachable: false, error: HOSTILE.long } : n === 9 ? { reachable: false, last_contact_at: null } : {}));
  const copies = nodes.flatMap(({ name }, n) => [
    copy(`out-${n}`, { node: name, lag: n * 999 }), copy(`in-${n}`, { node: name, direction: "from", state: "waiting", lag: n, error: n % 7 === 2 ? HOSTILE.backwards : null }),
  ]);
  const { answers } = world({ nodes, copies });
  const paths = ["/nodes", TAB, `${TAB}&copy=in-2`];
  await readable(site, paths, async (page, path) => {
    if (path === "/nodes") {
      const picture = page.getByRole("img", { name: /30 other nodes, 60 copies; 4 not reachable, 4 failing/ });
      await until([60, 30], async () => [await picture.locator(".lane").count(), await picture.locator(".peer").count()]);
    } else await page.getByRole("gridcell").first().waitFor();
    if (path.includes("copy=")) await page.getByRole("region", { name: "Copy", exact: true }).waitFor();
  }, { token: "root-token", answers });
  // Nodes and copies are for administrators.
  await visit(site, TAB.split("?")[0], { token: "shop-token" }, async (page) => {
    await page.getByRole("link", { name: "Blocks" }).waitFor();
    assert.equal(await page.getByRole("link", { name: /^(Copies|Nodes)$/ }).count(), 0);
  });
});
