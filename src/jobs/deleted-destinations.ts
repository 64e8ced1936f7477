/**
 * The end of a deleted destination: its replays end, its deliveries are cancelled, regardless of its gate, and it stays
 * as a tombstone as long as one of its deliveries does. Then its gate's state is removed, and then its row.
 */
import { CONNECTIONS } from "../core/lease.ts";
import { portionsOf } from "../core/portions.ts";
import { atGate } from "../gate/client.ts";
import { faultOf } from "../log.ts";
import { batchesOf, type DrainMessage } from "../queue-messages.ts";
import type { Services } from "../services.ts";
import { allOf } from "../store/databases.ts";
import { cancelReplaysOf } from "../store/replays.ts";
import { oldTombstones, removeTombstones, withoutDeliveries } from "../store/retention.ts";
import type { Position } from "../store/sweep.ts";
import { cancelRetrying, cancelStandingBehind, retryingPage } from "../store/waiting.ts";
import { cursorOf, type MayContinue, walkFrom } from "./runner.ts";
import type { PartResult, PartTurn } from "./sweep-step.ts";

/**
 * Enqueues drains that cancel the waiting deliveries of deleted destinations. Not by their gates, which schedule drains
 * only for what they would admit. A failure is logged: the next sweep repeats it.
 */
export async function drainToCancel(services: Services, destinations: readonly string[]): Promise<void> {
  const messages = destinations.map((destination) => ({
    body: { destination, drains: 1 } satisfies DrainMessage,
  }));
  for (const batch of batchesOf(messages)) {
    try {
      await services.drains.sendBatch(batch);
    } catch (error) {
      services.log({ what: "cancellations_not_sent", destinations: batch.length, error: faultOf(error) });
    }
  }
}

/**
 * Ends the replays of a destination that has just been deleted, and cancels its deliveries that wait or are to be
 * retried: of the latter, a few pages. The sweep cancels the rest.
 */
export async function endDeleted(services: Services, destination: string): Promise<void> {
  await drainToCancel(services, [destination]);
  await endReplaysOfDeleted(services, destination);
  let pages = 0;
  await cancelRetries(services, destination, [0, 0], () => pages++ < PAGES_AT_ONCE);
}

/** Ends the replays of deleted destinations, in whatever state, or of one of them. Safe to repeat. */
export async function endReplaysOfDeleted(services: Services, destination?: string): Promise<void> {
  const reason = "destination_deleted";
  for (const replay of await cancelReplaysOf(services.db, reason, services.now(), destination))
    services.log({
      what: "replay_cancelled",
      replay: replay.id,
      destination: replay.destinationId,
      reason,
    });
}

/** Rows of a deleted destination that one statement reads. */
const RETRY_ROWS = 500;
/** Pages of them that are read when the destination is deleted: a page takes up to two calls of each kind. */
const PAGES_AT_ONCE = 10;
/** Destinations that were deleted are looked at again after this: an attempt that was under way has been recorded. */
const DELETED_MS = 2 * 60_000;
/** Deleted destinations of one page of the walk. */
const CANCELLED_AT_ONCE = 50;

/** A database's number, and the last event looked at in it. */
type RetryPlace = readonly [database: number, event: number];

/** Cancels the retries of a deleted destination; returns where to continue, or undefined when it has seen all. */
async function cancelRetries(
  services: Services,
  destination: string,
  [first, after]: RetryPlace,
  mayContinue: MayContinue,
): Promise<RetryPlace | undefined> {
  let cancelled = 0;
  let event = after;
  for (const [number, db] of allOf(services).entries()) {
    if (number < first) continue;
    for (let upto: number | undefined = event; upto !== undefined; event = upto ?? 0) {
      if (!mayContinue()) return [number, event];
      const page = await retryingPage(db, destination, event, RETRY_ROWS);
      cancelled += await cancelUnheld(services, db, destination, page.events);
      upto = page.upto;
    }
  }
  if (cancelled > 0) services.log({ what: "deliveries_cancelled", destination, deliveries: cancelled });
  return undefined;
}

/**
 * Deliveries that a lease holds are left to its holder. Where they fail, the walk that comes two minutes later finds them.
 */
