import { describe, expect, it } from "vitest";
import { type AdmitRequest, admit } from "../../src/core/admit.ts";
import type { AttemptSignal } from "../../src/core/destination-state.ts";
import type { Lease } from "../../src/core/lease.ts";
import { endsOnlyLone, withDeaths } from "../../src/core/lone-lease.ts";
import { packNumbers } from "../../src/core/number-sets.ts";
import { scheduleDrain, settle } from "../../src/core/settle.ts";
import { afterDecision, type GateMemory, restored } from "../../src/core/write-behind.ts";
import { start, steady, trusted } from "../support/gate-arbitraries.ts";

const fine: AttemptSignal = { at: start, health: "healthy", backsOff: false, tookMs: 5 };
const failed: AttemptSignal = { at: start, health: "unhealthy", backsOff: true };
/** How long a lease lives. */
const LEASE_MS = 30_000;

/** One object, which is evicted after each call unless `stays`. */
function quietGate(maxConcurrency = 10, stored = trusted(maxConcurrency)) {
  const settings = { ...steady, maxConcurrency };
  let text = JSON.stringify(stored);
  let memory: GateMemory | undefined;
  let rows = 0;
  const load = (now: number) => (memory ??= restored(JSON.parse(text), now));
  const call = <T extends Readonly<{ state: GateMemory["state"] }>>(decision: T, now: number): T => {
    const step = afterDecision(load(now), decision.state, now);
    rows += (step.writes ? 1 : 0) + (step.alarm === undefined ? 0 : 1);
    if (step.writes) text = JSON.stringify(step.memory.state);
    ({ memory } = step);
    return decision;
  };
  return {
    rows: () => rows,
    evict: () => {
      memory = undefined;
    },
    state: (now: number) => load(now).state,
    call,
    admit: (deliveries: readonly number[], now: number, more: Partial<AdmitRequest> = {}) => {
      const times = { connections: 5, startWithinMs: 5_000, lookedUpMsAgo: 5 };
      const request = { lane: "fresh", deliveries, ...times, ...more } as const;
      return call(admit(load(now).state, request, settings, now), now).result;
    },
    settle: (lease: string | undefined, signals: readonly AttemptSignal[], now: number, left = 0) =>
      call(settle(load(now).state, { lease: lease ?? "", signals, left }, settings, now, 0), now),
  };
}

type Gate = ReturnType<typeof quietGate>;

/** Delivered, with only its lease in storage, and the object evicted. */
function deliveredAlone(gate: Gate, delivery = 1, now = start): void {
  gate.settle(gate.admit([delivery], now).grant?.id, [fine], now + 50);
  gate.evict();
}

describe("the end of a lone lease", () => {
  it("is written unless it is a success, and nothing else", () => {
    const ends: readonly [readonly AttemptSignal[], number, number][] = [
      [[fine], 0, 0],
      [[failed], 0, 1],
      [[], 0, 1],
      [[], 1, 2],
      [[{ ...fine, health: "throttled", backsOff: true }], 0, 1],
      [[{ ...fine, holdUntil: start + 60_000 }], 0, 1],
      [[{ ...fine, remaining: 2 }], 0, 1],
    ];
    for (const [signals, left, rows] of ends) {
      const gate = quietGate();
      const { grant } = gate.admit([1], start);
      gate.settle(grant?.id, signals, start + 50, left);
      expect(gate.rows() - 1).toBe(rows);
    }
  });

  it.each<[string, (gate: Gate) => unknown, Partial<AdmitRequest>?]>([
    ["of several deliveries", (gate) => gate.admit([1, 2], start)],
    ["of a retry", (gate) => gate.admit([1], start, { lane: "retry" })],
    ["of a drain", (gate) => gate.admit([1], start, { lane: "backlog", lookedUpMsAgo: 0 })],
  ])("is none %s", (_, grant) => {
    const gate = quietGate();
    grant(gate);
    const [lease] = gate.state(start).leases;
    const before = gate.rows();
    gate.settle(lease?.id, [fine], start + 50);
    expect(gate.rows()).toBeGreaterThan(before);
  });

  it("is written while deliveries wait, and while leases are lost", () => {
    const waiting = quietGate(10, scheduleDrain(trusted(10), start));
    const broken = quietGate(10, { ...trusted(10), crashLoop: { level: 1, raisedAt: 0, settled: 0 } });
    for (const gate of [waiting, broken]) {
      const { grant } = gate.admit([1], start);
      const before = gate.rows();
      gate.settle(grant?.id, [fine], start + 50);
      expect(gate.rows()).toBe(before + 1);
    }
  });

  it("leaves the next lease a slot, whatever the limit", () => {
    for (const limit of [1, 2, 3, 5]) {
      const gate = quietGate(limit);
      for (let i = 0; i < 8; i++) {
        expect(gate.admit([i], start + 10_000 * i).grant).not.toBeNull();
        const [lease] = gate.state(start).leases.slice(-1);
        gate.settle(lease?.id, [fine], start + 10_000 * i + 50);
        gate.evict();
      }
    }
  });
});

