/** Every spec beside this file, in one process, so that they share one browser. */
import { readdirSync } from "node:fs";
import { after } from "node:test";
import { closeBrowser } from "./harness.mjs";

const specs = readdirSync(import.meta.dirname).filter((name) => name.endsWith(".spec.mjs"));
const only = process.env["SPEC"];
for (const spec of specs) if (only === undefined || spec.startsWith(only)) await import(`./${spec}`);
after(closeBrowser);
