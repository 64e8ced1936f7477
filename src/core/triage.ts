/**
 * Triage: whether a delivery that a message or a drain names is to be attempted now. Its state in D1 decides who owns
 * it, so a message that is repeated, late or early does no harm.
 */
import type { CancelReason, DeadReason } from "./reasons.ts";

export type Readiness =
  | Readonly<{ kind: "due" }>
  /** Its time has not come. */
  | Readonly<{ kind: "early"; at: number }>
  /** It has ended, or another source owns it. */
  | Readonly<{ kind: "done" }>
  /** Its event gives no request: it waits. */
  | Readonly<{ kind: "faulty" }>
  /** It ends now, without an attempt. */
  | Readonly<{ kind: "over"; state: "dead"; reason: DeadReason }>
  | Readonly<{ kind: "over"; state: "cancelled"; reason: CancelReason }>;

export type DeliveryProgress = Readonly<{
  /** Undefined before the first outcome. */
  state: "waiting" | "in_flight" | "retrying" | "delivered" | "dead" | "cancelled" | undefined;
  /** In flight: until then its sender may be awaiting the response. */
  nextAttemptAt: number | null;
  giveUpAt: number;
  destinationDeleted: boolean;
  /** Whether the content of its event is gone. */
  erased: boolean;
}>;

/** The queue, or a drain: only a drain takes waiting deliveries. */
export type DeliverySource = "queue" | "drain";

export function readinessOf(progress: DeliveryProgress, source: DeliverySource, now: number): Readiness {
  switch (progress.state) {
    case "delivered":
    case "dead":
    case "cancelled":
      return { kind: "done" };
    case "waiting":
      return source === "drain" ? attemptable(progress, now) : { kind: "done" };
    case "in_flight":
    case "retrying":
      return source === "drain" ? { kind: "done" } : atItsTime(progress, now);
    case undefined:
      return atItsTime(progress, now);
  }
}

/**
 * With its destination deleted or its event erased, a retry ends before its time. A delivery in flight does not: only its
 * sender knows its end.
 */
function atItsTime(progress: DeliveryProgress, now: number): Readiness {
  const at = progress.nextAttemptAt ?? now;
  const isPointless = progress.destinationDeleted || progress.erased;
  const mayEnd = isPointless && progress.state !== "in_flight";
  return at > now && !mayEnd ? { kind: "early", at } : attemptable(progress, now);
}

function attemptable({ destinationDeleted, erased, giveUpAt }: DeliveryProgress, now: number): Readiness {
  if (destinationDeleted) return { kind: "over", state: "cancelled", reason: "destination_deleted" };
  if (erased) return { kind: "over", state: "cancelled", reason: "erased" };
  return now >= giveUpAt ? { kind: "over", state: "dead", reason: "expired" } : { kind: "due" };
}
