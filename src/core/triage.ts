/**
 * What a delivery is ready for when a message or a drain brings it: the state in D1 says who owns it, so
 * that a second message, a late one or an early one does no harm.
 */
import type { CancelReason, DeadReason } from "./reasons.ts";

export type Readiness =
  /** It may be attempted now. */
  | Readonly<{ kind: "due" }>
  /** Its time has not come. */
  | Readonly<{ kind: "early"; at: number }>
  /** It has ended, or someone else will bring it. */
  | Readonly<{ kind: "done" }>
  /** It ends here, without an attempt. */
  | Readonly<{ kind: "over"; state: "dead" | "cancelled"; reason: DeadReason | CancelReason }>;

export type DeliveryProgress = Readonly<{
  /** Undefined before the first outcome. */
  state: "waiting" | "retrying" | "delivered" | "dead" | "cancelled" | undefined;
  nextAttemptAt: number | null;
  giveUpAt: number;
  destinationDeleted: boolean;
}>;

/** Who brings the delivery: the queue, or a drain, which is the only one to take what waits. */
export type DeliverySource = "queue" | "drain";

export function readinessOf(standing: DeliveryProgress, bringer: DeliverySource, now: number): Readiness {
  switch (standing.state) {
    case "delivered":
    case "dead":
    case "cancelled":
      return { kind: "done" };
    case "waiting":
      return bringer === "drain" ? attemptable(standing, now) : { kind: "done" };
    case "retrying":
      return bringer === "drain" ? { kind: "done" } : atItsTime(standing, now);
    case undefined:
      return atItsTime(standing, now);
  }
}

function atItsTime(standing: DeliveryProgress, now: number): Readiness {
  const at = standing.nextAttemptAt ?? now;
  return at > now && !standing.destinationDeleted ? { kind: "early", at } : attemptable(standing, now);
}

function attemptable({ destinationDeleted, giveUpAt }: DeliveryProgress, now: number): Readiness {
  if (destinationDeleted) return { kind: "over", state: "cancelled", reason: "destination_deleted" };
  return now >= giveUpAt ? { kind: "over", state: "dead", reason: "expired" } : { kind: "due" };
}
