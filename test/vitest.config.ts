/**
 * Three kinds of tests: pure ones in Node, those of the shell inside workerd with the real D1, Queues and
 * Durable Objects (with one database, and some with three), and scenarios that run the whole stack as its own process.
 */
import { cloudflareTest, readD1Migrations } from "@cloudflare/vitest-pool-workers";
import { defineConfig } from "vitest/config";
import { MASTER_KEYS } from "./support/vault.ts";

const root = new URL("..", import.meta.url).pathname;
const inNode = ["test/core/**/*.test.ts", "test/**/*.node.test.ts"];
const scenarios = ["test/scenario/**/*.test.ts"];
/** Run by a configuration of their own: they need a browser. */
const inBrowsers = ["test/browser/**"];
const ofSeveral = ["test/sharded/**/*.test.ts"];
/** Stories of the delivery path, told once more with three databases. */
const againWithThree = ["test/delivery/drain.test.ts", "test/delivery/every-fault/sending-again.test.ts"];

const migrations = await readD1Migrations(`${root}migrations`);

/** Inside workerd, with databases beyond the first. */
function workerd(d1Databases: string[] = []) {
  return cloudflareTest({
    wrangler: { configPath: `${root}wrangler.toml` },
    miniflare: {
      d1Databases,
      bindings: {
        MIGRATIONS: migrations,
        ADMIN_KEY: "test-admin-key-0123456789",
        MASTER_KEYS,
        GRACE_SECONDS: "20",
        ALLOW_PRIVATE_DESTINATIONS: "false",
      },
    },
  });
}

const inWorkers = ["test/support/migrations.ts", "test/support/overheard.ts"];

export default defineConfig({
  root,
  test: {
    projects: [
      {
        extends: true,
        // The simulation runs the gate's class in Node, where the runtime's own module is not to be had.
        resolve: { alias: { "cloudflare:workers": `${root}test/support/cloudflare-workers.ts` } },
        test: { name: "pure", include: inNode, environment: "node", testTimeout: 120_000 },
      },
      {
        extends: true,
        plugins: [workerd()],
        test: {
          name: "workers",
          include: ["test/**/*.test.ts"],
          exclude: [...inNode, ...scenarios, ...inBrowsers, ...ofSeveral],
          setupFiles: inWorkers,
          testTimeout: 20_000,
        },
      },
      {
        extends: true,
        plugins: [workerd(["DB_1", "DB_2"])],
        test: {
          name: "three databases",
          include: [...ofSeveral, ...againWithThree],
          setupFiles: inWorkers,
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
