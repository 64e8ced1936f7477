/** Random numbers that can be repeated. */
import { expect, test } from "vitest";
import { oneOf, seededRandom } from "../../src/core/seeded-random.ts";

const some = (seed: number, count = 1_000) => {
  const random = seededRandom(seed);
  return Array.from({ length: count }, () => random());
};

test("the numbers are those of mulberry32, the same for the same seed", () => {
  expect(some(0, 3)).toEqual([0.26642920868471265, 0.0003297457005828619, 0.2232720274478197]);
  expect(some(7)).toEqual(some(7));
  expect(some(7)).not.toEqual(some(8));
});

test("every entry of a list is chosen about equally often, and nothing else", () => {
  const random = seededRandom(1);
  const chosen = Map.groupBy(
    Array.from({ length: 3_000 }, () => oneOf(["a", "b", "c"], random)),
    (one) => one,
  );
  expect([...chosen.keys()].sort()).toEqual(["a", "b", "c"]);
  for (const found of chosen.values()) expect(found.length).toBeGreaterThan(900);
});
