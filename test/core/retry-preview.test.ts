import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { resolveRetry } from "../../src/core/retry/policy.ts";
import { presetNames, presets } from "../../src/core/retry/presets.ts";
import { retryPreviewOf } from "../../src/core/retry/preview.ts";

const policy = (spec: Parameters<typeof resolveRetry>[0]) => resolveRetry(spec);
const seconds = (ms: number) => ms / 1000;

describe("the prospect of a delivery that never succeeds", () => {
  it("has each attempt at the middle of its jitter, between its earliest and its latest", () => {
    const { attempts, ends } = retryPreviewOf(
      policy({ schedule: [10, 100], jitter: "equal", max_attempts: 3 }),
      9,
    );
    expect(ends).toBe("exhausted");
    expect(attempts.map(({ at, from, to }) => [at, from, to].map(seconds))).toEqual([
      [0, 0, 0],
      [7.5, 5, 10],
      [82.5, 57.5, 107.5],
    ]);
  });

  it("ends at the age limit, and shows nothing beyond it", () => {
    const { attempts, ends } = retryPreviewOf(
      policy({ schedule: [40], jitter: "full", give_up_after: 55 }),
      9,
    );
    expect(ends).toBe("expired");
    expect(attempts.map(({ at, to }) => [at, to].map(seconds))).toEqual([
      [0, 0],
      [20, 40],
      [40, 55],
    ]);
  });

  it("is cut at the requested number of attempts, unless it ends there anyway", () => {
    expect(retryPreviewOf(presets.capped, 20)).toMatchObject({ ends: "beyond", attempts: { length: 20 } });
    expect(retryPreviewOf(presets.gethook, 5)).toMatchObject({ ends: "exhausted", attempts: { length: 5 } });
  });

  it("lets decorrelated waits grow from the wait before", () => {
    const spec = { base: 10, factor: 2, cap: 1000, jitter: "decorrelated", max_attempts: 4 } as const;
    const [, second, third, fourth] = retryPreviewOf(policy(spec), 9).attempts;
    expect([second?.at, second?.to]).toEqual([20_000, 30_000]);
    expect([third?.at, third?.from, third?.to]).toEqual([55_000, 30_000, 80_000]);
    expect([fourth?.at, fourth?.from, fourth?.to]).toEqual([112_500, 65_000, 160_000]);
  });

  it("is in order, and within the limits of every preset", () => {
    fc.assert(
      fc.property(fc.constantFrom(...presetNames), fc.integer({ min: 1, max: 200 }), (name, most) => {
        const { giveUpAfterMs, maxAttempts } = presets[name];
        const { attempts } = retryPreviewOf(presets[name], most);
        expect(attempts.length).toBeLessThanOrEqual(Math.min(most, maxAttempts));
        for (const [i, { at, from, to }] of attempts.entries()) {
          expect(from).toBeLessThanOrEqual(at);
          expect(at).toBeLessThanOrEqual(to);
          expect(to).toBeLessThanOrEqual(giveUpAfterMs);
          expect(at).toBeGreaterThanOrEqual((attempts[i - 1]?.at ?? -1000) + 1000);
        }
      }),
    );
  });
});
