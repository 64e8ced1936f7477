/**
 * The watch: every quarter of an hour the figures are held against their thresholds, and the operator is told of
 * those that are crossed. Only where somebody is told: to look costs a call for each gate.
 *
 * What goes to the operator itself is left out, so that its trouble raises nothing.
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
  askAllBut,
  COUNTED,
  depthsOf,
  fleetSum,
  GATES_ASKED,
  GATES_WATCHED,
  type Seen,
} from "../metrics/fleet.ts";
import type { Services } from "../services.ts";
import { mailboxOf } from "./mail.ts";
import { thresholdEvent } from "./operational-events.ts";
import { isTold, publish } from "./publish.ts";

const EVERY_MINUTES = 15;
/** Destinations whose waiting deliveries are counted beyond what a look counts, and how far. */
const DEEP = 10;
const DEEP_COUNTED = 10_000;
/** Destinations asked how many of theirs have been retried for a day, when those are too many in all. */
const AGES_ASKED = 10;

/** For the clock, which comes every minute. */
export async function watch(services: Services): Promise<void> {
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
 * Rates are judged over all destinations or not at all: those of a part would be false alarms, or false calm.
 * Where there are too many to ask, a log line says that no rate is judged, and no gate is asked anything. Backlogs are
 * read from D1, of the destinations in which something goes on.
 */
async function figuresOfAll(services: Services, now: number): Promise<Watched> {
  const [lively, sampled, old] = await Promise.all([
    watchedDestinations(services, undefined, GATES_ASKED),
    askAllBut(services, OPERATOR, { windows: ["1h", "24h"], series: false }),
    retryingForADay(services, { without: OPERATOR }, now),
  ]);
  if (sampled === undefined) services.log({ what: "rates_unwatched", destinations_above: GATES_WATCHED });
  const figures = new Map(sampled?.map((one) => [one.row.id, one.figures]));
  const busy = await watchedOnes(services, lively.destinations.filter(isTold), figures);
  const looks = await saveBacklogSnapshot(services.db, { at: now, backlogs: backlogsOf(busy) });
  const known = new Set(busy.map(({ id }) => id));
  const quiet = (sampled ?? []).filter(({ row }) => !known.has(row.id));
  const destinations = [...busy, ...quiet.map((one) => watchedOne(one, 0))];
  return {
    hour: fleetSum({ sampled: sampled ?? [] }, "1h"),
    day: fleetSum({ sampled: sampled ?? [] }, "24h"),
    retryingForADay: old,
    destinations: old > RETRYING_FOR_A_DAY ? await withAges(services, destinations, now) : destinations,
    aQuarterAgo: snapshotAgo(looks, now, 15),
    halfAnHourAgo: snapshotAgo(looks, now, 30),
  };
}

/** Of one that is counted up to a bound today and beyond it tomorrow, nothing could be said: it is left out. */
function backlogsOf(busy: readonly WatchedDestination[]): Backlogs {
  const counted = busy.filter(({ isBacklogCut }) => !isBacklogCut);
  return Object.fromEntries(counted.map(({ id, backlog }) => [id, backlog]));
}

async function watchedOnes(
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

/** Asks those that have most to do: it is them whom somebody should look at. */
async function withAges(
  services: Services,
  destinations: readonly WatchedDestination[],
  now: number,
): Promise<readonly WatchedDestination[]> {
  const deepest = destinations.toSorted((a, b) => b.backlog - a.backlog).slice(0, AGES_ASKED);
  const ages = new Map(
    await Promise.all(
      deepest.map(async ({ id }) => [id, await retryingForADay(services, { destination: id }, now)] as const),
    ),
  );
  return destinations.map((one) => ({ ...one, retryingForADay: ages.get(one.id) ?? 0 }));
}
