/**
 * Rollups: a gate's counters by minute for the last hour, by hour for a week, and in total.
 *
 * Minutes are part of the gate's state and cost no row of their own. When an hour is over, its minutes are rolled up
 * into the hours, a stored value of their own that is written at most once an hour, and only if there was traffic. Both
 * are bounded at any traffic and with any clock.
 *
 * A window that looks back is summed from the same minutes or hours as its series, so the series adds up to the sum.
 */

import type { AttemptMetric } from "./metrics.ts";
import { type Counters, countersAfter, emptyCounters, sumOfCounters, totalOf } from "./metrics.ts";
import { type MetricResult, results } from "./retry/classify.ts";

export const MINUTE_MS = 60_000;
export const HOUR_MS = 60 * MINUTE_MS;
const WEEK_MS = 7 * 24 * HOUR_MS;
/** The hour before now, and the minute that has begun. */
const MINUTES = 61;
const HOURS = 7 * 24;

/** The part in the gate's state. Only minutes with traffic are there, in order. */
export type Rollups = Readonly<{
  ever: Counters;
  minutes: readonly Counters[];
  /** Epoch ms: the hours include the minutes before this. */
  rolledUpTo: number;
}>;

/** Whole hours, in order. */
export type Hours = readonly Counters[];

export function newRollups(now: number): Rollups {
  return { ever: emptyCounters(now), minutes: [], rolledUpTo: 0 };
}

/** Counts attempts that were settled at `now`, and deliveries that ended dead without one. */
export function rollupsAfter(
  rollups: Rollups,
  metrics: readonly AttemptMetric[],
  now: number,
  unattemptedDead = 0,
): Rollups {
  if (metrics.length === 0 && unattemptedDead === 0) return rollups;
  const attempted = countersAfter(emptyCounters(startOf(now, MINUTE_MS)), metrics);
  const counters = { ...attempted, dead: attempted.dead + unattemptedDead };
  const last = rollups.minutes.at(-1);
  // With a clock that was set back it adds to the newest minute, which keeps the order.
  const isSame = last !== undefined && last.from >= counters.from;
  const earlier = isSame ? rollups.minutes.slice(0, -1) : rollups.minutes;
  const needed = earlier.filter(({ from }) => from > now - HOUR_MS || from >= rollups.rolledUpTo);
  const minutes = [...needed, isSame ? sumOfCounters(last, counters) : counters];
  return { ...rollups, ever: sumOfCounters(rollups.ever, counters), minutes: minutes.slice(-MINUTES) };
}

/** Whether the minutes of an hour that is over are to be rolled up. The time is the newest minute's. */
export function isHourOver(rollups: Rollups): boolean {
  return overIn(rollups).length > 0;
}

/** Moves the minutes of hours that are over into the hours. Safe to repeat. */
export function rolledUp(rollups: Rollups, hours: Hours): Readonly<{ rollups: Rollups; hours: Hours }> {
  const byHour = Map.groupBy([...hours, ...overIn(rollups)], ({ from }) => startOf(from, HOUR_MS));
  const whole = [...byHour].map(([from, parts]) =>
    parts.reduce<Counters>(sumOfCounters, emptyCounters(from)),
  );
  const hour = newestHour(rollups);
  return {
    rollups: { ...rollups, rolledUpTo: Math.max(rollups.rolledUpTo, hour) },
    hours: whole.filter(({ from }) => from >= hour - WEEK_MS).slice(-HOURS),
  };
}

/** The minutes of hours that are over and not rolled up yet. */
function overIn(rollups: Rollups): Counters[] {
  const hour = newestHour(rollups);
  return rollups.minutes.filter(({ from }) => from >= rollups.rolledUpTo && from < hour);
}

function newestHour({ minutes, rolledUpTo }: Rollups): number {
  return startOf(minutes.at(-1)?.from ?? rolledUpTo, HOUR_MS);
}

/** The start of the step that `at` is in; steps are counted from the epoch. */
function startOf(at: number, stepMs: number): number {
  return Math.floor(at / stepMs) * stepMs;
}

export const windows = ["15m", "1h", "24h", "7d"] as const;

export type StatsWindow = (typeof windows)[number];

/** A window's number of points and the length of each; the last one is in progress. */
export const spans: Readonly<Record<StatsWindow, Readonly<{ stepMs: number; points: number }>>> = {
  "15m": { stepMs: MINUTE_MS, points: 15 },
  "1h": { stepMs: MINUTE_MS, points: 60 },
  "24h": { stepMs: HOUR_MS, points: 24 },
  "7d": { stepMs: HOUR_MS, points: 168 },
};

/** Traffic within one minute or hour. */
export type SeriesPoint = Readonly<{
  /** Epoch ms: its start. */
  at: number;
  attempts: number;
  /** Attempts that were not the first of their delivery. */
  retries: number;
  /** Attempts without a 2xx. */
  failures: number;
  delivered: number;
  dead: number;
}>;

/** Every point of the window in order, with those without traffic. */
export type Series = readonly SeriesPoint[];

export function sumOf(rollups: Rollups, hours: Hours, window: StatsWindow, now: number): Counters {
  return within(rollups, hours, window, now).reduce<Counters>(
    sumOfCounters,
    emptyCounters(beginning(window, now)),
  );
}

