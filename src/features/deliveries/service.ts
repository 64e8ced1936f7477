/**
 * Deliveries: listed, shown, sent again and cancelled.
 *
 * An attempt that is under way is never cancelled, because its outcome would be unknown: such a delivery is refused, or
 * left out. The destination's gate is asked first which deliveries these are, and is notified afterwards, so that no sender
 * continues with what it has read before.
 */

import type { z } from "zod";
import type { DeliveryKey } from "../../core/bundle.ts";
import { refuseTenant } from "../../core/principal.ts";
import { stateOfReason } from "../../core/reasons.ts";
import { conflict, invalidFields, missing, ok, type Result, unavailable } from "../../core/result.ts";
import { ageLimitOf } from "../../core/retry/policy.ts";
import { recheckAtGate, scheduleDrainAtGate } from "../../gate/client.ts";
import { rangeErrors } from "../../http/parameters.ts";
import { deliveryId } from "../../ids.ts";
import type { Services } from "../../services.ts";
import { cancelDelivery, cancelEach, waitingPage } from "../../store/cancellations.ts";
import { allOf } from "../../store/databases.ts";
import { requeueEnded } from "../../store/deliveries.ts";
import { deliveriesByEvent } from "../../store/deliveries-by-event.ts";
import { overBy } from "../../store/delivery-filter.ts";
import {
  type FoundDelivery,
  type MergedPage,
  type Positions,
  storedDeliveries,
} from "../../store/delivery-list.ts";
import {
  type Destination,
  destinationsByIds,
  findDestination,
  retryPolicyOf,
} from "../../store/destinations.ts";
import { type EventName, eventNames } from "../../store/events.ts";
import { queuedDeliveries, readEvent, type StoredEvent } from "../../store/planned-deliveries.ts";
import { acceptedBy, idRangeOf } from "../../store/time-ranges.ts";
import { type Call, service } from "../service.ts";
import type { DeliveryJson, deliveryQuery, WaitingPosition, waitingQuery } from "./schema.ts";
import { deliveryOf, giveUpAtOf, seesContent, shownDeliveries } from "./view.ts";

const reading = { scope: "read", action: "read" } as const;
const resending = { scope: "admin", action: "resend", role: "repair" } as const;
const cancelling = { scope: "admin", role: "repair" } as const;

// ── Lists ──

type DeliveryQuery = Partial<Omit<z.infer<typeof deliveryQuery>, "cursor">> &
  Readonly<{
    cursor?: Positions | undefined;
    /** In place of `destination_id`: a destination that has been read, so that its tenant needs no query. */
    destination?: Pick<Destination, "id" | "tenant"> | undefined;
    /** A channel that the event was posted with. */
    channel?: string | undefined;
    limit: number;
  }>;

/** A page of deliveries as they are stored: calls no gate. */
export const findDeliveries = service({ scope: "read" }, (call, query: DeliveryQuery) => pageOf(call, query));

/** A page of deliveries as they are shown. */
export const getDeliveries = service(reading, async (call, query: DeliveryQuery) => {
  const page = await pageOf(call, query);
  if (page.kind !== "ok") return page;
  const { found, next } = page.value;
  return ok({ deliveries: await shownDeliveries(call, found), next });
});

/** A delivery with what its event and its destination are called. */
export type LoggedDelivery = Readonly<{
  delivery: DeliveryJson;
  /** Undefined when the event was removed by hand. */
  event: EventName | undefined;
  /** Null when the destination's row was removed by hand. */
  destination: Destination | null;
}>;

/** Pages that the log looks through for one of its own: each within the ceilings of a page. */
const LOG_PAGES = 8;

/** How far a log has been looked through. Both are undefined before the first delivery. */
type LogPlace = Readonly<{
  /** Deliveries of events that were accepted later have been looked at, epoch ms; undefined: none yet, or all. */
  acceptedAt: number | undefined;
  /** In a log by destinations the one that has been reached: all behind it come later. */
  destination: Destination | undefined;
}>;

/** `withRange`: whether to say what has been looked through, which costs up to two queries a database. */
type LogQuery = DeliveryQuery & Readonly<{ withRange?: boolean }>;

/**
 * A page with the names of events and destinations. It continues from page to page, a bounded number of times, until there
 * is something to show: `looked` says from where to where, unless it has reached the end.
 */
