import fc from "fast-check";
import { expect, test } from "vitest";
import { nearestName } from "../../src/core/nearest.ts";

const FIELDS = ["url", "uid", "tenant", "max_concurrency", "rate_per_second", "rate_burst", "timeout_ms"];

test.each([
  ["max_concurency", "max_concurrency"],
  ["maxConcurrency", "max_concurrency"],
  ["ratePerSecond", "rate_per_second"],
  ["tennant", "tenant"],
  ["tenatn", "tenant"],
  ["timeout", "timeout_ms"],
  ["urls", "url"],
  ["webhook_url", "url"],
])("%s is taken for %s", (given, expected) => {
  expect(nearestName(given, FIELDS)).toBe(expected);
});

test.each(["", "x", "id", "secret", "ui", "a".repeat(10_000)])("%.10s is taken for nothing", (given) => {
  expect(nearestName(given, FIELDS)).toBeUndefined();
});

test("two equally near names give none", () => {
  expect(nearestName("rate_4", ["rate_1", "rate_2"])).toBeUndefined();
});

test("a known name is taken as it is, whatever the others are", () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.stringMatching(/^[a-z]{3,12}$/), { minLength: 1 }), (known) => {
      expect(nearestName(known[0] ?? "", known)).toBe(known[0]);
    }),
  );
});
