import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type AdmitRequest, admit, refusalAt } from "../../src/core/admit.ts";
import { closedCircuit } from "../../src/core/circuit-breaker.ts";
import type { AttemptSignal, DestinationState } from "../../src/core/destination-state.ts";
import { drainsDue } from "../../src/core/drain-scheduler.ts";
import { type GateState, newGateState } from "../../src/core/gate-state.ts";
import { type Grant, LOOK_UP_MS } from "../../src/core/lease.ts";
import type { GateSettings } from "../../src/core/limits.ts";
import { packNumbers, unpackNumbers } from "../../src/core/number-sets.ts";
import {
  afterEmptyDrain,
  afterHold,
  afterHoldCleared,
  afterResume,
  afterTransformFaults,
  holdByGate,
  type SettleRequest,
  settle,
  settleResultOf,
} from "../../src/core/settle.ts";
import { metric } from "../support/attempt-metrics.ts";
import { historyArbitrary, momentsOf, start as now, numbersIn, steady } from "../support/gate-arbitraries.ts";

const ask: AdmitRequest = {
  lane: "fresh",
  deliveries: Array.from({ length: 10 }, (_, i) => i + 1),
  connections: 6,
  startWithinMs: 1000,
};
const fine = (at: number): AttemptSignal => ({ at, health: "healthy", backsOff: false });
const failed = (at: number): AttemptSignal => ({ at, health: "unhealthy", backsOff: true });
const busy = (at: number): AttemptSignal => ({ at, health: "throttled", backsOff: true });

function gate(destinationState: Partial<DestinationState> = {}): GateState {
  const state = newGateState(now);
  return { ...state, destinationState: { ...state.destinationState, ...destinationState } };
}
const noNews = { events: [], alerts: [], digestDue: false };
const wide = gate({ window: { size: 8, threshold: 100 } });
const open = gate({ circuit: { kind: "open", since: now - 30_000, until: now, trips: 1 } });

function lease(state: GateState, part: Partial<AdmitRequest> = {}, at = now, settings = steady) {
  const { state: next, result } = admit(state, { ...ask, ...part }, settings, at);
  if (!result.grant) throw new Error(`refused: ${result.refused?.reason}`);
  return { state: next, grant: result.grant };
}

function settling(
  state: GateState,
  { id }: Grant,
  signals: readonly AttemptSignal[],
  at = now + 100,
  settings: GateSettings = steady,
  part: Partial<SettleRequest> = {},
) {
  return settle(state, { lease: id, signals, left: 0, ...part }, settings, at, 0);
}

