/**
 * The sweep, every minute: schedules drains for waiting deliveries, enqueues scheduled events that fall due, and repairs
 * what was lost.
 *
 * A lost delivery becomes a waiting one, and a drain delivers it through the gate like any other, so that a mass
 * recovery cannot become a storm. Everything is safe to repeat: a row is written before the watermark moves past it, so
 * a sweep that dies is repeated from a place before which nothing is missing.
 *
 * A lease in D1 keeps two sweeps from running at once, and expires by itself when a sweep dies.
 */

import type { UnreadableBundle } from "../core/stored-bundle.ts";
import { waitingRow } from "../delivery/outcome.ts";
import { AHEAD_MS, enqueueBundles } from "../ingest/enqueue.ts";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";
import { inTurn } from "../store/databases.ts";
import { destinationsById } from "../store/destinations.ts";
import {
  beginSweep,
  beginSweepPage,
  findLost,
  findLostScheduled,
  type LostDelivery,
  markWaiting,
  moveWatermark,
  nextScheduled,
  type Position,
  readWatermark,
  recoverOverdue,
} from "../store/sweep.ts";
import { cancelRetriesOfDeleted } from "./deleted-destinations.ts";
import { cursorOf, type Page, periodicJob, type Walked, walkFrom } from "./runner.ts";
import {
  LEASE_MS,
  type PartResult,
  type Parts,
  type PartTurn,
  runParts,
  type Sweep,
  saveProgress,
} from "./sweep-step.ts";
import { reportUnreadable } from "./unreadable.ts";
import { expireOverdue, scheduleDrains, scheduleDrainsOfNew } from "./waiting.ts";

/** The parts in the order in which they run: drains of the backlog come before any repair. */
const PARTS: Parts = {
  waiting: { queries: 20, run: scheduleDrains },
  scheduled: { queries: 50, run: enqueueScheduled },
  lost: { queries: 70, run: recoverLost },
  overdue: { queries: 30, run: recoverRetries },
  expired: { queries: 40, run: expireOverdue },
  deleted: { queries: 40, run: cancelRetriesOfDeleted },
};

/** A delivery counts as lost after this, however old the queue's oldest message is: that may be a delayed retry. */
const SLOW_MS = 15 * 60_000;
/** Bundles and planned deliveries that one statement reads. */
const LOST_PAGE = { bundles: 1_000, deliveries: 20_000 };
const SCHEDULED_PAGE = { bundles: 500, deliveries: 2_000 };
/** How long the sends of a page of scheduled bundles are repeated: a step has other parts to run. */
const ENQUEUE_REPEAT_MS = 2_000;
/** Pages of the walk by time in one step, so that queries are left for the walk by id. */
const PAGES_BY_TIME = 5;
/** Retrying rows, and packs with deliveries in flight, that one statement makes wait. */
const OVERDUE = 500;

/**
 * A page continues the unfinished parts. If it was begun before, or another sweep has the lease, there is nothing to
 * do.
 */
export const sweep = periodicJob<Sweep>({
  name: "sweep",
  line: "sweep",
  isAlwaysLogged: true,
  // Each part has its own.
  budget: { queries: Number.POSITIVE_INFINITY },
  hasPages: true,
  load: (services, page) => (page.number === 0 ? begin(services) : beginPage(services, page)),
  step: async (turn, begun) => {
    const { services, hasTime, page, startedAt } = turn;
    const horizon = await horizonOf(services, startedAt);
    const { undrained, failures, ...done } = await runParts(turn, begun, {
      parts: PARTS,
      horizon,
      aheadMs: AHEAD_MS,
    });
    await scheduleDrainsOfNew(services, [...undrained], hasTime);
    // A page that failed is not repeated: the next sweep runs its parts again.
    return { ...done, failure: page === 0 ? failures[0] : undefined };
  },
  save: (services, begun, continues) =>
    saveProgress(services, begun, continues ? services.now() + LEASE_MS : 0),
  handOver: ({ lease }) => lease.lease,
});

async function begin({ db, now, log }: Services): Promise<Sweep | undefined> {
  const lease = { lease: crypto.randomUUID(), page: 0 };
  const saved = await beginSweep(db, lease.lease, now() + LEASE_MS, now());
  if (saved === undefined) log({ what: "sweep_already_running" });
  return saved && { lease, saved, names: Object.keys(PARTS) };
}

async function beginPage({ db, now }: Services, page: Page): Promise<Sweep | undefined> {
  const lease = { lease: String(page.handedOver), page: page.number };
  const saved = await beginSweepPage(db, lease, now() + LEASE_MS);
  return saved && { lease, saved, names: Object.keys(PARTS).filter((name) => saved[name]?.behind) };
}

/**
 * A delivery that was due before this and has no outcome counts as lost. Slow is not lost: what was accepted after the
 * oldest message of the queue may still be in it.
 */
async function horizonOf({ config, deliveries, log }: Services, now: number): Promise<number> {
  const overdue = now - config.graceMs;
  try {
    const { oldestMessageTimestamp: oldest } = await deliveries.metrics();
    return oldest ? Math.max(Math.min(overdue, oldest.getTime()), overdue - SLOW_MS) : overdue;
  } catch (error) {
    log({ what: "queue_metrics_unavailable", error: faultOf(error) });
    return overdue;
  }
}

/**
 * Enqueues scheduled bundles that fall due before the next sweep can be counted on. A queue keeps a message for a day
 * at most, and may lose it, so a scheduled bundle is only in D1 until shortly before its time, and is then enqueued
 * with the rest as a delay. A bundle due sooner is enqueued when it is accepted; where both happen, the second message
 * finds nothing to do. Where the queue does not take them, the cursor stays, and the next sweep enqueues them again.
 */
