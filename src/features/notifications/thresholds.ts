/**
 * Threshold alerts: every 15 minutes the fleet's figures are compared with their thresholds, and those crossed are
 * published. Only if notifications have a receiver, because it costs a call to each gate.
 *
 * Gates are queried, and report nothing by themselves: a call costs $0.15 a million and is made only while there is a
 * receiver, whereas a row written by each gate in use would cost a dollar a million, and more load on the first
 * database. A round queries up to 50,000 (core/fleet-round.ts); in a larger fleet the next round continues, and the
 * alert says how many destinations it is about.
 *
 * Destinations of the operator itself are left out, so that their trouble causes no notification.
 */

import {
  type Backlogs,
  crossings,
  RETRYING_FOR_A_DAY,
  snapshotAgo,
  type WatchedDestination,
  type WatchedSums,
} from "../../core/alerts.ts";
import { type FleetRound, isOver, isWhole, newRound, nextFrom, roundAfter } from "../../core/fleet-round.ts";
import { emptyCounters } from "../../core/metrics.ts";
import { OPERATOR } from "../../core/principal.ts";
import { MINUTE_MS } from "../../core/rollups.ts";
import { orLogged } from "../../log.ts";
import type { Services } from "../../services.ts";
import { allOf } from "../../store/databases.ts";
import type { Destination } from "../../store/destination.ts";
import { backlogOf, retryingForADay, saveBacklogSnapshot } from "../../store/stats.ts";
import { moveCursor, readCursor } from "../../store/sweep.ts";
import { destinationsBehind, fleetSize, watchedDestinations } from "../../store/watched-destinations.ts";
import { COUNTED, depthsOf, type FleetMember, MOST_SHOWN, queryGates } from "../stats/fleet.ts";
import { checkLags } from "./lags.ts";
import { mailboxOf } from "./mail.ts";
import { thresholdEvent } from "./operational-events.ts";
import { publish, raisesNotifications } from "./publish.ts";
import { isOperatorListening } from "./sql.ts";

const EVERY_MINUTES = 15;
/** How many destinations one statement reads and one invocation examines, and in what time at most. */
const PAGE = 250;
const STEP = 2_000;
const STEP_MS = 15_000;
/** The number of further databases from which on the figures are read in another invocation than the cron's. */
const BESIDE_CRON = 10;
/** Destinations whose backlog is counted beyond `COUNTED`, and how far. */
const DEEP = 10;
const DEEP_COUNTED = 10_000;
/** Destinations whose deliveries retrying for a day are counted, when those are too many in all. */
const AGES_READ = 10;
/** The most of them, because each is a query of every database and D1 allows an invocation 1,000. */
const AGE_QUERIES = 300;

/**
 * For the cron: begins to compare the figures with their thresholds, every 15 minutes. A large fleet is examined in several
 * invocations.
 */
export async function checkThresholds(services: Services): Promise<void> {
  const now = services.now();
  if (Math.floor(now / MINUTE_MS) % EVERY_MINUTES !== 0) return;
  if (!mailboxOf(services) && !(await isOperatorListening(services.db))) return;
  const { row } = await readCursor(services.db, "alerts");
  await continueCheck(services, newRound(row, now));
}

/** Continues a round; at its end, publishes the figures that have crossed their thresholds. */
export async function continueCheck(services: Services, begun: FleetRound): Promise<void> {
  if (isOver(begun, services.now())) return finish(services, begun);
  const round = await lookOn(services, begun);
  const from = nextFrom(round);
  if (from !== begun.from) await moveCursor(services.db, "alerts", { at: round.beganAt, row: from });
  // The figures of backlogs need queries of every database: with several, in an invocation that has made none.
  const isHere = isOver(round, services.now()) && (services.further ?? []).length < BESIDE_CRON;
  if (isHere) return finish(services, round);
  await orLogged(services, { what: "thresholds_not_checked" }, () =>
    services.upkeep.send({ alerts: round, until: round.beganAt }),
  );
}

