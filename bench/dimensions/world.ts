/**
 * A deployment for counting: production's code with as many isolates, databases and intake objects as wanted, in this
 * process, over D1 of the local runtime, whose meters are those that are billed. The clock is virtual, gates and intakes
 * are production's classes in memory.
 */
import "../storm/runtime-in-node.ts";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { convertV4MiniflareOptions, Miniflare, type V4MiniflareOptions } from "miniflare";
import { keyToken } from "../../src/core/credentials.ts";
import { seededRandom } from "../../src/core/seeded-random.ts";
import { consumeDeliveries } from "../../src/delivery/consumer.ts";
import { ReceiverGroup } from "../../src/gate/group-object.ts";
import { byKey } from "../../src/http/auth.ts";
import { accept } from "../../src/ingest/accept.ts";
import { postedEvent } from "../../src/ingest/bundle.ts";
import { GroupCommit } from "../../src/ingest/intake.ts";
import type { IntakeRpc } from "../../src/ingest/intake-protocol.ts";
import type { DeliveryMessage } from "../../src/queue-messages.ts";
import { runCron } from "../../src/upkeep.ts";
import { testConfig } from "../../test/support/config.ts";
import { type Isolate, newIsolate } from "../../test/support/isolates.ts";
import { meteredD1 } from "../../test/support/meter.ts";
import { migrationFiles } from "../../test/support/migration-files.ts";
import { batchOf, fakeQueue } from "../../test/support/queues.ts";
import { timeless } from "../../test/support/timeless.ts";
import type { DimensionStep } from "../results.ts";
import { virtualGates, virtualObjects } from "../storm/breakwater/gates.ts";
import { openVault } from "../storm/breakwater/platform.ts";
import { createEngine } from "../storm/engine.ts";

export type Size = Readonly<{
  isolates: number;
  tenants: number;
  keys: number;
  /** Those of other tenants included. */
  destinations: number;
  databases: number;
  shards: number;
  /** How long the isolates were idle, while others accepted an event a second. */
  idleMs: number;
}>;

/** What each dimension has where another one grows. */
export const USUAL: Size = {
  isolates: 3,
  tenants: 10,
  keys: 10,
  destinations: 10,
  databases: 1,
  shards: 1,
  idleMs: 0,
};

/** What an event has cost, from the request that posted it to the settled delivery. */
type Counted = Omit<DimensionStep, "size">;

export type GrowthWorld = Readonly<{
  /** Until caches are as they will be; then counts. */
  measure: (rounds: number) => Promise<Counted>;
  close: () => Promise<void>;
}>;

const BEGINNING = Date.parse("2026-06-01T12:00:00Z");
/** Single posts of a round, which is a second of virtual time; one more request posts a batch. */
const SINGLE = 15;
const BATCH = 5;
/** Others' rows of one statement. */
const PER_STATEMENT = 100_000;