describe("a settlement", () => {
  it("ends the lease and updates the destination's state with its signals, in their order", () => {
    const { state, grant } = lease(wide);
    const order = (signals: AttemptSignal[]) =>
      settling(state, grant, signals).state.destinationState.window.size;
    expect(settling(state, grant, [fine(now)]).state.leases).toEqual([]);
    expect(order([fine(now + 1), failed(now + 2)])).toBe(4.5);
    expect(order([failed(now + 1), fine(now + 2)])).toBe(4.25);
  });

  it("schedules drains for the deliveries that it leaves waiting: at once, or when the block ends", () => {
    const { state, grant } = lease(wide);
    const leaving = (signals: AttemptSignal[]) =>
      settling(state, grant, signals, now + 100, steady, { left: 9 }).state.drainSchedule;
    expect(leaving([fine(now)])).toMatchObject({ waitingSince: now + 100, at: now + 100 });
    expect(leaving([{ ...busy(now), holdUntil: now + 60_000 }]).at).toBe(now + 60_000);
  });

  it("changes nothing when it is repeated", () => {
    const { state, grant } = lease(wide);
    const once = settling(state, grant, [failed(now)]).state;
    expect(settling(once, grant, [failed(now)])).toEqual({ state: once, ...noNews });
  });

  it("makes callers that read before its end reread the deliveries of a lease that expired unsettled", () => {
    const { state, grant } = lease(wide);
    const expiresAt = now + grant.expiresInMs;
    const readBefore = { ...ask, deliveries: [1], lookedUpMsAgo: 2_000 };
    const late = admit(state, readBefore, steady, expiresAt + 1_000).result;
    expect(late).toMatchObject({ grant: null, inFlight: { deliveries: [1], until: expiresAt + 1_000 } });
    const readAfter = { ...readBefore, lookedUpMsAgo: 500 };
    expect(admit(state, readAfter, steady, expiresAt + 1_000).result.grant?.deliveries).toEqual([1]);
  });

  it("changes nothing when the lease has expired, whatever it reports", () => {
    const { state, grant } = lease(wide);
    const signals = Array.from({ length: 10 }, () => failed(now));
    const late = settling(state, grant, signals, now + grant.expiresInMs);
    // Its reservation counts as sent, because the truth is unknown.
    const { crashLoop } = late.state;
    expect(crashLoop.level).toBe(1);
    // Its recorded outcome is not visible either.
    const settled = [[now + grant.expiresInMs, state.leases[0]?.deliveries]];
    expect(late).toEqual({
      state: { ...state, leases: [], tat: state.leases[0]?.tat, crashLoop, settled },
      ...noNews,
    });
  });

  it("changes nothing for a lease that was never granted", () => {
    const { state, grant } = lease(wide);
    expect(settling(state, { ...grant, id: "made-up" }, [failed(now)]).state).toEqual(state);
  });

  it("does not touch other leases", () => {
    const first = lease(wide, { deliveries: [1] });
    const second = lease(first.state, { deliveries: [2] });
    const { leases } = settling(second.state, first.grant, [fine(now)]).state;
    expect(leases.map(({ id }) => id)).toEqual([second.grant.id]);
  });

  it.each<[string, GateState, AttemptSignal[], string[]]>([
    ["that the circuit opened", wide, Array.from({ length: 5 }, () => failed(now)), ["circuit_opened"]],
    ["that a probe closed it", open, [fine(now)], ["circuit_closed"]],
    ["that a probe closed it though it was throttled", open, [busy(now)], ["circuit_closed"]],
    ["that a failed probe opened it again", open, [failed(now)], ["circuit_opened"]],
    ["that the receiver asked for quiet", wide, [{ ...busy(now), holdUntil: now + 9_000 }], ["held"]],
    ["nothing else", wide, [fine(now), failed(now)], []],
  ])("reports %s", (_, state, signals, events) => {
    const given = lease(state);
    const { state: after, events: told } = settling(given.state, given.grant, signals);
    expect(told).toEqual(events);
    // The history has the same, with the end of the hold.
    const until = events[0] === "held" ? { until: now + 9_000 } : {};
    expect(after.history).toEqual(events.map((what) => ({ at: now + 100, what, ...until })));
  });

  it("is no new event while the circuit is open or the receiver quiet, unless it asks for a longer quiet", () => {
    const first = lease(wide, { deliveries: [1] });
    const second = lease(first.state, { deliveries: [2] });
    const quiet = (at: number) => [{ ...busy(now), holdUntil: at }];
    const { state } = settling(second.state, first.grant, quiet(now + 9_000));
    expect(settling(state, second.grant, quiet(now + 9_000), now + 200).state.history).toHaveLength(1);
    expect(settling(state, second.grant, quiet(now + 10_000), now + 200).state.history).toEqual([
      { at: now + 100, what: "held", until: now + 10_000, times: 2 },
    ]);
    const circuit = { kind: "open", since: now, until: now + 45_000, trips: 1 } as const;
    const opened = { ...second.state, destinationState: { ...second.state.destinationState, circuit } };
    expect(settling(opened, second.grant, [failed(now)]).state.history).toEqual([]);
    const closed = settling(second.state, second.grant, [fine(now)]);
    expect(closed.state.history).toEqual([]);
  });

  it("counts its attempts, and makes the digest due for those that ended dead, and for no others", () => {
    const { state, grant } = lease(wide);
    const counting = (end: "delivered" | "again" | "dead") =>
      settling(state, grant, [{ ...fine(now), metric: metric({ end }) }]);
    expect(counting("dead")).toMatchObject({ digestDue: true, state: { deadLetterDigest: { dead: 1 } } });
    expect(counting("again")).toMatchObject({ digestDue: false, state: { failureStreak: { failures: 1 } } });
    expect(counting("delivered")).toMatchObject({
      digestDue: false,
      state: { failureStreak: { failures: 0 } },
    });
    expect(counting("again").state.rollups).not.toEqual(state.rollups);
    expect(settling(state, grant, [fine(now)]).state.rollups).toEqual(state.rollups);
  });

  it("returns the reason to pause with each failure, and never without one", () => {
    const streak = { refusals: 1_000, failures: 1_000, failingSince: now - 1 };
    const { state, grant } = lease({ ...wide, failureStreak: streak });
    const refusal = { ...fine(now), metric: metric({ end: "dead", result: "4xx" }) };
    expect(settling(state, grant, [refusal]).disableReason).toBe("rejecting");
    expect(settling(state, grant, [fine(now)]).disableReason).toBeUndefined();
    expect(settling(state, grant, []).disableReason).toBeUndefined();
  });

  it("counts against a crash loop only when something was attempted", () => {
    const crashLoop = { level: 1, raisedAt: now, settled: 3 };
    const { state, grant } = lease({ ...wide, crashLoop }, { lane: "backlog" });
    expect(settling(state, grant, [fine(now)]).state.crashLoop.settled).toBe(4);
    expect(settling(state, grant, []).state.crashLoop.settled).toBe(3);
  });

  it("schedules the next drain for later when nothing was sent, and at once otherwise", () => {
    const { state, grant } = lease(wide, { lane: "backlog" });
    const at = (signals: AttemptSignal[], part: Partial<SettleRequest>) =>
      settling(state, grant, signals, now + 100, steady, part).state.drainSchedule;
    expect(at([], { left: 3 }).at).toBeGreaterThan(now + 100);
    expect(at([fine(now)], { left: 3 }).at).toBe(now + 100);
    expect(at([fine(now)], { left: 0 }).waitingSince).toBe(0);
    expect(at([fine(now)], { left: 3, continues: true })).toMatchObject({ expected: 1 });
    expect(at([fine(now)], { left: 3 })).toMatchObject({ expected: 0 });
    const waiting = {
      ...state,
      drainSchedule: { ...state.drainSchedule, waitingSince: now, at: now + 9_000 },
    };
    expect(settling(waiting, grant, []).state.drainSchedule.at).toBe(now + 100);
  });

  it("keeps its width from the end of a hold on", () => {
    const { state, grant } = lease(wide);
    const sizeAt = (heldUntil: number) => {
      const held = { ...state, destinationState: { ...state.destinationState, heldUntil } };
      return settling(held, grant, [fine(now)]).state.destinationState.window.size;
    };
    expect(sizeAt(now + 101)).toBe(1);
    expect(sizeAt(now + 100)).toBe(8);
  });
});

