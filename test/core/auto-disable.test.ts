import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { disableReasonOf, failureStreakAfter, noFailures } from "../../src/core/auto-disable.ts";
import type { AttemptMetric } from "../../src/core/metrics.ts";
import type { MetricResult } from "../../src/core/retry/classify.ts";

const DAY = 86_400_000;
const NOW = 100 * DAY;

const metric = (result: MetricResult, end: AttemptMetric["end"]): AttemptMetric => ({
  attempt: 1,
  result,
  end,
  tookMs: 1,
  lateMs: 0,
});
const refused = metric("4xx", "dead");
const failed = metric("5xx", "again");
const delivered = metric("2xx", "delivered");
const times = (count: number, one: AttemptMetric) => Array<AttemptMetric>(count).fill(one);

const streakOf = (metrics: readonly AttemptMetric[], now = NOW) =>
  failureStreakAfter(noFailures, metrics, now);

describe("refusals", () => {
  test.each([
    ["a hundred are borne", times(100, refused), undefined],
    ["one more is too much", times(101, refused), "rejecting"],
    ["a success between them forgets them", [...times(100, refused), delivered, refused], undefined],
    ["failures between them do not", [...times(60, refused), failed, ...times(41, refused)], "rejecting"],
    ["redirects are refusals too", times(101, metric("3xx", "dead")), "rejecting"],
    ["deliveries that die of failing are none", times(500, metric("5xx", "dead")), undefined],
    ["what is tried again is none", times(500, metric("4xx", "again")), undefined],
    ["what is throttled is none", times(500, metric("429", "dead")), undefined],
  ] as const)("%s", (_, metrics, disableReason) => {
    expect(disableReasonOf(streakOf(metrics), NOW)).toBe(disableReason);
  });
});

describe("failures", () => {
  test.each([
    ["for five days are too long", 20, 5 * DAY, "failing"],
    ["for a little less are not", 20, 5 * DAY - 1, undefined],
    ["that are few say nothing, however far apart", 10, 50 * DAY, undefined],
    ["that are one more than few do", 11, 50 * DAY, "failing"],
  ] as const)("%s", (_, count, ms, disableReason) => {
    const streak = streakOf(times(count, failed), NOW - ms);
    expect(disableReasonOf(streak, NOW)).toBe(disableReason);
  });

  test("are counted from the first of them, however late the last one was", () => {
    const streak = failureStreakAfter(streakOf(times(10, failed), NOW - 5 * DAY), [failed], NOW);
    expect(streak).toMatchObject({ failures: 11, failingSince: NOW - 5 * DAY });
    expect(disableReasonOf(streak, NOW)).toBe("failing");
  });

  test("are forgotten with the first success", () => {
    const streak = streakOf(times(50, failed), NOW - 6 * DAY);
    const better = failureStreakAfter(streak, [delivered, failed], NOW);
    expect(better.failingSince).toBe(NOW);
    expect(disableReasonOf(better, NOW)).toBeUndefined();
  });
});

test("a destination without an attempt is not disabled", () => {
  expect(disableReasonOf(noFailures, NOW)).toBeUndefined();
  expect(failureStreakAfter(noFailures, [], NOW)).toEqual(noFailures);
});

const anySample = fc.constantFrom(refused, failed, delivered);

test("a success at the end makes a destination healthy, whatever came before", () => {
  fc.assert(
    fc.property(fc.array(anySample), (metrics) => {
      expect(streakOf([...metrics, delivered])).toEqual(noFailures);
    }),
  );
});

test("settling in parts has the same result as settling at once", () => {
  fc.assert(
    fc.property(fc.array(anySample), fc.array(anySample), (first, second) => {
      expect(failureStreakAfter(streakOf(first), second, NOW)).toEqual(streakOf([...first, ...second]));
    }),
  );
});
