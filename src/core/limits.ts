/**
 * A destination's limits: their JSON form with ranges and defaults, and the settings that its gate gets from them. The
 * API validates by these shapes, and the table's defaults are the same figures (a test compares them).
 */
import type { NumberShape, Shape, ShapeType } from "./shape.ts";

type Range = readonly [min: number, max: number];

/** A whole number of a range, with its description in the API. */
export function whole([min, max]: Range, description: string) {
  return { kind: "number", whole: true, min, max, meta: { description } } as const satisfies NumberShape;
}

export function between([min, max]: Range, description: string) {
  return { kind: "number", min, max, meta: { description } } as const satisfies NumberShape;
}

/**
 * Work after the return of a queue handler (`waitUntil`) has about 30 s, and an attempt may run there when its batch is
 * over: this leaves the rest for its record. A larger value written into the table by hand counts as the default.
 */
const LONGEST_ATTEMPT_MS = 25_000;

export const limitShape = {
  kind: "object",
  fields: {
    timeout_ms: whole([100, LONGEST_ATTEMPT_MS], "How long one attempt may take; 15000 by default."),
    max_concurrency: whole([1, 1000], "Attempts in flight at once, over all of Breakwater; 10 by default."),
    rate_per_second: between([0.01, 10_000], "Attempts per second, sustained; 100 by default."),
    rate_burst: whole(
      [1, 100_000],
      "Attempts that may be made at once after a quiet time; one second's worth of the rate by default.",
    ),
  },
} as const satisfies Shape;

export const breakerShape = {
  kind: "object",
  fields: {
    failure_ratio: between([0.05, 1], "The share of failed attempts that opens the circuit; 0.5 by default."),
    min_attempts: whole([1, 1000], "Fewer attempts in the window never open it; 5 by default."),
    window_s: whole([1, 3600], "Seconds that the ratio looks back; 60 by default."),
    cooldown_s: whole([1, 3600], "Seconds that the first opening lasts; 30 by default."),
    max_cooldown_s: whole(
      [1, 86_400],
      "The longest opening: each doubles the last; 45 by default, and not shorter than `cooldown_s`.",
    ),
  },
} as const satisfies Shape;

export type Limits = Readonly<ShapeType<typeof limitShape>>;
export type Breaker = Readonly<ShapeType<typeof breakerShape>>;

/**
 * The default burst: one second's worth of the rate. So no second sees more than twice the rate, and the time of a
 * round trip is not lost.
 */
export function burstOf(ratePerSecond: number): number {
  return Math.max(1, Math.ceil(ratePerSecond));
}

export const defaultLimits: Limits = {
  timeout_ms: 15_000,
  max_concurrency: 10,
  rate_per_second: 100,
  rate_burst: burstOf(100),
};

export const defaultBreaker: Breaker = {
  failure_ratio: 0.5,
  min_attempts: 5,
  window_s: 60,
  cooldown_s: 30,
  max_cooldown_s: 45,
};

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

/**
 * The settings of a destination, for its gate. They are an argument of every call, fresh from D1, so that the gate has
 * no configuration of its own that could go stale.
 */
export type GateSettings = Readonly<{
  paused: boolean;
  maxConcurrency: number;
  ratePerSecond: number;
  rateBurst: number;
  /** How long one attempt may take. */
  timeoutMs: number;
  breaker: BreakerSettings;
}>;

/** From the JSON form. A longest cool-down below the first one counts as the first one. */
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

/** For a destination without settings of its own. */
export const defaultGateSettings = gateSettingsFrom(defaultLimits, defaultBreaker, false);
