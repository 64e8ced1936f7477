/** How long events and other data are stored. */
import { expect, test } from "vitest";
import { DAY_MS, keptMsOf, shortest, wholeDays } from "../../src/core/retention.ts";

test.each([[1], [30], [10_000]])("%d days are kept as they are stored", (days) => {
  expect(wholeDays(days)).toBe(days);
});

test.each([
  [0],
  [-1],
  [1.5],
  [Number.NaN],
  ["7"],
  [null],
  [undefined],
])("%j, which an edit may have left, sets no days", (stored) => {
  expect(wholeDays(stored)).toBeNull();
});

test("the shortest of several counts, and without any, retention is for ever", () => {
  expect(shortest(30, 7, null)).toBe(7 * DAY_MS);
  expect(shortest(null, 0)).toBe(Number.POSITIVE_INFINITY);
  expect(DAY_MS).toBe(24 * 60 * 60 * 1000);
});

test("events of a type are kept for its own time, or that of all, whatever the type is called", () => {
  const kept = { ms: 7 * DAY_MS, types: { short: DAY_MS } };
  const types = ["short", "other", "constructor", "toString", "__proto__"];
  expect(types.map((type) => keptMsOf(kept, type) / DAY_MS)).toEqual([1, 7, 7, 7, 7]);
});
