/**
 * What a gate has counted: minutes for the last hour, hours for a week, and everything since it began.
 *
 * The minutes live in the gate's state and cost no row of their own. When an hour is over, its minutes are
 * rolled up into the hours, a value of its own that is written once an hour at most, and only where there
 * was traffic. Both are bounded, whatever the traffic and the clock do.
 */
import type { Sample } from "./sample.ts";
import { emptyTally, plus, type Tally, tallied } from "./tally.ts";

export const MINUTE_MS = 60_000;
export const HOUR_MS = 60 * MINUTE_MS;
const WEEK_MS = 7 * 24 * HOUR_MS;
/** The hour before now, and the minute that has begun. */
const MINUTES = 61;
const HOURS = 7 * 24;

/** What the gate's state holds. Only stretches in which something happened are there, in order. */
export type Tallies = Readonly<{
  ever: Tally;
  minutes: readonly Tally[];
  /** Epoch ms: minutes before this are in the hours too. */
  rolledUpTo: number;
}>;

/** Whole hours, in order. */
export type Hours = readonly Tally[];

export function newTallies(now: number): Tallies {
  return { ever: emptyTally(now), minutes: [], rolledUpTo: 0 };
}

/** Counts attempts that were settled at `now`, and deliveries that ended dead without one. */
export function counted(tallies: Tallies, samples: readonly Sample[], now: number, buried = 0): Tallies {
  if (samples.length === 0 && buried === 0) return tallies;
  const attempted = tallied(emptyTally(startOf(now, MINUTE_MS)), samples);
  const tally = { ...attempted, dead: attempted.dead + buried };
  const last = tallies.minutes.at(-1);
  // A clock that was set back adds to the newest minute: the order holds.
  const goesOn = last !== undefined && last.from >= tally.from;
  const earlier = goesOn ? tallies.minutes.slice(0, -1) : tallies.minutes;
  const needed = earlier.filter(({ from }) => from > now - HOUR_MS || from >= tallies.rolledUpTo);
  const minutes = [...needed, goesOn ? plus(last, tally) : tally];
  return { ...tallies, ever: plus(tallies.ever, tally), minutes: minutes.slice(-MINUTES) };
}

/** Whether an hour with traffic is over that the hours do not have yet. The newest minute says what time it is. */
export function isHourOver(tallies: Tallies): boolean {
  return overIn(tallies).length > 0;
}

/** Moves the minutes of hours that are over into the hours. Safe to repeat. */
export function rolledUp(tallies: Tallies, hours: Hours): Readonly<{ tallies: Tallies; hours: Hours }> {
  const byHour = Map.groupBy([...hours, ...overIn(tallies)], ({ from }) => startOf(from, HOUR_MS));
  const whole = [...byHour].map(([from, parts]) => parts.reduce<Tally>(plus, emptyTally(from)));
  const hour = newestHour(tallies);
  return {
    tallies: { ...tallies, rolledUpTo: Math.max(tallies.rolledUpTo, hour) },
    hours: whole.filter(({ from }) => from >= hour - WEEK_MS).slice(-HOURS),
  };
}

/** The minutes of hours that are over, as far as the hours do not have them. */
function overIn(tallies: Tallies): Tally[] {
  const hour = newestHour(tallies);
  return tallies.minutes.filter(({ from }) => from >= tallies.rolledUpTo && from < hour);
}

function newestHour({ minutes, rolledUpTo }: Tallies): number {
  return startOf(minutes.at(-1)?.from ?? rolledUpTo, HOUR_MS);
}

/** The start of the stretch of `stepMs` that `at` is in; stretches are counted from the epoch. */
export function startOf(at: number, stepMs: number): number {
  return Math.floor(at / stepMs) * stepMs;
}
