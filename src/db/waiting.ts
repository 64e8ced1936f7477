/** What waits in D1: found for the sweep and for people. For a drain: waiting-look.ts. How it ends: waiting-ends.ts. */

import { bundleOf, type DeliveryName, eventAt } from "../core/bundle.ts";
import type { DrainRange } from "../core/drain-scheduler.ts";
import { indexesIn } from "../core/pack.ts";
import { bundleIdOf } from "./bundles.ts";
import { modelOf, type RawRow } from "./columns.ts";
import type { Destination } from "./destinations.ts";
import { countIn, hasBit, packedRows, packsOf, settingBits, WAITS, waitingOf } from "./packs.ts";
import { countFailed } from "./replay-counters.ts";
import { type DeliveryRow, destinations, type PackRow } from "./schema.ts";
import { addedUp, allOf, type Databases, sharesOf, sumOver } from "./shards.ts";

/** Behind every id of a destination, in order. */
const BEHIND_ALL = "'~'";

/** SQL of the first destination after an id for which something waits: two index steps, however much it is. */
export function nextWaiting(after: string): string {
  return `nullif(min(
    coalesce((SELECT min(destination_id) FROM deliveries WHERE state = 'waiting' AND destination_id > ${after}), ${BEHIND_ALL}),
    coalesce((SELECT min(destination_id) FROM packs WHERE ${WAITS} AND destination_id > ${after}), ${BEHIND_ALL})
  ), ${BEHIND_ALL})`;
}

const FOUND = `
  WITH RECURSIVE found (id) AS (
    SELECT ${nextWaiting("?1")}
    UNION ALL SELECT ${nextWaiting("found.id")} FROM found WHERE found.id IS NOT NULL LIMIT ?2
  )`;

const DESTINATION_IDS = `${FOUND} SELECT id FROM found WHERE id IS NOT NULL`;

export type WaitingDestination = Readonly<{ id: string; tenant: string; paused: boolean; deleted: boolean }>;

export type WaitingPage = Readonly<{
  /** In order of their ids. One whose row somebody has removed counts as deleted. */
  destinations: readonly WaitingDestination[];
  /** Whether there is none after them. */
  isLast: boolean;
}>;

/** Up to `limit` destinations for which something waits in any database, from the id `after` on. */
export async function waitingDestinations(
  databases: Databases,
  after: string,
  limit: number,
): Promise<WaitingPage> {
  const found = await Promise.all(
    allOf(databases).map((db) => db.prepare(DESTINATION_IDS).bind(after, limit).all<{ id: string }>()),
  );
  const ids = [...new Set(found.flatMap(({ results }) => results.map(({ id }) => id)))].sort();
  return {
    destinations: await standingDestinations(databases, ids.slice(0, limit)),
    isLast: ids.length <= limit && found.every(({ results }) => results.length < limit),
  };
}

const STANDING = `
  SELECT d.id, d.tenant, d.status, d.deleted_at FROM json_each(?1) wanted CROSS JOIN destinations d ON d.id = wanted.value`;

/** How these destinations stand, in the order given. One whose row somebody has removed counts as deleted. */
export async function standingDestinations(
  { db }: Databases,
  ids: readonly string[],
): Promise<WaitingDestination[]> {
  if (ids.length === 0) return [];
  const { results } = await db.prepare(STANDING).bind(JSON.stringify(ids)).all<RawRow>();
  const rows = new Map(results.map((row) => [row.id, row]));
  return ids.map((id) => {
    const row = rows.get(id);
    const deleted = row === undefined || row.deleted_at !== null;
    return { id, tenant: String(row?.tenant ?? ""), paused: row?.status === "paused", deleted };
  });
}

/** The indexes are named, because the planner would rather walk all that the destination ever had. */
const BY_REASON = `
  SELECT reason, sum(count) AS count FROM (
    SELECT * FROM (SELECT reason, 1 AS count FROM deliveries INDEXED BY deliveries_waiting
      WHERE destination_id = ?1 AND state = 'waiting' LIMIT ?2)
    UNION ALL
    SELECT * FROM (SELECT reason, ${countIn(waitingOf())} FROM packs INDEXED BY packs_waiting
      WHERE destination_id = ?1 AND ${WAITS} LIMIT ?2))
  GROUP BY reason ORDER BY reason`;

