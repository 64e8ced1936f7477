/**
 * `npm run test:browser`: users' actions on the pages, with a real browser and the real Worker. Without a browser no
 * test runs, and a warning says so.
 */
import { defineConfig } from "vitest/config";
import { keepTemporaryFilesInMemory } from "../support/in-memory.ts";
import { findBrowser, NO_BROWSER } from "./find-browser.ts";

keepTemporaryFilesInMemory();

const browser = findBrowser();
if (browser === undefined) console.warn(`Skipped: ${NO_BROWSER}`);

const here = new URL(".", import.meta.url).pathname;

export default defineConfig({
  root: here,
  test: {
    include: browser === undefined ? [] : ["**/*.test.ts"],
    passWithNoTests: browser === undefined,
    globalSetup: browser === undefined ? [] : [`${here}global-setup.ts`],
    environment: "node",
    pool: "forks",
    maxWorkers: 2,
    maxConcurrency: 3,
    sequence: { concurrent: true },
    // A safety net, not a measure.
    testTimeout: 3_600_000,
    hookTimeout: 3_600_000,
    expect: { poll: { timeout: 300_000 } },
  },
});