describe("an end that no incarnation needs to know", () => {
  const base = trusted(4);
  const own: Lease = {
    ...{ id: "a", lane: "fresh", slots: 1, width: 1, deliveries: packNumbers([1]), lone: start, tat: 0 },
    expiresAt: start + LEASE_MS,
  };
  const other: Lease = { ...own, id: "b", deliveries: packNumbers([2]) };
  const window = { size: 3, threshold: 1_000_000 };
  const state = { ...base, leases: [own, other], destinationState: { ...base.destinationState, window } };
  const ended = { ...state, leases: [other], destinationState: { ...state.destinationState, tookMs: 7 } };

  it.each<[string, boolean, Partial<typeof state>, Partial<typeof state>]>([
    ["is a success, with a slot and a width left", true, {}, {}],
    ["is none without a slot left", false, { leases: [own, { ...other, slots: 3 }] }, {}],
    ["is one with the last slot left", true, { leases: [own, { ...other, slots: 2 }] }, {}],
    ["is none without a width left", false, { leases: [own, { ...other, width: 2 }] }, {}],
    ["is none that came with another's", false, {}, { presumed: [{ deliveries: "", expiresAt: start }] }],
    ["is none with a lease lost", false, {}, { crashLoop: { level: 1, raisedAt: start, settled: 0 } }],
    ["is none without an attempt", false, {}, { destinationState: state.destinationState }],
    ["is none while nothing has ended", false, {}, { leases: [own, other] }],
  ])("%s", (_, expected, before, after) => {
    expect(endsOnlyLone({ ...state, ...before }, { ...ended, ...after })).toBe(expected);
  });
});

describe("a request for a delivery that is still open", () => {
  const lease = { deliveries: packNumbers([1, 2]), expiresAt: start };
  const request = (lookedUpMsAgo: number) => ({ lane: "fresh", deliveries: [2], lookedUpMsAgo }) as const;

  it("proves the death of its invocation once, from the end of its lease on", () => {
    const state = { ...trusted(10), presumed: [lease, { ...lease, deliveries: packNumbers([3]) }] };
    expect(withDeaths(state, request(1), start)).toBe(state);
    const after = withDeaths(state, request(0), start);
    expect(after).toMatchObject({ presumed: [{ deliveries: packNumbers([3]) }], crashLoop: { level: 1 } });
    expect(withDeaths(after, request(0), start + 60_000)).toBe(after);
  });
});

it("slack of several predecessors is no lease that is presumed to have ended", () => {
  const gate = quietGate();
  for (const i of [0, 1]) gate.admit([i], start + i);
  gate.evict();
  gate.admit([2], start + 2);
  gate.evict();
  expect(gate.state(start + 3).leases.filter(({ lost }) => lost)).toHaveLength(1);
  gate.admit([9], start + 80_000);
  expect(gate.state(start).presumed).toHaveLength(3);
});

it("a drain's lease that has expired is no reason to write", () => {
  const gate = quietGate();
  gate.admit([7], start, { lane: "backlog", lookedUpMsAgo: 0 });
  for (const i of [1, 2]) gate.admit([i], start + LEASE_MS - 100 * i);
  const before = gate.rows();
  gate.admit([3], start + LEASE_MS);
  expect(gate.state(start).crashLoop.level).toBe(1);
  expect(gate.rows()).toBe(before);
});

