/**
 * The circuit breaker of one destination: closed → open → half-open with one probe → closed.
 *
 * Failures are counted over time, not over calls, so that an old failure never trips a circuit that has been idle
 * since. The circuit knows nothing of leases: the holder of the probe reports its outcome.
 */
import type { BreakerSettings } from "./limits.ts";
import type { ExchangeHealth } from "./retry/classify.ts";

/** Attempts that ended within one slice of the window. */
type Slice = Readonly<{ from: number; attempts: number; failures: number }>;

export type Circuit =
  | Readonly<{
      kind: "closed";
      since: number;
      trips: number;
      slices: readonly Slice[];
      /** Failures in a row up to now. */
      streak: number;
    }>
  | Readonly<{ kind: "open"; since: number; until: number; trips: number }>
  | Readonly<{ kind: "half_open"; since: number; trips: number }>;

const SLICES = 10;
/**
 * This many times `minAttempts` failures in a row open it at any ratio: a busy destination has so many successes in its
 * window that the ratio alone would cost hundreds of failed attempts.
 */
const STREAK = 2;
/** Jitter: the cool-downs of destinations that saw the same outage end at different times. It only adds. */
const COOLDOWN_SPREAD = 0.1;

export function closedCircuit(now: number): Circuit {
  return { kind: "closed", since: now, trips: 0, slices: [], streak: 0 };
}

/** An open circuit whose cool-down is over admits a probe: it is half-open. */
export function circuitAt(circuit: Circuit, now: number): Circuit {
  if (circuit.kind !== "open" || now < circuit.until) return circuit;
  return { kind: "half_open", since: now, trips: circuit.trips };
}

/**
 * The circuit after one more outcome at `now`. While it is open, outcomes of attempts that were already
 * under way change nothing. A 429 says nothing about health: it neither opens nor fills the window, but
 * it closes a half-open circuit, because a server that refuses politely is alive.
 *
 * @param random in [0, 1): spreads the end of a cool-down
 */
export function circuitAfter(
  circuit: Circuit,
  health: ExchangeHealth,
  settings: BreakerSettings,
  now: number,
  random: number,
): Circuit {
  switch (circuit.kind) {
    case "open":
      return circuit;
    case "half_open":
      return health === "unhealthy"
        ? opened(circuit.trips + 1, settings, now, random)
        : { kind: "closed", since: now, trips: circuit.trips, slices: [], streak: 0 };
    case "closed":
      return health === "throttled" ? circuit : counted(circuit, health, settings, now, random);
  }
}

function counted(
  circuit: Extract<Circuit, { kind: "closed" }>,
  health: ExchangeHealth,
  settings: BreakerSettings,
  now: number,
  random: number,
): Circuit {
  const slices = withOutcome(circuit.slices, health, settings.windowMs, now);
  const attempts = slices.reduce((sum, slice) => sum + slice.attempts, 0);
  const failures = slices.reduce((sum, slice) => sum + slice.failures, 0);
  // After a whole window without an opening, the next one starts with the first cool-down again.
  const trips = now - circuit.since >= settings.windowMs ? 0 : circuit.trips;
  const streak = health === "unhealthy" ? circuit.streak + 1 : 0;
  const failing = attempts >= settings.minAttempts && failures >= attempts * settings.failureRatio;
  if (failing || streak >= STREAK * settings.minAttempts) {
    return opened(trips + 1, settings, now, random);
  }
  return { ...circuit, trips, slices, streak };
}

function withOutcome(slices: readonly Slice[], health: ExchangeHealth, windowMs: number, now: number) {
  const recent = slices.filter((slice) => slice.from > now - windowMs);
  const last = recent.at(-1);
  const current =
    last && now < last.from + windowMs / SLICES ? last : { from: now, attempts: 0, failures: 0 };
  const next = {
    from: current.from,
    attempts: current.attempts + 1,
    failures: current.failures + (health === "unhealthy" ? 1 : 0),
  };
  return [...recent.filter((slice) => slice !== current), next];
}

/** A circuit that opens now, for the `trips`-th time in a row. */
export function opened(
  trips: number,
  settings: BreakerSettings,
  now: number,
  random: number,
): Extract<Circuit, { kind: "open" }> {
  const doubled = settings.cooldownMs * 2 ** Math.min(trips - 1, 30);
  const cooldownMs = Math.min(doubled, settings.maxCooldownMs) * (1 + COOLDOWN_SPREAD * random);
  return { kind: "open", since: now, until: Math.ceil(now + cooldownMs), trips };
}
