/**
 * The steps of a replay: selecting deliveries, and requeueing them in portions.
 *
 * A replay selects the deliveries that had ended in the requested way when it began, in rows or in packs, of events
 * that were accepted in its time range; or the events of its tenant that have none (missing-deliveries.ts). They are
 * found in order of their events from its cursor on. Each portion is requeued in the same transaction that moves the
 * cursor past it, so that two steps at once do the work of one.
 *
 * Raw SQL, because a portion moves in one transaction under one condition, and because counting, selecting and
 * requeueing a thousand deliveries in one statement each saves a round trip for every delivery.
 */

import { detailsAt, indexOf } from "../core/bundle.ts";
import type { Ordering } from "../core/order.ts";
import { keptMsOf, type RetentionTimes } from "../core/retention.ts";
import { readHeader } from "../core/stored-bundle.ts";
import { givenColumns, modelOf, type RawRow } from "./columns.ts";
import { type Databases, select } from "./databases.ts";
import type { DeliveryRow } from "./delivery.ts";
import { isEventWanted } from "./delivery-filter.ts";
import { enteringLines } from "./lines.ts";
import { type PlanChange, planning } from "./missing-deliveries.ts";
import { lastLookedAt, packedRows, packsOf } from "./packs.ts";
import { partsIn, type Replay, type ReplayChange, type ReplayInsert } from "./replays.ts";
import { requeued, requeuePacked } from "./requeue.ts";
import { replays } from "./schema.ts";
import {
  bundleIdOf,
  countIn,
  countUpTo,
  DEAD_ROWS,
  deliveredOf,
  eventTypeSql,
  faultOfHeader,
  hasBit,
  hasTag,
  IS_UNDER_WAY,
  isErasedSql,
} from "./sql.ts";
import { type IdRange, idRangeOf } from "./time-ranges.ts";

/** The ends of the deliveries that it selects. */
type Ended = Exclude<Replay["include"], "missing">;

/** Dead deliveries have an index; delivered ones are found among all rows of the destination. */
const sources: Readonly<Record<Ended, string>> = {
  dead: `${DEAD_ROWS} AND`,
  delivered: "deliveries WHERE",
};

/** SQL: whether a pattern matches a type, as in core/routing.ts. */
function isOfType(pattern: string, type: string): string {
  return `(${pattern} = ${type} OR ${pattern} = '*' OR (substr(${pattern}, -2) = '.*'
    AND substr(${type}, 1, length(${pattern}) - 1) = substr(${pattern}, 1, length(${pattern}) - 1)))`;
}

/** SQL: whether a bundle `b` is in the time range of a replay `r`, and was not older than `?6` ms when that began. */
const IS_IN_TIME = `b.accepted_at >= r.since AND b.accepted_at < r.until
  AND coalesce(b.deliver_at, b.accepted_at) > r.created_at - ?6`;

/** SQL: whether an event of a bundle `b` has the tag of a replay `r`, if that has one. */
const isTagged = (event: string) => `(r.tag IS NULL OR ${hasTag("b.header", event, "r.tag")})`;

/**
 * SQL: whether events of that type are kept for so long that those of a bundle `b` were not over when a replay `r` began.
 * @param types JSON: the types with a time of their own, in ms
 */
const isKept = (type: string, types: string) => `coalesce((
  SELECT coalesce(b.deliver_at, b.accepted_at) > r.created_at - k.value FROM json_each(${types}) k
  WHERE k.key = ${type}), 1)`;

/** SQL: whether the header of a bundle `b` can be read. */
const IS_READABLE = `${faultOfHeader("b.header")} IS NULL`;

/** SQL: whether a replay `r` selects a delivery `d`, whose bundle is `b`. None of bundles that cannot be read. */
const isSelected = (types: string) =>
  `d.state = r.include AND d.ended_at <= r.created_at AND ${IS_IN_TIME} AND iif(${IS_READABLE}, ${isMeant(types)}, 0)`;