/** How many waiting deliveries of the first `limit` rows and packs of each database were turned away for which reason. */
export async function waitingByReason(
  databases: Databases,
  destination: string,
  limit: number,
): Promise<Record<string, number>> {
  const counted = await Promise.all(
    allOf(databases).map((db) =>
      db.prepare(BY_REASON).bind(destination, limit).all<{ reason: string; count: number }>(),
    ),
  );
  const counts = counted.flatMap(({ results }) => results);
  return Object.fromEntries(addedUp(counts.map(({ reason, count }) => [reason, count])));
}

const COUNT = `SELECT ${waitingCount("?1", "?2")} AS n`;

/** SQL of how many deliveries wait for a destination, in rows and packs of which so many are looked at. */
export function waitingCount(destination: string, limit: string): string {
  return `(SELECT count(*) FROM (SELECT 1 FROM deliveries INDEXED BY deliveries_waiting
      WHERE destination_id = ${destination} AND state = 'waiting' LIMIT ${limit}))
    + (SELECT coalesce(sum(count), 0) FROM (SELECT ${countIn(waitingOf())} AS count FROM packs INDEXED BY packs_waiting
      WHERE destination_id = ${destination} AND ${WAITS} LIMIT ${limit}))`;
}

/** How many deliveries wait for the destination; `limit` stands for more. */
export async function countWaiting(
  databases: Databases,
  destination: string,
  limit: number,
): Promise<number> {
  const count = (db: D1Database) => db.prepare(COUNT).bind(destination, limit).first<number>("n");
  return Math.min(limit, await sumOver(databases, async (db) => (await count(db)) ?? 0));
}

// §§ A drain's look at what waits: along the indexes that hold nothing else, of rows and of packs, and the attempts that
// it needs to know: what waits in a pack has none. The indexes are named, because the planner would rather walk the
// tables, with all that was ever delivered.

const DESTINATION = "SELECT * FROM destinations WHERE id = ?1";

const WAITING = "deliveries INDEXED BY deliveries_waiting WHERE destination_id = ?1 AND state = 'waiting'";

const OLDEST = `SELECT event_id, attempts FROM ${WAITING} ORDER BY event_id LIMIT ?2`;
const NEWEST = `SELECT event_id, attempts FROM ${WAITING} ORDER BY event_id DESC LIMIT ?2`;

/** From so far on between the oldest and the newest: 0 is the one, 1 the other. */
const BETWEEN = `
  SELECT event_id, attempts FROM ${WAITING} AND event_id >= (
    SELECT oldest + CAST((newest - oldest) * ?3 AS INTEGER) FROM (
      SELECT (SELECT min(event_id) FROM ${WAITING}) AS oldest, (SELECT max(event_id) FROM ${WAITING}) AS newest))
  ORDER BY event_id LIMIT ?2`;

const WAITING_PACKS = `packs INDEXED BY packs_waiting WHERE destination_id = ?1 AND ${WAITS}`;

/** As many packs from a place on as hold so many waiting deliveries: each is one step, and found from the one before. */
const packsFrom = (first: string, next: string) => `
  WITH RECURSIVE walk (bundle, waiting0, waiting1, before) AS (
    SELECT bundle_id, waiting0, waiting1, 0 FROM packs WHERE destination_id = ?1 AND bundle_id = (${first})
    UNION ALL
    SELECT p.bundle_id, p.waiting0, p.waiting1, walk.before + ${countIn((half) => `walk.waiting${half}`)}
    FROM walk JOIN packs p ON p.destination_id = ?1 AND p.bundle_id = (${next})
    WHERE walk.before + ${countIn((half) => `walk.waiting${half}`)} < ?2
  )
  SELECT bundle, waiting0, waiting1 FROM walk`;

const LATER = `SELECT min(bundle_id) FROM ${WAITING_PACKS} AND bundle_id > walk.bundle`;
const EARLIER = `SELECT max(bundle_id) FROM ${WAITING_PACKS} AND bundle_id < walk.bundle`;

const OLDEST_PACKS = packsFrom(`SELECT min(bundle_id) FROM ${WAITING_PACKS}`, LATER);
const NEWEST_PACKS = packsFrom(`SELECT max(bundle_id) FROM ${WAITING_PACKS}`, EARLIER);
const PACKS_BETWEEN = packsFrom(
  `SELECT min(bundle_id) FROM ${WAITING_PACKS} AND bundle_id >= (
    SELECT oldest + CAST((newest - oldest) * ?3 AS INTEGER) FROM (
      SELECT (SELECT min(bundle_id) FROM ${WAITING_PACKS}) AS oldest,
        (SELECT max(bundle_id) FROM ${WAITING_PACKS}) AS newest))`,
  LATER,
);

