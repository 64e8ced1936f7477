/**
 * Retention, every minute: what is older than the deployment keeps is removed, in bounded steps.
 *
 * A walk goes over the events of each database by their numbers. What has not ended, or what a replay under
 * way may yet come to, is passed; when the walk has reached what is too young it begins again from the lowest,
 * so that nothing is passed for ever. Where nothing is old, it reads two rows and writes none.
 */
import type { Services } from "../services.ts";
import { moveCursor, readCursor } from "../store/cursors.ts";
import { oldEvents, type Removed, removeEnded, standingsOf } from "../store/retention.ts";
import { allOf } from "../store/shards.ts";

/** What one statement looks at, and statements for each database in one tick: 10,000 events a minute. */
const PAGE = { events: 500, deliveries: 2_000 };
const PAGES = 20;

export async function removeOld(services: Services): Promise<void> {
  const now = services.now();
  const removed = await Promise.all(allOf(services).map((db) => removeFrom(services, db, now)));
  const [events, deliveries] = [sum(removed, "events"), sum(removed, "deliveries")];
  if (events > 0) services.log({ what: "removed", events, deliveries, took_ms: services.now() - now });
}

async function removeFrom(services: Services, db: D1Database, now: number): Promise<Removed> {
  const bounds = { ...PAGE, horizon: now - services.config.retentionMs };
  const from = await readCursor(db, "retention");
  const removed: Removed[] = [];
  let after = from.event;
  for (let pages = 0; pages < PAGES; pages++) {
    const { events, upto, isLast } = await oldEvents(db, after, bounds);
    if (events.length > 0)
      removed.push(await removeEnded(db, events, await standingsOf(services.db, events), now));
    after = isLast ? 0 : upto;
    if (isLast) break;
  }
  if (after !== from.event) await moveCursor(db, "retention", { at: 0, event: after });
  return { events: sum(removed, "events"), deliveries: sum(removed, "deliveries") };
}

function sum(removed: readonly Removed[], what: keyof Removed): number {
  return removed.reduce((total, one) => total + one[what], 0);
}
