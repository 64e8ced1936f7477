import { describe, expect, it } from "vitest";
import type { AttemptMetric } from "../../src/core/metrics.ts";
import { countersAfter, emptyCounters, type Rates, ratesOf } from "../../src/core/metrics.ts";
import { metric } from "../support/attempt-metrics.ts";

const of = (...metrics: AttemptMetric[]) => ratesOf(countersAfter(emptyCounters(0), metrics));
const again = (attempt: number) => metric({ attempt, result: "5xx", end: "again" });

describe("rates", () => {
  it("of nothing are unknown, not zero", () => {
    const { retryRatio, ...shares } = of();
    expect(retryRatio).toBe(0);
    expect(new Set(Object.values(shares))).toEqual(new Set([null]));
  });

  it.each<[string, AttemptMetric[], Partial<Rates>]>([
    ["one of four has to be tried again", [metric(), metric(), metric(), again(1)], { retryRate: 0.25 }],
    [
      "a first attempt that ends dead is not tried again",
      [metric(), metric({ end: "dead", result: "4xx" })],
      { retryRate: 0, deadRate: 0.5 },
    ],
    [
      "retries do not count as first attempts",
      [metric(), again(2), again(3)],
      { retryRate: 0, retryRatio: 2 },
    ],
    [
      "two retries for each of two first attempts",
      [again(1), again(1), ...[2, 2, 3, 3].map(again)],
      { retryRatio: 2 },
    ],
    [
      "a storm without a single first attempt",
      [again(2), again(2), again(3)],
      { retryRate: null, retryRatio: 3 },
    ],
    [
      "half of the second attempts deliver",
      [metric({ attempt: 2 }), again(2)],
      { secondAttemptSuccess: 0.5 },
    ],
    [
      "one at once and one at the third",
      [metric(), again(1), again(2), metric({ attempt: 3 })],
      { meanAttemptsToSuccess: 2 },
    ],
    [
      "an answer that is no 2xx, a timeout, no answer",
      [metric(), metric({ result: "429" }), metric({ result: "timeout" }), metric({ result: "network" })],
      { non2xxRate: 0.25, timeoutRate: 0.25 },
    ],
  ])("%s", (_, metrics, rates) => {
    expect(of(...metrics)).toMatchObject(rates);
  });

  it("show how quick quick answers are, and never exceed the longest duration", () => {
    const quick = of(...Array.from({ length: 100 }, () => metric({ tookMs: 5, lateMs: 30 })));
    expect(quick.latencyP50Ms).toBeGreaterThan(2);
    expect(quick.latencyP95Ms).toBeLessThanOrEqual(5);
    expect(quick.queueDelayP95Ms).toBeLessThanOrEqual(30);
    const timeouts = of(...Array.from({ length: 100 }, () => metric({ tookMs: 15_004, result: "timeout" })));
    expect(timeouts.latencyP95Ms).toBeGreaterThan(15_000);
    expect(timeouts.latencyP95Ms).toBeLessThanOrEqual(15_004);
    const late = of(...Array.from({ length: 10 }, () => metric({ lateMs: 90_000_000 })));
    expect(late.queueDelayP95Ms).toBeGreaterThan(86_400_000);
    expect(late.queueDelayP95Ms).toBeLessThanOrEqual(90_000_000);
  });

  it("show how long attempts take and how late they start, to within a slot", () => {
    const fast = Array.from({ length: 90 }, () => metric({ tookMs: 80, lateMs: 900 }));
    const slow = Array.from({ length: 10 }, () => metric({ tookMs: 4_000, lateMs: 200_000 }));
    const rates = of(...fast, ...slow);
    expect(rates.latencyP50Ms).toBeGreaterThan(50);
    expect(rates.latencyP50Ms).toBeLessThanOrEqual(100);
    expect(rates.latencyP95Ms).toBeGreaterThan(2_500);
    expect(rates.latencyP95Ms).toBeLessThanOrEqual(5_000);
    expect(rates.queueDelayP50Ms).toBeLessThanOrEqual(1_000);
    expect(rates.queueDelayP95Ms).toBeGreaterThan(60_000);
  });
});
