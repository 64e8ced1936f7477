/**
 * `npm run test:browser`: what people do on the pages, in a real browser before the real Worker. Where there
 * is no browser nothing is run, and that is said.
 */
import { defineConfig } from "vitest/config";
import { findBrowser, NO_BROWSER } from "./executable.ts";

const browser = findBrowser();
if (browser === undefined) console.warn(`Skipped: ${NO_BROWSER}`);

const here = new URL(".", import.meta.url).pathname;

export default defineConfig({
  root: here,
  test: {
    include: browser === undefined ? [] : ["**/*.test.ts"],
    passWithNoTests: browser === undefined,
    globalSetup: browser === undefined ? [] : [`${here}place.ts`],
    environment: "node",
    pool: "forks",
    maxWorkers: 2,
    maxConcurrency: 3,
    sequence: { concurrent: true },
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
