/**
 * Events that are not to be delivered at once.
 *
 * A queue keeps a message for a day at most, and may lose it; D1 forgets nothing. So a scheduled event stays
 * in D1 alone until shortly before its time: then the sweep, which comes every minute, puts it on the queue
 * with the seconds that are left. One that is due before the sweep could be counted on goes there when it is
 * accepted. Where both do it, the second message finds nothing to do.
 */
import type { Services } from "../services.ts";
import { moveCursor, readCursor } from "../store/cursors.ts";
import type { AcceptedEvent } from "../store/events.ts";
import { nextScheduled } from "../store/scheduled.ts";
import { sumOver } from "../store/shards.ts";
import { enqueue } from "./enqueue.ts";

/** How far ahead the sweep looks: to the next one, and half as far again, should that one be late. */
const AHEAD_MS = 90_000;
/** What is due sooner is put on the queue when it is accepted: as far ahead, and the time to commit it. */
const SOON_MS = AHEAD_MS + 60_000;
/** Events looked at in one statement, and statements in one sweep. */
const PAGE = 1_000;
const PAGES = 20;

/** Whether an event that is accepted now goes on the queue now. */
export function isSoon({ deliverAt }: AcceptedEvent, now: number): boolean {
  return deliverAt === undefined || deliverAt <= now + SOON_MS;
}

/** Puts on the queue what falls due before the next sweep can be counted on; returns how many events. */
export function enqueueScheduled(services: Services, now: number): Promise<number> {
  return sumOver(services, (db) => enqueueFrom(services, db, now));
}

async function enqueueFrom(services: Services, db: D1Database, now: number): Promise<number> {
  let after = await readCursor(db, "scheduled");
  let count = 0;
  for (let page = 0; page < PAGES; page++) {
    const due = await nextScheduled(db, after, now + AHEAD_MS, PAGE);
    const last = due.at(-1);
    if (!last) break;
    await enqueue(services, due);
    after = { at: last.deliverAt, event: last.id };
    await moveCursor(db, "scheduled", after);
    count += due.length;
    if (due.length < PAGE) break;
  }
  return count;
}
