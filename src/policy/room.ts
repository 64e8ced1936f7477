/**
 * How much room there is behind the door for one more lease. The checks run from the most lasting reason
 * to the most fleeting one, so that the reason given is the one that a person would name.
 */
import type { Refusal } from "./ask.ts";
import { blockedBy } from "./condition.ts";
import type { GateSettings } from "./gate-settings.ts";
import { type GateState, sideOf } from "./gate-state.ts";
import { type Lane, slotsOf, widthsOf } from "./lease.ts";
import { fairShareLeft } from "./shares.ts";
import { widthOf } from "./window.ts";

export type Capacity = Readonly<{ slots: number; width: number; deliveries: number; probe: boolean }>;

/**
 * A destination that takes longer than this is served by drains, which run on a queue of their own: in a
 * batch of the live queue it would make every other destination wait for its end.
 */
const SLOW_MS = 1_000;

export function capacityFor(state: GateState, lane: Lane, settings: GateSettings, now: number): Capacity | Refusal {
  const shut = blockedBy(state.destinationState, settings, now);
  if (shut) return shut;
  const probing = state.destinationState.circuit.kind === "half_open";
  const probe = state.leases.find((lease) => lease.probe);
  if (probing && probe) return { reason: "probing", until: probe.expiresAt };
  const side = sideOf(lane);
  if (side === "live" && state.destinationState.tookMs > SLOW_MS) return { reason: "slow", until: now };
  const window = probing ? 1 : widthOf(state.destinationState.window, settings.maxConcurrency);
  const slots = fairShareLeft(state, side, settings.maxConcurrency, slotsOf, now);
  const width = fairShareLeft(state, side, window, widthsOf, now);
  if (slots < 1 || width < 1) return { reason: "concurrency", until: firstExpiry(state, now) };
  if (probing) return { slots: 1, width: 1, deliveries: 1, probe: true };
  return { slots, width, deliveries: Number.POSITIVE_INFINITY, probe: false };
}

/** When a place is free at the latest; a lease that is settled frees it sooner, and rings then. */
function firstExpiry({ leases }: GateState, now: number): number {
  return leases.length > 0 ? Math.min(...leases.map((lease) => lease.expiresAt)) : now;
}
