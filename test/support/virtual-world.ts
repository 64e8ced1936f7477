/**
 * A world in virtual time for tests in Node: the whole delivery path, its gates included, over a platform on
 * which every call takes time, messages come late, twice and out of order, and many invocations overlap.
 * Everything random comes from the seed: the same test gives the same history.
 *
 *     const world = virtualWorld({ seed: 7, latency: { d1: 30, gate: 25 } });
 *     const shop = world.destination({ maxConcurrency: 4 });
 *     world.script(shop, { status: 429, headers: { "retry-after": "60" } }, 204);
 *     world.post(100);
 *     await world.run(5 * 60_000);
 *     expect(world.requestsTo(shop)).toHaveLength(101);
 *     expect(world.broken()).toEqual([]);
 */

import type { DatabaseSync, SQLInputValue } from "node:sqlite";
import { drizzle } from "drizzle-orm/d1";
import { isInjected, noTroubles, type Troubles } from "../../bench/storm/breakwater/invocations.ts";
import {
  calmTravel,
  type PlatformOptions,
  type VirtualPlatform,
  virtualPlatform,
} from "../../bench/storm/breakwater/platform.ts";
import type { Ending, Travel } from "../../bench/storm/breakwater/queue.ts";
import { createEngine, type Engine } from "../../bench/storm/engine.ts";
import type { GateState } from "../../src/core/gate-state.ts";
import { checkThresholds } from "../../src/features/notifications/thresholds.ts";
import { atGate } from "../../src/gate/client.ts";
import type { LogLine } from "../../src/log.ts";
import type { Services } from "../../src/services.ts";
import { modelOf, type RawRow } from "../../src/store/columns.ts";
import { type StoredRow, storedRow } from "../../src/store/delivery.ts";
import { destinations } from "../../src/store/destination.ts";
import { packedRows, packsOf } from "../../src/store/packs.ts";
import { deliveries } from "../../src/store/tables.ts";
import { runCron } from "../../src/upkeep.ts";
import { accept } from "./accept.ts";
import { hasEndedSql } from "./ended.ts";
import { type Answer, type Request, virtualReceivers } from "./virtual-receivers.ts";

export type { Answer, Request } from "./virtual-receivers.ts";

export const TENANT = "acme";

const MINUTE_MS = 60_000;
const LOOK_MS = 1_000;

/** Some messages come twice, some up to half a minute late. */
const hardTravel: Travel = { ...calmTravel, twice: 0.02, late: 0.02, lateMs: 30_000 };

export type WorldOptions = Readonly<{
  /** The seed of all randomness. */
  seed?: number;
  /** The milliseconds that calls take; a number is constant. Default: 5 to 80, rarely a second. */
  latency?: PlatformOptions["latency"];
  /** How messages travel. Default: out of order, some twice, some late. */
  travel?: Partial<Travel>;
  /** Concurrent invocations for each queue. Default: 20 batches of deliveries, 100 drains. */
  consumers?: PlatformOptions["consumers"];
  /** Environment variables, such as RETENTION_DAYS. */
  vars?: PlatformOptions["vars"];
  /** Wraps the services of every invocation. */
  wrap?: PlatformOptions["wrap"];
  /** Whether a request ends the invocation that makes it. */
  isDeadly?: PlatformOptions["isDeadly"];
  /** Whether the cron runs every minute; true by default. */
  cron?: boolean;
  /** The number of databases. Default: one. */
  databases?: PlatformOptions["databases"];
  /** The isolates in which invocations run. Default: five. */
  isolates?: PlatformOptions["isolates"];
}>;

export type DestinationColumns = Partial<typeof destinations.$inferInsert>;

export type Posted = Readonly<{ tenant?: string; type?: string; data?: unknown; deliverAt?: number }>;