async function cancelUnheld(
  services: Services,
  db: D1Database,
  destination: string,
  events: readonly number[],
): Promise<number> {
  if (events.length === 0) return 0;
  const held = await atGate(services, destination, "recheck", events);
  if (held === undefined) throw new Error("The destination's gate cannot be reached");
  const cancelled = await cancelRetrying(
    db,
    destination,
    events.filter((event) => !held.includes(event)),
    services.now(),
  );
  await atGate(services, destination, "recheck", events);
  return cancelled;
}

/**
 * Cancels what stands behind others in the lines of a deleted destination; returns whether that is all. No drain comes to
 * those behind a dead one that holds its line, because none of them waits.
 */
async function cancelBehindOthers(
  services: Services,
  destination: string,
  mayContinue: MayContinue,
): Promise<boolean> {
  let cancelled = 0;
  for (const db of allOf(services))
    for (let count = RETRY_ROWS; count === RETRY_ROWS; cancelled += count) {
      if (!mayContinue()) return false;
      count = await cancelStandingBehind(db, destination, services.now(), RETRY_ROWS);
    }
  if (cancelled > 0) services.log({ what: "deliveries_cancelled", destination, deliveries: cancelled });
  return true;
}

/**
 * Cancels the retries of destinations that were deleted two minutes ago or longer, and what stands behind others in their
 * lines, in the order of deletion, each once. A destination for which it fails is skipped: its retries end when they are due.
 */
export async function cancelRetriesOfDeleted(services: Services, turn: PartTurn): Promise<PartResult> {
  const [at = 0, row = 0, database = 0, event = 0] = turn.cursor.map(Number);
  const deletedBy = turn.now - DELETED_MS;
  const deleted = await oldTombstones(services.db, { at, row }, deletedBy, CANCELLED_AT_ONCE);
  let done = { at, row };
  let place: RetryPlace | undefined = [database, event];
  for (const tombstone of deleted) {
    if (!turn.mayContinue()) break;
    place = await placeAfter(services, tombstone.id, place ?? [0, 0], turn.mayContinue);
    if (place) break;
    done = tombstone;
  }
  const isRound = done.row === deleted.at(-1)?.row || deleted.length === 0;
  return {
    counts: {},
    cursor: [done.at, done.row, ...(place ?? [0, 0])],
    more: !isRound || deleted.length === CANCELLED_AT_ONCE,
  };
}

async function placeAfter(
  services: Services,
  destination: string,
  from: RetryPlace,
  mayContinue: MayContinue,
): Promise<RetryPlace | undefined> {
  try {
    if (!(await cancelBehindOthers(services, destination, mayContinue))) return from;
    return await cancelRetries(services, destination, from, mayContinue);
  } catch (error) {
    services.log({ what: "retries_not_cancelled", destination, error: faultOf(error) });
    return undefined;
  }
}

/** Deleted destinations checked each minute. */
const TOMBSTONES = 100;
/** Gates called at once: as many as there are connections, in case calls count as connections. */
const GATES = CONNECTIONS;

/**
 * For the cron: removes the next destinations that were deleted longer ago than `RETENTION_DAYS` and have no deliveries left.
 * The gate's state goes first: a row that is left is checked again, but nothing would find a gate without a row.
 */
export async function removeDeleted(services: Services): Promise<void> {
  const { db, config } = services;
  const deletedBy = services.now() - config.retentionMs;
  const page = async (after: Position) => {
    const old = await oldTombstones(db, after, deletedBy, TOMBSTONES);
    const ids = old.map(({ id }) => id);
    if (ids.length > 0) await removeBare(services, ids);
    const last = old.length < TOMBSTONES ? undefined : old.at(-1);
    return { at: last ? { at: last.at, row: last.row } : { at: 0, row: 0 }, more: last !== undefined };
  };
  await walkFrom(cursorOf(db, "tombstones"), page, () => false);
}

/** Removes those of the destinations that have no deliveries and whose gates could be reached. */
async function removeBare(services: Services, destinations: readonly string[]): Promise<void> {
  const bare = await withoutDeliveries(services, destinations);
  const forgotten: string[] = [];
  for (const some of portionsOf(bare, GATES))
    await Promise.all(
      some.map(async (id) => {
        if (await atGate(services, id, "forget")) forgotten.push(id);
      }),
    );
  await removeTombstones(services.db, forgotten);
  if (forgotten.length > 0) services.log({ what: "destinations_removed", destinations: forgotten.length });
}
