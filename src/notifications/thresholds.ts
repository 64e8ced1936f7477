/**
 * Threshold alerts: every 15 minutes the fleet's figures are compared with their thresholds, and those crossed are
 * published. Only where somebody receives notifications, because it costs a call to each gate.
 *
 * Destinations of the operator itself are left out, so that their trouble causes no notification.
 */

import {
  type Backlogs,
  crossings,
  RETRYING_FOR_A_DAY,
  snapshotAgo,
  type Watched,
  type WatchedDestination,
} from "../core/alerts.ts";
import { emptyCounters } from "../core/metrics.ts";
import { MINUTE_MS } from "../core/rollups.ts";
import type { Destination } from "../db/destinations.ts";
import { isOperatorListening, OPERATOR } from "../db/notifications.ts";
import { backlogOf, retryingForADay, saveBacklogSnapshot } from "../db/stats.ts";
import { watchedDestinations } from "../db/watched-destinations.ts";
import {
  COUNTED,
  depthsOf,
  fleetSum,
  MOST_CHECKED,
  MOST_SHOWN,
  readAllBut,
  type Seen,
} from "../metrics/fleet.ts";
import type { Services } from "../services.ts";
import { mailboxOf } from "./mail.ts";
import { thresholdEvent } from "./operational-events.ts";
import { publish, raisesNotifications } from "./publish.ts";

const EVERY_MINUTES = 15;
/** Destinations whose backlog is counted beyond `COUNTED`, and how far. */
const DEEP = 10;
const DEEP_COUNTED = 10_000;
/** Destinations whose deliveries retrying for a day are counted, when those are too many in all. */
const AGES_READ = 10;

/** For the cron: compares the figures with their thresholds every 15 minutes. */
export async function checkThresholds(services: Services): Promise<void> {
  const now = services.now();
  if (Math.floor(now / MINUTE_MS) % EVERY_MINUTES !== 0) return;
  if (!mailboxOf(services) && !(await isOperatorListening(services.db))) return;
  const crossed = crossings(await figuresOfAll(services, now));
  for (const { threshold, value, limit, destinations } of crossed) {
    const line = { threshold, value, limit, destinations: destinations.join(" ") };
    services.log({ what: "threshold_crossed", ...line });
  }
  await publish(
    services,
    crossed.map((crossing) => thresholdEvent(crossing, now)),
  );
}

/**
 * The figures that have thresholds. Rates are checked over all destinations or not at all, because those of a sample
 * would raise false alarms or miss true ones: where there are too many gates to query, a log line says that no rate is
 * checked. Backlogs are read from D1, of the destinations that have deliveries under way.
 */
async function figuresOfAll(services: Services, now: number): Promise<Watched> {
  const [active, sampled, old] = await Promise.all([
    watchedDestinations(services, undefined, MOST_SHOWN),
    readAllBut(services, OPERATOR, { windows: ["1h", "24h"], series: false }),
    retryingForADay(services, { without: OPERATOR }, now),
  ]);
  if (sampled === undefined) services.log({ what: "rates_not_checked", destinations_above: MOST_CHECKED });
  const figures = new Map(sampled?.map((one) => [one.row.id, one.figures]));
  const busy = await withBacklogs(services, active.destinations.filter(raisesNotifications), figures);
  const snapshots = await saveBacklogSnapshot(services.db, { at: now, backlogs: backlogsOf(busy) });
  const known = new Set(busy.map(({ id }) => id));
  const quiet = (sampled ?? []).filter(({ row }) => !known.has(row.id));
  const destinations = [...busy, ...quiet.map((one) => watchedOne(one, 0))];
  return {
    hour: fleetSum({ sampled: sampled ?? [] }, "1h"),
    day: fleetSum({ sampled: sampled ?? [] }, "24h"),
    retryingForADay: old,
    destinations: old > RETRYING_FOR_A_DAY ? await withAges(services, destinations, now) : destinations,
    aQuarterAgo: snapshotAgo(snapshots, now, 15),
    halfAnHourAgo: snapshotAgo(snapshots, now, 30),
  };
}

/** Leaves out backlogs that were not counted to their end: they cannot be compared with a later count. */
function backlogsOf(busy: readonly WatchedDestination[]): Backlogs {
  const counted = busy.filter(({ isBacklogCut }) => !isBacklogCut);
  return Object.fromEntries(counted.map(({ id, backlog }) => [id, backlog]));
}

async function withBacklogs(
  services: Services,
  destinations: readonly Destination[],
  figures: ReadonlyMap<string, Seen["figures"]>,
): Promise<readonly WatchedDestination[]> {
  const seen = await depthsOf(services, destinations);
  const full = seen.filter(({ depth }) => depth.waiting >= COUNTED).map(({ row }) => row.id);
  const deeper = await backlogOf(services, full.slice(0, DEEP), DEEP_COUNTED);
  return seen.map(({ row, depth }) => {
    const isBacklogCut = full.indexOf(row.id) >= DEEP;
    const waiting = deeper.get(row.id)?.waiting ?? depth.waiting;
    const one = { row, figures: figures.get(row.id) };
    return { ...watchedOne(one, waiting + depth.retrying), isBacklogCut };
  });
}

function watchedOne({ row, figures }: Pick<Seen, "row" | "figures">, backlog: number): WatchedDestination {
  const hour = figures?.windows["1h"]?.sum ?? emptyCounters(0);
  return { id: row.id, hour, backlog, isPaused: row.status === "paused" };
}

/** Counts the deliveries retrying for a day of the destinations with the largest backlogs. */
async function withAges(
  services: Services,
  destinations: readonly WatchedDestination[],
  now: number,
): Promise<readonly WatchedDestination[]> {
  const deepest = destinations.toSorted((a, b) => b.backlog - a.backlog).slice(0, AGES_READ);
  const ages = new Map(
    await Promise.all(
      deepest.map(async ({ id }) => [id, await retryingForADay(services, { destination: id }, now)] as const),
    ),
  );
  return destinations.map((one) => ({ ...one, retryingForADay: ages.get(one.id) ?? 0 }));
}
