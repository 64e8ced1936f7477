/**
 * A deployment for counting: production code with any number of isolates, databases and intake objects, in this
 * process, over D1 of the local runtime, whose meters count rows as they are billed. The clock is virtual; gates and
 * intakes are production's classes, in memory.
 */
import "../storm/runtime-in-node.ts";
import { setImmediate as turnOfEvents } from "node:timers/promises";
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
import { type MeteredD1, meteredD1 } from "../../test/support/meter.ts";
import { migrationFiles } from "../../test/support/migration-files.ts";
import { batchOf, fakeQueue } from "../../test/support/queues.ts";
import { timeless } from "../../test/support/timeless.ts";
import { virtualGates, virtualObjects } from "../storm/breakwater/gates.ts";
import { openVault } from "../storm/breakwater/platform.ts";

/** How many of each the deployment has. Other tenants have destinations too. */
export type DeploymentSize = Readonly<{
  isolates: number;
  tenants: number;
  keys: number;
  /** Including those of other tenants. */
  destinations: number;
  databases: number;
  shards: number;
}>;

export type Deployment = Readonly<{
  all: readonly D1Database[];
  d1: MeteredD1;
  /** `gateRows` are values put by gates, and alarms set or deleted. */
  counted: Record<"gateCalls" | "gateRows" | "intakeCalls" | "invocations" | "messages" | "logLines", number>;
  isolates: { length: number };
  intakes: Map<string, unknown>;
  now: () => number;
  random: () => number;
  /** Advances the clock, and rings the alarms that are due. */
  advance: (ms: number) => Promise<void>;
  /** Posts one request, with an event for each of these tenants. */
  post: (tenants: readonly string[], idempotencyKey?: string) => Promise<void>;
  /** Holds the next `calls` calls of intakes until all have come, as if they had waited for a commit to end. */
  gather: (calls: number) => void;
  /** Consumes the queued messages, ten in each invocation. */
  consume: () => Promise<void>;
  settled: () => Promise<void>;
  cron: () => Promise<unknown>;
  close: () => Promise<void>;
}>;

const BEGINNING = Date.parse("2026-06-01T12:00:00Z");
/** The platform drops an object from memory after this idle time. */
const EVICTED_AFTER_MS = 10_000;
/** Pauses of the Worker are shorter than this; a longer sleep is a time limit. */
const LIMIT_MS = 1_000;
/** Turns of the event loop within which a signature is made and a request answered. */
const PAUSE_TURNS = 20;
/** Rows that one statement inserts. */
const PER_STATEMENT = 100_000;

