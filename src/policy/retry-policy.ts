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
  /** The age at which a delivery is given up, however many attempts are left. */
  readonly giveUpAfterMs: number;
  readonly rules: StatusRules;
  /**
   * What Retry-After does to the backoff: `floor` waits for the longer of the two, `instead` for the
   * header alone. Neither ever waits for less than the header asks.
   */
  readonly retryAfter: "floor" | "instead";
};

/** For a policy that only its age limit ends. A number, and not Infinity, so that it survives JSON. */
export const unlimitedAttempts = Number.MAX_SAFE_INTEGER;
