/**
 * The log of attempts. Lines are billed: successes have none, because gates count them. Only a failed attempt has its
 * own line, and so has a lease with failed or left-over deliveries; one more line counts what the invocation delivered
 * besides. With LOG_ATTEMPTS=all each attempt has a line. Where Analytics Engine is bound, each attempt leaves a data
 * point as well: its columns have no names of their own, so docs/monitoring.md documents them, and new ones go to the
 * end. Ids and figures only; nothing of the payload, no URL, no secret.
 */

import { deliveryId, eventId } from "../ids.ts";
import { faultOf } from "../log.ts";
import type { AttemptCounts, Services } from "../services.ts";
import { dueAtOf } from "../store/deliveries.ts";
import type { Leased } from "./admission.ts";
import { type Connections, sendingInTurn } from "./connections.ts";
import type { Finished } from "./outcome.ts";

/**
 * The services of an invocation that makes attempts: successes are logged together, messages are sent in turn, and
 * exchanges are stored if a bucket is bound. Call `end` at the end of its batch.
 */
export async function attempting(
  given: Services,
  source: AttemptCounts["source"],
  shared: Connections,
): Promise<Readonly<{ services: Services; end: () => void }>> {
  const counted = sendingInTurn(withCounts(given, source));
  const { bodies } = counted;
  if (bodies === undefined) return { services: counted, end: () => logCounts(counted) };
  const { archiving } = await import("./archiver.ts");
  const { services, release } = archiving(counted, bodies, shared);
  const end = () => {
    logCounts(services);
    release();
  };
  return { services, end };
}

/** The services of an invocation that logs its successes together: see `logCounts`. */
export function withCounts(services: Services, source: AttemptCounts["source"]): Services {
  const counts = { source, startedAt: services.now(), ...noCounts(), destinations: new Set<string>() };
  return { ...services, attemptCounts: counts };
}

function noCounts() {
  return { delivered: 0, failed: 0, uncounted: 0, slowestMs: 0 };
}

/** One line that counts the deliveries since the last such line, if there were any and something else went wrong. */
export function logCounts({ attemptCounts: counts, log, now }: Services): void {
  if (!counts || counts.delivered === 0) return;
  if (counts.failed + counts.uncounted > 0)
    log({
      what: "delivered",
      source: counts.source,
      deliveries: counts.delivered,
      failed: counts.failed,
      destinations: counts.destinations.size,
      slowest_ms: counts.slowestMs,
      took_ms: now() - counts.startedAt,
      ...(counts.uncounted > 0 && { uncounted: counts.uncounted }),
    });
  Object.assign(counts, noCounts());
  counts.destinations.clear();
}

/** Counts an attempt that has ended, and logs it where it failed or all are to be logged. */
export function logAttempt(services: Services, finished: Finished): void {
  const { attempt, outcome, metric } = finished;
  const { delivery, exchange, startedAt, fault } = attempt;
  const { event, destination } = delivery;
  const { row } = outcome;
  const isDelivered = row.state === "delivered";
  const uncounted = writeDataPoint(services, finished);
  const { attemptCounts: counts } = services;
  if (counts) {
    counts[isDelivered ? "delivered" : "failed"] += 1;
    counts.uncounted += uncounted === undefined ? 0 : 1;
    counts.slowestMs = Math.max(counts.slowestMs, metric.tookMs);
    counts.destinations.add(destination.id);
  }
  if (isDelivered && services.config.logAttempts !== "all") return;
  services.log({
    what: "attempt",
    event: eventId(event.id),
    destination: destination.id,
    delivery: deliveryId(event.id, destination.id),
    type: event.type,
    tenant: destination.tenant,
    attempt: row.attempts,
    status: exchange.status,
    error: exchange.kind === "response" ? undefined : exchange.kind,
    fault,
    latency_ms: metric.tookMs,
    late_ms: metric.lateMs,
    age_ms: startedAt - dueAtOf(event),
    state: row.state,
    reason: row.reason,
    next_attempt_at: row.nextAttemptAt,
    uncounted,
  });
}

/** One line for a lease with deliveries that failed, were left over, or were still running when patience ended. */
export function logLease(services: Services, { destination, grant, run }: Leased): void {
  const { done, queue, running } = run;
  const failed = done.filter(({ outcome }) => outcome.row.state !== "delivered").length;
  if (failed + queue.length + running.size === 0) return;
  services.log({
    what: "lease",
    destination: destination.id,
    granted: grant.deliveries.length,
    delivered: done.length - failed,
    failed,
    running: running.size,
    left: queue.length,
    reason: queue.length > 0 ? run.leftoverReason().reason : undefined,
  });
}

/**
 * Why the point was not taken; undefined when it was, or when no dataset is bound. Analytics Engine takes a limited
 * number from an invocation and throws at the next: no delivery may depend on that.
 * https://developers.cloudflare.com/analytics/analytics-engine/limits/
 */
function writeDataPoint({ attempts }: Pick<Services, "attempts">, finished: Finished): string | undefined {
  try {
    attempts?.writeDataPoint(dataPointOf(finished));
    return undefined;
  } catch (error) {
    return faultOf(error);
  }
}

function dataPointOf({ attempt, outcome, metric }: Finished): AnalyticsEngineDataPoint {
  const { event, destination } = attempt.delivery;
  const { exchange } = attempt;
  return {
    indexes: [destination.id],
    blobs: [
      destination.tenant,
      event.type,
      metric.result,
      outcome.row.state,
      outcome.row.reason,
      deliveryId(event.id, destination.id),
    ],
    doubles: [metric.attempt, exchange.status ?? 0, metric.tookMs, metric.lateMs],
  };
}
