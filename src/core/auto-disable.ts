/**
 * When a destination is so sick that it is better to stop and tell somebody: it refuses everything, or nothing
 * has succeeded for days. Kept in the gate's state, so that watching costs no row; a success forgets it all.
 */
import type { AttemptMetric } from "./metrics.ts";

export type FailureStreak = Readonly<{
  /** Deliveries that it has refused for good since its last success. */
  refusals: number;
  /** Failed attempts since its last success, and when the first of them was made (epoch ms; 0: none). */
  failures: number;
  failingSince: number;
}>;

/** `rejecting`: too many refusals in a row. `failing`: too long without a success. */
export type DisableReason = "rejecting" | "failing";

export const noFailures: FailureStreak = { refusals: 0, failures: 0, failingSince: 0 };

/** A hundred may be one bad deployment's worth of bad events; more is the receiver's own fault. */
const TOLERATED_REFUSALS = 100;
const FAILING_MS = 5 * 24 * 60 * 60_000;
/** Two failures five days apart are no five days of failures. */
const FEW_FAILURES = 10;

/** The sickness after attempts that ended by `now`, in the order of their ends. */
export function failureStreakAfter(
  failureStreak: FailureStreak,
  metrics: readonly AttemptMetric[],
  now: number,
): FailureStreak {
  return metrics.reduce((state, metric) => afterOne(state, metric, now), failureStreak);
}

function afterOne(failureStreak: FailureStreak, { end, result }: AttemptMetric, now: number): FailureStreak {
  if (end === "delivered") return noFailures;
  const isRefusal = end === "dead" && (result === "3xx" || result === "4xx");
  return {
    refusals: failureStreak.refusals + (isRefusal ? 1 : 0),
    failures: failureStreak.failures + 1,
    failingSince: failureStreak.failingSince || now,
  };
}

/** What it is sick of, if it is sick. Asked after a failure: the passing of time alone proves nothing. */
export function disableReasonOf(failureStreak: FailureStreak, now: number): DisableReason | undefined {
  const { refusals, failures, failingSince } = failureStreak;
  if (refusals > TOLERATED_REFUSALS) return "rejecting";
  const isLong = failingSince > 0 && now - failingSince >= FAILING_MS;
  return isLong && failures > FEW_FAILURES ? "failing" : undefined;
}
