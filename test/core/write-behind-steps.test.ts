import { describe, expect, it } from "vitest";
import type { Circuit } from "../../src/core/circuit-breaker.ts";
import type { DestinationState } from "../../src/core/destination-state.ts";
import type { DrainSchedule, GateState, Slack } from "../../src/core/gate-state.ts";
import type { Lease } from "../../src/core/lease.ts";
import { countersAfter } from "../../src/core/metrics.ts";
import { packNumbers } from "../../src/core/number-sets.ts";
import type { MetricResult } from "../../src/core/retry/classify.ts";
import {
  afterAlarm,
  afterDecision,
  BEHIND_MS,
  type GateMemory,
  restored,
  SPARSE_BEHIND_MS,
} from "../../src/core/write-behind.ts";
import { metric } from "../support/attempt-metrics.ts";
import { start, trusted } from "../support/gate-arbitraries.ts";

const slack: Slack = {
  slots: 5,
  width: 5,
  grantsUntil: start + BEHIND_MS,
  expiresAt: start + BEHIND_MS + 25_000,
  aheadMs: 300,
};
const drains: DrainSchedule = { waitingSince: 0, at: null, expectedSince: 0, expected: 0 };

function leaseOf(id: string, changes: Partial<Lease> = {}): Lease {
  const numbers = packNumbers([1]);
  return {
    id,
    lane: "fresh",
    slots: 1,
    width: 1,
    deliveries: numbers,
    tat: 0,
    expiresAt: start + 25_000,
    ...changes,
  };
}

/** A gate that live traffic called half a second ago and at `start`, when everything was written. */
function busy(changes: Partial<GateMemory> = {}, state: Partial<GateState> = {}): GateMemory {
  const base = trusted(10);
  const turns = { ...base.turns, live: { askedAt: start, servedAt: start, wantedAt: 0 } };
  return {
    state: { ...base, turns, ...state },
    written: { at: start, leases: new Set(), slack, successes: 0 },
    isBehind: false,
    alarmAt: null,
    askedBefore: start - 500,
    leaseMs: 25_000,
    successes: 0,
    ...changes,
  };
}

function decide(memory: GateMemory, change: Partial<GateState>, now = start) {
  return afterDecision(memory, { ...memory.state, ...change }, now);
}

/** Like `busy`, with something that storage lacks. */
const behind = (changes: Partial<GateMemory> = {}, state: Partial<GateState> = {}) =>
  busy({ isBehind: true, ...changes }, state);

function stateOf(changes: Partial<DestinationState>): DestinationState {
  return { ...trusted(10).destinationState, ...changes };
}

function closed(...failures: readonly number[]): Circuit {
  const slices = failures.map((count, i) => ({ from: start + i, attempts: 10, failures: count }));
  return { kind: "closed", since: start, trips: 0, slices, streak: 0 };
}
const open: Circuit = { kind: "open", since: start, until: start + 30_000, trips: 1 };
const halfOpen: Circuit = { kind: "half_open", since: start, trips: 1 };

describe("a memory that begins", () => {
  it("has nothing to write until something is settled", () => {
    const memory = restored({ ...trusted(10), slack }, start);
    expect(decide(memory, {}).writes).toBe(false);
  });

  it("is one incarnation later than what was stored", () => {
    expect(restored(undefined, start).state.incarnation).toBe(0);
    expect(restored({ ...trusted(10), incarnation: 4 }, start).state.incarnation).toBe(5);
  });

  it("counts each predecessor's slack as a lease of its own on live traffic", () => {
    const first = restored({ ...trusted(10), slack }, start).state;
    const second = restored({ ...first, slack }, start + 1).state;
    const lost = { lost: true, lane: "fresh", slots: 5, width: 5, expiresAt: slack.expiresAt };
    expect(second.leases).toMatchObject([lost, lost]);
    expect(new Set(second.leases.map(({ id }) => id)).size).toBe(2);
  });

  it.each([
    ["up to now, while its predecessor's leases may live", 0, 1_000, start + 1_000],
    ["up to the end of its predecessor's leases", 0, 90_000, slack.expiresAt],
    ["no less than was stored", start + 60_000, 1_000, start + 60_000],
  ])("considers what was read from D1 outdated %s", (_, forgottenAt, ms, expected) => {
    const state = restored({ ...trusted(10), forgottenAt, slack }, start + ms).state;
    expect(state.forgottenAt).toBe(expected);
  });

  it.each([
    ["up to now, while the slack could be granted", 0, 1_000, start + 1_300],
    ["up to the end of the slack's grants", 0, 20_000, start + BEHIND_MS + 300],
    ["no less than was stored", start + 60_000, 1_000, start + 60_000],
  ])("considers the rate's burst spent %s", (_, tat, ms, expected) => {
    expect(restored({ ...trusted(10), tat, slack }, start + ms).state.tat).toBe(expected);
  });
});