export const getDeliveryLog = service(reading, async (call, { withRange = false, ...query }: LogQuery) => {
  let page = await pageOf(call, query);
  for (let pages = 1; pages < LOG_PAGES && page.kind === "ok"; pages++) {
    const { found, next } = page.value;
    if (found.length > 0 || next === undefined) break;
    page = await pageOf(call, { ...query, cursor: next });
  }
  if (page.kind !== "ok") return page;
  const { found, next } = page.value;
  const isOver = next === undefined || found.length === query.limit;
  const looked = isOver || !withRange ? undefined : await lookedThrough(call, query, next);
  const ids = found.map(({ eventId }) => eventId);
  const [shown, names] = await Promise.all([shownDeliveries(call, found), eventNames(call.services, ids)]);
  const entries = shown.map((delivery, i): LoggedDelivery => {
    const { eventId = 0, destination = null } = found[i] ?? {};
    return { delivery, event: names.get(eventId), destination };
  });
  return ok({ entries, next, looked });
});

/** From where to where a page has looked. */
export type LookedThrough = Readonly<{ from: LogPlace; to: LogPlace }>;

async function lookedThrough(
  { services }: Call,
  { cursor, order, tag, destination, destination_id }: DeliveryQuery,
  next: Positions,
): Promise<LookedThrough> {
  const isByDestination =
    order !== "event" && tag === undefined && (destination?.id ?? destination_id) === undefined;
  const [from, to] = await Promise.all(
    [cursor ?? [], next].map(async (positions): Promise<LogPlace> => {
      const furthest = positions.toSorted((a, b) => (a.destinationId < b.destinationId ? 1 : -1))[0];
      const [row] =
        isByDestination && furthest ? await destinationsByIds(services.db, [furthest.destinationId]) : [];
      const times = await Promise.all(
        positions.map((one, i) =>
          isByDestination && one.destinationId !== furthest?.destinationId
            ? undefined
            : acceptedBy(allOf(services)[i] ?? services.db, one.eventId),
        ),
      );
      const known = times.filter((time) => time !== undefined);
      return { acceptedAt: known.length === 0 ? undefined : Math.max(...known), destination: row };
    }),
  );
  const none = { acceptedAt: undefined, destination: undefined };
  return { from: from ?? none, to: to ?? none };
}

async function pageOf(
  { services, principal }: Call,
  { destination, cursor: before, since, until, order, state: asked, tag, ...query }: DeliveryQuery,
): Promise<Result<MergedPage, "forbidden" | "invalid">> {
  const errors = rangeErrors(since, until);
  if (errors.length > 0) return invalidFields(errors);
  const refusal = refuseTenant(principal, destination?.tenant) ?? refuseTenant(principal, query.tenant);
  if (refusal) return refusal;
  const tenant = destination ? undefined : (principal.tenant ?? query.tenant);
  const destinationId = destination?.id ?? query.destination_id;
  const accepted = since === undefined && until === undefined ? undefined : { since, until };
  const filter = { ...query, destinationId, tenant, accepted, before, over: overBy(services) };
  // Indexes lead to a state, and a reason to a state.
  const state = asked ?? (query.reason === undefined ? undefined : stateOfReason(query.reason));
  if (tag !== undefined) {
    const owner = destination?.tenant ?? tenant ?? (await ownerOf(services, destinationId));
    if (owner === undefined) return invalidFields([tagWithoutTenant(tag)]);
    return ok(await deliveriesByEvent(services, { tenant: owner, tag, state }, filter));
  }
  if (order === "event") return ok(await deliveriesByEvent(services, { tenant, state }, filter));
  if (state !== "queued") return ok(await storedDeliveries(services, state, filter));
  // A queued delivery has neither an attempt nor a stored reason.
  const matchesNone = filter.status !== undefined || filter.reason !== undefined;
  return ok(matchesNone ? { found: [], next: undefined } : await queuedDeliveries(services, filter));
}

/** The tenant of a destination, deleted or not; an id that names none has a tenant without events. */
async function ownerOf({ db }: Services, destination: string | undefined): Promise<string | undefined> {
  if (destination === undefined) return undefined;
  const [row] = await destinationsByIds(db, [destination]);
  return row?.tenant ?? "";
}

function tagWithoutTenant(tag: string) {
  const fault = `is ${JSON.stringify(tag)}, and no tenant is named`;
  return { field: "tag", fault, expected: "tenant or destination_id beside it: tags belong to tenants" };
}

/** Where a page begins, as its cursor has it. */
export function placesOf(positions: Positions): unknown {
  const places = positions.map(({ destinationId, eventId }) => [destinationId, eventId]);
  return places.length === 1 ? places[0] : places;
}

// ── One delivery ──

/** A delivery as it is stored: calls no gate. */
export const findOneDelivery = service({ scope: "read" }, async (call, id: string) => {
  const found = await deliveryOf(call, id);
  return found ? ok(found) : missing("delivery", id);
});