async function enqueueScheduled(services: Services, turn: PartTurn): Promise<PartResult> {
  let scheduled = 0;
  const walked = await inTurn(services, Number(turn.cursor[0]) || 0, turn.mayContinue, async (db) => {
    if (!(await turn.hasWork(db, "scheduled"))) return false;
    const page = async (after: Position) => {
      const due = await nextScheduled(db, after, turn.now + AHEAD_MS, SCHEDULED_PAGE);
      const { bundles, unreadable, upto, more } = due;
      await reportUnreadable(services, unreadable);
      if (!(await enqueueBundles(services, bundles, ENQUEUE_REPEAT_MS)))
        throw new Error("Scheduled bundles could not be enqueued");
      scheduled += bundles.length;
      return { at: upto, more };
    };
    return (await walkFrom(cursorOf(db, "scheduled"), page, turn.mayContinue, "each")).more;
  });
  return { ...walked, counts: { scheduled }, cursor: [walked.next] };
}

/**
 * Makes planned deliveries wait that were due by the horizon and have neither a bit nor a row.
 *
 * Two walks look at every event once when it is overdue. The walk by id passes events that are scheduled for later; the
 * walk by time comes to those when they are due.
 */
async function recoverLost(services: Services, turn: PartTurn): Promise<PartResult> {
  const undrained = new Set<string>();
  let lost = 0;
  const walked = await inTurn(services, Number(turn.cursor[0]) || 0, turn.mayContinue, async (db) => {
    if (!(await turn.hasWork(db, "lost"))) return false;
    const recover = async <P>({ upto, more, ...found }: Found<P>): Promise<Walked<P>> => {
      await reportUnreadable(services, found.unreadable);
      await makeLostWait(services, db, found.lost, turn.now);
      for (const { destinationId } of found.lost) undrained.add(destinationId);
      lost += found.lost.length;
      return { at: upto, more };
    };
    const scheduled = await walkByTime(db, turn, recover);
    const byId = await walkById(db, turn, recover, scheduled.at);
    return scheduled.more || byId.more;
  });
  return { ...walked, counts: { lost }, cursor: [walked.next], undrained };
}

type Found<P> = Readonly<{
  lost: readonly LostDelivery[];
  unreadable: readonly UnreadableBundle[];
  upto: P;
  more: boolean;
}>;

type Recover = <P>(found: Found<P>) => Promise<Walked<P>>;

function walkByTime(db: D1Database, turn: PartTurn, recover: Recover): Promise<Walked<Position>> {
  let pages = 0;
  const page = async (after: Position) =>
    recover(await findLostScheduled(db, after, turn.horizon, LOST_PAGE));
  const mayContinue = () => ++pages < PAGES_BY_TIME && turn.mayContinue();
  return walkFrom(cursorOf(db, "scheduled_checked"), page, mayContinue, "each");
}

/** @param scheduledUpto how far the walk by time has got */
function walkById(
  db: D1Database,
  { horizon, mayContinue }: PartTurn,
  recover: Recover,
  scheduledUpto: Position,
): Promise<Walked<number>> {
  const watermark = { load: () => readWatermark(db), save: (upto: number) => moveWatermark(db, upto) };
  const page = async (after: number) =>
    recover(await findLost(db, after, { horizon, scheduledUpto }, LOST_PAGE));
  return walkFrom(watermark, page, mayContinue, "each");
}

/**
 * Makes the lost deliveries of one bundle wait, which the walks have skipped because it could not be read. If they have
 * not reached it yet, they will. Drains of them are scheduled by the next sweep.
 */
export async function recoverLostOf(services: Services, db: D1Database, bundle: number): Promise<void> {
  const now = services.now();
  const horizon = now - services.config.graceMs - SLOW_MS;
  const scheduledUpto = { at: horizon, row: Number.MAX_SAFE_INTEGER };
  const { lost } = await findLost(db, bundle - 1, { horizon, scheduledUpto }, { bundles: 1, deliveries: 0 });
  await makeLostWait(services, db, lost, now);
}

/** Deliveries to a destination whose row has been removed by hand are dropped. */
async function makeLostWait(services: Services, db: D1Database, lost: readonly LostDelivery[], now: number) {
  if (lost.length === 0) return;
  const ids = lost.map(({ destinationId }) => destinationId);
  const known = await destinationsById(services.db, ids);
  const rows = lost.flatMap(({ eventId, destinationId, ...limits }) => {
    const destination = known.get(destinationId);
    // The row contains no event content.
    const event = { id: eventId, ...limits, tenant: "", type: "", body: undefined };
    return destination
      ? [waitingRow({ event, destination, row: undefined }, { reason: "recovered", until: now })]
      : [];
  });
  await markWaiting(db, rows);
}

/** Makes retries wait that were due by the horizon and were not delivered by any message. */
async function recoverRetries(services: Services, turn: PartTurn): Promise<PartResult> {
  const undrained = new Set<string>();
  let overdue = 0;
  const walked = await inTurn(services, Number(turn.cursor[0]) || 0, turn.mayContinue, async (db) => {
    if (!(await turn.hasWork(db, "overdue"))) return false;
    let more = false;
    do {
      const found = await recoverOverdue(db, turn.horizon, turn.now, OVERDUE);
      for (const destination of found.destinations) undrained.add(destination);
      overdue += found.recovered;
      more = found.more;
    } while (more && turn.mayContinue());
    return more;
  });
  return { ...walked, counts: { overdue }, cursor: [walked.next], undrained };
}