/** SQL: the part of it that the header decides. */
const isMeant = (types: string) => `${isTagged("d.event_id")}
  AND NOT ${isErasedSql("b.header", "d.event_id")} AND ${isKept(eventTypeSql("b.header", "d.event_id"), types)}
  AND (r.event_types IS NULL OR EXISTS (
    SELECT 1 FROM json_each(r.event_types) t WHERE ${isOfType("t.value", eventTypeSql("b.header", "d.event_id"))}))`;

/** The API refuses replays over more deliveries than this. */
export const LARGEST = 1_000_000;

/** SQL: the next deliveries of a destination after an event, selected or not. */
const next = (include: Ended) => `
  SELECT event_id, state, ended_at FROM ${sources[include]}
    destination_id = ?2 AND event_id > ?3 AND event_id <= ?4 ORDER BY event_id LIMIT ?5`;

/** SQL: a destination's packs with delivered bits, from the bundle of one event to that of another. */
const deliveredPacks = (from: string, to: string) => `packs
  WHERE destination_id = ?2 AND bundle_id BETWEEN ${bundleIdOf(from)} AND ${bundleIdOf(to)} AND (delivered0 | delivered1) <> 0`;

/** How many deliveries of this kind the destination has in the range; `limit` means that there may be more. */
export async function countCandidates(
  db: D1Database,
  { include, destinationId }: Readonly<{ include: Replay["include"]; destinationId: string }>,
  { first, last }: IdRange,
  limit: number,
): Promise<number> {
  // Only walking through all events of the period would show it.
  if (include === "missing") return 0;
  const rows = countUpTo("?1", `${sources[include]} destination_id = ?2 AND event_id BETWEEN ?3 AND ?4`);
  const packed = `(SELECT coalesce(sum(n), 0) FROM (
    SELECT ${countIn(deliveredOf())} AS n FROM ${deliveredPacks("?3", "?4")} LIMIT ?1))`;
  const count = `SELECT ${include === "delivered" ? `${rows} + ${packed}` : rows} AS n`;
  const counted = await db.prepare(count).bind(limit, destinationId, first, last).first<number>("n");
  return Math.min(limit, counted ?? 0);
}

/** Packs with ends after the replay began. */
const LATE_PACKS = `
  SELECT p.*, b.header, b.accepted_at, b.deliver_at
  FROM (SELECT * FROM ${deliveredPacks("?1", "?3")} AND ended_at > ?4) p JOIN bundles b ON b.id = p.bundle_id`;

/** SQL: the event that an entry `i` of a header's events is about, of a pack `p`. */
const PACKED_EVENT = "(p.bundle_id * 128 + i.key / 3)";

const TYPE_OF_ENTRY = "(b.header ->> ('$.types[' || i.value || ']'))";

/** How many deliveries are selected of packs without ends after the replay began. */
const TOTAL_PACKED = `
  SELECT coalesce(sum(iif(NOT ${IS_READABLE}, 0, iif(r.event_types IS NULL AND r.tag IS NULL AND b.header -> '$.erased' IS NULL AND ?9 = '{}', ${countIn(deliveredOf("p"))}, (
    SELECT count(*) FROM json_each(b.header, '$.events') i
    WHERE i.key % 3 = 1 AND ${hasBit(deliveredOf("p"), PACKED_EVENT)} AND ${isTagged(PACKED_EVENT)}
      AND NOT ${isErasedSql("b.header", PACKED_EVENT)} AND ${isKept(TYPE_OF_ENTRY, "?9")}
      AND (r.event_types IS NULL OR EXISTS (
        SELECT 1 FROM json_each(r.event_types) t WHERE ${isOfType("t.value", TYPE_OF_ENTRY)}))
  )))), 0)
  FROM (SELECT * FROM ${deliveredPacks("(?3 + 1)", "?4")} AND ended_at <= ?7 LIMIT ?5) p
  JOIN bundles b ON b.id = p.bundle_id WHERE ${IS_IN_TIME}`;

/**
 * Begins a replay and counts what it selects, missing deliveries excepted; undefined when its destination has one under
 * way.
 */
