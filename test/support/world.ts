/**
 * The delivery path in a world that the test holds in its hand: the real D1 and the real gates, counted and
 * breakable, and a clock, randomness, receivers and queues that do as they are told. Tables are empty in
 * every world, and so are the gates of destinations that are new. What goes on the queue stays there until
 * the test brings it.
 *
 * Its own services answer at once: tests that use them look at one step, and count its calls and rows, or hold
 * it at one moment. What many steps at once make of calls that take time is for the wire (life.test.ts,
 * every-fault) and for the virtual world, which put their times between production code and these services.
 */
import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { drizzle } from "drizzle-orm/d1";
import {
  type DeliveryName,
  eventAt,
  headersOf,
  indexesOf,
  isIn,
  type Plan,
  partsOf,
  storedHeader,
} from "../../src/core/bundle.ts";
import { storeBodies as encodeBodies } from "../../src/db/bundles.ts";
import { modelOf, type RawRow } from "../../src/db/columns.ts";
import { packedRows } from "../../src/db/packs.ts";
import { type DeliveryRow, deliveries, destinations, packs } from "../../src/db/schema.ts";
import { consumeDeliveries } from "../../src/delivery/consumer.ts";
import { newDestinationId } from "../../src/ids.ts";
import { accept } from "../../src/ingest/accept.ts";
import { RoutingCache } from "../../src/ingest/routing-cache.ts";
import type { LogLine } from "../../src/log.ts";
import { consumeDrains } from "../../src/maintenance/drain-queue.ts";
import type { DeliveryMessage, DrainMessage, ReplayMessage } from "../../src/queue-messages.ts";
import type { Services } from "../../src/services.ts";

import { START, standingClock } from "./clock.ts";
import { testConfig } from "./config.ts";
import { emptyDatabase, rowsOfAll, testDatabases } from "./databases.ts";
import { meteredD1, meteredGates } from "./meter.ts";
import { batchOf, type Fate, fakeQueue } from "./queues.ts";
import { receivers } from "./receivers.ts";
import { learn, overhear } from "./secrecy.ts";
import { vault } from "./vault.ts";

export { START };
export const TENANT = "acme";
export const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
export const GRACE_MS = 20_000;
/** The first event that a world accepts. */
export const FIRST_EVENT = eventAt(1, 0);

type Posted = Readonly<{ type?: string; data?: unknown }>;

export type World = Awaited<ReturnType<typeof newWorld>>;

export async function newWorld() {
  await emptyDatabase();
  const clock = standingClock();
  const receiver = receivers();
  const d1 = meteredD1(env.DB, ...testDatabases.slice(1));
  const gates = meteredGates(env.GATES);
  const deliveryQueue = fakeQueue<DeliveryMessage>();
  const drainQueue = fakeQueue<DrainMessage | ReplayMessage>();
  const log: LogLine[] = [];
  const pending: Promise<unknown>[] = [];
  let random = 0.5;

  const services: Services = {
    config: testConfig({ adminKey: "a key of no use here", graceMs: GRACE_MS }),
    routing: new RoutingCache(),
    vault,
    db: d1.db,
    further: d1.further,
    deliveries: deliveryQueue.queue,
    drains: drainQueue.queue,
    gates: gates.gates,
    fetch: receiver.fetch,
    now: clock.now,
    random: () => random,
    sleep: clock.sleep,
    log: (line) => {
      overhear("A log line", JSON.stringify(line));
      log.push(line);
    },
    background: (work) => void pending.push(work),
  };

  /** Until nothing goes on behind the answers any more. */
  async function settled(): Promise<void> {
    while (pending.length > 0) await Promise.all(pending.splice(0));
  }

  /** Posts so many events in one request, and takes their messages off the queue, each of whole bundles. */
  async function postBundles(
    count = 1,
    { type = "order.paid", data = {} }: Posted = {},
  ): Promise<DeliveryMessage[]> {
    await accept(
      services,
      Array.from({ length: count }, () => ({ tenant: TENANT, type, data })),
    );
    await settled();
    return deliveryQueue.taken().map(({ body }) => body);
  }

  /** Posts so many events, and names their deliveries: each of them is brought in a message of its own. */
  async function post(count = 1, posted: Posted = {}): Promise<DeliveryName[]> {
    return named(await postBundles(count, posted));
  }

  /**
   * Brings messages to the consumer, in one batch; what names a delivery comes as a message of its own. Does not wait
   * for what goes on behind it.
   */
  async function bring(messages: readonly unknown[], attempts = 1): Promise<Fate[]> {
    const bodies = messages.map((message) => (isName(message) ? messageFor(message) : message));
    const { batch, fates } = batchOf("breakwater-deliveries", bodies, attempts);
    await consumeDeliveries(services, batch);
    return fates;
  }

  /** Brings bells to the drain's consumer. */
  async function answer(bells: readonly unknown[]): Promise<Fate[]> {
    const { batch, fates } = batchOf("breakwater-drains", bells);
    await consumeDrains(services, batch);
    return fates;
  }

  /** Makes the alarm of a gate go off, and returns the drains that it sent for. */
  async function ring(destination: string): Promise<DrainMessage[]> {
    const stub = gateOf(destination);
    const sent = fakeQueue<DrainMessage>();
    await runInDurableObject(stub, (gate) => {
      Object.assign(gate, { env: { DRAINS: sent.queue } });
    });
    await runDurableObjectAlarm(stub);
    return sent.taken().map(({ body }) => body);
  }

  /** Has the gate's alarm go off and answers it, as the platform would. */
  async function drain(destination: string): Promise<void> {
    await answer(await ring(destination));
  }

  /** A window as wide as the destination's limit, earned by successes. */
  async function earnTrust(destination: string, successes = 12): Promise<void> {
    const messages = await post(successes);
    await bring(messages.filter((message) => message.destination === destination));
    await settled();
  }

  return {
    services,
    clock,
    receiver,
    d1,
    gates,
    deliveryQueue,
    drainQueue,
    log,
    settled,
    post,
    postBundles,
    bring,
    answer,
    ring,
    drain,
    earnTrust,
    /** What the next draws of chance are, in [0, 1). */
    chance: (value: number) => {
      random = value;
    },
    /** The lines that say so. */
    logged: (what: string) => log.filter((line) => line.what === what),
  };
}

