/**
 * What a list of deliveries is narrowed to, and as SQL what can only be tried, row by row; to the rest the
 * walk leads by itself (delivery-walk.ts).
 */
import { and, eq, gte, lt, type SQL, sql } from "drizzle-orm";
import type { EventHeader } from "../core/bundle.ts";
import { bundleIdOf, tenantOf, typeOf } from "./event-columns.ts";
import type { TimeRange } from "./moments.ts";
import type { Over } from "./over.ts";
import { bundles, type DeliveryRow, deliveries, destinations } from "./schema.ts";

/** The key of a delivery: every list is in its order, descending. */
export type DeliveryKey = Readonly<{ destinationId: string; eventId: number }>;

export type EventFilter = Readonly<{
  type?: string | undefined;
  accepted?: TimeRange | undefined;
}>;

export type DeliveryFilter = EventFilter &
  Readonly<{
    destinationId?: string | undefined;
    tenant?: string | undefined;
    /** The last attempt's status code. */
    status?: number | undefined;
    reason?: string | undefined;
    /** What is left out, whatever is asked for. */
    over?: Over | undefined;
    before?: DeliveryKey | undefined;
    limit: number;
  }>;

/** What remains to be tried of rows, but for whether they are over; undefined when nothing does. */
export function isWanted({ tenant, status, reason, ...filter }: DeliveryFilter): SQL | undefined {
  const ofEvent = isOfEvent(filter);
  return and(
    tenant === undefined ? undefined : sql`${OWNER} = ${tenant}`,
    status === undefined ? undefined : eq(deliveries.lastStatus, status),
    reason === undefined ? undefined : eq(deliveries.reason, reason),
    ofEvent && sql`EXISTS (SELECT 1 FROM ${bundles} WHERE ${bundles.id} = ${BUNDLE} AND ${ofEvent})`,
  );
}

/** The same of a row as a pack tells it. */
export function isRowWanted({ status, reason }: DeliveryFilter, row: DeliveryRow): boolean {
  return (
    (status === undefined || row.lastStatus === status) && (reason === undefined || row.reason === reason)
  );
}

/** The same of an event: when its bundle was accepted, whose its destination is, and what the header tells of it. */
export function isEventWanted(
  { tenant, type, accepted: { since, until } = {} }: DeliveryFilter,
  { acceptedAt, owner, about }: Told,
): boolean {
  if (since === undefined && until === undefined && type === undefined && tenant === undefined) return true;
  // Without a time, somebody has removed the bundle by hand.
  if (since !== undefined && (acceptedAt ?? -1) < since) return false;
  if (until !== undefined && (acceptedAt ?? until) >= until) return false;
  if (type !== undefined && about?.type !== type) return false;
  return tenant === undefined || (owner ?? about?.tenant) === tenant;
}

type Told = Readonly<{
  acceptedAt: number | null;
  owner: string | undefined;
  about: EventHeader | undefined;
}>;

const EVENT = "deliveries.event_id";
const BUNDLE = sql.raw(bundleIdOf(EVENT));

/** Whose a delivery is: its destination's, or where no destinations are, beyond the first database, its event's. */
const OWNER = sql`coalesce(${destinations.tenant},
  (SELECT ${sql.raw(tenantOf("bundles.header", EVENT))} FROM ${bundles} WHERE ${bundles.id} = ${BUNDLE}))`;

/** What is asked of the event alone. */
function isOfEvent({ type, accepted: { since, until } = {} }: EventFilter): SQL | undefined {
  return and(
    type === undefined ? undefined : sql`${sql.raw(typeOf("bundles.header", EVENT))} = ${type}`,
    since === undefined ? undefined : gte(bundles.acceptedAt, since),
    until === undefined ? undefined : lt(bundles.acceptedAt, until),
  );
}
