import { expect, it } from "vitest";
import { fullestOf } from "../../../src/dashboard/simulator/schedule-chart.tsx";

const report = (arrivals: number[], failures: number[]) => ({ arrivals, failures }) as never;

it("shows every second while there are few", () => {
  expect(fullestOf(report([3, 5], [0, 2]), 3)).toEqual([
    { second: 0, requests: 3, failed: 0 },
    { second: 1, requests: 5, failed: 2 },
    { second: 2, requests: 0, failed: 0 },
  ]);
});

it("shows the fullest second of each stretch when there are many", () => {
  const arrivals = Array.from({ length: 480 }, (_, second) => second % 7);
  const points = fullestOf(report(arrivals, []), 480);
  expect(points.length).toBe(240);
  expect(points.slice(0, 4).map(({ requests }) => requests)).toEqual([1, 3, 5, 6]);
});

it("never shows more failures than requests: answers come later", () => {
  expect(fullestOf(report([1], [4]), 1)).toEqual([{ second: 0, requests: 1, failed: 1 }]);
});