describe("late outcomes of leases granted before an opening", () => {
  const halfOpen = { kind: "half_open", since: now, trips: 1 } as const;
  const old = lease(wide);

  it.each([
    ["close", fine],
    ["reopen", failed],
    ["close, being throttled,", busy],
  ])("do not %s a half-open circuit", (_, signal) => {
    const state = { ...old.state, destinationState: { ...old.state.destinationState, circuit: halfOpen } };
    const settled = settling(state, old.grant, [signal(now + 50)]);
    expect(settled.state.destinationState.circuit).toEqual(halfOpen);
    expect(settled.events).toEqual([]);
  });

  it("do not lengthen or end an open circuit's cool-down", () => {
    const circuit = { kind: "open", since: now, until: now + 30_000, trips: 1 } as const;
    const state = { ...old.state, destinationState: { ...old.state.destinationState, circuit } };
    const settled = settling(state, old.grant, [fine(now + 50), failed(now + 50), busy(now + 50)]);
    expect(settled.state.destinationState.circuit).toEqual(circuit);
  });

  it("may still ask for quiet", () => {
    const state = { ...old.state, destinationState: { ...old.state.destinationState, circuit: halfOpen } };
    const settled = settling(state, old.grant, [{ ...failed(now + 50), holdUntil: now + 90_000 }]);
    expect(settled.state.destinationState.heldUntil).toBe(now + 90_000);
  });
});

describe("a failed probe", () => {
  it("opens the circuit again for twice as long, up to the cap (regression: unkey)", () => {
    let state = open;
    let at = now;
    const cooldowns = [1, 2, 3, 4, 5, 6].map(() => {
      const probe = lease(state, {}, at);
      state = settling(probe.state, probe.grant, [failed(at)], at).state;
      const { circuit } = state.destinationState;
      const until = circuit.kind === "open" ? circuit.until : at;
      const ms = until - at;
      at = until;
      return ms / 1000;
    });
    expect(cooldowns).toEqual([60, 120, 240, 300, 300, 300]);
  });
});

