/**
 * An upgrade and a rollback under a steady load for receivers that fail, hang and recover: the former code on the new
 * tables, both versions side by side with the Durable Objects of either, the current code alone, and back again. In the
 * end every event that was answered with 202 must have arrived everywhere.
 */
import { randomBytes, randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { startReceiver } from "../../tools/receiver.ts";
import { apiClient } from "../../tools/stack.ts";
import { type KillReport, missing, reportKills } from "./kill-report.ts";
import { isMisreading, kindOf } from "./log-lines.ts";
import { createDestination, receptionsOf } from "./test-stack.ts";
import { endpoints, paths } from "./unreliable-endpoints.ts";
import { until } from "./until.ts";
import {
  currentVersion,
  type SideBySide,
  startSideBySide,
  temporaryDirectory,
  versionAt,
} from "./versions.ts";

const KEY = "upgrade-key-0123456789";
const CRON_MS = 2_000;
const POST_EVERY_MS = 500;
/** Few enough that circuits close and open again in most phases. */
const FAILED_FIRST = 3;
/** After everything has arrived: time for repeats to arrive. */
const REPEATS_MS = 3_000;

type Phase = Readonly<{
  name: string;
  /** The version whose code the Durable Objects run: if it differs from the phase before, everything is restarted. */
  objects: "former" | "current";
  /** The share of what is handled by the current version. */
  share: number;
  /** Whether the tables are migrated first, while the load continues. */
  migrates?: true;
}>;

const PHASES: readonly Phase[] = [
  { name: "former code, former tables", objects: "former", share: 0 },
  { name: "former code, new tables", objects: "former", share: 0, migrates: true },
  { name: "both, objects of the former", objects: "former", share: 0.5 },
  { name: "both, objects of the current", objects: "current", share: 0.5 },
  { name: "current code", objects: "current", share: 1 },
  { name: "rolling back: both, current objects", objects: "current", share: 0.5 },
  { name: "rolling back: both, former objects", objects: "former", share: 0.5 },
  { name: "former code again, new tables", objects: "former", share: 0 },
];

export type UpgradeReport = KillReport &
  Readonly<{
    /** Migrations that the former version does not have. */
    migrations: readonly string[];
    /** Lines that say that a version could not work with what the other has left. */
    misreadings: readonly string[];
    /** How many lines of each kind were logged. */
    logged: ReadonlyMap<string, number>;
  }>;

type Options = Readonly<{
  /** The commit of the former version. */
  from: string;
  /** How long each phase lasts. */
  phaseMs: number;
  seed: number;
  log?: (line: string) => void;
}>;

/** Throws when something accepted has not arrived everywhere a quarter of an hour after the load has ended. */
export async function surviveUpgrade({
  from,
  phaseMs,
  seed,
  log = () => {},
}: Options): Promise<UpgradeReport> {
  const directory = temporaryDirectory();
  const [former, current] = await Promise.all([versionAt(from, directory), currentVersion(directory)]);
  const migrations = [...current.migrations.keys()].filter((name) => !former.migrations.has(name));
  const customers = endpoints(seed, FAILED_FIRST);
  const receiver = await startReceiver(({ path, at }) => customers.answer(path, at));
  const vars = {
    ADMIN_KEY: KEY,
    MASTER_KEYS: `upgrade:${randomBytes(32).toString("base64")}`,
    ALLOW_PRIVATE_DESTINATIONS: "true",
    GRACE_SECONDS: "8",
    JURISDICTION: "",
  };
  const accepted: string[] = [];
  const restartedAt: number[] = [];
  const lines: string[] = [];
  const start = ({ objects, share }: Pick<Phase, "objects" | "share">) =>
    startSideBySide({ former, current, objects, share, vars, directory, onLog: (line) => lines.push(line) });

  let objects: Phase["objects"] = "former";
  let isMigrated = false;
  let running = await start({ objects, share: 0 });
  try {
    for (const sql of former.migrations.values()) await running.execute(sql);
    for (const path of paths) await createDestination(apiClient(running.url, KEY), receiver, path);
    for (const phase of PHASES) {
      if (phase.objects !== objects) {
        objects = phase.objects;
        await running.stop();
        restartedAt.push(Date.now());
        running = await start(phase);
      }
      await running.share(phase.share);
      const stopLoad = startLoad(running, accepted);
      if (phase.migrates) {
        for (const name of migrations) await running.execute(current.migrations.get(name) ?? "");
        await widenTables(running);
      }
      await sleep(phaseMs);
      await stopLoad();
      isMigrated ||= phase.migrates === true;
      await readWith(isMigrated ? ["old", "new"] : ["old"], running, accepted.slice(-3));
      const arrived = receptionsOf(receiver.hits).size;
      log(`${phase.name}: ${accepted.length} accepted, ${arrived} deliveries arrived`);
    }
    customers.recover();
    const stopCron = keepCron(running);
    const left = () => missing(accepted, receptionsOf(receiver.hits), paths);
    await until(() => left().length === 0, {
      everyMs: 500,
      otherwise: () =>
        `${left().length} deliveries are lost, among them ${left().slice(0, 5)}.\n${lines.slice(-30).join("\n")}`,
    });
    await sleep(REPEATS_MS);
    stopCron();
    const kinds = lines.map(kindOf);
    return {
      ...reportKills(accepted, receiver.hits, paths, restartedAt),
      migrations,
      misreadings: lines.filter(isMisreading),
      logged: new Map([...Map.groupBy(kinds, (kind) => kind)].map(([kind, all]) => [kind, all.length])),
    };
  } finally {
    await running.stop();
    receiver.close();
  }
}

/**
 * One more column in each table, and one more table, as a later release may add them: whatever the migrations of this one
 * are, no version may depend on the tables having no more than it knows.
 */
async function widenTables({ tables, execute }: SideBySide): Promise<void> {
  for (const table of await tables()) await execute(`ALTER TABLE ${table} ADD COLUMN added_later TEXT`);
  await execute("CREATE TABLE added_later (id INTEGER PRIMARY KEY)");
}

/** Batches, and single events through intake, some of them twice under one key. Returns how to end it. */
function startLoad({ url }: SideBySide, accepted: string[]): () => Promise<void> {
  const stopCron = keepCron({ url });
  let stopped = false;
  const loop = (post: () => Promise<readonly string[]>) =>
    (async () => {
      for (; !stopped; await sleep(POST_EVERY_MS)) accepted.push(...(await post()));
    })();
  const loops = [loop(() => postBatch(url)), loop(() => postOne(url))];
  const ended = Promise.all(loops);
  // It is thrown when the load ends.
  ended.catch(() => {});
  return async () => {
    stopped = true;
    await ended;
    stopCron();
  };
}

type Accepted = Readonly<{ id: string }>;

async function postBatch(url: string): Promise<string[]> {
  const events = Array.from({ length: 5 }, (_, line) => ({ type: "order.created", data: { line } }));
  const answer = await call<{ events: readonly Accepted[] }>(
    url,
    "/v1/events/batch",
    { events },
    randomUUID(),
  );
  return answer.events.map(({ id }) => id);
}

/** Twice under one key, whichever version takes the second: it must answer with the event of the first. */
async function postOne(url: string): Promise<string[]> {
  const key = randomUUID();
  const post = () => call<Accepted>(url, "/v1/events", { type: "order.paid", data: { total: 42 } }, key);
  const [first, second] = [await post(), await post()];
  if (first.id !== second.id) throw new Error(`One key has two events, ${first.id} and ${second.id}`);
  return [first.id];
}

const TRIES = 10;
const TRY_AGAIN_MS = 500;

/** Calls like a proper client: again when there is no answer or a 503, with the same key. */
async function call<T>(url: string, path: string, body?: unknown, key?: string): Promise<T> {
  const headers = {
    authorization: `Bearer ${KEY}`,
    "content-type": "application/json",
    ...(key && { "idempotency-key": key }),
  };
  for (let attempt = 1; ; attempt++, await sleep(TRY_AGAIN_MS)) {
    try {
      const request =
        body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) };
      const response = await fetch(`${url}${path}`, request);
      const text = await response.text();
      if (response.ok) return JSON.parse(text);
      if (response.status !== 503 || attempt === TRIES)
        throw new Error(`${path} answered ${response.status}: ${text.slice(0, 300)}`);
    } catch (error) {
      if (!(error instanceof TypeError) || attempt === TRIES) throw error;
    }
  }
}

function keepCron({ url }: Pick<SideBySide, "url">): () => void {
  const timer = setInterval(() => void fetch(`${url}/cron`).catch(() => {}), CRON_MS);
  return () => clearInterval(timer);
}

/** Recently accepted events can be read with these versions, and health and lists too. */
async function readWith(
  versions: readonly ("old" | "new")[],
  { url }: SideBySide,
  events: readonly string[],
): Promise<void> {
  const pages = ["/v1/health", "/v1/destinations", "/v1/deliveries", "/v1/stats"];
  for (const version of versions)
    for (const path of [...pages, ...events.map((id) => `/v1/events/${id}`)])
      await call(`${url}/${version}`, path);
}