export async function growthWorld(size: Size): Promise<GrowthWorld> {
  const names = Array.from({ length: size.databases }, (_, i) => (i === 0 ? "DB" : `DB_${i}`));
  const script = "export default { fetch: () => new Response() }";
  const options = { modules: true, script, d1Databases: names };
  const miniflare = new Miniflare(convertV4MiniflareOptions(options as V4MiniflareOptions));
  const all = await Promise.all(
    names.map(async (name) => (await miniflare.getD1Database(name)) as unknown as D1Database),
  );
  for (const db of all) await migrate(db);
  const [first, ...others] = all as [D1Database, ...D1Database[]];
  const d1 = meteredD1(first, ...others);
  const random = seededRandom(7);
  let now = BEGINNING;
  const realNow = Date.now;
  Date.now = () => now;
  const pending: Promise<unknown>[] = [];
  const deliveries = fakeQueue<DeliveryMessage>();
  let gateCalls = 0;
  const drains = fakeQueue<never>();
  // Nothing is scheduled on it: alarms do not ring here.
  const gates = virtualGates(createEngine(1), () => drains.queue);
  const groups = virtualObjects(createEngine(1), ReceiverGroup, () => drains.queue);
  const intakes = new Map<string, GroupCommit>();

  const shared: Parameters<Isolate["own"]>[0] = {
    config: testConfig({ intakeShards: size.shards, allowPrivateDestinations: true }),
    vault: openVault,
    db: d1.db,
    further: d1.further,
    deliveries: deliveries.queue,
    drains: drains.queue,
    upkeep: fakeQueue<never>().queue,
    groups: groups.bindingFor((_method, _name, work) => work()),
    gates: gates.bindingFor((_method, _name, work) => {
      gateCalls += 1;
      return work();
    }),
    fetch: (async () => new Response(null, { status: 204 })) as typeof fetch,
    now: () => now,
    random,
    sleep: timeless,
    log: () => {},
    background: (work) => void pending.push(work),
  };
  const intake = {
    idFromName: (name: string) => name,
    get: (name: string) => {
      const object = intakes.get(name) ?? new GroupCommit(newIsolate().own(shared));
      intakes.set(name, object);
      const rpc = (...request: Parameters<IntakeRpc["accept"]>) => object.accept(...structuredClone(request));
      return { accept: rpc };
    },
  } as unknown as DurableObjectNamespace<IntakeRpc>;
  const isolates = Array.from({ length: size.isolates }, () => ({
    services: newIsolate().own({ ...shared, intake }),
    authenticate: byKey(),
  }));

  const any = (count: number) => Math.floor(random() * count);
  const anyIsolate = () => isolates[any(isolates.length)] as (typeof isolates)[number];
  const anyTenant = () => `tenant-${any(size.tenants)}`;

  async function settled(): Promise<void> {
    while (pending.length > 0) await Promise.all(pending.splice(0));
  }

  async function post(tenants: readonly string[]): Promise<void> {
    const { services, authenticate } = anyIsolate();
    const principal = await authenticate(services, tokenOf(any(size.keys)));
    if (!principal) throw new Error("The key is in force");
    const events = tenants.map((tenant) => postedEvent({ tenant, type: "order.paid", data: { number: 1 } }));
    const { kind } = await accept(services, events);
    if (kind !== "accepted") throw new Error(`An event was ${kind}`);
  }

  async function consume(): Promise<void> {
    const messages = deliveries.taken().map(({ body }) => body);
    for (let i = 0; i < messages.length; i += 10) {
      const { batch, results } = batchOf("breakwater-deliveries", messages.slice(i, i + 10));
      await consumeDeliveries(anyIsolate().services, batch);
      await settled();
      if (results.some((result) => result !== "acked")) throw new Error("A delivery was not acknowledged");
    }
  }

  async function round(): Promise<number> {
    now += 1_000;
    const single = Array.from({ length: SINGLE }, () => post([anyTenant()]));
    await Promise.all([...single, post(Array(BATCH).fill(anyTenant()))]);
    await settled();
    await consume();
    return SINGLE + BATCH;
  }

  async function measure(rounds: number): Promise<Counted> {
    await store(all, size, now);
    for (let i = 0; i < rounds; i++) await round();
    if (size.idleMs > 0) {
      await othersAccept(all, size.idleMs / 1_000, now);
      now += size.idleMs;
    }
    d1.used();
    gateCalls = 0;
    let events = 0;
    for (let i = 0; i < rounds; i++) events += await round();
    const used = d1.used();
    now += 60_000;
    await runCron(anyIsolate().services);
    await settled();
    const cron = d1.used();
    const held = size.isolates + intakes.size;
    const before = await heapKb();
    isolates.length = 0;
    intakes.clear();
    const isolateKb = (before - (await heapKb())) / held;
    return {
      rowsRead: used.rowsRead / events,
      rowsWritten: used.rowsWritten / events,
      queries: used.queries / events,
      gateCalls: gateCalls / events,
      isolateKb,
      cronQueries: cron.queries,
      cronRowsRead: cron.rowsRead,
    };
  }

  return {
    measure,
    close: async () => {
      Date.now = realNow;
      await miniflare.dispose();
    },
  };
}

