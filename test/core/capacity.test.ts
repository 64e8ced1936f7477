import { describe, expect, it } from "vitest";
import { type CapacityRequest, capacityFor } from "../../src/core/capacity.ts";
import type { DestinationState } from "../../src/core/destination-state.ts";
import type { GateState, Side } from "../../src/core/gate-state.ts";
import type { Lease } from "../../src/core/lease.ts";
import { start as now, steady, trusted } from "../support/gate-arbitraries.ts";

const wanted: CapacityRequest = { lane: "fresh", deliveries: 1, connections: 5, startWithinMs: 0 };
const halfOpen = { kind: "half_open", since: now, trips: 1 } as const;

function leaseOf(changes: Partial<Lease> = {}): Lease {
  const expiresAt = now + 20_000;
  return { id: "a", lane: "fresh", slots: 1, width: 1, deliveries: "", tat: 0, expiresAt, ...changes };
}

function gate(changes: Partial<GateState> = {}, destination: Partial<DestinationState> = {}): GateState {
  const state = trusted(10);
  return { ...state, ...changes, destinationState: { ...state.destinationState, ...destination } };
}

/** The backlog was refused since it was served, and live traffic was served after it. */
const backlogsTurn: Record<Side, GateState["turns"][Side]> = {
  live: { askedAt: now, servedAt: now - 100, wantedAt: 0 },
  backlog: { askedAt: now, servedAt: now - 5_000, wantedAt: now - 50 },
};

describe("the circuit's probe", () => {
  it("keeps others out only while the circuit is half open", () => {
    const leases = [leaseOf({ probe: true })];
    const refusal = { reason: "probing", until: now + 20_000 };
    expect(capacityFor(gate({ leases }, { circuit: halfOpen }), wanted, steady, now)).toEqual(refusal);
    expect(capacityFor(gate({ leases }), wanted, steady, now)).toMatchObject({ probe: false, slots: 9 });
  });

  it("does not wait for the rate", () => {
    const spent = gate({ tat: now + 60_000 }, { circuit: halfOpen });
    expect(capacityFor(spent, wanted, steady, now)).toMatchObject({ probe: true, reservation: { sends: 1 } });
  });

  it("waits for the end of earlier attempts, however wide the window was", () => {
    expect(capacityFor(gate({}, { circuit: halfOpen }), wanted, steady, now)).toMatchObject({ probe: true });
    expect(capacityFor(gate({ leases: [leaseOf()] }, { circuit: halfOpen }), wanted, steady, now)).toEqual({
      reason: "concurrency",
      until: now + 20_000,
    });
  });
});

describe("a request", () => {
  it("is refused as long as a hold lasts", () => {
    const held = gate({}, { heldUntil: now + 4_000 });
    expect(capacityFor(held, wanted, steady, now)).toEqual({ reason: "hold", until: now + 4_000 });
    expect(capacityFor(held, wanted, steady, now + 4_000)).toMatchObject({ slots: 10 });
  });

  it("reserves no more sends than its connections can start, nor than the slots it gets", () => {
    const many = { ...wanted, deliveries: 100 };
    const sendsOf = (connections: number, maxConcurrency = 10) =>
      capacityFor(gate({}, { tookMs: 100 }), { ...many, connections }, { ...steady, maxConcurrency }, now);
    expect(sendsOf(2)).toMatchObject({ reservation: { sends: 2 } });
    expect(sendsOf(5, 3)).toMatchObject({ reservation: { sends: 3 } });
  });
});

describe("live traffic", () => {
  it("is left to drains in a crash loop", () => {
    const crashing = gate({ crashLoop: { level: 2, raisedAt: now, settled: 0 } });
    expect(capacityFor(crashing, wanted, steady, now)).toEqual({ reason: "crash_loop", until: now });
    const drain = { ...wanted, lane: "backlog" } as const;
    expect(capacityFor(crashing, drain, steady, now)).toMatchObject({ slots: 10 });
  });

  it("is left to drains if an attempt takes longer than a second, but not if it takes a second", () => {
    expect(capacityFor(gate({}, { tookMs: 1_000 }), wanted, steady, now)).toMatchObject({ slots: 10 });
    const slow = capacityFor(gate({}, { tookMs: 1_001 }), wanted, steady, now);
    expect(slow).toEqual({ reason: "slow", until: now });
    const drain = { ...wanted, lane: "backlog" } as const;
    expect(capacityFor(gate({}, { tookMs: 1_001 }), drain, steady, now)).toMatchObject({ slots: 10 });
  });

  it("is refused the last send that the rate allows now if it is the backlog's turn", () => {
    const state = gate({ turns: backlogsTurn });
    const settings = { ...steady, ratePerSecond: 10, rateBurst: 1 };
    expect(capacityFor(state, wanted, settings, now)).toMatchObject({ reason: "rate" });
    expect(capacityFor(gate(), wanted, settings, now)).toMatchObject({ reservation: { sends: 1 } });
    expect(capacityFor(state, { ...wanted, lane: "backlog" }, settings, now)).toMatchObject({
      reservation: { sends: 1 },
    });
  });

  it("is granted a send at the backlog's turn if the rate allows another one now", () => {
    const settings = { ...steady, ratePerSecond: 10, rateBurst: 2 };
    expect(capacityFor(gate({ turns: backlogsTurn }), wanted, settings, now)).toMatchObject({
      reservation: { sends: 1 },
    });
  });
});

describe("a refusal for concurrency", () => {
  it("ends with the first lease that expires", () => {
    const leases = [
      leaseOf({ slots: 5, expiresAt: now + 9_000 }),
      leaseOf({ slots: 5, expiresAt: now + 7_000 }),
    ];
    const refusal = { reason: "concurrency", until: now + 7_000 };
    expect(capacityFor(gate({ leases }), wanted, steady, now)).toEqual(refusal);
  });

  it("comes when all connections are leased although the window has room, and vice versa", () => {
    const allSlots = [leaseOf({ slots: 10, width: 1 })];
    expect(capacityFor(gate({ leases: allSlots }), wanted, steady, now)).toMatchObject({
      reason: "concurrency",
    });
    const allWidth = [leaseOf({ slots: 1, width: 10 })];
    expect(capacityFor(gate({ leases: allWidth }), wanted, steady, now)).toMatchObject({
      reason: "concurrency",
    });
  });

  it("may end at once if nothing is leased and it is the backlog's turn", () => {
    const settings = { ...steady, maxConcurrency: 1 };
    const refused = capacityFor(gate({ turns: backlogsTurn }), wanted, settings, now);
    expect(refused).toEqual({ reason: "concurrency", until: now });
  });
});
