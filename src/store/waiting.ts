/**
 * Waiting deliveries: which destinations have some, how many, which of them a drain should send, and how they end
 * without an attempt.
 *
 * Raw SQL, because every statement has to name the partial index that it walks: without it the planner would walk the
 * primary key, with all that was ever delivered to a destination. Every count and every page is bounded.
 */

import { bundleOf, type DeliveryKey, eventAt, lastEventOf } from "../core/bundle.ts";
import { type DrainRange, inClasses, interleaved } from "../core/drain-scheduler.ts";
import { indexesIn } from "../core/pack.ts";
import { portionsOf } from "../core/portions.ts";
import type { CancelReason, DeadReason } from "../core/reasons.ts";
import { inShares } from "./bundles.ts";
import { modelOf, type RawRow } from "./columns.ts";
import { addedUp, type Databases, select, selectInAll } from "./databases.ts";
import type { DeliveryRow } from "./delivery.ts";
import { type Destination, destinations, LISTED_DESTINATIONS } from "./destination.ts";
import { behindIn, HELD_KEYS, namesOf, parkedIn } from "./lines.ts";
import { packedRows, packsOf, settingBits, WITHOUT_ATTEMPT } from "./packs.ts";
import { countFailed, isStill, type StillState } from "./record.ts";
import {
  anyOf,
  bundleIdOf,
  countIn,
  countUpTo,
  HAS_WAITING,
  hasBit,
  WAITING_PACKS,
  WAITING_ROWS,
  waitingOf,
} from "./sql.ts";
import type { PackRow } from "./tables.ts";

/** Sorts behind every id of a destination. */
const AFTER_ALL = "'~'";

/** SQL: the first destination after an id that has waiting deliveries. Two index seeks, however many they are. */
export function nextWaiting(after: string): string {
  return `nullif(min(
    coalesce((SELECT min(destination_id) FROM deliveries WHERE state = 'waiting' AND destination_id > ${after}), ${AFTER_ALL}),
    coalesce((SELECT min(destination_id) FROM packs WHERE ${HAS_WAITING} AND destination_id > ${after}), ${AFTER_ALL})
  ), ${AFTER_ALL})`;
}

const FOUND = `
  WITH RECURSIVE found (id) AS (
    SELECT ${nextWaiting("?1")}
    UNION ALL SELECT ${nextWaiting("found.id")} FROM found WHERE found.id IS NOT NULL LIMIT ?2
  )`;

const DESTINATION_IDS = `${FOUND} SELECT id FROM found WHERE id IS NOT NULL`;

export type WaitingDestination = Readonly<{ id: string; tenant: string; paused: boolean; deleted: boolean }>;

/** Databases read at once: of more than a few, long pages would not fit into memory together. */
const READ_AT_ONCE = 6;

type WaitingPage = Readonly<{
  /** In order. */
  ids: readonly string[];
  /** Whether no other comes after them. */
  isLast: boolean;
}>;

/**
 * Up to `limit` destinations after the id `after` that have waiting deliveries in any of the databases. It costs four rows
 * read at most for each, and each database.
 */
export async function waitingDestinations(
  databases: readonly D1Database[],
  after: string,
  limit: number,
): Promise<WaitingPage> {
  let page: WaitingPage = { ids: [], isLast: true };
  for (const some of portionsOf(databases, READ_AT_ONCE)) {
    const found = await Promise.all(
      some.map((db) => select<{ id: string }>(db, DESTINATION_IDS, after, limit)),
    );
    const ids = [...page.ids, ...found.flat().map(({ id }) => id)];
    const together = [...new Set(ids)].sort();
    page = {
      ids: together.slice(0, limit),
      isLast: page.isLast && together.length <= limit && found.every((rows) => rows.length < limit),
    };
  }
  return page;
}

const STATUSES = `SELECT d.id, d.tenant, d.status, d.deleted_at FROM ${LISTED_DESTINATIONS}`;