describe("an unwritten change", () => {
  it.each<[string, Partial<GateState>]>([
    ["the end of a lease", { settled: [[start, packNumbers([1])]] }],
    [
      "a success that was counted",
      { rollups: { ...trusted(10).rollups, ever: { ...trusted(10).rollups.ever, delivered: 1 } } },
    ],
    [
      "a window that has grown",
      { destinationState: stateOf({ window: { size: 11, threshold: 1_000_000 } }) },
    ],
  ])("is written by an alarm after %s", (_, change) => {
    expect(decide(busy(), change)).toMatchObject({ writes: false, alarm: start + BEHIND_MS });
  });

  it("stays unwritten after a decision that changes nothing", () => {
    expect(decide(behind(), {})).toMatchObject({ writes: false, alarm: start + BEHIND_MS });
  });

  const alone = { askedBefore: 0 };
  it.each<[string, Partial<GateMemory>, number]>([
    ["when it comes alone, because an alarm costs as much", alone, 0],
    ["when the alarm would come too late", { ...alone, alarmAt: start + BEHIND_MS + 1 }, 3_000],
    ["when the alarm is due", { ...alone, alarmAt: start + 3_000 }, 3_000],
    ["when the alarm was lost", { ...alone, alarmAt: start + 2_000 }, 3_000],
    ["in busy traffic when ten seconds are over", {}, BEHIND_MS],
    ["in busy traffic when the clock was set back behind the last write", {}, -1],
    ["in busy traffic when this incarnation has not written yet", { written: null }, 0],
  ])("is written at once %s", (_, changes, ms) => {
    expect(isWritten(changes, ms)).toBe(true);
  });

  it.each<[string, Partial<GateMemory>, number]>([
    ["for an alarm that comes in time", { ...alone, alarmAt: start + BEHIND_MS }, 3_000],
    ["in busy traffic", {}, 0],
    ["in busy traffic until ten seconds are over", {}, BEHIND_MS - 1],
  ])("waits %s", (_, changes, ms) => {
    expect(isWritten(changes, ms)).toBe(false);
  });

  /** Whether it is written so long after the last write, in traffic that has not ceased unless it came alone. */
  function isWritten(changes: Partial<GateMemory>, ms: number): boolean {
    const now = start + ms;
    const { turns } = busy().state;
    const recent = { turns: { ...turns, live: { ...turns.live, askedAt: now } } };
    return decide(behind({ askedBefore: now - 1_000, ...changes }, recent), {}, now).writes;
  }
});

