/**
 * Deliveries as the API and pages show them.
 *
 * A row has the reason for which its delivery waited when the wait began. The destination's gate knows the present
 * reason: it is called once for all deliveries of a page, and only when one of them waits.
 */
import { allows } from "../../core/portal-access.ts";
import type { Principal } from "../../core/principal.ts";
import type { AttemptError, Cause, DeliveryReason } from "../../core/reasons.ts";
import { ageLimitOf } from "../../core/retry/policy.ts";
import { faultText } from "../../core/transform/result.ts";
import { groupOf, sharedHostsOf } from "../../delivery/group.ts";
import { faultFor } from "../../delivery/transform.ts";
import { atGate } from "../../gate/client.ts";
import { deliveryId, deliveryKey, eventId } from "../../ids.ts";
import type { Services } from "../../services.ts";
import { dueAtOf, liveUntilOf } from "../../store/deliveries.ts";
import { type AttemptEntry, type DeliveryRow, entriesIn, storedStatus } from "../../store/delivery.ts";
import { overBy } from "../../store/delivery-filter.ts";
import type { FoundDelivery } from "../../store/delivery-list.ts";
import { type Destination, gateSettingsOf, retryPolicyOf } from "../../store/destination.ts";
import { aheadOf, type LineHead } from "../../store/lines.ts";
import { findDelivery, type StoredEvent } from "../../store/planned-deliveries.ts";
import { isoTime } from "../../time.ts";
import { type Caller, servicesAbout } from "../service.ts";
import type { DeliveryJson } from "./schema.ts";

/**
 * Whether the principal may see what was sent, and what was answered: a receiver may repeat in its answer what it was sent.
 */
export function seesContent({ visit }: Principal): boolean {
  return visit === undefined || allows(visit, "see_payload");
}

/** The delivery of the id as it is stored; undefined when there is none that the principal may see. */
export async function deliveryOf({ services, principal }: Caller, id: string) {
  const key = deliveryKey(id);
  return key && findDelivery(services, key, principal.tenant, overBy(services));
}

export const deliveryService = servicesAbout("delivery", deliveryOf);

/** The delivery with the reason why it waits now. */
export async function shownDelivery(caller: Caller, found: FoundDelivery): Promise<DeliveryJson> {
  const [shown] = await shownDeliveries(caller, [found]);
  return shown ?? storedDelivery(found, caller.services.now());
}

/** Gates called for one result: as many as a page of a list has deliveries. An event may have more destinations. */
const MAX_GATES = 100;

/** The deliveries in their order, each with the reason why it waits now. */
export async function shownDeliveries(
  { services, principal }: Caller,
  found: readonly FoundDelivery[],
): Promise<DeliveryJson[]> {
  const waiting = found.flatMap((one) =>
    one.kind === "stored" && one.row.state === "waiting" && one.destination ? [one.destination] : [],
  );
  const destinations = [...new Map(waiting.map((row) => [row.id, row])).values()].slice(0, MAX_GATES);
  const refusals = new Map(
    await Promise.all(
      destinations.map(async (row: Destination) => {
        const refusal = await atGate(services, row.id, "refusal", gateSettingsOf(row));
        return [row.id, refusal ?? undefined] as const;
      }),
    ),
  );
  const ordered = found.filter((one) => one.kind === "planned" && one.destination?.ordering);
  const ahead = ordered.length > 0 ? await aheadOf(services, ordered) : undefined;
  const now = services.now();
  const seesAnswers = seesContent(principal);
  // A principal that is bound to a tenant learns only that there is a shared limit.
  const isGrouped = principal.tenant === undefined && destinations.length > 0;
  const shared = isGrouped ? await sharedHostsOf(services) : [];
  const withGroup = (shown: DeliveryJson, { destination }: FoundDelivery): DeliveryJson => {
    const isGroup = shown.reason === "group" && principal.tenant === undefined && destination !== null;
    const group = isGroup ? groupOf(destination, shared) : undefined;
    return group === undefined ? shown : { ...shown, group };
  };
  return found.map((one) => {
    const first = ahead?.get(`${one.eventId} ${one.destinationId}`);
    const stored = storedDelivery(one, now, refusals.get(one.destinationId));
    const shown = { ...withGroup(stored, one), ...behind(first) };
    return seesAnswers ? shown : { ...shown, log: shown.log.map(({ response: _, ...entry }) => entry) };
  });
}