/** The destinations with their statuses, in the order given. One whose row an operator removed counts as deleted. */
export async function standingDestinations(
  { db }: Databases,
  ids: readonly string[],
): Promise<WaitingDestination[]> {
  if (ids.length === 0) return [];
  const rows = new Map((await select<RawRow>(db, STATUSES, ids)).map((row) => [row.id, row]));
  return ids.map((id) => {
    const row = rows.get(id);
    const deleted = row === undefined || row.deleted_at !== null;
    return { id, tenant: String(row?.tenant ?? ""), paused: row?.status === "paused", deleted };
  });
}

const BY_REASON = `
  SELECT reason, sum(count) AS count FROM (
    SELECT * FROM (SELECT reason, 1 AS count FROM ${WAITING_ROWS} AND destination_id = ?1 LIMIT ?2)
    UNION ALL
    SELECT * FROM (SELECT reason, ${countIn(waitingOf())} FROM ${WAITING_PACKS} AND destination_id = ?1 LIMIT ?2))
  GROUP BY reason ORDER BY reason`;

/** How many deliveries wait for which reason, among the first `limit` rows and packs of each database. */
export async function waitingByReason(
  databases: Databases,
  destination: string,
  limit: number,
): Promise<Record<string, number>> {
  type Row = { reason: string; count: number };
  const counts = await selectInAll<Row>(databases, BY_REASON, destination, limit);
  return Object.fromEntries(addedUp(counts.map(({ reason, count }) => [reason, count])));
}

const COUNT = `SELECT ${waitingCount("?1", "?2")} AS n`;

/** SQL: how many deliveries wait for a destination, within a bounded number of rows and packs. */
export function waitingCount(destination: string, limit: string): string {
  return `${countUpTo(limit, `${WAITING_ROWS} AND destination_id = ${destination}`)}
    + (SELECT coalesce(sum(count), 0) FROM (SELECT ${countIn(waitingOf())} AS count
      FROM ${WAITING_PACKS} AND destination_id = ${destination} LIMIT ${limit}))`;
}

/** How many deliveries wait for the destination; `limit` means that there may be more. */
export async function countWaiting(
  databases: Databases,
  destination: string,
  limit: number,
): Promise<number> {
  const counted = await selectInAll<{ n: number }>(databases, COUNT, destination, limit);
  return counted.reduce((sum, { n }) => Math.min(limit, sum + n), 0);
}

// ── Deliveries for a drain to send ──

const DESTINATION = "SELECT * FROM destinations WHERE id = ?1";

const ROWS = `${WAITING_ROWS} AND destination_id = ?1`;
const PACKS = `${WAITING_PACKS} AND destination_id = ?1`;

/** The attempts are a column of the index, so that only the index is read. */
const rowsFrom = (end: "ASC" | "DESC", limit: number) =>
  `SELECT event_id, attempts FROM ${ROWS} ORDER BY event_id ${end} LIMIT ${limit}`;

/** From a point between the oldest id and the newest on: `?2` is 0 for the one and 1 for the other. */
const pointIn = (source: string, id: string) => `
  SELECT oldest + CAST((newest - oldest) * ?2 AS INTEGER) FROM (
    SELECT (SELECT min(${id}) FROM ${source}) AS oldest, (SELECT max(${id}) FROM ${source}) AS newest)`;

const rowsBetween = (limit: number) => `
  SELECT event_id, attempts FROM ${ROWS} AND event_id >= (${pointIn(ROWS, "event_id")})
  ORDER BY event_id LIMIT ${limit}`;

/**
 * The packs after a bundle, or before it, until they hold the requested number of waiting deliveries. Each step of the
 * recursion seeks the next pack, so no more packs are read than are needed.
 */
