import fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";
import { admit } from "../../src/core/admit.ts";
import type { AttemptSignal } from "../../src/core/destination-state.ts";
import { numberAt } from "../../src/core/digits.ts";
import { type GateState, newGateState } from "../../src/core/gate-state.ts";
import type { Grant } from "../../src/core/lease.ts";
import { packNumbers, sharedWith, unpackNumbers } from "../../src/core/number-sets.ts";
import { settle } from "../../src/core/settle.ts";
import { start, steady } from "../support/gate-arbitraries.ts";

describe("packed deliveries", () => {
  const ascending = (list: readonly number[]) => list.toSorted((a, b) => a - b);
  const run = fc
    .tuple(fc.oneof(fc.nat(500), fc.nat(2 ** 52)), fc.integer({ min: 1, max: 130 }))
    .map(([first, count]) => Array.from({ length: count }, (_, i) => first + i));
  /** Single numbers, and runs of neighbours, in no order. */
  const numbers = fc
    .array(
      fc.oneof(
        fc.nat(2_000).map((one) => [one]),
        fc.maxSafeNat().map((one) => [one]),
        run,
      ),
    )
    .chain((parts) => fc.shuffledSubarray([...new Set(parts.flat())]));

  it("are the same numbers, in order", () => {
    fc.assert(
      fc.property(numbers, (list) => {
        expect(unpackNumbers(packNumbers(list))).toEqual(ascending(list));
      }),
    );
  });

  it("show which of other numbers are among them", () => {
    fc.assert(
      fc.property(numbers, numbers, fc.nat(50), (set, others, both) => {
        const asked = ascending([...new Set([...others, ...set.slice(0, both)])]);
        expect(sharedWith(asked, packNumbers(set))).toEqual(asked.filter((number) => set.includes(number)));
      }),
    );
  });

  it("that were written one by one, as an earlier version did, are the same", () => {
    expect(unpackNumbers("KBBBBBC")).toEqual([10, 11, 12, 13, 14, 15, 17]);
  });

  it("take a few characters for a whole bundle of neighbours, and eight bundles in a row nine each", () => {
    const bundle = (number: number) => Array.from({ length: 100 }, (_, i) => 128 * number + i);
    expect(packNumbers(bundle(30_000_000)).length).toBeLessThanOrEqual(10);
    const eight = Array.from({ length: 8 }, (_, i) => bundle(30_000_000 + i)).flat();
    expect(packNumbers(eight).length).toBeLessThanOrEqual(8 * 9);
  });

  it.each([
    [[1, 2, 3], "BBB"],
    [[1, 2, 3, 4], "B.D"],
    [[1, 2, 3, 4, 5, 6], "B.F"],
  ])("are a run if that is shorter: %j", (list, text) => {
    expect(packNumbers(list)).toBe(text);
  });

  it("that were cut off within a number are read to their end", () => {
    expect(numberAt("Bg", 1)).toEqual([0, 2]);
  });

  it("take one character each where they are close together", () => {
    const numbers = Array.from({ length: 60 }, (_, i) => 4_000_000_000 + 3 * i);
    expect(packNumbers(numbers).length).toBeLessThan(70);
  });
});

describe("a gate at its busiest, a thousand at once and four thousand deliveries a second", () => {
  const settings = { ...steady, maxConcurrency: 1_000, ratePerSecond: 10_000, rateBurst: 10_000 };
  const LEASED = 60;
  const TOOK_MS = 250;
  const SECONDS = 10;
  type Due = Readonly<{ at: number; grant: Grant }>;

  /** Drains lease sixty each, from both ends of a backlog, after an hour of traffic. */
  function play(look: (state: GateState) => void): void {
    let now = start;
    let state: GateState = newGateState(now);
    const metric = { attempt: 1, result: "2xx", end: "delivered", tookMs: TOOK_MS, lateMs: 3_000 } as const;
    const signalsOf = (count: number): AttemptSignal[] =>
      Array.from({ length: count }, () => ({
        at: now,
        health: "healthy",
        backsOff: false,
        tookMs: TOOK_MS,
        metric,
      }));
    const drainFor = (deliveries: readonly number[]) => {
      const ask = { lane: "backlog", deliveries, connections: 6, startWithinMs: 3_000 } as const;
      const { state: after, result } = admit(state, ask, settings, now);
      state = after;
      return result.grant;
    };
    const end = ({ id, deliveries }: Grant) => {
      const settlement = { lease: id, signals: signalsOf(deliveries.length), left: 0, continues: true };
      state = settle(state, settlement, settings, now, 0).state;
    };
    for (let minute = 0; minute < 61; minute++, now += 60_000) {
      const grant = drainFor(Array.from({ length: 2_000 }, (_, i) => 1 + minute * 2_000 + i));
      if (grant) end(grant);
    }
    let oldest = 3_000_000_000;
    let newest = 3_500_000_000;
    const due: Due[] = [];
    const endsAt = now + SECONDS * 1_000;
    // Each lease lasts 2.5 s: with 167 of them at once, four thousand deliveries a second.
    for (; now < endsAt; now += 15) {
      for (const one of due.splice(0))
        if (one.at <= now) end(one.grant);
        else due.push(one);
      while (due.length < 166) {
        const ends = Array.from({ length: LEASED / 2 }, (_, i) => [oldest + 3 * i, newest - 3 * i]).flat();
        const grant = drainFor(ends);
        if (!grant) break;
        oldest += 1.5 * LEASED;
        newest -= 1.5 * LEASED;
        due.push({ at: now + 2_500 * (0.5 + (due.length % 10) / 10), grant });
      }
      look(state);
    }
  }

  // Simulating it takes seconds, so it is done once for both.
  let most = 0;
  let leases = 0;
  let granted = 0;
  beforeAll(() => {
    play((state) => {
      most = Math.max(most, JSON.stringify(state).length);
      leases = Math.max(leases, state.leases.length);
      if (state.forgottenAt > 0) granted += grantsBeforeMemory(state);
    });
  });

  it("stores no more than 64 KB", () => {
    expect(leases).toBeGreaterThan(150);
    expect(most).toBeLessThanOrEqual(64 * 1024);
  });

  it("has its grants reread if the read is older than its memory", () => {
    expect(granted).toBeGreaterThan(0);
  });

  /** How many grants of a delivery that was read before what the state remembers; each is to be read again. */
  function grantsBeforeMemory(state: GateState): number {
    const now = (state.settled.at(-1)?.[0] ?? start) + 1;
    const ask = { lane: "fresh", deliveries: [7], connections: 6, startWithinMs: 1_000 } as const;
    const lookedUp = (at: number) => admit(state, { ...ask, lookedUpMsAgo: now - at }, settings, now).result;
    const [before, since] = [lookedUp(state.forgottenAt - 1), lookedUp(state.forgottenAt)];
    expect([before.readAgain, since.readAgain]).toEqual([before.grant ? true : undefined, undefined]);
    expect(since.inFlight).toBeNull();
    return before.grant ? 1 : 0;
  }
});