type FoundPack = Readonly<{ bundle: number; waiting0: number; waiting1: number }>;

export type Waiting = Readonly<{
  destination: Destination | undefined;
  events: readonly number[];
  /**
   * The one of them that has been attempted least: an outage's probes are spread over many deliveries instead of
   * using up the attempts, and lengthening the backoff, of a few.
   */
  probe: number | undefined;
  /** Nothing else waits. */
  isAll: boolean;
}>;

type Found = Readonly<{ event_id: number; attempts: number }>;

/**
 * The destination, and the events that wait for it, in the order in which they should go. Four classes take turns:
 * what has never been attempted and what has, each from the oldest on and from the newest back. So neither what is
 * old nor what has failed starves beside new traffic, and what has just been turned away does not queue behind a
 * million others. Which class goes first is drawn, because a slow rate lets in one at a time. Databases take turns
 * too; what was found somewhere between the ends comes last.
 * @param random in [0, 1): draws the class, and the place between the ends where it is asked for
 */
export async function lookAtWaiting(
  databases: Databases,
  destination: string,
  reach: DrainRange,
  random: () => number,
): Promise<Waiting> {
  const { db: first, further = [] } = databases;
  const look = (db: D1Database) => looksOf(db, destination, reach, random);
  const [[places, ...found], ...others] = await Promise.all([
    first.batch<RawRow>([first.prepare(DESTINATION).bind(destination), ...look(first)]),
    ...further.map((db) => db.batch<RawRow>(look(db))),
  ]);
  const lists = [found, ...others].map((looks) => looksIn(looks.map(({ results }) => results)));
  const [oldest = [], newest = [], between = []] = [0, 1, 2].map((which) =>
    interleaved(lists.map((looks) => looks[which]?.events ?? [])),
  );
  const each = inTurn(oldest, newest, between, random());
  const row = places?.results[0];
  return {
    destination: row && modelOf(destinations, row),
    events: each.map((one) => one.event_id),
    probe: each.reduce<Found | undefined>((a, b) => (a && a.attempts <= b.attempts ? a : b), undefined)
      ?.event_id,
    isAll: lists.every(([first]) => first && first.rows < reach.perEnd && first.packed < reach.perEnd),
  };
}

type LookedAt = Readonly<{ events: readonly Found[]; rows: number; packed: number }>;

/** What the looks have found, which are half of rows, and half of packs: at the oldest, the newest, and between. */
function looksIn(results: readonly (readonly RawRow[])[]): LookedAt[] {
  const count = results.length / 2;
  return results.slice(0, count).map((rows, which) => {
    const packed = foundIn((results[count + which] ?? []) as unknown as FoundPack[]);
    const signal = which === NEWEST_LOOK ? -1 : 1;
    const events = [...(rows as unknown as Found[]), ...packed];
    events.sort((a, b) => signal * (a.event_id - b.event_id));
    return { events, rows: rows.length, packed: packed.length };
  });
}

const NEWEST_LOOK = 1;

/** Each of them once: the four classes of the ends in turn, beginning with the one that is drawn. */
function inTurn(
  oldest: readonly Found[],
  newest: readonly Found[],
  between: readonly Found[],
  drawn: number,
): readonly Found[] {
  const isNew = ({ attempts }: Found) => attempts === 0;
  const isOld = ({ attempts }: Found) => attempts > 0;
  const classes = [oldest.filter(isNew), newest.filter(isNew), oldest.filter(isOld), newest.filter(isOld)];
  const some = classes.filter((list) => list.length > 0);
  const start = Math.floor(drawn * some.length);
  const ends = interleaved([...some.slice(start), ...some.slice(0, start)].map(byBundle)).flat();
  return [...new Map([...ends, ...between].map((one) => [one.event_id, one])).values()];
}

/** Of rows, and then of packs. */
function looksOf(
  db: D1Database,
  destination: string,
  { perEnd, between }: DrainRange,
  random: () => number,
): D1PreparedStatement[] {
  const from = between > 0 ? random() : 0;
  const looks = (oldest: string, newest: string, middle: string) => [
    db.prepare(oldest).bind(destination, perEnd),
    db.prepare(newest).bind(destination, perEnd),
    ...(between > 0 ? [db.prepare(middle).bind(destination, between, from)] : []),
  ];
  return [...looks(OLDEST, NEWEST, BETWEEN), ...looks(OLDEST_PACKS, NEWEST_PACKS, PACKS_BETWEEN)];
}

