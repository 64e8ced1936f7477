/**
 * Sends deliveries again, or cancels them: one, selected ones, all that a filter finds, or the waiting ones of a
 * destination.
 *
 * An attempt that is under way is never cancelled, because its outcome would be unknown: such a delivery is refused, or
 * left out. A repair first queries the destination's gate for these, and notifies it afterwards, so that no sender
 * continues with outdated data.
 */
import type { z } from "zod";
import type { DeliveryKey } from "../../core/bundle.ts";
import type { Refusal } from "../../core/reasons.ts";
import { conflict, invalidField, invalidFields, missing, ok, type Result } from "../../core/result.ts";
import { ageLimitOf } from "../../core/retry/policy.ts";
import { attemptWaiting } from "../../delivery/message-group.ts";
import { atGate } from "../../gate/client.ts";
import { deliveryId } from "../../ids.ts";
import type { Services } from "../../services.ts";
import {
  behindPage,
  cancelBehind,
  cancelDeliveries,
  cancelEach,
  type WaitingFilter,
  waitingPage,
} from "../../store/cancellations.ts";
import { allOf } from "../../store/databases.ts";
import { isOpen } from "../../store/delivery.ts";
import type { FoundDelivery, Positions } from "../../store/delivery-list.ts";
import { gateSettingsOf, retryPolicyOf } from "../../store/destination.ts";
import { findDestination } from "../../store/destinations.ts";
import { eventNames } from "../../store/events.ts";
import { heldAmong } from "../../store/lines.ts";
import { hastenRetries, requeueEnded } from "../../store/requeue.ts";
import { idRangeOf } from "../../store/time-ranges.ts";
import { isoTime } from "../../time.ts";
import { GATE_UNREACHABLE } from "../destinations/one.ts";
import { rangeErrors } from "../parameters.ts";
import { type Call, service } from "../service.ts";
import {
  type DeliveryJson,
  MOST_IDS,
  type RepairAction,
  type WaitingPosition,
  type waitingQuery,
} from "./schema.ts";
import { type DeliveryQuery, nextDeliveries } from "./service.ts";
import { deliveryOf, deliveryService, giveUpAtOf, shownDeliveries, shownDelivery } from "./view.ts";

const resending = { scope: "admin", action: "resend", role: "repair" } as const;
const repairing = { scope: "admin", role: "repair" } as const;

// ── Several at once ──

type Chosen =
  | Readonly<{ kind: "selected"; ids: readonly string[] }>
  /** A page of at most `query.limit`, from its cursor on. */
  | Readonly<{ kind: "found"; query: DeliveryQuery }>;

type Repair = Readonly<{ action: RepairAction; chosen: Chosen }>;

/** `next`: where the next call continues; undefined when nothing is left. */
export type Repaired = Readonly<{
  done: number;
  skipped: readonly Readonly<{ why: string; count: number }>[];
  next: Positions | undefined;
}>;

/**
 * Sends deliveries again, or cancels them, each separately; those for which it is impossible are counted by the reason. A
 * call takes as many as a page of a list has; one by a filter skips a bounded number of empty pages.
 */
export const repairDeliveries = service(repairing, async (call, { action, chosen }: Repair) => {
  if (chosen.kind === "selected" && chosen.ids.length > MOST_IDS)
    return invalidField("delivery", `has ${chosen.ids.length} deliveries`, `at most ${MOST_IDS}`);
  const page =
    chosen.kind === "selected" ? await selected(call, chosen.ids) : await found(call, chosen.query);
  if (page.kind !== "ok") return page;
  const { all, unknown, next } = page.value;
  const results = action === "retry" ? await retriedOrTried(call, all) : await cancelled(call, all);
  const refused = results.flatMap((one) => (one.kind === "ok" ? [] : [one.detail]));
  const why = [...refused, ...Array.from({ length: unknown }, () => UNKNOWN)];
  return ok<Repaired>({ done: results.length - refused.length, skipped: countedBy(why), next });
});

function countedBy(reasons: readonly string[]): Repaired["skipped"] {
  return [...Map.groupBy(reasons, (one) => one)].map(([why, { length: count }]) => ({ why, count }));
}

