/**
 * A destination's settings as the delivery path uses them, read from its row. A person may have edited
 * the row by hand: a limit out of its range counts as its default instead of stopping every delivery.
 */
import type { InferSelectModel } from "drizzle-orm";
import type { z } from "zod";
import { type GateSettings, gateSettingsFrom } from "../policy/gate-settings.ts";
import type { Pause } from "../policy/gate-state.ts";
import {
  type Breaker,
  breakerSchema,
  burstOf,
  defaultBreaker,
  defaultLimits,
  type Limits,
  limitsSchema,
} from "../policy/limits.ts";
import type { RetryPolicy } from "../policy/retry-policy.ts";
import { resolveRetry, retrySpec } from "../policy/retry-spec.ts";
import type { destinations } from "./schema.ts";

export type Destination = InferSelectModel<typeof destinations>;

/** What the gate must know of the destination. */
export function gateSettingsOf(row: Destination): GateSettings {
  return gateSettingsFrom(limitsOf(row), breakerOf(row), statusOf(row) === "paused");
}

/** The status that counts. */
export function statusOf({ status }: Pick<Destination, "status">): "active" | "paused" {
  return status === "paused" ? "paused" : "active";
}

/** Since when it is paused, and why; undefined while it is not. */
export function pauseOf(
  row: Pick<Destination, "status" | "statusReason" | "statusChangedAt" | "updatedAt">,
): Pause | undefined {
  if (statusOf(row) !== "paused") return undefined;
  return { at: row.statusChangedAt ?? row.updatedAt, reason: row.statusReason ?? "manual" };
}

/** The limits that count, as a person writes them. */
export function limitsOf(row: Destination): Limits {
  const { rate_burst: _, ...defaults } = defaultLimits;
  const limits = usable(limitsSchema, defaults, {
    timeout_ms: row.timeoutMs,
    max_concurrency: row.maxConcurrency,
    rate_per_second: row.ratePerSecond,
  });
  return { ...limits, rate_burst: ownBurstOf(row) ?? burstOf(limits.rate_per_second) };
}

/** The burst that somebody has set; null when it follows from the rate. */
export function ownBurstOf(row: Pick<Destination, "rateBurst">): number | null {
  return limitsSchema.shape.rate_burst.safeParse(row.rateBurst).data ?? null;
}

/** The breaker that counts, as a person writes it. */
export function breakerOf(row: Destination): Breaker {
  return usable(breakerSchema, defaultBreaker, {
    failure_ratio: row.breakerFailureRatio,
    min_attempts: row.breakerMinAttempts,
    window_s: row.breakerWindowS,
    cooldown_s: row.breakerCooldownS,
    max_cooldown_s: row.breakerMaxCooldownS,
  });
}

const resolved = new WeakMap<object, RetryPolicy>();

/** The destination's retry policy, resolved once per loaded row; the default when what is stored is none. */
export function retryPolicyOf(row: Pick<Destination, "retry">): RetryPolicy {
  const known = resolved.get(row);
  if (known) return known;
  const spec = retrySpec.safeParse(row.retry);
  const policy = resolveRetry(spec.success ? spec.data : undefined);
  resolved.set(row, policy);
  return policy;
}

/** Each value that is in its range, and the default for each that is not. */
function usable<T extends Readonly<Record<string, number>>>(
  schema: z.ZodObject<Record<keyof T & string, z.ZodType<number>>>,
  defaults: T,
  values: T,
): T {
  const isUsable = (name: string) => schema.shape[name as keyof T & string].safeParse(values[name]).success;
  const pairs = Object.keys(defaults).map((name) => [name, (isUsable(name) ? values : defaults)[name]]);
  return Object.fromEntries(pairs) as T;
}