const packsBeyond = (bundle: string, next: string, count: number) => `
  WITH RECURSIVE walk (bundle, waiting0, waiting1, held) AS (
    SELECT ${bundle}, 0, 0, 0
    UNION ALL
    SELECT p.bundle_id, p.waiting0, p.waiting1, walk.held + ${countIn(waitingOf("p"))}
    FROM walk JOIN packs p ON p.destination_id = ?1 AND p.bundle_id = (${next})
    WHERE walk.held < ${count}
  )
  SELECT bundle, waiting0, waiting1 FROM walk WHERE waiting0 | waiting1`;

const LATER = `SELECT min(bundle_id) FROM ${PACKS} AND bundle_id > walk.bundle`;
const EARLIER = `SELECT max(bundle_id) FROM ${PACKS} AND bundle_id < walk.bundle`;

/** SQL: a column with the rows of a look at deliveries, and one with those of a look at packs, as JSON. */
const columnsOf = (name: Look, rows: string, packs: string) => `
  (SELECT json_group_array(json_array(event_id, attempts)) FROM (${rows})) AS ${name},
  (SELECT json_group_array(json_array(bundle, waiting0, waiting1)) FROM (${packs})) AS ${name}_packs`;

/**
 * One statement, because an invocation's queries are limited, and a drain looks into every database at each step. Its
 * numbers are no parameters: SQLite compiles a statement anew when one of a `LIMIT` changes, which takes longer than
 * running this one.
 */
function lookSql({ perEnd, between }: DrainRange): string {
  const beforeAll = packsBeyond("-1", LATER, perEnd);
  const afterAll = packsBeyond(`${Number.MAX_SAFE_INTEGER}`, EARLIER, perEnd);
  const columns = [
    columnsOf("oldest", rowsFrom("ASC", perEnd), beforeAll),
    columnsOf("newest", rowsFrom("DESC", perEnd), afterAll),
  ];
  if (between > 0) {
    const fromPoint = packsBeyond(`(${pointIn(PACKS, "bundle_id")}) - 1`, LATER, between);
    columns.push(columnsOf("middle", rowsBetween(between), fromPoint));
  }
  return `SELECT ${columns.join(",")}`;
}

const LOOKS = ["oldest", "newest", "middle"] as const;
type Look = (typeof LOOKS)[number];

/** A row of the statement; without `middle` when nothing between the ends is requested. */
type Looked = Readonly<Partial<Record<Look | `${Look}_packs`, string>>>;

export type Waiting = Readonly<{
  destination: Destination | undefined;
  events: readonly number[];
  /**
   * Orders by the number of attempts, so that the probes of an outage are spread over many deliveries instead of using
   * up the attempts of a few and lengthening their backoff.
   */
  probe: number | undefined;
  /** Whether these are all that wait. */
  isAll: boolean;
}>;

type Found = Readonly<{ event_id: number; attempts: number }>;

/**
 * The destination, and events that wait for it, in the order in which they should be sent. Four classes take turns:
 * deliveries without an attempt and with attempts, each from the oldest on and from the newest back. So neither old nor
 * failed deliveries starve beside new traffic, and a new delivery does not queue behind a million others. Which class
 * goes first is random, because a slow rate admits only one at a time. Databases take turns too. Events between the
 * oldest and the newest come last.
 * @param random in [0, 1): chooses the class, and the point between the oldest and the newest
 */
export async function lookAtWaiting(
  databases: Databases,
  destination: string,
  range: DrainRange,
  random: () => number,
): Promise<Waiting> {
  const { db: first, further = [] } = databases;
  const look = lookFor(destination, range, random);
  const [[stored, found], ...others] = await Promise.all([
    first.batch<RawRow>([first.prepare(DESTINATION).bind(destination), look(first)]),
    ...further.map((db) => look(db).first<Looked>()),
  ]);
  const lists = [found?.results[0] as Looked | undefined, ...others].map((looked) => looksIn(looked ?? {}));
  const [oldest = [], newest = [], between = []] = LOOKS.map((_, which) =>
    interleaved(lists.map((looks) => looks[which]?.events ?? [])),
  );
  const ends = interleaved(inClasses(oldest, newest, random()).map(byBundle)).flat();
  const each = [...new Map([...ends, ...between].map((one) => [one.event_id, one])).values()];
  const row = stored?.results[0];
  return {
    destination: row && modelOf(destinations, row),
    events: each.map((one) => one.event_id),
    probe: each.reduce<Found | undefined>((a, b) => (a && a.attempts <= b.attempts ? a : b), undefined)
      ?.event_id,
    isAll: lists.every(([first]) => first && first.rows < range.perEnd && first.packed < range.perEnd),
  };
}

