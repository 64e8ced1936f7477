/** A gate as a person wants to see it: why it is as wide as it is, and what has happened to it of late. */
import { refusalAt } from "./admission.ts";
import type { Refusal } from "./ask.ts";
import { conditionAt } from "./condition.ts";
import type { GateSettings } from "./gate-settings.ts";
import type { DoorEvent, GateState } from "./gate-state.ts";
import { live, slotsOf } from "./lease.ts";
import { nextSendAt } from "./rate.ts";
import { type TrafficSum, trafficSum } from "./traffic.ts";
import { widthOf } from "./window.ts";

export type GateView = Readonly<{
  circuit: "closed" | "open" | "half_open";
  /** When an open circuit lets a probe in. */
  circuitUntil: number | null;
  /** Openings in a row: each doubles the cool-down. */
  trips: number;
  heldUntil: number | null;
  /** Attempts allowed at once. */
  window: number;
  /** Connections under lease. */
  inFlight: number;
  /** Attempts that the rate allows at this moment. */
  rateTokens: number;
  tookMs: number;
  /** What a waiting delivery would be told now; null when it would be let in. */
  refusal: Refusal | null;
  traffic: TrafficSum;
  history: readonly Readonly<{ at: number; what: DoorEvent }>[];
}>;

export function viewOf(state: GateState, settings: GateSettings, now: number): GateView {
  const { circuit, window, heldUntil, tookMs } = conditionAt(state.condition, now);
  return {
    circuit: circuit.kind,
    circuitUntil: circuit.kind === "open" ? circuit.until : null,
    trips: circuit.trips,
    heldUntil: heldUntil > now ? heldUntil : null,
    window: widthOf(window, settings.maxConcurrency),
    inFlight: slotsOf(live(state.leases, now)),
    rateTokens: tokensAt(state.tat, settings, now),
    tookMs: Math.round(tookMs),
    refusal: refusalAt(state, "backlog", settings, now) ?? null,
    traffic: trafficSum(state.traffic, now),
    history: state.history,
  };
}

function tokensAt(tat: number, { ratePerSecond, rateBurst }: GateSettings, now: number): number {
  const next = nextSendAt(tat, { perSecond: ratePerSecond, burst: rateBurst }, now);
  return Math.max(0, Math.min(rateBurst, Math.floor(((now - next) * ratePerSecond) / 1000) + 1));
}
