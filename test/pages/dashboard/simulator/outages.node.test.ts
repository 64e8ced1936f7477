import { expect, it } from "vitest";
import { peaksOf } from "../../../../src/pages/dashboard/simulator/outages.tsx";

const report = (arrivals: number[], failures: number[]) => ({ arrivals, failures }) as never;

it("every second of a short simulation is a point", () => {
  expect(peaksOf(report([3, 5], [0, 2]), 3)).toEqual([
    { second: 0, requests: 3, failed: 0 },
    { second: 1, requests: 5, failed: 2 },
    { second: 2, requests: 0, failed: 0 },
  ]);
});

it("a point of a long simulation is the busiest second of its interval", () => {
  const arrivals = Array.from({ length: 480 }, (_, second) => second % 7);
  const points = peaksOf(report(arrivals, []), 480);
  expect(points.length).toBe(240);
  expect(points.slice(0, 4).map(({ requests }) => requests)).toEqual([1, 3, 5, 6]);
});

it("a point has at most as many failures as requests, because responses arrive later", () => {
  expect(peaksOf(report([1], [4]), 1)).toEqual([{ second: 0, requests: 1, failed: 1 }]);
});
