/**
 * Finding what was lost between acceptance and its first outcome. A planned delivery without a row becomes
 * a waiting one; the row is written before the walk moves past its event, so that a walk that breaks down
 * begins again where nothing is missing.
 *
 * Two walks see every event once when it is overdue. One goes by row and passes those that are scheduled for
 * later; the other goes by time, and had not come so far when they were passed.
 */
import type { Services } from "../services.ts";
import { moveCursor, type Position, readCursor } from "../store/cursors.ts";
import { recordOutcomes } from "../store/record.ts";
import { findLostScheduled } from "../store/scheduled.ts";
import { sumOver } from "../store/shards.ts";
import { findLost, moveWatermark, readWatermark } from "../store/sweep.ts";
import { loadWork } from "../store/work.ts";
import type { DeliveryMessage } from "./message.ts";
import { waitingRow } from "./outcome-rows.ts";

/** Events looked at in one statement, and statements of each walk in one sweep. */
const PAGE = 1_000;
const PAGES = 20;
/** Deliveries loaded at once when they are recovered: their bodies come with them. */
const CHUNK = 50;

/** Lets wait what was due by `horizon` (epoch ms) and has no outcome; returns how many. */
export function recoverLost(services: Services, horizon: number, now: number): Promise<number> {
  return sumOver(services, async (db) => {
    const walk = { services, db, horizon, now };
    const scheduled = await walkByTime(walk);
    return scheduled.lost + (await walkByRow(walk, scheduled.upto));
  });
}

/** Over the events of one database. */
type Walk = Readonly<{ services: Services; db: D1Database; horizon: number; now: number }>;

type Walked = Readonly<{ lost: number; upto: Position }>;

async function walkByTime({ services, db, horizon, now }: Walk): Promise<Walked> {
  let after = await readCursor(db, "scheduled_checked");
  let count = 0;
  for (let page = 0; page < PAGES; page++) {
    const { upto, looked, lost } = await findLostScheduled(db, after, horizon, PAGE);
    await letWait(services, lost, now);
    if (looked > 0) await moveCursor(db, "scheduled_checked", upto);
    count += lost.length;
    after = upto;
    if (looked < PAGE) break;
  }
  return { lost: count, upto: after };
}

/** @param scheduledUpto how far the walk by time has come */
async function walkByRow({ services, db, horizon, now }: Walk, scheduledUpto: Position): Promise<number> {
  let watermark = await readWatermark(db);
  let count = 0;
  for (let page = 0; page < PAGES; page++) {
    const { upto, lost } = await findLost(db, watermark, { horizon, scheduledUpto }, PAGE);
    await letWait(services, lost, now);
    if (upto > watermark) await moveWatermark(db, upto);
    count += lost.length;
    if (upto < watermark + PAGE) break;
    watermark = upto;
  }
  return count;
}

async function letWait(services: Services, lost: readonly DeliveryMessage[], now: number): Promise<void> {
  for (let from = 0; from < lost.length; from += CHUNK) {
    const works = await loadWork(services, lost.slice(from, from + CHUNK));
    const rows = works.flatMap((work) =>
      work && !work.row ? waitingRow(work, { reason: "recovered", until: now }) : [],
    );
    await recordOutcomes(services, rows, [], now);
  }
}