describe("the alarm", () => {
  const due = (ms: number) => ({ ...drains, at: start + ms });
  const settled = { settled: [[start, packNumbers([1])]] } as const;

  it("is moved forward if drains are due later than a write", () => {
    const memory = busy({ alarmAt: start + 60_000 }, { drainSchedule: due(60_000) });
    expect(decide(memory, settled).alarm).toBe(start + BEHIND_MS);
  });

  it("is moved forward if drains are due before a write", () => {
    const memory = behind({ alarmAt: start + BEHIND_MS });
    expect(decide(memory, { drainSchedule: due(5_000) }).alarm).toBe(start + 5_000);
  });

  it("is set again if it is already due, because it may have been lost", () => {
    const memory = busy({ alarmAt: start }, { drainSchedule: due(60_000) });
    expect(decide(memory, {}).alarm).toBe(start + 60_000);
  });

  it("also serves a write if drains are due before it", () => {
    const memory = busy({ alarmAt: start + 5_000 }, { drainSchedule: due(5_000) });
    expect(decide(memory, settled)).not.toHaveProperty("alarm");
  });

  it("stays where it was set for a write, however drains move, and is then set for the drains", () => {
    const memory = behind({ alarmAt: start + BEHIND_MS }, { drainSchedule: due(60_000) });
    const step = decide(memory, { drainSchedule: due(120_000) });
    expect(step.writes).toBe(true);
    expect(step).not.toHaveProperty("alarm");
    expect(afterAlarm(step.memory, start + BEHIND_MS).alarm).toBe(start + 120_000);
  });

  it("is left alone when nothing needs it, which costs less than deleting it", () => {
    const step = decide(behind({ alarmAt: start + BEHIND_MS }), { testedAt: start });
    expect(step.writes).toBe(true);
    expect(step).not.toHaveProperty("alarm");
  });

  it("is deleted and postponed with the drains for which it was set", () => {
    const memory = busy({ alarmAt: start + 60_000 }, { drainSchedule: due(60_000) });
    expect(decide(memory, { drainSchedule: drains }).alarm).toBeNull();
    expect(decide(memory, { drainSchedule: due(120_000) }).alarm).toBe(start + 120_000);
  });

  it("is not set again for overdue drains: the drain scheduler judges whether they are lost", () => {
    const memory = busy({ alarmAt: start - 1_000 }, { drainSchedule: due(-1_000) });
    expect(decide(memory, {})).not.toHaveProperty("alarm");
    expect(decide(memory, { drainSchedule: due(0) }).alarm).toBe(start);
  });
});

describe("an alarm that goes off", () => {
  const waiting = { ...drains, waitingSince: start - 60_000 };

  it("enqueues no drains if none are scheduled, and writes nothing", () => {
    const step = afterAlarm(busy({ alarmAt: start }, { drainSchedule: waiting }), start);
    expect(step).toMatchObject({ drains: 0, drainsAtWork: 0, writes: false });
    expect(step.memory.state.drainSchedule).toEqual(waiting);
  });

  it("writes unwritten changes, even if no drains are due", () => {
    const step = afterAlarm(behind({ alarmAt: start + BEHIND_MS }), start + BEHIND_MS);
    expect(step).toMatchObject({ drains: 0, writes: true, memory: { isBehind: false, alarmAt: null } });
  });

  it("enqueues the drains that are due now, and stores that they are expected", () => {
    const memory = busy({ alarmAt: start }, { drainSchedule: { ...waiting, at: start } });
    const step = afterAlarm(memory, start);
    expect(step).toMatchObject({ drains: 2, drainsAtWork: 2, writes: true });
    expect(step.memory.state.drainSchedule).toMatchObject({ expected: 2, expectedSince: start });
    expect(step.alarm).toBe(step.memory.state.drainSchedule.at);
  });

  it("is only set again if the drains are due later", () => {
    const memory = busy({ alarmAt: start }, { drainSchedule: { ...waiting, at: start + 1 } });
    expect(afterAlarm(memory, start)).toMatchObject({ drains: 0, writes: false, alarm: start + 1 });
  });

  it("postpones drains to the end of the destination's block", () => {
    const drainSchedule = { ...waiting, at: start + 1 };
    const destinationState = stateOf({ heldUntil: start + 90_000 });
    const step = afterAlarm(busy({ alarmAt: start }, { drainSchedule, destinationState }), start);
    expect(step).toMatchObject({ drains: 0, writes: true, alarm: start + 90_000 });
    expect(step.memory.state.drainSchedule.at).toBe(start + 90_000);
  });
});

