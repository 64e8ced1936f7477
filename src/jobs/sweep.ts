/**
 * The sweep, every minute: schedules drains for waiting deliveries, enqueues scheduled events that fall due, and repairs
 * what was lost.
 *
 * A lost delivery becomes a waiting one, and a drain delivers it through the gate like any other, so that a mass
 * recovery cannot become a storm. Everything is safe to repeat: a row is written before the watermark moves past it, so
 * a sweep that dies is repeated from a place before which nothing is missing.
 *
 * A lease in D1 keeps two sweeps from running at once, and expires by itself when a sweep dies. What the cron invocation
 * could not do is continued by pages over the queue, one after the other (sweep-step.ts).
 */

import type { UnreadableBundle } from "../core/stored-bundle.ts";
import { waitingRow } from "../delivery/outcome.ts";
import { AHEAD_MS, enqueueBundles } from "../ingest/enqueue.ts";
import { faultOf } from "../log.ts";
import type { UpkeepMessage } from "../queue-messages.ts";
import type { Services } from "../services.ts";
import { inTurn } from "../store/databases.ts";
import {
  beginSweep,
  beginSweepPage,
  destinationsNamed,
  findLost,
  findLostScheduled,
  type LostDelivery,
  letWait,
  moveCursor,
  moveWatermark,
  nextScheduled,
  type Position,
  readCursor,
  readWatermark,
  recoverOverdue,
  type SweepLease,
  type SweepParts,
} from "../store/sweep.ts";
import { LEASE_MS, type Part, type PartResult, type PartTurn, SweepStep } from "./sweep-step.ts";
import { reportUnreadable } from "./unreadable.ts";
import { cancelRetriesOfDeleted, expireOverdue, scheduleDrains, scheduleDrainsOfNew } from "./waiting.ts";

/** The parts in the order in which they run: drains of the backlog come before any repair. */
const PARTS: Readonly<Record<string, Part>> = {
  waiting: { queries: 20, run: scheduleDrains },
  scheduled: { queries: 50, run: enqueueScheduled },
  lost: { queries: 70, run: recoverLost },
  overdue: { queries: 30, run: recoverRetries },
  expired: { queries: 40, run: expireOverdue },
  deleted: { queries: 40, run: cancelRetriesOfDeleted },
};

/** No page is enqueued later than this after the cron: the next one has to find the lease free. */
const PAGES_MS = 35_000;
/** A delivery counts as lost after this, however old the queue's oldest message is: that may be a delayed retry. */
const SLOW_MS = 15 * 60_000;
/** What one statement looks at. */
const LOST_PAGE = { bundles: 1_000, deliveries: 20_000 };
const SCHEDULED_PAGE = { bundles: 500, deliveries: 2_000 };
/** How long the sends of a page of scheduled bundles are repeated: a step has other parts to run. */
const ENQUEUE_REPEAT_MS = 2_000;
/** Pages of the walk by time in one step, so that queries are left for the walk by id. */
const PAGES_BY_TIME = 5;
/** Retrying rows, and packs with deliveries in flight, that one statement makes wait. */
const OVERDUE = 500;

/** The cron's step of a sweep. Throws the first error, once all parts have run. */
export async function sweep(services: Services): Promise<void> {
  const now = services.now();
  const lease = { lease: crypto.randomUUID(), page: 0 };
  const saved = await beginSweep(services.db, lease.lease, now + LEASE_MS, now);
  if (saved === undefined) return services.log({ what: "sweep_already_running" });
  const failures = await runStep(services, lease, saved, Object.keys(PARTS), now + PAGES_MS);
  if (failures.length > 0) throw failures[0];
}

type SweepMessage = Extract<UpkeepMessage, { sweep: string }>;

/** Continues the unfinished parts of a sweep. Does nothing for a page that was begun before, or of an earlier sweep. */
export async function sweepPage(services: Services, { sweep: id, page, until }: SweepMessage): Promise<void> {
  const lease = { lease: id, page };
  const saved = await beginSweepPage(services.db, lease, services.now() + LEASE_MS);
  if (saved === undefined) return;
  const unfinished = Object.keys(PARTS).filter((name) => saved[name]?.behind);
  await runStep(services, lease, saved, unfinished, until);
}

