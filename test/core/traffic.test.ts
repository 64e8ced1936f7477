import { describe, expect, it } from "vitest";
import type { AttemptMetric } from "../../src/core/metrics.ts";
import {
  newRollups,
  recentAttempts,
  recentTraffic,
  rollupsAfter,
  trafficSum,
} from "../../src/core/rollups.ts";
import { metric } from "../support/attempt-metrics.ts";

const MINUTE = 60_000;
const NOW = 1_000_020_000_000;

const many = (count: number, more: Partial<AttemptMetric> = {}) =>
  Array.from({ length: count }, () => metric(more));
const counting = (...parts: readonly (readonly [at: number, metrics: AttemptMetric[]])[]) =>
  parts.reduce((rollups, [at, metrics]) => rollupsAfter(rollups, metrics, at), newRollups(NOW));

describe("traffic", () => {
  it("is first attempts, retries and failures, minute by minute", () => {
    const retries = many(2, { attempt: 2, result: "5xx", end: "again" });
    const rollups = counting([NOW, many(3)], [NOW + 1, retries], [NOW + 3 * MINUTE, many(1)]);
    const traffic = recentTraffic(rollups, NOW + 3 * MINUTE);
    expect(traffic).toEqual([
      { from: NOW, first: 3, retries: 2, failures: 2, troubled: 2 },
      { from: NOW + 3 * MINUTE, first: 1, retries: 0, failures: 0, troubled: 0 },
    ]);
    expect(trafficSum(traffic)).toEqual({ first: 4, retries: 2, failures: 2, retryRatio: 0.5, storm: false });
  });

  it("leaves out attempts older than fifteen minutes, attempts in the future, and deaths without an attempt", () => {
    const rollups = rollupsAfter(counting([NOW, many(5)]), [], NOW + MINUTE, 3);
    expect(recentTraffic(rollups, NOW + 15 * MINUTE - 1)).toHaveLength(1);
    expect(recentTraffic(rollups, NOW + 15 * MINUTE)).toEqual([]);
    expect(recentTraffic(rollups, NOW - 1)).toEqual([]);
  });

  it("distinguishes a refusal from trouble: both failed, but one shows a living receiver", () => {
    const results = ["2xx", "3xx", "4xx", "429", "5xx", "other", "timeout", "network"] as const;
    const traffic = recentTraffic(counting([NOW, results.map((result) => metric({ result }))]), NOW);
    expect(traffic).toMatchObject([{ first: 8, failures: 7, troubled: 4 }]);
  });

  it("in the recent past is what has ended within the given time", () => {
    const traffic = recentTraffic(
      counting([NOW, many(2, { result: "5xx" })], [NOW + MINUTE, many(1)]),
      NOW + MINUTE,
    );
    expect(recentAttempts(traffic, 2 * MINUTE, NOW + 3 * MINUTE - 1)).toEqual({ attempts: 3, troubled: 2 });
    expect(recentAttempts(traffic, 2 * MINUTE, NOW + 3 * MINUTE)).toEqual({ attempts: 1, troubled: 0 });
  });

  it("in the recent past has retries as well as first attempts", () => {
    const traffic = recentTraffic(counting([NOW, [...many(3), ...many(2, { attempt: 2 })]]), NOW);
    expect(recentAttempts(traffic, MINUTE, NOW)).toEqual({ attempts: 5, troubled: 0 });
  });

  it.each([
    ["six retries for each of twenty first attempts", 20, 120, true],
    ["five for each: not above the ratio", 21, 105, false],
    ["a high ratio of few", 1, 100, false],
    ["nothing but retries", 0, 101, true],
    ["nothing at all", 0, 0, false],
  ])("is distinguished from a storm: %s", (_, first, retries, storm) => {
    const rollups = counting([NOW, [...many(first), ...many(retries, { attempt: 2 })]]);
    expect(trafficSum(recentTraffic(rollups, NOW)).storm).toBe(storm);
  });
});
