/**
 * What is said of attempts: lines are billed, so that what went well is counted in one line for the whole
 * invocation, and only what failed has a line of its own, as has a lease that did not go smoothly. With
 * LOG_ATTEMPTS=all each attempt has one. Where Analytics Engine is bound, each attempt leaves a data point as well.
 * Ids and figures; nothing of the payload, no secret.
 */

import { type AttemptMetric, resultOf } from "../core/metrics.ts";
import { dueAtOf, type LoadedDelivery } from "../db/deliveries.ts";
import { deliveryId, eventId } from "../ids.ts";
import { faultOf } from "../log.ts";
import type { AttemptCounts, Services } from "../services.ts";
import type { Attempt } from "./http.ts";
import type { Finished } from "./lease-runner.ts";
import type { Outcome } from "./outcome.ts";
import { type BatchRun, leftoverReason } from "./pipeline.ts";

// §§ One data point for each attempt, where Analytics Engine is bound. Its columns have no names of their own:
// what they mean is documented in the README, and new ones go to the end. Ids and figures; nothing of the
// payload, no URL, no secret.

/**
 * Answers why the point was not taken; undefined when it was, or when nobody wants it. Analytics Engine
 * takes so many of an invocation and throws at the next: no delivery may hang on that.
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
  const { event, destination } = attempt.work;
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
    doubles: [
      metric.attempt,
      exchange.kind === "response" ? exchange.status : 0,
      metric.tookMs,
      metric.lateMs,
    ],
  };
}

/** The services of an invocation that logs its successes together: see `logCounts`. */
export function withCounts(services: Services, source: AttemptCounts["source"]): Services {
  const counts = { source, startedAt: services.now(), ...noCounts(), destinations: new Set<string>() };
  return { ...services, attemptCounts: counts };
}

function noCounts() {
  return { delivered: 0, failed: 0, uncounted: 0, slowestMs: 0 };
}

/** One line for all that was delivered since the last; none when nothing was. */
export function logCounts({ attemptCounts: counts, log, now }: Services): void {
  if (!counts || counts.delivered === 0) return;
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
  const { work, exchange, startedAt, fault } = attempt;
  const { row } = outcome;
  const isDelivered = row.state === "delivered";
  const uncounted = writeDataPoint(services, finished);
  const { attemptCounts: counts } = services;
  if (counts) {
    counts[isDelivered ? "delivered" : "failed"] += 1;
    counts.uncounted += uncounted === undefined ? 0 : 1;
    counts.slowestMs = Math.max(counts.slowestMs, metric.tookMs);
    counts.destinations.add(work.destination.id);
  }
  if (isDelivered && services.config.logAttempts !== "all") return;
  services.log({
    what: "attempt",
    event: eventId(work.event.id),
    destination: work.destination.id,
    delivery: deliveryId(work.event.id, work.destination.id),
    type: work.event.type,
    tenant: work.destination.tenant,
    attempt: row.attempts,
    status: exchange.kind === "response" ? exchange.status : undefined,
    error: exchange.kind === "response" ? undefined : exchange.kind,
    fault,
    latency_ms: metric.tookMs,
    late_ms: metric.lateMs,
    age_ms: startedAt - dueAtOf(work.event),
    state: row.state,
    reason: row.reason,
    next_attempt_at: row.nextAttemptAt,
    uncounted,
  });
}

/** One line for a lease of which something failed, was left over or was still running when patience ended. */
export function logLease(services: Services, { destination, answer, run }: BatchRun): void {
  if (!run) return;
  const failed = run.done.filter(({ outcome }) => outcome.row.state !== "delivered").length;
  if (failed + run.queue.length + run.running.size === 0) return;
  services.log({
    what: "lease",
    destination: destination.id,
    granted: answer?.grant?.deliveries.length,
    delivered: run.done.length - failed,
    failed,
    running: run.running.size,
    left: run.queue.length,
    reason: run.queue.length > 0 ? leftoverReason(run, services.now()).reason : undefined,
  });
}

// §§ What is counted of an attempt, from all that is known of it.

const ends = { delivered: "delivered", retry: "again", dead: "dead" } as const;

export function attemptMetricOf(attempt: Attempt, { row, transition }: Outcome): AttemptMetric {
  const { work, exchange, startedAt, endedAt } = attempt;
  return {
    attempt: row.attempts,
    result: resultOf(exchange),
    end: ends[transition.kind],
    tookMs: endedAt - startedAt,
    lateMs: Math.max(0, startedAt - dueAt(work, startedAt)),
  };
}

/** When the attempt should have been made: when the event was due, and later at the time that the delivery was given. */
function dueAt({ event, row }: LoadedDelivery, startedAt: number): number {
  return row && row.attempts > 0 ? (row.nextAttemptAt ?? startedAt) : dueAtOf(event);
}