export async function beginReplay(
  db: D1Database,
  row: ReplayInsert,
  { first, last }: IdRange,
  limit: number,
  kept: RetentionTimes,
): Promise<Replay | undefined> {
  const { id, destinationId, include, createdAt } = row;
  if (include === "missing") {
    const inserted = await insertion(db, row).first<RawRow>();
    return inserted ? modelOf(replays, inserted) : undefined;
  }
  const isPacked = include === "delivered";
  // SQL cannot read the times of their ends.
  const latePacks = isPacked
    ? await select<RawRow>(db, LATE_PACKS, first, destinationId, last, createdAt)
    : [];
  const lateOnes = latePacks.flatMap((raw) => lookedIn(raw, row, kept));
  const late = lateOnes.filter(({ isSelected }) => isSelected).length;
  const packed = isPacked ? `+ (${TOTAL_PACKED})` : "";
  const total = `UPDATE replays AS r SET total = ?8 ${packed} + (
      SELECT count(*) FROM (${next(include)}) d JOIN bundles b ON b.id = ${bundleIdOf("d.event_id")} WHERE ${isSelected("?9")})
    WHERE id = ?1 RETURNING *`;
  const bounds = [first - 1, last, limit, kept.ms, createdAt, late, JSON.stringify(kept.types)];
  const counting = db.prepare(total).bind(id, destinationId, ...bounds);
  const [, counted] = await db.batch<RawRow>([insertion(db, row), counting]);
  const raw = counted?.results[0];
  return raw && modelOf(replays, raw);
}

/** Only the request: a part does not have the job's progress. */
function insertion(
  db: D1Database,
  { id, tenant, destinationId, include, eventTypes, tag, since, until, ratePerMinute, ...row }: ReplayInsert,
): D1PreparedStatement {
  const { cursor, createdAt, matching } = row;
  const { names, values } = givenColumns(replays, {
    ...{ id, tenant, destinationId, include, eventTypes, tag, since, until, ratePerMinute, cursor, matching },
    ...{ state: "running", pace: ratePerMinute, nextStepAt: createdAt, createdAt, updatedAt: createdAt },
  });
  const places = names.map((_, i) => `?${i + 1}`);
  return db
    .prepare(`INSERT INTO replays (${names}) VALUES (${places}) ON CONFLICT DO NOTHING RETURNING *`)
    .bind(...values);
}

/** The most deliveries that one statement reads. */
const PAGE = 1_000;
/** Deliveries read for one portion. */
const LOOKED_AT = 10_000;

type ReplayOf<I extends Replay["include"]> = Replay & Readonly<{ include: I }>;

/** Whether it selects deliveries that have ended. */
export function isOfEnded(replay: Replay): replay is ReplayOf<Ended> {
  return replay.include !== "missing";
}

export type Portion = Readonly<{
  /** The events of the deliveries to requeue. */
  events: readonly number[];
  /** Deliveries that have no rows of their own, as the rows that they would have. */
  packed: readonly DeliveryRow[];
  /** The plans that missing deliveries are added to. */
  plans?: readonly PlanChange[];
  /** The last event read. */
  cursor: number;
  /** Whether none comes after it. */
  isLast: boolean;
}>;

/** The next `size` ended deliveries that the replay selects, or fewer when many have to be passed over. */
export async function findPortion(
  db: D1Database,
  replay: ReplayOf<Ended>,
  last: number,
  size: number,
  kept: RetentionTimes,
): Promise<Portion> {
  const found: Looked[] = [];
  const portion = (cursor: number, isLast: boolean) => ({
    events: found.map(({ event }) => event),
    packed: found.flatMap(({ packed }) => packed ?? []),
    cursor,
    isLast,
  });
  let { cursor } = replay;
  // Without event types or a tag it often selects nearly everything: read little more than is wanted, until it does not.
  let page = replay.eventTypes === null && replay.tag === null ? Math.min(PAGE, size + 1) : PAGE;
  for (let lookedAt = 0; lookedAt < LOOKED_AT; lookedAt += page) {
    if (lookedAt > 0) page = Math.min(PAGE, 2 * page);
    const { looked, upto } = await lookOn(db, replay, { cursor, last, limit: page, kept });
    for (const one of looked) {
      if (one.isSelected && found.length === size) return portion(cursor, false);
      if (one.isSelected) found.push(one);
      cursor = one.event;
    }
    if (upto === undefined) return portion(cursor, true);
    cursor = upto;
  }
  return portion(cursor, false);
}

