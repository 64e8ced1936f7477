/**
 * A round over the gates of a fleet, for the thresholds of rates: sums over the checked destinations, and those with
 * the largest parts in them. A round has a time and a number of gates; if these do not suffice for all destinations,
 * the next round continues. Between its invocations a round travels in a message.
 */
import { foremost, type WatchedDestination } from "./alerts.ts";
import { type Counters, emptyCounters, sumOfCounters } from "./metrics.ts";
import { MINUTE_MS } from "./rollups.ts";

/** Gates that a round queries at most: each of a million within five hours, for at most 22 dollars a month. */
const MOST_QUERIED = 50_000;
/** A round begins every 15 minutes: the one before has ended by then. */
const LONGEST_MS = 13 * MINUTE_MS;

export type FleetRound = Readonly<{
  /** Epoch ms. */
  beganAt: number;
  /** The row of the destinations after which it began, and the last one that it has checked. */
  from: number;
  after: number;
  /** Whether it has reached the end of the rows, and continued from the first. */
  isAgain: boolean;
  /** The numbers of destinations whose gates have answered, and have not. */
  queried: number;
  unreachable: number;
  hour: Counters;
  day: Counters;
  /** The destinations with the largest parts in the figures that have thresholds. */
  foremost: readonly WatchedDestination[];
}>;

/** The figures of one destination: its counters of an hour and of a day; absent when its gate did not answer. */
type LookedAt = Readonly<{ watched: WatchedDestination; day: Counters } | { watched?: undefined }>;

/** @param from the row behind which the round before has stopped; 0: it has been through */
export function newRound(from: number, now: number): FleetRound {
  const none = emptyCounters(0);
  const nothing = { queried: 0, unreachable: 0, hour: none, day: none, foremost: [] };
  return { beganAt: now, from, after: from, isAgain: false, ...nothing };
}

/** The round with some destinations more. `upto` is their last row; absent at the end of the rows. */
export function roundAfter(
  round: FleetRound,
  looked: readonly LookedAt[],
  upto: number | undefined,
): FleetRound {
  const known = looked.flatMap((one) => (one.watched ? [one] : []));
  return {
    ...round,
    after: upto ?? (round.isAgain ? round.from : 0),
    isAgain: round.isAgain || upto === undefined,
    queried: round.queried + known.length,
    unreachable: round.unreachable + looked.length - known.length,
    hour: known.map(({ watched }) => watched.hour).reduce(sumOfCounters, round.hour),
    day: known.map(({ day }) => day).reduce(sumOfCounters, round.day),
    foremost: foremost([...round.foremost, ...known.map(({ watched }) => watched)]),
  };
}

/** Whether it has checked every destination. */
export function isWhole({ isAgain, after, from }: FleetRound): boolean {
  return isAgain && after >= from;
}

/** Whether it has checked as many as it may. */
export function isOver(round: FleetRound, now: number): boolean {
  const { queried, unreachable, beganAt } = round;
  return isWhole(round) || queried + unreachable >= MOST_QUERIED || Math.abs(now - beganAt) >= LONGEST_MS;
}

/** The row after which the next round begins. */
export function nextFrom(round: FleetRound): number {
  return isWhole(round) ? 0 : round.after;
}