/** Reads as many destinations as one invocation may. */
async function lookOn(services: Services, begun: FleetRound): Promise<FleetRound> {
  const startedAt = services.now();
  let round = begun;
  for (let looked = 0; looked < STEP && !isOver(round, services.now()); looked += PAGE) {
    if (services.now() - startedAt >= STEP_MS) break;
    const left = round.isAgain ? round.from - round.after : PAGE;
    const { destinations, upto } = await destinationsBehind(services, round.after, Math.min(PAGE, left));
    const rows = destinations.filter(raisesNotifications);
    const figures = await queryGates(services, rows, { windows: ["1h", "24h"], series: false });
    await checkLags(services, rows);
    const lookedAt = rows.map((row, i) => lookAt(row, figures[i]));
    round = roundAfter(round, lookedAt, upto);
  }
  return round;
}

function lookAt(row: Destination, figures: FleetMember["figures"]) {
  if (figures === undefined) return {};
  return { watched: watchedOne({ row, figures }), day: figures.windows["24h"]?.sum ?? emptyCounters(0) };
}

async function finish(services: Services, round: FleetRound): Promise<void> {
  const now = services.now();
  const crossed = crossings(await figuresOfAll(services, round, now));
  for (const { threshold, value, limit, destinations } of crossed) {
    const line = { threshold, value, limit, destinations: destinations.join(" ") };
    services.log({ what: "threshold_crossed", ...line });
  }
  const events = crossed.map((crossing) => thresholdEvent(crossing, now));
  await publish(services, events);
}

/**
 * The figures that have thresholds. Rates are those of the destinations that the round has examined: a log line says of how
 * many, if these are not all. Backlogs are read from D1, of the destinations that have deliveries under way.
 */
async function figuresOfAll(services: Services, round: FleetRound, now: number): Promise<WatchedSums> {
  const [active, old, total] = await Promise.all([
    watchedDestinations(services, undefined, MOST_SHOWN, services.random),
    retryingForADay(services, { without: OPERATOR }, now),
    fleetSize(services, services.random),
  ]);
  const { queried, unreachable } = round;
  if (!isWhole(round)) services.log({ what: "rates_checked_in_part", queried, total });
  const known = new Map(round.foremost.map((one) => [one.id, one]));
  const busy = await withBacklogs(services, active.destinations.filter(raisesNotifications), known);
  const snapshots = await saveBacklogSnapshot(services.db, { at: now, backlogs: backlogsOf(busy) });
  const seen = new Set(busy.map(({ id }) => id));
  const destinations = [...busy, ...round.foremost.filter(({ id }) => !seen.has(id))];
  return {
    hour: round.hour,
    day: round.day,
    coverage: { total: Math.max(total, queried + unreachable), queried, unreachable },
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
  known: ReadonlyMap<string, WatchedDestination>,
): Promise<readonly WatchedDestination[]> {
  const seen = await depthsOf(services, destinations);
  const full = seen.filter(({ depth }) => depth.waiting >= COUNTED).map(({ row }) => row.id);
  const deeper = await backlogOf(services, full.slice(0, DEEP), DEEP_COUNTED);
  return seen.map(({ row, depth }) => {
    const isBacklogCut = full.indexOf(row.id) >= DEEP;
    const waiting = deeper.get(row.id)?.waiting ?? depth.waiting;
    const one = known.get(row.id) ?? watchedOne({ row, figures: undefined });
    return { ...one, backlog: waiting + depth.retrying, isBacklogCut };
  });
}

function watchedOne({ row, figures }: Pick<FleetMember, "row" | "figures">): WatchedDestination {
  const hour = figures?.windows["1h"]?.sum ?? emptyCounters(0);
  return { id: row.id, hour, backlog: 0, isPaused: row.status === "paused" };
}

/** Counts the deliveries retrying for a day of the destinations with the largest backlogs. */
async function withAges(services: Services, destinations: readonly WatchedDestination[], now: number) {
  const most = Math.min(AGES_READ, Math.floor(AGE_QUERIES / allOf(services).length));
  const deepest = destinations.toSorted((a, b) => b.backlog - a.backlog).slice(0, most);
  const ages = new Map(
    await Promise.all(
      deepest.map(async ({ id }) => [id, await retryingForADay(services, { destination: id }, now)] as const),
    ),
  );
  return destinations.map((one) => ({ ...one, retryingForADay: ages.get(one.id) ?? 0 }));
}
