import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { backoffSeconds, type Delays, type Jitter, jittered } from "../../src/core/retry/backoff.ts";

const almostOne = 1 - 2 ** -53;
const doubling: Delays = { base: 30, factor: 2, cap: 3600 };
const listed: Delays = { schedule: [5, 300, 1800] };
/** Evenly drawn: `fc.double` favours numbers next to zero. */
const random = fc.oneof(
  fc.nat(999_999).map((n) => n / 1_000_000),
  fc.constantFrom(0, almostOne),
);
const seconds = fc.integer({ min: 1, max: 604_800 });

describe("backoffSeconds", () => {
  it("doubles up to the cap", () => {
    const waits = [1, 2, 3, 4, 5, 6, 7, 8, 9].map((attempt) => backoffSeconds(doubling, attempt));
    expect(waits).toEqual([30, 60, 120, 240, 480, 960, 1920, 3600, 3600]);
  });

  it("follows a schedule and repeats its last entry", () => {
    const waits = [1, 2, 3, 4, 1000].map((attempt) => backoffSeconds(listed, attempt));
    expect(waits).toEqual([5, 300, 1800, 1800, 1800]);
  });

  it("saturates at the cap for any attempt number and any factor", () => {
    expect(backoffSeconds(doubling, 1000)).toBe(3600);
    expect(backoffSeconds({ base: 1, factor: 10, cap: 604_800 }, 1_000_000)).toBe(604_800);
  });

  it("stays at the base when the factor is one", () => {
    expect(backoffSeconds({ base: 60, factor: 1, cap: 3600 }, 1000)).toBe(60);
  });

  it("refuses a schedule without entries as a broken invariant", () => {
    expect(() => backoffSeconds({ schedule: [] }, 1)).toThrow("at least one entry");
  });
});

describe("jittered", () => {
  const bounds: [Jitter, number, number][] = [
    ["none", 100, 100],
    ["full", 0, 100],
    ["equal", 50, 100],
    [{ proportional: 0.2 }, 80, 120],
    [{ proportional: 0.5 }, 50, 150],
    [{ proportional: 1 }, 0, 200],
  ];

  it.each(bounds)("spreads 100 s with %j from %d s to %d s", (jitter, least, most) => {
    expect(jittered(100, jitter, undefined, doubling, 0)).toBeCloseTo(least, 9);
    expect(jittered(100, jitter, undefined, doubling, almostOne)).toBeCloseTo(most, 9);
  });

  it.each(bounds)("keeps any wait with %j within its bounds", (jitter, least, most) => {
    fc.assert(
      fc.property(seconds, random, (wait, r) => {
        const result = jittered(wait, jitter, undefined, listed, r);
        expect(result).toBeGreaterThanOrEqual((wait * least) / 100 - 1e-6);
        expect(result).toBeLessThanOrEqual((wait * most) / 100 + 1e-6);
      }),
    );
  });

  it("never spreads a wait past the cap, neither of growing waits nor of a list with a cap", () => {
    const capped = { schedule: [60, 100], cap: 100 };
    for (const delays of [{ base: 60, factor: 2, cap: 100 }, capped]) {
      expect(jittered(100, { proportional: 0.5 }, undefined, delays, almostOne)).toBe(100);
      expect(jittered(100, { proportional: 0.5 }, undefined, delays, 0)).toBe(50);
    }
  });

  it("grows a decorrelated wait from the one before: base to three times it", () => {
    expect(jittered(0, "decorrelated", 100, doubling, 0)).toBe(30);
    expect(jittered(0, "decorrelated", 100, doubling, 0.5)).toBe(165);
    expect(jittered(0, "decorrelated", 100, doubling, almostOne)).toBeCloseTo(300, 9);
  });

  it("starts a decorrelated wait from the base", () => {
    expect(jittered(0, "decorrelated", undefined, doubling, 0)).toBe(30);
    expect(jittered(0, "decorrelated", undefined, doubling, almostOne)).toBeCloseTo(90, 9);
  });

  it("takes a schedule's first and last entry as base and cap of a decorrelated wait", () => {
    expect(jittered(0, "decorrelated", undefined, listed, 0)).toBe(5);
    expect(jittered(0, "decorrelated", 100_000, listed, almostOne)).toBe(1800);
    expect(jittered(0, "decorrelated", 100_000, { schedule: [60, 5] }, almostOne)).toBe(60);
  });

  it("keeps a decorrelated wait between base and cap, whatever came before", () => {
    const before = fc.option(fc.oneof(fc.nat(10_000), fc.nat(1_000_000_000)), { nil: undefined });
    fc.assert(
      fc.property(before, random, (previous, r) => {
        const result = jittered(0, "decorrelated", previous, doubling, r);
        expect(result).toBeGreaterThanOrEqual(30);
        expect(result).toBeLessThanOrEqual(3600);
      }),
    );
  });
});
