/**
 * The delivery path under the control of a test: the real D1 and the real gates, counted and breakable, and a fake
 * clock, randomness, receivers and queues. Every world starts with empty tables and new gates. Messages stay on a queue
 * until the test delivers them.
 *
 * Calls take no time here: tests examine one step and count its calls and rows, or stop it at one moment. Overlapping
 * steps whose calls take time are for the faulty runtime (delivery-model.deep.test.ts, every-fault) and the virtual
 * world, which add latencies to these services.
 */

import { env } from "cloudflare:workers";
import { drizzle } from "drizzle-orm/d1";
import {
  type DeliveryKey,
  eventAt,
  headersOf,
  indexesOf,
  type Plan,
  partsOf,
  runsInclude,
  storedHeader,
} from "../../src/core/bundle.ts";
import type { FunctionCall, FunctionOutcome } from "../../src/core/transform/code.ts";
import { sealedHeaders } from "../../src/delivery/authorization.ts";
import { consumeDeliveries } from "../../src/delivery/consumer.ts";
import type { TenantFunctions } from "../../src/gate/functions-object.ts";
import { newDestinationId } from "../../src/ids.ts";
import type { EventOptions } from "../../src/ingest/bundle.ts";
import type { LogLine } from "../../src/log.ts";
import type {
  DeliveryMessage,
  DrainMessage,
  DrainQueueMessage,
  UpkeepQueueMessage,
} from "../../src/queue-messages.ts";
import type { Services } from "../../src/services.ts";
import { modelOf, type RawRow } from "../../src/store/columns.ts";
import { storeBodies as encodeBodies } from "../../src/store/commit.ts";
import { type StoredRow, storedRow } from "../../src/store/delivery.ts";
import { destinations } from "../../src/store/destination.ts";
import { packedRows } from "../../src/store/packs.ts";
import { deliveries, packs } from "../../src/store/tables.ts";
import { consumeDrains, consumeUpkeep } from "../../src/upkeep.ts";
import { accept } from "./accept.ts";

import { START, standingClock } from "./clock.ts";
import { testConfig } from "./config.ts";
import { emptyDatabase, rowsOfAll, testDatabases } from "./databases.ts";
import { newIsolate } from "./isolates.ts";
import { callEnded, callsUnderWay, meteredD1, meteredGates } from "./meter.ts";
import { batchOf, fakeQueue, type MessageResult } from "./queues.ts";
import { receivers } from "./receivers.ts";
import { captureText, learn } from "./secret-leaks.ts";
import { vault } from "./vault.ts";

export { START };
export const TENANT = "acme";
export const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
export const GRACE_MS = 20_000;
/** The first event of a world. */
export const FIRST_EVENT = eventAt(1, 0);

type Posted = Readonly<{ type?: string; data?: unknown; options?: EventOptions }>;

export type World = Awaited<ReturnType<typeof newWorld>>;