export type VirtualWorld = Readonly<{
  engine: Engine;
  platform: VirtualPlatform;
  /** Epoch milliseconds. */
  now: () => number;
  /** Runs virtual time for `ms`. */
  run: (ms: number) => Promise<void>;
  /** Runs until the condition, which is checked once a second, holds or the time is over; returns whether it holds. */
  runUntil: (isSo: () => boolean, mostMs: number) => Promise<boolean>;
  /** Calls `act` after `ms` of virtual time. */
  after: (ms: number, act: () => void) => void;
  /** Creates a destination, of tenant `acme` unless given; returns its id. */
  destination: (columns?: DestinationColumns) => string;
  /** Posts `count` events in one request, now. Resolves in virtual time, when the request is answered. */
  post: (count?: number, posted?: Posted) => Promise<Ending>;
  /** Posts single events at this rate, for `forMs`. */
  postSteadily: (perSecond: number, forMs: number, posted?: Posted) => void;
  /** Sets the receiver's answers to its next requests; the last one is repeated. */
  script: (destination: string, ...answers: Answer[]) => void;
  /** Every request so far, in the order in which they were started. */
  requests: readonly Request[];
  requestsTo: (destination: string) => readonly Request[];
  /** Runs a statement in the first database, in no time. */
  sql: <Row>(statement: string, ...values: SQLInputValue[]) => Row[];
  pause: (destination: string) => void;
  /** Lifts the pause as a person does, and notifies the gate. */
  resume: (destination: string) => Promise<Ending>;
  /** Changes columns by hand. */
  edit: (destination: string, columns: DestinationColumns) => void;
  /** The stored deliveries: all, or those of one destination. */
  rows: (destination?: string) => StoredRow[];
  /** The number of deliveries that have not ended, including those without a row. */
  open: () => number;
  gate: (destination: string) => GateState | undefined;
  /** Drops the gate from memory. */
  evict: (destination: string) => void;
  log: readonly LogLine[];
  logged: (what: string) => readonly LogLine[];
  /** Calls by name since the last call of `calls`: `d1`, `gate admit`, `drains sendBatch`, … */
  calls: () => Readonly<Record<string, number>>;
  /** Runs a handler as a separate invocation. */
  invoke: (name: string, handler: (services: Services) => Promise<unknown>) => Promise<Ending>;
  /** Runs the handler of the cron, now. */
  cron: () => Promise<Ending>;
  /** Sets the shares of all calls that go wrong; by default none. */
  trouble: (troubles?: Partial<Troubles>) => void;
  /** The promises that have been broken so far, in sentences; empty when all is well. */
  broken: () => string[];
}>;

