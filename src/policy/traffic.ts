/**
 * What has been sent to a destination of late, minute by minute: enough to tell a storm from traffic. Kept
 * inside the gate's state, so that counting costs no row of its own.
 */

/** Attempts that ended within one minute. */
type Minute = Readonly<{ from: number; first: number; retries: number; failures: number }>;

export type Traffic = readonly Minute[];

export type TrafficSum = Readonly<{
  first: number;
  retries: number;
  failures: number;
  /** Retries per first attempt; a first attempt is assumed where there was none. */
  retryRatio: number;
  /** More is being tried again than is new, by far: the sign of a retry storm. */
  storm: boolean;
}>;

const MINUTE_MS = 60_000;
const WINDOW_MS = 15 * MINUTE_MS;
const STORM_RATIO = 5;
const STORM_RETRIES = 100;

export function trafficAfter(
  traffic: Traffic,
  attempts: readonly Readonly<{ retry: boolean; failed: boolean }>[],
  now: number,
): Traffic {
  if (attempts.length === 0) return traffic;
  const recent = recentTraffic(traffic, now);
  const last = recent.at(-1);
  const current =
    last && now < last.from + MINUTE_MS ? last : { from: now, first: 0, retries: 0, failures: 0 };
  const retries = attempts.filter(({ retry }) => retry).length;
  const next = {
    from: current.from,
    first: current.first + attempts.length - retries,
    retries: current.retries + retries,
    failures: current.failures + attempts.filter(({ failed }) => failed).length,
  };
  return [...recent.filter((minute) => minute !== current), next];
}

/** What is not older than 15 minutes. */
export function recentTraffic(traffic: Traffic, now: number): Traffic {
  return traffic.filter(({ from }) => from > now - WINDOW_MS);
}

/** Attempts of the minutes that began within the last `ms`, and how many of them failed. */
export function lately(traffic: Traffic, ms: number, now: number): { attempts: number; failures: number } {
  const recent = traffic.filter(({ from }) => from > now - ms);
  return {
    attempts: recent.reduce((sum, { first, retries }) => sum + first + retries, 0),
    failures: recent.reduce((sum, { failures }) => sum + failures, 0),
  };
}

/** The last 15 minutes. A storm: more than five retries for each first attempt, and more than a hundred. */
export function trafficSum(traffic: Traffic, now: number): TrafficSum {
  const recent = recentTraffic(traffic, now);
  const total = (field: "first" | "retries" | "failures") => recent.reduce((sum, m) => sum + m[field], 0);
  const [first, retries] = [total("first"), total("retries")];
  const retryRatio = retries / Math.max(1, first);
  const storm = retryRatio > STORM_RATIO && retries > STORM_RETRIES;
  return { first, retries, failures: total("failures"), retryRatio, storm };
}
