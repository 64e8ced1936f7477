import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { admit } from "../../src/core/admit.ts";
import { newGateState } from "../../src/core/gate-state.ts";
import type { Grant } from "../../src/core/lease.ts";
import { sendSlotsOf } from "../../src/core/rate-limit.ts";
import { settle } from "../../src/core/settle.ts";
import { start as now, steady } from "../support/gate-arbitraries.ts";

const five = [1, 2, 3, 4, 5];
const lease = { deliveries: five, pace: { firstInMs: 0, everyMs: 100, slackMs: 0 } };
type Paced = Pick<Grant, "pace" | "deliveries">;

/** When a holder that is ready at `readyAt` starts its attempts. */
function startsOf(grant: Paced, grantedAt: number, readyAt: number): number[] {
  const slots = sendSlotsOf(grant, grantedAt);
  const starts: number[] = [];
  let clock = readyAt;
  for (let at = slots.claim(); at !== undefined; at = slots.claim()) {
    clock = Math.max(clock, at);
    slots.use(clock);
    starts.push(clock);
  }
  return starts;
}

describe("a lease's send slots", () => {
  it("come one after the other, and are as many as its deliveries", () => {
    expect(startsOf(lease, now, now)).toEqual([0, 100, 200, 300, 400].map((ms) => now + ms));
  });

  it("all move when the first is used late, and none is lost", () => {
    expect(startsOf(lease, now, now + 2_000)).toEqual(
      [2_000, 2_100, 2_200, 2_300, 2_400].map((ms) => now + ms),
    );
  });

  it("are not delayed by the rounding of those before", () => {
    const eleven = {
      deliveries: Array.from({ length: 23 }, (_, i) => i),
      pace: { ...lease.pace, everyMs: 1_000 / 11 },
    };
    expect(startsOf(eleven, now, now).at(-1)).toBe(now + 2_000);
  });

  it("are made up for as far as the burst reaches", () => {
    const burst = { ...lease, pace: { ...lease.pace, slackMs: 200 } };
    expect(startsOf(burst, now, now + 150)).toEqual([150, 150, 200, 300, 400].map((ms) => now + ms));
    expect(startsOf(burst, now, now + 2_000)).toEqual(
      [2_000, 2_000, 2_000, 2_100, 2_200].map((ms) => now + ms),
    );
  });

  it("are claimed one by one, so that connections side by side keep the rate together", () => {
    const slots = sendSlotsOf(lease, now);
    expect([slots.claim(), slots.claim()]).toEqual([now, now + 100]);
    slots.use(now + 50);
    expect(slots.isFree(now + 100)).toBe(false);
    slots.giveBack();
    expect(slots.claim()).toBe(now + 150);
    expect(slots.isFree(now + 150)).toBe(true);
  });

  it("begin when the grant says", () => {
    const later = { ...lease, pace: { ...lease.pace, firstInMs: 70 } };
    expect(startsOf(later, now, now)[0]).toBe(now + 70);
  });

  it("are no more than the deliveries, used and claimed together", () => {
    const slots = sendSlotsOf({ ...lease, deliveries: [1, 2] }, now);
    slots.claim();
    slots.use(now);
    expect(slots.claim()).toBe(now + 100);
    expect(slots.claim()).toBeUndefined();
    slots.giveBack();
    expect(slots.claim()).toBe(now + 100);
  });

  it("are late from a full millisecond on, and then move those behind them", () => {
    const started = (at: number) => {
      const slots = sendSlotsOf(lease, now);
      slots.claim();
      slots.use(at);
      return slots.tat();
    };
    expect(started(now + 0.9)).toBe(now + 100);
    expect(started(now + 1)).toBe(now + 101);
  });

  it("are free a millisecond early, because timers are, and earlier by the burst", () => {
    const burst = { ...lease, pace: { ...lease.pace, firstInMs: 50, slackMs: 30 } };
    const { isFree } = sendSlotsOf(burst, now);
    expect([isFree(now + 48), isFree(now + 49)]).toEqual([false, true]);
  });

  it("report the rate's TAT after the first start", () => {
    const slots = sendSlotsOf(lease, now);
    expect(slots.tat()).toBeUndefined();
    slots.claim();
    slots.use(now + 70);
    expect(slots.tat()).toBe(now + 170);
  });
});

