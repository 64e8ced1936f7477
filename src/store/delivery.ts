/** Deliveries as the store hands them out. */
import type { DeliveryKey } from "../core/bundle.ts";
import type { DeliveryReason } from "../core/reasons.ts";

/** The state of a delivery with a row or a bit. One with neither is `queued`: only its event's plan knows it. */
export type StoredState = "waiting" | "retrying" | "delivered" | "dead" | "cancelled";

/** One exchange in a delivery's log. */
export type AttemptEntry = Readonly<{
  at: number;
  latencyMs: number;
  status?: number;
  error?: string;
  note?: string;
  excerpt?: string;
  /**
   * The whole exchange was handed to the archive (core/archive.ts). A success has no other sign of it: a pack has no log.
   */
  archived?: true;
  /** The owner of the message that will retry the delivery, if it has one of its own: see DeliveryMessage. */
  owner?: string;
}>;

export type DeliveryRow = DeliveryKey &
  Readonly<{
    state: StoredState;
    reason: DeliveryReason | null;
    attempts: number;
    nextAttemptAt: number | null;
    generation: number;
    firstAttemptAt: number | null;
    giveUpAt: number;
    endedAt: number | null;
    lastStatus: number | null;
    lastError: string | null;
    replay: string | null;
    log: readonly AttemptEntry[];
  }>;

/**
 * A row to be written. `hasOwnLimit`: its event has a time to live, so its age limit is not that of the others in the
 * pack, and it waits in a row of its own. `hasLostSender`: it is stored as in flight, and its sender is lost. Without a
 * row of its own it would stay so, because a late write of a bit must not end what a sender has begun since.
 */
export type DeliveryRecord = DeliveryRow & Readonly<{ hasOwnLimit?: true; hasLostSender?: true }>;
