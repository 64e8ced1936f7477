/**
 * Two versions of Breakwater side by side, as they are during a deployment: Workers of both on the same database, queues
 * and Durable Objects, whose code is that of one of the versions.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { convertV4MiniflareOptions, Miniflare, type V4MiniflareOptions } from "miniflare";
import { unstable_getMiniflareWorkerOptions as workerOptionsOf } from "wrangler";
import { bundleWorker } from "../../tools/bundle.ts";
import { STRICT_WORKER, strictFlags, strictVars } from "../../tools/strict-flags.ts";
import { projectRoot } from "../../tools/wrangler.ts";
import { liveHeapOf } from "./isolate-heap.ts";

export type Version = Readonly<{
  /** The bundled Worker. */
  script: string;
  compatibilityDate: string;
  compatibilityFlags: readonly string[];
  variables: Readonly<Record<string, unknown>>;
  /** The SQL of each migration, by the name of its file, in their order. */
  migrations: ReadonlyMap<string, string>;
}>;

/** Where the release before this one has the Worker under production's quotas. */
const FORMER_STRICT_WORKER = "src/local/strict/worker.ts";

/** The commit of the release before this one, which upgrades are tried from. */
export const FORMER = "a86691ca5fedf38402355c302dc891ecc09c9104";

/** Whether the repository's history reaches back to that commit: a shallow clone's may not. */
export function hasCommit(ref: string): boolean {
  try {
    execFileSync("git", ["cat-file", "-e", `${ref}^{commit}`], { cwd: projectRoot, stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

type BuildOptions = Readonly<{
  /** Under production's quotas and with latencies: tools/strict/worker.ts of that version. */
  strict?: boolean;
}>;

/** The version of a commit, built with the packages that are installed now. */
export async function versionAt(
  ref: string,
  directory: string,
  options: BuildOptions = {},
): Promise<Version> {
  const root = join(directory, "former");
  mkdirSync(root);
  const archive = execFileSync("git", ["archive", ref], { cwd: projectRoot, maxBuffer: 2 ** 28 });
  execFileSync("tar", ["-x", "-C", root], { input: archive });
  symlinkSync(join(projectRoot, "node_modules"), join(root, "node_modules"));
  return build(root, join(directory, "former-bundle"), options);
}

/** The version of the working tree. */
export function currentVersion(directory: string, options: BuildOptions = {}): Promise<Version> {
  return build(projectRoot, join(directory, "current-bundle"), options);
}

/** The used parts of wrangler's parsed configuration file. */
type WorkerOptions = Readonly<{
  compatibilityDate?: string;
  compatibilityFlags?: readonly string[];
  bindings?: Readonly<Record<string, unknown>>;
}>;

async function build(root: string, bundle: string, { strict = false }: BuildOptions): Promise<Version> {
  const config = join(root, "wrangler.toml");
  const strictWorker = existsSync(join(root, STRICT_WORKER)) ? STRICT_WORKER : FORMER_STRICT_WORKER;
  const [main, flags] = strict ? [strictWorker, await strictFlags()] : ["src/worker.ts", []];
  const script = await bundleWorker(bundle, join(root, main), ["--config", config, ...flags]);
  const options = workerOptionsOf(config).workerOptions as object as WorkerOptions;
  const migrations = join(root, "migrations");
  const files = readdirSync(migrations).filter((name) => name.endsWith(".sql"));
  return {
    script,
    compatibilityDate: options.compatibilityDate ?? "",
    compatibilityFlags: [...(options.compatibilityFlags ?? []), ...(strict ? ["nodejs_als"] : [])],
    variables: options.bindings ?? {},
    migrations: new Map(files.sort().map((name) => [name, readFileSync(join(migrations, name), "utf8")])),
  };
}

const QUEUES = {
  DELIVERIES: "breakwater-deliveries",
  DRAINS: "breakwater-drains",
  UPKEEP: "breakwater-upkeep",
  DEAD: "breakwater-dead",
};
/** As in wrangler.toml. */
const CONSUMERS = {
  "breakwater-deliveries": { maxBatchSize: 10, maxRetries: 100, deadLetterQueue: QUEUES.DEAD },
  "breakwater-drains": { maxBatchSize: 5, maxRetries: 3 },
  "breakwater-upkeep": { maxBatchSize: 1, maxRetries: 3 },
  "breakwater-dead": { maxBatchSize: 100, maxRetries: 100 },
};
/** The most messages of a queue that front.js takes at a time, for several invocations. */
const AT_A_TIME = 100;
/** The Worker that has the Durable Objects, whichever version its code is: their storage goes by this name. */
const OBJECTS = "objects";
const CLASSES = { GATES: "DestinationGate", INTAKE: "Intake" };

export type SideBySideOptions = Readonly<{
  former: Version;
  current: Version;
  /** Isolates of each version, each with caches of its own; one unless given. Every invocation gets one at random. */
  isolates?: number;
  /** How far the clocks of the current version's isolates are from the true one at most, ms; 0 unless given. */
  skewMs?: number;
  /** One unless given. */
  databases?: number;
  /** The version whose code the Durable Objects run. */
  objects: "former" | "current";
  /** The current version's share of requests, batches and crons at the start, 0 to 1. */
  share: number;
  /** Variables and secrets of both versions. */
  vars: Readonly<Record<string, string>>;
  /** The seed of the latencies of versions that are built strict. */
  latency?: number;
  /** The state: that of an earlier run is continued. */
  directory: string;
  /** Gets every line that a Worker logs. */
  onLog: (line: string) => void;
}>;

export type SideBySide = Readonly<{
  /** Each request comes to one of the versions; under `/old` or `/new` to that one. */
  url: string;
  /** From now on this share of requests, batches and crons comes to the current version. */
  share: (ofCurrent: number) => Promise<void>;
  /** Runs SQL in a database, the first unless given, statement by statement. */
  execute: (sql: string, database?: number) => Promise<void>;
  /** The rows of a query, or of a statement that returns some. */
  query: <Row>(sql: string, database?: number) => Promise<Row[]>;
  /** The names of the tables. */
  tables: () => Promise<string[]>;
  /** The bytes that all isolates hold together, after a collection of garbage. */
  heap: () => Promise<number>;
  /** Ends it at once, with whatever it had in memory. */
  stop: () => Promise<void>;
}>;

export async function startSideBySide(options: SideBySideOptions): Promise<SideBySide> {
  const {
    former,
    current,
    objects,
    share,
    directory,
    onLog,
    isolates = 1,
    skewMs = 0,
    databases = 1,
  } = options;
  const numbers = Array.from({ length: isolates }, (_, i) => i);
  const offset = (i: number) => (isolates > 1 ? Math.round(skewMs * ((2 * i) / (isolates - 1) - 1)) : skewMs);
  const workers = [
    ...numbers.map((i) => worker(`old${i}`, former, options)),
    ...numbers.map((i) => worker(`new${i}`, current, options, offset(i))),
    worker(OBJECTS, objects === "former" ? former : current, options),
  ];
  const miniflare = new Miniflare(
    convertV4MiniflareOptions({
      host: "127.0.0.1",
      port: 0,
      inspectorPort: 0,
      resourcePersistencePath: join(directory, "state"),
      handleStructuredLogs: ({ message }: { message: string }) => onLog(message),
      workers: [front(isolates, share), ...workers],
    } as object as V4MiniflareOptions),
  );
  const { origin } = await miniflare.ready;
  const bindings = Object.keys(databaseNames(databases));
  const dbs = await Promise.all(bindings.map((binding) => miniflare.getD1Database(binding, "new0")));
  const prepare = (sql: string, database = 0) => {
    const db = dbs[database];
    if (db === undefined) throw new Error(`There is no database ${database}`);
    return db.prepare(sql);
  };
  const query = async <Row>(sql: string, database?: number) =>
    (await prepare(sql, database).all<Row>()).results;
  return {
    url: origin,
    share: async (ofCurrent) => {
      await fetch(`${origin}/share`, { method: "POST", body: String(ofCurrent) });
    },
    execute: async (sql, database) => {
      for (const statement of sql.split("--> statement-breakpoint")) await prepare(statement, database).run();
    },
    query,
    tables: async () => (await query<{ name: string }>(TABLES)).map(({ name }) => name),
    heap: async () => {
      const inspector = await miniflare.getInspectorURL();
      const heaps = workers.map(({ name }) => liveHeapOf(new URL(`/core:user:${name}`, inspector)));
      return (await Promise.all(heaps)).reduce((sum, bytes) => sum + bytes, 0);
    },
    stop: () => miniflare.dispose(),
  };
}

/** The names of the tables that are ours. */
export const TABLES =
  "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT GLOB '_cf_*' AND name NOT GLOB 'sqlite_*'";

function front(isolates: number, share: number) {
  const names = ["old", "new"].flatMap((version) =>
    Array.from({ length: isolates }, (_, i) => `${version}${i}`),
  );
  const source = join(import.meta.dirname, "front.js");
  return {
    name: "front",
    ...moduleOf(source),
    compatibilityDate: "2026-08-15",
    compatibilityFlags: ["service_binding_extra_handlers", "queue_consumer_no_wait_for_wait_until"],
    serviceBindings: Object.fromEntries(names.map((name) => [name, name])),
    bindings: {
      ISOLATES: isolates,
      SHARE: share,
      CONSUMERS,
    },
    queueProducers: producers(Object.keys(CONSUMERS).map((name) => [name, name])),
    queueConsumers: Object.fromEntries(
      Object.keys(CONSUMERS).map((name) => [name, { maxBatchTimeout: 0, maxBatchSize: AT_A_TIME }]),
    ),
  };
}

/** @param queues bindings and the queues that they send to */
function producers(queues: readonly (readonly [string, string])[]) {
  return Object.fromEntries(queues.map(([binding, queueName]) => [binding, { queueName }]));
}

/** The databases' names by their bindings. */
function databaseNames(count: number): Record<string, string> {
  const further = Array.from({ length: count - 1 }, (_, i) => [`DB_${i + 1}`, `breakwater-${i + 1}`]);
  return { DB: "breakwater", ...Object.fromEntries(further) };
}

/** Makes the clock of an isolate wrong by so many ms. It is put before the script. */
const skewed = (ms: number) =>
  `{ const True = Date; globalThis.Date = class extends True {
  constructor(...given) { if (given.length > 0) super(...given); else super(True.now() + ${ms}); }
  static now() { return True.now() + ${ms}; }
}; }
`;

function worker(name: string, version: Version, options: SideBySideOptions, skewMs = 0) {
  const { vars, latency, databases = 1, current } = options;
  const { script, compatibilityDate, compatibilityFlags, variables } = version;
  const hosted = (host: string) => ({ useSQLite: true, ...(name !== host && { scriptName: host }) });
  const classes = Object.entries(CLASSES).map(([binding, className]) => [
    binding,
    { className, ...hosted(OBJECTS) },
  ]);
  // The former version has no groups: theirs always run the current code.
  const groups = version === current && ["GROUPS", { className: "ReceiverGroup", ...hosted("new0") }];
  return {
    name,
    ...moduleOf(script, skewMs === 0 ? "" : skewed(skewMs)),
    compatibilityDate,
    compatibilityFlags: [...compatibilityFlags],
    bindings: { ...variables, ...strictVars({ latency }), ...vars },
    d1Databases: databaseNames(databases),
    queueProducers: producers(Object.entries(QUEUES)),
    durableObjects: Object.fromEntries([...classes, ...(groups ? [groups] : [])]),
  };
}

function moduleOf(path: string, before = "") {
  return {
    modulesRoot: dirname(path),
    modules: [{ type: "ESModule", path, contents: before + readFileSync(path, "utf8") }],
  };
}

/** A directory that the end of this process removes. */
export function temporaryDirectory(): string {
  const directory = mkdtempSync(join(tmpdir(), "breakwater-upgrade-"));
  process.once("exit", () => rmSync(directory, { recursive: true, force: true, maxRetries: 5 }));
  return directory;
}
