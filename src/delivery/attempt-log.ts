/**
 * What is said of attempts: lines are billed, so that what went well is counted in one line for the whole
 * invocation, and only what failed has a line of its own, as has a lease that did not go smoothly. With
 * LOG_ATTEMPTS=all each attempt has one. Where Analytics Engine is bound, each attempt leaves a data point as well.
 * Ids and figures; nothing of the payload, no secret.
 */
import { deliveryId, eventId } from "../id.ts";
import type { Services } from "../services.ts";
import { dueAtOf } from "../store/work.ts";
import { writeDataPoint } from "./data-point.ts";
import { type BatchRun, leftoverReason } from "./group.ts";
import type { Finished } from "./run-lease.ts";

/** The attempts of one invocation, counted until they are logged. */
export type AttemptCounts = {
  readonly source: "queue" | "drain";
  readonly startedAt: number;
  delivered: number;
  failed: number;
  /** Of which Analytics Engine has taken no data point. */
  uncounted: number;
  slowestMs: number;
  readonly destinations: Set<string>;
};

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
