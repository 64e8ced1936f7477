/**
 * A tenant's events of one type in the order of their acceptance, from a position on. Bundles are numbered in the order
 * in which they are committed, so later events have larger numbers, and a position skips nothing. Reads as many bundles
 * as a page of a list (event-list.ts).
 */
import { bundleOf, indexOf, lastEventOf, runsInclude } from "../core/bundle.ts";
import { headerToShow } from "../core/stored-bundle.ts";
import { highestId } from "./commit.ts";
import { allOf, type Databases } from "./databases.ts";
import { type Cutoffs, oldAmong } from "./delivery-filter.ts";
import {
  BUNDLES_LOOKED_AT,
  countWithinBytes,
  type ListedEvent,
  type ListedRow,
  listedEventsIn,
} from "./event-list.ts";
import { mergedByTime } from "./merge.ts";
import { jsonOrEmpty } from "./sql.ts";
import { idBefore } from "./time-ranges.ts";

const BUNDLES_TAKEN = 200;

const FIRST = "(SELECT min(id) FROM bundles WHERE id >= ?1)";
const WITHIN = `id BETWEEN ${FIRST} AND ${FIRST} + ${BUNDLES_LOOKED_AT - 1}`;

const HEADER = jsonOrEmpty("header");

/** Names of tenants and types need no escape in JSON. */
const NEXT = `
  SELECT id, accepted_at AS acceptedAt, deliver_at AS deliverAt, header, NULL AS runs FROM bundles
  WHERE ${WITHIN} AND instr(${HEADER} -> '$.tenants', '"' || ?2 || '"') > 0 AND instr(${HEADER} -> '$.types', '"' || ?3 || '"') > 0
  ORDER BY id LIMIT ${BUNDLES_TAKEN}`;

const BOUNDS = `
  SELECT (SELECT min(id) FROM bundles) AS oldest, (SELECT max(id) FROM bundles WHERE ${WITHIN}) AS looked,
    (SELECT max(id) FROM bundles) AS newest`;

/** By database: the last event that is behind it. */
type EventLogPosition = readonly number[];

export async function endOfLog(databases: Databases): Promise<EventLogPosition> {
  const ids = allOf(databases).map((db, database) => highestId(db, database));
  return (await Promise.all(ids)).map(lastEventOf);
}

/** A position before all events that were accepted at that time or later, epoch ms. */
export async function positionAt(databases: Databases, at: number): Promise<EventLogPosition> {
  const ids = allOf(databases).map((db) => idBefore(db, at));
  return (await Promise.all(ids)).map((id) => lastEventOf(Math.max(0, id)));
}

type LogQuery = Readonly<{ tenant: string; type: string; limit: number; over: Cutoffs }>;

export type EventLogPage = Readonly<{
  /** Events that subscriptions get: with `data`, and not only for certain destinations. */
  found: readonly ListedEvent[];
  next: EventLogPosition;
  hasMore: boolean;
  /** Whether events behind the position have been removed. */
  hasGap: boolean;
}>;

/** The next events behind the position, at most `limit`, and of as many bytes as are read at once. The page may have fewer, or none, and not be the last one. */
export async function readEventLog(
  databases: Databases,
  from: EventLogPosition,
  query: LogQuery,
): Promise<EventLogPage> {
  const { limit, over } = query;
  const parts = await Promise.all(
    allOf(databases).map((db, i) => logOf(db, from[i] ?? lastEventOf(0), query)),
  );
  const isOld = await oldAmong(
    over,
    parts.flatMap(({ found }) => found),
  );
  const sorted = mergedByTime(
    parts.map(({ found }, part) => found.map((event) => ({ event, part }))),
    ({ event }) => event.acceptedAt,
  );
  const most = countWithinBytes(
    sorted.map(({ event }) => event),
    () => true,
  );
  const taken = sorted.slice(0, Math.min(limit, most));
  const left = sorted.slice(taken.length);
  const next = parts.map(({ position, end }, part) => {
    if (!left.some((one) => one.part === part)) return end;
    return taken.findLast((one) => one.part === part)?.event.id ?? position;
  });
  return {
    found: taken.map(({ event }) => event).filter((event) => !isOld(event)),
    next,
    hasMore: left.length > 0 || parts.some(({ hasMore }) => hasMore),
    hasGap: parts.some(({ hasGap }) => hasGap),
  };
}

async function logOf(db: D1Database, position: number, { tenant, type }: LogQuery) {
  const bundle = bundleOf(position);
  // Behind a bundle that has been read whole any number may have been removed: the look begins with the next that is there.
  const first = bundleOf(position + 1);
  const [rows, bounds] = await db.batch<Record<string, unknown>>([
    db.prepare(NEXT).bind(first, tenant, type),
    db.prepare(BOUNDS).bind(first),
  ]);
  const taken = (rows?.results ?? []) as ListedRow[];
  const { oldest, looked, newest } = (bounds?.results[0] ?? {}) as Partial<
    Record<"oldest" | "looked" | "newest", number | null>
  >;
  const last = taken.length === BUNDLES_TAKEN ? taken.at(-1)?.id : looked;
  const found = taken.flatMap(subscribable).filter((event) => {
    return event.id > position && event.tenant === tenant && event.type === type;
  });
  return {
    position,
    found,
    end: typeof last === "number" ? Math.max(position, lastEventOf(last)) : position,
    hasMore: typeof last === "number" && (newest ?? 0) > last,
    hasGap: typeof oldest === "number" && oldest > bundle + 1 && bundle > 0,
  };
}

/** In the order of their numbers. */
function subscribable(row: ListedRow): ListedEvent[] {
  const { addressed = [] } = headerToShow(row.header) ?? {};
  return listedEventsIn(row)
    .toReversed()
    .filter(
      ({ id, contentType, isErased }) =>
        contentType === undefined && !isErased && !runsInclude(addressed, indexOf(id)),
    );
}
