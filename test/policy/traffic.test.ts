import { describe, expect, it } from "vitest";
import type { Sample } from "../../src/policy/sample.ts";
import { counted, newTallies } from "../../src/policy/tallies.ts";
import { lately, recentTraffic, trafficSum } from "../../src/policy/traffic.ts";
import { sample } from "../support/samples.ts";

const MINUTE = 60_000;
const NOW = 1_000_020_000_000;

const many = (count: number, more: Partial<Sample> = {}) => Array.from({ length: count }, () => sample(more));
const counting = (...parts: readonly (readonly [at: number, samples: Sample[]])[]) =>
  parts.reduce((tallies, [at, samples]) => counted(tallies, samples, at), newTallies(NOW));

describe("traffic", () => {
  it("is first attempts, retries and failures, minute by minute", () => {
    const retries = many(2, { attempt: 2, result: "5xx", end: "again" });
    const tallies = counting([NOW, many(3)], [NOW + 1, retries], [NOW + 3 * MINUTE, many(1)]);
    const traffic = recentTraffic(tallies, NOW + 3 * MINUTE);
    expect(traffic).toEqual([
      { from: NOW, first: 3, retries: 2, failures: 2, troubled: 2 },
      { from: NOW + 3 * MINUTE, first: 1, retries: 0, failures: 0, troubled: 0 },
    ]);
    expect(trafficSum(traffic)).toEqual({ first: 4, retries: 2, failures: 2, retryRatio: 0.5, storm: false });
  });

  it("leaves out what is older than fifteen minutes, what a clock calls the future, and burials", () => {
    const tallies = counted(counting([NOW, many(5)]), [], NOW + MINUTE, 3);
    expect(recentTraffic(tallies, NOW + 15 * MINUTE - 1)).toHaveLength(1);
    expect(recentTraffic(tallies, NOW + 15 * MINUTE)).toEqual([]);
    expect(recentTraffic(tallies, NOW - 1)).toEqual([]);
  });

  it("knows a refusal from trouble: both failed, but one shows a living receiver", () => {
    const results = ["2xx", "3xx", "4xx", "429", "5xx", "other", "timeout", "network"] as const;
    const traffic = recentTraffic(counting([NOW, results.map((result) => sample({ result }))]), NOW);
    expect(traffic).toMatchObject([{ first: 8, failures: 7, troubled: 4 }]);
  });

  it("of late is what has not been over for so long", () => {
    const traffic = recentTraffic(
      counting([NOW, many(2, { result: "5xx" })], [NOW + MINUTE, many(1)]),
      NOW + MINUTE,
    );
    expect(lately(traffic, 2 * MINUTE, NOW + 3 * MINUTE - 1)).toEqual({ attempts: 3, troubled: 2 });
    expect(lately(traffic, 2 * MINUTE, NOW + 3 * MINUTE)).toEqual({ attempts: 1, troubled: 0 });
  });

  it.each([
    ["six retries for each of twenty first attempts", 20, 120, true],
    ["five for each: not above the ratio", 21, 105, false],
    ["a high ratio of few", 1, 100, false],
    ["nothing but retries", 0, 101, true],
    ["nothing at all", 0, 0, false],
  ])("is told from a storm: %s", (_, first, retries, storm) => {
    const tallies = counting([NOW, [...many(first), ...many(retries, { attempt: 2 })]]);
    expect(trafficSum(recentTraffic(tallies, NOW)).storm).toBe(storm);
  });
});
