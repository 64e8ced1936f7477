/**
 * What travels through the queues: ids only. Bodies and limits are read from D1 when a message arrives,
 * so that a message stays small and nothing in it can be out of date.
 */
import type { BundlePart } from "./core/bundle.ts";

export type DeliveryMessage = Readonly<{
  bundles: readonly BundlePart[];
  /**
   * Which of its retries it brings: those whose last attempt was recorded under this mark; without, those that have
   * none. A delivery that gets a message of its own gets a mark with it, so that only one message brings it.
   */
  owner?: string | undefined;
}>;

/** The gate's bell: work off what waits for this destination, together with so many drains in all. */
export type DrainMessage = Readonly<{ destination: string; drains: number }>;

/** Time for the next step of a replay. On the queue of the drains: both make waiting deliveries move. */
export type ReplayMessage = Readonly<{ replay: string }>;

/** Time to ask a destination's gate for its dead. On the queue of the drains too. */
export type DigestMessage = Readonly<{ deadLetterDigest: string }>;

/**
 * More of what the clock is for, where a tick could not do all of it. On the queue of the drains too, where each
 * message is an invocation of its own.
 */
export type UpkeepMessage =
  | Readonly<{
      /** The sweep's lease. */
      sweep: string;
      /** The tick was page 0. */
      page: number;
      /** No page is sent for after this, epoch ms. */
      until: number;
    }>
  | Readonly<{ retention: number; until: number }>;

/** Everything that goes over the queue of the drains. */
export type DrainQueueMessage = DrainMessage | ReplayMessage | DigestMessage | UpkeepMessage;

/** Queues takes so many messages in one call. */
const BATCH = 100;

/** The messages in their order, in as many batches as it takes to send them. */
export function batchesOf<T>(messages: readonly T[]): T[][] {
  const batches = Math.ceil(messages.length / BATCH);
  return Array.from({ length: batches }, (_, i) => messages.slice(i * BATCH, (i + 1) * BATCH));
}

/** The message, or undefined when the queue holds something that no version of ours has sent. */
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

/** Queues takes whole seconds, a day at most; whoever comes too early is sent on again. */
const LONGEST_DELAY_S = 86_400;

/** Seconds until `at`, rounded up, so that nothing comes before its time. */
export function delaySecondsUntil(at: number, now: number): number {
  return Math.min(LONGEST_DELAY_S, Math.max(0, Math.ceil((at - now) / 1000)));
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
