/**
 * Missing deliveries: events of a destination's tenant that are not planned for it, because it did not exist when they were
 * accepted, or did not take them. A replay looks for them in the order of their ids, and plans them afterwards.
 *
 * Planning a delivery is what a commit does, later: its event is added to the plan of its bundle, and the delivery gets a
 * row in which it waits. Both are written in the transaction that moves the replay's cursor, and only if the plan is still
 * what it was when it was read. So everything that follows from plans and rows holds for these deliveries as for others.
 *
 * A bundle has the events of many tenants, and no index leads from a tenant to its bundles: all bundles of the period are
 * walked through, and headers are read of those that have events of the tenant.
 *
 * Raw SQL: a plan is changed inside of its row, so that bodies are neither read nor sent.
 */

import {
  bundleOf,
  detailsAt,
  eventAt,
  headersOf,
  indexesOf,
  indexOf,
  lastEventOf,
  lengthOf,
  runsInclude,
  runsOf,
} from "../core/bundle.ts";
import { keptMsOf, type RetentionTimes } from "../core/retention.ts";
import { readHeader, runsIn } from "../core/stored-bundle.ts";
import { type Databases, select } from "./databases.ts";
import { isEventWanted } from "./delivery-filter.ts";
import { countWithinBytes } from "./event-list.ts";
import { type ComparedEvent, type Criteria, isDataAsked, refusalsOf } from "./event-refusals.ts";
import type { Replay } from "./replays.ts";
import { faultOfBundle } from "./sql.ts";

/** Bundles read by one statement, and by one step at least where it finds nothing. */
const PAGE = 500;
const LOOKED_AT = 5_000;
/** Bytes of the bodies of bundles whose plans one step changes: a row is written whole. One bundle in any case. */
const REWRITTEN_BYTES = 4 * 1024 * 1024;

/** The path of the destination `?5` in a plan. */
const PATH = "('$.' || ?5)";

/**
 * Names of tenants need no escape in JSON. Of bundles without an event that could be meant, and of those that cannot be read,
 * only the id is returned.
 */
const NEXT = `
  SELECT id, iif(json_valid(plan), plan -> ${PATH}, NULL) AS runs, length(body) AS bytes,
    coalesce(deliver_at, accepted_at) AS dueAt, iif(${faultOfBundle("plan", "header")} IS NULL, iif(
    instr(header -> '$.tenants', '"' || ?4 || '"') > 0 AND accepted_at >= ?6 AND accepted_at < ?7 AND accepted_at <= ?8
      AND coalesce(deliver_at, accepted_at) <= ?8 AND coalesce(deliver_at, accepted_at) > ?8 - ?9, header, NULL),
    NULL) AS header
  FROM bundles WHERE id >= ?1 AND id <= ?2 ORDER BY id LIMIT ?3`;

type Row = Readonly<{ id: number; runs: string | null; bytes: number; dueAt: number; header: string | null }>;

/** A bundle with events to plan. */
export type PlanChange = Readonly<{
  bundle: number;
  /** The runs that are planned for the destination, as JSON; null: none. */
  before: string | null;
  after: string;
  /** How many deliveries more. */
  added: number;
  events: readonly number[];
}>;

type Missing = Readonly<{
  plans: readonly PlanChange[];
  events: readonly number[];
  /** The last event read. */
  cursor: number;
  /** Whether none comes after it. */
  isLast: boolean;
}>;

type Bounds = Readonly<{
  /** The destination's present route. */
  route: Criteria;
  /** The last event to read. */
  last: number;
  /** Most deliveries to plan. */
  size: number;
  kept: RetentionTimes;
}>;

/** The next `size` missing deliveries of the replay in a database, or fewer when many events have to be passed over. */
export async function findMissing(
  databases: Databases,
  db: D1Database,
  replay: Replay,
  { route, last, size, kept }: Bounds,
): Promise<Missing> {
  const { tenant, destinationId, since, until, createdAt } = replay;
  const chosen: Candidate[] = [];
  let { cursor } = replay;
  for (let looked = 0; looked < LOOKED_AT; looked += PAGE) {
    const places = [bundleOf(cursor + 1), bundleOf(last), PAGE];
    const asked = [tenant, destinationId, since, until, createdAt, kept.ms];
    const results = await select<Row>(db, NEXT, ...places, ...asked);
    const from = cursor;
    const all = results.flatMap((row) => candidatesIn(row, replay, kept)).filter(({ id }) => id > from);
    const { taken, upto, hasReadBodies } = await takenOf(databases, replay, route, all);
    const end = fittingEnd(chosen, taken, size);
    chosen.push(...taken.slice(0, end));
    if (end < taken.length) return missing(chosen, chosen.at(-1)?.id ?? cursor, false);
    if (upto !== undefined) return missing(chosen, upto, false);
    if (results.length < PAGE) return missing(chosen, Math.max(cursor, last), true);
    cursor = lastEventOf(results.at(-1)?.id ?? 0);
    if (hasReadBodies) break;
  }
  return missing(chosen, cursor, false);
}

type Candidate = ComparedEvent & Pick<Row, "runs" | "bytes"> & Readonly<{ isAddressed: boolean }>;

/**
 * The tenant's events of a bundle that are not planned for the destination, as far as the header shows; without those that
 * are over, or erased.
 */
