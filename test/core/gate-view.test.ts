import { describe, expect, it } from "vitest";
import { admit } from "../../src/core/admit.ts";
import { newGateState } from "../../src/core/gate-state.ts";
import { viewOf } from "../../src/core/gate-view.ts";
import type { GateSettings } from "../../src/core/limits.ts";
import { settle } from "../../src/core/settle.ts";
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

  it("says why it is blocked and until when, and has the history of it", () => {
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
});