type Looked = Readonly<{
  event: number;
  isSelected: number | boolean;
  /** The row that a delivery of a pack would have. */
  packed?: DeliveryRow;
}>;

type Look = Readonly<{ cursor: number; last: number; limit: number; kept: RetentionTimes }>;

type Page = Readonly<{
  looked: readonly Looked[];
  /** The last event looked at; undefined when none comes after it. */
  upto: number | undefined;
}>;

/** Rows read for each pack: packs hold between one delivery and a hundred. */
const ROWS_PER_PACK = 10;

const look = (include: Ended) => `
  SELECT d.event_id AS event, coalesce(${isSelected("?7")}, 0) AS isSelected
  FROM replays r CROSS JOIN (${next(include)}) d LEFT JOIN bundles b ON b.id = ${bundleIdOf("d.event_id")}
  WHERE r.id = ?1 ORDER BY d.event_id`;

const LOOK = { dead: look("dead"), delivered: look("delivered") };

const LOOK_AT_PACKS = `
  SELECT p.*, b.header, b.accepted_at, b.deliver_at
  FROM (SELECT * FROM ${deliveredPacks("(?1 + 1)", "?3")} ORDER BY bundle_id LIMIT ?4) p
  LEFT JOIN bundles b ON b.id = p.bundle_id ORDER BY p.bundle_id`;

/** The next deliveries after the cursor in rows and packs, as far as both have been read. */
async function lookOn(db: D1Database, replay: ReplayOf<Ended>, look: Look): Promise<Page> {
  const { id, destinationId, include } = replay;
  const { cursor, last, limit, kept } = look;
  const most = Math.ceil(limit / ROWS_PER_PACK);
  const bounds = [cursor, last, limit, kept.ms, JSON.stringify(kept.types)];
  const rows = db.prepare(LOOK[include]).bind(id, destinationId, ...bounds);
  const packed = db.prepare(LOOK_AT_PACKS).bind(cursor, destinationId, last, most);
  const results = await db.batch<RawRow>(include === "delivered" ? [rows, packed] : [rows]);
  const own = (results[0]?.results ?? []) as unknown as Looked[];
  const packs = results[1]?.results ?? [];
  const upto = lastLookedAt(own, limit, packs, most);
  const looked = [...own, ...packs.flatMap((raw) => lookedIn(raw, replay, kept))]
    .filter(({ event }) => event > cursor && event <= Math.min(last, upto ?? last))
    .toSorted((a, b) => a.event - b.event);
  return { looked, upto };
}

/** The delivered deliveries of a pack, each with whether it is selected; none of a bundle that an operator has removed. */
function lookedIn(raw: RawRow, replay: ReplayInsert, kept: RetentionTimes): Looked[] {
  const read = raw.header ? readHeader(String(raw.header)) : undefined;
  if (read?.kind !== "read") return [];
  const { eventTypes, tag, since, until, createdAt } = replay;
  const acceptedAt = Number(raw.accepted_at);
  const dueAt = Number(raw.deliver_at ?? acceptedAt);
  const asked = { types: eventTypes, tag: tag ?? undefined, accepted: { since, until } };
  const isMeant = (index: number) => {
    const about = detailsAt(read.header, index);
    return (
      about !== undefined &&
      isEventWanted(asked, { ...about, acceptedAt }) &&
      dueAt > createdAt - keptMsOf(kept, about.type) &&
      !about.isErased
    );
  };
  return packsOf([raw])
    .flatMap((pack) => packedRows(pack, null))
    .filter(({ state }) => state === "delivered")
    .map((row) => {
      const isSelected = (row.endedAt ?? 0) <= createdAt && isMeant(indexOf(row.eventId));
      return { event: row.eventId, isSelected, packed: row };
    });
}

/** SQL: whether the replay is still running at the cursor that the portion was found from. */
const isAt = (cursor: string) =>
  `EXISTS (SELECT 1 FROM replays WHERE id = ?2 AND state = 'running' AND cursor = ${cursor})`;

