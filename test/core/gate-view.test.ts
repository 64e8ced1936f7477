import { describe, expect, it } from "vitest";
import { admit } from "../../src/core/admit.ts";
import { newGateState } from "../../src/core/gate-state.ts";
import { figuresOf, viewOf } from "../../src/core/gate-view.ts";
import type { GateSettings } from "../../src/core/limits.ts";
import { rollupsAfter, windows } from "../../src/core/rollups.ts";
import { settle } from "../../src/core/settle.ts";
import { restored } from "../../src/core/write-behind.ts";
import { metric } from "../support/attempt-metrics.ts";

const NOW = 1_000_000_000_000;
const settings: GateSettings = {
  paused: false,
  maxConcurrency: 10,
  ratePerSecond: 10,
  rateBurst: 5,
  timeoutMs: 1_000,
  breaker: { failureRatio: 0.5, minAttempts: 2, windowMs: 60_000, cooldownMs: 30_000, maxCooldownMs: 60_000 },
};
const ask = { lane: "fresh", deliveries: [1, 2, 3], connections: 6, startWithinMs: 0 } as const;

describe("the view of a gate", () => {
  it("of a new gate is a closed circuit, one at a time, and all the burst", () => {
    expect(viewOf(newGateState(NOW), settings, NOW)).toMatchObject({
      circuit: "closed",
      circuitUntil: null,
      heldUntil: null,
      window: 1,
      inFlight: 0,
      rateTokens: 5,
      refusal: null,
      history: [],
    });
  });

  it("shows connections under lease, and the tokens that they took", () => {
    const { state } = admit(newGateState(NOW), ask, settings, NOW);
    expect(viewOf(state, settings, NOW)).toMatchObject({ inFlight: 3, rateTokens: 2 });
    expect(viewOf(state, settings, NOW + 100).rateTokens).toBe(3);
  });

  it("does not show slack assumed for a predecessor as in flight, although it counts against the limit", () => {
    const alone = { ...ask, deliveries: [1] };
    const { state } = admit(newGateState(NOW), alone, settings, NOW);
    expect(viewOf(state, settings, NOW).inFlight).toBe(1);
    const slack = { slots: 4, width: 1, grantsUntil: NOW, expiresAt: NOW + 30_000, aheadMs: 0 };
    const { state: woken } = restored({ ...state, slack }, NOW + 20);
    expect(woken.leases.reduce((sum, { slots }) => sum + slots, 0)).toBe(5);
    expect(viewOf(woken, settings, NOW + 20).inFlight).toBe(0);
    const more = admit(newGateState(NOW), ask, settings, NOW);
    expect(viewOf(restored(more.state, NOW + 20).state, settings, NOW + 20).inFlight).toBe(3);
  });

  it("says why the gate is blocked and until when, and has its history", () => {
    const { state, result } = admit(newGateState(NOW), ask, settings, NOW);
    const signal = {
      at: NOW,
      health: "unhealthy",
      backsOff: true,
      metric: metric({ attempt: 2, result: "5xx", end: "again" }),
    } as const;
    const settlement = { lease: result.grant?.id ?? "", signals: [signal, signal], left: 1, unsent: 1 };
    const settled = settle(state, settlement, settings, NOW, 0).state;
    expect(viewOf(settled, settings, NOW)).toMatchObject({
      circuit: "open",
      circuitUntil: NOW + 30_000,
      trips: 1,
      refusal: { reason: "circuit_open", until: NOW + 30_000 },
      traffic: { first: 0, retries: 2, failures: 2 },
      history: [{ at: NOW, what: "circuit_opened" }],
    });
    expect(viewOf(settled, settings, NOW + 30_000).circuit).toBe("half_open");
  });

  it("shows a hold until its end", () => {
    const state = newGateState(NOW);
    const held = { ...state, destinationState: { ...state.destinationState, heldUntil: NOW + 5_000 } };
    expect(viewOf(held, settings, NOW + 4_999).heldUntil).toBe(NOW + 5_000);
    expect(viewOf(held, settings, NOW + 5_000).heldUntil).toBeNull();
  });

  it("says why the backlog is refused, and not live traffic", () => {
    const state = newGateState(NOW);
    const slow = { ...state, destinationState: { ...state.destinationState, tookMs: 5_000 } };
    expect(viewOf(slow, settings, NOW)).toMatchObject({ tookMs: 5_000, refusal: null });
  });
});

describe("the figures of a gate", () => {
  const empty = newGateState(NOW);
  const state = { ...empty, rollups: rollupsAfter(empty.rollups, [metric(), metric()], NOW) };
  const figures = (series: boolean) => figuresOf(state, [], { windows, series }, settings, NOW);

  it("have the sum of each requested window, and all counts ever", () => {
    const { view, ever, windows: requested } = figures(true);
    expect(view).toEqual(viewOf(state, settings, NOW));
    expect(ever.delivered).toBe(2);
    expect(Object.keys(requested)).toEqual(["15m", "1h", "24h", "7d"]);
    expect(Object.values(requested).map(({ sum }) => sum.delivered)).toEqual([2, 2, 2, 2]);
    const none = figuresOf(state, [], { windows: [], series: true }, settings, NOW);
    expect(none.windows).toEqual({});
  });

  it("have the windows' series only on request", () => {
    const lengths = (series: boolean) =>
      Object.values(figures(series).windows).map((one) => one.series.length);
    expect(lengths(true)).toEqual([15, 60, 24, 168]);
    expect(lengths(false)).toEqual([0, 0, 0, 0]);
  });
});