function candidatesIn(
  row: Row,
  { tenant, eventTypes, tag, createdAt }: Replay,
  kept: RetentionTimes,
): Candidate[] {
  const read = row.header === null ? undefined : readHeader(row.header);
  const planned = runsIn(row.runs);
  if (read?.kind !== "read" || planned === undefined) return [];
  const { id: bundle, runs, bytes } = row;
  const { header } = read;
  const about = headersOf(header);
  const bundleBytes = about.reduce((sum, one) => sum + one.bytes, 0);
  return about.flatMap((_, index) => {
    const details = detailsAt(header, index);
    if (!details || details.isErased || runsInclude(planned, index)) return [];
    if (
      !isEventWanted({ tenant, types: eventTypes, tag: tag ?? undefined }, { ...details, acceptedAt: null })
    )
      return [];
    const { type, channels, contentType } = details;
    if (row.dueAt <= createdAt - keptMsOf(kept, type)) return [];
    const isAddressed = runsInclude(header.addressed ?? [], index);
    const event = { id: eventAt(bundle, index), type, channels, contentType, isErased: false };
    return [{ ...event, isAddressed, bundleBytes, runs, bytes }];
  });
}

type Taken = Readonly<{
  taken: readonly Candidate[];
  /** The last one looked at, when bodies did not leave room for all. */
  upto: number | undefined;
  hasReadBodies: boolean;
}>;

/** The candidates that the replay selects, without events that could not be sent to the destination. */
async function takenOf(
  databases: Databases,
  { matching }: Replay,
  route: Criteria,
  candidates: readonly Candidate[],
): Promise<Taken> {
  if (matching === 0) {
    const taken = candidates.filter(({ contentType }) => contentType === undefined || route.takesContent);
    return { taken, upto: undefined, hasReadBodies: false };
  }
  const open = candidates.filter(({ isAddressed }) => !isAddressed);
  const count = countWithinBytes(open, (event) => isDataAsked(route, event));
  const looked = open.slice(0, count);
  const refused = await refusalsOf(databases, route, looked);
  return {
    taken: looked.filter(({ id }) => refused.get(id) === null),
    upto: looked.length < open.length ? looked.at(-1)?.id : undefined,
    hasReadBodies: looked.some((event) => isDataAsked(route, event)),
  };
}

/** How many of the events fit beside the chosen ones: by their number, and by the bytes of their bundles. */
function fittingEnd(chosen: readonly Candidate[], taken: readonly Candidate[], size: number): number {
  const bundles = new Map(chosen.map(({ id, bytes }) => [bundleOf(id), bytes]));
  let bytes = [...bundles.values()].reduce((sum, one) => sum + one, 0);
  for (const [i, one] of taken.entries()) {
    if (chosen.length + i >= size) return i;
    if (bundles.has(bundleOf(one.id))) continue;
    bytes += one.bytes;
    if (bytes > REWRITTEN_BYTES && bundles.size > 0) return i;
    bundles.set(bundleOf(one.id), one.bytes);
  }
  return taken.length;
}

function missing(chosen: readonly Candidate[], cursor: number, isLast: boolean): Missing {
  const plans = [...Map.groupBy(chosen, ({ id }) => bundleOf(id))].map(([bundle, own]) => {
    const before = own[0]?.runs ?? null;
    const planned = before === null ? [] : indexesOf(JSON.parse(before));
    const events = own.map(({ id }) => id);
    const after = runsOf([...planned, ...events.map(indexOf)].sort((a, b) => a - b));
    return { bundle, before, after: JSON.stringify(after), added: lengthOf(after) - planned.length, events };
  });
  return { plans, events: chosen.map(({ id }) => id), cursor, isLast };
}

const EXTEND = (isAt: string) => `
  UPDATE bundles SET plan = json_set(plan, '$.' || ?3, json(v.after)), planned = planned + v.added
  FROM (SELECT value ->> 'bundle' AS bundle, value ->> 'before' AS before, value ->> 'after' AS after,
    value ->> 'added' AS added FROM json_each(?1)) v
  WHERE bundles.id = v.bundle AND plan -> ('$.' || ?3) IS v.before AND ${isAt}`;

/** As a new generation: the time to live of its event, which is over by now, does not bind it. */
const INSERT = (isAt: string) => `
  INSERT INTO deliveries (destination_id, event_id, state, reason, generation, give_up_at, replay)
  SELECT ?3, e.value, 'waiting', 'replayed', 1, ?5, ?2
  FROM json_each(?1) v CROSS JOIN bundles b ON b.id = v.value ->> 'bundle'
    CROSS JOIN json_each(v.value, '$.events') e
  WHERE b.plan -> ('$.' || ?3) = v.value ->> 'after' AND ${isAt} ON CONFLICT DO NOTHING`;

/**
 * The statements that plan the deliveries and let them wait; the last of them changes one row for each delivery.
 * @param isAt SQL: whether the replay `?2` is still at the cursor `?4`
 */
export function planning(
  db: D1Database,
  { id, destinationId, cursor }: Replay,
  plans: readonly PlanChange[],
  giveUpAt: number,
  isAt: string,
): readonly D1PreparedStatement[] {
  const values = [JSON.stringify(plans), id, destinationId, cursor];
  return [db.prepare(EXTEND(isAt)).bind(...values), db.prepare(INSERT(isAt)).bind(...values, giveUpAt)];
}
