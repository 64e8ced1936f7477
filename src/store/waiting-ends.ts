/**
 * The ends of what waits, without an attempt: its age limit is over, its destination is deleted, or its event
 * is gone. Looked for first, then ended together with the count of the replays that set it to wait.
 */
import { bundleOf, type DeliveryName, eventAt } from "../core/bundle.ts";
import { indexesIn } from "../core/pack.ts";
import { bundleIdOf } from "./event-columns.ts";
import { hasBit, packedRows, packsOf, settingBits, WAITS, waitingOf } from "./packs.ts";
import { countFailed } from "./replay-tally.ts";
import type { RawRow } from "./row-model.ts";
import type { DeliveryRow, PackRow } from "./schema.ts";
import { type Databases, sharesOf } from "./shards.ts";

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
