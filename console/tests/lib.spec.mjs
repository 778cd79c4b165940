/** Rules of the fleet's pages that need no browser: labels, durations, charts, sentences. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import ts from "typescript";

/** A module below src, with the modules of its folder that it imports, `api` left out: it is the server. */
function lib(name) {
  return import(dataUrl(join(import.meta.dirname, "../src", `${name}.ts`)));
}

function dataUrl(path) {
  const target = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 };
  const { outputText } = ts.transpileModule(readFileSync(path, "utf8"), { compilerOptions: target });
  const beside = (all, from) => (from.endsWith("/api") ? 'from "data:text/javascript,export const api = {}, ask = {}, FieldpostError = Error;"' : `from "${dataUrl(join(path, "..", `${from}.ts`))}"`);
  const text = outputText.replace(/from "(\.[^"]+)"/g, beside);
  return `data:text/javascript;base64,${Buffer.from(text).toString("base64")}`;
}

test("labels are read as they are typed, and written so that they can be read again", async () => {
  const { labelsOf, labelText, labelFilter } = await lib("lib/labels");
  assert.deepEqual(labelsOf(" site=12 , floor==3,"), { labels: { site: "12", floor: "3" } });
  assert.deepEqual(labelsOf('note="a, b=c", x=='), { labels: { note: "a, b=c", x: "" } });
  assert.deepEqual(labelsOf("site=1, floor, Bad=2"), { labels: { site: "1" }, wrong: "floor" });
  for (const labels of [{}, { a: "1" }, { a: "x, y", b: " z " }, { a: "=" }, { a: 'say "x, y"' }, { a: 'b\\", c=' }, { a: "b\\" }]) assert.deepEqual(labelsOf(labelText(labels)).labels, labels);
  assert.deepEqual(labelFilter({ site: "1" }), { "label.site": "1" });
});

test("the filter of devices is a selection, but for what only the list knows", async () => {
  const { selectionOf } = await lib("pages/devices/filter");
  const of = (query) => selectionOf(new URLSearchParams(query));
  assert.deepEqual(of({}), { selector: "", place: "" });
  assert.deepEqual(of({ selector: "a in (1,2)", place: "CN", labels: 'site=12, note="x y"', kind: "lock", connected: "true", connection: "lost" }), {
    selector: 'a in (1,2),kind=lock,connection=lost,connected=true,site=12,note="x y"', place: "CN",
  });
  for (const name of ["id_prefix", "waiting", "silent_for"]) assert.equal(of({ selector: "a", [name]: "1h" }), undefined, name);
});

test("durations are those of the API, and read well", async () => {
  const { durationMs, spanOf } = await lib("lib/durations");
  assert.deepEqual(["250ms", "30s", "1h30m", "1d", "0s"].map(durationMs), [250, 30_000, 5_400_000, 86_400_000, 0]);
  for (const text of ["", "h", "1", "1m1h", "-1s", "1 s"]) assert.equal(durationMs(text), undefined, text);
  assert.deepEqual([12, 1_000, 90_000, 5_400_000, 90_061_000].map(spanOf), ["12 ms", "1 s", "1 min 30 s", "1 h 30 min", "1 d 1 h"]);
});

test("a chart finds numbers first, then booleans, and joins a step that came in two parts", async () => {
  const { pointersOf, joined } = await lib("lib/summary");
  assert.deepEqual(pointersOf(1), [""]);
  assert.deepEqual(pointersOf({ open: true, t: 1, "a/b": { "~c": 2 }, text: "x", none: null, list: [5] }), ["/t", "/a~1b/~0c", "/list/0", "/open"]);
  assert.deepEqual(pointersOf("text"), []);
  const step = (from, count, mean, more) => ({ from, count, changed: 1, min: mean, max: mean, mean, last: mean, ...more });
  assert.deepEqual(joined([step("a", 1, 1)], [step("a", 3, 5), step("b", 1, 2)]), [
    { from: "a", count: 4, changed: 2, last: 5, min: 1, max: 5, mean: 4 }, step("b", 1, 2),
  ]);
});

test("every item of a timeline has its sentence", async () => {
  const { explained } = await lib("lib/timeline");
  const { components } = JSON.parse(readFileSync(join(import.meta.dirname, "../../clients/typescript/openapi.json"), "utf8"));
  const { TimelineItem, TimelineDetail } = components.schemas;
  for (const type of TimelineItem.properties.type.enum) assert.match(explained({ type, detail: {} }), /^[A-Z].*\.$/, type);
  for (const reason of TimelineDetail.properties.reason.enum) assert.match(explained({ type: "disconnected", detail: { reason, duration_ms: 61_000 } }), /^[A-Z].*, after 1 min 1 s\.$/, reason);
  for (const error of TimelineDetail.properties.error.enum.filter((error) => error !== null)) {
    assert.doesNotMatch(explained({ type: "delivery.attempt", detail: { error, duration_ms: 5 } }), /undefined/, error);
  }
  const say = (type, detail) => explained({ type, detail });
  assert.equal(say("device.changed", { previous: 1, value: 0 }), "Its value changed from 1 to 0: its clients are told.");
  assert.equal(say("command.published", { tries: 3 }), "The command went out again, for the 3rd time.");
  assert.equal(say("delivery.attempt", { status_code: 500, duration_ms: 8 }), "A client was told, and refused it with 500 (8 ms).");
});

