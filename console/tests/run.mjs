/**
 * Every spec beside this file, in one process, so that they share one browser. Two run at a time: a
 * test often waits for its server or its page.
 */
import { readdirSync } from "node:fs";
import { after, describe } from "node:test";
import { closeAll } from "./harness.mjs";

const SPECS_AT_ONCE = 2;
const only = process.env["SPEC"];
const specs = readdirSync(import.meta.dirname).filter((name) => name.endsWith(".spec.mjs") && name.startsWith(only ?? ""));
describe("console", { concurrency: SPECS_AT_ONCE }, () => {
  for (const spec of specs) describe(spec, { concurrency: 1 }, async () => void (await import(`./${spec}`)));
});
after(closeAll);