describe("the written slack", () => {
  /** A change that must be written. */
  const change = { testedAt: start };
  const written = (memory: GateMemory, now = start) => decide(memory, change, now).memory.written?.slack;
  const { turns } = busy().state;
  const askedAt = (ms: number) => ({ turns: { ...turns, live: { ...turns.live, askedAt: start - ms } } });

  it("is half of the limit and of the window, for leases like the last", () => {
    expect(written(busy())).toMatchObject({ slots: 5, width: 5, expiresAt: start + BEHIND_MS + 25_000 });
  });

  it.each<[string, GateMemory]>([
    ["less than ten seconds after the last request but one", busy({ askedBefore: start - 9_999 })],
    ["less than five seconds after the last request", busy({}, askedAt(4_999))],
    ["at one send a second", busy({}, { rate: { perSecond: 1, burst: 1 } })],
  ])("exists %s", (_, memory) => {
    expect(written(memory)).toMatchObject({ slots: 5 });
  });

  it.each<[string, GateMemory]>([
    ["ten seconds after the last request but one", busy({ askedBefore: start - BEHIND_MS })],
    ["five seconds after the last request", busy({}, askedAt(5_000))],
    ["while no lease of live traffic is known", busy({ leaseMs: 0 })],
    ["below one send a second", busy({}, { rate: { perSecond: 0.99, burst: 1 } })],
  ])("does not exist %s", (_, memory) => {
    expect(written(memory)).toBeNull();
  });

  it.each([
    [4, 1, { slots: 1, width: 4 }],
    [1, 4, { slots: 4, width: 1 }],
    [5, 1, null],
    [1, 5, null],
  ])("is what predecessors with up to %i slots and a width of %i leave", (slots, width, left) => {
    const leases = [leaseOf("lost-1", { slots, width, deliveries: "", lost: true }), leaseOf("a")];
    const own = written(busy({}, { leases }));
    if (left) expect(own).toMatchObject(left);
    else expect(own).toBeNull();
  });

  it("exists from the second request on that comes within ten seconds", () => {
    const memory = busy({ askedBefore: 0 });
    const again = { turns: { ...turns, live: { ...turns.live, askedAt: start + 1_000 } } };
    expect(written(memory)).toBeNull();
    expect(decide(memory, { ...again, testedAt: start }, start + 1_000).memory.written?.slack).not.toBeNull();
  });

  it.each([
    ["a burst", 10, 5, 500],
    ["ten seconds, where a burst takes longer", 1, 20, BEHIND_MS],
  ])("reserves the rate as far ahead as %s", (_, perSecond, burst, aheadMs) => {
    expect(written(busy({}, { rate: { perSecond, burst } }))?.aheadMs).toBe(aheadMs);
  });

  it("lasts as long as the last lease of live traffic, whatever drains were granted or leases ended since", () => {
    const granted = decide(busy(), {
      granted: 1,
      leases: [leaseOf("a", { expiresAt: start + 20_000 })],
    }).memory;
    expect(written(granted)?.expiresAt).toBe(start + BEHIND_MS + 20_000);
    const backlog = leaseOf("b", { lane: "backlog", expiresAt: start + 60_000 });
    const drained = decide(granted, { granted: 2, leases: [...granted.state.leases, backlog] }).memory;
    expect(drained.written?.slack?.expiresAt).toBe(start + BEHIND_MS + 20_000);
    const later = decide(granted, { settled: [[start, packNumbers([2])]] }, start + 1_000).memory;
    expect(written(later, start + 1_000)?.expiresAt).toBe(start + 1_000 + BEHIND_MS + 20_000);
  });

  const grant = (lease: Partial<Lease>, ms = 0, memory = busy()) =>
    decide(memory, { granted: 1, leases: [...memory.state.leases, leaseOf("a", lease)] }, start + ms).writes;

  it.each<[string, Partial<Lease>, number]>([
    ["that expires with it", { expiresAt: slack.expiresAt }, 0],
    ["of all of it", { slots: 5, width: 5 }, 0],
    ["that reserves the rate as far ahead as it may", { tat: start + 300 }, 0],
    ["at its last millisecond", {}, BEHIND_MS - 1],
  ])("suffices for a lease %s", (_, lease, ms) => {
    expect(grant(lease, ms)).toBe(false);
  });

  it.each<[string, Partial<Lease>, number]>([
    ["that expires later", { expiresAt: slack.expiresAt + 1 }, 0],
    ["of more slots", { slots: 6 }, 0],
    ["of more width", { width: 6 }, 0],
    ["that reserves the rate further ahead", { tat: start + 301 }, 0],
    ["of a drain", { lane: "backlog" }, 0],
    ["after ten seconds", {}, BEHIND_MS],
    ["before it was written, by a clock that was set back", {}, -1],
  ])("does not suffice for a lease %s", (_, lease, ms) => {
    expect(grant(lease, ms)).toBe(true);
  });

  it("is used by unstored leases only", () => {
    const stored = { at: start, leases: new Set(["stored"]), slack, successes: 0 };
    const beside = (id: string) =>
      busy({ written: stored }, { leases: [leaseOf(id, { slots: 5, width: 5 })] });
    expect(grant({}, 0, beside("stored"))).toBe(false);
    expect(grant({}, 0, beside("unstored"))).toBe(true);
    const none = { at: start, leases: new Set<string>(), slack: null, successes: 0 };
    expect(grant({}, 0, busy({ written: none }))).toBe(true);
  });
});

