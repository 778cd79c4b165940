/**
 * What every spec uses: a server of its own, a browser that all share, and what must hold of every
 * page: nothing in the browser's console, and nothing serious that axe-core finds.
 *
 * FIELDPOST_BINARY is the program. Servers end with this process, whatever ends it.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHash, randomInt } from "node:crypto";
import { once } from "node:events";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { createRequire } from "node:module";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";
import { setTimeout as wait } from "node:timers/promises";
import { chromium } from "playwright-core";

/** Nothing here takes longer, even on a machine that is busy with other tests. */
const PATIENCE_MS = 60_000;
/**
 * Ports of servers that are started again: below those that outgoing connections and `:0` get, so that
 * nobody is given one while its server is away.
 */
const PORTS = [21_000, 32_000];
/** How long the console shows what was done. */
const TOAST_MS = Number(/SHOWN_MS = ([0-9_]+);/.exec(readFileSync(new URL("../src/lib/toast.svelte.ts", import.meta.url), "utf8"))[1].replaceAll("_", ""));
/** How long it does so here: a busy machine is slow to press "Undo". */
const TOAST_HERE_MS = 30_000;
/** The rules of axe-core that another theme may break. */
const COLOUR_RULES = ["color-contrast", "link-in-text-block"];
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

let launching;
/** The browser, started by whoever asks first. */
function browser() {
  launching ??= chromium.launch({
    executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium-headless-shell",
    args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
  });
  return launching;
}

/** The next server without tokens and settings, started while a test runs that may need one later. */
let spare;

/** At the end of the process: nothing that runs keeps it from ending. */
export async function closeAll() {
  await (await launching)?.close();
  await (await spare?.catch(() => undefined))?.kill();
}

/** A token of the settings: `{ name, scopes }`; its text is its name. */
function tokenSetting({ name, scopes }) {
  const sha256 = createHash("sha256").update(name).digest("hex");
  return `[[auth.tokens]]\nname = "${name}"\nsha256 = "${sha256}"\nscopes = ${JSON.stringify(scopes)}\n`;
}

/**
 * A server until the test is over: `tokens` are let in, `settings` are more TOML. One that `restarts`
 * may be killed and started again.
 */
export async function startSite(t, { tokens = [], settings = "", restarts = false } = {}) {
  const plain = tokens.length === 0 && settings === "" && !restarts;
  const http = restarts ? await freeAddress() : "127.0.0.1:0";
  const started = (plain ? spare : undefined) ?? start(tokens, settings, http);
  if (plain) {
    spare = start([], "", http);
    // Whoever takes it is told why it does not start.
    spare.catch(() => {});
  }
  const site = await started;
  t.after(() => site.kill());
  return site;
}

/**
 * Of a spec whose tests do not disturb one another: `make(t)` is done once, by whoever asks first, and
 * ends with the spec. Call it outside of tests.
 */
export function shared(make) {
  const ends = [];
  after(async () => {
    for (const end of ends) await end();
  });
  let made;
  return () => (made ??= make({ after: (end) => ends.push(end) }));
}

/** An address at which nobody listens; any one, because other runs look for theirs at the same time. */
async function freeAddress() {
  for (;;) {
    const port = randomInt(...PORTS);
    const listener = createServer();
    const free = await new Promise((resolve, reject) => {
      listener.once("error", (error) => (error.code === "EADDRINUSE" ? resolve(false) : reject(error)));
      listener.listen(port, "127.0.0.1", () => listener.close(() => resolve(true)));
    });
    if (free) return `127.0.0.1:${port}`;
  }
}

async function start(tokens, settings, http) {
  const folder = await mkdtemp(join(process.env["FIELDPOST_FOLDER"] ?? tmpdir(), "site-"));
  const site = new Site(folder, tokens, settings, http);
  await site.start();
  return site;
}

class Site {
  constructor(folder, tokens, settings, http) {
    this.folder = folder;
    this.tokens = tokens;
    this.settings = settings;
    this.http = http;
  }

  get url() {
    return `http://${this.http}`;
  }

  /** Starts it, or starts it again at the same address. */
  async start() {
    const [config, ready] = [join(this.folder, "settings.toml"), join(this.folder, "ready.json")];
    const listen = ["http", "mqtt", "grpc"].map((way) => `[${way}]\nlisten = "${way === "http" ? this.http : "127.0.0.1:0"}"\n`);
    // How full this machine's disk is, is not told unless it is asked for.
    const disk = this.settings.includes("[notices]") ? "" : '[notices]\nstorage_free = "0B"\n';
    writeFileSync(config, [...listen, disk, ...this.tokens.map(tokenSetting), this.settings].join("\n"));
    rmSync(ready, { force: true });
    const binary = process.env["FIELDPOST_BINARY"];
    assert.ok(binary, "FIELDPOST_BINARY has to name the program");
    const serve = [binary, "serve", "--config", config, "--data-dir", join(this.folder, "data"), "--ready-file", ready];
    this.said = "";
    this.child = spawn("setpriv", ["--pdeathsig", "KILL", ...serve], { stdio: ["ignore", "ignore", "pipe"] });
    this.child.stderr.on("data", (bytes) => (this.said = (this.said + bytes).slice(-20_000)));
    this.ended = once(this.child, "exit");
    const until = Date.now() + PATIENCE_MS;
    while (!existsSync(ready)) {
      assert.ok(this.child.exitCode === null && Date.now() < until, `the server does not start:\n${this.said}`);
      await wait(20);
    }
    const { http, mqtt } = JSON.parse(readFileSync(ready, "utf8"));
    this.http = http;
    this.mqtt = mqtt;
  }