/**
 * The result that `repairDeliveries` would have for a page of a filter's deliveries, by their stored state: `done`
 * counts those for which it is possible. Calls no gate, which may refuse some of them.
 */
export const previewRepair = service(
  repairing,
  async (call, { action, query }: Readonly<{ action: RepairAction; query: DeliveryQuery }>) => {
    const page = await found(call, query);
    if (page.kind !== "ok") return page;
    const { all, next } = page.value;
    const held = action === "cancel" ? await heldOf(call, all) : new Set<string>();
    const why = all.flatMap((one) => {
      if (action === "retry") return isRetrying(one) ? [] : (whyNotRetried(one)?.detail ?? []);
      const before = beforeCancelling(one, held);
      return before === undefined ? [] : before.kind === "ok" ? [CANCELLED_BEFORE] : [before.detail];
    });
    return ok<Repaired>({ done: all.length - why.length, skipped: countedBy(why), next });
  },
);

const CANCELLED_BEFORE = "The delivery is cancelled already";

const UNKNOWN = "There is no such delivery";

type RepairPage = Readonly<{ all: readonly FoundDelivery[]; unknown: number; next: Positions | undefined }>;

async function selected(call: Call, given: readonly string[]): Promise<Result<RepairPage, never>> {
  const ids = [...new Set(given)];
  const found = await Promise.all(ids.map((id) => deliveryOf(call, id)));
  const all = found.filter((one) => one !== undefined);
  return ok({ all, unknown: ids.length - all.length, next: undefined });
}

async function found(call: Call, query: DeliveryQuery): Promise<Result<RepairPage, "forbidden" | "invalid">> {
  const page = await nextDeliveries(call, query);
  if (page.kind !== "ok") return page;
  const { found, next } = page.value;
  const names = await eventNames(call.services, eventsOf(found));
  const all = found.map((one) => ({ ...one, isErased: names.get(one.eventId)?.isErased ?? false }));
  return ok({ all, unknown: 0, next });
}

// ── Sending again ──

/** The result of the request to send one delivery again. */
export type Retried = Readonly<{ id: string; result: Result<DeliveryJson, "not_found" | "conflict"> }>;

/** Requeues each of the deliveries that has ended. The results are in the order of the ids, each id once. */
export const retryDeliveries = service(resending, async (call, ids: readonly string[]) =>
  ok(await retriedByIds(call, [...new Set(ids)])),
);

/** Requeues a delivery that has ended: it is attempted with live traffic, like a new one. */
export const retryDelivery = service(resending, async (call, id: string) => {
  const [only] = await retriedByIds(call, [id]);
  return only?.result ?? missing("delivery", id);
});

async function retriedByIds(call: Call, ids: readonly string[]): Promise<readonly Retried[]> {
  const found = await Promise.all(ids.map((id) => deliveryOf(call, id)));
  const known = found.filter((one) => one !== undefined);
  const results = await retried(call, known);
  const requeued = results.flatMap((one) => (one.kind === "ok" ? [one.value] : []));
  const shown = new Map((await shownDeliveries(call, requeued)).map((one) => [one.id, one]));
  let place = 0;
  return ids.map((id, i) => {
    const result = found[i] && results[place++];
    if (result === undefined) return { id, result: missing("delivery", id) };
    const delivery = shown.get(id);
    return { id, result: result.kind === "ok" ? (delivery ? ok(delivery) : UNDER_WAY) : result };
  });
}

const UNDER_WAY = conflict("The delivery has not ended: it is attempted again without a request");

/** The deliveries as they are then, in their order. */
async function retried(
  call: Call,
  all: readonly FoundDelivery[],
): Promise<readonly Result<FoundDelivery, "conflict">[]> {
  const refusals = all.map(whyNotRetried);
  const ended = all.filter((_, i) => refusals[i] === undefined);
  const after = byId(await requeue(call, ended));
  return all.map((one, i) => {
    const delivery = after.get(nameOf(one));
    // It had ended when it was read, and no longer has: another request has requeued it.
    return delivery ? ok(delivery) : (refusals[i] ?? UNDER_WAY);
  });
}

/** The same, but those that are to be retried later are attempted now. */
async function retriedOrTried(call: Call, all: readonly FoundDelivery[]) {
  const [later, others] = [all.filter(isRetrying), all.filter((one) => !isRetrying(one))];
  return [...(await triedNow(call, later)), ...(await retried(call, others))];
}

