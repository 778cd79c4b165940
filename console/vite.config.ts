/**
 * How the console is built: everything below /console/, hashed names for all but index.html, and
 * brotli and gzip beside every file, so that the server compresses nothing.
 */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig, type Plugin } from "vite";

/** The server that `npm run dev` asks: FIELDPOST=http://127.0.0.1:18080 npm run dev */
const server = process.env["FIELDPOST"] ?? "http://127.0.0.1:8080";

function compressedAhead(): Plugin {
  return {
    name: "compressed-ahead",
    apply: "build",
    writeBundle({ dir }) {
      for (const entry of readdirSync(dir ?? "dist", { recursive: true, withFileTypes: true })) {
        if (!entry.isFile() || /\.(br|gz)$/.test(entry.name)) continue;
        const path = join(entry.parentPath, entry.name);
        const bytes = readFileSync(path);
        const params = { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length };
        writeFileSync(`${path}.br`, brotliCompressSync(bytes, { params }));
        writeFileSync(`${path}.gz`, gzipSync(bytes, { level: 9 }));
      }
    },
  };
}

/** The server refuses foreign origins: behind this proxy, the origin is the server's own. */
const proxied = {
  target: server,
  changeOrigin: true,
  headers: { origin: server },
};

export default defineConfig({
  base: "/console/",
  plugins: [svelte(), compressedAhead()],
  resolve: { alias: { "@fieldpost/client": join(import.meta.dirname, "../clients/typescript/src/index.ts") } },
  build: {
    target: "es2023",
    // A data: URL would be another copy in each file that uses it.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
  },
  server: { proxy: { "/v1": proxied, "/healthz": proxied, "/readyz": proxied, "/openapi.json": proxied } },
});