test("the form of a rollout becomes the call's body, without what was left empty", async () => {
  const { bodyOf, emptyForm, idsOf } = await lib("pages/rollouts/form");
  const form = emptyForm(new URLSearchParams({ selector: "site=12" }));
  const said = (form) => JSON.parse(JSON.stringify(bodyOf(form, 1)));
  assert.deepEqual(said(form), { payload: 1, selector: "site=12" });
  assert.deepEqual(said({ ...form, stages: [{ share: "7", soak: " 10m", approve: true }, { share: "0.1", soak: "", approve: false }], failedShare: "12.5", rate: "600" }), {
    payload: 1, selector: "site=12", stages: [{ share: 0.07, soak: "10m", approve: true }, { share: 0.001 }], stop: { failed_share: 0.125 }, rate: 600,
  });
  assert.deepEqual(idsOf("a, b;c\n a  d"), ["a", "b", "c", "d"]);
  assert.deepEqual(said(emptyForm(new URLSearchParams({ devices: "a\nb" }))), { payload: 1, devices: ["a", "b"] });
});

test("a selection is narrowed, and a place goes down by a level", async () => {
  const { below, narrowed, pathWith, requirement, upTo } = await lib("lib/selection");
  const everybody = { selector: "", place: "" };
  assert.deepEqual(["a", "a b", 'say "x"', "", null].map((value) => requirement("k", value)), ["k=a", 'k="a b"', 'k="say \\"x\\""', 'k=""', "!k"]);
  assert.deepEqual(narrowed({ selector: " a=1 ", place: "CN" }, "b"), { selector: "a=1,b", place: "CN" });
  assert.deepEqual(below({ selector: "", place: "CN" }, "province", "52"), { selector: "", place: "CN_52" });
  assert.deepEqual(below({ selector: "a", place: "CN" }, "province", "5_2"), { selector: "a,province=5_2", place: "CN_*" });
  assert.deepEqual(below(everybody, "country", null), { selector: "!country", place: "" });
  assert.deepEqual(upTo({ selector: "a", place: "CN_52_1" }, 2), { selector: "a", place: "CN_52" });
  assert.equal(pathWith("/devices", { selector: " ", place: "CN_52" }, { tab: "x" }), "/devices?place=CN_52&tab=x");
  assert.equal(pathWith("/devices", everybody), "/devices");
});

test("a change of a campaign sends what was changed, and null for what is gone", async () => {
  const { campaignOf, formOf, patchOf } = await lib("pages/campaigns/form");
  const campaign = {
    id: "ping", name: "Pings", payload: { op: "ping" }, devices: ["a", "b"], not_as: "tsk_1", count: 10, every: "5m", phase: "1s", class: "large", answer_timeout: "10s",
    from: "2026-11-22T12:00:00.000Z", missed: "skip", results: { url: "https://acme.example/hook" },
  };
  const before = campaignOf(formOf(campaign), campaign.payload);
  assert.deepEqual(before, { ...campaign, every: "5m" }, "what is shown is what would be sent");
  const form = { ...formOf(campaign), which: "selection", selector: "kind=probe", mode: "over", interval: "1h", relation: "", receiver: "", count: "20" };
  assert.deepEqual(patchOf(before, campaignOf(form, 1)), {
    payload: 1, devices: null, selector: "kind=probe", not_as: null, count: 20, every: null, over: "1h", results: null,
  });
  assert.deepEqual(patchOf(before, campaignOf(formOf(campaign), campaign.payload)), {});
  assert.deepEqual(patchOf({ selector: "a" }, { selector: "a", place: "CN" }), { selector: "a", place: "CN" });
  assert.deepEqual(patchOf({ selector: "a", place: "CN" }, { place: "CN" }), { selector: null, place: "CN" });
});

test("a histogram has a bin for each number, or equal ones that hold them all", async () => {
  const { histogramOf } = await lib("lib/histogram");
  assert.deepEqual(histogramOf([], 4), []);
  assert.deepEqual(histogramOf([3, 5, 3], 4), [{ from: 3, to: 3, n: 2 }, { from: 4, to: 4, n: 0 }, { from: 5, to: 5, n: 1 }]);
  const bins = histogramOf([0, 1, 2, 50, 99, 100], 4);
  assert.deepEqual(bins.map(({ from, to }) => [from, to]), [[0, 25], [26, 51], [52, 77], [78, 100]]);
  assert.equal(bins.reduce((sum, { n }) => sum + n, 0), 6);
});

