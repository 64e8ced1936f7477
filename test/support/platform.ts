/**
 * Cloudflare's platform as a test plays it on a faulty runtime: queues that redeliver unacknowledged messages, alarms,
 * the cron. Every handler runs as a separate invocation, and handlers of one kind run at the same time: several batches
 * of deliveries, several drains. Messages come out of order, and some of them twice, perhaps in two batches at once.
 * All messages of the delivery queue are recorded, because the platform may deliver any of them again.
 */

import { runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import type { DeliveryKey } from "../../src/core/bundle.ts";
import { seededRandom } from "../../src/core/seeded-random.ts";
import { consumeDeliveries } from "../../src/delivery/consumer.ts";
import { consumeDeadLetters } from "../../src/delivery/dead-letters.ts";
import { replaying } from "../../src/features/replays/job.ts";
import { newReplayId } from "../../src/ids.ts";
import type {
  DeliveryMessage,
  DrainMessage,
  DrainQueueMessage,
  UpkeepQueueMessage,
} from "../../src/queue-messages.ts";
import type { Services } from "../../src/services.ts";
import { beginReplay } from "../../src/store/replay-steps.ts";
import { consumeDrains, consumeUpkeep, runCron } from "../../src/upkeep.ts";
import { accept } from "./accept.ts";
import { rowsOfAll } from "./databases.ts";
import { hasEndedSql } from "./ended.ts";
import type { FaultyRuntime } from "./faulty-runtime.ts";
import { interceptedQueue } from "./intercept.ts";
import { batchOf, fakeQueue } from "./queues.ts";
import { keyOf } from "./request-log.ts";
import { alarmOf, gateOf, named, storedRows, TENANT, type World } from "./world.ts";

type Queued = Readonly<{ body: DeliveryMessage; dueAt: number; attempts: number }>;

/** A message of the queue of drains, or of the queue of upkeep. */
type QueuedDrain = Readonly<{ body: DrainQueueMessage | UpkeepQueueMessage; dueAt: number }>;

type Include = Parameters<typeof beginReplay>[1]["include"];

export type Platform = Readonly<{
  /** Posts `count` events in one request; false if it was not answered with success. */
  post: (count: number) => Promise<boolean>;
  /** Delivers all messages that are due, in several batches at once. */
  deliver: () => Promise<void>;
  /** Moves all messages of the delivery queue to the dead-letter queue, and consumes them there. */
  deadLetter: () => Promise<void>;
  /** Delivers every message of both queues that was ever sent once more. */
  redeliver: () => Promise<void>;
  cron: () => Promise<void>;
  /** Runs the alarms that are due, then consumes all messages of the queues of drains and upkeep at once. */
  drain: () => Promise<void>;
  /** Advances the clock. */
  later: (ms: number) => void;
  /** Deliveries whose messages were acknowledged although nothing recorded would have retried them in time. */
  dropped: readonly string[];
}>;

/** The number of batches at once, when there are enough messages. */
const BATCHES = 3;
/** The most messages in a batch, as in wrangler.toml. */
const MESSAGES = 10;
/** One in this many messages is delivered a second time. */
const DUPLICATE_EVERY = 12;

/** @param seed of the order of messages, and of the duplicates */
export function platformOf(
  world: World,
  runtime: FaultyRuntime,
  destinations: readonly string[],
  seed = 1,
): Platform {
  const random = seededRandom(seed);
  const sent = new Map<string, DeliveryMessage>();
  let queued: Queued[] = [];
  const dropped: string[] = [];
  const consumed = new Map<string, QueuedDrain["body"]>();
  let drains: QueuedDrain[] = [];

  function collect(): void {
    const now = world.clock.now();
    for (const { body, delaySeconds = 0 } of world.deliveryQueue.taken()) {
      sent.set(JSON.stringify(body), body);
      queued.push({ body, dueAt: now + delaySeconds * 1000, attempts: 1 });
    }
    for (const { body, delaySeconds = 0 } of [...world.drainQueue.taken(), ...world.upkeepQueue.taken()])
      drains.push({ body, dueAt: now + delaySeconds * 1000 });
  }

  async function post(count: number): Promise<boolean> {
    const events = Array.from({ length: count }, (_, n) => ({ tenant: TENANT, type: "order.paid", data: n }));
    let accepted = false;
    await runtime.invoke("post", async (services) => {
      try {
        await accept(services, events);
        accepted = true;
      } catch {
        // The sender gets an error; the events may have been accepted.
      }
    });
    collect();
    return accepted;
  }

  /** Consumes one batch; returns the messages to redeliver. */
  async function consume(messages: readonly Queued[]): Promise<Queued[]> {
    const bodies = messages.map(({ body }) => body);
    const attempts = Math.max(1, ...messages.map((message) => message.attempts));
    const { batch, results } = batchOf("breakwater-deliveries", bodies, attempts);
    const survived = await runtime.invoke("consume", (services) => consumeDeliveries(services, batch));
    collect();
    const now = world.clock.now();
    return messages.flatMap((message, i) => {
      // After a crash, messages that were not acknowledged are redelivered.
      const fate = survived || results[i] !== "left" ? results[i] : { retryIn: 0 };
      if (fate === undefined || typeof fate === "string") return [];
      return [{ ...message, attempts: message.attempts + 1, dueAt: now + (fate.retryIn ?? 0) * 1000 }];
    });
  }

  /** Batches at the same time. A duplicate may be acknowledged while its twin is still queued. */
  async function consumeAll(messages: readonly Queued[]): Promise<void> {
    const again = await Promise.all(batchesOf(messages).map(consume));
    queued.push(...again.flat());
    const stillQueued = queued.map(({ body }) => body);
    await runtime.meanwhile(async () => {
      const kept = new Set((await named(stillQueued)).map(keyOf));
      const delivered = await named(messages.map(({ body }) => body));
      await checkDropped(delivered.filter((name) => !kept.has(keyOf(name))));
    });
  }

  /** Makes batches in random order, with some messages twice. */
  function batchesOf(messages: readonly Queued[]): readonly (readonly Queued[])[] {
    const twice = messages.filter(() => random() * DUPLICATE_EVERY < 1);
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

  /** An acknowledged delivery must have ended, wait, or have a time of its next attempt. */
  async function checkDropped(acknowledged: readonly DeliveryKey[]): Promise<void> {
    const rows = new Map((await storedRows()).map((row) => [keyOf(row), row]));
    for (const key of acknowledged.map(keyOf)) {
      const row = rows.get(key);
      const isOverdue = row?.state === "retrying" && (row.nextAttemptAt ?? 0) <= world.clock.now();
      if (!row || isOverdue) dropped.push(key);
    }
  }

  async function deliver(): Promise<void> {
    const due = queued.filter(({ dueAt }) => dueAt <= world.clock.now()).slice(0, 100);
    if (due.length === 0) return;
    queued = queued.filter((message) => !due.includes(message));
    await consumeAll(due);
  }

  async function deadLetter(): Promise<void> {
    const given = queued.splice(0);
    const { batch } = batchOf(
      "breakwater-dead",
      given.map(({ body }) => body),
    );
    const survived = await runtime.invoke("dead letters", (services) =>
      consumeDeadLetters(services, batch).catch(() => {}),
    );
    if (!survived) queued.push(...given);
  }

  async function redeliver(): Promise<void> {
    await consumeAll([...sent.values()].map((body) => ({ body, dueAt: 0, attempts: 1 })));
    await Promise.all([...consumed.values()].map((body) => consumeDrain({ body, dueAt: 0 })));
  }

  async function alarm(destination: string): Promise<void> {
    const stub = gateOf(destination);
    const alarmDrains = fakeQueue<DrainMessage>();
    const queue = interceptedQueue(alarmDrains.queue, (name, work) =>
      runtime.inside(`alarm: drains ${name}`, work),
    );
    await runtime.meanwhile(() =>
      runInDurableObject(stub, (gate) => void Object.assign(gate, { env: { DRAINS: queue } })),
    );
    try {
      await runtime.through("alarm", () => runDurableObjectAlarm(stub));
    } catch {
      // An alarm that fails too often is dropped.
      if (runtime.failedCall() === "alarm")
        await runtime.meanwhile(() => runInDurableObject(stub, (_, { storage }) => storage.deleteAlarm()));
    }
    drains.push(...alarmDrains.taken().map(({ body }) => ({ body, dueAt: 0 })));
  }

  async function drain(): Promise<void> {
    for (const destination of destinations) {
      const at = await runtime.meanwhile(() => alarmOf(destination));
      if (at !== null && at <= world.clock.now()) await alarm(destination);
    }
    collect();
    const due = drains.filter(({ dueAt }) => dueAt <= world.clock.now());
    drains = drains.filter((message) => !due.includes(message));
    for (const { body } of due) consumed.set(JSON.stringify(body), body);
    await Promise.all(due.map(consumeDrain));
  }

  async function consumeDrain(message: QueuedDrain): Promise<void> {
    const isDrain = "destination" in message.body || "waiting" in message.body;
    const { batch, results } = batchOf(`breakwater-${isDrain ? "drains" : "upkeep"}`, [message.body]);
    const name = ["replay", "erasure"].find((job) => job in message.body) ?? (isDrain ? "drain" : "upkeep");
    const consume = isDrain ? consumeDrains : consumeUpkeep;
    const survived = await runtime.invoke(name, (services) => consume(services, batch));
    collect();
    if (!survived || typeof results[0] === "object") drains.push(message);
  }

  return {
    post,
    deliver,
    deadLetter,
    redeliver,
    drain,
    cron: async () => void (await runtime.invoke("cron", (services) => runCron(services).catch(() => {}))),
    later: (ms) => world.clock.pass(ms),
    dropped,
  };
}

const DAY = 86_400_000;

/** Begins a replay of all deliveries of a destination, as an operator would; nothing when one is running. */
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
    const began = await beginReplay(services.db, { ...job, ...range, ...pace, ...at }, all, 1_000, {
      ms: 30 * DAY,
      types: {},
    });
    if (began) services.background(replaying.enqueue(services, began.id, now));
  } catch {
    // It may have begun.
  }
}