async function runStep(
  services: Services,
  lease: SweepLease,
  saved: SweepParts,
  names: readonly string[],
  until: number,
): Promise<readonly unknown[]> {
  const startedAt = services.now();
  const horizon = await horizonOf(services, startedAt);
  const plan = { parts: PARTS, names, lease, saved, startedAt, horizon, until, aheadMs: AHEAD_MS };
  return new SweepStep(services, { ...plan, scheduleDrains: scheduleDrainsOfNew }).run();
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
 * Enqueues scheduled bundles that fall due before the next sweep can be counted on. A queue keeps a message for a day at
 * most, and may lose it, so a scheduled bundle is in D1 alone until shortly before its time, and is then enqueued with
 * the rest as a delay. A bundle due sooner is enqueued when it is accepted; where both happen, the second message finds
 * nothing to do. Where the queue does not take them, the cursor stays, and the next sweep enqueues them again.
 */
async function enqueueScheduled(services: Services, turn: PartTurn): Promise<PartResult> {
  let scheduled = 0;
  const walked = await inTurn(services, Number(turn.cursor[0]) || 0, turn.mayGoOn, async (db) => {
    if (!(await turn.hasWork(db, "scheduled"))) return false;
    let after = await readCursor(db, "scheduled");
    let more = false;
    do {
      const due = await nextScheduled(db, after, turn.now + AHEAD_MS, SCHEDULED_PAGE);
      await reportUnreadable(services, due.unreadable);
      if (due.upto === after) return false;
      if (!(await enqueueBundles(services, due.bundles, ENQUEUE_REPEAT_MS)))
        throw new Error("Scheduled bundles could not be enqueued");
      after = due.upto;
      await moveCursor(db, "scheduled", after);
      scheduled += due.bundles.length;
      more = due.more;
    } while (more && turn.mayGoOn());
    return more;
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
  const walked = await inTurn(services, Number(turn.cursor[0]) || 0, turn.mayGoOn, async (db) => {
    if (!(await turn.hasWork(db, "lost"))) return false;
    const recover = async (found: Found) => {
      await reportUnreadable(services, found.unreadable);
      await makeLostWait(services, db, found.lost, turn.now);
      for (const { destination } of found.lost) undrained.add(destination);
      lost += found.lost.length;
    };
    const walk = { db, turn, recover };
    const scheduled = await walkByTime(walk);
    const isMoreById = await walkById(walk, scheduled.upto);
    return scheduled.more || isMoreById;
  });
  return { ...walked, counts: { lost }, cursor: [walked.next], undrained };
}

/** Over the events of one database. */
type Walk = Readonly<{
  db: D1Database;
  turn: PartTurn;
  recover: (found: Found) => Promise<void>;
}>;

type Found = Readonly<{ lost: readonly LostDelivery[]; unreadable: readonly UnreadableBundle[] }>;

async function walkByTime({ db, turn, recover }: Walk): Promise<{ upto: Position; more: boolean }> {
  let after = await readCursor(db, "scheduled_checked");
  let pages = 0;
  let more = false;
  do {
    const found = await findLostScheduled(db, after, turn.horizon, LOST_PAGE);
    await recover(found);
    if (found.upto !== after) await moveCursor(db, "scheduled_checked", found.upto);
    after = found.upto;
    more = found.more;
    pages += 1;
  } while (more && pages < PAGES_BY_TIME && turn.mayGoOn());
  return { upto: after, more };
}

/** @param scheduledUpto how far the walk by time has got */
async function walkById({ db, turn, recover }: Walk, scheduledUpto: Position): Promise<boolean> {
  let watermark = await readWatermark(db);
  let more = false;
  do {
    const found = await findLost(db, watermark, { horizon: turn.horizon, scheduledUpto }, LOST_PAGE);
    await recover(found);
    if (found.upto > watermark) await moveWatermark(db, found.upto);
    watermark = found.upto;
    more = found.more;
  } while (more && turn.mayGoOn());
  return more;
}

/**
 * Makes the lost deliveries of one bundle wait, which the walks have passed over because it could not be read. Where they
 * have not come to it yet, they will. Drains of them are scheduled by the next sweep.
 */
export async function recoverLostOf(services: Services, db: D1Database, bundle: number): Promise<void> {
  const now = services.now();
  const horizon = now - services.config.graceMs - SLOW_MS;
  const scheduledUpto = { at: horizon, row: Number.MAX_SAFE_INTEGER };
  const { lost } = await findLost(db, bundle - 1, { horizon, scheduledUpto }, { bundles: 1, deliveries: 0 });
  await makeLostWait(services, db, lost, now);
}

/** Deliveries to a destination whose row has been removed by hand are dropped. */
async function makeLostWait(
  services: Services,
  db: D1Database,
  lost: readonly LostDelivery[],
  now: number,
): Promise<void> {
  if (lost.length === 0) return;
  const ids = new Set(lost.map(({ destination }) => destination));
  const known = new Map((await destinationsNamed(services.db, ids)).map((one) => [one.id, one]));
  const rows = lost.flatMap(({ event: id, destination: name, ...limits }) => {
    const destination = known.get(name);
    // The row has nothing of the event's content in it.
    const event = { id, ...limits, tenant: "", type: "", body: undefined };
    return destination
      ? [waitingRow({ event, destination, row: undefined }, { reason: "recovered", until: now })]
      : [];
  });
  await letWait(db, rows);
}

/** Makes retries wait that were due by the horizon and that no message has delivered. */
async function recoverRetries(services: Services, turn: PartTurn): Promise<PartResult> {
  const undrained = new Set<string>();
  let overdue = 0;
  const walked = await inTurn(services, Number(turn.cursor[0]) || 0, turn.mayGoOn, async (db) => {
    if (!(await turn.hasWork(db, "overdue"))) return false;
    let more = false;
    do {
      const found = await recoverOverdue(db, turn.horizon, turn.now, OVERDUE);
      for (const destination of found.destinations) undrained.add(destination);
      overdue += found.recovered;
      more = found.more;
    } while (more && turn.mayGoOn());
    return more;
  });
  return { ...walked, counts: { overdue }, cursor: [walked.next], undrained };
}
