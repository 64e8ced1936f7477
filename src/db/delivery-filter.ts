/**
 * What a list of deliveries is narrowed to, and as SQL what can only be tried, row by row; to the rest the
 * walk leads by itself (delivery-list.ts).
 */
import { and, eq, gte, lt, type SQL, sql } from "drizzle-orm";
import { bundleOf, destinationsOf, type EventHeader, indexOf, type Plan } from "../core/bundle.ts";
import { bundleIdOf, type TimeRange, tenantOf, typeOf } from "./bundles.ts";
import { rowsIn } from "./packs.ts";
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

// §§ What is over is shown no more: an event that is older than the deployment keeps events, and whose own deliveries
// have all ended. Its bundle may stay, because of a neighbour; nothing that a user can see depends on that.

/** Longer than an invocation lives: whoever saw a delivery before its end is gone by then. */
export const QUIET_MS = 60 * 60_000;

/** Epoch ms. */
export type Over = Readonly<{
  /** Due by this is old. */
  dueBy: number;
  /** Ended by this is ended for good. */
  endedBy: number;
}>;

/** What is over by now. */
export function overBy({
  now,
  config,
}: Readonly<{ now: () => number; config: Readonly<{ retentionMs: number }> }>): Over {
  return { dueBy: now() - config.retentionMs, endedBy: now() - QUIET_MS };
}

const ENDED = ["delivered", "dead", "cancelled"];

type Times = Readonly<{ acceptedAt: number; deliverAt: number | null }>;
type End = Readonly<{ state: string; endedAt: number | null }>;

export function isOld({ acceptedAt, deliverAt }: Times, { dueBy }: Over): boolean {
  return (deliverAt ?? acceptedAt) <= dueBy;
}

export function hasEnded({ state, endedAt }: End, { endedBy }: Over): boolean {
  return ENDED.includes(state) && (endedAt ?? 0) <= endedBy;
}

const TIMES = `
  SELECT b.id, b.accepted_at AS acceptedAt, b.deliver_at AS deliverAt, b.plan
  FROM json_each(?1) w CROSS JOIN bundles b ON b.id = w.value`;

/** Which events of these deliveries are over. Of those that have not ended, or are not old, nothing more is read. */
export async function eventsOver(
  db: D1Database,
  rows: readonly DeliveryRow[],
  over: Over,
): Promise<ReadonlySet<number>> {
  const ended = new Set(rows.filter((row) => hasEnded(row, over)).map(({ eventId }) => eventId));
  if (ended.size === 0) return new Set();
  const ids = JSON.stringify([...new Set([...ended].map(bundleOf))]);
  const { results } = await db.prepare(TIMES).bind(ids).all<Times & { id: number; plan: string }>();
  const old = new Map(
    results.filter((one) => isOld(one, over)).map(({ id, plan }) => [id, JSON.parse(plan) as Plan]),
  );
  const planned = [...ended].flatMap((event) => {
    const plan = old.get(bundleOf(event));
    return plan ? [{ event, destinations: destinationsOf(plan, indexOf(event)) }] : [];
  });
  if (planned.length === 0) return new Set();
  const pairs = planned.flatMap(({ event, destinations }) =>
    destinations.map((destination) => [bundleOf(event), destination] as const),
  );
  const known = await rowsIn(db, pairs);
  const isEnded = new Set(
    known.filter((row) => hasEnded(row, over)).map((row) => `${row.eventId} ${row.destinationId}`),
  );
  const isOver = ({ event, destinations }: (typeof planned)[number]) =>
    destinations.every((destination) => isEnded.has(`${event} ${destination}`));
  return new Set(planned.filter(isOver).map(({ event }) => event));
}