/** By the looks: oldest, newest, middle. */
function looksIn(looked: Looked) {
  return LOOKS.map((look) => {
    const rows = (JSON.parse(looked[look] ?? "[]") as [number, number][]).map(([event_id, attempts]) => ({
      event_id,
      attempts,
    }));
    const packed = foundIn(JSON.parse(looked[`${look}_packs`] ?? "[]"));
    const direction = look === "newest" ? -1 : 1;
    const events = [...rows, ...packed].sort((a, b) => direction * (a.event_id - b.event_id));
    return { events, rows: rows.length, packed: packed.length };
  });
}

/** The statement that looks into a database, at the same point between the oldest and the newest in each. */
function lookFor(destination: string, range: DrainRange, random: () => number) {
  const sql = lookSql(range);
  const values = range.between === 0 ? [destination] : [destination, random()];
  return (db: D1Database) => db.prepare(sql).bind(...values);
}

/** The waiting deliveries of the packs (bundle, and the bits of both halves), in the order of the packs. */
function foundIn(packs: readonly (readonly [number, number, number])[]): Found[] {
  return packs.flatMap(([bundle, ...waiting]) =>
    indexesIn(waiting).map((index) => ({ event_id: eventAt(bundle, index), attempts: 0 })),
  );
}

/** Events of one bundle together, so that it is loaded once for all of them that a lease covers. */
function byBundle(list: readonly Found[]): Found[][] {
  return [...Map.groupBy(list, ({ event_id }) => bundleOf(event_id)).values()];
}

// ── Ends without an attempt: expired, cancelled, or event removed ──

type End = Readonly<{
  state: "dead" | "cancelled";
  reason: DeadReason | CancelReason;
  /** Ends only deliveries whose age limit is at or before this, epoch ms. */
  dueBy?: number;
}>;

const endSql = (state: StillState) => `
  UPDATE deliveries SET state = ?2, reason = ?3, next_attempt_at = NULL, ended_at = ?4
  WHERE ${isStill(state, "?1", "?5")}`;

const END = { waiting: endSql("waiting"), retrying: endSql("retrying") };

/** How many rows the statement before it has changed. Unlike the count in D1's answer, it leaves out what triggers change. */
const CHANGED = "SELECT changes() AS n";

/** Deliveries that wait in packs get rows of their own; the trigger clears their bits. */
const END_PACKED = `
  INSERT INTO deliveries (destination_id, event_id, state, reason, give_up_at, ended_at)
  SELECT p.destination_id, w.value ->> 1, ?2, ?3, p.give_up_at, ?4
  FROM json_each(?1) w CROSS JOIN packs p
    ON p.destination_id = w.value ->> 0 AND p.bundle_id = ${bundleIdOf("(w.value ->> 1)")}
  WHERE p.give_up_at <= ?5 AND ${hasBit(waitingOf("p"), "(w.value ->> 1)")}
  ON CONFLICT DO NOTHING RETURNING 1`;

/** Ends those of the deliveries that still wait, and counts them in their replays; returns how many. */
export async function endWaiting(db: D1Database, deliveries: readonly DeliveryKey[], end: End, now: number) {
  return (await endStill(db, deliveries, end, now)).count;
}

type Ended = Readonly<{
  count: number;
  /** Dead deliveries of the list that hold their lines. */
  held: readonly DeliveryKey[];
}>;

