/**
 * The platform as a test plays it over a wire: queues that bring again what was not let go, alarms, the
 * cron. Every handler runs as an invocation of its own, and those of one kind run at once: several batches of
 * deliveries, the drains of several bells. Messages come out of order, and some of them twice, perhaps in two
 * batches at once. What was ever put on the delivery queue is remembered, because the platform may bring any
 * message more than once.
 */

import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import type { DeliveryName } from "../../src/core/bundle.ts";
import { beginReplay } from "../../src/db/replay-steps.ts";
import { consumeDeliveries } from "../../src/delivery/consumer.ts";
import { consumeDeadLetters } from "../../src/delivery/dead-letters.ts";
import { newReplayId } from "../../src/ids.ts";
import { accept } from "../../src/ingest/accept.ts";
import { runCron } from "../../src/maintenance/cron.ts";
import { consumeDrains } from "../../src/maintenance/drain-queue.ts";
import type { DeliveryMessage, DrainMessage, ReplayMessage } from "../../src/queue-messages.ts";
import { enqueueReplayStep } from "../../src/replay/run.ts";
import type { Services } from "../../src/services.ts";
import { seededRandom } from "../../src/simulator/scenario.ts";
import { rowsOfAll } from "./databases.ts";
import { hasEndedSql } from "./ended.ts";
import { interceptedQueue } from "./intercept.ts";
import { batchOf, fakeQueue } from "./queues.ts";
import type { Wire } from "./wire.ts";
import { keyOf, keyOfRow } from "./witness.ts";
import { alarmOf, gateOf, named, storedRows, TENANT, type World } from "./world.ts";

type Queued = Readonly<{ body: DeliveryMessage; dueAt: number; attempts: number }>;

/** A bell, or time for the next step of a replay. */
type Bell = Readonly<{ body: DrainMessage | ReplayMessage; dueAt: number }>;

type Include = Parameters<typeof beginReplay>[1]["include"];

export type Platform = Readonly<{
  /** Posts so many events in one request; false when its sender heard no acceptance. */
  post: (count: number) => Promise<boolean>;
  /** Brings all messages that are due, in several batches at once. */
  deliver: () => Promise<void>;
  /** Gives up all messages that are on the queue: they come as the platform's dead letters. */
  bury: () => Promise<void>;
  /** Brings every message that was ever sent once more, bells too. */
  redeliver: () => Promise<void>;
  cron: () => Promise<void>;
  /** Makes the alarms go off that are due, and has all the drains answered at once that they send for; replays step too. */
  ring: () => Promise<void>;
  /** Moves the time. */
  later: (ms: number) => void;
  /** Messages that were let go although nothing on record would have brought their deliveries again in time. */
  dropped: readonly string[];
}>;

/** Messages are brought in so many batches at once, when there are enough of them. */
const BATCHES = 3;
/** At most so many in each, as wrangler.toml has it. */
const MESSAGES = 10;
/** Of so many messages that are brought, one comes a second time. */
const TWICE = 12;