describe("the slack of sparse traffic", () => {
  const askedBefore = start - 1_000;
  const written = (memory: GateMemory) => decide(memory, { testedAt: start }).memory.written?.slack;
  const long = { grantsUntil: start + SPARSE_BEHIND_MS, expiresAt: start + SPARSE_BEHIND_MS + 25_000 };
  const short = { grantsUntil: start + BEHIND_MS };

  it("lasts thirty seconds where requests are a second apart", () => {
    expect(written(busy({ askedBefore }))).toMatchObject(long);
    expect(written(busy({ askedBefore: askedBefore + 1 }))).toMatchObject(short);
  });

  it.each([
    ["a slot and a width are left beside it and all leases", 4, 4, long],
    ["no slot is left", 5, 1, short],
    ["no width is left", 1, 5, short],
  ])("lasts as long as it should if %s", (_, slots, width, expected) => {
    const leases = [leaseOf("a", { slots, width })];
    expect(written(busy({ askedBefore }, { leases }))).toMatchObject(expected);
  });

  it("counts no lease that has expired", () => {
    const leases = [leaseOf("a", { slots: 9, width: 9, expiresAt: start })];
    expect(written(busy({ askedBefore }, { leases }))).toMatchObject(long);
  });

  const sparse = { at: start, leases: new Set<string>(), slack: { ...slack, ...long } };
  /** The step of one success more, when so many were stored and so many were not. */
  function success(stored: number, unstored: number, ms = 4_000, grantsUntil = long.grantsUntil) {
    const written = { ...sparse, slack: { ...sparse.slack, grantsUntil }, successes: stored };
    const memory = busy({ written, successes: stored + unstored, askedBefore, alarmAt: null });
    const { ever } = memory.state.rollups;
    const counted = { ...memory.state.rollups, ever: { ...ever, delivered: ever.delivered + 1 } };
    return decide(memory, { rollups: counted }, start + ms);
  }

  it.each([
    [9, 9, true],
    [9, 8, false],
    [10, 9, false],
    [100, 9, false],
    [100, 10, true],
    [0, 0, true],
    [1, 0, false],
  ])("with %i successes stored and %i not, another one sets the alarm: %s", (stored, unstored, sets) => {
    const step = success(stored, unstored);
    expect(step.writes).toBe(false);
    expect(step.alarm).toBe(sets ? start + BEHIND_MS : undefined);
    expect(step.memory.isBehind).toBe(true);
  });

  it("lets few successes wait until it ends, and only a few for longer than ten seconds", () => {
    expect(success(100, 9, SPARSE_BEHIND_MS - 1).writes).toBe(false);
    expect(success(100, 9, SPARSE_BEHIND_MS).writes).toBe(true);
    expect(success(100, 9, -1).writes).toBe(true);
    expect(success(100, 10, BEHIND_MS).writes).toBe(true);
  });

  it("is what lets them wait without an alarm", () => {
    expect(success(100, 9, 4_000, start + BEHIND_MS).alarm).toBe(start + BEHIND_MS);
  });

  it("is counted from the next write", () => {
    const { memory } = decide(success(100, 5).memory, { testedAt: start }, start + 5_000);
    expect(memory).toMatchObject({ successes: 106, isBehind: false, written: { successes: 106 } });
  });
});

