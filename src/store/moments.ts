/**
 * Times as event rows. Events are numbered in the order in which they were accepted, so a range of time is
 * a range of keys: found by halving, in as many rows read as the number of events has bits, without an index
 * that every event would have to pay for.
 */

import { ROW_BITS } from "../policy/placement.ts";

/**
 * Workers' clocks differ a little, and so may the order of times from that of numbers: ranges are this much
 * wider than asked for, and whoever uses them compares the times of what they hold.
 */
const SKEW_MS = 60_000;

/**
 * Keeps `lo` below and `hi` at the first event that was not accepted before `?1`. It begins below the first
 * number of this database, which its newest event tells.
 */
const FIRST = `
  WITH RECURSIVE halving (lo, hi) AS (
    SELECT newest.id >> ${ROW_BITS} << ${ROW_BITS}, newest.id + 1
    FROM (SELECT coalesce((SELECT max(id) FROM events), 0) AS id) newest
    UNION ALL
    SELECT iif(e.accepted_at < ?1, e.id, lo), iif(e.accepted_at < ?1, hi, (lo + hi) / 2)
    FROM halving JOIN events e ON e.id = (SELECT min(id) FROM events WHERE id >= (lo + hi) / 2)
    WHERE hi - lo > 1
  )
  SELECT min(hi) AS first FROM halving`;

export type TimeRange = Readonly<{
  /** Epoch ms, itself included. */
  since?: number | undefined;
  /** Epoch ms, itself excluded. */
  until?: number | undefined;
}>;

/** No event of the time range has a smaller row than `first`, or a larger one than `last`. */
export type EventRange = Readonly<{ first: number; last: number }>;

/** The event rows that a range of time lies in. */
export async function eventRangeOf(db: D1Database, { since, until }: TimeRange): Promise<EventRange> {
  const [first, after] = await Promise.all([
    since === undefined ? 1 : firstAt(db, since - SKEW_MS),
    until === undefined ? Number.POSITIVE_INFINITY : firstAt(db, until + SKEW_MS),
  ]);
  return { first, last: Math.min(after - 1, Number.MAX_SAFE_INTEGER) };
}

async function firstAt(db: D1Database, at: number): Promise<number> {
  return (await db.prepare(FIRST).bind(at).first<number>("first")) ?? 1;
}
