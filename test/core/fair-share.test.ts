import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type AdmitRequest, admit } from "../../src/core/admit.ts";
import { aheadMs, fairShareLeft, isBacklogsTurn } from "../../src/core/capacity.ts";
import { drainsDue } from "../../src/core/drain-scheduler.ts";
import { type GateState, newGateState, type Side, sideOf } from "../../src/core/gate-state.ts";
import { type Grant, type Lease, slotsOf } from "../../src/core/lease.ts";
import type { GateSettings } from "../../src/core/limits.ts";
import { scheduleDrain, settle } from "../../src/core/settle.ts";
import { start as now, steady } from "../support/gate-arbitraries.ts";

const never = { askedAt: 0, servedAt: 0, wantedAt: 0 };

function gate(turns: Partial<GateState["turns"]>, taken: Partial<Record<Side, number>> = {}): GateState {
  const lease = (lane: "fresh" | "backlog", slots = 0): Lease => ({
    id: lane,
    lane,
    slots,
    width: slots,
    deliveries: "",
    tat: 0,
    expiresAt: now + 1000,
  });
  const leases = [lease("fresh", taken.live), lease("backlog", taken.backlog)];
  return { ...newGateState(now), leases, turns: { live: never, backlog: never, ...turns } };
}

const left = (state: GateState, side: Side, capacity: number) =>
  fairShareLeft(state, side, capacity, slotsOf, now);
const wanting = { backlog: { askedAt: now, servedAt: now - 5_000, wantedAt: now - 1 } };
const about = { live: { askedAt: now - 9_999, servedAt: now - 9_999, wantedAt: 0 } };

describe("a capacity above one", () => {
  it("belongs entirely to a side that is alone", () => {
    expect(left(gate({}), "live", 12)).toBe(12);
    expect(left(gate({}), "backlog", 12)).toBe(12);
  });

  it("is left to the backlog to a quarter after a refusal of the backlog", () => {
    expect(left(gate(wanting), "live", 12)).toBe(9);
    expect(left(gate(wanting, { live: 8 }), "live", 12)).toBe(1);
    expect(left(gate(wanting, { live: 9 }), "live", 12)).toBe(0);
  });

  it("is shared with a backlog that was served and refused in the same request", () => {
    const partly = { backlog: { askedAt: now, servedAt: now - 1, wantedAt: now - 1 } };
    expect(left(gate(partly), "live", 12)).toBe(9);
  });

  it("is left to live traffic to an eighth while there is any", () => {
    expect(left(gate(about), "backlog", 16)).toBe(14);
    expect(left(gate({ live: { ...about.live, askedAt: now - 10_000 } }), "backlog", 16)).toBe(16);
  });

  it("leaves at least one to the other side", () => {
    expect(left(gate(wanting), "live", 2)).toBe(1);
    expect(left(gate(about), "backlog", 3)).toBe(2);
  });

  it("is never given twice", () => {
    expect(left(gate(wanting, { live: 2, backlog: 9 }), "live", 12)).toBe(1);
    expect(left(gate(about, { live: 4, backlog: 7 }), "backlog", 12)).toBe(1);
    expect(left(gate({}, { live: 9, backlog: 9 }), "live", 12)).toBe(-6);
  });

  it("is not shared with a backlog that was served since, or not seen for ten seconds", () => {
    const served = { backlog: { askedAt: now, servedAt: now, wantedAt: now - 1 } };
    const gone = { backlog: { askedAt: now - 10_000, servedAt: 0, wantedAt: now - 10_000 } };
    expect(left(gate(served), "live", 12)).toBe(12);
    expect(left(gate(gone), "live", 12)).toBe(12);
  });
});