/** Attempts and failures over time, for a chart. */
export function seriesOf(rollups: Rollups, hours: Hours, window: StatsWindow, now: number): Series {
  const { stepMs, points } = spans[window];
  const start = beginning(window, now);
  const bySlot = Map.groupBy(within(rollups, hours, window, now), ({ from }) => startOf(from, stepMs));
  return Array.from({ length: points }, (_, i) => {
    const at = start + i * stepMs;
    return pointOf((bySlot.get(at) ?? []).reduce<Counters>(sumOfCounters, emptyCounters(at)));
  });
}

/** The sum of several destinations' series. They must be of one window, and read within one step. */
export function addedSeries(all: readonly Series[]): Series {
  const byTime = Map.groupBy(all.flat(), ({ at }) => at);
  return [...byTime.values()].map((points) => points.reduce(addedPoint)).sort((a, b) => a.at - b.at);
}

function within(rollups: Rollups, hours: Hours, window: StatsWindow, now: number): Counters[] {
  const start = beginning(window, now);
  const open = rollups.minutes.filter(({ from }) => from >= rollups.rolledUpTo);
  const source = spans[window].stepMs === MINUTE_MS ? rollups.minutes : [...hours, ...open];
  // After a clock was set back some minutes lie in the future: they belong to no window yet.
  return source.filter(({ from }) => from >= start && from <= now);
}

function beginning(window: StatsWindow, now: number): number {
  const { stepMs, points } = spans[window];
  return startOf(now, stepMs) - (points - 1) * stepMs;
}

function pointOf(counters: Counters): SeriesPoint {
  const attempts = totalOf(counters.attempts);
  return {
    at: counters.from,
    attempts,
    retries: attempts - (counters.attempts[0] ?? 0),
    failures: attempts - (counters.results[results.indexOf("2xx")] ?? 0),
    delivered: counters.delivered,
    dead: counters.dead,
  };
}

function addedPoint(a: SeriesPoint, b: SeriesPoint): SeriesPoint {
  return {
    at: a.at,
    attempts: a.attempts + b.attempts,
    retries: a.retries + b.retries,
    failures: a.failures + b.failures,
    delivered: a.delivered + b.delivered,
    dead: a.dead + b.dead,
  };
}

/** Attempts that ended within one minute: enough to distinguish a retry storm from traffic. */
type Minute = Readonly<{
  /** Epoch ms. */
  from: number;
  first: number;
  retries: number;
  /** Attempts without a 2xx. */
  failures: number;
  /** Attempts that show trouble: 429, 5xx, no response. Any other 4xx comes from a server that works. */
  troubled: number;
}>;

export type Traffic = readonly Minute[];

export type TrafficSum = Readonly<{
  first: number;
  retries: number;
  failures: number;
  /** Retries per first attempt; a first attempt is assumed where there was none. */
  retryRatio: number;
  /** A retry storm: more than five retries for each first attempt, and more than a hundred. */
  storm: boolean;
}>;

const WINDOW_MS = 15 * MINUTE_MS;
const STORM_RATIO = 5;
const STORM_RETRIES = 100;
const trouble: readonly MetricResult[] = ["429", "5xx", "timeout", "network"];

/** The last 15 minutes, oldest first, without those without an attempt. */
export function recentTraffic({ minutes }: Pick<Rollups, "minutes">, now: number): Traffic {
  return minutes
    .filter(({ from }) => from > now - WINDOW_MS && from <= now)
    .map(minuteOf)
    .filter(({ first, retries }) => first + retries > 0);
}

function minuteOf({ from, attempts, results: counts }: Counters): Minute {
  const all = totalOf(attempts);
  const first = attempts[0] ?? 0;
  const count = (result: MetricResult) => counts[results.indexOf(result)] ?? 0;
  const troubled = trouble.reduce((sum, result) => sum + count(result), 0);
  return { from, first, retries: all - first, failures: all - count("2xx"), troubled };
}

/** Attempts of the minutes that ended within the last `ms`, and how many of them show trouble. */
export function recentAttempts(
  traffic: Traffic,
  ms: number,
  now: number,
): { attempts: number; troubled: number } {
  const recent = traffic.filter(({ from }) => from + MINUTE_MS > now - ms);
  return {
    attempts: recent.reduce((sum, { first, retries }) => sum + first + retries, 0),
    troubled: recent.reduce((sum, { troubled }) => sum + troubled, 0),
  };
}

/** Whether a storm is over: well below one of its bounds, so that it does not flap. */
export function isCalm({ retryRatio, retries }: TrafficSum): boolean {
  return retryRatio <= STORM_RATIO / 2 || retries <= STORM_RETRIES / 2;
}

export function trafficSum(recent: Traffic): TrafficSum {
  const total = (field: "first" | "retries" | "failures") => recent.reduce((sum, m) => sum + m[field], 0);
  const [first, retries] = [total("first"), total("retries")];
  const retryRatio = retries / Math.max(1, first);
  const storm = retryRatio > STORM_RATIO && retries > STORM_RETRIES;
  return { first, retries, failures: total("failures"), retryRatio, storm };
}
