/** Deliveries: listed and shown. */
import type { z } from "zod";
import { refuseTag, refuseTenant } from "../../core/principal.ts";
import { stateOfReason } from "../../core/reasons.ts";
import { type FieldError, invalidField, invalidFields, missing, ok, type Result } from "../../core/result.ts";
import type { Services } from "../../services.ts";
import { allOf } from "../../store/databases.ts";
import { deliveriesByEvent } from "../../store/deliveries-by-event.ts";
import { overBy } from "../../store/delivery-filter.ts";
import {
  type FoundDelivery,
  type MergedPage,
  type Positions,
  storedDeliveries,
} from "../../store/delivery-list.ts";
import type { Destination } from "../../store/destination.ts";
import { destinationsById } from "../../store/destinations.ts";
import { type EventName, eventNames } from "../../store/events.ts";
import { readEvent, type StoredEvent } from "../../store/planned-deliveries.ts";
import { queuedDeliveries } from "../../store/queued-deliveries.ts";
import { acceptedBy } from "../../store/time-ranges.ts";
import { rangeErrors } from "../parameters.ts";
import { type Call, type Caller, service } from "../service.ts";
import type { DeliveryJson, deliveryQuery } from "./schema.ts";
import {
  deliveryService,
  FAULTS_SHOWN,
  seesContent,
  shownDeliveries,
  shownDelivery,
  withFault,
} from "./view.ts";

const reading = { scope: "read", action: "read" } as const;

// ── Lists ──

export type DeliveryQuery = Partial<Omit<z.infer<typeof deliveryQuery>, "cursor">> &
  Readonly<{
    cursor?: Positions | undefined;
    /** In place of `destination_id`: a destination that has been read, so that its tenant needs no query. */
    destination?: Pick<Destination, "id" | "tenant"> | undefined;
    /** A channel that the event was posted with. */
    channel?: string | undefined;
    limit: number;
  }>;

/** A page of deliveries as they are stored: calls no gate. */
export const findDeliveries = service({ scope: "read" }, (call, query: DeliveryQuery) =>
  deliveryPage(call, query),
);

export const getDeliveries = service(reading, async (call, query: DeliveryQuery) => {
  const page = await deliveryPage(call, query);
  if (page.kind !== "ok") return page;
  const { found, next } = page.value;
  return ok({ deliveries: await shownDeliveries(call, found), next });
});

/** A delivery with the names of its event and destination. */
export type LoggedDelivery = Readonly<{
  delivery: DeliveryJson;
  /** Undefined when the event was removed by hand. */
  event: EventName | undefined;
  /** Null when the destination's row was removed by hand. */
  destination: Destination | null;
}>;

/** Empty pages that are passed over until one has something: each within the ceilings of a page. */
const MOST_PAGES = 8;

/** How far a log has been searched. Both are undefined before the first delivery. */
type LogPlace = Readonly<{
  /** Deliveries of events that were accepted later have been read, epoch ms; undefined: none yet, or all. */
  acceptedAt: number | undefined;
  /** In a log by destinations the one that has been reached: all behind it come later. */
  destination: Destination | undefined;
}>;

/** `withRange`: whether to return the searched range, which costs up to two queries a database. */
type LogQuery = DeliveryQuery & Readonly<{ withRange?: boolean }>;

/**
 * A page with the names of events and destinations. It continues from page to page, a bounded number of times, until there
 * is something to show: `looked` says from where to where, unless it has reached the end.
 */
export const getDeliveryLog = service(reading, async (call, { withRange = false, ...query }: LogQuery) => {
  const page = await nextDeliveries(call, query);
  if (page.kind !== "ok") return page;
  const { found, next } = page.value;
  const isOver = next === undefined || found.length === query.limit;
  const looked = isOver || !withRange ? undefined : await lookedThrough(call, query, next);
  return ok({ entries: await logged(call, found), next, looked });
});

