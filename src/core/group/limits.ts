/** A group's limits: their JSON form with ranges and defaults, and the settings that its object gets from them. */
import { type Breaker, between, gateSettingsFrom, whole } from "../limits.ts";
import type { Shape, ShapeType } from "../shape.ts";
import type { GroupSettings } from "./group-state.ts";

export const groupLimitShape = {
  kind: "object",
  fields: {
    max_concurrency: whole(
      [1, 10_000],
      "Attempts in flight at once, to all members together; 100 by default.",
    ),
    rate_per_second: between(
      [0.01, 100_000],
      "Attempts per second, to all members together; 1,000 by default.",
    ),
    rate_burst: whole(
      [1, 1_000_000],
      "Attempts that may be made at once after a quiet time; a tenth of a second's worth of the rate by default.",
    ),
  },
} as const satisfies Shape;

export type GroupLimits = Readonly<ShapeType<typeof groupLimitShape>>;

/** Blocks pace the members one after the other, so a small burst suffices. */
export function groupBurstOf(ratePerSecond: number): number {
  return Math.max(1, Math.ceil(ratePerSecond / 10));
}

export const defaultGroupLimits: GroupLimits = {
  max_concurrency: 100,
  rate_per_second: 1_000,
  rate_burst: groupBurstOf(1_000),
};

export function groupSettingsFrom(limits: GroupLimits, breaker: Breaker): GroupSettings {
  const {
    paused: _,
    timeoutMs: __,
    ...settings
  } = gateSettingsFrom({ ...limits, timeout_ms: 0 }, breaker, false);
  return settings;
}
