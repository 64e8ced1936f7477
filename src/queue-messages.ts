/**
 * The messages of the queues: ids only. Bodies and limits are read from D1 when a message arrives, so that a message
 * stays small and nothing in it can be out of date.
 *
 * The deliveries queue holds deliveries to attempt, and the drains queue drains. The upkeep queue holds everything else
 * that needs an invocation of its own, so that it never waits behind drains: steps of jobs (jobs/runner.ts) and dead-letter
 * digests.
 */
import type { BundlePart } from "./core/bundle.ts";
import { portioned, portionsOf } from "./core/portions.ts";

/**
 * The purposes of the queues: attempting deliveries, running drains, taking messages that failed too often, upkeep, and,
 * where an operator has such a queue, taking events. In the order of the names in `QUEUE_NAMES`.
 */
const QUEUE_KINDS = ["deliveries", "drains", "dead", "upkeep", "events"] as const;

type QueueKind = (typeof QUEUE_KINDS)[number];

/**
 * The purpose of a queue by its name: the last of these words in it, because each environment has queues with names of its
 * own (`breakwater-staging-dead`, `breakwater-dead-eu`).
 */
export function queueKindOf(name: string): QueueKind | undefined {
  const words: readonly string[] = name.toLowerCase().split(/[^a-z]+/);
  return QUEUE_KINDS.toSorted((a, b) => words.lastIndexOf(b) - words.lastIndexOf(a)).find((kind) =>
    words.includes(kind),
  );
}

/**
 * The kind of a batch. An operator may give the queues any names: if these do not contain the purpose of a queue, the
 * deployment sets `QUEUE_NAMES`. Without it, deliveries, drains and upkeep are recognised by the shape of their
 * messages. Messages of a dead-letter queue look like those of the queue they come from, so a message of an unnamed one
 * is attempted like any other. No delivery is lost by that, because the sweep finds those whose message has used up its
 * retries.
 * @param env the Worker's variables
 */
export function batchKindOf(
  env: object,
  { queue, messages }: Readonly<{ queue: string; messages: readonly Readonly<{ body: unknown }>[] }>,
): QueueKind {
  const { QUEUE_NAMES } = env as Readonly<{ QUEUE_NAMES?: unknown }>;
  const configured =
    QUEUE_KINDS[typeof QUEUE_NAMES === "string" ? QUEUE_NAMES.split(",").indexOf(queue) : -1];
  if (configured !== undefined) return configured;
  const named = queueKindOf(queue);
  if (named === "dead" || named === "events") return named;
  if (messages.some(({ body }) => (drainMessage(body) ?? waitingMessage(body)) !== undefined))
    return "drains";
  return messages.some(({ body }) => upkeepMessage(body) !== undefined) ? "upkeep" : "deliveries";
}

/** The first pause before a message of an operator's queue of events comes again; each further one is twice as long. */
const EVENTS_PAUSE_S = 30;

/**
 * Seconds before a message of a queue of events that could not be taken comes again, given its attempts. The pauses
 * grow, so that few retries last through a long outage: ten of them for eight hours.
 * @param random uniform in [0, 1): spreads the messages of a batch over a third of the pause
 */
export function eventsPauseSeconds(attempts: number, random: number): number {
  const longest = EVENTS_PAUSE_S * 2 ** Math.min(attempts - 1, 12);
  return Math.min(LONGEST_DELAY_S, Math.ceil(longest * (1 + random / 3)));
}

export type DeliveryMessage = Readonly<{
  bundles: readonly BundlePart[];
  /**
   * Which retries the message delivers: those whose last attempt was recorded with this owner; without it, those that
   * have none. A delivery that is given a message of its own is given an owner with it, so that only that one retries it.
   */
  owner?: string | undefined;
  /** Deliveries of it that wait are attempted with live traffic, without a drain. */
  takesWaiting?: true;
}>;

/** A drain that the gate has scheduled: deliver the destination's backlog, in this many concurrent drains. */
export type DrainMessage = Readonly<{
  destination: string;
  drains: number;
  /** An invocation may die of it: no other drain runs beside it. */
  alone?: true;
  /** How many reads in a row of the drains before this one have found only faults. */
  faultyReads?: number;
}>;

/** Deliveries wait for these destinations: their gates are to schedule drains. */
export type WaitingMessage = Readonly<{ waiting: readonly string[] }>;

/** Every message of the drains queue. */
export type DrainQueueMessage = DrainMessage | WaitingMessage;

