/**
 * What a gate has counted: minutes for the last hour, hours for a week, and everything since it began.
 *
 * The minutes live in the gate's state and cost no row of their own. When an hour is over, its minutes are
 * rolled up into the hours, a value of its own that is written once an hour at most, and only where there
 * was traffic. Both are bounded, whatever the traffic and the clock do.
 */
import {
  type AttemptMetric,
  type Counters,
  countersAfter,
  emptyCounters,
  type Result,
  results,
  sumOfCounters,
  totalOf,
} from "./metrics.ts";

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
export function rollupsAfter(
  rollups: Rollups,
  metrics: readonly AttemptMetric[],
  now: number,
  buried = 0,
): Rollups {
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
  const whole = [...byHour].map(([from, parts]) =>
    parts.reduce<Counters>(sumOfCounters, emptyCounters(from)),
  );
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
function startOf(at: number, stepMs: number): number {
  return Math.floor(at / stepMs) * stepMs;
}

// §§ Looking back: the tallies of a stretch of time that ends now, as one sum and as a series. Both are made
// of the same minutes or hours, so the series adds up to the sum.

export const windows = ["15m", "1h", "24h", "7d"] as const;

export type StatsWindow = (typeof windows)[number];

/** How long the points of a window are, and how many: the last one has just begun. */
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
  /** Attempts that did not come to a 2xx. */
  failures: number;
  delivered: number;
  dead: number;
}>;

/** Every point of the window in order, those without traffic too. */
export type Series = readonly SeriesPoint[];

/** Everything counted within the window. */
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

/** The series of several destinations as one. They must be of one window, looked at within one step. */
export function addedSeries(all: readonly Series[]): Series {
  const byTime = Map.groupBy(all.flat(), ({ at }) => at);
  return [...byTime.values()].map((points) => points.reduce(addedPoint)).sort((a, b) => a.at - b.at);
}

function within(rollups: Rollups, hours: Hours, window: StatsWindow, now: number): Counters[] {
  const start = beginning(window, now);
  const open = rollups.minutes.filter(({ from }) => from >= rollups.rolledUpTo);
  const source = spans[window].stepMs === MINUTE_MS ? rollups.minutes : [...hours, ...open];
  // What a clock that was set back since calls the future belongs to no window yet.
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

// §§ What has been sent to a destination of late, minute by minute, read off what its gate has counted: enough to
// tell a storm from traffic.

/** Attempts that ended within one minute. */
export type Minute = Readonly<{
  /** Epoch ms. */
  from: number;
  first: number;
  retries: number;
  /** Attempts that did not come to a 2xx. */
  failures: number;
  /** Those of them that speak of trouble: 429, 5xx, no answer. A refusal shows a living receiver. */
  troubled: number;
}>;

export type Traffic = readonly Minute[];

export type TrafficSum = Readonly<{
  first: number;
  retries: number;
  failures: number;
  /** Retries per first attempt; a first attempt is assumed where there was none. */
  retryRatio: number;
  /** More is being tried again than is new, by far: the sign of a retry storm. */
  storm: boolean;
}>;

const WINDOW_MS = 15 * MINUTE_MS;
const STORM_RATIO = 5;
const STORM_RETRIES = 100;
const trouble: readonly Result[] = ["429", "5xx", "timeout", "network"];

/** The last 15 minutes, the oldest first; those without an attempt are left out. */
export function recentTraffic({ minutes }: Pick<Rollups, "minutes">, now: number): Traffic {
  return minutes
    .filter(({ from }) => from > now - WINDOW_MS && from <= now)
    .map(minuteOf)
    .filter(({ first, retries }) => first + retries > 0);
}

function minuteOf({ from, attempts, results: came }: Counters): Minute {
  const all = totalOf(attempts);
  const first = attempts[0] ?? 0;
  const count = (result: Result) => came[results.indexOf(result)] ?? 0;
  const troubled = trouble.reduce((sum, result) => sum + count(result), 0);
  return { from, first, retries: all - first, failures: all - count("2xx"), troubled };
}

/** Attempts of the minutes that have not been over for `ms`, and how many of them met with trouble. */
export function lately(traffic: Traffic, ms: number, now: number): { attempts: number; troubled: number } {
  const recent = traffic.filter(({ from }) => from + MINUTE_MS > now - ms);
  return {
    attempts: recent.reduce((sum, { first, retries }) => sum + first + retries, 0),
    troubled: recent.reduce((sum, { troubled }) => sum + troubled, 0),
  };
}

/** Whether a storm that was is over: well below both of its bounds, so that it does not flap at one of them. */
export function isCalm({ retryRatio, retries }: TrafficSum): boolean {
  return retryRatio <= STORM_RATIO / 2 || retries <= STORM_RETRIES / 2;
}

/** A storm: more than five retries for each first attempt, and more than a hundred. */
export function trafficSum(recent: Traffic): TrafficSum {
  const total = (field: "first" | "retries" | "failures") => recent.reduce((sum, m) => sum + m[field], 0);
  const [first, retries] = [total("first"), total("retries")];
  const retryRatio = retries / Math.max(1, first);
  const storm = retryRatio > STORM_RATIO && retries > STORM_RETRIES;
  return { first, retries, failures: total("failures"), retryRatio, storm };
}