/** What waits in the packs, in ascending order of the packs as they are. */
function foundIn(packs: readonly FoundPack[]): Found[] {
  return packs.flatMap(({ bundle, waiting0, waiting1 }) =>
    indexesIn([waiting0, waiting1]).map((index) => ({ event_id: eventAt(bundle, index), attempts: 0 })),
  );
}

/** Neighbours of one bundle together: it is loaded once for all of them that a lease takes. */
function byBundle(list: readonly Found[]): Found[][] {
  return [...Map.groupBy(list, ({ event_id }) => bundleOf(event_id)).values()];
}

/** The first of each list, then the second of each, and so on. */
function interleaved<T>(lists: readonly (readonly T[])[]): T[] {
  const longest = Math.max(...lists.map((list) => list.length));
  return Array.from({ length: longest }, (_, i) => lists.flatMap((list) => list.slice(i, i + 1))).flat();
}

// §§ The ends of what waits, without an attempt: its age limit is over, its destination is deleted, or its event
// is gone. Looked for first, then ended together with the count of the replays that set it to wait.

type End = Readonly<{
  state: "dead" | "cancelled";
  reason: string;
  /** Ends only what may not be delivered after this, epoch ms. */
  dueBy?: number;
}>;

const END = `
  UPDATE deliveries SET state = ?2, reason = ?3, next_attempt_at = NULL, ended_at = ?4
  WHERE (destination_id, event_id) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))
    AND state = 'waiting' AND give_up_at <= ?5`;

/** Those that wait in packs get rows of their own. */
const END_PACKED = `
  INSERT INTO deliveries (destination_id, event_id, state, reason, give_up_at, ended_at)
  SELECT p.destination_id, w.value ->> 1, ?2, ?3, p.give_up_at, ?4
  FROM json_each(?1) w CROSS JOIN packs p
    ON p.destination_id = w.value ->> 0 AND p.bundle_id = ${bundleIdOf("(w.value ->> 1)")}
  WHERE p.give_up_at <= ?5 AND ${hasBit(waitingOf("p"), "(w.value ->> 1)")}
  ON CONFLICT DO NOTHING RETURNING 1`;

/** Ends what still waits of these; returns how many. */
async function endWaiting(
  db: D1Database,
  deliveries: readonly DeliveryName[],
  { state, reason, dueBy = Number.MAX_SAFE_INTEGER }: End,
  now: number,
): Promise<number> {
  if (deliveries.length === 0) return 0;
  const names = JSON.stringify(deliveries.map(({ destination, event }) => [destination, event]));
  const values = [names, state, reason, now, dueBy];
  const [, ended, packed] = await db.batch([
    countFailed(db, names, dueBy),
    db.prepare(END).bind(...values),
    db.prepare(END_PACKED).bind(...values),
  ]);
  return (ended?.meta.changes ?? 0) + (packed?.results.length ?? 0);
}

const SOME = "SELECT event_id FROM deliveries WHERE destination_id = ?1 AND state = 'waiting' LIMIT ?2";

const SOME_PACKS = `SELECT * FROM packs INDEXED BY packs_waiting WHERE destination_id = ?1 AND ${WAITS} LIMIT ?2`;

/** So many packs are as quickly cancelled as ten times as many rows. */
const ROWS_PER_PACK = 10;

/** Cancels waiting deliveries of a deleted destination, those of up to `limit` rows and a tenth as many packs; returns how many. */
export async function cancelWaiting(
  db: D1Database,
  destination: string,
  now: number,
  limit: number,
): Promise<number> {
  const [some, found] = await db.batch<RawRow>([
    db.prepare(SOME).bind(destination, limit),
    db.prepare(SOME_PACKS).bind(destination, Math.ceil(limit / ROWS_PER_PACK)),
  ]);
  const events = (some?.results ?? []).map(({ event_id }) => Number(event_id));
  const end = { state: "cancelled", reason: "destination_deleted" } as const;
  const waiting = packsOf(found?.results ?? []).flatMap((pack) => cancelledRows(pack, now));
  if (waiting.length > 0) await settingBits(db, waiting).run();
  return waiting.length + (await endWaiting(db, keysOf(destination, events), end, now));
}

