/** What lists and resources keep while calls and the live stream overtake one another; without a browser. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { compileModule } from "svelte/compiler";
import * as svelte from "svelte/internal/client";
import ts from "typescript";

const STUBS = {
  "./api": 'export const isAborted = (error) => error?.name === "AbortError";',
  "./connection.svelte": "export const connection = { epoch: 0 };",
};

const modules = new Map();
/** A module of src/lib with runes; what it imports of the console is a stub. */
function lib(name) {
  if (!modules.has(name)) modules.set(name, made(name));
  return modules.get(name);
}

async function made(name) {
  const filename = `${name}.svelte.js`;
  const target = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022, useDefineForClassFields: true };
  const source = readFileSync(join(import.meta.dirname, "../src/lib", `${name}.svelte.ts`), "utf8");
  const { outputText } = ts.transpileModule(source, { compilerOptions: target });
  const { js } = compileModule(outputText, { filename, generate: "client" });
  const text = js.code.replace(/(from |import )['"]([^'"]+)['"]/g, (_, word, from) => {
    const stub = STUBS[from];
    return `${word}${JSON.stringify(stub === undefined ? import.meta.resolve(from) : `data:text/javascript,${encodeURIComponent(stub)}`)}`;
  });
  return import(`data:text/javascript;base64,${Buffer.from(text).toString("base64")}`);
}

/** Calls that are answered when the test says so. */
function server() {
  const calls = [];
  const load = (cursor, limit, signal) =>
    new Promise((answer, refuse) => {
      signal?.addEventListener("abort", () => refuse(new DOMException("given up", "AbortError")));
      calls.push({ cursor, limit, answer: async (page) => (answer(page), turn()), refuse: async (error) => (refuse(error), turn()) });
    });
  return { calls, load };
}

/** Made as in a component. */
function within(t, make) {
  let made;
  t.after(svelte.effect_root(() => void (made = make())));
  svelte.flush();
  return made;
}

async function list(t) {
  const { Rows } = await lib("rows");
  const { calls, load } = server();
  const rows = within(t, () => new Rows(({ id }) => String(id), () => load));
  const shown = () => Array.from({ length: rows.length }, (_, i) => rows.at(i)?.is ?? rows.at(i)?.id);
  return { rows, calls, shown };
}

test("a row that came live does not replace the newer one of a page", async (t) => {
  const { rows, calls, shown } = await list(t);
  rows.prepend([{ id: 1, is: "scheduled" }, { id: 2, is: "new" }]);
  await calls[0].answer({ items: [{ id: 1, is: "acknowledged" }] });
  assert.deepEqual(shown(), ["new", "acknowledged"]);
});

test("a row that came live and changed at once shows the change, whether a page is asked for or not", async (t) => {
  const { rows, calls, shown } = await list(t);
  rows.prepend([{ id: 1, is: "pending" }]);
  rows.update([{ id: 1, is: "delivered" }]);
  await calls[0].answer({ items: [] });
  assert.deepEqual(shown(), ["delivered"]);
  rows.prepend([{ id: 2, is: "pending" }]);
  rows.update([{ id: 2, is: "delivered" }]);
  assert.deepEqual(shown(), ["delivered", "delivered"]);
});

test("a change that came live outlives the page that was asked for before", async (t) => {
  const { rows, calls, shown } = await list(t);
  rows.update([{ id: 1, is: "online" }]);
  rows.remove("2");
  await calls[0].answer({ items: [{ id: 1, is: "lost" }, { id: 2 }, { id: 3 }] });
  assert.deepEqual(shown(), ["online", 3]);
  rows.reload();
  await calls[1].answer({ items: [{ id: 1, is: "lost" }] });
  assert.deepEqual(shown(), ["lost"], "an old change is not kept for ever");
});

test("one row that came twice is shown once, as it came last", async (t) => {
  const { rows, calls, shown } = await list(t);
  rows.prepend([{ id: 1, is: "published" }, { id: 1, is: "scheduled" }]);
  rows.prepend([{ id: 1, is: "acknowledged" }]);
  await calls[0].answer({ items: [] });
  assert.deepEqual(shown(), ["acknowledged"]);
  rows.prepend([{ id: 2, is: "b" }, { id: 2, is: "a" }]);
  assert.deepEqual(shown(), ["b", "acknowledged"]);
});