export async function newWorld() {
  await emptyDatabase();
  const clock = standingClock();
  const receiver = receivers();
  const d1 = meteredD1(env.DB, ...testDatabases.slice(1));
  const gates = meteredGates(env.GATES);
  const groups = meteredGates(env.GROUPS);
  const deliveryQueue = fakeQueue<DeliveryMessage>();
  const drainQueue = fakeQueue<DrainQueueMessage>();
  const upkeepQueue = fakeQueue<UpkeepQueueMessage>();
  const functions = scriptedFunctions();
  const log: LogLine[] = [];
  const pending: Promise<unknown>[] = [];
  let random = 0.5;

  const services: Services = newIsolate().own({
    config: testConfig({ adminKey: "a key of no use here", graceMs: GRACE_MS }),
    vault,
    db: d1.db,
    further: d1.further,
    deliveries: deliveryQueue.queue,
    drains: drainQueue.queue,
    upkeep: upkeepQueue.queue,
    gates: gates.gates,
    groups: groups.gates,
    functions: functions.namespace,
    fetch: receiver.fetch,
    now: clock.now,
    random: () => random,
    sleep: clock.sleep,
    log: (line) => {
      captureText("A log line", JSON.stringify(line));
      log.push(line);
    },
    background: (work) => void pending.push(work),
  });

  /** Waits for all background work. */
  async function settled(): Promise<void> {
    while (pending.length > 0) await Promise.all(pending.splice(0));
  }

  /** Waits for background work that pauses: advances the clock past one pause after the other. */
  async function settledThroughPauses(): Promise<void> {
    let isSettled = false;
    const all = settled().finally(() => {
      isSettled = true;
    });
    while (!isSettled) {
      await calm();
      if (!isSettled) clock.wakeFirst();
    }
    await all;
  }

  /** Posts `count` events in one request, and takes their messages off the queue. */
  async function postBundles(
    count = 1,
    { type = "order.paid", data = {}, options }: Posted = {},
  ): Promise<DeliveryMessage[]> {
    await accept(
      services,
      Array.from({ length: count }, () => ({ tenant: TENANT, type, data, options })),
    );
    await settled();
    return deliveryQueue.taken().map(({ body }) => body);
  }

  /** Posts `count` events, and returns their deliveries, to be consumed in a message each. */
  async function post(count = 1, posted: Posted = {}): Promise<DeliveryKey[]> {
    return named(await postBundles(count, posted));
  }

  /**
   * Passes messages to the delivery consumer in one batch; a delivery becomes a separate message. Does not wait for
   * background work.
   */
  async function consume(messages: readonly unknown[], attempts = 1): Promise<MessageResult[]> {
    const bodies = messages.map((message) => (isKey(message) ? messageFor(message) : message));
    const { batch, results } = batchOf("breakwater-deliveries", bodies, attempts);
    await consumeDeliveries(services, batch);
    return results;
  }

  /** Passes messages to the drain consumer. */
  async function answer(messages: readonly unknown[]): Promise<MessageResult[]> {
    const { batch, results } = batchOf("breakwater-drains", messages);
    await consumeDrains(services, batch);
    return results;
  }

  /** Passes messages to the consumer of upkeep. */
  async function keepUp(messages: readonly unknown[]): Promise<MessageResult[]> {
    const { batch, results } = batchOf("breakwater-upkeep", messages);
    await consumeUpkeep(services, batch);
    return results;
  }

  /** Runs the alarm of a gate, and returns the drains that it enqueued. */
  async function ring(destination: string): Promise<DrainMessage[]> {
    const stub = gateOf(destination);
    const sent = fakeQueue<DrainMessage>();
    const { runDurableObjectAlarm, runInDurableObject } = await insideObjects();
    await runInDurableObject(stub, (gate) => {
      Object.assign(gate, { env: { DRAINS: sent.queue } });
    });
    await runDurableObjectAlarm(stub);
    return sent.taken().map(({ body }) => body);
  }

  /** Runs the gate's alarm, and consumes the drains that it enqueued. */
  async function drain(destination: string): Promise<void> {
    await answer(await ring(destination));
  }

  /** Widens the concurrency window to the destination's limit, by successes. */
  async function earnTrust(destination: string, successes = 12): Promise<void> {
    const messages = await post(successes);
    await consume(messages.filter((message) => message.destinationId === destination));
    await settled();
  }

  return {
    services,
    clock,
    receiver,
    d1,
    gates,
    groups,
    functions,
    deliveryQueue,
    drainQueue,
    upkeepQueue,
    log,
    settled,
    settledThroughPauses,
    post,
    postBundles,
    consume,
    answer,
    keepUp,
    ring,
    drain,
    earnTrust,
    /** Sets what `random` returns from now on, in [0, 1). */
    chance: (value: number) => {
      random = value;
    },
    /** The log lines of that kind. */
    logged: (what: string) => log.filter((line) => line.what === what),
  };
}