/**
 * The deliveries that the messages name, each once, in the order of their events: what the plans of their bundles have
 * for their destinations. Bundles that are not there have none.
 */
export async function named(messages: readonly DeliveryMessage[]): Promise<DeliveryName[]> {
  const parts = messages.flatMap(({ bundles }) => bundles);
  const bundles = JSON.stringify([...new Set(parts.map(({ bundle }) => bundle))]);
  const stored = await rowsOfAll<{ id: number; plan: string }>(
    "SELECT id, plan FROM bundles WHERE id IN (SELECT value FROM json_each(?1))",
    bundles,
  );
  const plans = new Map(stored.map(({ id, plan }) => [id, JSON.parse(plan) as Plan]));
  const names = parts.flatMap(({ bundle, destinations, indexes }) =>
    destinations.flatMap((destination) =>
      indexesOf(plans.get(bundle)?.[destination] ?? [])
        .filter((index) => !indexes || isIn(indexes, index))
        .map((index) => ({ event: eventAt(bundle, index), destination })),
    ),
  );
  const each = new Map(names.map((name) => [`${name.event} ${name.destination}`, name]));
  return [...each.values()].sort((a, b) => a.event - b.event);
}

/** A message for one delivery alone. */
export function messageFor(name: DeliveryName | undefined): DeliveryMessage {
  if (!name) throw new Error("The delivery is there");
  return { bundles: partsOf([name]) };
}

export function isName(message: unknown): message is DeliveryName {
  return typeof (message as Partial<DeliveryName> | null)?.event === "number";
}

export function gateOf(destination: string) {
  return env.GATES.get(env.GATES.idFromName(destination));
}

/** When the gate's alarm would go off, epoch ms. */
export function alarmOf(destination: string): Promise<number | null> {
  return runInDurableObject(gateOf(destination), (_, { storage }) => storage.getAlarm());
}

/** Gates outlive a world: those of destinations that come again in the next forget what they know. */
export async function newGates(destinations: readonly string[]): Promise<void> {
  await Promise.all(destinations.map((destination) => gateOf(destination).forget()));
}

type Columns = Partial<typeof destinations.$inferInsert>;

/** A new destination that takes every type, unless told otherwise; its secret is sealed here. */
export async function newDestination(columns: Columns = {}): Promise<string> {
  const id = columns.id ?? newDestinationId();
  learn(columns.secret ?? SECRET);
  const secret = await vault.seal(id, columns.secret ?? SECRET);
  const times = { createdAt: 0, updatedAt: 0 };
  const row = { id, tenant: TENANT, url: urlOf(id), ...times, ...columns, secret };
  await drizzle(env.DB).insert(destinations).values(row);
  return id;
}

export function urlOf(destination: string): string {
  return `https://${destination.slice(4)}.example/hook`;
}

/** The delivery as it is stored; undefined before its first outcome. */
export async function rowOf({ event, destination }: DeliveryName): Promise<DeliveryRow | undefined> {
  const rows = await storedRows();
  return rows.find((row) => row.eventId === event && row.destinationId === destination);
}

/** Every stored delivery, in order of destination and event. */
export async function storedRows(): Promise<DeliveryRow[]> {
  const { results } = await env.DB.prepare("SELECT * FROM destinations").all<RawRow>();
  const targets = new Map(results.map((raw) => [raw.id, modelOf(destinations, raw)]));
  const rows = await Promise.all(
    testDatabases.map(async (db) => [
      ...(await drizzle(db).select().from(deliveries)),
      ...(await drizzle(db).select().from(packs)).flatMap((pack) =>
        packedRows(pack, targets.get(pack.destinationId) ?? null),
      ),
    ]),
  );
  const nameOf = ({ destinationId, eventId }: DeliveryRow) =>
    `${destinationId} ${String(eventId).padStart(16, "0")}`;
  return rows.flat().toSorted((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
}

/** Gives rows of their own to those of an event, or of all, that wait in packs: as if each had been attempted. */
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

/** As if none of what has been recorded of deliveries ever had been. */
export async function forgetOutcomes(): Promise<void> {
  await execute("DELETE FROM deliveries");
  await execute("DELETE FROM packs");
}

/** Until everything that can go on without D1, a gate or the clock has gone on. */
export function calm(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve));
}

/** Whether the destination is paused, and why. */
export async function statusOf(destination: string): Promise<unknown[]> {
  const rows = await drizzle(env.DB).select().from(destinations);
  const row = rows.find(({ id }) => id === destination);
  return [row?.status, row?.statusReason];
}

/** As a person would do it with `wrangler d1 execute`, in every database. */
export async function execute(sql: string, ...values: unknown[]): Promise<void> {
  await rowsOfAll(sql, ...values);
}

/** As if the events of a bundle had been posted so: their bodies, byte for byte. */
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
