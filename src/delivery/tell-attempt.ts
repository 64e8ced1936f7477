/**
 * What is told of each attempt as it ends: one canonical line, and where Analytics Engine is bound one data
 * point. Ids and figures; nothing of the payload, no secret.
 */
import { deliveryId, eventId } from "../id.ts";
import type { Services } from "../services.ts";
import { dueAtOf } from "../store/work.ts";
import { leaveDataPoint } from "./data-point.ts";
import type { Finished } from "./run-lease.ts";

export function tellAttempt(services: Services, finished: Finished): void {
  const { attempt, outcome, sample } = finished;
  const { work, exchange, startedAt, fault } = attempt;
  const { row } = outcome;
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
    latency_ms: sample.tookMs,
    late_ms: sample.lateMs,
    age_ms: startedAt - dueAtOf(work.event),
    state: row.state,
    because: row.because,
    next_attempt_at: row.nextAttemptAt,
    uncounted: leaveDataPoint(services, finished),
  });
}
