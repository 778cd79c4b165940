#!/usr/bin/env node
/**
 * What a browser measures for `make bench`, as one line of JSON:
 *
 *     console/bench.mjs URL first_load      # requests, bytes and time of the overview, cache empty
 *     console/bench.mjs URL tab SECONDS     # heap of a tab with live devices, at first and at last
 */
import { setTimeout as wait } from "node:timers/promises";
import { chromium } from "playwright-core";

const ROUNDS = 10;
/** Requests of the page have all begun by then. */
const SETTLED_MS = 1_000;
/** A tab has its first rows, and what loading left is collected. */
const WARM_MS = 20_000;

const [url, part, seconds] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium-headless-shell",
  args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"],
});

/** A page of its own context, so that nothing is cached, with its DevTools session. */
async function fresh() {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  return { context, page, tools: await context.newCDPSession(page) };
}

async function firstLoad() {
  const times = [];
  let [requests, fileBytes] = [0, 0];
  for (let round = 0; round < ROUNDS; round++) {
    const { context, page, tools } = await fresh();
    const files = new Set();
    [requests, fileBytes] = [0, 0];
    await tools.send("Network.enable");
    tools.on("Network.requestWillBeSent", ({ requestId, request }) => {
      requests += 1;
      if (new URL(request.url).pathname.startsWith("/console/")) files.add(requestId);
    });
    tools.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => {
      if (files.has(requestId)) fileBytes += encodedDataLength;
    });
    await page.goto(`${url}/console/`, { waitUntil: "commit" });
    // What is there can be used once the figures are shown and the main thread has nothing to do.
    await page.locator(".tile").first().waitFor();
    times.push(await page.evaluate(() => new Promise((done) => requestIdleCallback(() => done(performance.now())))));
    await wait(SETTLED_MS);
    await context.close();
  }
  times.sort((a, b) => a - b);
  return { requests, file_bytes: fileBytes, interactive_ms: Math.round(times[ROUNDS / 2]) };
}

async function tab() {
  const { page, tools } = await fresh();
  const heap = async () => {
    await tools.send("HeapProfiler.collectGarbage");
    const { usedSize } = await tools.send("Runtime.getHeapUsage");
    return Math.round(usedSize / 104_857.6) / 10;
  };
  await page.goto(`${url}/console/devices`);
  await page.locator("[role=row]").nth(1).waitFor();
  await wait(WARM_MS);
  const first = await heap();
  await wait(Number(seconds) * 1_000);
  return { first_mib: first, last_mib: await heap() };
}

try {
  console.log(JSON.stringify(part === "tab" ? await tab() : await firstLoad()));
} finally {
  await browser.close();
}