async function migrate(db: D1Database): Promise<void> {
  const statements = migrationFiles().flatMap((sql) => sql.split("--> statement-breakpoint"));
  await db.batch(statements.map((statement) => db.prepare(statement)));
}

function idOfKey(n: number): string {
  return `key_${String(n).padStart(20, "0")}`;
}

function tokenOf(n: number): string {
  return keyToken(idOfKey(n), String(n).padStart(32, "0"));
}

/** Destinations, of which each tenant has one as far as they go, and keys. */
async function store([db]: readonly D1Database[], size: Size, now: number): Promise<void> {
  if (!db) throw new Error("The first database is there");
  for (let from = 0; from < size.destinations; from += PER_STATEMENT)
    await db
      .prepare(
        `WITH RECURSIVE n (i) AS (SELECT CAST(?1 AS INTEGER) UNION ALL SELECT i + 1 FROM n WHERE i < ?2 - 1)
         INSERT INTO destinations (id, tenant, url, secret, created_at, updated_at, max_concurrency)
         SELECT 'dst_' || printf('%020d', i),
           CASE WHEN i < ?3 THEN 'tenant-' || i ELSE 'other-' || (i / 10) END,
           'https://' || i || '.example/', 'whsec_', 0, 0, 50 FROM n`,
      )
      .bind(from, Math.min(size.destinations, from + PER_STATEMENT), size.tenants)
      .run();
  for (let from = 0; from < size.keys; from += 1_000) {
    const count = Math.min(1_000, size.keys - from);
    const keys = await Promise.all(
      Array.from({ length: count }, async (_, i) => [idOfKey(from + i), await hashOf(tokenOf(from + i))]),
    );
    await db
      .prepare(
        `INSERT INTO api_keys (id, hash, scopes, created_at, last_used_at)
         SELECT value ->> 0, value ->> 1, '["events:write"]', 0, ?2 FROM json_each(?1)`,
      )
      .bind(JSON.stringify(keys), now + 365 * 86_400_000)
      .run();
  }
}

async function hashOf(token: string): Promise<string> {
  return Buffer.from(await crypto.subtle.digest("SHA-256", Buffer.from(token))).toString("hex");
}

/** Bundles of one event without a destination, of other isolates, over all databases. */
async function othersAccept(all: readonly D1Database[], seconds: number, from: number): Promise<void> {
  const count = Math.ceil(seconds / all.length);
  for (const db of all)
    await db
      .prepare(
        `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
         INSERT INTO bundles (id, tokens, accepted_at, count, planned, plan, header, body)
         SELECT newest.id + i, '["others' || i || '"]', CAST(?2 + i * 1000 * ?3 AS INTEGER), 1, 0, '{}', b.header, b.body
         FROM n, (SELECT * FROM bundles WHERE count = 1 LIMIT 1) b, (SELECT max(id) AS id FROM bundles) newest`,
      )
      .bind(count, from, all.length)
      .run();
}

const collect = (() => {
  setFlagsFromString("--expose-gc");
  return runInNewContext("gc") as () => void;
})();

async function heapKb(): Promise<number> {
  for (let i = 0; i < 5; i++) {
    await new Promise((resolve) => setImmediate(resolve));
    collect();
  }
  return process.memoryUsage().heapUsed / 1024;
}

// The runtime has it, and Node has not. Keys here are compared with their own hashes.
Object.assign(crypto.subtle, {
  timingSafeEqual: (a: ArrayBuffer, b: ArrayBuffer) => Buffer.from(a).equals(Buffer.from(b)),
});