describe("sends that were not made", () => {
  const slowly = { ...steady, ratePerSecond: 1, rateBurst: 10 };

  it("are given back to the rate", () => {
    const { state, grant } = lease(wide, {}, now, slowly);
    const settled = settling(state, grant, [fine(now)], now + 100, slowly, { tatInMs: 900 });
    expect(settled.state.tat).toBe(now + 1000);
    const unused = settling(state, grant, [], now + 100, slowly);
    expect(lease(unused.state, {}, now + 100, slowly).grant.pace.firstInMs).toBe(-9_000);
  });

  it("do not hide that earlier ones started late: nothing follows earlier than the rate allows", () => {
    const { state, grant } = lease(wide, {}, now, slowly);
    const settled = settling(state, grant, [fine(now + 5_000)], now + 5_100, slowly, { tatInMs: 900 });
    expect(lease(settled.state, {}, now + 5_200, slowly).grant.pace.firstInMs).toBe(-8_200);
  });

  it("count as sent if their holder does not report when it started the others", () => {
    const { state, grant } = lease(wide, {}, now, slowly);
    expect(settling(state, grant, [fine(now)], now + 100, slowly).state.tat).toBe(state.leases[0]?.tat);
  });

  it("are not given back once another lease has reserved after them", () => {
    const first = lease(wide, { deliveries: [1, 2, 3] }, now, slowly);
    const second = lease(first.state, { deliveries: [4] }, now, slowly);
    const { state } = settling(second.state, first.grant, [], now + 100, slowly);
    expect(refusalAt(state, "fresh", slowly, now + 100)?.until).toBe(
      refusalAt(second.state, "fresh", slowly, now + 100)?.until,
    );
  });
});

describe("a hold that is reported at once", () => {
  const until = now + 10_000;

  it("blocks all leases, and traffic restarts from one", () => {
    const { state } = afterHold(wide, until, now);
    expect(state.destinationState).toMatchObject({ heldUntil: until, window: { size: 1 } });
    expect(state.history.at(-1)).toEqual({ at: now, what: "held", until });
  });

  it("is never shortened, and changes nothing when it is repeated", () => {
    const { state } = afterHold(wide, until, now);
    expect(afterHold(state, until, now + 1)).toEqual({ state, events: [] });
    expect(afterHold(state, until - 1, now + 1)).toEqual({ state, events: [] });
  });

  it("is the same hold when the lease that met it is settled: the size that worked is remembered", () => {
    const { state, grant } = lease(wide);
    const signal = { ...busy(now + 50), holdUntil: until };
    const once = settling(state, grant, [signal, busy(now + 60)]).state.destinationState;
    const twice = settling(afterHold(state, until, now + 50).state, grant, [signal, busy(now + 60)]);
    expect(twice.state.destinationState).toEqual(once);
    expect(once.window).toEqual({ size: 1, threshold: 8 });
    expect(twice.events).toEqual([]);
  });

  it.each([
    ["behind", -3_000],
    ["ahead", 3_000],
  ])("lasts as long as asked if the worker's clock is %s", (_, skewMs) => {
    const { state, grant } = lease(wide);
    const [until, sentAt] = [now + skewMs + 10_000, now + skewMs];
    expect(holdByGate(until, sentAt, now + 80)).toBe(now + 10_080);
    const signal = { ...busy(now + skewMs), holdUntil: until };
    const settled = settling(state, grant, [signal], now + 200, steady, { sentAt });
    expect(settled.state.destinationState.heldUntil).toBe(now + 10_200);
  });

  it("is one entry of the history, although the two calls that report it take different times", () => {
    const { state, grant } = lease(wide);
    const held = afterHold(state, until, now + 50).state;
    const signal = { ...busy(now + 50), holdUntil: until };
    const { state: settled } = settling(held, grant, [signal], now + 300, steady, { sentAt: now + 60 });
    expect(settled.destinationState.heldUntil).toBe(until + 240);
    expect(settled.history.filter(({ what }) => what === "held")).toHaveLength(1);
  });

  it("is not ended by successes of other leases", () => {
    const { state, grant } = lease(wide);
    const settled = settling(afterHold(state, until, now + 50).state, grant, [
      fine(now + 60),
      fine(now + 70),
    ]);
    expect(settled.state.destinationState.window.size).toBe(1);
  });

  it("is not ended by these either when they come from a worker whose clock is ahead", () => {
    const { state, grant } = lease(wide);
    const settled = settling(afterHold(state, until, now + 50).state, grant, [
      fine(until + 1),
      fine(until + 2),
    ]);
    expect(settled.state.destinationState.window.size).toBe(1);
  });
});