export const getDelivery = service(reading, async (call, id: string) => {
  const found = await deliveryOf(call, id);
  const [shown] = await shownDeliveries(call, found ? [found] : []);
  return shown ? ok(shown) : missing("delivery", id);
});

/** A delivery with its event and its destination. */
export type DeliveryInFull = Readonly<{
  delivery: DeliveryJson;
  /** Without its body where the principal may not see what is sent. */
  event: StoredEvent;
  /** Undefined when it was deleted. */
  destination: Destination | undefined;
}>;

export const getDeliveryInFull = service(reading, async (call, id: string) => {
  const { services, principal } = call;
  const found = await deliveryOf(call, id);
  const [delivery] = await shownDeliveries(call, found ? [found] : []);
  const read = found && (await readEvent(services, found.eventId, principal.tenant));
  if (!delivery || !read) return missing("delivery", id);
  const event = seesContent(principal) ? read.event : { ...read.event, body: null };
  const destination = found.destination?.deletedAt === null ? found.destination : undefined;
  return ok<DeliveryInFull>({ delivery, event, destination });
});

// ── Sending again ──

/** What became of the request to send one delivery again. */
export type Retried = Readonly<{ id: string; result: Result<DeliveryJson, "not_found" | "conflict"> }>;

/** Requeues each of the deliveries that has ended. The results are in the order of the ids, each id once. */
export const retryDeliveries = service(resending, async (call, ids: readonly string[]) =>
  ok(await retried(call, [...new Set(ids)])),
);

/** Requeues a delivery that has ended: it waits for its turn, like a new one. */
export const retryDelivery = service(resending, async (call, id: string) => {
  const [only] = await retried(call, [id]);
  return only?.result ?? missing("delivery", id);
});

const UNDER_WAY = "The delivery has not ended: it is attempted again without a request";

async function retried(call: Call, ids: readonly string[]): Promise<readonly Retried[]> {
  const found = await Promise.all(ids.map((id) => deliveryOf(call, id)));
  const refusals = found.map((one) => one && whyNotRetried(one));
  const requeued = await requeue(
    call,
    found.flatMap((one, i) => (one && refusals[i] === undefined ? [one] : [])),
  );
  const shown = new Map((await shownDeliveries(call, requeued)).map((one) => [one.id, one]));
  return ids.map((id, i) => {
    if (found[i] === undefined) return { id, result: missing("delivery", id) };
    const delivery = shown.get(id);
    // It had ended when it was read, and no longer has: another request has requeued it.
    return { id, result: delivery ? ok(delivery) : conflict(refusals[i] ?? UNDER_WAY) };
  });
}

/** Why this delivery cannot be sent again; undefined when it can. */
function whyNotRetried(found: FoundDelivery): string | undefined {
  if (found.isErased) return "The event's content has been erased: there is nothing to send";
  if (!found.destination || found.destination.deletedAt !== null)
    return "The delivery's destination is deleted: there is nowhere to send it";
  if (found.kind !== "stored" || found.row.state === "waiting" || found.row.state === "retrying")
    return UNDER_WAY;
  return found.row.reason === "event_removed" ? "The delivery's event was removed by hand" : undefined;
}

const nameOf = ({ eventId, destinationId }: DeliveryKey) => deliveryId(eventId, destinationId);

/** Requeues the deliveries that have still ended; returns those. */
async function requeue(
  { services, changed }: Call,
  found: readonly FoundDelivery[],
): Promise<readonly FoundDelivery[]> {
  const ended = found.flatMap((one) => {
    if (one.kind !== "stored") return [];
    const policy = retryPolicyOf(one.destination ?? { retry: null });
    return [{ ...one.row, giveUpAt: ageLimitOf(policy, null, services.now()) }];
  });
  const rows = ended.length === 0 ? [] : await requeueEnded(services, ended);
  const byName = new Map(rows.map((row) => [nameOf(row), row]));
  // Should this fail: the sweep schedules a drain for whatever waits.
  for (const destination of new Set(rows.map(({ destinationId }) => destinationId)))
    services.background(scheduleDrainAtGate(services, destination));
  return found.flatMap((one): FoundDelivery[] => {
    const [id, row] = [nameOf(one), byName.get(nameOf(one))];
    if (row === undefined) return [];
    services.log({ what: "delivery_retried", delivery: id, destination: one.destinationId });
    changed("delivery.retried", { id, tenant: one.destination?.tenant ?? null });
    return [{ ...one, kind: "stored", row }];
  });
}

// ── Cancelling ──

const GATE_UNREACHABLE = unavailable("The destination's gate cannot be reached at the moment");
const IN_FLIGHT = "An attempt of the delivery is under way. Repeat the request when it has failed";

