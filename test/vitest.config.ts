/**
 * The tests, as Vitest projects; which files belong to which, and when they run, is in lanes.ts.
 *
 * What passing tests print is not shown: `npm test -- --silent=false` shows it.
 */
import { randomInt } from "node:crypto";
import { cloudflareTest, readD1Migrations } from "@cloudflare/vitest-pool-workers";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { longest, type Project, projects } from "./lanes.ts";
import { keepTemporaryFilesInMemory } from "./support/in-memory.ts";
import { MASTER_KEYS } from "./support/vault.ts";

keepTemporaryFilesInMemory();

// Otherwise wrangler warns, once for each test file, of secrets that the bindings below provide.
process.env.WRANGLER_LOG ??= "error";
// On two cores V8 has one thread for work in the background. When that one waits, in the middle of compiling, for a garbage
// collection, and the main thread for the other to sweep what the last collection has left, a run never ends.
process.env.MINIFLARE_WORKERD_V8_FLAGS ??= "--single-threaded";

// A test has a customer's function that never answers: the runtime prints that it has ended it. A test that hangs by itself fails.
const HUNG = /^uncaught exception; .* detected that your Worker's code had hung/;
const write = process.stdout.write.bind(process.stdout) as (...args: unknown[]) => boolean;
process.stdout.write = (...args: unknown[]) => HUNG.test(String(args[0])) || write(...args);

const root = new URL("..", import.meta.url).pathname;
const migrations = await readD1Migrations(`${root}migrations`);
const setupFiles = ["shallow-prototypes", "migrations", "no-leaks", "no-timeouts", "effort"].map(
  (name) => `test/support/${name}.ts`,
);
const threeDatabases = ["DB_1", "DB_2"];

/**
 * The packages that src and the tests' set-up import. Bundled once, because every file of tests loads it again, module
 * by module: unbundled, that takes a third of a file's set-up. Packages that are missing here only load more slowly.
 */
const DEPENDENCIES = [
  "@hono/zod-openapi",
  "drizzle-orm",
  "drizzle-orm/d1",
  "drizzle-orm/sqlite-core",
  "fast-check",
  "hono",
  "hono/cookie",
  "hono/csrf",
  "hono/etag",
  "hono/html",
  "hono/http-exception",
  "hono/jsx",
  "hono/jsx/jsx-runtime",
  "hono/jwt",
  "hono/route",
  "hono/secure-headers",
  "hono/streaming",
  "ipaddr.js",
  "liquidjs",
  "yaml",
  "zod",
];

/**
 * The seed in NIGHTLY_SEED; 0 in CI. Vitest reads this file once for each project: a random seed is chosen, and
 * printed, once.
 */
function nightlySeed(): number {
  if (process.env.NIGHTLY_SEED === "random") {
    process.env.NIGHTLY_SEED = `${randomInt(1, 2 ** 31)}`;
    console.log(`NIGHTLY_SEED=${process.env.NIGHTLY_SEED} repeats this run.`);
  }
  const { NIGHTLY_SEED = "0" } = process.env;
  const seed = Number(NIGHTLY_SEED);
  if (!Number.isSafeInteger(seed) || seed < 0)
    throw new Error(`NIGHTLY_SEED is ${NIGHTLY_SEED}; expected a whole number or "random"`);
  return seed;
}

/** Inside workerd, with databases beyond the first. */
function workerd(d1Databases: string[] = []) {
  return cloudflareTest({
    wrangler: { configPath: `${root}wrangler.toml` },
    miniflare: {
      d1Databases,
      durableObjects: { FUNCTIONS: { className: "TenantFunctions", useSQLite: true } },
      workerLoaders: { LOADER: {} },
      // Not under the name that the Worker knows: without a bucket, the default is stored.
      r2Buckets: ["TEST_BODIES"],
      queueProducers: { TEST_QUEUE: { queueName: "test-queue" } },
      serviceBindings: { TEST_SERVICE: () => new Response("served", { status: 299 }) },
      bindings: {
        MIGRATIONS: migrations,
        ADMIN_KEY: "test-admin-key-0123456789",
        MASTER_KEYS,
        GRACE_SECONDS: "20",
        ALLOW_PRIVATE_DESTINATIONS: "false",
        // The simulator has none.
        JURISDICTION: "",
        DESTINATION_BINDINGS: "TEST_QUEUE: acme, b:c; TEST_SERVICE: *",
      },
    },
  });
}