describe("a settled delivery", () => {
  it("is remembered for as long as a caller may still act on an older read of D1, and no longer", () => {
    const { state, grant } = lease(wide);
    const { state: after } = settling(state, grant, [fine(now)]);
    expect(after.settled).toEqual([[now + 100, packNumbers(grant.deliveries)]]);
    const next = lease(after, { deliveries: [77] }, now + 20_000);
    const { settled } = settling(next.state, next.grant, [], now + 20_000).state;
    expect(settled.map(([, deliveries]) => unpackNumbers(deliveries))).toEqual([[77]]);
  });
});

describe("deliveries settled by several leases", () => {
  const settledAt = (state: GateState, delivery: number, at: number) => {
    const { state: next, grant } = lease(state, { deliveries: [delivery] }, at);
    return settling(next, grant, [fine(at)], at).state;
  };
  const remembered = ({ settled }: GateState) => settled.flatMap(([, some]) => unpackNumbers(some));

  it("are remembered together, each for as long as reads may be old", () => {
    const first = settledAt(wide, 1, now);
    expect(remembered(settledAt(first, 2, now + 1))).toEqual([1, 2]);
    expect(remembered(settledAt(first, 2, now + LOOK_UP_MS - 1))).toEqual([1, 2]);
    expect(remembered(settledAt(first, 2, now + LOOK_UP_MS))).toEqual([2]);
  });

  it("are not granted to a caller that read them before", () => {
    const both = settledAt(settledAt(wide, 1, now + 100), 2, now + 200);
    const request = { ...ask, deliveries: [1, 2, 3], lookedUpMsAgo: 300 };
    expect(admit(both, request, steady, now + 300).result).toMatchObject({
      grant: { deliveries: [3] },
      inFlight: { deliveries: [1, 2] },
    });
  });
});

describe("lifting a pause", () => {
  it("restarts traffic from one, and schedules drains for waiting deliveries", () => {
    const state = afterResume(wide, now);
    expect(state.destinationState.window.size).toBe(1);
    expect(state.drainSchedule.at).toBe(now);
    expect(state.history.at(-1)).toEqual({ at: now, what: "resumed" });
  });

  it("ends the receiver's hold, because a person wants it tried again", () => {
    const waiting = afterHold(wide, now + 86_400_000, now).state;
    const state = afterResume(waiting, now + 1_000);
    expect(lease(state, {}, now + 1_000).grant.width).toBe(1);
    expect(state.drainSchedule.at).toBe(now + 1_000);
  });

  it("forgets the failures of a closed circuit and its hold, and follows the pause in the history", () => {
    const failing = settling(lease(wide).state, lease(wide).grant, [failed(now)]).state;
    const before = { ...failing, holding: true };
    const pause = { at: now + 500, reason: "manual" } as const;
    const state = afterResume(before, now + 1_000, pause);
    expect(state.destinationState.circuit).toEqual(closedCircuit(now + 1_000));
    expect(state).toMatchObject({ holding: false, failureStreak: { failures: 0 } });
    expect(state.history).toEqual([
      { at: now + 500, what: "paused", reason: "manual" },
      { at: now + 1_000, what: "resumed" },
    ]);
  });

  it("lets one probe decide if the circuit was open, without waiting for its cool-down", () => {
    const circuit = { kind: "open", since: now, until: now + 45_000, trips: 9 } as const;
    const state = afterResume(
      { ...wide, destinationState: { ...wide.destinationState, circuit } },
      now + 1_000,
    );
    const { grant, state: probing } = lease(state, {}, now + 1_000);
    expect(grant.deliveries).toHaveLength(1);
    const { state: after } = settling(probing, grant, [failed(now + 1_050)], now + 1_100);
    expect(after.destinationState.circuit).toMatchObject({ kind: "open", trips: 1 });
  });
});

