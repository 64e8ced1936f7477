/**
 * What is over is shown no more: an event that is older than the deployment keeps events, and whose own deliveries
 * have all ended. Its bundle may stay, because of a neighbour; nothing that a user can see depends on that.
 */
import { bundleOf, destinationsOf, indexOf, type Plan } from "../core/bundle.ts";
import { rowsIn } from "./packs.ts";
import type { DeliveryRow } from "./schema.ts";

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

const TIMES = `
  SELECT b.id, b.accepted_at AS acceptedAt, b.deliver_at AS deliverAt, b.plan
  FROM json_each(?1) w CROSS JOIN bundles b ON b.id = w.value`;

/** Which events of these deliveries are over. Of those that have not ended, or are not old, nothing more is read. */
export async function eventsOver(
  db: D1Database,
  rows: readonly DeliveryRow[],
  over: Over,
): Promise<ReadonlySet<number>> {
  const ended = new Set(rows.filter((row) => hasEnded(row, over)).map(({ eventId }) => eventId));
  if (ended.size === 0) return new Set();
  const ids = JSON.stringify([...new Set([...ended].map(bundleOf))]);
  const { results } = await db.prepare(TIMES).bind(ids).all<Times & { id: number; plan: string }>();
  const old = new Map(
    results.filter((one) => isOld(one, over)).map(({ id, plan }) => [id, JSON.parse(plan) as Plan]),
  );
  const planned = [...ended].flatMap((event) => {
    const plan = old.get(bundleOf(event));
    return plan ? [{ event, destinations: destinationsOf(plan, indexOf(event)) }] : [];
  });
  if (planned.length === 0) return new Set();
  const pairs = planned.flatMap(({ event, destinations }) =>
    destinations.map((destination) => [bundleOf(event), destination] as const),
  );
  const known = await rowsIn(db, pairs);
  const isEnded = new Set(
    known.filter((row) => hasEnded(row, over)).map((row) => `${row.eventId} ${row.destinationId}`),
  );
  const isOver = ({ event, destinations }: (typeof planned)[number]) =>
    destinations.every((destination) => isEnded.has(`${event} ${destination}`));
  return new Set(planned.filter(isOver).map(({ event }) => event));
}
