/**
 * Walks deliveries in the order of lists, newest first, destination by destination, and no further than a
 * budget allows: whatever else is stored, and whatever is tried on them, a page costs a bounded number of
 * rows. Every step is one seek: to the next delivery of the destination, or to the end of what it has. Deliveries with
 * rows of their own and packs are walked through apart, in the same order: see deliveries-read.ts.
 *
 * A list of one destination, or of a tenant, steps through its own destinations alone; the operator's through
 * all that have deliveries. So what others have costs nothing, and a cursor tells nothing of them.
 */
import { type SQL, sql } from "drizzle-orm";
import { bundleOf } from "../core/bundle.ts";
import type { DeliveryKey } from "./delivery-filter.ts";
import type { IdRange } from "./moments.ts";
import { WAITS } from "./packs.ts";
import type { StoredState } from "./schema.ts";

/** Steps of one page in a database, at most: so many through rows, and as many through packs. */
export const STEPS = 700;
/** While there are no more retries than this, in all, they are found by their index and sorted. */
export const RETRIES_SORTED = 5_000;

export type Walk = Readonly<{
  state: StoredState | undefined;
  /** Those to walk through, in descending order; all that have deliveries when undefined. */
  destinations: readonly string[] | undefined;
  before: DeliveryKey | undefined;
  range: IdRange | undefined;
}>;

/** What is walked through: the rows of deliveries by their events, or packs by their bundles. */
type Table = "deliveries" | "packs";

/** The table by the index that holds nothing but the state asked for, where there is one in the order of the walk. */
const sources: Readonly<Record<Table, Readonly<Partial<Record<StoredState, SQL>>>>> = {
  deliveries: {
    // The state is a literal, never a parameter: else no partial index could be used.
    waiting: sql`deliveries INDEXED BY deliveries_waiting WHERE state = 'waiting' AND`,
    dead: sql`deliveries INDEXED BY deliveries_dead WHERE state = 'dead' AND`,
  },
  packs: { waiting: sql`packs INDEXED BY packs_waiting WHERE ${sql.raw(WAITS)} AND` },
};
const anyState = { deliveries: sql`deliveries WHERE`, packs: sql`packs WHERE` };
const keys = { deliveries: sql`event_id`, packs: sql`bundle_id` };

/** Whether the walk through rows leads to that state alone; else each delivery's state has to be looked at. */
export function leadsTo(state: StoredState | undefined): boolean {
  return state === undefined || sources.deliveries[state] !== undefined;
}

/** A table of `n` (the step), `destination` and `event`, which is null where the destination has no more. */
export function walkOf(walk: Walk): SQL {
  const { before, range } = walk;
  return steps("deliveries", walk, {
    first: range?.first ?? 1,
    end: Math.min(range?.last ?? Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER - 1) + 1,
    before: before?.eventId,
  });
}

/** The same through packs: `event` is the number of a bundle, the one that the page before has ended in again. */
export function walkOfPacks(walk: Walk): SQL {
  const { before, range } = walk;
  return steps("packs", walk, {
    first: bundleOf(range?.first ?? 0),
    end: bundleOf(range?.last ?? Number.MAX_SAFE_INTEGER) + 1,
    before: before && bundleOf(before.eventId) + 1,
  });
}

/** Numbers from `first` on, below `end`, and below `before` of the destination that the page before has ended at. */
type Range = Readonly<{ first: number; end: number; before: number | undefined }>;

function steps(table: Table, { state, destinations, before }: Walk, range: Range): SQL {
  const source = (state && sources[table][state]) ?? anyState[table];
  const key = keys[table];
  const { first, end } = range;
  const ids = destinations && JSON.stringify(destinations);
  const start = destinations?.[0] ?? before?.destinationId ?? BEHIND_ALL;
  const from = before?.destinationId === start ? Math.min(range.before ?? end, end) : end;
  const next = ids
    ? sql`(${ids} ->> (walk.place + 1))`
    : sql`(SELECT max(destination_id) FROM ${source} destination_id < walk.destination)`;
  const here = sql`iif(walk.event IS NULL, ${next}, walk.destination)`;
  // The first row is where the walk starts from, and no step of it.
  return sql`(WITH RECURSIVE walk (n, place, destination, event) AS (
    SELECT 0, 0, ${start}, ${from}
    UNION ALL
    SELECT walk.n + 1, walk.place + (walk.event IS NULL), ${here},
      (SELECT max(${key}) FROM ${source} destination_id = ${here}
        AND ${key} < coalesce(walk.event, ${end}) AND ${key} >= ${first})
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
  const source = sql`deliveries INDEXED BY deliveries_retrying WHERE state = 'retrying'`;
  const isBefore = before
    ? sql`(destination_id, event_id) < (${before.destinationId}, ${before.eventId})`
    : sql`true`;
  return sorted(
    source,
    keys.deliveries,
    destinations,
    sql`${isBefore} AND event_id BETWEEN ${first} AND ${last}`,
  );
}

/** The same through packs of which some are in flight. */
export function walkOfPacksInFlight({ destinations, before, range }: Walk): SQL {
  const { first = 1, last = Number.MAX_SAFE_INTEGER } = range ?? {};
  const source = sql`packs INDEXED BY packs_in_flight WHERE recover_at IS NOT NULL`;
  const isBefore = before
    ? sql`(destination_id, bundle_id) <= (${before.destinationId}, ${bundleOf(before.eventId)})`
    : sql`true`;
  const isInRange = sql`bundle_id BETWEEN ${bundleOf(first)} AND ${bundleOf(last)}`;
  return sorted(source, keys.packs, destinations, sql`${isBefore} AND ${isInRange}`);
}

function sorted(source: SQL, key: SQL, destinations: readonly string[] | undefined, isWanted: SQL): SQL {
  const isOwn = destinations
    ? sql`destination_id IN (SELECT value FROM json_each(${JSON.stringify(destinations)}))`
    : sql`true`;
  return sql`(SELECT row_number() OVER () AS n, destination_id AS destination, ${key} AS event FROM (
    SELECT destination_id, ${key} FROM (
      SELECT destination_id, ${key} FROM ${source} LIMIT ${2 * RETRIES_SORTED})
    WHERE ${isOwn} AND ${isWanted}
    ORDER BY destination_id DESC, ${key} DESC LIMIT ${STEPS})) AS walk`;
}