describe("clearing a hold", () => {
  const holding = afterHold(wide, now + 86_400_000, now).state;

  it("takes effect at once: traffic restarts from one, and drains are scheduled for waiting deliveries", () => {
    const { state, events } = afterHoldCleared(holding, now + 1_000);
    expect(events).toEqual(["hold_ended"]);
    expect(state.destinationState).toMatchObject({ heldUntil: 0, window: { size: 1 } });
    expect(state.drainSchedule.at).toBe(now + 1_000);
    expect(state.history.at(-1)).toEqual({ at: now + 1_000, what: "hold_cleared" });
    expect(lease(state, {}, now + 1_000).grant.width).toBe(1);
  });

  it("does not change an open circuit, and does nothing without a hold", () => {
    const circuit = { kind: "open", since: now, until: now + 45_000, trips: 1 } as const;
    const open = { ...holding, destinationState: { ...holding.destinationState, circuit } };
    expect(afterHoldCleared(open, now + 1_000).state.destinationState.circuit).toEqual(circuit);
    expect(afterHoldCleared(wide, now)).toEqual({ state: wide, events: [] });
    expect(afterHoldCleared(holding, now + 86_400_000).state).toBe(holding);
  });
});

describe("the result of a settlement", () => {
  const nothing = { state: wide, events: [], alerts: [], digestDue: false } as const;

  it("is empty, unless there is something to do", () => {
    expect(settleResultOf(nothing, now)).toBeUndefined();
    for (const one of [
      { events: ["held"] },
      { alerts: ["recovered"] },
      { digestDue: true },
      { disableReason: "failing" },
      { events: ["held"], alerts: ["recovered"] },
    ] as const)
      expect(settleResultOf({ ...nothing, ...one }, now)).toMatchObject({ ...one, at: now });
  });

  it("has the end of the cool-down and of the hold, if there is one", () => {
    const told = (destinationState: Partial<DestinationState>) =>
      settleResultOf({ ...nothing, state: gate(destinationState), digestDue: true }, now)?.figures;
    const circuit = { kind: "open", since: now, until: now + 7, trips: 2 } as const;
    expect(told({ circuit })).toMatchObject({ circuitUntil: now + 7, trips: 2, heldUntil: null });
    expect(told({ heldUntil: now + 9 })).toMatchObject({ circuitUntil: null, heldUntil: now + 9 });
  });
});

describe("a drain's report that nothing waits", () => {
  it("does not outweigh deliveries reported to the gate since the drain read D1", () => {
    const state = afterEmptyDrain(afterResume(wide, now), now - 1, now + 50);
    expect(state.drainSchedule.waitingSince).not.toBe(0);
    expect(state.drainSchedule.at).not.toBeNull();
  });

  it("does not outweigh a refusal that comes after it, with settings from before the end of a pause", () => {
    const resumed = afterResume(gate(), now);
    const started = { ...resumed, drainSchedule: drainsDue(resumed, now).drainSchedule };
    const drained = afterEmptyDrain(started, now + 500, now + 600);
    const outdated = { ...ask, lookedUpMsAgo: 1_000 };
    const { state, result } = admit(drained, outdated, { ...steady, paused: true }, now + 800);
    expect(result.refused?.reason).toBe("paused");
    expect(state.drainSchedule.at).toBe(now + 5_000);
  });
});