/** A page of deliveries with the names of events and destinations, which may be empty. */
export const getDeliveriesNamed = service(reading, async (call, query: DeliveryQuery) => {
  const page = await deliveryPage(call, query);
  if (page.kind !== "ok") return page;
  const { found, next } = page.value;
  return ok({ entries: await logged(call, found), next });
});

async function logged(call: Call, found: readonly FoundDelivery[]): Promise<readonly LoggedDelivery[]> {
  const ids = found.map(({ eventId }) => eventId);
  const [shown, names] = await Promise.all([shownDeliveries(call, found), eventNames(call.services, ids)]);
  return shown.map((delivery, i): LoggedDelivery => {
    const { eventId = 0, destination = null } = found[i] ?? {};
    return { delivery, event: names.get(eventId), destination };
  });
}

/** The range that a page has searched. */
export type LookedThrough = Readonly<{ from: LogPlace; to: LogPlace }>;

async function lookedThrough(
  { services, principal }: Call,
  { cursor, order, tag, destination, destination_id }: DeliveryQuery,
  next: Positions,
): Promise<LookedThrough> {
  const isByDestination =
    order !== "event" && tag === undefined && (destination?.id ?? destination_id) === undefined;
  const [from, to] = await Promise.all(
    [cursor ?? [], next].map(async (positions): Promise<LogPlace> => {
      const furthest = positions.toSorted((a, b) => (a.destinationId < b.destinationId ? 1 : -1))[0];
      const ids = isByDestination && furthest ? [furthest.destinationId] : [];
      const [row] = (await destinationsById(services.db, ids)).values();
      const times = await Promise.all(
        positions.map((one, i) =>
          isByDestination && one.destinationId !== furthest?.destinationId
            ? undefined
            : acceptedBy(allOf(services)[i] ?? services.db, one.eventId),
        ),
      );
      const known = times.filter((time) => time !== undefined);
      // A cursor can name whatever its sender writes into it.
      const destination = row && refuseTenant(principal, row.tenant) === undefined ? row : undefined;
      return { acceptedAt: known.length === 0 ? undefined : Math.max(...known), destination };
    }),
  );
  const none = { acceptedAt: undefined, destination: undefined };
  return { from: from ?? none, to: to ?? none };
}

/** A page with something in it, unless a bounded number of pages has nothing or the list ends. */
export async function nextDeliveries(call: Call, query: DeliveryQuery) {
  let page = await deliveryPage(call, query);
  for (let pages = 1; pages < MOST_PAGES && page.kind === "ok"; pages++) {
    const { found, next } = page.value;
    if (found.length > 0 || next === undefined) break;
    page = await deliveryPage(call, { ...query, cursor: next });
  }
  return page;
}

async function deliveryPage(
  { services, principal }: Call,
  { destination, cursor: before, since, until, order, state: asked, tag, ...query }: DeliveryQuery,
): Promise<Result<MergedPage, "forbidden" | "invalid">> {
  const errors = [...rangeErrors(since, until), ...derivedReasonErrors(query.reason)];
  if (errors.length > 0) return invalidFields(errors);
  const refusal =
    refuseTenant(principal, destination?.tenant) ??
    refuseTenant(principal, query.tenant) ??
    refuseTag(principal, tag);
  if (refusal) return refusal;
  const tenant = destination ? undefined : (principal.tenant ?? query.tenant);
  const destinationId = destination?.id ?? query.destination_id;
  const accepted = since === undefined && until === undefined ? undefined : { since, until };
  const filter = { ...query, destinationId, tenant, accepted, before, over: overBy(services) };
  // Indexes lead to a state, and a reason to a state.
  const state = asked ?? (query.reason === undefined ? undefined : stateOfReason(query.reason));
  if (tag !== undefined) {
    const owner = destination?.tenant ?? tenant ?? (await ownerOf(services, destinationId));
    if (owner === undefined)
      return invalidField(
        "tag",
        `is ${JSON.stringify(tag)}, and no tenant is named`,
        "tenant or destination_id beside it: tags belong to tenants",
      );
    return ok(await deliveriesByEvent(services, { tenant: owner, tag, state }, filter));
  }
  if (order === "event") return ok(await deliveriesByEvent(services, { tenant, state }, filter));
  if (state !== "queued") return ok(await storedDeliveries(services, state, filter));
  // A queued delivery has neither an attempt nor a stored reason.
  const matchesNone = filter.status !== undefined || filter.reason !== undefined;
  return ok(matchesNone ? { found: [], next: undefined } : await queuedDeliveries(services, filter));
}