function filesOf(name: Project) {
  const { include, exclude = [] }: { include: readonly string[]; exclude?: readonly string[] } =
    projects[name];
  return { name, include: [...include], exclude: [...exclude] };
}

/**
 * @param isolate whether each file has a Worker of its own. Loading one takes as long as a file's tests; the files that share
 * one begin with empty databases, and destinations, with their gates, have new names
 */
function workersProject(
  name: Project,
  { d1Databases, isolate }: { d1Databases?: string[]; isolate: boolean },
) {
  return {
    extends: true as const,
    plugins: [workerd(d1Databases)],
    test: {
      ...filesOf(name),
      isolate,
      setupFiles,
      deps: { optimizer: { ssr: { enabled: true, include: DEPENDENCIES } } },
    },
  };
}

/**
 * @param group projects of a later group are run after those of an earlier one
 * @param native whether Node loads the modules itself: what computes for minutes is a third faster without Vite's in between
 */
function nodeProject(
  name: Project,
  { isolate = true, maxWorkers, group = 0, native = false }: NodeOptions = {},
) {
  return {
    extends: true as const,
    // The simulator runs the gate's class in Node, where the runtime's own module does not exist.
    resolve: { alias: { "cloudflare:workers": `${root}test/support/cloudflare-workers.ts` } },
    test: {
      ...filesOf(name),
      environment: "node" as const,
      ...(maxWorkers && { maxWorkers }),
      ...(native && {
        experimental: { viteModuleRunner: false, nodeLoader: false },
        execArgv: ["--import", `${root}test/support/in-node.ts`],
      }),
      sequence: { groupOrder: group },
      // Loading the modules again for each file takes longer than most files' tests.
      isolate,
      setupFiles: ["test/support/effort.ts", ...(isolate ? [] : ["test/support/real-time.ts"])],
    },
  };
}

type NodeOptions = Readonly<{ isolate?: boolean; maxWorkers?: number; group?: number; native?: boolean }>;

/**
 * The longest first; else in Vitest's order: by the last run's times, or by size where there are none, as in CI. Files that share
 * a Worker or a process stay together by project: Vitest ends it when the next file is another project's.
 */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId }: TestSpecification) => {
      const at = longest.findIndex((file) => moduleId === root + file);
      return at < 0 ? longest.length : at;
    };
    const sorted = await super.sort(files);
    const names = sorted.map(({ project }) => project.name);
    const together = ({ project }: TestSpecification) =>
      project.config.isolate ? -1 : names.indexOf(project.name);
    return sorted.sort((a, b) => together(a) - together(b) || place(a) - place(b));
  }
}

export default defineConfig({
  root,
  test: {
    sequence: { sequencer: LongestFirst },
    provide: { nightlySeed: nightlySeed() },
    reporters: process.env.GITHUB_ACTIONS ? ["default", "github-actions"] : ["default"],
    silent: "passed-only",
    slowTestThreshold: 5_000,
    // A safety net, not a measure: nothing may depend on how fast or how busy the machine is.
    testTimeout: 3_600_000,
    hookTimeout: 3_600_000,
    teardownTimeout: 60_000,
    projects: [
      nodeProject("pure", { isolate: false }),
      workersProject("workers", { isolate: false }),
      workersProject("three databases", { d1Databases: threeDatabases, isolate: false }),
      nodeProject("deep", { native: true }),
      workersProject("deep workers", { isolate: true }),
      workersProject("deep three databases", { d1Databases: threeDatabases, isolate: true }),
      nodeProject("deep scenario", { maxWorkers: 2, group: 1 }),
      nodeProject("deep scenario alone", { maxWorkers: 1, group: 2 }),
    ],
  },
});
