/** A gate's counters, over minutes, hours and an unreliable clock. */
import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import { emptyCounters, totalOf } from "../../src/core/metrics.ts";
import {
  addedSeries,
  type Hours,
  isHourOver,
  newRollups,
  type Rollups,
  rolledUp,
  rollupsAfter,
  type Series,
  seriesOf,
  spans,
  sumOf,
  windows,
} from "../../src/core/rollups.ts";
import { attemptMetricArbitrary, metric } from "../support/attempt-metrics.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const NOON = Date.UTC(2026, 10, 21, 12);

type Kept = Readonly<{ rollups: Rollups; hours: Hours }>;

const nothing: Kept = { rollups: newRollups(NOON), hours: [] };

/** As the gate does it: new attempts are counted, then an hour that has ended is rolled up. */
function settled({ rollups, hours }: Kept, now: number, metrics = [metric()], buried = 0): Kept {
  const after = rollupsAfter(rollups, metrics, now, buried);
  return isHourOver(after) ? rolledUp(after, hours) : { rollups: after, hours };
}

function attemptsIn({ rollups, hours }: Kept, window: (typeof windows)[number], now: number): number {
  return totalOf(sumOf(rollups, hours, window, now).attempts);
}

describe("a window", () => {
  it.each(windows)("of %s has what has just happened", (window) => {
    expect(attemptsIn(settled(nothing, NOON), window, NOON)).toBe(1);
  });

  it.each([
    ["15m", 14 * MINUTE, 1],
    ["15m", 15 * MINUTE, 0],
    ["1h", 59 * MINUTE, 1],
    ["1h", 60 * MINUTE, 0],
    ["24h", 23 * HOUR, 1],
    ["24h", 24 * HOUR, 0],
    ["7d", 167 * HOUR, 1],
    ["7d", 168 * HOUR, 0],
  ] as const)("of %s, %d ms later, has %d of it", (window, later, count) => {
    const now = NOON + later;
    const before = settled(nothing, NOON + 30_000);
    expect(attemptsIn(before, window, now)).toBe(count);
    // The same when the gate has been busy since: the minutes are in hours by then.
    expect(attemptsIn(settled(before, now), window, now)).toBe(count + 1);
  });

  it("counts a minute once, whether its hour has been rolled up or not", () => {
    const busy = [0, 10, 20, 59, 60, 61].reduce((kept, m) => settled(kept, NOON + m * MINUTE), nothing);
    const now = NOON + 61 * MINUTE;
    expect(busy.hours).toHaveLength(1);
    expect(attemptsIn(busy, "24h", now)).toBe(6);
    expect(attemptsIn(busy, "1h", now)).toBe(5);
    expect(attemptsIn(rolledUp(busy.rollups, busy.hours), "24h", now)).toBe(6);
  });

  it("has nothing of a time in the future", () => {
    expect(attemptsIn(settled(nothing, NOON), "1h", NOON - 1)).toBe(0);
  });

  it.each(windows)("of %s has a length", (window) => {
    expect(windows).toContain(window);
    expect(Object.keys(spans)).toEqual([...windows]);
  });

  it("knows of deliveries that ended dead without an attempt", () => {
    const { rollups, hours } = settled(nothing, NOON, [], 3);
    expect(sumOf(rollups, hours, "15m", NOON)).toMatchObject({ dead: 3, delivered: 0 });
  });
});

describe("the stored rollup", () => {
  const hoursFrom = (first: number, count: number) =>
    Array.from({ length: count }, (_, i) => emptyCounters(first + i * HOUR));

  it("has no minutes older than an hour that are in the hours", () => {
    const kept = [-30, 0, 30].reduce((all, m) => settled(all, NOON + m * MINUTE), nothing);
    expect(kept.rollups.minutes.map(({ from }) => from)).toEqual([NOON, NOON + 30 * MINUTE]);
  });

  it("has the newest 61 minutes even if no hour is ever rolled up", () => {
    const busy = Array.from({ length: 100 }).reduce<Rollups>(
      (rollups, _, m) => rollupsAfter(rollups, [metric()], NOON + m * MINUTE),
      nothing.rollups,
    );
    expect(busy.minutes).toHaveLength(61);
    expect(busy.minutes.at(-1)?.from).toBe(NOON + 99 * MINUTE);
  });

  it("is rolled up when an hour is over, and not before", () => {
    const first = rollupsAfter(nothing.rollups, [metric()], NOON);
    expect(isHourOver(first)).toBe(false);
    expect(isHourOver(rollupsAfter(first, [metric()], NOON + HOUR - 1))).toBe(false);
    expect(isHourOver(rollupsAfter(first, [metric()], NOON + HOUR))).toBe(true);
  });

  it("has an hour's first minute, although the hour before was rolled up in it", () => {
    const kept = [-1, 0, 60].reduce((all, m) => settled(all, NOON + m * MINUTE), nothing);
    expect(kept.hours.map(({ from, delivered }) => [from, delivered])).toEqual([
      [NOON - HOUR, 1],
      [NOON, 1],
    ]);
  });

  it("has no hours older than a week", () => {
    const week = 7 * 24 * HOUR;
    const old = [...hoursFrom(NOON + HOUR - week - HOUR, 2), ...hoursFrom(NOON - HOUR, 1)];
    const { hours } = settled(settled({ ...nothing, hours: old }, NOON), NOON + HOUR);
    expect(hours.map(({ from }) => from)).toEqual([NOON + HOUR - week, NOON - HOUR, NOON]);
  });

  it("has no more hours than a week, even if a clock that was ahead has left a week of them", () => {
    const ahead = { ...nothing, hours: hoursFrom(NOON + 1_000 * HOUR, 168) };
    const { hours } = settled(settled(ahead, NOON), NOON + HOUR);
    expect(hours).toHaveLength(168);
    expect(hours.map(({ from }) => from)).toContain(NOON);
  });

  it("stays as it is when nothing is counted, so that nothing has to be written", () => {
    const { rollups } = settled(nothing, NOON);
    expect(rollupsAfter(rollups, [], NOON + HOUR)).toBe(rollups);
  });

  it("stays as it is when nothing was counted since it was rolled up", () => {
    const rollups = { ...nothing.rollups, rolledUpTo: NOON };
    const hours = hoursFrom(NOON - HOUR, 1);
    expect(rolledUp(rollups, hours)).toEqual({ rollups, hours });
  });
});

