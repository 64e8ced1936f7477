import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Result, Sample } from "../../src/policy/sample.ts";
import { diagnosisOf, sicknessAfter, wellness } from "../../src/policy/sickness.ts";

const DAY = 86_400_000;
const NOW = 100 * DAY;

const sample = (result: Result, end: Sample["end"]): Sample => ({
  attempt: 1,
  result,
  end,
  tookMs: 1,
  lateMs: 0,
});
const refused = sample("4xx", "dead");
const failed = sample("5xx", "again");
const delivered = sample("2xx", "delivered");
const times = (count: number, one: Sample) => Array<Sample>(count).fill(one);

const sickOf = (samples: readonly Sample[], now = NOW) => sicknessAfter(wellness, samples, now);

describe("refusals", () => {
  test.each([
    ["a hundred are borne", times(100, refused), undefined],
    ["one more is too much", times(101, refused), "rejecting"],
    ["a success between them forgets them", [...times(100, refused), delivered, refused], undefined],
    ["failures between them do not", [...times(60, refused), failed, ...times(41, refused)], "rejecting"],
    ["redirects are refusals too", times(101, sample("3xx", "dead")), "rejecting"],
    ["deliveries that die of failing are none", times(500, sample("5xx", "dead")), undefined],
    ["what is tried again is none", times(500, sample("4xx", "again")), undefined],
    ["what is throttled is none", times(500, sample("429", "dead")), undefined],
  ] as const)("%s", (_, samples, diagnosis) => {
    expect(diagnosisOf(sickOf(samples), NOW)).toBe(diagnosis);
  });
});

describe("failures", () => {
  test.each([
    ["for five days are too long", 20, 5 * DAY, "failing"],
    ["for a little less are not", 20, 5 * DAY - 1, undefined],
    ["that are few say nothing, however far apart", 10, 50 * DAY, undefined],
    ["that are one more than few do", 11, 50 * DAY, "failing"],
  ] as const)("%s", (_, count, ms, diagnosis) => {
    const sick = sickOf(times(count, failed), NOW - ms);
    expect(diagnosisOf(sick, NOW)).toBe(diagnosis);
  });

  test("are forgotten with the first success", () => {
    const sick = sickOf(times(50, failed), NOW - 6 * DAY);
    const better = sicknessAfter(sick, [delivered, failed], NOW);
    expect(better.failingSince).toBe(NOW);
    expect(diagnosisOf(better, NOW)).toBeUndefined();
  });
});

test("nothing is sick that was never tried", () => {
  expect(diagnosisOf(wellness, NOW)).toBeUndefined();
  expect(sicknessAfter(wellness, [], NOW)).toEqual(wellness);
});

const anySample = fc.constantFrom(refused, failed, delivered);

test("whatever came before, a success at the end is health", () => {
  fc.assert(
    fc.property(fc.array(anySample), (samples) => {
      expect(sickOf([...samples, delivered])).toEqual(wellness);
    }),
  );
});

test("settling in parts is settling at once", () => {
  fc.assert(
    fc.property(fc.array(anySample), fc.array(anySample), (first, second) => {
      expect(sicknessAfter(sickOf(first), second, NOW)).toEqual(sickOf([...first, ...second]));
    }),
  );
});
