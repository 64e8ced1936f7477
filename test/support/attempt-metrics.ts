/** Attempt metrics: by default of a delivery that succeeds at once, and random ones. */
import fc from "fast-check";
import type { AttemptMetric } from "../../src/core/metrics.ts";
import { results } from "../../src/core/retry/classify.ts";

export function metric(more: Partial<AttemptMetric> = {}): AttemptMetric {
  return { attempt: 1, result: "2xx", end: "delivered", tookMs: 40, lateMs: 300, ...more };
}

export const attemptMetricArbitrary: fc.Arbitrary<AttemptMetric> = fc.record({
  attempt: fc.integer({ min: 1, max: 2_000 }),
  result: fc.constantFrom(...results),
  end: fc.constantFrom("delivered" as const, "again" as const, "dead" as const),
  tookMs: fc.integer({ min: 0, max: 100_000 }),
  lateMs: fc.integer({ min: 0, max: 200_000_000 }),
});