describe("a capacity of one", () => {
  const liveWasServed = { ...wanting, live: { askedAt: now, servedAt: now - 100, wantedAt: 0 } };
  const backlogWasServed = { ...wanting, live: { askedAt: now, servedAt: now - 6_000, wantedAt: 0 } };

  it("is the backlog's turn when that was refused and live traffic was served last", () => {
    expect(isBacklogsTurn(gate(liveWasServed), now)).toBe(true);
    expect(left(gate(liveWasServed), "live", 1)).toBe(0);
  });

  it("is live traffic's when the backlog was served last, though it wants more", () => {
    expect(isBacklogsTurn(gate(backlogWasServed), now)).toBe(false);
    expect(left(gate(backlogWasServed), "live", 1)).toBe(1);
  });

  it("is live traffic's when the backlog wants nothing, though live traffic was served last", () => {
    expect(isBacklogsTurn(gate({ live: liveWasServed.live }), now)).toBe(false);
  });

  it("is live traffic's when both were served at the same time", () => {
    const both = { backlog: { ...wanting.backlog, servedAt: now - 100 }, live: liveWasServed.live };
    expect(isBacklogsTurn(gate({ ...both, backlog: { ...both.backlog, wantedAt: now } }), now)).toBe(false);
  });

  it("is never denied to the backlog", () => {
    expect(left(gate(about), "backlog", 1)).toBe(1);
  });
});

describe("the rate", () => {
  it("is reserved for as long as the caller will start attempts", () => {
    expect(aheadMs(gate({}), "backlog", 3_000, now)).toBe(3_000);
    expect(aheadMs(gate(about), "live", 1_000, now)).toBe(1_000);
  });

  it("is reserved for less of a drain's time while there is live traffic, and for less than a batch's", () => {
    expect(aheadMs(gate(about), "backlog", 3_000, now)).toBeLessThan(1_000);
  });
});

/**
 * A destination that both sides want all the time. Live traffic requests a lease at every tick. Drains start some time
 * after the alarm, request again as long as nothing of theirs is refused, and end after their budget.
 */
type World = Readonly<{
  settings: GateSettings;
  window: number;
  /** How long each lease lasts, as a list that repeats. */
  lastingMs: readonly number[];
  /** How long a drain takes to start, and to request again. */
  comingMs: number;
  againMs: number;
  outcome: "healthy" | "throttled";
  /** Whether live traffic requests first at a tick. */
  liveFirst: readonly boolean[];
}>;

const TICK_MS = 20;
const BUDGET_MS = 3_000;

/** One request, and whether anything was granted. */
type Asked = Readonly<{ side: Side; at: number; granted: boolean }>;

/** All requests of a while, in order. */
function asksIn(world: World, lengthMs: number): Asked[] {
  const { settings, lastingMs, comingMs, againMs, outcome, liveFirst } = world;
  const opening = newGateState(now);
  const window = { size: world.window, threshold: 1000 };
  let state = scheduleDrain({ ...opening, destinationState: { ...opening.destinationState, window } }, now);
  let row = 0;
  const asks: Asked[] = [];
  const busy: { at: number; done: (at: number) => void }[] = [];
  const drains: { at: number; endsAt: number }[] = [];

  function take(grant: Grant, at: number, continues: boolean, afterwards: (at: number) => void) {
    const lastStartMs = Math.max(
      0,
      grant.pace.firstInMs + (grant.deliveries.length - 1) * grant.pace.everyMs,
    );
    const tookMs = lastingMs[asks.length % lastingMs.length] ?? 0;
    const done = (endedAt: number) => {
      const signal = { at: endedAt, health: outcome, backsOff: outcome !== "healthy", tookMs } as const;
      const signals = grant.deliveries.map(() => signal);
      state = settle(state, { lease: grant.id, signals, left: 0, continues }, settings, endedAt, 0).state;
      afterwards(endedAt);
    };
    busy.push({ at: at + lastStartMs + tookMs, done });
  }

  function ask(lane: "fresh" | "backlog", at: number, startWithinMs: number) {
    const deliveries = Array.from({ length: 60 }, () => ++row);
    const wanted: AdmitRequest = { lane, deliveries, connections: 6, startWithinMs };
    const { state: next, result } = admit(state, wanted, settings, at);
    state = next;
    asks.push({ side: sideOf(lane), at, granted: result.grant !== null });
    return result;
  }

  function liveAsks(at: number) {
    const { grant } = ask("fresh", at, 1_000);
    if (grant) take(grant, at, false, () => undefined);
  }

  function drainsAsk(at: number) {
    for (const drain of drains.splice(0)) {
      if (drain.at > at) drains.push(drain);
      else drainAsks(drain.endsAt, at);
    }
  }

  function drainAsks(endsAt: number, at: number) {
    const { grant, refused } = ask("backlog", at, endsAt - at);
    if (!grant) return;
    take(grant, at, !refused, (endedAt) => {
      if (refused) return;
      const over = endedAt + againMs >= endsAt;
      const nextAt = endedAt + (over ? comingMs : againMs);
      drains.push({ at: nextAt, endsAt: over ? nextAt + BUDGET_MS : endsAt });
    });
  }

  for (let tick = 0; tick * TICK_MS < lengthMs; tick++) {
    const at = now + tick * TICK_MS;
    for (const { done } of busy.filter((one) => one.at <= at)) done(at);
    busy.splice(0, busy.length, ...busy.filter((one) => one.at > at));
    if (state.drainSchedule.at !== null && state.drainSchedule.at <= at) {
      const { drainSchedule, drains: sent } = drainsDue(state, at);
      state = { ...state, drainSchedule };
      for (let i = 0; i < sent; i++) drains.push({ at: at + comingMs, endsAt: at + comingMs + BUDGET_MS });
    }
    const order = liveFirst[tick % liveFirst.length] ? [liveAsks, drainsAsk] : [drainsAsk, liveAsks];
    for (const turn of order) turn(at);
  }
  return asks;
}

