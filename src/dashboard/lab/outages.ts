/**
 * The outages that a policy can be tried on, and what comes of each, with the gate and without. Chosen so that
 * presets differ in them; and few deliveries, because a page waits for it: a second of a Worker's time at most.
 */
import { type OutageReport, simulateOutage } from "../../lab/simulate-outage.ts";
import type { GateSettings } from "../../policy/gate-settings.ts";
import type { RetryPolicy } from "../../policy/retry-policy.ts";

const MINUTE_MS = 60_000;

/** A receiver that can take a hundred requests a second. */
const receiver = { slots: 10, serviceMs: 100 };

export const outages = {
  "10m": { says: "10 minutes, 5 events a second", lastsMs: 10 * MINUTE_MS, perSecond: 5, ...receiver },
  "1h": { says: "1 hour, 1 event a second", lastsMs: 60 * MINUTE_MS, perSecond: 1, ...receiver },
  "6h": { says: "6 hours, 6 events a minute", lastsMs: 360 * MINUTE_MS, perSecond: 0.1, ...receiver },
  "1d": { says: "a day, 6 events an hour", lastsMs: 24 * 60 * MINUTE_MS, perSecond: 1 / 600, ...receiver },
  "2d": {
    says: "a weekend, an event an hour",
    lastsMs: 48 * 60 * MINUTE_MS,
    perSecond: 1 / 3600,
    ...receiver,
  },
} as const;

export type OutageName = keyof typeof outages;

export type Comparison = Readonly<{
  outage: (typeof outages)[OutageName];
  gated: OutageReport;
  /** The same policy on a plain job queue. */
  alone: OutageReport;
}>;

/** Actions of one simulation at most. */
const STEPS = 400_000;
/** Always the same: whoever changes the policy wants to see what that does, and not what chance does. */
const SEED = 1;

export function outageNamed(name: string | undefined): OutageName {
  return name !== undefined && Object.hasOwn(outages, name) ? (name as OutageName) : "10m";
}

export function compare(policy: RetryPolicy, gate: GateSettings, name: OutageName): Comparison {
  const outage = outages[name];
  const open = { ...gate, paused: false };
  return {
    outage,
    gated: simulateOutage(policy, open, outage, SEED, STEPS),
    alone: simulateOutage(policy, null, outage, SEED, STEPS),
  };
}