describe("a new incarnation", () => {
  it("counts a lone lease that has expired as a success, once, at the time when it was granted", () => {
    const gate = quietGate(10, {
      ...trusted(10),
      destinationState: { ...trusted(10).destinationState, window: { size: 3, threshold: 1_000_000 } },
    });
    deliveredAlone(gate);
    for (const at of [3_600_000, 3_605_000]) gate.admit([at], start + at);
    const { destinationState, rollups, crashLoop } = gate.state(start);
    expect(destinationState.window.size).toBe(4);
    expect(rollups.ever.delivered).toBe(1);
    expect(rollups.minutes.map(({ from }) => from)).toEqual([start]);
    expect(crashLoop.level).toBe(0);
  });

  it("counts it only in the figures if the destination is in trouble", () => {
    const stored = trusted(10);
    const gate = quietGate();
    deliveredAlone(gate);
    const lease = gate.state(start).leases;
    const circuit = { kind: "open", since: start, until: start + 90_000, trips: 1 } as const;
    const open = quietGate(10, {
      ...stored,
      leases: lease,
      incarnation: 9,
      destinationState: { ...stored.destinationState, circuit },
    });
    open.settle("unknown", [], start + LEASE_MS);
    expect(open.state(start)).toMatchObject({
      destinationState: { circuit },
      rollups: { ever: { delivered: 1 } },
    });
  });

  it("counts a lone lease as lost when its message comes again, also after others have come", () => {
    for (const others of [0, 1, 3]) {
      const gate = quietGate();
      gate.admit([1], start);
      gate.evict();
      for (let i = 0; i < others; i++) deliveredAlone(gate, 100 + i, start + LEASE_MS + 11_000 * i);
      const now = start + LEASE_MS + 1_000 + 11_000 * others;
      const before = gate.state(now).rollups.ever.delivered;
      expect(gate.admit([2, 1], now).grant?.deliveries).toEqual([2, 1]);
      expect(gate.state(now).crashLoop.level).toBe(1);
      if (others === 0) expect(gate.state(now).rollups.ever.delivered).toBe(before);
    }
  });

  it.each<[string, Partial<AdmitRequest>, number]>([
    ["whoever requests it has read it before the lease's end", { lookedUpMsAgo: 2_000 }, 1_000],
    ["a drain requests it, because it may have been requeued", { lane: "backlog", lookedUpMsAgo: 0 }, 1_000],
  ])("does not count it as lost when %s", (_, more, after) => {
    const gate = quietGate();
    deliveredAlone(gate);
    gate.admit([1], start + LEASE_MS + after, more);
    expect(gate.state(start).crashLoop.level).toBe(0);
  });

  it("settles a lone lease of its predecessor that still lives, without a write", () => {
    const gate = quietGate();
    const { grant } = gate.admit([1], start);
    gate.evict();
    gate.settle(grant?.id, [fine], start + 20_000);
    expect(gate.rows()).toBe(1);
    expect(gate.state(start).leases).toEqual([]);
  });
});

describe("a former incarnation's lease of several deliveries or of a retry", () => {
  const leases: readonly [readonly number[], AdmitRequest["lane"]][] = [
    [[1, 2], "fresh"],
    [[1], "retry"],
  ];

  it("is no crash when it expires, whether its end was written or not", () => {
    for (const [deliveries, lane] of leases) {
      const gate = quietGate();
      gate.admit([9], start);
      const { grant } = gate.admit(deliveries, start + 500, { lane });
      const before = gate.rows();
      gate.settle(grant?.id, [fine, fine].slice(0, deliveries.length), start + 550);
      expect(gate.rows()).toBe(before + 1); // The alarm, which an eviction makes useless.
      gate.evict();
      gate.admit([10], start + 80_000);
      expect(gate.state(start).crashLoop.level).toBe(0);
    }
  });

  it("is lost when its message comes again, still open", () => {
    for (const [deliveries, lane] of leases) {
      const gate = quietGate();
      gate.admit(deliveries, start, { lane });
      gate.evict();
      gate.admit([1], start + LEASE_MS + 1_000, { lane });
      expect(gate.state(start).crashLoop.level).toBe(1);
    }
  });

  it("is not forgotten by an incarnation that begins beside slack after its end", () => {
    const gate = quietGate();
    gate.admit([1], start);
    gate.admit([2], start + 5_000);
    gate.evict();
    gate.admit([1], start + LEASE_MS + 1_000, { lookedUpMsAgo: 0 });
    expect(gate.state(start).crashLoop.level).toBe(1);
  });
});

describe("the end of a drain's lease", () => {
  const backlog = { lane: "backlog", lookedUpMsAgo: 0 } as const;

  it("is written at once, so that the next incarnation does not take an ended drain for a dead one", () => {
    const gate = quietGate();
    gate.admit([8], start);
    gate.admit([9], start + 1_000);
    const { grant } = gate.admit([1], start + 1_010, backlog);
    gate.settle(grant?.id, [fine], start + 1_050);
    gate.evict();
    gate.admit([10], start + 80_000);
    expect(gate.state(start).crashLoop.level).toBe(0);
  });

  it("stays unwritten while another lease of the drain succeeds it, which is lost if the drain dies", () => {
    for (const isDead of [true, false]) {
      const gate = quietGate();
      gate.admit([8], start);
      gate.admit([9], start + 10);
      const { grant } = gate.admit([1], start + 20, backlog);
      const heir = gate.admit([2], start + 500, { ...backlog, succeeds: grant?.id ?? "" }).grant;
      gate.settle(grant?.id, [fine], start + 600);
      if (!isDead) gate.settle(heir?.id, [fine], start + 700);
      gate.evict();
      expect(gate.state(start + 800).leases.some(({ id }) => id === grant?.id)).toBe(isDead);
      gate.admit([3], start + 80_000);
      expect(gate.state(start).crashLoop.level).toBe(isDead ? 1 : 0);
    }
  });
});

it("an incarnation counts its own lone leases that expire as lost", () => {
  const gate = quietGate();
  gate.admit([1], start);
  gate.admit([2], start + LEASE_MS);
  expect(gate.state(start).crashLoop.level).toBe(1);
});