const { turns, rollups } = busy().state;
const troubled = { size: 1, threshold: 8, troubled: true };
const calm = { size: 1, threshold: 8 };
/** A decision's change: the destination's state before, and after. */
type Change = readonly [Partial<DestinationState>, Partial<DestinationState>];

/** With one attempt more of this result. */
function counted(result: MetricResult): GateState["rollups"] {
  const ever = countersAfter(rollups.ever, [metric({ result, end: "again" })]);
  return { ...rollups, ever };
}

function writesFor([before, after]: Change): boolean {
  const memory = busy({}, { destinationState: stateOf(before) });
  return decide(memory, { destinationState: stateOf({ ...before, ...after }) }).writes;
}

describe("a change that is written at once", () => {
  it.each<[string, Partial<GateState>]>([
    ["a refusal of live traffic", { turns: { ...turns, live: { ...turns.live, wantedAt: start } } }],
    ["a refusal of a drain", { turns: { ...turns, backlog: { ...turns.backlog, wantedAt: start } } }],
    ["an event of the history", { history: [{ at: start, what: "held" }] }],
    ["an attempt that was refused", { rollups: counted("4xx") }],
    ["a dead delivery", { rollups: { ...rollups, ever: { ...rollups.ever, dead: 1 } } }],
  ])("is %s", (_, change) => {
    expect(decide(busy(), change).writes).toBe(true);
  });

  it.each<[string, Change]>([
    ["a hold", [{}, { heldUntil: start + 1_000 }]],
    ["a rate that a 429 has taught", [{}, { adaptiveLimit: { perSecond: 5, loweredAt: start } }]],
    ["the first failure at a window of one", [{ window: calm }, { window: troubled }]],
    ["a smaller window", [{ window: { ...calm, size: 4 } }, { window: { ...calm, size: 3 } }]],
    ["another end of slow start", [{ window: calm }, { window: { ...calm, threshold: 4 } }]],
    ["a circuit that opens", [{ circuit: closed() }, { circuit: open }]],
    ["a circuit that half opens", [{ circuit: open }, { circuit: halfOpen }]],
    ["a circuit that closes", [{ circuit: halfOpen }, { circuit: closed() }]],
    ["a failure beside older ones", [{ circuit: closed(2, 0) }, { circuit: closed(2, 1) }]],
    ["the first failure of a closed circuit", [{ circuit: closed() }, { circuit: closed(1) }]],
  ])("is %s", (_, change) => {
    expect(writesFor(change)).toBe(true);
  });
});

describe("a change that waits", () => {
  it("is a request", () => {
    const asked = { turns: { ...turns, live: { ...turns.live, askedAt: start + 1 } } };
    expect(decide(busy(), asked).writes).toBe(false);
  });

  it("is a success", () => {
    expect(decide(busy(), { rollups: counted("2xx") }).writes).toBe(false);
  });

  it.each<[string, Change]>([
    ["an attempt's duration while a window is in trouble", [{ window: troubled }, { tookMs: 5 }]],
    ["a window's recovery", [{ window: troubled }, { window: calm }]],
    [
      "an attempt's duration while a circuit is open",
      [{ circuit: open }, { circuit: { ...open }, tookMs: 5 }],
    ],
    ["a success after older failures", [{ circuit: closed(2) }, { circuit: closed(2, 0) }]],
    ["the age of failures that no longer count", [{ circuit: closed(2, 1) }, { circuit: closed(2) }]],
  ])("is %s", (_, change) => {
    expect(writesFor(change)).toBe(false);
  });
});
