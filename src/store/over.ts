/**
 * What is over is shown no more: an event that is older than the deployment keeps events, and whose own deliveries
 * have all ended. Its bundle may stay, because of a neighbour; nothing that a user can see depends on that.
 */
import { type SQL, sql } from "drizzle-orm";
import { bundles, deliveries } from "./schema.ts";

/** Longer than an invocation lives: whoever saw a delivery before its end is gone by then. */
export const QUIET_MS = 60 * 60_000;

/** Epoch ms. */
export type Over = Readonly<{
  /** Due by this is old. */
  dueBy: number;
  /** Ended by this is ended for good. */
  endedBy: number;
}>;

/** What is over by now. */
export function overBy({
  now,
  config,
}: Readonly<{ now: () => number; config: Readonly<{ retentionMs: number }> }>): Over {
  return { dueBy: now() - config.retentionMs, endedBy: now() - QUIET_MS };
}

const ENDED = ["delivered", "dead", "cancelled"];

type Times = Readonly<{ acceptedAt: number; deliverAt: number | null }>;
type End = Readonly<{ state: string; endedAt: number | null }>;

export function isOld({ acceptedAt, deliverAt }: Times, { dueBy }: Over): boolean {
  return (deliverAt ?? acceptedAt) <= dueBy;
}

export function hasEnded({ state, endedAt }: End, { endedBy }: Over): boolean {
  return ENDED.includes(state) && (endedAt ?? 0) <= endedBy;
}

/**
 * SQL: whether the event of a row of `deliveries` is over. Of a delivery that has not ended it reads nothing more, of
 * one that has the bundle, and the others of its event only when that is old.
 */
export function isOver({ dueBy, endedBy }: Over): SQL {
  const ended = (table: string) =>
    sql.raw(
      `(${table}.state IN ('delivered', 'dead', 'cancelled') AND coalesce(${table}.ended_at, 0) <= ${Number(endedBy)})`,
    );
  return sql`(${ended("deliveries")} AND EXISTS (
    SELECT 1 FROM ${bundles} WHERE ${bundles.id} = ${deliveries.eventId} / 128
      AND coalesce(${bundles.deliverAt}, ${bundles.acceptedAt}) <= ${dueBy}
      AND NOT EXISTS (
        SELECT 1 FROM json_each(${bundles.plan}) planned
        WHERE EXISTS (
          SELECT 1 FROM json_each(planned.value) run
          WHERE run.key % 2 = 0
            AND ${deliveries.eventId} % 128 BETWEEN run.value AND planned.value ->> (run.key + 1))
        AND NOT EXISTS (
          SELECT 1 FROM deliveries other WHERE other.destination_id = planned.key
            AND other.event_id = ${deliveries.eventId} AND ${ended("other")}))))`;
}
