/** A group's limits: their JSON form with ranges and defaults, and the settings that its object gets from them. */
import { type Breaker, gateSettingsFrom } from "../limits.ts";
import type { NumberShape, Shape, ShapeType } from "../shape.ts";
import type { GroupSettings } from "./group-state.ts";

function between(min: number, max: number, whole: boolean, description: string) {
  return {
    kind: "number",
    min,
    max,
    ...(whole && { whole }),
    meta: { description },
  } as const satisfies NumberShape;
}

export const groupLimitShape = {
  kind: "object",
  fields: {
    max_concurrency: between(
      1,
      10_000,
      true,
      "Attempts in flight at once, to all members together; 100 by default.",
    ),
    rate_per_second: between(
      0.01,
      100_000,
      false,
      "Attempts per second, to all members together; 1,000 by default.",
    ),
    rate_burst: between(
      1,
      1_000_000,
      true,
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
    maxConcurrency,
    ratePerSecond,
    rateBurst,
    breaker: settings,
  } = gateSettingsFrom({ ...limits, timeout_ms: 0 }, breaker, false);
  return { maxConcurrency, ratePerSecond, rateBurst, breaker: settings };
}
