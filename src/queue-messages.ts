/**
 * The messages of the queues: ids only. Bodies and limits are read from D1 when a message arrives, so that a message
 * stays small and nothing in it can be out of date.
 *
 * The deliveries queue holds deliveries to attempt. The drains queue holds everything else that wants an invocation of
 * its own: drains, replay steps, dead-letter digests, and pages of the sweep and of retention.
 */
import type { BundlePart } from "./core/bundle.ts";

/** What the Worker's queues are for: attempting deliveries, running drains, and taking messages that failed too often. */
export type QueueKind = "deliveries" | "drains" | "dead";

/**
 * What a batch is: a batch of the dead-letter queue, or one of deliveries or drains, which their messages show. No queue
 * needs a certain name, because each environment has queues of its own, and whoever deploys may rename them. The
 * dead-letter queue alone is known by its name: its messages look like those of the queue they come from.
 *
 * Where that name is unknown, dead letters are attempted like other deliveries. No delivery is lost by that: when their
 * retries are used up, the sweep finds them.
 * @param deadQueue the dead-letter queue's name, where its words do not tell
 */
export function batchKindOf(
  { queue, messages }: Readonly<{ queue: string; messages: readonly Readonly<{ body: unknown }>[] }>,
  deadQueue?: string,
): QueueKind {
  if (deadQueue === undefined ? namesDeadQueue(queue) : queue === deadQueue) return "dead";
  return messages.some(({ body }) => isDrainQueueMessage(body)) ? "drains" : "deliveries";
}

const QUEUE_WORDS = ["deliveries", "drains", "dead"] as const;

/**
 * Whether a queue is the one of dead letters by its name: "dead" is the last of the three words in it
 * (`breakwater-staging-dead`, `breakwater-dead-eu`).
 */
export function namesDeadQueue(queue: string): boolean {
  const words: readonly string[] = queue.toLowerCase().split(/[^a-z]+/);
  const places = QUEUE_WORDS.map((word) => words.lastIndexOf(word));
  return places[2] !== -1 && places[2] === Math.max(...places);
}

export type DeliveryMessage = Readonly<{
  bundles: readonly BundlePart[];
  /**
   * Which retries the message delivers: those whose last attempt was recorded with this owner; without it, those that
   * have none. A delivery that is given a message of its own is given an owner with it, so that only that one retries it.
   */
  owner?: string | undefined;
}>;

/** A drain that the gate has scheduled: work off the destination's backlog, in so many concurrent drains. */
export type DrainMessage = Readonly<{ destination: string; drains: number }>;

/** The next step of a replay is due. */
export type ReplayMessage = Readonly<{ replay: string }>;

/** A destination's dead-letter digest is due: fetch it from the gate and publish it. */
type DigestMessage = Readonly<{ deadLetterDigest: string }>;

/** Continues the sweep or retention where the cron invocation could not do all of it. */
export type UpkeepMessage =
  | Readonly<{
      /** The sweep's lease. */
      sweep: string;
      /** The cron invocation was page 0. */
      page: number;
      /** No further page is enqueued after this, epoch ms. */
      until: number;
    }>
  | Readonly<{ retention: number; until: number }>;

/** Every message of the drains queue. */
export type DrainQueueMessage = DrainMessage | ReplayMessage | DigestMessage | UpkeepMessage;

/** The most messages that Queues takes in one `sendBatch`. */
const BATCH = 100;

/** The messages in their order, in batches that `sendBatch` takes. */
export function batchesOf<T>(messages: readonly T[]): T[][] {
  const batches = Math.ceil(messages.length / BATCH);
  return Array.from({ length: batches }, (_, i) => messages.slice(i * BATCH, (i + 1) * BATCH));
}

/** The longest delay that Queues takes, in whole seconds. A message that arrives too early is enqueued again. */
const LONGEST_DELAY_S = 86_400;

/** Seconds until `at`, rounded up, so that no message arrives before its time. */
export function delaySecondsUntil(at: number, now: number): number {
  return Math.min(LONGEST_DELAY_S, Math.max(0, Math.ceil((at - now) / 1000)));
}

/** The message, or undefined when the body is one that no version of Breakwater has sent. */
export function deliveryMessage(body: unknown): DeliveryMessage | undefined {
  const { bundles, owner } = (body ?? {}) as Partial<DeliveryMessage>;
  if (!Array.isArray(bundles) || !bundles.every(isPart)) return undefined;
  return { bundles, ...(typeof owner === "string" && { owner }) };
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
  const { destination, drains } = (body ?? {}) as Partial<DrainMessage>;
  if (typeof destination !== "string") return undefined;
  return { destination, drains: Number.isSafeInteger(drains) ? Math.max(1, drains as number) : 1 };
}

export function replayMessage(body: unknown): ReplayMessage | undefined {
  const { replay } = (body ?? {}) as Partial<ReplayMessage>;
  return typeof replay === "string" ? { replay } : undefined;
}

export function digestMessage(body: unknown): DigestMessage | undefined {
  const { deadLetterDigest } = (body ?? {}) as Partial<DigestMessage>;
  return typeof deadLetterDigest === "string" ? { deadLetterDigest } : undefined;
}

export function upkeepMessage(body: unknown): UpkeepMessage | undefined {
  const { sweep, page, retention, until } = (body ?? {}) as Record<string, unknown>;
  if (!Number.isSafeInteger(until)) return undefined;
  if (typeof sweep === "string" && Number.isSafeInteger(page))
    return { sweep, page: page as number, until: until as number };
  return Number.isSafeInteger(retention)
    ? { retention: retention as number, until: until as number }
    : undefined;
}

/** Whether the body is that of a message of the drains queue, of any of its kinds. */
function isDrainQueueMessage(body: unknown): boolean {
  return (
    (drainMessage(body) ?? replayMessage(body) ?? digestMessage(body) ?? upkeepMessage(body)) !== undefined
  );
}