/** What waits in the pack, as it is to be: what has gone on its way meanwhile is left alone. */
function cancelledRows(pack: PackRow, now: number): DeliveryRow[] {
  const waiting = packedRows(pack, null).filter(({ state }) => state === "waiting");
  return waiting.map((row) => ({
    ...row,
    state: "cancelled",
    reason: "destination_deleted",
    nextAttemptAt: null,
    endedAt: now,
  }));
}

/** Ends those that wait of events that somebody has removed, for which nothing is left to send; how many. */
export async function endRemoved(
  databases: Databases,
  destination: string,
  events: readonly number[],
  now: number,
): Promise<number> {
  const shares = sharesOf(databases, events, (event) => event);
  const end = { state: "dead", reason: "event_removed" } as const;
  const buried = [...shares].map(([db, share]) => endWaiting(db, keysOf(destination, share), end, now));
  return (await Promise.all(buried)).reduce((sum, count) => sum + count, 0);
}

/** The indexes are named, because the planner would rather walk all that was ever delivered. */
const NEXT = `
  SELECT destination_id AS destination, event_id AS event, give_up_at AS giveUpAt
  FROM deliveries INDEXED BY deliveries_waiting
  WHERE state = 'waiting' AND (destination_id, event_id) > (?1, ?2) ORDER BY destination_id, event_id LIMIT ?3`;

const NEXT_PACKS = `
  SELECT * FROM packs INDEXED BY packs_waiting
  WHERE ${WAITS} AND (destination_id, bundle_id) > (?1, ?2) ORDER BY destination_id, bundle_id LIMIT ?3`;

export type Expired = Readonly<{
  /** The last one looked at; undefined when there is none after it. */
  upto: DeliveryName | undefined;
  /** Rows or packs. */
  looked: number;
  /** How many have ended, by destination. */
  ended: ReadonlyMap<string, number>;
}>;

/** Ends those of the next `limit` waiting deliveries with rows, of all destinations, whose age limit is over. */
export async function expireWaiting(
  db: D1Database,
  after: DeliveryName,
  now: number,
  limit: number,
): Promise<Expired> {
  type Row = DeliveryName & { giveUpAt: number };
  const { results } = await db.prepare(NEXT).bind(after.destination, after.event, limit).all<Row>();
  const over = results.filter(({ giveUpAt }) => giveUpAt <= now);
  return {
    upto: results.length < limit ? undefined : results.at(-1),
    looked: results.length,
    ended: await expired(db, over, now),
  };
}

/** Deliveries of packs ended by one statement, unless one pack alone has more. */
const ENDED = 2_000;

/** The same of the next `limit` packs, or fewer where much ends: the events named are the last of their bundles. */
export async function expireWaitingPacks(
  db: D1Database,
  after: DeliveryName,
  now: number,
  limit: number,
): Promise<Expired> {
  const place = [after.destination, bundleOf(after.event)];
  const { results } = await db
    .prepare(NEXT_PACKS)
    .bind(...place, limit)
    .all<RawRow>();
  const found = packsOf(results);
  const over: DeliveryName[] = [];
  let looked = 0;
  for (const pack of found) {
    if (over.length >= ENDED) break;
    looked += 1;
    if ((pack.giveUpAt ?? 0) > now) continue;
    for (const index of indexesIn([pack.waiting0, pack.waiting1]))
      over.push({ destination: pack.destinationId, event: eventAt(pack.bundleId, index) });
  }
  const last = found[looked - 1];
  const isEnd = looked === found.length && found.length < limit;
  return {
    upto:
      isEnd || !last ? undefined : { destination: last.destinationId, event: eventAt(last.bundleId, 127) },
    looked,
    ended: await expired(db, over, now),
  };
}

/** Where one has been brought meanwhile, who it was is not asked: these are figures. */
async function expired(
  db: D1Database,
  over: readonly DeliveryName[],
  now: number,
): Promise<ReadonlyMap<string, number>> {
  const count = await endWaiting(db, over, { state: "dead", reason: "expired", dueBy: now }, now);
  const ended = count === 0 ? [] : [...Map.groupBy(over, ({ destination }) => destination)];
  return new Map(ended.map(([destination, theirs]) => [destination, theirs.length]));
}

function keysOf(destination: string, events: readonly number[]): DeliveryName[] {
  return events.map((event) => ({ destination, event }));
}