test("a row that comes to match is put into its place, and not behind what is loaded", async (t) => {
  const { rows, calls, shown } = await list(t);
  const newestFirst = (a, b) => a.id > b.id;
  await calls[0].answer({ items: Array.from({ length: 100 }, (_, n) => ({ id: 300 - 2 * n })), next_cursor: "after 102" });
  rows.prepend([{ id: 304 }]);
  rows.insert([{ id: 301, is: "a" }, { id: 303, is: "b" }, { id: 300, is: "known" }, { id: 7, is: "far" }], newestFirst);
  assert.deepEqual(shown().slice(0, 5), [304, "b", "a", 300, 298]);
  assert.equal(rows.length, 103);
  rows.show(0, rows.length);
  rows.insert([{ id: 99, is: "meanwhile" }], newestFirst);
  await calls[1].answer({ items: [{ id: 100 }, { id: 98 }] });
  assert.deepEqual(shown().slice(-3), [100, "meanwhile", 98]);
  rows.insert([{ id: 1, is: "last" }], newestFirst);
  assert.deepEqual(shown().slice(-2), [98, "last"]);
});

test("a row that comes to match before the first page is there is not lost, and an empty list takes it", async (t) => {
  const { rows, calls, shown } = await list(t);
  const newestFirst = (a, b) => a.id > b.id;
  rows.insert([{ id: 2 }], newestFirst);
  await calls[0].answer({ items: [] });
  rows.insert([{ id: 1 }, { id: 3 }], newestFirst);
  assert.deepEqual(shown(), [3, 2, 1]);
});

test("newer rows are put on top when somebody looks for them; too many begin the list anew", async (t) => {
  const { rows, calls, shown } = await list(t);
  await calls[0].answer({ items: [{ id: 2, is: "old" }, { id: 1 }] });
  void rows.freshen();
  await calls[1].answer({ items: [{ id: 3 }, { id: 2, is: "new" }, { id: 1 }] });
  assert.deepEqual(shown(), [3, "new", 1]);
  void rows.freshen();
  await calls[2].answer({ items: [{ id: 9 }], next_cursor: "after 9" });
  assert.equal(calls.length, 4, "there are rows between");
  void rows.freshen();
  await calls[3].answer({ items: [{ id: 9 }, { id: 8 }] });
  assert.equal(calls.length, 5, "what came while it began is looked for");
});

test("a list whose live rows are too many begins anew, and no row is missing", async (t) => {
  const { rows, calls, shown } = await list(t);
  await calls[0].answer({ items: [{ id: 0 }] });
  const some = (from, n) => Array.from({ length: n }, (_, i) => ({ id: from + n - 1 - i }));
  rows.prepend(some(1, 1_000));
  assert.equal(calls.length, 1);
  rows.prepend(some(1_001, 1));
  assert.deepEqual([calls.length, calls[1].cursor], [2, undefined]);
  rows.prepend(some(1_002, 1));
  await calls[1].answer({ items: some(802, 200), next_cursor: "after 802" });
  assert.deepEqual(shown(), [1_002, ...some(802, 200).map(({ id }) => id)]);
  assert.equal(rows.more, true);
  assert.equal(calls.length, 2);
});

test("a list that cannot begin anew is not asked for with every row that comes", async (t) => {
  const { rows, calls } = await list(t);
  await calls[0].answer({ items: [] });
  rows.prepend(Array.from({ length: 1_001 }, (_, id) => ({ id })));
  await calls[1].refuse(new Error("no"));
  rows.prepend([{ id: "a" }]);
  rows.prepend([{ id: "b" }]);
  assert.equal(calls.length, 2);
  rows.goOn();
  assert.equal(calls.length, 3);
});

test("an answer that was asked for before the last live value is not shown", async (t) => {
  const { Resource } = await lib("resource");
  const { calls, load } = server();
  const resource = within(t, () => new Resource((signal) => load(undefined, undefined, signal)));
  await calls[0].answer("old");
  assert.equal(resource.data, "old");
  resource.reload();
  svelte.flush();
  resource.data = "live";
  await calls[1].answer("older");
  assert.equal(resource.data, "live");
  resource.reload();
  svelte.flush();
  await calls[2].answer("new");
  assert.equal(resource.data, "new");
});