/** @param seed of the order in which messages come, and of those that come twice */
export function platformOf(world: World, wire: Wire, destinations: readonly string[], seed = 1): Platform {
  const random = seededRandom(seed);
  const sent = new Map<string, DeliveryMessage>();
  let queued: Queued[] = [];
  const dropped: string[] = [];
  const heard = new Map<string, Bell["body"]>();
  let bells: Bell[] = [];

  function collect(): void {
    const now = world.clock.now();
    for (const { body, delaySeconds = 0 } of world.deliveryQueue.taken()) {
      sent.set(JSON.stringify(body), body);
      queued.push({ body, dueAt: now + delaySeconds * 1000, attempts: 1 });
    }
    for (const { body, delaySeconds = 0 } of world.drainQueue.taken())
      bells.push({ body, dueAt: now + delaySeconds * 1000 });
  }

  async function post(count: number): Promise<boolean> {
    const events = Array.from({ length: count }, (_, n) => ({ tenant: TENANT, type: "order.paid", data: n }));
    let heard = false;
    await wire.invoke("post", async (services) => {
      try {
        await accept(services, events);
        heard = true;
      } catch {
        // The sender hears of it; whether the events were accepted, the database knows.
      }
    });
    collect();
    return heard;
  }

  /** One batch; returns what comes again of it. */
  async function bring(messages: readonly Queued[]): Promise<Queued[]> {
    const bodies = messages.map(({ body }) => body);
    const attempts = Math.max(1, ...messages.map((message) => message.attempts));
    const { batch, fates } = batchOf("breakwater-deliveries", bodies, attempts);
    const survived = await wire.invoke("consume", (services) => consumeDeliveries(services, batch));
    collect();
    const now = world.clock.now();
    return messages.flatMap((message, i) => {
      // What was acknowledged before a crash is gone; what was left alone then comes again.
      const fate = survived || fates[i] !== "left" ? fates[i] : { retryIn: 0 };
      if (fate === undefined || typeof fate === "string") return [];
      return [{ ...message, attempts: message.attempts + 1, dueAt: now + (fate.retryIn ?? 0) * 1000 }];
    });
  }

  /** Batches side by side; whatever another batch has let go, one that still has it answers for. */
  async function bringAll(messages: readonly Queued[]): Promise<void> {
    const again = await Promise.all(batchesOf(messages).map(bring));
    queued.push(...again.flat());
    const stillHere = queued.map(({ body }) => body);
    await wire.meanwhile(async () => {
      const kept = new Set((await named(stillHere)).map(keyOf));
      const brought = await named(messages.map(({ body }) => body));
      await checkDropped(brought.filter((name) => !kept.has(keyOf(name))));
    });
  }

  /** In any order, some twice. */
  function batchesOf(messages: readonly Queued[]): readonly (readonly Queued[])[] {
    const twice = messages.filter(() => random() * TWICE < 1);
    const all = shuffled([...messages, ...twice]);
    const size = Math.min(MESSAGES, Math.ceil(all.length / BATCHES));
    return Array.from({ length: Math.ceil(all.length / Math.max(1, size)) }, (_, i) =>
      all.slice(i * size, (i + 1) * size),
    );
  }

  function shuffled<T>(items: readonly T[]): T[] {
    return items
      .map((item) => ({ item, at: random() }))
      .sort((a, b) => a.at - b.at)
      .map(({ item }) => item);
  }

  /** Whatever is let go has ended, or waits, or has a time of its own at which it will be looked after. */
  async function checkDropped(gone: readonly DeliveryName[]): Promise<void> {
    const rows = new Map((await storedRows()).map((row) => [keyOfRow(row), row]));
    for (const key of gone.map(keyOf)) {
      const row = rows.get(key);
      const isOverdue = row?.state === "retrying" && (row.nextAttemptAt ?? 0) <= world.clock.now();
      if (!row || isOverdue) dropped.push(key);
    }
  }

  async function deliver(): Promise<void> {
    const due = queued.filter(({ dueAt }) => dueAt <= world.clock.now()).slice(0, 100);
    if (due.length === 0) return;
    queued = queued.filter((message) => !due.includes(message));
    await bringAll(due);
  }

  async function letDie(): Promise<void> {
    const given = queued.splice(0);
    const { batch } = batchOf(
      "breakwater-dead",
      given.map(({ body }) => body),
    );
    const survived = await wire.invoke("bury", (services) =>
      consumeDeadLetters(services, batch).catch(() => {}),
    );
    if (!survived) queued.push(...given);
  }

  async function redeliver(): Promise<void> {
    await bringAll([...sent.values()].map((body) => ({ body, dueAt: 0, attempts: 1 })));
    await Promise.all([...heard.values()].map((body) => answer({ body, dueAt: 0 })));
  }

  async function alarm(destination: string): Promise<void> {
    const stub = gateOf(destination);
    const drains = fakeQueue<DrainMessage>();
    const queue = interceptedQueue(drains.queue, (name, work) => wire.inside(`alarm: drains ${name}`, work));
    await wire.meanwhile(() =>
      runInDurableObject(stub, (gate) => void Object.assign(gate, { env: { DRAINS: queue } })),
    );
    try {
      await wire.through("alarm", () => runDurableObjectAlarm(stub));
    } catch {
      // An alarm that fails too often is dropped.
      if (wire.struck() === "alarm")
        await wire.meanwhile(() => runInDurableObject(stub, (_, { storage }) => storage.deleteAlarm()));
    }
    bells.push(...drains.taken().map(({ body }) => ({ body, dueAt: 0 })));
  }

  async function ring(): Promise<void> {
    for (const destination of destinations) {
      const at = await wire.meanwhile(() => alarmOf(destination));
      if (at !== null && at <= world.clock.now()) await alarm(destination);
    }
    collect();
    const rung = bells.filter(({ dueAt }) => dueAt <= world.clock.now());
    bells = bells.filter((drainSchedule) => !rung.includes(drainSchedule));
    for (const drainSchedule of rung) heard.set(JSON.stringify(drainSchedule.body), drainSchedule.body);
    await Promise.all(rung.map(answer));
  }

  async function answer(drainSchedule: Bell): Promise<void> {
    const { batch, fates } = batchOf("breakwater-drains", [drainSchedule.body]);
    const name = "replay" in drainSchedule.body ? "replay" : "drain";
    const survived = await wire.invoke(name, (services) => consumeDrains(services, batch));
    collect();
    if (!survived || typeof fates[0] === "object") bells.push(drainSchedule);
  }

  return {
    post,
    deliver,
    bury: letDie,
    redeliver,
    ring,
    cron: async () => void (await wire.invoke("cron", (services) => runCron(services).catch(() => {}))),
    later: (ms) => world.clock.pass(ms),
    dropped,
  };
}

