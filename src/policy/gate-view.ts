/** A gate as a person wants to see it: why it is as wide as it is, and what has happened to it of late. */
import { refusalAt } from "./admission.ts";
import type { Refusal } from "./ask.ts";
import { effectiveRate } from "./ceiling.ts";
import { destinationStateAt } from "./condition.ts";
import type { GateSettings } from "./gate-settings.ts";
import type { GateState, HistoryEntry } from "./gate-state.ts";
import { live, slotsOf, tatOf } from "./lease.ts";
import { nextSendAt, type Rate } from "./rate.ts";
import { recentTraffic, type Traffic, type TrafficSum, trafficSum } from "./traffic.ts";
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
  /** Attempts a second: the owner's rate, or less when the receiver's 429s have taught less. */
  ratePerSecond: number;
  /** Attempts that the rate allows at this moment. */
  rateTokens: number;
  tookMs: number;
  /** What a waiting delivery would be told now; null when it would be let in. */
  refusal: Refusal | null;
  traffic: TrafficSum;
  /** The same minute by minute, the oldest first; minutes without an attempt are left out. */
  minutes: Traffic;
  history: readonly HistoryEntry[];
}>;

export function viewOf(state: GateState, settings: GateSettings, now: number): GateView {
  const { circuit, window, heldUntil, tookMs, adaptiveLimit } = destinationStateAt(state.destinationState, now);
  const rate = effectiveRate(adaptiveLimit, settings, now);
  const minutes = recentTraffic(state.rollups, now);
  return {
    circuit: circuit.kind,
    circuitUntil: circuit.kind === "open" ? circuit.until : null,
    trips: circuit.trips,
    heldUntil: heldUntil > now ? heldUntil : null,
    window: widthOf(window, settings.maxConcurrency),
    inFlight: slotsOf(live(state.leases, now)),
    ratePerSecond: rate.perSecond,
    rateTokens: tokensAt(tatOf(state.leases, state.tat), rate, now),
    tookMs: Math.round(tookMs),
    refusal: refusalAt(state, "backlog", settings, now) ?? null,
    traffic: trafficSum(minutes),
    minutes,
    history: state.history,
  };
}

function tokensAt(tat: number, rate: Rate, now: number): number {
  const next = nextSendAt(tat, rate, now);
  return Math.max(0, Math.min(rate.burst, Math.floor(((now - next) * rate.perSecond) / 1000) + 1));
}