export async function deployment(size: DeploymentSize): Promise<Deployment> {
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
  const counted = { gateCalls: 0, gateRows: 0, intakeCalls: 0, invocations: 0, messages: 0, logLines: 0 };
  const drains = fakeQueue<never>();
  const alarms: { at: number; ring: () => void }[] = [];
  const clock = { at: (at: number, ring: () => void) => void alarms.push({ at, ring }) };
  const ringing = { ...clock, after: (ms: number, ring: () => void) => clock.at(now + ms, ring) };
  const gates = virtualGates(
    ringing,
    () => drains.queue,
    () => {
      counted.gateRows += 1;
    },
  );
  const groups = virtualObjects(ringing, ReceiverGroup, () => drains.queue);
  const calledAt = new Map<string, number>();
  const intakes = new Map<string, GroupCommit>();
  let expected = 0;
  const gathered: (() => void)[] = [];

  /** Waits until all expected calls have come. */
  async function gathering(): Promise<void> {
    if (expected === 0) return;
    const all = new Promise<void>((resolve) => void gathered.push(resolve));
    if (gathered.length === expected) {
      expected = 0;
      for (const resolve of gathered.splice(0)) resolve();
    }
    await all;
  }

  /**
   * Moves the clock on, when whatever takes no time has had its turns: else receivers that answer at once seem slow.
   * Pauses that begin together end together.
   */
  async function pause(ms: number): Promise<void> {
    const until = Math.ceil(now + ms);
    for (let turn = 0; turn < PAUSE_TURNS; turn++) await turnOfEvents();
    now = Math.max(now, until);
  }

  const shared: Parameters<Isolate["own"]>[0] = {
    config: testConfig({ intakeShards: size.shards, allowPrivateDestinations: true }),
    vault: openVault,
    db: d1.db,
    further: d1.further,
    deliveries: deliveries.queue,
    drains: drains.queue,
    upkeep: fakeQueue<never>().queue,
    groups: groups.bindingFor((_method, _name, work) => work()),
    gates: gates.bindingFor((_method, name, work) => {
      counted.gateCalls += 1;
      if (now - (calledAt.get(name) ?? 0) >= EVICTED_AFTER_MS) gates.evict(name);
      calledAt.set(name, now);
      return work();
    }),
    fetch: (async () => new Response(null, { status: 204 })) as typeof fetch,
    now: () => now,
    random,
    // A pause takes no real time and moves the clock; a time limit passes only when the clock gets there.
    sleep: (ms, signal) => {
      if (signal) return timeless(ms, signal);
      return ms < LIMIT_MS ? pause(ms) : new Promise((resolve) => clock.at(now + ms, resolve));
    },
    log: () => {
      counted.logLines += 1;
    },
    background: (work) => void pending.push(work),
  };
  const intake = {
    idFromName: (name: string) => name,
    get: (name: string) => {
      const object = intakes.get(name) ?? new GroupCommit(newIsolate().own(shared));
      intakes.set(name, object);
      const rpc = async (...request: Parameters<IntakeRpc["accept"]>) => {
        counted.intakeCalls += 1;
        await gathering();
        return object.accept(...structuredClone(request));
      };
      return { accept: rpc };
    },
  } as unknown as DurableObjectNamespace<IntakeRpc>;
  const isolates = Array.from({ length: size.isolates }, () => ({
    services: newIsolate().own({ ...shared, intake }),
    authenticate: byKey(),
  }));

  const any = (count: number) => Math.floor(random() * count);
  const anyIsolate = () => isolates[any(isolates.length)] as (typeof isolates)[number];

  async function settled(): Promise<void> {
    while (pending.length > 0) await Promise.all(pending.splice(0));
  }

  async function post(tenants: readonly string[], idempotencyKey?: string): Promise<void> {
    counted.invocations += 1;
    const { services, authenticate } = anyIsolate();
    const principal = await authenticate(services, tokenOf(any(size.keys)));
    if (!principal) throw new Error("The key was refused");
    const events = tenants.map((tenant) => postedEvent({ tenant, type: "order.paid", data: { number: 1 } }));
    const { kind } = await accept(services, events, idempotencyKey);
    if (kind !== "accepted") throw new Error(`Posting failed: ${kind}`);
  }

  async function consume(): Promise<void> {
    const messages = deliveries.taken().map(({ body }) => body);
    counted.messages += messages.length;
    for (let i = 0; i < messages.length; i += 10) {
      counted.invocations += 1;
      const { batch, results } = batchOf("breakwater-deliveries", messages.slice(i, i + 10));
      await consumeDeliveries(anyIsolate().services, batch);
      await settled();
      if (results.some((result) => result !== "acked")) throw new Error("A delivery was not acknowledged");
    }
  }

  async function advance(ms: number): Promise<void> {
    now += ms;
    const due = alarms.filter(({ at }) => at <= now).sort((a, b) => a.at - b.at);
    for (const alarm of due) {
      alarms.splice(alarms.indexOf(alarm), 1);
      alarm.ring();
    }
    await settled();
  }

  await store(all, size, now);
  return {
    all,
    d1,
    isolates,
    intakes,
    counted,
    now: () => now,
    random,
    advance,
    post,
    gather: (calls) => {
      expected = calls;
    },
    consume,
    settled,
    cron: () => runCron(anyIsolate().services),
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

/** Inserts destinations, one for each of the first `tenants` tenants and the rest for others, and keys. */
async function store([db]: readonly D1Database[], size: DeploymentSize, now: number): Promise<void> {
  if (!db) throw new Error("There is no database");
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

// workerd has `timingSafeEqual`, and Node has not. Keys here are compared with their own hashes only.
Object.assign(crypto.subtle, {
  timingSafeEqual: (a: ArrayBuffer, b: ArrayBuffer) => Buffer.from(a).equals(Buffer.from(b)),
});