/** Whether it is to be retried later. */
function isRetrying(one: FoundDelivery): boolean {
  return one.kind === "stored" && one.row.state === "retrying";
}

/** Why this delivery cannot be sent again; undefined when it can. */
function whyNotRetried(found: FoundDelivery): ReturnType<typeof conflict> | undefined {
  if (found.isErased) return conflict("The event's content has been erased: there is nothing to send");
  if (!found.destination || found.destination.deletedAt !== null)
    return conflict("The delivery's destination is deleted: there is nowhere to send it");
  if (found.kind !== "stored" || isOpen(found.row)) return UNDER_WAY;
  if (found.row.reason !== "event_removed") return undefined;
  return conflict("The delivery's event was removed by hand");
}

const nameOf = ({ eventId, destinationId }: DeliveryKey) => deliveryId(eventId, destinationId);

/** Looks deliveries up by their ids. */
function byId<T extends DeliveryKey>(deliveries: readonly T[]): ReadonlyMap<string, T> {
  return new Map(deliveries.map((one) => [nameOf(one), one]));
}

/** Requeues the deliveries that have still ended; returns those. */
async function requeue({ services, changed }: Call, found: readonly FoundDelivery[]) {
  const ended = found.flatMap((one) => {
    if (one.kind !== "stored") return [];
    const policy = retryPolicyOf(one.destination ?? { retry: null });
    return [{ ...one.row, giveUpAt: ageLimitOf(policy, null, services.now()) }];
  });
  const rows = ended.length === 0 ? [] : await requeueEnded(services, ended);
  const after = byId(rows);
  // If this fails, the sweep schedules a drain for the waiting deliveries.
  services.background(attemptWaiting(services, rows));
  return found.flatMap((one): FoundDelivery[] => {
    const id = nameOf(one);
    const row = after.get(id);
    if (row === undefined) return [];
    services.log({ what: "delivery_retried", delivery: id, destination: one.destinationId });
    changed("delivery.retried", { id, tenant: one.destination?.tenant ?? null });
    return [{ ...one, kind: "stored", row }];
  });
}

// ── Trying now ──

/** `isProbe`: whether its attempt decides if the circuit closes. */
type Tried = Readonly<{ found: FoundDelivery; isProbe: boolean }>;

/**
 * Has a delivery that waits, or is to be retried later, attempted now, with live traffic. The attempt counts as one of
 * its attempts. A conflict while the destination's gate admits none; it names the time until then.
 */
export const tryDeliveryNow = deliveryService(repairing, async (call, found, id) => {
  const [tried] = await triedNow(call, [found]);
  if (tried?.kind !== "ok") return tried ?? missing("delivery", id);
  const { isProbe } = tried.value;
  return ok({ delivery: await shownDelivery(call, tried.value.found), isProbe });
});

type TriedResult = Result<Tried, "conflict" | "unavailable">;

/** In the order of their destinations. */
async function triedNow(call: Call, all: readonly FoundDelivery[]): Promise<readonly TriedResult[]> {
  const byDestination = [...Map.groupBy(all, ({ destinationId }) => destinationId)];
  return (await Promise.all(byDestination.map(([id, group]) => triedAt(call, id, group)))).flat();
}

const NOT_OPEN = conflict(
  "The delivery is neither waiting nor to be retried: there is no attempt to make now",
);