/** Longer than a lease, the grace period and the retries in tests. */
const ROUND_MS = 90_000;
const ROUNDS = 12;

/**
 * Runs until all deliveries have ended, with nothing failing and every message delivered three more times.
 * @param operator what an operator does repeatedly meanwhile
 */
export async function heal(platform: Platform, operator?: () => Promise<unknown>): Promise<void> {
  for (let round = 1; round <= ROUNDS; round++) {
    platform.later(ROUND_MS);
    await operator?.();
    if (round === 1) await platform.redeliver();
    await platform.deliver();
    await platform.cron();
    platform.later(1_000);
    await platform.drain();
    if (await allEnded()) break;
  }
  for (let again = 2; again <= 3; again++) await platform.redeliver();
}

async function allEnded(): Promise<boolean> {
  const open = await rowsOfAll(
    `SELECT 1 FROM replays WHERE state = 'running' UNION ALL
     SELECT 1 FROM erasures WHERE state = 'running' UNION ALL
     SELECT 1 FROM events e, json_each(e.plan) p WHERE NOT ${hasEndedSql("e.id", "p.value")}`,
  );
  return open.length === 0;
}

type Planned = DeliveryKey & Readonly<{ acceptedAt: number }>;

/** The destinations of every event that was committed, answered or not. */
export function planned(): Promise<Planned[]> {
  return rowsOfAll<Planned>(
    "SELECT e.id AS eventId, p.value AS destinationId, e.accepted_at AS acceptedAt FROM events e, json_each(e.plan) p",
  );
}
