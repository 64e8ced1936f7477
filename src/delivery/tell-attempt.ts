/**
 * What is told of each attempt as it ends: one canonical line, and where Analytics Engine is bound one data
 * point. Ids and figures; nothing of the payload, no secret.
 */
import { deliveryId, eventId } from "../id.ts";
import type { Services } from "../services.ts";
import { dueAtOf } from "../store/work.ts";
import type { Finished } from "./run-lease.ts";

export function tellAttempt({ log, attempts }: Services, finished: Finished): void {
  const { attempt, outcome, sample } = finished;
  const { work, exchange, startedAt, fault } = attempt;
  const { row } = outcome;
  log({
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
    latency_ms: sample.tookMs,
    late_ms: sample.lateMs,
    age_ms: startedAt - dueAtOf(work.event),
    state: row.state,
    because: row.because,
    next_attempt_at: row.nextAttemptAt,
  });
  attempts?.writeDataPoint(dataPointOf(finished));
}

/** The columns are documented in the README: new ones go to the end. */
function dataPointOf({ attempt, outcome, sample }: Finished): AnalyticsEngineDataPoint {
  const { event, destination } = attempt.work;
  const { exchange } = attempt;
  return {
    indexes: [destination.id],
    blobs: [
      destination.tenant,
      event.type,
      sample.result,
      outcome.row.state,
      outcome.row.because,
      deliveryId(event.id, destination.id),
    ],
    doubles: [
      sample.attempt,
      exchange.kind === "response" ? exchange.status : 0,
      sample.tookMs,
      sample.lateMs,
    ],
  };
}
