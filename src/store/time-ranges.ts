/** Times as ids: bundles are numbered in the order of acceptance, so a range of times is a range of ids. */
import { bundleOf, eventAt } from "../core/bundle.ts";
import { BUNDLE_BITS } from "../core/placement.ts";

/**
 * Workers' clocks differ a little, so the order of times may differ from that of ids: ranges are this much wider than
 * asked for, and callers compare the times of what they find.
 */
export const SKEW_MS = 60_000;

/**
 * The first bundle that was not accepted before a time, by binary search: `lo` stays below it, `hi` at or above it. Bundles
 * are numbered in the order of acceptance, so this takes as many rows as ids have bits, and saves an index on
 * `accepted_at`, which every insert would have to write. It begins below the first id of this database, which is derived
 * from its newest. It takes 34 rows at most; LIMIT bounds it whatever is stored.
 */
export function firstSince(time: string): string {
  return `
  WITH RECURSIVE halving (lo, hi) AS (
    SELECT newest.id >> ${BUNDLE_BITS} << ${BUNDLE_BITS}, newest.id + 1
    FROM (SELECT coalesce((SELECT max(id) FROM bundles), 0) AS id) newest
    UNION ALL
    SELECT iif(b.accepted_at < ${time}, b.id, lo), iif(b.accepted_at < ${time}, hi, (lo + hi) / 2)
    FROM halving JOIN bundles b ON b.id = (SELECT min(id) FROM bundles WHERE id >= (lo + hi) / 2)
    WHERE hi - lo > 1 LIMIT 40
  )
  SELECT min(hi) AS first FROM halving`;
}

const FIRST = firstSince("?1");

/** An id below those of all bundles that were accepted at that time or later, epoch ms. Reads as many rows as ids have bits. */
export async function idBefore(db: D1Database, time: number): Promise<number> {
  const first = db.prepare(FIRST).bind(time - SKEW_MS);
  return ((await first.first<number>("first")) ?? 1) - 1;
}

/**
 * SQL: the next `?3` bundles after `?1`, of which one row is read while the first was accepted after `?2`; for `untilHorizon`.
 */
export function oldBundlesSql(columns: string): string {
  return `SELECT ${columns} FROM bundles WHERE id > ?1 ORDER BY id LIMIT coalesce(
    (SELECT iif(accepted_at <= ?2, ?3, 0) FROM bundles WHERE id > ?1 ORDER BY id LIMIT 1), 0)`;
}

/** The bundles up to the first that was accepted later than the horizon, epoch ms. */
export function untilHorizon<T extends Readonly<{ acceptedAt: number }>>(
  bundles: readonly T[],
  horizon: number,
): readonly T[] {
  const young = bundles.findIndex(({ acceptedAt }) => acceptedAt > horizon);
  return young < 0 ? bundles : bundles.slice(0, young);
}

export type TimeRange = Readonly<{
  /** Epoch ms, itself included. */
  since?: number | undefined;
  /** Epoch ms, itself excluded. */
  until?: number | undefined;
}>;

/** No event of the time range has an id below `first` or above `last`. */
export type IdRange = Readonly<{ first: number; last: number }>;

export async function idRangeOf(db: D1Database, { since, until }: TimeRange): Promise<IdRange> {
  const [first, after] = await Promise.all([
    since === undefined ? 1 : firstAt(db, since - SKEW_MS),
    until === undefined ? Number.POSITIVE_INFINITY : firstAt(db, until + SKEW_MS),
  ]);
  return { first, last: Math.min(after - 1, Number.MAX_SAFE_INTEGER) };
}

/** The first event of the first bundle that was accepted at that time or later. */
async function firstAt(db: D1Database, at: number): Promise<number> {
  return eventAt((await db.prepare(FIRST).bind(at).first<number>("first")) ?? 0, 0);
}

/** When the event's bundle, or else the one before it, was accepted, epoch ms; undefined when there is none. Reads one row. */
export async function acceptedBy(db: D1Database, event: number): Promise<number | undefined> {
  const before = "SELECT accepted_at AS at FROM bundles WHERE id <= ?1 ORDER BY id DESC LIMIT 1";
  return (await db.prepare(before).bind(bundleOf(event)).first<number>("at")) ?? undefined;
}
