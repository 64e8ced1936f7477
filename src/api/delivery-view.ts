/**
 * What is shown of a delivery: where it stands, why, and until when. Every page that shows one uses this.
 */
import { deliveryId, eventId } from "../id.ts";
import { isoTime } from "../iso-time.ts";
import { ageLimitOf } from "../policy/retry-policy.ts";
import type { FoundDelivery } from "../store/deliveries-read.ts";
import { retryPolicyOf } from "../store/destination-settings.ts";
import type { AttemptEntry, DeliveryRow } from "../store/schema.ts";
import { dueAtOf } from "../store/work.ts";
import type { DeliveryJson } from "./delivery-schema.ts";

/** Why a gate keeps its destination's deliveries waiting at this moment, and until when (epoch ms). */
export type Outlook = Readonly<{ reason: string; until: number | null }>;

/**
 * `outlook` is that of the delivery's gate; without one a waiting delivery says what its row remembers.
 * @param now epoch ms
 */
export function deliveryView(found: FoundDelivery, now: number, outlook?: Outlook): DeliveryJson {
  const names = {
    id: deliveryId(found.eventId, found.destinationId),
    event_id: eventId(found.eventId),
    destination_id: found.destinationId,
  };
  return {
    ...names,
    ...(found.kind === "stored" ? storedView(found.row, outlook) : plannedView(found, now)),
  };
}

type Standing = Omit<DeliveryJson, "id" | "event_id" | "destination_id">;

type Planned = Extract<FoundDelivery, { kind: "planned" }>;

/** No outcome yet: on its way, or not any more when its destination is gone. */
function plannedView(found: Planned, now: number): Standing {
  const policy = retryPolicyOf(found.destination ?? { retry: null });
  return {
    ...plannedState(found, now),
    attempts: 0,
    give_up_at: isoTime(ageLimitOf(policy, null, dueAtOf(found))),
    log: [],
  };
}

function plannedState({ destination, deliverAt }: Planned, now: number) {
  if (destination === null || destination.deletedAt !== null) {
    return { state: "cancelled", reason: "destination_deleted" } as const;
  }
  if (deliverAt === null || deliverAt <= now) return { state: "queued" } as const;
  return { state: "queued", reason: "scheduled", waiting_until: isoTime(deliverAt) } as const;
}

function storedView(row: DeliveryRow, outlook: Outlook | undefined): Standing {
  return {
    state: row.state,
    ...present({ reason: row.reason }),
    ...present(row.state === "waiting" ? waitingUntil(row, outlook) : {}),
    attempts: row.attempts,
    ...present({ next_attempt_at: row.state === "retrying" ? isoTime(row.nextAttemptAt) : null }),
    give_up_at: isoTime(row.giveUpAt),
    ...present({ last_status: row.lastStatus, last_error: row.lastError }),
    ...present({ delivered_at: row.state === "delivered" ? isoTime(row.endedAt) : null }),
    log: row.log.map(attemptView),
  };
}

/** The gate knows better than the row, which was written when the delivery began to wait. */
function waitingUntil(row: DeliveryRow, outlook: Outlook | undefined) {
  const { reason, until } = outlook ?? { reason: row.reason, until: row.nextAttemptAt };
  return { reason: reason, waiting_until: isoTime(until) };
}

function attemptView({
  at,
  latencyMs,
  status,
  error,
  note,
  excerpt,
}: AttemptEntry): DeliveryJson["log"][number] {
  return {
    at: isoTime(at),
    ...present({ status }),
    latency_ms: latencyMs,
    ...present({ error, note, response: excerpt }),
  };
}

/** Without the fields that are null or undefined. */
function present<T extends object>(fields: T): { [K in keyof T]?: NonNullable<T[K]> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value != null)) as {
    [K in keyof T]?: NonNullable<T[K]>;
  };
}
