/**
 * The ends of what waits, without an attempt: its age limit is over, its destination is deleted, or its event
 * is gone. Looked for first, then ended together with the count of the replays that set it to wait.
 */
import type { DeliveryName } from "../core/bundle.ts";
import { tallyFailed } from "./replay-tally.ts";
import { type Databases, sharesOf } from "./shards.ts";

type End = Readonly<{
  state: "dead" | "cancelled";
  because: string;
  /** Ends only what may not be delivered after this, epoch ms. */
  dueBy?: number;
}>;

const END = `
  UPDATE deliveries SET state = ?2, because = ?3, next_attempt_at = NULL, ended_at = ?4
  WHERE (destination_id, event_id) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?1))
    AND state = 'waiting' AND give_up_at <= ?5`;

/** Ends what still waits of these; returns how many. */
async function endWaiting(
  db: D1Database,
  deliveries: readonly DeliveryName[],
  { state, because, dueBy = Number.MAX_SAFE_INTEGER }: End,
  now: number,
): Promise<number> {
  if (deliveries.length === 0) return 0;
  const keys = JSON.stringify(deliveries.map(({ destination, event }) => [destination, event]));
  const [, ended] = await db.batch([
    tallyFailed(db, keys, dueBy),
    db.prepare(END).bind(keys, state, because, now, dueBy),
  ]);
  return ended?.meta.changes ?? 0;
}

const SOME = "SELECT event_id FROM deliveries WHERE destination_id = ?1 AND state = 'waiting' LIMIT ?2";

/** Cancels up to `limit` waiting deliveries of a deleted destination; returns how many. */
export async function cancelWaiting(
  db: D1Database,
  destination: string,
  now: number,
  limit: number,
): Promise<number> {
  const events = await eventsOf(db.prepare(SOME).bind(destination, limit));
  const end = { state: "cancelled", because: "destination_deleted" } as const;
  return endWaiting(db, keysOf(destination, events), end, now);
}

/** Ends those that wait of events that somebody has removed, for which nothing is left to send; how many. */
export async function buryOrphans(
  databases: Databases,
  destination: string,
  events: readonly number[],
  now: number,
): Promise<number> {
  const shares = sharesOf(databases, events, (event) => event);
  const end = { state: "dead", because: "event_removed" } as const;
  const buried = [...shares].map(([db, share]) => endWaiting(db, keysOf(destination, share), end, now));
  return (await Promise.all(buried)).reduce((sum, count) => sum + count, 0);
}

/** The index is named, because the planner would rather walk all that was ever delivered. */
const NEXT = `
  SELECT destination_id AS destination, event_id AS event, give_up_at AS giveUpAt
  FROM deliveries INDEXED BY deliveries_waiting
  WHERE state = 'waiting' AND (destination_id, event_id) > (?1, ?2) ORDER BY destination_id, event_id LIMIT ?3`;

export type Expired = Readonly<{
  /** The last one looked at; undefined when there is none after it. */
  upto: DeliveryName | undefined;
  looked: number;
  /** How many have ended, by destination. */
  ended: ReadonlyMap<string, number>;
}>;

/** Ends those of the next `limit` waiting deliveries of all destinations whose age limit is over. */
export async function expireWaiting(
  db: D1Database,
  after: DeliveryName,
  now: number,
  limit: number,
): Promise<Expired> {
  type Row = DeliveryName & { giveUpAt: number };
  const { results } = await db.prepare(NEXT).bind(after.destination, after.event, limit).all<Row>();
  const over = results.filter(({ giveUpAt }) => giveUpAt <= now);
  const count = await endWaiting(db, over, { state: "dead", because: "expired", dueBy: now }, now);
  // Where one has been brought meanwhile, who it was is not asked: these are figures.
  const ended = count === 0 ? [] : [...Map.groupBy(over, ({ destination }) => destination)];
  return {
    upto: results.length < limit ? undefined : results.at(-1),
    looked: results.length,
    ended: new Map(ended.map(([destination, theirs]) => [destination, theirs.length])),
  };
}

function keysOf(destination: string, events: readonly number[]): DeliveryName[] {
  return events.map((event) => ({ destination, event }));
}

async function eventsOf(statement: D1PreparedStatement): Promise<number[]> {
  const { results } = await statement.all<{ event_id: number }>();
  return results.map(({ event_id }) => event_id);
}
