/**
 * How long a backlog takes to drain, against the best that could be done: the same deliveries, and those that
 * come meanwhile, served from the moment of the recovery without a pause at the best possible rate.
 */
import { WIRE_MS } from "./exchange.ts";
import type { DeliveryRecord } from "./ledger.ts";
import { capacityOf } from "./receiver.ts";
import { recoveryOf, type Scenario } from "./scenario.ts";

/** A delivery is overdue when it has not ended so long after it was accepted: the way through an idle sender. */
const OVERDUE_MS = 3_000;
/** Less than this at the best possible rate is no backlog to speak of. */
const BACKLOG_MS = 5_000;

/** Undefined when some were lost or are still open, when hardly any waited, and for several receivers. */
export function drainOf(scenario: Scenario, deliveries: readonly DeliveryRecord[]): number | undefined {
  if (scenario.receivers > 1 || deliveries.some(({ dead }) => dead)) return undefined;
  const optimum = optimumMs(scenario, deliveries);
  const until = drainedAt(scenario, deliveries);
  return optimum < BACKLOG_MS || until === undefined ? undefined : (until - recoveryOf(scenario)) / optimum;
}

/** The first moment after the recovery at which nothing is overdue. */
function drainedAt(scenario: Scenario, deliveries: readonly DeliveryRecord[]): number | undefined {
  const recovery = recoveryOf(scenario);
  let until = recovery;
  for (const { acceptedAt, endedAt } of deliveries) {
    if (acceptedAt > recovery && acceptedAt + OVERDUE_MS > until) break;
    if (endedAt === 0) return undefined;
    until = Math.max(until, endedAt - acceptedAt > OVERDUE_MS ? endedAt : 0);
  }
  return until;
}

/** How long what is open at the recovery and what comes meanwhile takes at the best possible rate. */
export function optimumMs(scenario: Scenario, deliveries: readonly DeliveryRecord[]): number {
  const recovery = recoveryOf(scenario);
  const eachMs = 1000 / bestRateOf(scenario);
  const open = deliveries.filter(
    (d) => d.acceptedAt <= recovery && (d.endedAt === 0 || d.endedAt > recovery),
  );
  let lastMs = open.length * eachMs;
  for (const { acceptedAt } of deliveries) {
    if (acceptedAt > recovery && acceptedAt <= recovery + lastMs) lastMs += eachMs;
  }
  return lastMs;
}

/** The least of what the receiver can serve and what the destination's limits allow. */
function bestRateOf({ server, settings }: Scenario): number {
  const { maxConcurrency = 10, ratePerSecond = 100 } = settings;
  const inFlight = (maxConcurrency * 1000) / (server.serviceMs + 2 * WIRE_MS);
  return Math.min(capacityOf(server), ratePerSecond, inFlight);
}