/** Why one that stands behind another in its line is not sent, and for which event it waits. */
function behind(first: LineHead | undefined): Pick<DeliveryJson, "reason" | "waits_for"> {
  return first ? { reason: first.isHeld ? "order_held" : "order", waits_for: eventId(first.head) } : {};
}

/** Why a gate does not admit its waiting deliveries now, and until when (epoch ms). */
type CurrentRefusal = Readonly<{ reason: DeliveryReason; until: number | null }>;

/**
 * A delivery as it is stored.
 * @param now epoch ms
 * @param refusal the gate's; without one a waiting delivery has the reason of its row
 */
export function storedDelivery(found: FoundDelivery, now: number, refusal?: CurrentRefusal): DeliveryJson {
  return {
    id: deliveryId(found.eventId, found.destinationId),
    event_id: eventId(found.eventId),
    destination_id: found.destinationId,
    ...(found.kind === "stored" ? progressOfRow(found.row, refusal) : progressOfPlan(found, now)),
  };
}

type Progress = Omit<DeliveryJson, "id" | "event_id" | "destination_id">;

type PlannedDelivery = Extract<FoundDelivery, { kind: "planned" }>;

/** A delivery without an outcome: queued, or cancelled when its destination is deleted. */
function progressOfPlan(found: PlannedDelivery, now: number): Progress {
  return { ...stateOfPlan(found, now), attempts: 0, give_up_at: isoTime(giveUpAtOf(found)), log: [] };
}

/** When the delivery is given up, epoch ms. */
export function giveUpAtOf(found: FoundDelivery): number {
  if (found.kind === "stored") return found.row.giveUpAt;
  const policy = retryPolicyOf(found.destination ?? { retry: null });
  return ageLimitOf(policy, null, dueAtOf(found), liveUntilOf(found));
}

function stateOfPlan({ destination, deliverAt }: PlannedDelivery, now: number) {
  if (destination === null || destination.deletedAt !== null) {
    return { state: "cancelled", reason: "destination_deleted" } as const;
  }
  if (deliverAt === null || deliverAt <= now) return { state: "queued" } as const;
  return { state: "queued", reason: "scheduled", waiting_until: isoTime(deliverAt) } as const;
}

function progressOfRow(row: DeliveryRow, refusal: CurrentRefusal | undefined): Progress {
  const { state, reason } = storedStatus(row);
  return {
    state,
    ...present({ reason }),
    ...present(row.state === "waiting" ? waitOf(row, refusal) : {}),
    attempts: row.attempts,
    ...present({ next_attempt_at: state === "retrying" ? isoTime(row.nextAttemptAt) : null }),
    give_up_at: isoTime(row.giveUpAt),
    ...present({ last_status: row.lastStatus, last_error: row.lastError as Cause | null }),
    ...present({ delivered_at: row.state === "delivered" ? isoTime(row.endedAt) : null }),
    log: entriesIn(row.log).map(attemptEntry),
  };
}

function waitOf(row: DeliveryRow, refusal: CurrentRefusal | undefined) {
  if (refusal && row.reason !== "transform_failed")
    return { reason: refusal.reason, waiting_until: isoTime(refusal.until) };
  return { reason: row.reason, waiting_until: isoTime(row.nextAttemptAt) };
}

function attemptEntry(entry: AttemptEntry): DeliveryJson["log"][number] {
  const { at, latencyMs, status, error, note, excerpt, archived } = entry;
  return {
    at: isoTime(at),
    ...present({ status }),
    latency_ms: latencyMs,
    ...present({ error: error as AttemptError | undefined, note, response: excerpt, archived }),
  };
}

/** Without the fields that are null or undefined. */
function present<T extends object>(fields: T): { [K in keyof T]?: NonNullable<T[K]> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value != null)) as {
    [K in keyof T]?: NonNullable<T[K]>;
  };
}

/** How many deliveries a page shows with the faults that they wait for: each costs further queries. */
export const FAULTS_SHOWN = 3;

/**
 * With the fault of the destination's transformation if that makes it wait: a template is applied again; a fault of
 * code is stored.
 */
export async function withFault(
  services: Services,
  event: StoredEvent,
  destination: FoundDelivery["destination"],
  shown: DeliveryJson,
): Promise<DeliveryJson> {
  const { body } = event;
  if (shown.reason !== "transform_failed" || destination === null || !body) return shown;
  const fault = await faultFor(services, { ...event, body }, destination);
  return fault ? { ...shown, transform_fault: faultText(fault) } : shown;
}