/** For how many milliseconds at most `side` requested in vain; the whole time if it never got anything. */
function longestWait(side: Side, asks: readonly Asked[]): number {
  let since: number | undefined;
  return asks
    .filter((ask) => ask.side === side)
    .reduce((longest, { at, granted }) => {
      since = granted ? undefined : (since ?? at);
      return Math.max(longest, at - (since ?? at));
    }, 0);
}

describe("when both sides always have deliveries", () => {
  const world: fc.Arbitrary<World> = fc.record({
    settings: fc
      .record({
        maxConcurrency: fc.oneof(fc.constantFrom(1, 2, 3), fc.integer({ min: 1, max: 40 })),
        rate: fc.constantFrom([10_000, 10_000], [100, 200], [10, 10], [10, 1], [2, 1], [2, 5]),
      })
      .map(({ maxConcurrency, rate: [ratePerSecond = 1, rateBurst = 1] }) => ({
        ...steady,
        maxConcurrency,
        ratePerSecond,
        rateBurst,
      })),
    window: fc.constantFrom(1, 1, 2, 10, 40),
    lastingMs: fc.array(fc.integer({ min: 20, max: 900 }), { minLength: 1, maxLength: 5 }),
    comingMs: fc.integer({ min: 20, max: 1_500 }),
    againMs: fc.integer({ min: 20, max: 200 }),
    outcome: fc.constantFrom("healthy" as const, "throttled" as const),
    liveFirst: fc.array(fc.boolean(), { minLength: 1, maxLength: 5 }),
  });
  const twoDrains: World = {
    settings: { ...steady, ratePerSecond: 10, rateBurst: 10 },
    window: 10,
    lastingMs: [100],
    comingMs: 20,
    againMs: 20,
    outcome: "healthy",
    liveFirst: [true],
  };

  it.each<[string, Partial<World>]>([
    ["with connections and rate to spare", { settings: steady }],
    ["with a scarce rate that several drains reserve ahead", {}],
    [
      "with live traffic that takes the rate to its last place as soon as it can",
      { settings: { ...steady, maxConcurrency: 3 }, window: 1, lastingMs: [141], liveFirst: [true, false] },
    ],
    ["with max_concurrency 1", { settings: { ...steady, maxConcurrency: 1 } }],
    ["with a window that stays at one", { settings: steady, window: 1, outcome: "throttled" }],
    ["with drains that always come first", { liveFirst: [false] }],
  ])("neither starves %s", (_, part) => {
    const asks = asksIn({ ...twoDrains, ...part }, 60_000);
    for (const side of ["live", "backlog"] as const) {
      expect(longestWait(side, asks)).toBeLessThan(10_000);
      expect(asks.filter((ask) => ask.side === side && ask.granted).length).toBeGreaterThan(5);
    }
  });

  it("neither side is refused for ten seconds", () => {
    fc.assert(
      fc.property(world, (one) => {
        const asks = asksIn(one, 30_000);
        expect(longestWait("live", asks)).toBeLessThan(10_000);
        expect(longestWait("backlog", asks)).toBeLessThan(10_000);
      }),
      { numRuns: 100 },
    );
  });
});
