/**
 * Looking back: the tallies of a stretch of time that ends now, as one sum and as a series. Both are made
 * of the same minutes or hours, so the series adds up to the sum.
 */
import { totalOf } from "./histogram.ts";
import { results } from "./sample.ts";
import { HOUR_MS, type Hours, MINUTE_MS, startOf, type Rollups } from "./tallies.ts";
import { emptyCounters, sumOfCounters, type Counters } from "./tally.ts";

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
  return within(rollups, hours, window, now).reduce<Counters>(sumOfCounters, emptyCounters(beginning(window, now)));
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
