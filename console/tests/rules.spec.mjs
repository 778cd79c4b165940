/** The console's rules that need no browser: what is offered to whom, paths, numbers and times. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import ts from "typescript";

/** A module of src/lib that imports nothing. */
function lib(name) {
  const text = readFileSync(join(import.meta.dirname, "../src/lib", `${name}.ts`), "utf8");
  const target = { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2022 };
  const { outputText } = ts.transpileModule(text, { compilerOptions: target });
  return import(`data:text/javascript;base64,${Buffer.from(outputText).toString("base64")}`);
}

test("a caller is offered what the scopes reach", async () => {
  const { permits } = await lib("rights");
  const everything = "look look.devices look.queue look.client register command deliver test url jobs respawn control coordinate look.stream subscribe append streams operate portal admin".split(" ");
  const check = (caller, where, expect) => {
    const offered = everything.filter((permission) => permits({ open: false, token: "t", scopes: [], ...caller }, permission, where));
    assert.deepEqual(offered.join(" "), expect, JSON.stringify([caller, where]));
  };
  check({ open: true }, undefined, everything.join(" "));
  check({ scopes: ["admin"] }, "shop", everything.join(" "));
  check({ scopes: [] }, undefined, "");
  check({ scopes: ["report"] }, undefined, "");
  check({ scopes: ["read"] }, undefined, "look look.devices look.queue look.client look.stream");
  check({ scopes: ["commands"] }, undefined, "look.devices command");
  check({ scopes: ["operate"] }, "shop", "look look.devices look.queue look.client command deliver respawn look.stream operate portal");
  check({ scopes: ["jobs:shop"] }, "shop", "look.queue jobs respawn control");
  check({ scopes: ["jobs:shop"] }, "other", "");
  check({ scopes: ["jobs:shop"] }, undefined, "look.queue jobs respawn control");
  check({ scopes: ["coordinate:shop"] }, "shop", "control coordinate");
  check({ scopes: ["coordinate:shop"] }, "other", "");
  check({ scopes: ["streams:shop"] }, "shop", "look.stream subscribe append streams");
  check({ scopes: ["streams:shop"] }, "other", "");
  check({ scopes: ["streams:shop:read"] }, "shop", "look.stream subscribe");
  check({ scopes: ["streams:shop:append"] }, "shop", "append");
  check({ scopes: ["streams:shop:append", "streams:other:read"] }, undefined, "look.stream subscribe append");
  check({ scopes: ["streams:shop:append", "streams:other:read"] }, "shop", "append");
  check({ scopes: ["client:acme"], client: "acme" }, "acme", "look.client deliver test");
  check({ scopes: ["client:acme"], client: "acme" }, "bolt", "");
  check({ scopes: ["client:acme"], client: "acme", may: ["read"] }, "acme", "look.client");
  check({ scopes: ["client:acme"], client: "acme", may: ["read", "retry", "url"] }, "acme", "look.client deliver test url");
});

test("paths carry any id, and are told apart", async () => {
  const { match, to } = await lib("paths");
  for (const id of ["lock7", "a/b", "50%", "a b", "ü:1"]) {
    const path = to("/devices/:id", { id });
    assert.deepEqual(match("/devices/:id", path), { id }, path);
    assert.equal(match("/devices", path), undefined);
    assert.equal(match("/devices/:id/edit", path), undefined);
  }
  assert.deepEqual(match("/", "/"), {});
  assert.deepEqual(match("/queues/:ns/:queue", "/queues/shop/mails/"), { ns: "shop", queue: "mails" });
  assert.equal(match("/devices/:id", "/devices/%E0%A4%A"), undefined);
});

test("numbers and times read well", async () => {
  const { ago, bytes, compact } = await lib("when");
  const now = Date.parse("2026-11-22T12:00:00Z");
  const at = (seconds) => ago(now + seconds * 1000, now);
  assert.deepEqual([0, -5, -90, -7300, -200000, 30].map(at), ["now", "5s ago", "1m ago", "2h ago", "2d ago", "in 30s"]);
  assert.deepEqual([0, 0.25, 9999, 12345, 1234567].map(compact), ["0", "0.3", "9,999", "12.3K", "1.2M"]);
  assert.deepEqual([0, 1023, 1024, 5 * 1024 ** 2, 12 * 1024 ** 3].map(bytes), ["0 B", "1023 B", "1.0 KB", "5.0 MB", "12 GB"]);
});
