/**
 * Auto-disable: a destination that rejects everything, or has not succeeded for days, is paused and its owner notified.
 * The failure streak is part of the gate's state, so that counting costs no row. A success resets it.
 */
import type { AttemptMetric } from "./metrics.ts";
import type { DisableReason } from "./reasons.ts";

export type { DisableReason } from "./reasons.ts";

export type FailureStreak = Readonly<{
  /** Deliveries that it has rejected for good since its last success. */
  refusals: number;
  /** Failed attempts since its last success, and when the first of them was made (epoch ms; 0: none). */
  failures: number;
  failingSince: number;
}>;

export const noFailures: FailureStreak = { refusals: 0, failures: 0, failingSince: 0 };

/** A hundred may be the bad events of one deployment; more is the receiver's fault. */
const TOLERATED_REFUSALS = 100;
const FAILING_MS = 5 * 24 * 60 * 60_000;
/** Two failures five days apart are not five days of failures. */
const FEW_FAILURES = 10;

/** The streak after attempts that ended by `now`, in the order of their ends. */
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

/** The reason to pause it, if there is one. To be called after a failure: the passage of time alone proves nothing. */
export function disableReasonOf(failureStreak: FailureStreak, now: number): DisableReason | undefined {
  const { refusals, failures, failingSince } = failureStreak;
  if (refusals > TOLERATED_REFUSALS) return "rejecting";
  const isLong = now - failingSince >= FAILING_MS;
  return isLong && failures > FEW_FAILURES ? "failing" : undefined;
}
