/**
 * What a gate must know of its destination. It travels with every call, fresh from D1, so that the gate
 * has no configuration of its own that could go stale.
 */
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
