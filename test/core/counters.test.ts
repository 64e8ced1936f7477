import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import {
  type Counters,
  countersAfter,
  emptyCounters,
  isCounters,
  sumOfCounters,
  totalOf,
} from "../../src/core/metrics.ts";
import { results } from "../../src/core/retry/classify.ts";
import { attemptMetricArbitrary, metric } from "../support/attempt-metrics.ts";

const empty = emptyCounters(0);

describe("counting", () => {
  it.each<[string, Parameters<typeof metric>[0], Partial<Counters>]>([
    ["a success at once", {}, { delivered: 1, attemptsToSuccess: 1, firstsAgain: 0, dead: 0 }],
    ["a first attempt that fails", { result: "5xx", end: "again" }, { firstsAgain: 1, delivered: 0 }],
    ["a second attempt that delivers", { attempt: 2 }, { secondsDelivered: 1, attemptsToSuccess: 2 }],
    [
      "a second attempt that fails",
      { attempt: 2, result: "5xx", end: "again" },
      { secondsDelivered: 0, firstsAgain: 0 },
    ],
    ["a third attempt that delivers", { attempt: 3 }, { secondsDelivered: 0, attemptsToSuccess: 3 }],
    [
      "a first attempt that ends it",
      { result: "4xx", end: "dead" },
      { dead: 1, firstsAgain: 0, attemptsToSuccess: 0 },
    ],
    [
      "how long it took and how late it was",
      { tookMs: 120, lateMs: 7_000 },
      { latencyMs: 120, delayMs: 7_000 },
    ],
  ])("sees %s", (_, more, counted) => {
    expect(countersAfter(empty, [metric(more)])).toMatchObject(counted);
  });

  it.each([
    [1, 0],
    [2, 1],
    [5, 4],
    [6, 5],
    [10, 5],
    [11, 6],
    [1_000, 6],
  ])("puts attempt %d in place %d", (attempt, place) => {
    expect(countersAfter(empty, [metric({ attempt })]).attempts[place]).toBe(1);
  });

  it("counts each class of results separately", () => {
    for (const [place, result] of results.entries())
      expect(countersAfter(empty, [metric({ result })]).results[place]).toBe(1);
    expect(totalOf(countersAfter(empty, [metric({ result: "other" })]).results)).toBe(1);
  });
});

describe("a stored value", () => {
  it("is taken for counters if it has all of their parts, in their full lengths", () => {
    expect(isCounters(JSON.parse(JSON.stringify(countersAfter(empty, [metric()]))))).toBe(true);
    expect(isCounters({ ...empty, added: "later" })).toBe(true);
  });

  it.each<[string, unknown]>([
    ["nothing", undefined],
    ["null", null],
    ["a number", 5],
    ["a text", "counters"],
    ["a list", [1, 2]],
    ["an object without any of them", {}],
    ["one without a number", { ...empty, dead: undefined }],
    ["one with a text for a number", { ...empty, dead: "1" }],
    ["one with a list for a number", { ...empty, dead: [1] }],
    ["one without a list", { ...empty, latency: undefined }],
    ["one with a text for a list", { ...empty, results: "x".repeat(empty.results.length) }],
    ["one with more bounds", { ...empty, latency: [...empty.latency, 0] }],
    ["one with fewer bounds", { ...empty, delay: empty.delay.slice(1) }],
  ])("is not taken for counters if it is %s", (_, value) => {
    expect(isCounters(value)).toBe(false);
  });
});

const metrics = fc.array(attemptMetricArbitrary, { maxLength: 50 });

test("counting in two steps, or in two places, has the same result as counting at once", () => {
  fc.assert(
    fc.property(metrics, metrics, (a, b) => {
      const atOnce = countersAfter(empty, [...a, ...b]);
      expect(countersAfter(countersAfter(empty, a), b)).toEqual(atOnce);
      expect(sumOfCounters(countersAfter(empty, a), countersAfter(empty, b))).toEqual(atOnce);
    }),
  );
});

test("every attempt is counted once in each distribution, and counters stay as small as they began", () => {
  fc.assert(
    fc.property(metrics, (all) => {
      const counters = countersAfter(empty, all);
      for (const counts of [counters.attempts, counters.results, counters.latency, counters.delay])
        expect(totalOf(counts)).toBe(all.length);
      const numbers = (value: Counters) => Object.values(value).flat().length;
      expect(numbers(counters)).toBe(numbers(empty));
    }),
  );
});
