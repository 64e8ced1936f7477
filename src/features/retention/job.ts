/**
 * Retention, every minute: removes events older than `RETENTION_DAYS` with their deliveries, in bounded steps.
 *
 * A walk goes over the bundles of each database in the order of their ids. It passes bundles with deliveries that have
 * not ended, or that a running replay may still come to; when it reaches bundles that are too young, it begins again
 * from the lowest, so that nothing is passed for ever. Where nothing is old, it reads two rows and writes none.
 *
 * A deleted destination stays as a tombstone as long as one of its deliveries does. Then its gate's state is removed,
 * and then its row.
 *
 * A step has a budget of D1 queries; what is left then is continued by pages over the queue. Two steps at once remove
 * the same bundles, once.
 */

import { CONNECTIONS } from "../../core/lease.ts";
import { forgetGate } from "../../gate/client.ts";
import { reportUnreadable } from "../../jobs/unreadable.ts";
import { faultOf } from "../../log.ts";
import type { UpkeepMessage } from "../../queue-messages.ts";
import type { Services } from "../../services.ts";
import { countQueries, inTurn } from "../../store/databases.ts";
import {
  destinationFacts,
  oldBundles,
  oldTombstones,
  type Removed,
  removeEnded,
  removeTombstones,
  withoutDeliveries,
} from "../../store/retention.ts";
import { moveCursor, readCursor } from "../../store/sweep.ts";
import { forgetAuditEntries } from "../audit/sql.ts";

/** What one statement looks at: a step with one database gets through 3,000 full bundles. */
const PAGE = { bundles: 500, deliveries: 25_000 };
/** Queries after which a step starts no further work. */
const QUERIES = 100;
/** A step starts no further work after this. */
const STEP_MS = 15_000;
/** No page is enqueued later than this after the cron: the next one is about to continue. */
const PAGES_MS = 35_000;
const MOST_PAGES = 20;
/** Deleted destinations checked each minute. */
const TOMBSTONES = 100;
/** Gates called at once: as many as there are connections, in case the calls count as such. */
const GATES = CONNECTIONS;

/** The cron's step. */
export async function removeOld(services: Services): Promise<void> {
  await removeEvents(services, 0, services.now() + PAGES_MS);
}

type RetentionMessage = Extract<UpkeepMessage, { retention: number }>;

/** Continues where the step before has stopped. */
export async function removeMore(services: Services, { retention, until }: RetentionMessage): Promise<void> {
  await removeEvents(services, retention, until);
}

async function removeEvents(services: Services, page: number, until: number): Promise<void> {
  const now = services.now();
  const { queries, ...databases } = countQueries(services);
  const counted = { ...services, ...databases };
  const mayGoOn = () => queries() < QUERIES && services.now() - now < STEP_MS;
  const removed: Removed[] = [];
  // Begins with a random one, so that none of many databases is left out for ever.
  const first = Math.floor(services.random() * (1 + (services.further ?? []).length));
  const { more, failure } = await inTurn(counted, first, mayGoOn, async (db) => {
    const { done, more } = await removeFrom(counted, db, now, mayGoOn);
    removed.push(...done);
    return more;
  });
  const [events, deliveries] = [sum(removed, "events"), sum(removed, "deliveries")];
  if (events > 0) services.log({ what: "removed", events, deliveries, took_ms: services.now() - now });
  // A walk that finds only bundles which cannot be removed yet may take its time.
  if (more && events > 0 && page < MOST_PAGES && services.now() < until)
    await enqueuePage(services, page + 1, until);
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
    const { bundles, unreadable, upto, isLast } = await oldBundles(db, after, bounds);
    await reportUnreadable(services, unreadable);
    if (bundles.length > 0)
      done.push(await removeEnded(db, bundles, await destinationFacts(services.db, bundles), now));
    after = isLast ? 0 : upto;
    isEnd = isLast;
  } while (!isEnd && mayGoOn());
  if (after !== from.row) await moveCursor(db, "retention", { at: 0, row: after });
  return { done, more: !isEnd };
}

function sum(removed: readonly Removed[], count: keyof Removed): number {
  return removed.reduce((total, one) => total + one[count], 0);
}

/** A failure is logged: the next cron continues. */
async function enqueuePage(services: Services, page: number, until: number): Promise<void> {
  try {
    await services.upkeep.send({ retention: page, until });
  } catch (error) {
    services.log({ what: "retention_page_not_sent", error: faultOf(error) });
  }
}

/**
 * Removes the next destinations that were deleted longer ago than `RETENTION_DAYS` and have no deliveries left. The
 * gate's state goes first: a row that is left is checked again, but nothing would find a gate without a row.
 */
export async function removeDeleted(services: Services): Promise<void> {
  const { db } = services;
  const deletedBy = services.now() - services.config.retentionMs;
  const from = await readCursor(db, "tombstones");
  const old = await oldTombstones(db, from, deletedBy, TOMBSTONES);
  if (old.length > 0)
    await removeBare(
      services,
      old.map(({ id }) => id),
    );
  const last = old.length < TOMBSTONES ? undefined : old.at(-1);
  const after = last ? { at: last.at, row: last.row } : { at: 0, row: 0 };
  if (after.at !== from.at || after.row !== from.row) await moveCursor(db, "tombstones", after);
}

/** Removes entries of the audit trail that are older than `AUDIT_DAYS`. */
export async function removeOldChanges({ db, config, now }: Services): Promise<void> {
  await forgetAuditEntries(db, now() - config.auditMs);
}

/** Removes those of the destinations that have no deliveries and whose gates could be reached. */
async function removeBare(services: Services, destinations: readonly string[]): Promise<void> {
  const bare = await withoutDeliveries(services, destinations);
  const forgotten: string[] = [];
  for (let i = 0; i < bare.length; i += GATES)
    await Promise.all(
      bare.slice(i, i + GATES).map(async (id) => {
        if (await forgetGate(services, id)) forgotten.push(id);
      }),
    );
  await removeTombstones(services.db, forgotten);
  if (forgotten.length > 0) services.log({ what: "destinations_removed", destinations: forgotten.length });
}
