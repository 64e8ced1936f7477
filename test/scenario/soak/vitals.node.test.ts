/** The bounds of growth. */
import { expect, test } from "vitest";
import { memoryTrend, type Sample, tableTrends } from "./vitals.ts";

/** A sample every ten seconds for half an hour. */
function samples(of: (i: number) => Partial<Sample>): Sample[] {
  const still = { life: 1, memoryBytes: 4e8, rows: {}, databaseBytes: 5e6, objectBytes: 5e6 };
  return Array.from({ length: 180 }, (_, i) => ({
    ...{ at: i * 10_000, open: 0, inFlight: 0, accepted: i },
    ...still,
    ...of(i),
  }));
}

const growing = (trends: ReturnType<typeof tableTrends>) =>
  trends.filter(({ isFlat, isKept }) => !isFlat && !isKept).map(({ name }) => name);

test("a table that grows and shrinks is flat, one that only grows is not, and receipts may grow", () => {
  const rows = (i: number) => ({ bundles: 5_000 + 500 * (i % 7), deliveries: 100 * i, erasures: 100 * i });
  expect(
    growing(
      tableTrends(
        samples((i) => ({ rows: rows(i) })),
        60_000,
      ),
    ),
  ).toEqual(["deliveries"]);
});

test("growth before anything can be removed does not count", () => {
  const rows = (i: number) => ({ bundles: Math.min(i, 60) * 100 });
  expect(
    growing(
      tableTrends(
        samples((i) => ({ rows: rows(i) })),
        600_000,
      ),
    ),
  ).toEqual([]);
});

test("a growing file counts as growth", () => {
  expect(
    growing(
      tableTrends(
        samples((i) => ({ databaseBytes: 1e6 * (1 + i) })),
        60_000,
      ),
    ),
  ).toEqual(["databaseBytes"]);
});

test("memory is compared within the longest life, without its beginning", () => {
  const warming = samples((i) => ({ memoryBytes: i < 30 ? 1e7 * i : 3e8, life: i < 20 ? 1 : 2 }));
  expect(memoryTrend(warming)?.isFlat).toBe(true);
  const leaking = samples((i) => ({ memoryBytes: 1e7 * i, life: i < 20 ? 1 : 2 }));
  expect(memoryTrend(leaking)?.isFlat).toBe(false);
});