async function endStill(
  db: D1Database,
  deliveries: readonly DeliveryKey[],
  { state, reason, dueBy = Number.MAX_SAFE_INTEGER }: End,
  now: number,
  still: StillState = "waiting",
): Promise<Ended> {
  if (deliveries.length === 0) return { count: 0, held: [] };
  const names = JSON.stringify(namesOf(deliveries));
  const values = [names, state, reason, now, dueBy];
  const [, , ended, packed, held] = await db.batch<Record<string, unknown>>([
    countFailed(db, still, names, dueBy),
    db.prepare(END[still]).bind(...values),
    db.prepare(CHANGED),
    ...(still === "waiting" ? [db.prepare(END_PACKED).bind(...values)] : []),
    ...(state === "dead" ? [db.prepare(HELD_KEYS).bind(names)] : []),
  ]);
  const count = Number(ended?.results[0]?.n ?? 0) + (packed?.results.length ?? 0);
  return { count, held: (held?.results ?? []) as unknown as DeliveryKey[] };
}

/** Cancels those of a deleted destination's deliveries that are still to be retried, and counts them in their replays. */
export async function cancelRetrying(
  db: D1Database,
  destination: string,
  events: readonly number[],
  now: number,
): Promise<number> {
  return (await endStill(db, keysOf(destination, events), DELETED, now, "retrying")).count;
}

const ROWS_AFTER = `
  SELECT event_id AS event, state = 'retrying' AND reason IS NOT 'in_flight' AS isRetrying
  FROM deliveries WHERE destination_id = ?1 AND event_id > ?2 ORDER BY event_id LIMIT ?3`;

export type MeantPage<Place> = Readonly<{
  /** The events of those that are meant. */
  events: readonly number[];
  /** The last place looked at; undefined when none comes after it. */
  upto: Place | undefined;
}>;

/**
 * The destination's deliveries that are to be retried, among its next `limit` rows after an event. The retries of all
 * destinations have an index, by time; one by destination would cost each retry two more written rows.
 */
export async function retryingPage(
  db: D1Database,
  destination: string,
  after: number,
  limit: number,
): Promise<MeantPage<number>> {
  type Row = Readonly<{ event: number; isRetrying: number }>;
  const rows = await select<Row>(db, ROWS_AFTER, destination, after, limit);
  return {
    events: rows.filter(({ isRetrying }) => isRetrying === 1).map(({ event }) => event),
    upto: rows.length < limit ? undefined : rows.at(-1)?.event,
  };
}

const SOME = "SELECT event_id FROM deliveries WHERE destination_id = ?1 AND state = 'waiting' LIMIT ?2";

const SOME_PACKS = `SELECT * FROM ${PACKS} LIMIT ?2`;

const DELETED = { state: "cancelled", reason: "destination_deleted" } as const;

/** A pack is cancelled about as quickly as this many rows. */
const ROWS_PER_PACK = 10;

/** Cancels the waiting deliveries of a deleted destination, and those in its lines, in up to `limit` rows and a tenth as many packs; returns how many. */
export async function cancelWaitingDeliveries(
  db: D1Database,
  destination: string,
  now: number,
  limit: number,
): Promise<number> {
  const [some, found, parked] = await db.batch<RawRow>([
    db.prepare(SOME).bind(destination, limit),
    db.prepare(SOME_PACKS).bind(destination, Math.ceil(limit / ROWS_PER_PACK)),
    parkedIn(db, destination, limit),
  ]);
  const events = (some?.results ?? []).map(({ event_id }) => Number(event_id));
  const behind = (parked?.results ?? []).map((raw) => cancelledRow(raw, destination, now));
  const packed = packsOf(found?.results ?? []).flatMap((pack) => cancelledRows(pack, now));
  const each = new Map([...packed, ...behind].map((row) => [row.eventId, row]));
  const waiting = [...each.values()];
  for (const statement of settingBits(db, waiting)) await statement.run();
  return waiting.length + (await endWaiting(db, keysOf(destination, events), DELETED, now));
}