describe("through any history of a gate", () => {
  it("every number is finite and not negative, and the state stays small", () => {
    fc.assert(
      fc.property(historyArbitrary, (history) => {
        for (const { after } of momentsOf(history)) {
          expect(numbersIn(after).filter((n) => !(Number.isFinite(n) && n >= 0))).toEqual([]);
          expect(after.leases.length).toBeLessThanOrEqual(40);
          expect(after.history.length).toBeLessThanOrEqual(20);
          expect(after.rollups.minutes.length).toBeLessThanOrEqual(61);
        }
      }),
      { numRuns: 300 },
    );
  });

  it("the state survives being stored, by structured clone and by JSON", () => {
    fc.assert(
      fc.property(historyArbitrary, (history) => {
        const state = [...momentsOf(history)].at(-1)?.after;
        expect(structuredClone(state)).toEqual(state);
        expect(JSON.parse(JSON.stringify(state))).toStrictEqual(state);
      }),
    );
  });

  it("a gate that is evicted after every step gives the same answers as one that never is", () => {
    fc.assert(
      fc.property(historyArbitrary, ([settings, steps]) => {
        const evicted = steps.flatMap((step) => [step, { do: "evict" } as const]);
        const reported = (moments: Iterable<{ result?: unknown; events?: unknown; step: { do: string } }>) =>
          [...moments]
            .filter(({ step }) => step.do !== "evict")
            .map(({ result, events }) => ({ result, events }));
        expect(reported(momentsOf([settings, evicted]))).toEqual(reported(momentsOf([settings, steps])));
      }),
    );
  });

  it("a settlement that comes twice or too late changes nothing, except that expired leases are gone", () => {
    fc.assert(
      fc.property(historyArbitrary, (history) => {
        for (const { before, after, settled, now } of momentsOf(history)) {
          if (settled !== null) continue;
          // A clock that jumped back may have revived a lease that the gate had not yet removed.
          if (before.leases.length !== after.leases.length && before.leases.every((l) => l.expiresAt > now))
            continue;
          // The reservation of an expired lease counts as sent, and its deliveries count as settled at its end.
          const { crashLoop, settled: ends } = after;
          expect({ ...after, leases: [], tat: 0 }).toEqual({
            ...{ ...before, leases: [], tat: 0, crashLoop },
            settled: ends,
          });
        }
      }),
      { numRuns: 300 },
    );
  });

  it("the circuit opens again for longer each time within its window, and never for longer than its cap", () => {
    fc.assert(
      fc.property(historyArbitrary, (history) => {
        for (const { events, before, after, settings, latest } of momentsOf(history)) {
          const { circuit } = after.destinationState;
          if (!events?.includes("circuit_opened") || circuit.kind !== "open") continue;
          if (before.destinationState.circuit.kind === "half_open")
            expect(circuit.trips).toBe(before.destinationState.circuit.trips + 1);
          expect(circuit.until).toBeLessThanOrEqual(latest + settings.breaker.maxCooldownMs * 1.1);
        }
      }),
    );
  });
});

describe("a lease that succeeds another", () => {
  const slotsIn = ({ leases }: GateState) => leases.reduce((sum, { slots }) => sum + slots, 0);
  const backlog = { lane: "backlog", deliveries: [1, 2, 3, 4, 5, 6] } as const;
  const next = (id: string) => ({ ...backlog, deliveries: [11, 12, 13, 14, 15, 16], succeeds: id });
  const few = { ...steady, maxConcurrency: 6 };

  it("takes over its slots, when no other caller would be admitted", () => {
    const first = lease(wide, backlog, now, few);
    expect(admit(first.state, { ...ask, deliveries: [21] }, few, now).result.grant).toBeNull();
    const second = lease(first.state, next(first.grant.id), now, few);
    expect(second.grant.slots).toBe(6);
    expect(slotsIn(second.state)).toBe(6);
  });

  it("gives them back when it is over first, and then the other still has them", () => {
    const first = lease(wide, backlog, now, few);
    const second = lease(first.state, next(first.grant.id), now, few);
    const { state } = settling(second.state, second.grant, [fine(now)], now + 100, few);
    expect(state.leases.map(({ id, slots }) => [id, slots])).toEqual([[first.grant.id, 6]]);
  });

  it("keeps them when the other is over first, and lasts no shorter than that", () => {
    const first = lease(wide, { ...backlog, startWithinMs: 5_000 }, now, few);
    const second = lease(first.state, { ...next(first.grant.id), startWithinMs: 1 }, now, few);
    const [former, heir] = second.state.leases;
    expect(heir?.expiresAt).toBeGreaterThanOrEqual(former?.expiresAt ?? 0);
    expect(slotsIn(settling(second.state, first.grant, [fine(now)], now + 100, few).state)).toBe(6);
  });

  it("is one like any other when the first has ended meanwhile", () => {
    const first = lease(wide, backlog, now, few);
    const { state } = settling(first.state, first.grant, [fine(now)], now + 100, few);
    const second = lease(state, next(first.grant.id), now + 100, few);
    expect(slotsIn(second.state)).toBe(6);
  });
});

it("forty deliveries for which one version of a transformation makes no request are tolerated", () => {
  const some = afterTransformFaults(gate(), 3, 40);
  expect(some.isOver).toBe(false);
  expect(afterTransformFaults(some.state, 3, 1).isOver).toBe(true);
  expect(afterTransformFaults(some.state, 4, 40).isOver).toBe(false);
});
