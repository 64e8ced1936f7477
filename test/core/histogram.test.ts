import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import {
  added,
  emptyHistogram,
  LATENCY_BOUNDS_MS,
  quantile,
  slotOf,
  totalOf,
} from "../../src/core/metrics.ts";

const bounds = [10, 20, 40];

describe("a value's slot", () => {
  it.each([
    [0, 0],
    [10, 0],
    [10.5, 1],
    [20, 1],
    [40, 2],
    [41, 3],
    [Number.POSITIVE_INFINITY, 3],
  ])("of %d is number %d: bounds are inclusive", (value, slot) => {
    expect(slotOf(bounds, value)).toBe(slot);
  });
});

describe("a quantile", () => {
  it.each<[string, readonly number[], number, number]>([
    ["in the slot of the greatest value lies below that", [0, 0, 4, 0], 24, 22],
    ["in a slot below is what it is without", [8, 2, 0, 0], 12, 6.25],
    ["beyond the last bound lies below the greatest value", [0, 0, 0, 4], 60, 50],
    ["is no less than its slot, even if the greatest value says so", [0, 0, 4, 0], 5, 20],
  ])("%s", (_, counts, greatest, value) => {
    expect(quantile(counts, bounds, 0.5, greatest)).toBe(value);
  });

  it.each<[string, readonly number[], number, number | null]>([
    ["of nothing is unknown", [0, 0, 0, 0], 0.5, null],
    ["lies half way into a slot that holds everything", [0, 4, 0, 0], 0.5, 15],
    ["at the border of two slots is the bound between them", [5, 5, 0, 0], 0.5, 10],
    ["skips empty slots", [1, 0, 99, 0], 0.5, 20 + 20 * (49 / 99)],
    ["beyond the last bound is the last bound", [0, 0, 0, 7], 0.95, 40],
    ["of zero is where the first slot with anything in it begins", [0, 3, 3, 0], 0, 10],
    ["of one is where the last slot with anything in it ends", [3, 3, 0, 0], 1, 20],
  ])("%s", (_, counts, q, value) => {
    expect(quantile(counts, bounds, q)).toEqual(value === null ? null : expect.closeTo(value, 9));
  });

  test("lies in the slot of the value that it estimates, and grows with the share", () => {
    const values = fc.array(fc.integer({ min: 0, max: 60_000 }), { minLength: 1, maxLength: 200 });
    const share = fc.integer({ min: 1, max: 100 }).map((n) => n / 100);
    fc.assert(
      fc.property(values, share, share, (list, p, q) => {
        const slots = list.map((value) => slotOf(LATENCY_BOUNDS_MS, value));
        const counts = emptyHistogram(LATENCY_BOUNDS_MS).map((_, i) => slots.filter((s) => s === i).length);
        const exact = list.toSorted((a, b) => a - b)[Math.ceil(p * list.length - 1e-9) - 1] ?? 0;
        const estimate = quantile(counts, LATENCY_BOUNDS_MS, p) ?? -1;
        const slot = slotOf(LATENCY_BOUNDS_MS, exact);
        expect(estimate).toBeGreaterThanOrEqual(
          LATENCY_BOUNDS_MS[Math.min(slot, LATENCY_BOUNDS_MS.length) - 1] ?? 0,
        );
        expect(estimate).toBeLessThanOrEqual(LATENCY_BOUNDS_MS[slot] ?? LATENCY_BOUNDS_MS.at(-1) ?? 0);
        const other = quantile(counts, LATENCY_BOUNDS_MS, q) ?? -1;
        expect(Math.sign(other - estimate) * Math.sign(q - p)).toBeGreaterThanOrEqual(0);
      }),
    );
  });
});

test("two histograms add up slot by slot", () => {
  expect(added([1, 2, 3, 0], [0, 1, 0, 5])).toEqual([1, 3, 3, 5]);
  expect(totalOf([1, 3, 3, 5])).toBe(12);
});
