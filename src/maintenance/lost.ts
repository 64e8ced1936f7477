/**
 * Finding what was lost between acceptance and its first outcome, and retries that nobody brought. A planned
 * delivery that has neither a bit nor a row becomes a waiting one; that is written before the walk moves past its
 * event, so that a walk that breaks down begins again where nothing is missing.
 *
 * Two walks see every event once when it is overdue. One goes by row and passes those that are scheduled for
 * later; the other goes by time, and had not come so far when they were passed.
 */

import { inTurn } from "../db/shards.ts";
import {
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
} from "../db/sweep.ts";
import { waitingRow } from "../delivery/outcome.ts";
import { AHEAD_MS, enqueueBundles } from "../ingest/enqueue.ts";
import type { Services } from "../services.ts";
import type { PartResult, PartTurn } from "./sweep-part.ts";

/** What one statement looks at. */
const PAGE = { bundles: 1_000, deliveries: 20_000 };
/** Pages of the walk by time in one step: the walk by row is to get its share. */
const SCHEDULED_PAGES = 5;
/** Rows of retries, and packs with some in flight, that one statement lets wait. */
const OVERDUE = 500;

/** Lets wait what was due by the horizon and has no outcome. */
export async function recoverLost(services: Services, turn: PartTurn): Promise<PartResult> {
  const woken = new Set<string>();
  let lost = 0;
  const walked = await inTurn(services, Number(turn.cursor[0]) || 0, turn.mayGoOn, async (db) => {
    const letSomeWait = async (found: readonly LostDelivery[]) => {
      await letLostWait(services, db, found, turn.now);
      for (const { destination } of found) woken.add(destination);
      lost += found.length;
    };
    const walk = { db, turn, letWait: letSomeWait };
    const scheduled = await walkByTime(walk);
    const isMoreByRow = await walkByRow(walk, scheduled.upto);
    return scheduled.more || isMoreByRow;
  });
  return { ...walked, counts: { lost }, cursor: [walked.next], woken };
}

/** Over the events of one database. */
type Walk = Readonly<{
  db: D1Database;
  turn: PartTurn;
  letWait: (lost: readonly LostDelivery[]) => Promise<void>;
}>;

async function walkByTime({ db, turn, letWait }: Walk): Promise<{ upto: Position; more: boolean }> {
  let after = await readCursor(db, "scheduled_checked");
  let pages = 0;
  let more = false;
  do {
    const found = await findLostScheduled(db, after, turn.horizon, PAGE);
    await letWait(found.lost);
    if (found.upto !== after) await moveCursor(db, "scheduled_checked", found.upto);
    after = found.upto;
    more = found.more;
    pages += 1;
  } while (more && pages < SCHEDULED_PAGES && turn.mayGoOn());
  return { upto: after, more };
}

/** @param scheduledUpto how far the walk by time has come */
async function walkByRow({ db, turn, letWait }: Walk, scheduledUpto: Position): Promise<boolean> {
  let watermark = await readWatermark(db);
  let more = false;
  do {
    const found = await findLost(db, watermark, { horizon: turn.horizon, scheduledUpto }, PAGE);
    await letWait(found.lost);
    if (found.upto > watermark) await moveWatermark(db, found.upto);
    watermark = found.upto;
    more = found.more;
  } while (more && turn.mayGoOn());
  return more;
}

/** What is for a destination whose row somebody has removed is for nobody. */
async function letLostWait(
  services: Services,
  db: D1Database,
  lost: readonly LostDelivery[],
  now: number,
): Promise<void> {
  if (lost.length === 0) return;
  const ids = new Set(lost.map(({ destination }) => destination));
  const known = new Map((await destinationsNamed(services.db, ids)).map((one) => [one.id, one]));
  const rows = lost.flatMap(({ event: id, destination: name, acceptedAt, deliverAt }) => {
    const destination = known.get(name);
    // A row is not made of what an event says.
    const event = { id, acceptedAt, deliverAt, tenant: "", type: "", body: "" };
    return destination
      ? [waitingRow({ event, destination, row: undefined }, { reason: "recovered", until: now })]
      : [];
  });
  await letWait(db, rows);
}

/** Lets wait the retries that were due by the horizon and were not brought. */
export async function recoverRetries(services: Services, turn: PartTurn): Promise<PartResult> {
  const woken = new Set<string>();
  let overdue = 0;
  const walked = await inTurn(services, Number(turn.cursor[0]) || 0, turn.mayGoOn, async (db) => {
    let more = false;
    do {
      const found = await recoverOverdue(db, turn.horizon, turn.now, OVERDUE);
      for (const destination of found.destinations) woken.add(destination);
      overdue += found.recovered;
      more = found.more;
    } while (more && turn.mayGoOn());
    return more;
  });
  return { ...walked, counts: { overdue }, cursor: [walked.next], woken };
}

// §§ Events that are not to be delivered at once.
//
// A queue keeps a message for a day at most, and may lose it; D1 forgets nothing. So a scheduled event stays
// in D1 alone until shortly before its time: then the sweep, which comes every minute, puts it on the queue
// with the seconds that are left. One that is due before the sweep could be counted on goes there when it is
// accepted. Where both do it, the second message finds nothing to do.

/** What one statement looks at. */
const SCHEDULED_PAGE = { bundles: 500, deliveries: 2_000 };

/** Puts on the queue what falls due before the next sweep can be counted on. */
export async function enqueueScheduled(services: Services, turn: PartTurn): Promise<PartResult> {
  let scheduled = 0;
  const walked = await inTurn(services, Number(turn.cursor[0]) || 0, turn.mayGoOn, async (db) => {
    let after = await readCursor(db, "scheduled");
    let more = false;
    do {
      const due = await nextScheduled(db, after, turn.now + AHEAD_MS, SCHEDULED_PAGE);
      if (due.bundles.length === 0) return false;
      await enqueueBundles(services, due.bundles);
      after = due.upto;
      await moveCursor(db, "scheduled", after);
      scheduled += due.bundles.length;
      more = due.more;
    } while (more && turn.mayGoOn());
    return more;
  });
  return { ...walked, counts: { scheduled }, cursor: [walked.next] };
}
