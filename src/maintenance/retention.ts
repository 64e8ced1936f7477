/**
 * Retention, every minute: what is older than the deployment keeps is removed, in bounded steps.
 *
 * A walk goes over the events of each database by their numbers. What has not ended, or what a replay under
 * way may yet come to, is passed; when the walk has reached what is too young it begins again from the lowest,
 * so that nothing is passed for ever. Where nothing is old, it reads two rows and writes none.
 *
 * A deleted destination stays as a tombstone as long as one of its deliveries does. Then its gate forgets it, and
 * its row goes.
 *
 * A tick has so many queries for it; what is old and left then is gone on with by pages over the queue. Two that
 * come together remove the same, once.
 */

import {
  destinationFacts,
  oldBundles,
  oldTombstones,
  type Removed,
  removeEnded,
  removeTombstones,
  withoutDeliveries,
} from "../db/retention.ts";
import { countQueries, inTurn } from "../db/shards.ts";
import { moveCursor, readCursor } from "../db/sweep.ts";
import { forgetGate } from "../gate/client.ts";
import { faultOf } from "../log.ts";
import type { UpkeepMessage } from "../queue-messages.ts";
import type { Services } from "../services.ts";

/** What one statement looks at: a step with one database gets through 3,000 full bundles. */
const PAGE = { bundles: 500, deliveries: 25_000 };
/** Queries after which a step begins nothing more. */
const QUERIES = 100;
/** A step begins nothing more after this. */
const STEP_MS = 15_000;
/** No page is sent for after this: then the next tick is about to go on. */
const PAGES_MS = 35_000;
const PAGES = 20;
/** Deleted destinations looked at in one tick. */
const TOMBSTONES = 100;
/** Gates called at once. */
const GATES = 6;

/** The tick's part of it. */
export async function removeOld(services: Services): Promise<void> {
  await removeEvents(services, 0, services.now() + PAGES_MS);
}

type RetentionMessage = Extract<UpkeepMessage, { retention: number }>;

/** Goes on with what the step before has left. */
export async function removeMore(services: Services, { retention, until }: RetentionMessage): Promise<void> {
  await removeEvents(services, retention, until);
}

async function removeEvents(services: Services, page: number, until: number): Promise<void> {
  const now = services.now();
  const { queries, ...databases } = countQueries(services);
  const counted = { ...services, ...databases };
  const mayGoOn = () => queries() < QUERIES && services.now() - now < STEP_MS;
  const removed: Removed[] = [];
  // Begins somewhere else each time, so that none of many databases is left out for ever.
  const first = Math.floor(services.random() * (1 + (services.further ?? []).length));
  const { more, failure } = await inTurn(counted, first, mayGoOn, async (db) => {
    const { done, more } = await removeFrom(counted, db, now, mayGoOn);
    removed.push(...done);
    return more;
  });
  const [events, deliveries] = [sum(removed, "events"), sum(removed, "deliveries")];
  if (events > 0) services.log({ what: "removed", events, deliveries, took_ms: services.now() - now });
  // Where the walk is behind with what cannot go yet, there is no haste.
  if (more && events > 0 && page < PAGES && services.now() < until)
    await sendForMore(services, page + 1, until);
  if (failure !== undefined) throw failure;
}

type Progress = Readonly<{ done: readonly Removed[]; more: boolean }>;

async function removeFrom(
  services: Services,
  db: D1Database,
  now: number,
  mayGoOn: () => boolean,
): Promise<Progress> {
  const bounds = { ...PAGE, horizon: now - services.config.retentionMs };
  const from = await readCursor(db, "retention");
  const done: Removed[] = [];
  let after = from.row;
  let isEnd = false;
  do {
    const { bundles, upto, isLast } = await oldBundles(db, after, bounds);
    if (bundles.length > 0)
      done.push(await removeEnded(db, bundles, await destinationFacts(services.db, bundles), now));
    after = isLast ? 0 : upto;
    isEnd = isLast;
  } while (!isEnd && mayGoOn());
  if (after !== from.row) await moveCursor(db, "retention", { at: 0, row: after });
  return { done, more: !isEnd };
}

function sum(removed: readonly Removed[], what: keyof Removed): number {
  return removed.reduce((total, one) => total + one[what], 0);
}

/** A failure is logged, not thrown: the next tick goes on. */
async function sendForMore(services: Services, page: number, until: number): Promise<void> {
  try {
    await services.drains.send({ retention: page, until });
  } catch (error) {
    services.log({ what: "retention_page_not_sent", error: faultOf(error) });
  }
}

/**
 * Removes the next of the destinations that were deleted as long ago as events are kept, and of which nothing is
 * left. The gate forgets first: a row that is left is looked at again, a gate without a row by nobody.
 */
export async function removeDeleted(services: Services): Promise<void> {
  const { db } = services;
  const deletedBy = services.now() - services.config.retentionMs;
  const from = await readCursor(db, "tombstones");
  const old = await oldTombstones(db, from, deletedBy, TOMBSTONES);
  const last = old.length < TOMBSTONES ? undefined : old.at(-1);
  const after = last ? { at: last.at, row: last.row } : { at: 0, row: 0 };
  if (old.length > 0) {
    const bare = await withoutDeliveries(
      services,
      old.map(({ id }) => id),
    );
    const forgotten: string[] = [];
    for (let i = 0; i < bare.length; i += GATES)
      await Promise.all(
        bare.slice(i, i + GATES).map(async (id) => {
          if (await forgetGate(services, id)) forgotten.push(id);
        }),
      );
    await removeTombstones(db, forgotten);
    if (forgotten.length > 0) services.log({ what: "destinations_removed", destinations: forgotten.length });
  }
  if (after.at !== from.at || after.row !== from.row) await moveCursor(db, "tombstones", after);
}
