/**
 * What a gate must know of its destination. It travels with every call, fresh from D1, so that the gate
 * has no configuration of its own that could go stale.
 */
import { type Breaker, defaultBreaker, defaultLimits, type Limits } from "./limits.ts";

export type BreakerSettings = Readonly<{
  /** The share of failed attempts, 0 to 1, at which the circuit opens. */
  failureRatio: number;
  /** Fewer attempts than this in the window never open it. */
  minAttempts: number;
  windowMs: number;
  /** How long the first opening lasts; each further one doubles it. */
  cooldownMs: number;
  maxCooldownMs: number;
}>;

export type GateSettings = Readonly<{
  paused: boolean;
  maxConcurrency: number;
  ratePerSecond: number;
  rateBurst: number;
  /** How long one attempt may take. */
  timeoutMs: number;
  breaker: BreakerSettings;
}>;

/** From what a person writes, in seconds. A longest cool-down below the first one counts as the first one. */
export function gateSettingsFrom(limits: Limits, breaker: Breaker, paused: boolean): GateSettings {
  return {
    paused,
    maxConcurrency: limits.max_concurrency,
    ratePerSecond: limits.rate_per_second,
    rateBurst: limits.rate_burst,
    timeoutMs: limits.timeout_ms,
    breaker: {
      failureRatio: breaker.failure_ratio,
      minAttempts: breaker.min_attempts,
      windowMs: breaker.window_s * 1000,
      cooldownMs: breaker.cooldown_s * 1000,
      maxCooldownMs: Math.max(breaker.cooldown_s, breaker.max_cooldown_s) * 1000,
    },
  };
}

/** Of a destination for which nobody has set anything. */
export const defaultGateSettings = gateSettingsFrom(defaultLimits, defaultBreaker, false);
