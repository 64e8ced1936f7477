/**
 * A delivery's next state after an attempt: delivered, retried at a time, or dead for a reason. The one place where
 * classification, backoff, Retry-After and both limits meet.
 *
 * Invariants: a retry is never earlier than the receiver's time, and jitter only adds to that; never sooner than one
 * second; never past the age limit, which is fixed at the first attempt; and nothing is dead without a reason.
 */
import type { Cause, DeadReason } from "../reasons.ts";
import { backoffSeconds, type Delays, type Jitter, jittered } from "./backoff.ts";
import { causeOf, classify, type Exchange, type StatusRules } from "./classify.ts";
import { parseRetryAfter } from "./retry-after.ts";

/** The effects that a receiver's Retry-After can have on the backoff. */
export const retryAfterEffects = ["floor", "instead"] as const;

/** A complete policy: every field decided, every limit finite. Presets are made of it, and specs resolve to it. */
export type RetryPolicy = {
  readonly delays: Delays;
  readonly jitter: Jitter;
  /** Attempts in all, the first included. */
  readonly maxAttempts: number;
  /** How long after its first attempt a delivery is given up, however many attempts are left. */
  readonly giveUpAfterMs: number;
  /**
   * How long a delivery may wait for its first attempt, because of a pause, a hold or an open circuit. Counts from when
   * it is due. Much longer than the other limit, because nothing has failed yet.
   */
  readonly expireUnattemptedAfterMs: number;
  readonly rules: StatusRules;
  /**
   * The effect of Retry-After on the backoff: `floor` waits for the longer of the two, `instead` only for the header if
   * it comes with a 429 (with a 503 it is a floor, see `isInstead`). Neither ever waits for less than the header says.
   */
  readonly retryAfter: (typeof retryAfterEffects)[number];
};

export type History = {
  /** Exchanges made, the one just made included: at least 1. */
  readonly attempts: number;
  /** How many of these had the same cause as the one just made, that one included; all by default. */
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
      readonly reason: Cause;
      /** The receiver's own time, if it gave one: `at` is never before it. */
      readonly notBefore?: number;
      readonly note?: string;
    }
  | {
      readonly kind: "dead";
      readonly reason: Extract<DeadReason, "permanent" | "gone" | "exhausted" | "expired">;
      readonly note?: string;
    };

/** The receiver's Retry-After, as far as it counts. */
type RetryAfter =
  | { readonly kind: "none" }
  | { readonly kind: "until"; readonly at: number }
  | { readonly kind: "malformed"; readonly value: string };

const shortestDelayMs = 1000;

/**
 * The longest hold that one response can cause. As long as the largest age limit, so that no delivery is attempted
 * sooner than a Retry-After says; a Retry-After of years must not stop a destination for years.
 */
const longestHoldMs = 30 * 24 * 3_600_000;

/** `random` is in [0, 1). */
export function transition(
  exchange: Exchange,
  history: History,
  policy: RetryPolicy,
  now: number,
  random: number,
): Transition {
  const meaning = classify(exchange, policy.rules);
  if (meaning === "success") return { kind: "delivered" };
  const reason = causeOf(exchange);
  if (meaning === "permanent") return { kind: "dead", reason: reason === "http_410" ? "gone" : "permanent" };
  const retryAfter = retryAfterOf(exchange, now);
  const note = noteOf(retryAfter, history.giveUpAt, now);
  const { attempts, sameCause = attempts } = history;
  const causeLimit = policy.rules.attemptLimits[reason] ?? policy.maxAttempts;
  if (attempts >= policy.maxAttempts || sameCause >= causeLimit)
    return { kind: "dead", reason: "exhausted", ...note };
  const backoffAt = now + backoffMs(exchange, retryAfter, history, policy, random);
  const at =
    retryAfter.kind === "until"
      ? atReceiversTime(retryAfter.at, backoffAt, isInstead(exchange, policy), now, random)
      : backoffAt;
  if (at > history.giveUpAt) return { kind: "dead", reason: "expired", ...note };
  return {
    kind: "retry",
    at,
    reason,
    ...(retryAfter.kind === "until" && { notBefore: retryAfter.at }),
    ...note,
  };
}

/**
 * Until when the whole destination must get no requests (epoch ms): its Retry-After on 429 and 503, at most 30 days
 * from now, independently of the age limits of its deliveries. Undefined without one, or if the time has passed.
 */
export function holdUntil(exchange: Exchange, now: number): number | undefined {
  const retryAfter = retryAfterOf(exchange, now);
  if (retryAfter.kind !== "until" || retryAfter.at <= now) return undefined;
  return Math.min(retryAfter.at, now + longestHoldMs);
}

/** Retry-After counts on 429 and 503 only. */
function retryAfterOf(exchange: Exchange, now: number): RetryAfter {
  if (exchange.retryAfter === undefined) return { kind: "none" };
  if (exchange.status !== 429 && exchange.status !== 503) return { kind: "none" };
  const at = parseRetryAfter(exchange.retryAfter, now);
  return at === undefined ? { kind: "malformed", value: exchange.retryAfter } : { kind: "until", at };
}

/** A note for the attempt log. The header's value is the receiver's, so it is quoted and truncated. */
function noteOf(retryAfter: RetryAfter, giveUpAt: number, now: number): { readonly note?: string } {
  if (retryAfter.kind === "malformed")
    return { note: `Retry-After ${JSON.stringify(retryAfter.value.slice(0, 40))} ignored` };
  if (retryAfter.kind !== "until" || retryAfter.at <= giveUpAt) return {};
  const bound = retryAfter.at > now + longestHoldMs ? "; taken as 30 days for the destination" : "";
  return { note: `Retry-After lies past the age limit${bound}` };
}

/** The jittered backoff; twice that for a 429 without a usable Retry-After. */
function backoffMs(
  exchange: Exchange,
  retryAfter: RetryAfter,
  history: History,
  { delays, jitter }: RetryPolicy,
  random: number,
): number {
  const previousSeconds = history.previousDelayMs === undefined ? undefined : history.previousDelayMs / 1000;
  const seconds = jittered(backoffSeconds(delays, history.attempts), jitter, previousSeconds, delays, random);
  const factor = causeOf(exchange) === "http_429" && retryAfter.kind !== "until" ? 2 : 1;
  return Math.max(shortestDelayMs, Math.round(seconds * factor * 1000));
}

/**
 * Whether the header replaces the backoff. A 429 comes from a server that works and knows its own rate. A 503 comes
 * from one that does not: many send the same short header all through an outage, and a sender that obeyed it would use
 * up every attempt within seconds.
 */
function isInstead(exchange: Exchange, { retryAfter }: RetryPolicy): boolean {
  return retryAfter === "instead" && causeOf(exchange) === "http_429";
}

/** If the receiver's time decides, jitter of up to a tenth of that wait, at least 1 s, is added. */
function atReceiversTime(askedAt: number, backoffAt: number, instead: boolean, now: number, random: number) {
  if (!instead && backoffAt >= askedAt) return backoffAt;
  const spreadMs = Math.max(1000, (askedAt - now) / 10);
  return Math.max(now + shortestDelayMs, askedAt + Math.round(random * spreadMs));
}