async function triedAt(
  { services, changed }: Call,
  destinationId: string,
  group: readonly FoundDelivery[],
): Promise<readonly TriedResult[]> {
  const destination = group[0]?.destination;
  const open = group.filter((one) => one.kind === "stored" && isOpen(one.row));
  const none = group.filter((one) => !open.includes(one)).map(() => NOT_OPEN);
  if (open.length === 0 || !destination || destination.deletedAt !== null)
    return [...none, ...open.map(() => NOT_OPEN)];
  const view = await atGate(services, destinationId, "view", gateSettingsOf(destination));
  const inFlight = view && (await atGate(services, destinationId, "recheck", eventsOf(open)));
  if (inFlight === undefined) return [...none, ...open.map(() => GATE_UNREACHABLE)];
  const refusal = view?.refusal;
  if (refusal) return [...none, ...open.map(() => refusedAtGate(refusal, services.now()))];
  const isBusy = ({ eventId }: FoundDelivery) => inFlight.includes(eventId);
  const later = open.filter((one) => isRetrying(one) && !isBusy(one));
  const after = byId(await hastenRetries(services, later));
  const due = open.filter((one) => !isBusy(one) && (!isRetrying(one) || after.has(nameOf(one))));
  await attemptWaiting(services, due);
  const isProbe = view?.circuit !== "closed";
  const results = open.map((one): TriedResult => {
    const row = after.get(nameOf(one));
    if (isBusy(one) || (one.kind === "stored" && one.row.state === "in_flight")) return IN_FLIGHT;
    if (isRetrying(one) && row === undefined) return JUST_ENDED;
    changed("delivery.retried", { id: nameOf(one), tenant: destination.tenant });
    return ok({ found: row ? { ...one, kind: "stored", row } : one, isProbe });
  });
  return [...none, ...results];
}

/** The gate's refusal with its reason and its end. */
function refusedAtGate({ reason, until }: Refusal, now: number) {
  const end = until === null ? "until this is changed" : `until ${isoTime(until)}`;
  const why = `Its destination admits no attempt now (${reason.replaceAll("_", " ")}), ${end}`;
  const retryAfterS = until === null ? undefined : Math.max(1, Math.ceil((until - now) / 1000));
  return { ...conflict(why), ...(retryAfterS !== undefined && { retryAfterS }) };
}

// ── Cancelling ──

const IN_FLIGHT = conflict("An attempt of the delivery is under way. Repeat the request when it has failed");
const JUST_ENDED = conflict("The delivery has just ended, or an attempt of it has begun: read it again");

/** Cancels a delivery that has not ended. One that is cancelled already stays as it is. */
export const cancelOneDelivery = deliveryService(repairing, async (call, found, id) => {
  const [result] = await cancelled(call, [found]);
  return result?.kind === "ok"
    ? ok(await shownDelivery(call, result.value))
    : (result ?? missing("delivery", id));
});

type Cancelled = Result<FoundDelivery, "conflict" | "unavailable">;

/** The deliveries as they are then, in their order. */
async function cancelled(call: Call, all: readonly FoundDelivery[]): Promise<readonly Cancelled[]> {
  const { services, changed } = call;
  const held = await heldOf(call, all);
  const results = new Map(all.map((one) => [one, beforeCancelling(one, held)]));
  const open = all.filter((one) => results.get(one) === undefined);
  const byDestination = [...Map.groupBy(open, ({ destinationId }) => destinationId)];
  await Promise.all(
    byDestination.map(async ([destination, group]) => {
      const inFlight = await atGate(services, destination, "recheck", eventsOf(group));
      for (const one of group) {
        if (inFlight === undefined) results.set(one, GATE_UNREACHABLE);
        else if (inFlight.includes(one.eventId)) results.set(one, IN_FLIGHT);
      }
    }),
  );
  const ending = open
    .filter((one) => results.get(one) === undefined)
    .map((one) => ({ ...one, giveUpAt: giveUpAtOf(one) }));
  const rows = await cancelDeliveries(services, ending, services.now());
  const after = byId(rows);
  const byGate = Map.groupBy(rows, ({ destinationId }) => destinationId);
  await Promise.all([...byGate].map(([id, group]) => atGate(services, id, "recheck", eventsOf(group))));
  const ordered = open
    .filter(({ destination }) => destination?.ordering)
    .map(({ destinationId }) => destinationId);
  // The next of their keys waits then.
  for (const id of new Set(ordered)) services.background(atGate(services, id, "scheduleDrain"));
  return all.map((one): Cancelled => {
    const before = results.get(one);
    if (before !== undefined) return before;
    const id = nameOf(one);
    const row = after.get(id);
    if (row === undefined) return JUST_ENDED;
    services.log({ what: "delivery_cancelled", delivery: id, destination: one.destinationId });
    changed("delivery.cancelled", { id, tenant: one.destination?.tenant ?? null });
    return ok({ ...one, kind: "stored", row });
  });
}