/** The real object of functions, whose calls are counted; a script can answer in its place. */
function scriptedFunctions() {
  const { FUNCTIONS } = env as unknown as { FUNCTIONS: DurableObjectNamespace<TenantFunctions> };
  const calls: FunctionCall[] = [];
  let script: ((call: FunctionCall) => Promise<FunctionOutcome[]>) | undefined;
  const run = async (call: FunctionCall): Promise<FunctionOutcome[]> => {
    calls.push(call);
    if (script) return script(call);
    return structuredClone(await FUNCTIONS.get(FUNCTIONS.idFromName(call.tenant)).run(call));
  };
  const namespace = { idFromName: (name: string) => name, get: () => ({ run }) };
  return {
    namespace: namespace as unknown as DurableObjectNamespace<TenantFunctions>,
    calls,
    script: (answer: typeof script) => {
      script = answer;
    },
  };
}

/** The deliveries that the messages name, each once, in the order of their events. Missing bundles have none. */
export async function named(messages: readonly DeliveryMessage[]): Promise<DeliveryKey[]> {
  const parts = messages.flatMap(({ bundles }) => bundles);
  const bundles = JSON.stringify([...new Set(parts.map(({ bundle }) => bundle))]);
  const stored = await rowsOfAll<{ id: number; plan: string }>(
    "SELECT id, plan FROM bundles WHERE id IN (SELECT value FROM json_each(?1))",
    bundles,
  );
  const plans = new Map(stored.map(({ id, plan }) => [id, JSON.parse(plan) as Plan]));
  const keys = parts.flatMap(({ bundle, destinations, indexes }) =>
    destinations.flatMap((destination) =>
      indexesOf(plans.get(bundle)?.[destination] ?? [])
        .filter((index) => !indexes || runsInclude(indexes, index))
        .map((index) => ({ eventId: eventAt(bundle, index), destinationId: destination })),
    ),
  );
  const each = new Map(keys.map((key) => [`${key.eventId} ${key.destinationId}`, key]));
  return [...each.values()].sort((a, b) => a.eventId - b.eventId);
}

/** A message for a single delivery. */
export function messageFor(key: DeliveryKey | undefined): DeliveryMessage {
  if (!key) throw new Error("The delivery is there");
  return { bundles: partsOf([key]) };
}

export function isKey(message: unknown): message is DeliveryKey {
  return typeof (message as Partial<DeliveryKey> | null)?.eventId === "number";
}

export function gateOf(destination: string) {
  return env.GATES.get(env.GATES.idFromName(destination));
}

/** Loaded when it is needed, because it loads the whole Worker. */
function insideObjects() {
  return import("cloudflare:test");
}

/** The time of the gate's alarm, epoch ms. */
export async function alarmOf(destination: string): Promise<number | null> {
  const { runInDurableObject } = await insideObjects();
  return runInDurableObject(gateOf(destination), (_, { storage }) => storage.getAlarm());
}

/** Gates outlive a world: resets those of destinations whose ids are used again. */
export async function newGates(destinations: readonly string[]): Promise<void> {
  await Promise.all(destinations.map((destination) => gateOf(destination).forget()));
}

type Columns = Partial<typeof destinations.$inferInsert>;

/** Creates a destination, of every event type unless given; seals its secret and its headers. */
export async function newDestination(columns: Columns = {}): Promise<string> {
  const id = columns.id ?? newDestinationId();
  learn(columns.secret ?? SECRET);
  const secret = await vault.seal(id, columns.secret ?? SECRET);
  const times = { createdAt: 0, updatedAt: 0 };
  const sealed = columns.headers ? await sealedHeaders(vault, id, columns.headers) : null;
  const headers = { headers: null, sealedHeaders: sealed };
  const row = { id, tenant: TENANT, url: urlOf(id), ...times, ...columns, ...headers, secret };
  await drizzle(env.DB).insert(destinations).values(row);
  return id;
}