describe("a series", () => {
  const { rollups, hours } = settled(
    settled(nothing, NOON, [metric(), metric({ attempt: 2, result: "5xx", end: "again" })]),
    NOON + 3 * MINUTE,
    [metric({ result: "timeout", end: "dead" })],
  );

  it("has every minute in order, idle ones included, and ends with the current one", () => {
    const series = seriesOf(rollups, hours, "15m", NOON + 5 * MINUTE + 1);
    expect(series.map(({ at }) => at)).toEqual(Array.from({ length: 15 }, (_, i) => NOON + (i - 9) * MINUTE));
    expect(series.map(({ attempts }) => attempts)).toEqual([0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 1, 0, 0]);
    expect(series[9]).toEqual({ at: NOON, attempts: 2, retries: 1, failures: 1, delivered: 1, dead: 0 });
    expect(series[12]).toMatchObject({ attempts: 1, retries: 0, failures: 1, delivered: 0, dead: 1 });
  });

  it("of several destinations adds up point by point", () => {
    const one = seriesOf(rollups, hours, "1h", NOON + 5 * MINUTE);
    const twice = one.map((point) => ({
      at: point.at,
      attempts: 2 * point.attempts,
      retries: 2 * point.retries,
      failures: 2 * point.failures,
      delivered: 2 * point.delivered,
      dead: 2 * point.dead,
    }));
    expect(addedSeries([one, one])).toEqual(twice);
    expect(addedSeries([])).toEqual([]);
  });

  it("of several destinations is in order, even if one was read a step later", () => {
    const [one, later] = [5, 6].map((m) => seriesOf(rollups, hours, "15m", NOON + m * MINUTE));
    const times = addedSeries([later ?? [], one ?? []]).map(({ at }) => at);
    expect(times).toEqual(Array.from({ length: 16 }, (_, i) => NOON + (i - 9) * MINUTE));
  });
});

const steps = fc.array(
  fc.record({
    // Mostly forwards, by seconds or by days; at times backwards.
    wait: fc.oneof(
      { weight: 6, arbitrary: fc.integer({ min: 0, max: 10 * MINUTE }) },
      { weight: 2, arbitrary: fc.integer({ min: 0, max: 40 * HOUR }) },
      { weight: 1, arbitrary: fc.integer({ min: -3 * HOUR, max: 0 }) },
    ),
    metrics: fc.array(attemptMetricArbitrary, { maxLength: 4 }),
  }),
  { maxLength: 150 },
);

function history(all: readonly Readonly<{ wait: number; metrics: readonly ReturnType<typeof metric>[] }>[]) {
  let now = NOON;
  let kept = nothing;
  for (const { wait, metrics } of all) {
    now += wait;
    kept = settled(kept, now, [...metrics]);
  }
  return { ...kept, now };
}

describe("whatever happens", () => {
  test("the stored rollup is bounded and in order", () => {
    fc.assert(
      fc.property(steps, (all) => {
        const { rollups, hours } = history(all);
        expect(rollups.minutes.length).toBeLessThanOrEqual(61);
        expect(hours.length).toBeLessThanOrEqual(168);
        const starts = rollups.minutes.map(({ from }) => from);
        expect(starts).toEqual([...new Set(starts)].toSorted((a, b) => a - b));
      }),
    );
  });

  test("everything ever counted is in the total", () => {
    fc.assert(
      fc.property(steps, (all) => {
        expect(totalOf(history(all).rollups.ever.attempts)).toBe(
          all.flatMap(({ metrics }) => metrics).length,
        );
      }),
    );
  });

  test("a series adds up to the sum of its window", () => {
    fc.assert(
      fc.property(steps, fc.constantFrom(...windows), (all, window) => {
        const { rollups, hours, now } = history(all);
        const series: Series = seriesOf(rollups, hours, window, now);
        const sum = sumOf(rollups, hours, window, now);
        expect(series).toHaveLength(spans[window].points);
        expect(series.reduce((n, { delivered }) => n + delivered, 0)).toBe(sum.delivered);
      }),
    );
  });

  test("while the clock goes forwards, a week has everything that was counted within it", () => {
    fc.assert(
      fc.property(steps, (all) => {
        const forwards = all.map((step) => ({ ...step, wait: Math.abs(step.wait) }));
        const { rollups, hours, now } = history(forwards);
        const start = Math.floor(now / HOUR) * HOUR - 167 * HOUR;
        let at = NOON;
        const expected = forwards.reduce((n, { wait, metrics }) => {
          at += wait;
          return at >= start ? n + metrics.length : n;
        }, 0);
        expect(attemptsIn({ rollups, hours }, "7d", now)).toBe(expected);
      }),
    );
  });
});
