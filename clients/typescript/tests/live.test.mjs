/** The live stream: pieces of any size, cuts, and refusals. */
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { test } from "node:test";
import { live } from "../dist/index.js";
import { eventParser } from "../dist/live.js";

/** A server that answers by `handle`, until the test is over. */
async function serving(t, handle) {
  const server = createServer(handle).listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${server.address().port}`;
}

/** Resolves when `opened` has told of so many messages. */
function messages(count) {
  const seen = [];
  let done;
  const all = new Promise((resolve) => (done = resolve));
  const onMessage = (message) => {
    seen.push(message);
    if (seen.length === count) done(seen);
  };
  return { all, onMessage };
}

test("events are read from pieces that end anywhere", () => {
  const text = ': a comment\r\nevent: hello\r\ndata: {"version":"1"}\r\n\r\nid: 7\nevent: events\ndata: {"items":\ndata: []}\n\n';
  const whole = [
    { event: "hello", data: '{"version":"1"}', id: undefined },
    { event: "events", data: '{"items":\n[]}', id: "7" },
  ];
  for (let size = 1; size <= text.length; size += 1) {
    const seen = [];
    const parse = eventParser((event) => seen.push(event));
    for (let at = 0; at < text.length; at += size) parse(text.slice(at, at + size));
    assert.deepEqual(seen, whole, `pieces of ${size}`);
  }
});

test("an event without an end is not told", () => {
  const seen = [];
  eventParser((event) => seen.push(event))("event: hello\ndata: 1\n");
  assert.deepEqual(seen, []);
});

test("a cut stream goes on after the last event, with the token", async (t) => {
  const asked = [];
  const url = await serving(t, (request, response) => {
    asked.push([request.url, request.headers["last-event-id"], request.headers.authorization]);
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end(`id: at-${asked.length}\nevent: events\ndata: ${asked.length}\n\n`);
  });
  const { all, onMessage } = messages(2);
  const cuts = [];
  const handle = live({
    baseUrl: url,
    token: () => "secret",
    query: { topics: "events", last: "5" },
    onMessage,
    onCut: (error, retryInMs) => {
      cuts.push(retryInMs);
      handle.retryNow();
    },
  });
  t.after(() => handle.close());
  assert.deepEqual((await all).map(({ data }) => data), [1, 2]);
  assert.deepEqual(asked, [
    ["/v1/live?topics=events&last=5", undefined, "Bearer secret"],
    ["/v1/live?topics=events&last=5", "at-1", "Bearer secret"],
  ]);
  assert.ok(cuts.length >= 1 && cuts[0] < 1_000, `${cuts}`);
});

test("a refusal that no waiting mends ends the stream", async (t) => {
  let asked = 0;
  const url = await serving(t, (_, response) => {
    asked += 1;
    response.writeHead(403, { "content-type": "application/problem+json" });
    response.end('{"type":"about:blank","title":"Forbidden","status":403,"detail":"read may","code":"forbidden"}');
  });
  const error = await new Promise((resolve) => {
    live({ baseUrl: url, query: { topics: "events" }, onMessage: () => {}, onRefused: resolve });
  });
  assert.equal(error.code, "forbidden");
  assert.equal(asked, 1);
});

test("a server that is full is asked again", async (t) => {
  let asked = 0;
  const url = await serving(t, (_, response) => {
    asked += 1;
    if (asked === 1) {
      response.writeHead(503, { "content-type": "application/problem+json" });
      response.end('{"type":"about:blank","title":"Busy","status":503,"detail":"full","code":"too_many_live"}');
    } else {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write("event: hello\ndata: {}\n\n");
    }
  });
  const { all, onMessage } = messages(1);
  const cuts = [];
  const handle = live({ baseUrl: url, query: { topics: "events" }, onMessage, onCut: (error) => cuts.push(error.code) });
  t.after(() => handle.close());
  assert.equal((await all)[0].event, "hello");
  assert.deepEqual(cuts, ["too_many_live"]);
});

test("a server that says hello and is busy is asked less and less often", async (t) => {
  let asked = 0;
  const url = await serving(t, (_, response) => {
    asked += 1;
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write("event: hello\ndata: {}\n\n");
    if (asked === 4) response.write('event: events\ndata: {"items":[],"first":true}\n\n');
    response.end('event: end\ndata: {"type":"about:blank","title":"Busy","status":503,"detail":"full","code":"busy"}\n\n');
  });
  const pauses = [];
  await new Promise((resolve) => {
    const handle = live({
      baseUrl: url,
      query: { topics: "events" },
      onMessage: () => {},
      onCut: (_, retryInMs) => {
        pauses.push(retryInMs);
        if (pauses.length === 4) {
          handle.close();
          resolve();
        } else {
          handle.retryNow();
        }
      },
    });
  });
  // Each is spread by a quarter of 500, 1,000 and 2,000; the fourth begins anew.
  assert.ok(pauses[1] >= 750 && pauses[2] >= 1_500, `${pauses}`);
  assert.ok(pauses[3] <= 625, `${pauses}`);
});

test("a stream that the server ends for good is not opened again", async (t) => {
  let asked = 0;
  const url = await serving(t, (_, response) => {
    asked += 1;
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write("event: hello\ndata: {}\n\n");
    response.write('event: end\ndata: {"type":"about:blank","title":"Unauthorized","status":401,"detail":"gone","code":"unauthorized"}\n\n');
  });
  const error = await new Promise((resolve) => {
    live({ baseUrl: url, query: { topics: "events" }, onMessage: () => {}, onRefused: resolve });
  });
  assert.equal(error.code, "unauthorized");
  assert.equal(asked, 1);
});