  /** SIGKILL. */
  async kill() {
    this.child.kill("SIGKILL");
    await this.ended;
  }

  /** A call of the API; answers the body, and fails where the server refuses. */
  async api(method, path, body, token = this.tokens[0]?.name) {
    const headers = { ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) };
    const lines = typeof body === "string";
    if (body !== undefined) headers["content-type"] = lines ? "application/x-ndjson" : "application/json";
    const sent = body === undefined ? {} : { body: lines ? body : JSON.stringify(body) };
    const response = await fetch(this.url + path, { method, headers, ...sent });
    const text = await response.text();
    assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`);
    return text === "" ? undefined : JSON.parse(text);
  }

  /** Reports `{ device_id, data }`, which all have to be accepted. */
  async report(...reports) {
    const answer = await this.api("POST", "/v1/reports", reports.map((report) => JSON.stringify(report)).join("\n"));
    assert.equal(answer.rejected_count, 0, JSON.stringify(answer.rejected));
  }
}

/**
 * Opens a page of the console and gives it to `work`. Afterwards nothing may have been written to the
 * browser's console, but for what matches `expected`.
 *
 * `answers` are given in place of the server's, for what takes hours to come to. They stand by method
 * and path: `{ "GET /v1/fleet/count": (query, body) => answer }`, where an answer is a body, or a status
 * with one: `[422, { code, detail }]`.
 */
export async function visit(site, path, options, work) {
  const { token, width = 1280, scheme = "light", expected = [], answers = {} } = options;
  const context = await (await browser()).newContext({ viewport: { width, height: 800 }, colorScheme: scheme });
  context.setDefaultTimeout(PATIENCE_MS);
  const found = [];
  try {
    if (token !== undefined) {
      await context.addInitScript((token) => sessionStorage.setItem("fieldpost.token", token), token);
    }
    await context.addInitScript(([shownMs, hereMs]) => {
      const set = globalThis.setTimeout;
      globalThis.setTimeout = (work, ms, ...more) => set(work, ms === shownMs ? hereMs : ms, ...more);
    }, [TOAST_MS, TOAST_HERE_MS]);
    const page = await context.newPage();
    if (Object.keys(answers).length > 0) await page.route("**/v1/**", (route) => answered(route, answers));
    page.on("pageerror", (error) => found.push(`thrown: ${error.message}`));
    page.on("console", (message) => {
      const text = `${message.type()}: ${message.text()} ${message.location().url}`;
      if (["error", "warning"].includes(message.type()) && !expected.some((known) => known.test(text))) found.push(text);
    });
    await page.goto(`${site.url}/console${path}`);
    await work(page);
    assert.deepEqual(found, [], `in the browser's console at ${path}`);
  } finally {
    // A stand-in may still ask the server, which ends before it answers: that fails no test.
    for (const page of context.pages()) await page.unrouteAll({ behavior: "ignoreErrors" }).catch(() => {});
    await context.close();
  }
}

/** Answers a call, or lets it go on to the server. */
async function answered(route, answers) {
  const request = route.request();
  const url = new URL(request.url());
  const answer = answers[`${request.method()} ${url.pathname}`];
  if (answer === undefined) return route.continue();
  const given = await answer(Object.fromEntries(url.searchParams), request.postDataJSON());
  const [status, body] = Array.isArray(given) ? given : [200, given];
  const problem = status >= 400 ? { type: "about:blank", title: "Refused", status, ...body } : body;
  return route.fulfill({ status, contentType: status >= 400 ? "application/problem+json" : "application/json", body: JSON.stringify(problem) });
}

/**
 * Every one of these pages can be read in a narrow window and in both themes. `ready` waits until
 * one is there. The dark theme has the same document in other colours: only these are looked at again.
 */
export async function readable(site, paths, ready, options = {}) {
  await visit(site, paths[0], { width: 360, ...options }, async (page) => {
    for (const path of paths) {
      if (path !== paths[0]) await page.goto(`${site.url}/console${path}`);
      await page.emulateMedia({ colorScheme: "light" });
      await ready(page, path);
      await accessible(page);
      await fits(page);
      await page.emulateMedia({ colorScheme: "dark" });
      await accessible(page, COLOUR_RULES);
    }
  });
}

/** axe-core finds nothing serious in the page as it is now, by all of its rules or by these. */
export async function accessible(page, rules) {
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(axe);
  const options = { resultTypes: ["violations"], ...(rules === undefined ? {} : { runOnly: { type: "rule", values: rules } }) };
  const { violations } = await page.evaluate((options) => globalThis.axe.run(document, options), options);
  const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  const said = serious.map(({ id, help, nodes }) => `${id}: ${help}\n  ${nodes.map(({ html }) => html).join("\n  ")}`);
  assert.deepEqual(said, [], `axe-core at ${page.url()}`);
}

/** Undoes what the newest message with this text told of; waits for that message first. */
export async function undo(page, done) {
  await page.locator(".toast", { hasText: done }).last().getByRole("button", { name: "Undo" }).click();
}

/** The page is no wider than the window. */
export async function fits(page) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(wide <= 0, `${page.url()} is ${wide} px wider than the window`);
}

/** Waits until `look` answers what is wanted; says what it answered last. */
export async function until(wanted, look) {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const seen = await look();
    if (JSON.stringify(seen) === JSON.stringify(wanted)) return;
    assert.ok(Date.now() < end, `${JSON.stringify(seen)} in place of ${JSON.stringify(wanted)}`);
    await wait(50);
  }
}
