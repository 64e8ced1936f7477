import { describe, expect, it } from "vitest";
import {
  DRAIN_QUERIES,
  mayBeginSteps,
  mostOfStep,
  mostSideBySide,
  queriesOfStep,
} from "../../src/core/drain-queries.ts";

const counts = Array.from({ length: 170 }, (_, i) => i + 1);

describe("the queries of drains", () => {
  it("suffice for a step with the most databases", () => {
    for (const databases of counts) expect(queriesOfStep(databases)).toBeLessThanOrEqual(DRAIN_QUERIES);
  });

  it.each([
    [1, 100],
    [10, 100],
    [63, 100],
    [64, 63],
    [100, 43],
    [170, 4],
  ])("let a step with %d databases take %d deliveries", (databases, most) => {
    expect(mostOfStep(databases)).toBe(most);
  });

  it("let only as many drains run at the same time as can each make a step", () => {
    for (const databases of counts) {
      const most = mostSideBySide(databases, 0);
      expect(mayBeginSteps(0, databases, most)).toBe(true);
      expect(mayBeginSteps(0, databases, most + 1)).toBe(false);
    }
    expect([1, 10, 16, 32, 100].map((databases) => mostSideBySide(databases, 0))).toEqual([37, 6, 3, 1, 1]);
  });

  it("are reserved for the drains that come after the others", () => {
    expect(mostSideBySide(10, 2)).toBe(4);
    expect(mostSideBySide(10, 6)).toBe(0);
    expect(mostSideBySide(100, 5)).toBe(0);
  });

  it("let one drain run, even if they do not suffice for it", () => {
    expect(mostSideBySide(200, 0)).toBe(1);
    expect(mostSideBySide(200, 1)).toBe(0);
  });
});