const DAY = 86_400_000;

/** Begins a replay of all that a destination has, as a person would; nothing when one is under way. */
export async function replay(services: Services, destination: string, include: Include): Promise<void> {
  const now = services.now();
  const range = { since: 0, until: now + DAY };
  const at = { createdAt: now, updatedAt: now, nextStepAt: now };
  const pace = { ratePerMinute: 600, pace: 600 };
  const job = {
    id: newReplayId(),
    tenant: TENANT,
    destinationId: destination,
    include,
    state: "running" as const,
  };
  try {
    const all = { first: 1, last: Number.MAX_SAFE_INTEGER };
    const began = await beginReplay(services.db, { ...job, ...range, ...pace, ...at }, all, 1_000, 30 * DAY);
    if (began) services.background(enqueueReplayStep(services, began.id, now));
  } catch {
    // Whether it has begun, the database knows.
  }
}

/** Longer than a lease, the grace period and the retries of a test. */
const ROUND_MS = 90_000;
const ROUNDS = 12;

/**
 * With nothing failing any more, and every message coming three times more: until all has ended.
 * @param person what a person would do about it, again and again
 */
export async function heal(platform: Platform, person?: () => Promise<unknown>): Promise<void> {
  for (let round = 1; round <= ROUNDS; round++) {
    platform.later(ROUND_MS);
    await person?.();
    if (round === 1) await platform.redeliver();
    await platform.deliver();
    await platform.cron();
    platform.later(1_000);
    await platform.ring();
    if (await allEnded()) break;
  }
  for (let again = 2; again <= 3; again++) await platform.redeliver();
}

async function allEnded(): Promise<boolean> {
  const open = await rowsOfAll(
    `SELECT 1 FROM replays WHERE state = 'running' UNION ALL
     SELECT 1 FROM events e, json_each(e.plan) p WHERE NOT ${hasEndedSql("e.id", "p.value")}`,
  );
  return open.length === 0;
}

type Planned = DeliveryName & Readonly<{ acceptedAt: number }>;

/** The destinations of every event that was committed, whoever heard of it. */
export function planned(): Promise<Planned[]> {
  return rowsOfAll<Planned>(
    "SELECT e.id AS event, p.value AS destination, e.accepted_at AS acceptedAt FROM events e, json_each(e.plan) p",
  );
}
