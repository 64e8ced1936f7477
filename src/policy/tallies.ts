/**
 * What a gate has counted: minutes for the last hour, hours for a week, and everything since it began.
 *
 * The minutes live in the gate's state and cost no row of their own. When an hour is over, its minutes are
 * rolled up into the hours, a value of its own that is written once an hour at most, and only where there
 * was traffic. Both are bounded, whatever the traffic and the clock do.
 */
import type { AttemptMetric } from "./sample.ts";
import { emptyCounters, sumOfCounters, type Counters, countersAfter } from "./tally.ts";

export const MINUTE_MS = 60_000;
export const HOUR_MS = 60 * MINUTE_MS;
const WEEK_MS = 7 * 24 * HOUR_MS;
/** The hour before now, and the minute that has begun. */
const MINUTES = 61;
const HOURS = 7 * 24;

/** What the gate's state holds. Only stretches in which something happened are there, in order. */
export type Rollups = Readonly<{
  ever: Counters;
  minutes: readonly Counters[];
  /** Epoch ms: minutes before this are in the hours too. */
  rolledUpTo: number;
}>;

/** Whole hours, in order. */
export type Hours = readonly Counters[];

export function newRollups(now: number): Rollups {
  return { ever: emptyCounters(now), minutes: [], rolledUpTo: 0 };
}

/** Counts attempts that were settled at `now`, and deliveries that ended dead without one. */
export function rollupsAfter(rollups: Rollups, metrics: readonly AttemptMetric[], now: number, buried = 0): Rollups {
  if (metrics.length === 0 && buried === 0) return rollups;
  const attempted = countersAfter(emptyCounters(startOf(now, MINUTE_MS)), metrics);
  const counters = { ...attempted, dead: attempted.dead + buried };
  const last = rollups.minutes.at(-1);
  // A clock that was set back adds to the newest minute: the order holds.
  const goesOn = last !== undefined && last.from >= counters.from;
  const earlier = goesOn ? rollups.minutes.slice(0, -1) : rollups.minutes;
  const needed = earlier.filter(({ from }) => from > now - HOUR_MS || from >= rollups.rolledUpTo);
  const minutes = [...needed, goesOn ? sumOfCounters(last, counters) : counters];
  return { ...rollups, ever: sumOfCounters(rollups.ever, counters), minutes: minutes.slice(-MINUTES) };
}

/** Whether an hour with traffic is over that the hours do not have yet. The newest minute says what time it is. */
export function isHourOver(rollups: Rollups): boolean {
  return overIn(rollups).length > 0;
}

/** Moves the minutes of hours that are over into the hours. Safe to repeat. */
export function rolledUp(rollups: Rollups, hours: Hours): Readonly<{ rollups: Rollups; hours: Hours }> {
  const byHour = Map.groupBy([...hours, ...overIn(rollups)], ({ from }) => startOf(from, HOUR_MS));
  const whole = [...byHour].map(([from, parts]) => parts.reduce<Counters>(sumOfCounters, emptyCounters(from)));
  const hour = newestHour(rollups);
  return {
    rollups: { ...rollups, rolledUpTo: Math.max(rollups.rolledUpTo, hour) },
    hours: whole.filter(({ from }) => from >= hour - WEEK_MS).slice(-HOURS),
  };
}

/** The minutes of hours that are over, as far as the hours do not have them. */
function overIn(rollups: Rollups): Counters[] {
  const hour = newestHour(rollups);
  return rollups.minutes.filter(({ from }) => from >= rollups.rolledUpTo && from < hour);
}

function newestHour({ minutes, rolledUpTo }: Rollups): number {
  return startOf(minutes.at(-1)?.from ?? rolledUpTo, HOUR_MS);
}

/** The start of the stretch of `stepMs` that `at` is in; stretches are counted from the epoch. */
export function startOf(at: number, stepMs: number): number {
  return Math.floor(at / stepMs) * stepMs;
}