/** Cancels up to `limit` deliveries of a deleted destination that stand behind others in their lines; returns how many. */
export async function cancelStandingBehind(
  db: D1Database,
  destination: string,
  now: number,
  limit: number,
): Promise<number> {
  const { results } = await behindIn(db, destination, limit).all<RawRow>();
  const behind = results.map((raw) => cancelledRow(raw, destination, now));
  for (const statement of settingBits(db, behind)) await statement.run();
  return behind.length;
}

function cancelledRow({ eventId, giveUpAt }: RawRow, destinationId: string, now: number): DeliveryRow {
  const ids = { destinationId, eventId: Number(eventId), giveUpAt: Number(giveUpAt) };
  return { ...WITHOUT_ATTEMPT, ...DELETED, ...ids, endedAt: now };
}

/** The waiting deliveries of the pack as cancelled ones. Those in flight by now are not affected: see `settingBits`. */
function cancelledRows(pack: PackRow, now: number): DeliveryRow[] {
  const waiting = packedRows(pack, null).filter(({ state }) => state === "waiting");
  return waiting.map((row) => ({ ...row, ...DELETED, nextAttemptAt: null, endedAt: now }));
}

/** Ends waiting deliveries of events that an operator removed, which cannot be sent; returns how many. */
export async function endRemoved(
  databases: Databases,
  destination: string,
  events: readonly number[],
  now: number,
): Promise<number> {
  const end = { state: "dead", reason: "event_removed" } as const;
  const counts = await inShares(databases, events, async (db, share) => [
    await endWaiting(db, keysOf(destination, share), end, now),
  ]);
  return counts.reduce((sum, count) => sum + count, 0);
}

const NEXT = `
  SELECT destination_id AS destinationId, event_id AS eventId, give_up_at AS giveUpAt
  FROM ${WAITING_ROWS} AND (destination_id, event_id) > (?1, ?2) ORDER BY destination_id, event_id LIMIT ?3`;

const NEXT_PACKS = `
  SELECT * FROM ${WAITING_PACKS} AND (destination_id, bundle_id) > (?1, ?2)
  ORDER BY destination_id, bundle_id LIMIT ?3`;

type Expired = Readonly<{
  /** The last delivery read; undefined when none comes after it. */
  upto: DeliveryKey | undefined;
  /** Rows or packs read. */
  looked: number;
  /** How many deliveries have ended, by destination. */
  ended: ReadonlyMap<string, number>;
  /** The subset that holds its lines. */
  held: readonly DeliveryKey[];
}>;

/** Looks at the next `limit` waiting rows of all destinations, and ends those whose age limit is over. */
export async function expireWaiting(
  db: D1Database,
  after: DeliveryKey,
  now: number,
  limit: number,
): Promise<Expired> {
  type Row = DeliveryKey & { giveUpAt: number };
  const rows = await select<Row>(db, NEXT, after.destinationId, after.eventId, limit);
  const over = rows.filter(({ giveUpAt }) => giveUpAt <= now);
  return {
    upto: rows.length < limit ? undefined : rows.at(-1),
    looked: rows.length,
    ...(await expired(db, over, now)),
  };
}

/** No more packs are read once this many deliveries are to be ended by one statement. */
const ENDED = 2_000;

/** The same for packs. `after` and `upto` name the last event of a bundle. */
export async function expireWaitingPacks(
  db: D1Database,
  after: DeliveryKey,
  now: number,
  limit: number,
): Promise<Expired> {
  const place = [after.destinationId, bundleOf(after.eventId)];
  const found = packsOf(await select<RawRow>(db, NEXT_PACKS, ...place, limit));
  const over: DeliveryKey[] = [];
  let looked = 0;
  for (const pack of found) {
    if (over.length >= ENDED) break;
    looked += 1;
    if ((pack.giveUpAt ?? 0) > now) continue;
    for (const index of indexesIn([pack.waiting0, pack.waiting1]))
      over.push({ destinationId: pack.destinationId, eventId: eventAt(pack.bundleId, index) });
  }
  const last = found[looked - 1];
  const isEnd = looked === found.length && found.length < limit;
  const upto = last && { destinationId: last.destinationId, eventId: lastEventOf(last.bundleId) };
  return { upto: isEnd ? undefined : upto, looked, ...(await expired(db, over, now)) };
}

