/** The view of a gate that has done nothing yet; tests change one thing of it. */
import type { GateView } from "../../src/core/gate-view.ts";

export const idleGateView: GateView = {
  circuit: "closed",
  circuitUntil: null,
  trips: 0,
  heldUntil: null,
  window: 10,
  inFlight: 0,
  ratePerSecond: 100,
  rateTokens: 200,
  tookMs: 0,
  refusal: null,
  traffic: { first: 0, retries: 0, failures: 0, retryRatio: 0, storm: false },
  minutes: [],
  history: [],
};
