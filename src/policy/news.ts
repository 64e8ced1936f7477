/** What a settlement has brought to light, with the figures that tell of it. */
import { destinationStateAt } from "./condition.ts";
import type { CircuitEvent } from "./door-events.ts";
import type { Alert } from "./said.ts";
import type { Settled } from "./settlement.ts";
import type { DisableReason } from "./sickness.ts";
import { recentTraffic, type TrafficSum, trafficSum } from "./traffic.ts";

export type SettleResult = Readonly<{
  /** Each is one line in the log. */
  events: readonly CircuitEvent[];
  alerts: readonly Alert[];
  digestDue: boolean;
  disableReason?: DisableReason | undefined;
  at: number;
  figures: Readonly<{
    /** When an open circuit lets a probe in, and the openings in a row. */
    circuitUntil: number | null;
    trips: number;
    heldUntil: number | null;
    traffic: TrafficSum;
  }>;
}>;

/** Undefined when there is nothing to tell, as nearly always. */
export function settleResultOf({ state, ...found }: Settled, now: number): SettleResult | undefined {
  const { events, alerts, digestDue, disableReason } = found;
  if (events.length + alerts.length === 0 && !digestDue && disableReason === undefined) return undefined;
  const { circuit, heldUntil } = destinationStateAt(state.destinationState, now);
  const figures = {
    circuitUntil: circuit.kind === "open" ? circuit.until : null,
    trips: circuit.trips,
    heldUntil: heldUntil > 0 ? heldUntil : null,
    traffic: trafficSum(recentTraffic(state.rollups, now)),
  };
  return { ...found, at: now, figures };
}