export function virtualWorld(options: WorldOptions = {}): VirtualWorld {
  const { seed = 1, latency, consumers, vars, wrap, isDeadly, databases = 1, cron: hasCron = true } = options;
  const engine = createEngine(seed);
  const log: LogLine[] = [];
  const breaches: string[] = [];
  let troubles = noTroubles;
  let reported = new Map<string, number>();
  let made = 0;

  const receivers = virtualReceivers(engine, () => platform.databases);
  const platform = virtualPlatform(engine, {
    ...(latency && { latency }),
    ...(consumers && { consumers }),
    ...(vars && { vars }),
    ...(wrap && { wrap }),
    ...(isDeadly && { isDeadly }),
    databases,
    isolates: { count: 5, seed, ...options.isolates },
    travel: { ...hardTravel, ...options.travel },
    troubles: () => troubles,
    fetch: receivers.fetch,
    log: (line) => void log.push(line),
    onBreach: (name, { quota, limit, used, where }) =>
      void breaches.push(`${name} went beyond ${quota} (${limit}) with ${used}: ${where}`),
  });
  const { db, gates, invocations, invoke } = platform;

  function sql<Row>(statement: string, ...values: SQLInputValue[]): Row[] {
    return db.prepare(statement).all(...values) as Row[];
  }

  function built({ sql: text, params }: Readonly<{ sql: string; params: unknown[] }>): void {
    sql(text, ...(params as SQLInputValue[]));
  }

  const builder = drizzle(undefined as unknown as D1Database);

  function destination(columns: DestinationColumns = {}): string {
    made += 1;
    const id = columns.id ?? `dst_${String(made).padStart(20, "0")}`;
    const own = { id, tenant: TENANT, url: `https://${id.slice(4)}.example/hook`, secret: "whsec_of_no_use" };
    const times = { createdAt: engine.now(), updatedAt: engine.now() };
    built(
      builder
        .insert(destinations)
        .values({ ...own, ...times, ...columns })
        .toSQL(),
    );
    return id;
  }

  function edit(id: string, columns: DestinationColumns): void {
    const { sql: text, params } = builder.update(destinations).set(columns).toSQL();
    built({ sql: `${text} WHERE id = ?`, params: [...params, id] });
  }

  function post(count = 1, { tenant = TENANT, type = "order.paid", data, deliverAt }: Posted = {}) {
    const events = Array.from({ length: count }, (_, n) => ({ tenant, type, data: data ?? n, deliverAt }));
    return invoke("post", (services) => accept(services, events));
  }

  function postSteadily(perSecond: number, forMs: number, posted?: Posted): void {
    const everyMs = 1000 / perSecond;
    for (let n = 0; n * everyMs < forMs; n++) engine.after(n * everyMs, () => void post(1, posted));
  }

  const cron = () =>
    invoke("cron", async (services) => {
      await runCron(services).finally(() => checkThresholds(services));
    });
  function everyMinute(): void {
    void cron();
    engine.after(MINUTE_MS, everyMinute);
  }
  if (hasCron) engine.after(MINUTE_MS, everyMinute);

  async function runUntil(isSo: () => boolean, mostMs: number): Promise<boolean> {
    const endsAt = engine.now() + mostMs;
    let over = false;
    let so = isSo();
    // Checked once a second, because the condition may read every row.
    const look = () => {
      so = isSo();
      if (!so && !over) engine.after(LOOK_MS, look);
    };
    engine.after(LOOK_MS, look);
    engine.at(endsAt, () => {
      over = true;
    });
    await engine.run(() => over || so, endsAt);
    over = true;
    return isSo();
  }

  return {
    engine,
    platform,
    now: engine.now,
    run: async (ms) => void (await runUntil(() => false, ms)),
    runUntil,
    after: engine.after,
    destination,
    post,
    postSteadily,
    script: receivers.script,
    requests: receivers.requests,
    requestsTo: (id) => receivers.requests.filter((request) => request.destination === id),
    sql,
    pause: (id) => edit(id, { status: "paused" }),
    resume: (id) => {
      edit(id, { status: "active", statusReason: null });
      return invoke("resume", (services) => atGate(services, id, "resume"));
    },
    edit,
    rows: (id) => rowsOf(platform.databases, id),
    open: () => platform.databases.reduce((sum, one) => sum + one.prepare(OPEN).all().length, 0),
    gate: gates.stateOf,
    evict: gates.evict,
    log,
    logged: (what) => log.filter((line) => line.what === what),
    calls: () => {
      const since = [...invocations.counts].map(
        ([name, n]) => [name, n - (reported.get(name) ?? 0)] as const,
      );
      reported = new Map(invocations.counts);
      return Object.fromEntries(since.filter(([, n]) => n > 0));
    },
    invoke,
    cron,
    trouble: (next = {}) => {
      troubles = { ...noTroubles, ...next };
    },
    broken: () => [
      ...receivers.broken(),
      ...breaches,
      ...countsBroken(rowsOf(platform.databases), receivers.requests),
      ...invocations.thrown.flatMap(({ name, error }) => (isInjected(error) ? [] : `${name} threw ${error}`)),
    ],
  };
}

const OPEN = `SELECT 1 FROM events e, json_each(e.plan) p WHERE NOT ${hasEndedSql("e.id", "p.value")}`;

function rowsOf(databases: readonly DatabaseSync[], destination: string | null = null): StoredRow[] {
  const of = (table: string) => {
    const sql = `SELECT * FROM ${table} WHERE ?1 IS NULL OR destination_id = ?1 ORDER BY destination_id`;
    return databases.flatMap((db) => db.prepare(sql).all(destination) as RawRow[]);
  };
  const packed = packsOf(of("packs")).flatMap((pack) => packedRows(pack, null).map(storedRow));
  const rows = [...of("deliveries").map((raw) => modelOf(deliveries, raw)), ...packed];
  const byDestination = (a: StoredRow, b: StoredRow) => a.destinationId.localeCompare(b.destinationId);
  return rows.sort((a, b) => byDestination(a, b) || a.eventId - b.eventId);
}

/** Only an HTTP exchange is an attempt. */
function countsBroken(rows: readonly StoredRow[], requests: readonly Request[]): string[] {
  const made = new Map<string, number>();
  for (const { event, destination } of requests) {
    const key = `${event} ${destination}`;
    made.set(key, (made.get(key) ?? 0) + 1);
  }
  return rows.flatMap(({ eventId, destinationId, log, attempts, replay }) => {
    const key = `${eventId} ${destinationId}`;
    const sent = made.get(key) ?? 0;
    const counted = Math.max(log.length, replay === null ? attempts : 0);
    return counted > sent ? [`${key} counts ${counted} attempts, and ${sent} were made`] : [];
  });
}
