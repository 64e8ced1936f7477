import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { admit } from "../../src/policy/admission.ts";
import { newGateState } from "../../src/policy/gate-state.ts";
import { placesOf } from "../../src/policy/places.ts";
import { start as now, steady } from "../support/gate-arbitraries.ts";

const five = [1, 2, 3, 4, 5];
const lease = { deliveries: five, pace: { firstInMs: 0, everyMs: 100, slackMs: 0 } };

describe("a lease's places in time", () => {
  it("come one after the other, and are as many as its deliveries", () => {
    const places = placesOf(lease, now);
    const from = five.map(() => places.take(now)?.from);
    expect(from).toEqual([0, 100, 200, 300, 400].map((ms) => now + ms));
    expect(places.take(now)).toBeUndefined();
  });

  it("are lost when they are missed: the places after a lease's last belong to others", () => {
    const places = placesOf(lease, now);
    expect(places.take(now + 270)?.from).toBe(now + 300);
    expect(places.next(now + 451)).toBeUndefined();
  });

  it("may be used late by the slack, and by what timers miss", () => {
    const slack = { ...lease, pace: { ...lease.pace, slackMs: 1_000 } };
    expect(placesOf(slack, now).next(now + 1_050)).toEqual({ from: now, until: now + 1_050 });
    expect(placesOf(slack, now).next(now + 1_051)?.from).toBe(now + 100);
  });

  it("are looked at without being used up", () => {
    const places = placesOf(lease, now);
    expect(places.next(now)).toEqual(places.next(now));
    expect(places.take(now)?.from).toBe(now);
  });
});

describe("starts at the places of many leases, by workers that stall at random", () => {
  const stalls = fc.array(fc.record({ asksMs: fc.nat(2_000), stallMs: fc.nat(3_000), count: fc.nat(30) }), {
    minLength: 1,
    maxLength: 40,
    size: "max",
  });
  const rates = fc.record({
    ratePerSecond: fc.constantFrom(5, 45, 100),
    rateBurst: fc.constantFrom(1, 5, 60),
  });

  it("never break the rate, but by what timers miss", () => {
    fc.assert(
      fc.property(stalls, rates, (workers, { ratePerSecond, rateBurst }) => {
        const settings = { ...steady, maxConcurrency: 1_000, ratePerSecond, rateBurst };
        const starts: number[] = [];
        let state = newGateState(now);
        let at = now;
        for (const [i, { asksMs, stallMs, count }] of workers.entries()) {
          at += asksMs;
          const deliveries = Array.from({ length: count + 1 }, (_, n) => i * 100 + n);
          const ask = { lane: "fresh", deliveries, connections: 6, startWithinMs: 2_000 } as const;
          const { state: next, answer } = admit(state, ask, settings, at);
          state = next;
          if (!answer.grant) continue;
          // The holder wakes up late, and then makes up for it as fast as it may.
          const places = placesOf(answer.grant, at);
          let clock = at + stallMs;
          for (let place = places.take(clock); place; place = places.take(clock)) {
            clock = Math.max(clock, place.from);
            starts.push(clock);
          }
        }
        starts.sort((a, b) => a - b);
        for (const [i, first] of starts.entries()) {
          const within = starts.slice(i).filter((start) => start - first <= 1_000).length;
          expect(within).toBeLessThanOrEqual(rateBurst + (ratePerSecond * 1_050) / 1_000 + 2);
        }
      }),
    );
  });
});