const REQUEUE_ROWS = `
  UPDATE deliveries SET ${requeued("?1")}, reason = 'replayed', replay = ?2
  WHERE destination_id = ?3 AND event_id IN (SELECT value FROM json_each(?4)) AND state = ?5
    AND ended_at <= ?6 AND ${isAt("?7")}`;

const replayed = { list: "?3", reason: "'replayed'", replay: "?2", giveUpAt: "?1", mask: deliveredOf };
const REQUEUE_PACKED = `${requeuePacked(replayed)} AND ${isAt("?4")} ON CONFLICT DO NOTHING`;

/** By as many as the statement before it has requeued. */
const COUNT_REQUEUED = `
  UPDATE replays SET requeued = requeued + changes() WHERE id = ?1 AND state = 'running' AND cursor = ?2`;

const ADVANCE = `
  UPDATE replays SET cursor = ?3, requeued = requeued + changes(), pace = ?4, next_step_at = ?5, state = ?6,
    reason = ?7, updated_at = ?8, ended_at = ?9
  WHERE id = ?1 AND state = 'running' AND cursor = ?2`;

/**
 * Requeues or plans a portion, and changes the replay, in one transaction. False when the replay was not, or no longer, running at
 * this cursor: then nothing has changed.
 * @param giveUpAt the age limit of the requeued deliveries until their first attempt, epoch ms
 */
export async function advanceReplay(
  db: D1Database,
  replay: Replay,
  {
    events,
    packed,
    plans,
    cursor,
    ordering,
  }: Omit<Portion, "isLast"> & Readonly<{ ordering?: Ordering | null }>,
  after: Required<ReplayChange>,
  giveUpAt: number,
  now: number,
): Promise<boolean> {
  const { id, destinationId, include, createdAt, cursor: from } = replay;
  const { pace, nextStepAt, state, reason, endedAt } = after;
  const bound = (sql: string, ...values: unknown[]) => db.prepare(sql).bind(...values);
  const ofPacks = () => [
    bound(COUNT_REQUEUED, id, from),
    bound(REQUEUE_PACKED, giveUpAt, id, JSON.stringify(packed), from),
  ];
  const ofRows = () =>
    bound(REQUEUE_ROWS, giveUpAt, id, destinationId, JSON.stringify(events), include, createdAt, from);
  const requeue = plans
    ? planning(db, replay, plans, giveUpAt, isAt("?4"))
    : [ofRows(), ...(packed.length > 0 ? ofPacks() : [])];
  const results = await db.batch([
    ...requeue,
    bound(ADVANCE, id, from, cursor, pace, nextStepAt, state, reason, now, endedAt),
    ...enteringLines(db, replay, events, ordering ?? null),
  ]);
  return (results[requeue.length]?.meta.changes ?? 0) > 0;
}

// ── Parts in several databases: see replays.ts ──

/** The part of a replay in a database: `replay` is the row in `db`. */
export type ReplayPart = Readonly<{ db: D1Database; replay: Replay }>;

/** The parts in the order in which they are worked off. Inserts those that are missing. */
export async function replayPartsOf(
  { db: first, further = [] }: Databases,
  job: Replay,
  kept: RetentionTimes,
): Promise<readonly ReplayPart[]> {
  const others = further.map(async (db) => {
    const [known] = await partsIn(db, [job.id]);
    const replay = known ?? (await beginPart(db, job, kept));
    return replay ? [{ db, replay }] : [];
  });
  return [...(await Promise.all(others)).flat(), { db: first, replay: job }];
}

/** The first database allows a destination one replay at a time, so parts of earlier replays that are left here are over. */
const CANCEL_OTHERS = `
  UPDATE replays SET state = 'cancelled' WHERE destination_id = ?1 AND id <> ?2 AND ${IS_UNDER_WAY}`;

async function beginPart(db: D1Database, job: Replay, kept: RetentionTimes): Promise<Replay | undefined> {
  const range = await idRangeOf(db, job);
  await db.prepare(CANCEL_OTHERS).bind(job.destinationId, job.id).run();
  return beginReplay(db, { ...job, cursor: range.first - 1 }, range, LARGEST, kept);
}
