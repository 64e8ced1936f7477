/**
 * Three kinds of tests: pure ones in Node, those of the shell inside workerd with the real D1, Queues and
 * Durable Objects, and scenarios that run the whole stack as its own process.
 */
import { cloudflareTest, readD1Migrations } from "@cloudflare/vitest-pool-workers";
import { defineConfig } from "vitest/config";
import { MASTER_KEYS } from "./support/vault.ts";

const root = new URL("..", import.meta.url).pathname;
const inNode = ["test/policy/**/*.test.ts", "test/**/*.node.test.ts"];
const scenarios = ["test/scenario/**/*.test.ts"];
/** Run by a configuration of their own: they need a browser. */
const inBrowsers = ["test/browser/**"];

const migrations = await readD1Migrations(`${root}migrations`);

export default defineConfig({
  root,
  test: {
    projects: [
      { extends: true, test: { name: "pure", include: inNode, environment: "node", testTimeout: 120_000 } },
      {
        extends: true,
        plugins: [
          cloudflareTest({
            wrangler: { configPath: `${root}wrangler.toml` },
            miniflare: {
              bindings: {
                MIGRATIONS: migrations,
                ADMIN_KEY: "test-admin-key-0123456789",
                MASTER_KEYS,
                GRACE_SECONDS: "20",
                ALLOW_PRIVATE_DESTINATIONS: "false",
              },
            },
          }),
        ],
        test: {
          name: "workers",
          include: ["test/**/*.test.ts"],
          exclude: [...inNode, ...scenarios, ...inBrowsers],
          setupFiles: ["test/support/migrations.ts"],
          testTimeout: 20_000,
        },
      },
      {
        extends: true,
        test: {
          name: "scenario",
          include: scenarios,
          environment: "node",
          testTimeout: 300_000,
          fileParallelism: false,
        },
      },
    ],
  },
});