test("nodes and the arrows of their copies have each their place, however many and however narrow", async () => {
  const { fitted, lanesOf, placed } = await lib("pages/nodes/layout");
  const copy = (node, n, more) => ({ key: `${node} ${n}`, node, direction: n % 2 === 0 ? "to" : "from", tone: "ok", paused: false, name: `shop/orders-${n}`, lag: "1.2K behind", short: "1.2K behind", title: "", ...more });
  const overlap = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
  for (const [count, each, width] of [[0, 0, 1000], [1, 1, 1000], [1, 6, 320], [5, 2, 1000], [5, 2, 320], [30, 1, 1000], [30, 3, 336]]) {
    const names = Array.from({ length: count }, (_, n) => `node-${n}`);
    const picture = placed(names, names.flatMap((node) => Array.from({ length: each }, (_, n) => copy(node, n))), width);
    const boxes = [picture.hub, ...picture.peers];
    const what = `${count} nodes, ${each} copies, ${width} px`;
    assert.equal(picture.peers.length, count, what);
    for (const [n, box] of boxes.entries()) {
      assert.ok(box.x >= 0 && box.y >= 0 && box.x + box.width <= width && box.y + box.height <= picture.height, `${what}: box ${n} is inside`);
      assert.ok(!boxes.slice(n + 1).some((other) => overlap(box, other)), `${what}: box ${n} is alone`);
    }
    const lanes = picture.peers.flatMap(({ x, lanes }) => lanes.map(({ text, path }) => ({ side: x, y: text.y, path })));
    assert.equal(lanes.length, count * each, what);
    const lines = lanes.map(({ side, y }) => `${side} ${Math.round(y / 20)}`);
    assert.equal(new Set(lines).size, lines.length, `${what}: no two texts on a line`);
  }
  // Too many for one node become one arrow for each direction, with the worst state.
  const many = Array.from({ length: 9 }, (_, n) => copy("dc", n, n === 4 ? { tone: "bad" } : {}));
  assert.deepEqual(lanesOf(many).map(({ name, lag, tone, direction }) => [name, lag, tone, direction]), [["5 copies", "1 fails", "bad", "to"], ["4 copies", "", "ok", "from"]]);
  assert.deepEqual(lanesOf(many.slice(0, 6)), many.slice(0, 6));
  assert.deepEqual([fitted("short", 100), fitted("a long name of a node", 60)], ["short", "a long n…"]);
});

test("a copy's state is told in a word, and its form goes there and back", async () => {
  const { bodyOf, formOf, shortLag, standing } = await lib("lib/copies");
  const states = [["running", 0, null], ["running", 1_200_000, null], ["waiting", 5, null], ["waiting", 5, "cut"], ["paused", 7, "cut"], ["source_reset", 0, null]];
  assert.deepEqual(states.map(([state, lag, error]) => `${standing({ state, lag, error }).tone}: ${shortLag({ state, lag, error })}`), [
    "ok: level", "ok: 1.2M behind", "warn: waits, 5 behind", "bad: fails, 5 behind", "plain: paused, 7 behind", "warn: source reset",
  ]);
  const copy = { name: "dc", direction: "from", node: "dc1", stream: "shop/orders", segments: ["a", "b"], live_share: 0.07, rate: 1_000 };
  assert.deepEqual(bodyOf(formOf(copy)), { direction: "from", node: "dc1", stream: "shop/orders", segments: ["a", "b"], live_share: 0.07, rate: 1_000 });
  const reports = { ...copy, kind: "reports", direction: "to", stream: null, segments: [], live_share: 0, selector: "site=12" };
  assert.deepEqual(bodyOf(formOf(reports)), { kind: "reports", direction: "to", node: "dc1", selector: "site=12", rate: 1_000 });
  assert.deepEqual(bodyOf({ ...formOf(undefined), node: "dc1" }), { direction: "to", node: "dc1", from: "start" });
  assert.equal(bodyOf({ ...formOf(copy), start: { begins: "id", id: " 41 ", time: "" } }).from, "41");
});

test("the form of a subscription becomes the call's body, and moves nothing unless it is asked to", async () => {
  const { bodyOf, formOf, lagOf } = await lib("lib/subscriptions");
  const pushed = { name: "erp", segment: "a,b", push: { url: "https://x.example/", max: 7, failures: 0, error: null, last_failed_at: null } };
  assert.deepEqual(bodyOf(formOf(undefined)), { from: "start" });
  assert.deepEqual(bodyOf(formOf(pushed)), { segment: "a,b", push: { url: "https://x.example/", max: 7 } });
  assert.deepEqual(bodyOf({ ...formOf(pushed), pushed: false, segment: " " }), {});
  assert.deepEqual(bodyOf({ ...formOf(pushed), secret: " whsec_abc= ", max: "" }).push, { url: "https://x.example/", secret: "whsec_abc=" });
  for (const [start, expect] of [[{ begins: "id", id: " 41 " }, "41"], [{ begins: "end" }, "end"], [{ begins: "time", time: "2026-11-22T12:00" }, new Date("2026-11-22T12:00").toISOString()]]) {
    assert.equal(bodyOf({ ...formOf(pushed), start: { begins: "", id: "", time: "", ...start } }).from, expect);
  }
  assert.deepEqual([{ lag: 1_200, segment: null }, { lag: 3, segment: "a" }, { lag: 0, segment: "a" }].map(lagOf), ["1,200", "at most 3", "0"]);
});
