/** What a settlement has brought to light, with the figures that tell of it. */
import { conditionAt } from "./condition.ts";
import type { DoorEvent } from "./door-events.ts";
import type { Notice } from "./said.ts";
import type { Settled } from "./settlement.ts";
import type { Diagnosis } from "./sickness.ts";
import { recentTraffic, type TrafficSum, trafficSum } from "./traffic.ts";

export type News = Readonly<{
  /** Each is one line in the log. */
  events: readonly DoorEvent[];
  notices: readonly Notice[];
  tollDue: boolean;
  diagnosis?: Diagnosis | undefined;
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
export function newsOf({ state, ...found }: Settled, now: number): News | undefined {
  const { events, notices, tollDue, diagnosis } = found;
  if (events.length + notices.length === 0 && !tollDue && diagnosis === undefined) return undefined;
  const { circuit, heldUntil } = conditionAt(state.condition, now);
  const figures = {
    circuitUntil: circuit.kind === "open" ? circuit.until : null,
    trips: circuit.trips,
    heldUntil: heldUntil > 0 ? heldUntil : null,
    traffic: trafficSum(recentTraffic(state.tallies, now)),
  };
  return { ...found, at: now, figures };
}