export function urlOf(destination: string): string {
  return `https://${destination.slice(4)}.example/hook`;
}

/** The stored delivery; undefined before its first outcome. */
export async function rowOf({ eventId, destinationId }: DeliveryKey): Promise<StoredRow | undefined> {
  const rows = await storedRows();
  return rows.find((row) => row.eventId === eventId && row.destinationId === destinationId);
}

/** Every stored delivery, in order of destination and event. */
export async function storedRows(): Promise<StoredRow[]> {
  const { results } = await env.DB.prepare("SELECT * FROM destinations").all<RawRow>();
  const targets = new Map(results.map((raw) => [raw.id, modelOf(destinations, raw)]));
  const rows = await Promise.all(
    testDatabases.map(async (db) => [
      ...(await drizzle(db).select().from(deliveries)),
      ...(await drizzle(db).select().from(packs)).flatMap((pack) =>
        packedRows(pack, targets.get(pack.destinationId) ?? null).map(storedRow),
      ),
    ]),
  );
  const nameOf = ({ destinationId, eventId }: StoredRow) =>
    `${destinationId} ${String(eventId).padStart(16, "0")}`;
  return rows.flat().toSorted((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
}

/** Moves deliveries that wait in packs, of one event or of all, to rows, as if they had been attempted. */
export async function giveRows(event?: number): Promise<void> {
  const all = await storedRows();
  const wanted = all.filter(({ state, eventId }) => state === "waiting" && (event ?? eventId) === eventId);
  for (const { destinationId, eventId, state, reason, giveUpAt } of wanted)
    await execute(
      `INSERT INTO deliveries (destination_id, event_id, state, reason, give_up_at)
       VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING`,
      ...[destinationId, eventId, state, reason, giveUpAt],
    );
}

/** Deletes every recorded outcome. */
export async function forgetOutcomes(): Promise<void> {
  await execute("DELETE FROM deliveries");
  await execute("DELETE FROM packs");
}

/** The number of turns of the event loop without a call under way after which nothing continues by itself. */
const QUIET_TURNS = 4;

/** Waits until nothing can proceed without the test or its clock, however long calls to D1, gates and buckets take. */
export async function calm(): Promise<void> {
  for (let quiet = 0; quiet < QUIET_TURNS; ) {
    const isBusy = callsUnderWay() > 0;
    await (isBusy ? callEnded() : turn());
    quiet = isBusy || callsUnderWay() > 0 ? 0 : quiet + 1;
  }
}

/** One turn of the event loop: calls may still be under way. */
export function turn(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve));
}

/** Whether the destination is paused, and why. */
export async function statusOf(destination: string): Promise<unknown[]> {
  const rows = await drizzle(env.DB).select().from(destinations);
  const row = rows.find(({ id }) => id === destination);
  return [row?.status, row?.statusReason];
}

/** Runs a statement in every database, as an operator would with `wrangler d1 execute`. */
export async function execute(sql: string, ...values: unknown[]): Promise<void> {
  await rowsOfAll(sql, ...values);
}

/** Replaces the bodies of a bundle's events, byte for byte. */
export async function storeBodies(bundle: number, bodies: readonly string[]): Promise<void> {
  const bytes = bodies.map((body) => new TextEncoder().encode(body));
  const { hex, ...stored } = await encodeBodies(bytes);
  const row = await env.DB.prepare("SELECT header FROM bundles WHERE id = ?1")
    .bind(bundle)
    .first<string>("header");
  const headers = headersOf(JSON.parse(row ?? "")).map((one, i) => ({
    ...one,
    bytes: bytes[i]?.byteLength ?? 0,
  }));
  const header = JSON.stringify(storedHeader(headers, stored));
  await execute("UPDATE bundles SET header = ?2, body = unhex(?3) WHERE id = ?1", bundle, header, hex);
}
