/**
 * What becomes of a delivery after an attempt: delivered, tried again at a time, or dead for a reason.
 * The one place where classification, backoff, Retry-After and both limits meet.
 *
 * What must stay true: never earlier than the receiver asked, jitter only after it; never sooner than one
 * second; never past the age limit, which is fixed at the first attempt; nothing is dead without a reason.
 */
import { backoffSeconds, jittered } from "./backoff.ts";
import { causeOf, classify, type Exchange } from "./classify.ts";
import type { RetryPolicy } from "./policy.ts";
import { parseRetryAfter } from "./retry-after.ts";

export type History = {
  /** Exchanges made, the one just made included: at least 1. */
  readonly attempts: number;
  /** How many of these came to the same cause as the one just made, that one included; left out: all. */
  readonly sameCause?: number;
  /** The age limit, epoch ms. */
  readonly giveUpAt: number;
  /** The wait before the attempt just made; absent after the first. */
  readonly previousDelayMs?: number;
};

export type Transition =
  | { readonly kind: "delivered" }
  | {
      readonly kind: "retry";
      readonly at: number;
      readonly reason: string;
      /** The receiver's own time, where it gave one: `at` is never before it. */
      readonly notBefore?: number;
      readonly note?: string;
    }
  | {
      readonly kind: "dead";
      readonly reason: "permanent" | "gone" | "exhausted" | "expired";
      readonly note?: string;
    };

/** What the receiver said about when to come back. */
type Wish =
  | { readonly kind: "none" }
  | { readonly kind: "until"; readonly at: number }
  | { readonly kind: "nonsense"; readonly value: string };

const shortestDelayMs = 1000;

/**
 * The longest a destination is held for one answer. As long as the largest age limit, so that no delivery that
 * is waiting out a Retry-After can be attempted sooner than it was asked; a Retry-After of years must not
 * stop a destination for years.
 */
const longestHoldMs = 30 * 24 * 3_600_000;

/** The next state of a delivery whose attempt came to `exchange`. `random` is in [0, 1). */
export function transition(
  exchange: Exchange,
  history: History,
  policy: RetryPolicy,
  now: number,
  random: number,
): Transition {
  switch (classify(exchange, policy.rules)) {
    case "success":
      return { kind: "delivered" };
    case "permanent":
      return { kind: "dead", reason: causeOf(exchange) === "http_410" ? "gone" : "permanent" };
    case "retry":
      return retryWithinLimits(exchange, history, policy, now, random);
  }
}

/**
 * Until when the whole destination must be left alone (epoch ms): its Retry-After on 429 and 503, at most 30 days
 * from now, whatever the age limits of its deliveries are. Undefined when it asked for nothing, or for a time
 * that has already come.
 */
export function holdUntil(exchange: Exchange, now: number): number | undefined {
  const wish = wishOf(exchange, now);
  if (wish.kind !== "until" || wish.at <= now) return undefined;
  return Math.min(wish.at, now + longestHoldMs);
}

function retryWithinLimits(
  exchange: Exchange,
  history: History,
  policy: RetryPolicy,
  now: number,
  random: number,
): Transition {
  const reason = causeOf(exchange);
  const wish = wishOf(exchange, now);
  const note = noteOf(wish, history.giveUpAt, now);

  const { attempts, sameCause = attempts } = history;
  const causeLimit = policy.rules.attemptLimits[reason] ?? policy.maxAttempts;
  if (attempts >= policy.maxAttempts || sameCause >= causeLimit)
    return { kind: "dead", reason: "exhausted", ...note };

  const backoffAt = now + backoffMs(exchange, wish, history, policy, random);
  const at =
    wish.kind === "until" ? honour(wish.at, backoffAt, isInstead(exchange, policy), now, random) : backoffAt;
  if (at > history.giveUpAt) return { kind: "dead", reason: "expired", ...note };
  return { kind: "retry", at, reason, ...(wish.kind === "until" && { notBefore: wish.at }), ...note };
}

/** Retry-After counts on 429 and 503 only. */
function wishOf(exchange: Exchange, now: number): Wish {
  if (exchange.kind !== "response" || exchange.retryAfter === undefined) return { kind: "none" };
  if (exchange.status !== 429 && exchange.status !== 503) return { kind: "none" };
  const at = parseRetryAfter(exchange.retryAfter, now);
  return at === undefined ? { kind: "nonsense", value: exchange.retryAfter } : { kind: "until", at };
}

/** What a person should know about the wish. The value is the receiver's, so it is quoted and cut short. */
function noteOf(wish: Wish, giveUpAt: number, now: number): { readonly note?: string } {
  if (wish.kind === "nonsense")
    return { note: `Retry-After ${JSON.stringify(wish.value.slice(0, 40))} ignored` };
  if (wish.kind !== "until" || wish.at <= giveUpAt) return {};
  const bound = wish.at > now + longestHoldMs ? "; taken as 30 days for the destination" : "";
  return { note: `Retry-After lies past the age limit${bound}` };
}

/** The jittered backoff; twice that for a 429 which does not say until when. */
function backoffMs(
  exchange: Exchange,
  wish: Wish,
  history: History,
  { delays, jitter }: RetryPolicy,
  random: number,
): number {
  const previousSeconds = history.previousDelayMs === undefined ? undefined : history.previousDelayMs / 1000;
  const seconds = jittered(backoffSeconds(delays, history.attempts), jitter, previousSeconds, delays, random);
  const factor = causeOf(exchange) === "http_429" && wish.kind !== "until" ? 2 : 1;
  return Math.max(shortestDelayMs, Math.round(seconds * factor * 1000));
}

/**
 * Whether the header alone decides. A 429 comes from a server that is there and knows its own rate. A 503 comes
 * from one that is not: many send the same short header all through an outage, and whoever believes it has used
 * up every attempt within seconds.
 */
function isInstead(exchange: Exchange, { retryAfter }: RetryPolicy): boolean {
  return retryAfter === "instead" && causeOf(exchange) === "http_429";
}

/** Where the receiver's time decides, up to a tenth of the wait it asked for, at least 1 s, is added. */
function honour(askedAt: number, backoffAt: number, instead: boolean, now: number, random: number): number {
  if (!instead && backoffAt >= askedAt) return backoffAt;
  const spreadMs = Math.max(1000, (askedAt - now) / 10);
  return Math.max(now + shortestDelayMs, askedAt + Math.round(random * spreadMs));
}
