/**
 * What has been sent to a destination of late, minute by minute, read off what its gate has counted: enough to
 * tell a storm from traffic.
 */
import { totalOf } from "./histogram.ts";
import { type Result, results } from "./sample.ts";
import { MINUTE_MS, type Rollups } from "./tallies.ts";
import type { Counters } from "./tally.ts";

/** Attempts that ended within one minute. */
export type Minute = Readonly<{
  /** Epoch ms. */
  from: number;
  first: number;
  retries: number;
  /** Attempts that did not come to a 2xx. */
  failures: number;
  /** Those of them that speak of trouble: 429, 5xx, no answer. A refusal shows a living receiver. */
  troubled: number;
}>;

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

const WINDOW_MS = 15 * MINUTE_MS;
const STORM_RATIO = 5;
const STORM_RETRIES = 100;
const trouble: readonly Result[] = ["429", "5xx", "timeout", "network"];

/** The last 15 minutes, the oldest first; those without an attempt are left out. */
export function recentTraffic({ minutes }: Pick<Rollups, "minutes">, now: number): Traffic {
  return minutes
    .filter(({ from }) => from > now - WINDOW_MS && from <= now)
    .map(minuteOf)
    .filter(({ first, retries }) => first + retries > 0);
}

function minuteOf({ from, attempts, results: came }: Counters): Minute {
  const all = totalOf(attempts);
  const first = attempts[0] ?? 0;
  const count = (result: Result) => came[results.indexOf(result)] ?? 0;
  const troubled = trouble.reduce((sum, result) => sum + count(result), 0);
  return { from, first, retries: all - first, failures: all - count("2xx"), troubled };
}

/** Attempts of the minutes that have not been over for `ms`, and how many of them met with trouble. */
export function lately(traffic: Traffic, ms: number, now: number): { attempts: number; troubled: number } {
  const recent = traffic.filter(({ from }) => from + MINUTE_MS > now - ms);
  return {
    attempts: recent.reduce((sum, { first, retries }) => sum + first + retries, 0),
    troubled: recent.reduce((sum, { troubled }) => sum + troubled, 0),
  };
}

/** Whether a storm that was is over: well below both of its bounds, so that it does not flap at one of them. */
export function isCalm({ retryRatio, retries }: TrafficSum): boolean {
  return retryRatio <= STORM_RATIO / 2 || retries <= STORM_RETRIES / 2;
}

/** A storm: more than five retries for each first attempt, and more than a hundred. */
export function trafficSum(recent: Traffic): TrafficSum {
  const total = (field: "first" | "retries" | "failures") => recent.reduce((sum, m) => sum + m[field], 0);
  const [first, retries] = [total("first"), total("retries")];
  const retryRatio = retries / Math.max(1, first);
  const storm = retryRatio > STORM_RATIO && retries > STORM_RETRIES;
  return { first, retries, failures: total("failures"), retryRatio, storm };
}
