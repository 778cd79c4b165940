/** The client against a running server; FIELDPOST_URL says which. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ask, fieldpost, FieldpostError, items, subscription, Unreachable } from "../dist/index.js";

const baseUrl = process.env["FIELDPOST_URL"];
if (baseUrl === undefined) throw new Error("FIELDPOST_URL has to say where a server without tokens listens");
const client = fieldpost({ baseUrl });

/** An id that no other run has. */
const fresh = (name) => `${name}${Date.now().toString(36)}${Math.floor(Math.random() * 1e4)}`.slice(0, 16);

test("a device is made, read and deleted", async () => {
  const id = fresh("d");
  const made = await ask(client.POST("/v1/devices", { body: { id, labels: { site: "12" } } }));
  assert.equal(made.id, id);
  const read = await ask(client.GET("/v1/devices/{id}", { params: { path: { id } } }));
  assert.deepEqual(read.labels, { site: "12" });
  assert.equal(await ask(client.DELETE("/v1/devices/{id}", { params: { path: { id } } })), undefined);
});

test("a refusal is an error with the server's code and sentence", async () => {
  const asked = ask(client.GET("/v1/devices/{id}", { params: { path: { id: fresh("none") } } }));
  await assert.rejects(asked, (error) => {
    assert.ok(error instanceof FieldpostError);
    assert.equal(error.status, 404);
    assert.match(error.code, /^[a-z_]+$/);
    assert.equal(error.message, error.problem.detail);
    return true;
  });
});

test("a list is walked to its end", async () => {
  const site = fresh("s");
  const ids = Array.from({ length: 5 }, (_, n) => fresh(`w${n}`)).sort();
  for (const id of ids) await ask(client.POST("/v1/devices", { body: { id, labels: { site } } }));
  const seen = [];
  const page = (cursor) => client.call("GET", "/v1/devices", { query: { "label.site": site, limit: 2, cursor } });
  for await (const device of items(page)) seen.push(device.id);
  assert.deepEqual(seen, ids);
});

test("devices of a selection are counted, and a task asks those that are connected", async () => {
  const rack = fresh("r");
  await ask(client.POST("/v1/devices", { body: { id: fresh("p"), labels: { rack } } }));
  const selector = `rack=${rack}`;
  const count = await ask(client.GET("/v1/fleet/count", { params: { query: { selector } } }));
  assert.deepEqual([count.total, count.connected], [1, 0]);
  const body = { payload: "ping", selector, count: 3 };
  const task = await ask(client.POST("/v1/tasks", { params: { query: { wait: "5s" } }, body }));
  assert.deepEqual([task.status, task.wanted, task.picked], ["done", 3, 0]);
});

test("a subscription goes on where its reader was", async () => {
  const place = { namespace: fresh("n"), stream: "orders", subscription: "bill" };
  const path = { ns: place.namespace, stream: place.stream };
  const name = { params: { path: { ...path, name: place.subscription } } };
  await ask(client.PUT("/v1/streams/{ns}/{stream}/subscriptions/{name}", { ...name, body: {} }));
  const messages = [1, 2, 3].map((payload) => ({ payload }));
  await ask(client.POST("/v1/streams/{ns}/{stream}/messages", { params: { path }, body: { messages } }));
  const seen = [];
  for await (const message of subscription(client, { ...place, reader: "a", limit: 2 })) {
    seen.push(message.payload);
    if (seen.length === 3) break;
  }
  assert.deepEqual(seen, [1, 2, 3]);
  const shown = await ask(client.GET("/v1/streams/{ns}/{stream}/subscriptions/{name}", name));
  assert.equal(shown.position, "2");
});

test("a call that the document lacks is made all the same", async () => {
  const asked = client.call("GET", "/v1/nothing", { query: { a: 1, b: undefined } });
  await assert.rejects(asked, (error) => error instanceof FieldpostError && error.code === "unknown_route");
});

test("the token is asked for at each request", async () => {
  const tokens = ["first", "second"];
  const seen = [];
  const given = fieldpost({
    baseUrl,
    token: () => tokens.shift(),
    fetch: async (request) => {
      seen.push(request.headers.get("authorization"));
      return new Response("{}");
    },
  });
  for (let n = 0; n < 3; n += 1) await given.call("GET", "/v1/stats");
  assert.deepEqual(seen, ["Bearer first", "Bearer second", null]);
});

test("a server that is away is not a refusal", async () => {
  const away = fieldpost({ baseUrl: "http://127.0.0.1:1" });
  await assert.rejects(ask(away.GET("/v1/devices")), Unreachable);
});

test("an answer of somebody in between is told as such", async () => {
  const behind = fieldpost({ baseUrl, fetch: async () => new Response("<h1>Bad Gateway</h1>", { status: 502 }) });
  await assert.rejects(ask(behind.GET("/v1/devices")), (error) => error.code === "not_a_problem" && error.status === 502);
});