const NEXT_BEHIND = `
  SELECT destination_id AS destinationId, line, event_id AS eventId, give_up_at AS giveUpAt FROM lines
  WHERE (destination_id, line, event_id) > (?1, ?2, ?3) ORDER BY destination_id, line, event_id LIMIT ?4`;

/** Deliveries `[destination, event, line]` that stand behind others, and nothing else is stored of. */
const EXPIRE_BEHIND = `
  INSERT INTO deliveries (destination_id, event_id, state, reason, give_up_at, ended_at)
  SELECT n.destination_id, n.event_id, 'dead', 'expired', n.give_up_at, ?2
  FROM json_each(?1) w CROSS JOIN lines n
    ON n.destination_id = w.value ->> 0 AND n.line = w.value ->> 2 AND n.event_id = w.value ->> 1
  WHERE n.event_id > (SELECT min(event_id) FROM lines WHERE destination_id = n.destination_id AND line = n.line)
    AND NOT EXISTS (SELECT 1 FROM packs p WHERE p.destination_id = n.destination_id
      AND p.bundle_id = ${bundleIdOf("n.event_id")} AND ${hasBit(anyOf("p"), "n.event_id")})
  ON CONFLICT DO NOTHING RETURNING destination_id AS destinationId`;

/** Separates a destination from its line. */
const SEPARATOR = " ";

/**
 * The same for deliveries that stand behind others of their lines: nothing comes to those behind a dead one that holds its
 * line, or to those of a paused destination. `after` and `upto` name a line with its destination.
 */
export async function expireBehind(
  db: D1Database,
  after: DeliveryKey,
  now: number,
  limit: number,
): Promise<Expired> {
  type Row = DeliveryKey & { line: string; giveUpAt: number };
  const [destination = "", line = ""] = after.destinationId.split(SEPARATOR);
  const rows = await select<Row>(db, NEXT_BEHIND, destination, line, after.eventId, limit);
  const last = rows.length < limit ? undefined : rows.at(-1);
  const upto = last && {
    destinationId: `${last.destinationId}${SEPARATOR}${last.line}`,
    eventId: last.eventId,
  };
  const over = rows.filter(({ giveUpAt }) => giveUpAt <= now);
  if (over.length === 0) return { upto, looked: rows.length, ended: new Map(), held: [] };
  const names = JSON.stringify(over.map((one) => [one.destinationId, one.eventId, one.line]));
  const [ended, held] = await db.batch<DeliveryKey>([
    db.prepare(EXPIRE_BEHIND).bind(names, now),
    db.prepare(HELD_KEYS).bind(names),
  ]);
  return {
    upto,
    looked: rows.length,
    ended: addedUp((ended?.results ?? []).map(({ destinationId }) => [destinationId, 1])),
    held: held?.results ?? [],
  };
}

/** By destination. If some were sent meanwhile, which ones is not looked up: the counts are for logs. */
async function expired(
  db: D1Database,
  over: readonly DeliveryKey[],
  now: number,
): Promise<Pick<Expired, "ended" | "held">> {
  const { count, held } = await endStill(db, over, { state: "dead", reason: "expired", dueBy: now }, now);
  const ended = count === 0 ? [] : [...Map.groupBy(over, ({ destinationId }) => destinationId)];
  return { ended: new Map(ended.map(([destination, theirs]) => [destination, theirs.length])), held };
}

function keysOf(destinationId: string, events: readonly number[]): DeliveryKey[] {
  return events.map((eventId) => ({ destinationId, eventId }));
}