const eventsOf = (keys: readonly DeliveryKey[]) => keys.map(({ eventId }) => eventId);

/** The ids of dead deliveries that hold their keys. */
async function heldOf({ services }: Call, all: readonly FoundDelivery[]): Promise<ReadonlySet<string>> {
  const dead = all.filter((one) => one.kind === "stored" && one.row.state === "dead");
  return new Set(dead.length > 0 ? (await heldAmong(services, dead)).map(nameOf) : []);
}

/**
 * The result if nothing is to be done, or may be.
 * @param held ids of dead ones that hold their keys
 */
function beforeCancelling(found: FoundDelivery, held: ReadonlySet<string>): Cancelled | undefined {
  if (found.kind === "planned") {
    const isOver = found.destination === null || found.destination.deletedAt !== null;
    return isOver ? ok(found) : undefined;
  }
  const { state } = found.row;
  if (state === "cancelled") return ok(found);
  if (state === "dead" && held.has(nameOf(found))) return undefined;
  if (state === "delivered" || state === "dead") return conflict(`The delivery has ended: it is ${state}`);
  return state === "in_flight" ? IN_FLIGHT : undefined;
}

/** Pages of one call: each has up to 500 rows and 20 packs, which hold 100 deliveries at most. */
const PAGES = 4;

type WaitingOf = z.infer<typeof waitingQuery> & Readonly<{ destination: string }>;

/** `next` is where the next call continues; undefined when nothing is left. */
type CancelledPart = Readonly<{ cancelled: number; in_flight: number; next: WaitingPosition | undefined }>;

/**
 * Cancels deliveries that wait for a destination, a few thousand at most. Each page is read, compared with the gate and
 * cancelled separately.
 */
export const cancelWaiting = service(repairing, async (call, { destination: id, ...query }: WaitingOf) => {
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

/**
 * In each database those that stand behind others in their lines come first, so that none of them moves up when the one
 * before it is cancelled. Undefined when the gate cannot be reached, and nothing has been cancelled.
 */
async function cancelPart(
  services: Services,
  destination: string,
  { since, until, event_types: eventTypes, cursor }: z.infer<typeof waitingQuery>,
): Promise<CancelledPart | undefined> {
  const all = allOf(services);
  const filter = { since, until, eventTypes };
  let next: WaitingPosition | undefined = cursor ?? [0, 0, ""];
  let [cancelled, in_flight] = [0, 0];
  for (let pages = 0; pages < PAGES && next !== undefined; ) {
    const db: D1Database | undefined = all[next[0]];
    if (db === undefined) return { cancelled, in_flight, next: undefined };
    const page: PageToCancel = await pageToCancel(db, destination, next, filter);
    const isEndOfLines = next[2] !== undefined && page.next[2] === undefined;
    if (page.events.length > 0 || !isEndOfLines) pages += 1;
    if (page.events.length > 0) {
      const inFlight = await atGate(services, destination, "recheck", page.events);
      if (inFlight === undefined) return cancelled > 0 ? { cancelled, in_flight, next } : undefined;
      const busy = new Set(inFlight);
      const open = page.events.filter((one) => !busy.has(one));
      cancelled += await page.cancel(db, destination, open, services.now());
      in_flight += busy.size;
      await atGate(services, destination, "recheck", open);
    }
    next = page.next[0] < all.length ? page.next : undefined;
  }
  return { cancelled, in_flight, next };
}

type PageToCancel = Readonly<{
  events: readonly number[];
  cancel: typeof cancelEach;
  next: WaitingPosition;
}>;

async function pageToCancel(
  db: D1Database,
  destination: string,
  [at, event, line]: WaitingPosition,
  filter: WaitingFilter,
): Promise<PageToCancel> {
  if (line !== undefined) {
    const { events, upto } = await behindPage(db, destination, { line, event }, filter);
    return { events, cancel: cancelBehind, next: upto ? [at, upto.event, upto.line] : [at, 0] };
  }
  const { first, last } = await idRangeOf(db, filter);
  const range = { after: Math.max(event, first - 1), last };
  const { events, upto } = await waitingPage(db, destination, range, filter);
  return { events, cancel: cancelEach, next: upto === undefined ? [at + 1, 0, ""] : [at, upto] };
}
