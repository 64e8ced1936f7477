import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { effectiveRate, loweredLimit, noAdaptiveLimit } from "../../src/core/rate-limit.ts";
import { start as now } from "../support/gate-arbitraries.ts";

const owners = { ratePerSecond: 100, rateBurst: 200 };
const minute = 60_000;
const unlimited = 1_000_000;

describe("the adaptive limit", () => {
  it("leaves the owner's rate and burst alone until a 429 comes", () => {
    expect(effectiveRate(noAdaptiveLimit, owners, now)).toEqual({ perSecond: 100, burst: 200 });
  });

  it("is below the rate that was refused, without bursts", () => {
    const perSecond = effectiveRate(loweredLimit(noAdaptiveLimit, owners, 60, now), owners, now).perSecond;
    expect(perSecond).toBeCloseTo(42);
    expect(effectiveRate(loweredLimit(noAdaptiveLimit, owners, 60, now), owners, now).burst).toBe(1);
  });

  it("is lower than the owner's rate if less was allowed than could be sent", () => {
    expect(
      effectiveRate(loweredLimit(noAdaptiveLimit, owners, unlimited, now), owners, now).perSecond,
    ).toBeCloseTo(70);
  });

  it("falls once for all the 429s of a round, and again for the next round", () => {
    const once = loweredLimit(noAdaptiveLimit, owners, unlimited, now);
    expect(loweredLimit(once, owners, unlimited, now + 999)).toEqual(once);
    const twice = loweredLimit(once, owners, unlimited, now + 1_000);
    expect(twice.perSecond).toBeCloseTo(49, 0);
  });

  it("falls again after a clock that was far ahead", () => {
    const ahead = loweredLimit(noAdaptiveLimit, owners, unlimited, now + 60 * minute);
    expect(loweredLimit(ahead, owners, unlimited, now).perSecond).toBeLessThan(ahead.perSecond);
  });

  it("gives back a fiftieth of the owner's rate each minute, up to all of it", () => {
    const taught = loweredLimit(noAdaptiveLimit, owners, unlimited, now);
    expect(effectiveRate(taught, owners, now + 5 * minute).perSecond).toBeCloseTo(80);
    expect(effectiveRate(taught, owners, now + 60 * minute)).toEqual({ perSecond: 100, burst: 200 });
  });

  it("leaves the owner's burst alone when it is not below the owner's rate", () => {
    const taught = { perSecond: 100, loweredAt: now };
    expect(effectiveRate(taught, owners, now)).toEqual({ perSecond: 100, burst: 200 });
  });

  it("never falls below one a second, and never rises above the owner's rate", () => {
    const rounds = fc.array(fc.record({ afterMs: fc.nat(120_000), sent: fc.nat(10_000) }), { maxLength: 60 });
    const rates = fc.constantFrom(0.01, 0.5, 1, 7, 100, 10_000);
    fc.assert(
      fc.property(rounds, rates, (list, ratePerSecond) => {
        let [adaptiveLimit, at] = [noAdaptiveLimit, now];
        for (const { afterMs, sent } of list) {
          at += afterMs;
          adaptiveLimit = loweredLimit(adaptiveLimit, { ratePerSecond, rateBurst: 5 }, sent, at);
          const { perSecond } = effectiveRate(adaptiveLimit, { ratePerSecond, rateBurst: 5 }, at);
          expect(perSecond).toBeGreaterThanOrEqual(Math.min(1, ratePerSecond));
          expect(perSecond).toBeLessThanOrEqual(ratePerSecond);
        }
      }),
    );
  });
});