/** Reasons that are not stored: no index leads to them. */
const DERIVED: Readonly<Record<string, string>> = {
  scheduled: "state=queued, which lists what is scheduled",
  order_held: "a stored reason; GET /v1/destinations/{id}/blocked-keys lists what is held",
};

function derivedReasonErrors(reason: string | undefined): FieldError[] {
  const expected = reason === undefined ? undefined : DERIVED[reason];
  if (expected === undefined) return [];
  return [{ field: "reason", fault: `is ${reason}, which is computed when a delivery is shown`, expected }];
}

/** The tenant of a destination, deleted or not; an id that names none has a tenant without events. */
async function ownerOf({ db }: Services, destination: string | undefined): Promise<string | undefined> {
  if (destination === undefined) return undefined;
  return (await destinationsById(db, [destination])).get(destination)?.tenant ?? "";
}

/** Where a page begins, as its cursor has it. */
export function placesOf(positions: Positions): unknown {
  const places = positions.map(({ destinationId, eventId }) => [destinationId, eventId]);
  return places.length === 1 ? places[0] : places;
}

// ── One delivery ──

/** A delivery as it is stored: calls no gate. */
export const findOneDelivery = deliveryService({ scope: "read" }, async (_, found) => ok(found));

export const getDelivery = deliveryService(reading, async (call, found) =>
  ok(await withFaultOf(call, found, await shownDelivery(call, found))),
);

/** The newest deliveries that wait because their destination's transformation fails for them, with its faults. */
export const getTransformFaults = service(
  reading,
  async (call, destination: Pick<Destination, "id" | "tenant">) => {
    const page = await deliveryPage(call, { destination, reason: "transform_failed", limit: FAULTS_SHOWN });
    if (page.kind !== "ok") return page;
    const shown = await shownDeliveries(call, page.value.found);
    return ok(
      await Promise.all(
        page.value.found.map((found, i) => withFaultOf(call, found, shown[i] as DeliveryJson)),
      ),
    );
  },
);

/** `withFault` of a delivery whose event has not been read. */
async function withFaultOf(
  { services, principal }: Caller,
  { eventId, destination }: FoundDelivery,
  shown: DeliveryJson,
): Promise<DeliveryJson> {
  if (shown.reason !== "transform_failed") return shown;
  const read = await readEvent(services, eventId, principal.tenant);
  return read ? withFault(services, read.event, destination, shown) : shown;
}

/** A delivery with the names of its event and destination. */
export const getDeliveryNamed = deliveryService(reading, async (call, found, id) => {
  const [entry] = await logged(call, [found]);
  return entry ? ok(entry) : missing("delivery", id);
});

/** A delivery with its event and its destination. */
export type DeliveryInFull = Readonly<{
  delivery: DeliveryJson;
  /** Without its body where the principal may not see what is sent. */
  event: StoredEvent;
  /** Undefined when it was deleted. */
  destination: Destination | undefined;
}>;

export const getDeliveryInFull = deliveryService(reading, async (call, found, id) => {
  const { services, principal } = call;
  const delivery = await withFaultOf(call, found, await shownDelivery(call, found));
  const read = await readEvent(services, found.eventId, principal.tenant);
  if (!read) return missing("delivery", id);
  const event = seesContent(principal) ? read.event : { ...read.event, body: null };
  const destination = found.destination?.deletedAt === null ? found.destination : undefined;
  return ok<DeliveryInFull>({ delivery, event, destination });
});
