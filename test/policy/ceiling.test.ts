import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { lowered, noCeiling, rateUnder } from "../../src/policy/ceiling.ts";
import { start as now } from "../support/gate-arbitraries.ts";

const owners = { ratePerSecond: 100, rateBurst: 200 };
const minute = 60_000;
const unlimited = 1_000_000;

describe("the ceiling", () => {
  it("leaves the owner's rate and burst alone while nothing was taught", () => {
    expect(rateUnder(noCeiling, owners, now)).toEqual({ perSecond: 100, burst: 200 });
  });

  it("is lower than what was being sent when it was refused, without bursts", () => {
    const perSecond = rateUnder(lowered(noCeiling, owners, 60, now), owners, now).perSecond;
    expect(perSecond).toBeCloseTo(42);
    expect(rateUnder(lowered(noCeiling, owners, 60, now), owners, now).burst).toBe(1);
  });

  it("is lower than the owner's rate where less was allowed than could be sent", () => {
    expect(rateUnder(lowered(noCeiling, owners, unlimited, now), owners, now).perSecond).toBeCloseTo(70);
  });

  it("falls once for all the 429s of a round, and again for the next round", () => {
    const once = lowered(noCeiling, owners, unlimited, now);
    expect(lowered(once, owners, unlimited, now + 999)).toEqual(once);
    const twice = lowered(once, owners, unlimited, now + 1_000);
    expect(twice.perSecond).toBeCloseTo(49, 0);
  });

  it("falls again after a clock that was far ahead", () => {
    const ahead = lowered(noCeiling, owners, unlimited, now + 60 * minute);
    expect(lowered(ahead, owners, unlimited, now).perSecond).toBeLessThan(ahead.perSecond);
  });

  it("gives back a fiftieth of the owner's rate each minute, up to all of it", () => {
    const taught = lowered(noCeiling, owners, unlimited, now);
    expect(rateUnder(taught, owners, now + 5 * minute).perSecond).toBeCloseTo(80);
    expect(rateUnder(taught, owners, now + 60 * minute)).toEqual({ perSecond: 100, burst: 200 });
  });

  it("never falls below one a second, and never rises above the owner's rate", () => {
    const rounds = fc.array(fc.record({ afterMs: fc.nat(120_000), sent: fc.nat(10_000) }), { maxLength: 60 });
    const rates = fc.constantFrom(0.01, 0.5, 1, 7, 100, 10_000);
    fc.assert(
      fc.property(rounds, rates, (list, ratePerSecond) => {
        let [ceiling, at] = [noCeiling, now];
        for (const { afterMs, sent } of list) {
          at += afterMs;
          ceiling = lowered(ceiling, { ratePerSecond, rateBurst: 5 }, sent, at);
          const { perSecond } = rateUnder(ceiling, { ratePerSecond, rateBurst: 5 }, at);
          expect(perSecond).toBeGreaterThanOrEqual(Math.min(1, ratePerSecond));
          expect(perSecond).toBeLessThanOrEqual(ratePerSecond);
        }
      }),
    );
  });
});