describe("starts in the slots of many leases, by workers that are late at random", () => {
  const ms = fc.oneof(fc.integer({ min: 5, max: 60 }), fc.integer({ min: 5, max: 1_000 }));
  const worker = fc.record({
    asksMs: fc.nat(2_000),
    answerMs: ms,
    loadMs: ms,
    settleMs: ms,
    count: fc.integer({ min: 1, max: 30 }),
    /** It stops after so many: the destination was blocked, or its worker died before it could report. */
    most: fc.oneof({ weight: 3, arbitrary: fc.constant(100) }, { weight: 1, arbitrary: fc.nat(5) }),
    dies: fc.oneof({ weight: 9, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) }),
  });
  const rates = fc.record({
    ratePerSecond: fc.oneof(
      fc.constantFrom(0.01, 0.1, 1, 5, 100, 10_000),
      fc.double({ min: 0.01, max: 10_000, noNaN: true }),
    ),
    rateBurst: fc.oneof(fc.constant(1), fc.integer({ min: 1, max: 60 })),
  });
  const startWithinMs = 2_000;

  type Started = Readonly<{ at: number; lateMs: number }>;

  /** Every start, the workers one after the other in the order of their calls of the gate. */
  function play(
    workers: readonly (typeof worker extends fc.Arbitrary<infer T> ? T : never)[],
    rate: { ratePerSecond: number; rateBurst: number },
  ) {
    const settings = { ...steady, maxConcurrency: 1_000, ...rate };
    const opening = newGateState(now);
    let state = {
      ...opening,
      destinationState: { ...opening.destinationState, window: { size: 1_000, threshold: 1_000 } },
    };
    const started: Started[] = [];
    const unused: number[] = [];
    const settlements: { at: number; run: (at: number) => void }[] = [];
    let at = now;
    for (const [i, { asksMs, answerMs, loadMs, settleMs, count, most, dies }] of workers.entries()) {
      at += asksMs;
      for (const due of settlements.splice(0).toSorted((a, b) => a.at - b.at))
        if (due.at <= at) due.run(due.at);
        else settlements.push(due);
      const deliveries = Array.from({ length: count }, (_, n) => i * 100 + n);
      const { state: next, result } = admit(
        state,
        { lane: "fresh", deliveries, connections: 6, startWithinMs },
        settings,
        at,
      );
      state = next;
      const { grant } = result;
      if (!grant) continue;
      const arrived = at + answerMs;
      const ready = arrived + loadMs;
      const slots = sendSlotsOf(grant, arrived);
      let clock = ready;
      let sent = 0;
      for (let from = slots.claim(); from !== undefined && sent < most; from = slots.claim()) {
        clock = Math.max(clock, from);
        // Every slot that was granted is before the end of the lease's time for starting.
        expect(clock).toBeLessThan(ready + startWithinMs + 1);
        const planned = at + grant.pace.firstInMs + grant.pace.slackMs + sent * grant.pace.everyMs;
        slots.use(clock);
        started.push({ at: clock, lateMs: Math.max(0, clock - planned) });
        sent += 1;
      }
      if (sent < grant.deliveries.length) unused.push(grant.deliveries.length - sent);
      if (dies) continue;
      const tat = slots.tat();
      const settle_ = (settledAt: number) => {
        const tatInMs = tat === undefined ? {} : { tatInMs: tat - settledAt };
        state = settle(
          state,
          { lease: grant.id, signals: [], left: 0, ...tatInMs },
          settings,
          settledAt,
          0,
        ).state;
      };
      settlements.push({ at: clock + settleMs, run: settle_ });
    }
    return { started: started.toSorted((a, b) => a.at - b.at), state };
  }

  it("are never more than burst + rate × (interval + lateness), in any interval", () => {
    fc.assert(
      fc.property(fc.array(worker, { minLength: 1, maxLength: 40, size: "max" }), rates, (workers, rate) => {
        const { started } = play(workers, rate);
        const lateMs = Math.max(0, ...started.map((start) => start.lateMs));
        const everyMs = 1_000 / rate.ratePerSecond;
        // As missingMs in rate.test.ts: how many milliseconds any interval is too short for its starts.
        let furthest = Number.NEGATIVE_INFINITY;
        for (const [i, { at }] of started.entries()) {
          furthest = Math.max(furthest, at - i * everyMs);
          const missing = furthest - (at - i * everyMs) - (rate.rateBurst - 1) * everyMs;
          expect(missing).toBeLessThanOrEqual(lateMs + 2);
        }
      }),
      { numRuns: 300 },
    );
  });

  it("by one worker after the other follow the rate exactly, however late each of them is", () => {
    fc.assert(
      fc.property(fc.array(worker, { minLength: 1, maxLength: 40, size: "max" }), rates, (workers, rate) => {
        const inTurn = workers.map((one) => ({ ...one, dies: false, asksMs: 10_000 }));
        const { started } = play(inTurn, rate);
        const everyMs = 1_000 / rate.ratePerSecond;
        let due = 0;
        for (const { at } of started) {
          expect(at + 2).toBeGreaterThanOrEqual(due - (rate.rateBurst - 1) * everyMs);
          due = Math.max(due, at) + everyMs;
        }
      }),
      { numRuns: 200 },
    );
  });
});
