/**
 * Walks deliveries in the order of lists, newest first, destination by destination, and no further than a
 * budget allows: whatever else is stored, and whatever is tried on them, a page costs a bounded number of
 * rows. Every step is one seek: to the next delivery of the destination, or to the end of what it has.
 *
 * A list of one destination, or of a tenant, steps through its own destinations alone; the operator's through
 * all that have deliveries. So what others have costs nothing, and a cursor tells nothing of them.
 */
import { type SQL, sql } from "drizzle-orm";
import type { DeliveryKey } from "./delivery-filter.ts";
import type { EventRange } from "./moments.ts";
import type { StoredState } from "./schema.ts";

/** Steps of one page in a database, at most. */
export const STEPS = 1_000;
/** While there are no more retries than this, in all, they are found by their index and sorted. */
export const RETRIES_SORTED = 5_000;

export type Walk = Readonly<{
  state: StoredState | undefined;
  /** Those to walk through, in descending order; all that have deliveries when undefined. */
  destinations: readonly string[] | undefined;
  before: DeliveryKey | undefined;
  range: EventRange | undefined;
}>;

/** The table by the index that holds nothing but the state asked for, where there is one in the order of the walk. */
const sources: Readonly<Partial<Record<StoredState, SQL>>> = {
  // The state is a literal, never a parameter: else no partial index could be used.
  waiting: sql`deliveries INDEXED BY deliveries_waiting WHERE state = 'waiting' AND`,
  dead: sql`deliveries INDEXED BY deliveries_dead WHERE state = 'dead' AND`,
};
const anyState = sql`deliveries WHERE`;

/** Whether the walk itself leads to that state alone; else each delivery's state has to be looked at. */
export function leadsTo(state: StoredState | undefined): boolean {
  return state === undefined || sources[state] !== undefined;
}

/** A table of `n` (the step), `destination` and `event`, which is null where the destination has no more. */
export function walkOf({ state, destinations, before, range }: Walk): SQL {
  const source = (state && sources[state]) ?? anyState;
  const { first = 1, last = Number.MAX_SAFE_INTEGER } = range ?? {};
  const top = Math.min(last, Number.MAX_SAFE_INTEGER - 1) + 1;
  const ids = destinations && JSON.stringify(destinations);
  const start = destinations?.[0] ?? before?.destinationId ?? BEHIND_ALL;
  const from = before?.destinationId === start ? Math.min(before.eventId, top) : top;
  const next = ids
    ? sql`(${ids} ->> (walk.place + 1))`
    : sql`(SELECT max(destination_id) FROM ${source} destination_id < walk.destination)`;
  const here = sql`iif(walk.event IS NULL, ${next}, walk.destination)`;
  // The first row is where the walk starts from, and no step of it.
  return sql`(WITH RECURSIVE walk (n, place, destination, event) AS (
    SELECT 0, 0, ${start}, ${from}
    UNION ALL
    SELECT walk.n + 1, walk.place + (walk.event IS NULL), ${here},
      (SELECT max(event_id) FROM ${source} destination_id = ${here}
        AND event_id < coalesce(walk.event, ${top}) AND event_id >= ${first})
    FROM walk WHERE walk.destination IS NOT NULL LIMIT ${STEPS + 1}
  ) SELECT n, destination, event FROM walk WHERE n > 0 AND destination IS NOT NULL) AS walk`;
}

/** Behind every id of a destination, in order. */
const BEHIND_ALL = "~";

/**
 * The same table for what is retried, by the index of what is due: to be used while that holds few enough. It
 * has no order of destinations, so all of it is read, from the index alone, and what has come since it was
 * counted too.
 */
export function walkOfRetries({ destinations, before, range }: Walk): SQL {
  const { first = 1, last = Number.MAX_SAFE_INTEGER } = range ?? {};
  const isOwn = destinations
    ? sql`destination_id IN (SELECT value FROM json_each(${JSON.stringify(destinations)}))`
    : sql`true`;
  const isBefore = before
    ? sql`(destination_id, event_id) < (${before.destinationId}, ${before.eventId})`
    : sql`true`;
  return sql`(SELECT row_number() OVER () AS n, destination_id AS destination, event_id AS event FROM (
    SELECT destination_id, event_id FROM (
      SELECT destination_id, event_id FROM deliveries INDEXED BY deliveries_retrying
      WHERE state = 'retrying' LIMIT ${2 * RETRIES_SORTED})
    WHERE ${isOwn} AND ${isBefore} AND event_id BETWEEN ${first} AND ${last}
    ORDER BY destination_id DESC, event_id DESC LIMIT ${STEPS})) AS walk`;
}
