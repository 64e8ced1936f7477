import { describe, expect, it } from "vitest";
import { type DrainRange, drainRangeOf, LEASED, nextDistance } from "../../src/core/drain-scheduler.ts";

const looksAt = ({ perEnd, between }: DrainRange) => 2 * perEnd + between;

/** The ranges of a drain that finds each of them too crowded. */
function reachesOf(drains: number): DrainRange[] {
  const reaches = [drainRangeOf(drains, 0)];
  for (let distance = 1; !reaches.at(-1)?.isFurthest; distance++)
    reaches.push(drainRangeOf(drains, distance));
  return reaches;
}

it.each([1, 4, 17, 167])("a drain of %d first reads no more than it may lease", (drains) => {
  expect(looksAt(drainRangeOf(drains, 0))).toBe(LEASED);
});

it.each([2, 3])("a drain of %d reads at once everything that this few drains may hold", (drains) => {
  expect(drainRangeOf(drains, 0)).toMatchObject({ perEnd: (LEASED / 2) * drains, isFurthest: true });
});

describe.each([1, 2, 3, 17, 167])("a drain of %d", (drains) => {
  it("reads further each time, and in the end everything that the drains together may hold", () => {
    const looked = reachesOf(drains).map(looksAt);
    expect(looked).toEqual([...new Set(looked)].sort((a, b) => a - b));
    expect(looked.at(-1)).toBe(LEASED * drains);
  });
});

it.each([
  1, 3, 17,
])("a drain of %d that is already attempting some reads past that many at each end", (drains) => {
  for (const distance of [0, 2])
    expect(drainRangeOf(drains, distance, 1).perEnd).toBe(2 * drainRangeOf(drains, distance).perEnd);
});

it.each([1, 17])("a drain of %d that can send nothing of the ends looks between them too", (drains) => {
  expect(drainRangeOf(drains, 0, 0, true)).toEqual({ perEnd: LEASED, between: LEASED, isFurthest: true });
});

describe("beside others", () => {
  it("a drain works at a place that costs the same however many drains there are", () => {
    expect(drainRangeOf(17, 1)).toEqual(drainRangeOf(167, 1));
    expect(drainRangeOf(17, 1).between).toBeGreaterThan(0);
  });

  it("a drain stays at its place, and reads everything only while that is taken too", () => {
    expect(nextDistance(0, false)).toBe(0);
    expect(nextDistance(0, true)).toBe(1);
    expect(nextDistance(1, false)).toBe(1);
    expect(nextDistance(1, true)).toBe(2);
    expect(nextDistance(2, false)).toBe(1);
  });
});
