/**
 * A destination's retry policy, complete: every field decided, every limit finite. It is what the presets
 * are made of, what a destination's `retry` resolves to, and all that a transition needs to know.
 */
import type { Delays, Jitter } from "./backoff.ts";
import type { StatusRules } from "./outcome.ts";

export type RetryPolicy = {
  readonly delays: Delays;
  readonly jitter: Jitter;
  /** Attempts in all, the first included. */
  readonly maxAttempts: number;
  /** How long after its first attempt a delivery is given up, however many attempts are left. */
  readonly giveUpAfterMs: number;
  /**
   * How long a delivery may wait for its first attempt: held by a pause, a hold, an open circuit. Counts from when
   * it could first be sent. Much longer than the other limit, because nothing has failed yet.
   */
  readonly expireUnattemptedAfterMs: number;
  readonly rules: StatusRules;
  /**
   * What Retry-After does to the backoff: `floor` waits for the longer of the two, `instead` for the
   * header alone where it comes with a 429 (with a 503 it is a floor, see transition.ts). Neither ever waits for
   * less than the header asks.
   */
  readonly retryAfter: "floor" | "instead";
};

/** For a policy that only its age limit ends. A number, and not Infinity, so that it survives JSON. */
export const unlimitedAttempts = Number.MAX_SAFE_INTEGER;

/**
 * When a delivery is given up, epoch ms: so long after its first attempt, or, while it has had none, so long after it
 * could first be sent.
 */
export function ageLimitOf(
  {
    giveUpAfterMs,
    expireUnattemptedAfterMs,
  }: Pick<RetryPolicy, "giveUpAfterMs" | "expireUnattemptedAfterMs">,
  firstAttemptAt: number | null | undefined,
  dueAt: number,
): number {
  return firstAttemptAt == null ? dueAt + expireUnattemptedAfterMs : firstAttemptAt + giveUpAfterMs;
}