/** The names of jobs, and of other work that has messages of the upkeep queue. */
const UPKEEP_NAMES = [
  "sweep",
  "retention",
  "content_retention",
  "archive",
  "unreadable",
  "replay",
  "erasure",
  "alerts",
  "deadLetterDigest",
  "notice",
] as const;

export type UpkeepName = (typeof UPKEEP_NAMES)[number];

/** A message of the upkeep queue: one of the names with the object of the work, or otherwise with its page. */
export type UpkeepQueueMessage = Readonly<{ [name in UpkeepName]?: unknown }> &
  Readonly<{ page?: number; until?: number; at?: number }>;

/** The same, taken apart. */
export type UpkeepMessage = Readonly<{
  name: UpkeepName;
  /** The id of a replay, an erasure or a destination; or the value that the page before has passed on. */
  subject: unknown;
  /** The page of a job that the cron began, whose invocation was page 0. */
  page: number | undefined;
  /** No further page is enqueued after this, epoch ms. */
  until: number | undefined;
  /** When the step is due, epoch ms, by the clock that has set it; undefined from 0.3.0. */
  at: number | undefined;
}>;

/** Deliveries that one message names: as many as an invocation attempts in a few seconds. */
export const MESSAGE_DELIVERIES = 100;

/** The most messages that Queues takes in one `sendBatch`, and bytes of all of them, of which it takes 256 KB. */
const BATCH = 100;
const BATCH_BYTES = 240_000;
/** Bytes that Queues counts for each message besides. */
const BESIDE_BYTES = 100;

/** The messages in their order, in batches that `sendBatch` takes. */
export function batchesOf<T extends Readonly<{ body: unknown }>>(messages: readonly T[]): T[][] {
  if (messages.length < 2) return portionsOf(messages, BATCH);
  // Ids are ASCII: a character is a byte.
  const sizeOf = ({ body }: T) => JSON.stringify(body).length + BESIDE_BYTES;
  return portionsOf(messages, BATCH).flatMap((some) => portioned(some, sizeOf, BATCH_BYTES));
}

/** The longest delay that Queues takes, in whole seconds. A message that arrives too early is enqueued again. */
const LONGEST_DELAY_S = 86_400;

/** Seconds until `at`, rounded up, so that no message arrives before its time. */
export function delaySecondsUntil(at: number, now: number): number {
  return Math.min(LONGEST_DELAY_S, Math.max(0, Math.ceil((at - now) / 1000)));
}

/** The message, or undefined when the body is one that no version of Breakwater has sent. */
export function deliveryMessage(body: unknown): DeliveryMessage | undefined {
  const { bundles, owner, takesWaiting } = (body ?? {}) as Partial<DeliveryMessage>;
  if (!Array.isArray(bundles) || !bundles.every(isPart)) return undefined;
  return { bundles, ...(typeof owner === "string" && { owner }), ...(takesWaiting && { takesWaiting }) };
}

function isPart(given: unknown): given is BundlePart {
  const { bundle, destinations, indexes } = (given ?? {}) as Partial<BundlePart>;
  return (
    Number.isSafeInteger(bundle) &&
    Array.isArray(destinations) &&
    destinations.every((id) => typeof id === "string") &&
    (indexes === undefined || (Array.isArray(indexes) && indexes.every(Number.isSafeInteger)))
  );
}

export function drainMessage(body: unknown): DrainMessage | undefined {
  const { destination, drains, alone, faultyReads } = (body ?? {}) as Partial<DrainMessage>;
  if (typeof destination !== "string") return undefined;
  const atWork = Number.isSafeInteger(drains) ? Math.max(1, drains as number) : 1;
  return {
    destination,
    drains: atWork,
    ...(alone && { alone }),
    ...(isWhole(faultyReads) && { faultyReads }),
  };
}

export function waitingMessage(body: unknown): WaitingMessage | undefined {
  const { waiting } = (body ?? {}) as Partial<WaitingMessage>;
  if (!Array.isArray(waiting) || !waiting.every((id) => typeof id === "string")) return undefined;
  return { waiting };
}

/** A message of the upkeep queue. */
export function upkeepMessage(body: unknown): UpkeepMessage | undefined {
  const given = (body ?? {}) as UpkeepQueueMessage;
  const name = UPKEEP_NAMES.find((one) => given[one] !== undefined);
  if (name === undefined) return undefined;
  const subject = given[name];
  const page = [given.page, subject].find(isWhole);
  const wholeOf = (value: unknown) => (isWhole(value) ? value : undefined);
  return { name, subject, page, until: wholeOf(given.until), at: wholeOf(given.at) };
}

function isWhole(value: unknown): value is number {
  return Number.isSafeInteger(value);
}