/** Cancels a delivery that has not ended. One that is cancelled already stays as it is. */
export const cancelOneDelivery = service(cancelling, async (call, id: string) => {
  const found = await deliveryOf(call, id);
  if (!found) return missing("delivery", id);
  const cancelled = isCancelled(found) ? ok(found) : await cancel(call, found);
  if (cancelled.kind !== "ok") return cancelled;
  const [shown] = await shownDeliveries(call, [cancelled.value]);
  return shown ? ok(shown) : missing("delivery", id);
});

function isCancelled(found: FoundDelivery): boolean {
  if (found.kind === "stored") return found.row.state === "cancelled";
  return found.destination === null || found.destination.deletedAt !== null;
}

async function cancel(
  { services, changed }: Call,
  found: FoundDelivery,
): Promise<Result<FoundDelivery, "conflict" | "unavailable">> {
  const { eventId, destinationId, destination } = found;
  if (found.kind === "stored") {
    const { state, reason } = found.row;
    if (state === "delivered" || state === "dead") return conflict(`The delivery has ended: it is ${state}`);
    if (reason === "in_flight") return conflict(IN_FLIGHT);
  }
  const inFlight = await recheckAtGate(services, destinationId, [eventId]);
  if (inFlight === undefined) return GATE_UNREACHABLE;
  if (inFlight.includes(eventId)) return conflict(IN_FLIGHT);
  const row = await cancelDelivery(services, found, giveUpAtOf(found), services.now());
  if (row === undefined)
    return conflict("The delivery has just ended, or an attempt of it has begun: look at it again");
  await recheckAtGate(services, destinationId, [eventId]);
  const id = deliveryId(eventId, destinationId);
  services.log({ what: "delivery_cancelled", delivery: id, destination: destinationId });
  changed("delivery.cancelled", { id, tenant: destination?.tenant ?? null });
  return ok({ ...found, kind: "stored", row });
}

/** Pages of one call: each has up to 500 rows and 20 packs, which hold 100 deliveries at most. */
const PAGES = 4;

type WaitingOf = z.infer<typeof waitingQuery> & Readonly<{ destination: string }>;

/** `next` is where the next call continues; undefined when nothing is left. */
type CancelledPart = Readonly<{ cancelled: number; in_flight: number; next: WaitingPosition | undefined }>;

/**
 * Cancels deliveries that wait for a destination, a few thousand at most. Each page is read, compared with the gate and
 * cancelled by itself.
 */
export const cancelWaiting = service(cancelling, async (call, { destination: id, ...query }: WaitingOf) => {
  const { services, principal, changed } = call;
  const errors = rangeErrors(query.since, query.until);
  if (errors.length > 0) return invalidFields(errors);
  const destination = await findDestination(services.db, id, principal.tenant);
  if (destination === undefined) return missing("destination", id);
  const part = await cancelPart(services, id, query);
  if (part === undefined) return GATE_UNREACHABLE;
  const { next: _, ...counts } = part;
  if (counts.cancelled > 0) changed("deliveries.cancelled", destination);
  services.log({ what: "waiting_cancelled", destination: id, ...counts });
  return ok(part);
});

/** Undefined when the gate cannot be reached, and nothing has been cancelled. */
async function cancelPart(
  services: Services,
  destination: string,
  { since, until, event_types: eventTypes, cursor }: z.infer<typeof waitingQuery>,
): Promise<CancelledPart | undefined> {
  const all = allOf(services);
  const filter = { since, until, eventTypes };
  let next: WaitingPosition | undefined = cursor ?? [0, 0];
  let [cancelled, in_flight] = [0, 0];
  for (let pages = 0; pages < PAGES && next !== undefined; pages++) {
    const [at, after]: WaitingPosition = next;
    const db = all[at];
    if (db === undefined) return { cancelled, in_flight, next: undefined };
    const { first, last } = await idRangeOf(db, filter);
    const page = await waitingPage(db, destination, { after: Math.max(after, first - 1), last }, filter);
    if (page.events.length > 0) {
      const inFlight = await recheckAtGate(services, destination, page.events);
      if (inFlight === undefined) return cancelled > 0 ? { cancelled, in_flight, next } : undefined;
      const busy = new Set(inFlight);
      const open = page.events.filter((one) => !busy.has(one));
      cancelled += await cancelEach(db, destination, open, services.now());
      in_flight += busy.size;
      await recheckAtGate(services, destination, open);
    }
    next = page.upto !== undefined ? [at, page.upto] : at + 1 < all.length ? [at + 1, 0] : undefined;
  }
  return { cancelled, in_flight, next };
}
