/**
 * Times as numbers of events. Bundles are numbered in the order in which they were accepted, so a range of time is
 * a range of keys: found by halving, in as many rows read as the number of bundles has bits, without an index that
 * every bundle would have to pay for.
 */
import { eventAt } from "../core/bundle.ts";
import { BUNDLE_BITS } from "../policy/placement.ts";

/**
 * Workers' clocks differ a little, and so may the order of times from that of numbers: ranges are this much
 * wider than asked for, and whoever uses them compares the times of what they hold.
 */
const SKEW_MS = 60_000;

/**
 * Keeps `lo` below and `hi` at the first bundle that was not accepted before `?1`. It begins below the first
 * number of this database, which its newest bundle tells.
 */
const FIRST = `
  WITH RECURSIVE halving (lo, hi) AS (
    SELECT newest.id >> ${BUNDLE_BITS} << ${BUNDLE_BITS}, newest.id + 1
    FROM (SELECT coalesce((SELECT max(id) FROM bundles), 0) AS id) newest
    UNION ALL
    SELECT iif(b.accepted_at < ?1, b.id, lo), iif(b.accepted_at < ?1, hi, (lo + hi) / 2)
    FROM halving JOIN bundles b ON b.id = (SELECT min(id) FROM bundles WHERE id >= (lo + hi) / 2)
    WHERE hi - lo > 1
  )
  SELECT min(hi) AS first FROM halving`;

export type TimeRange = Readonly<{
  /** Epoch ms, itself included. */
  since?: number | undefined;
  /** Epoch ms, itself excluded. */
  until?: number | undefined;
}>;

/** No event of the time range has a smaller number than `first`, or a larger one than `last`. */
export type IdRange = Readonly<{ first: number; last: number }>;

/** The numbers of events that a range of time lies in. */
export async function idRangeOf(db: D1Database, { since, until }: TimeRange): Promise<IdRange> {
  const [first, after] = await Promise.all([
    since === undefined ? 1 : firstAt(db, since - SKEW_MS),
    until === undefined ? Number.POSITIVE_INFINITY : firstAt(db, until + SKEW_MS),
  ]);
  return { first, last: Math.min(after - 1, Number.MAX_SAFE_INTEGER) };
}

async function firstAt(db: D1Database, at: number): Promise<number> {
  return eventAt((await db.prepare(FIRST).bind(at).first<number>("first")) ?? 0, 0);
}
