/**
 * The meaning of an attempt, or of its absence, for a delivery: the row to write, and when its message must come again.
 *
 * Pure functions. Only an attempt counts as an attempt and moves the schedule; waiting, recovery and cancellation do
 * neither.
 */

import type { Refusal } from "../core/admit.ts";
import type { AttemptMetric } from "../core/metrics.ts";
import { standsBehind } from "../core/order.ts";
import { type Cause, causeOf, resultOf } from "../core/retry/classify.ts";
import { ageLimitOf, type RetryPolicy } from "../core/retry/policy.ts";
import { type Transition, transition } from "../core/retry/transition.ts";
import { dueAtOf, type LoadedDelivery, liveUntilOf } from "../store/deliveries.ts";
import { type AttemptEntry, type DeliveryRecord, type DeliveryRow, entriesIn } from "../store/delivery.ts";
import { isSubscription, retryPolicyOf } from "../store/destination.ts";
import type { Attempt } from "./http.ts";

/** The action that a delivery needs. */
export type Disposition = Readonly<{
  delivery: LoadedDelivery;
  /** The row to write; undefined when nothing has changed. */
  row?: DeliveryRecord;
  /** When its message must come again, epoch ms; undefined when this message, or this drain, is done with it. */
  retryAt?: number;
  /** The answer was 410: the destination is to be paused. */
  gone?: boolean;
}>;

/** A finished attempt: the disposition of its delivery, and what is counted. */
export type Finished = Readonly<{
  attempt: Attempt;
  outcome: DeliveryOutcome;
  metric: AttemptMetric;
  isGoneAlone?: boolean;
}>;

type DeliveryOutcome = Readonly<{ row: DeliveryRecord; transition: Transition }>;

/** Characters that the log keeps of an answer once there is a later attempt. The archive keeps a failed attempt whose answer has more. */
export const SHORT_ANSWER = 512;
/** Attempts that a delivery's log keeps: with more of them the oldest go. */
const LOG_ENTRIES = 40;

/** @param random in [0, 1), the jitter */
export function finish(attempt: Attempt, policy: RetryPolicy, random: number): Finished {
  const outcome = outcomeOf(attempt, policy, random);
  const isGoneAlone = isSubscription(attempt.delivery.destination);
  return { attempt, outcome, metric: attemptMetricOf(attempt, outcome), ...(isGoneAlone && { isGoneAlone }) };
}

/** @param owner the message that delivers the retry, if there is one; without, it is that of the bundle */
export function attemptDisposition({ attempt, outcome }: Finished, owner: string | undefined): Disposition {
  const { delivery } = attempt;
  const { row, transition } = outcome;
  switch (transition.kind) {
    case "delivered":
      return { delivery, row };
    case "dead":
      return { delivery, row, gone: transition.reason === "gone" && !isSubscription(delivery.destination) };
    case "retry":
      return { delivery, row: { ...row, owner }, retryAt: transition.at };
  }
}

/**
 * A delivery that already waits is not written again, because the gate knows the current reason. Nor is one behind
 * another of its line, which will wait when that one has ended.
 */
export function waitingDisposition(delivery: LoadedDelivery, refusal: Refusal): Disposition {
  return delivery.row?.state === "waiting" || standsBehind(delivery)
    ? { delivery }
    : { delivery, row: waitingRow(delivery, refusal) };
}

/**
 * Its destination's transformation makes no request: it waits for another version, even if it waited for something
 * else.
 */
export function faultyDisposition(delivery: LoadedDelivery): Disposition {
  const refusal = { reason: "transform_failed", until: null } as const;
  const isKnown = delivery.row?.reason === refusal.reason;
  return isKnown || standsBehind(delivery) ? { delivery } : { delivery, row: waitingRow(delivery, refusal) };
}

/** The dispositions that end a delivery as dead, as they are published. */
export function deadAmong(dispositions: readonly Disposition[]) {
  return dispositions.flatMap(({ delivery: { event, destination }, row }) =>
    row?.state === "dead" ? [{ event: event.id, destination, reason: row.reason }] : [],
  );
}

/**
 * The row as it is, or as it would be if it had been written at acceptance. A row loaded as in flight is changed
 * only when it is overdue (triage), because its sender is lost by then.
 */
export function currentRow({ event, destination, row, place }: LoadedDelivery): DeliveryRecord {
  const liveUntil = liveUntilOf(event);
  return {
    ...(row ?? {
      destinationId: destination.id,
      eventId: event.id,
      state: "waiting",
      reason: null,
      attempts: 0,
      nextAttemptAt: event.deliverAt,
      generation: 0,
      firstAttemptAt: null,
      giveUpAt: ageLimitOf(retryPolicyOf(destination), null, dueAtOf(event), liveUntil),
      endedAt: null,
      lastStatus: null,
      lastError: null,
      replay: null,
      log: [],
    }),
    ...(liveUntil !== undefined && { hasOwnLimit: true }),
    ...(row && { log: entriesIn(row.log) }),
    ...(row?.state === "in_flight" && { hasLostSender: true }),
    ...(place && { place }),
    ...(place && row && { hasRow: true }),
  };
}

/** Refused: the reason, and when it may be admitted. */
export function waitingRow(delivery: LoadedDelivery, refusal: Refusal): DeliveryRecord {
  const { reason, until } = refusal;
  return { ...currentRow(delivery), state: "waiting", reason, nextAttemptAt: until };
}

/** Sent and not answered yet. Should this Worker die, the sweep recovers it after `recoverAt`. */
export function inFlightRow(delivery: LoadedDelivery, recoverAt: number): DeliveryRecord {
  return { ...currentRow(delivery), state: "in_flight", reason: null, nextAttemptAt: recoverAt };
}

/** Ended without an attempt. */
export function overRow(
  delivery: LoadedDelivery,
  state: "dead" | "cancelled",
  reason: NonNullable<DeliveryRow["reason"]>,
  now: number,
): DeliveryRecord {
  return { ...currentRow(delivery), state, reason, nextAttemptAt: null, endedAt: now };
}

function outcomeOf(attempt: Attempt, policy: RetryPolicy, random: number): DeliveryOutcome {
  const { delivery, exchange, startedAt, endedAt } = attempt;
  const before = withAgeLimit(currentRow(delivery), startedAt, policy, liveUntilOf(delivery.event));
  const attempts = before.attempts + 1;
  const sameCause = 1 + countOfCause(causeOf(exchange), before);
  const history = { attempts, sameCause, giveUpAt: before.giveUpAt, ...previousDelay(before) };
  const next = transition(exchange, history, policy, endedAt, random);
  const row = {
    ...before,
    ...stateAfter(next, endedAt),
    attempts,
    lastStatus: exchange.status ?? null,
    lastError: next.kind === "delivered" ? null : causeOf(exchange),
    log: logWith(before.log, entryOf(attempt, next)),
    owner: undefined,
  };
  return { row, transition: next };
}

/**
 * The first attempt fixes the age limit for good: a policy that is changed later leaves it as it is. A delivery that an
 * operator or a replay sends again is not bound by the time to live, which is over by then.
 */
function withAgeLimit(
  row: DeliveryRecord,
  startedAt: number,
  policy: RetryPolicy,
  liveUntil: number | undefined,
): DeliveryRecord {
  if (row.firstAttemptAt !== null) return row;
  const bound = row.generation === 0 ? liveUntil : undefined;
  return { ...row, firstAttemptAt: startedAt, giveUpAt: ageLimitOf(policy, startedAt, startedAt, bound) };
}

/** How many attempts of this generation had this cause, among those that the log still has. */
function countOfCause(cause: Cause, { log, attempts }: DeliveryRow): number {
  const ofThisGeneration = log.slice(Math.max(0, log.length - attempts));
  return ofThisGeneration.filter(({ status, error }) => cause === (error ?? `http_${status}`)).length;
}

/** The wait before the attempt just made: from the end of the last one until it was due. */
function previousDelay({ log, nextAttemptAt }: DeliveryRow): { previousDelayMs?: number } {
  const last = log.at(-1);
  if (!last || nextAttemptAt === null) return {};
  return { previousDelayMs: Math.max(0, nextAttemptAt - last.at - last.latencyMs) };
}

function stateAfter(
  next: Transition,
  now: number,
): Pick<DeliveryRow, "state" | "reason" | "nextAttemptAt" | "endedAt"> {
  switch (next.kind) {
    case "delivered":
      return { state: "delivered", reason: null, nextAttemptAt: null, endedAt: now };
    case "dead":
      return { state: "dead", reason: next.reason, nextAttemptAt: null, endedAt: now };
    case "retry":
      return { state: "retrying", reason: next.reason, nextAttemptAt: next.at, endedAt: null };
  }
}

function entryOf(attempt: Attempt, next: Transition): AttemptEntry {
  const { exchange, startedAt, endedAt, location, excerpt, isArchived } = attempt;
  const notes = [next.kind !== "delivered" && next.note, location && `Location: ${location.slice(0, 200)}`];
  const note = notes.filter(Boolean).join("; ");
  return {
    at: startedAt,
    latencyMs: endedAt - startedAt,
    ...(exchange.status !== undefined && { status: exchange.status }),
    ...(exchange.kind !== "response" && { error: exchange.kind }),
    ...(note && { note }),
    ...(excerpt && { excerpt }),
    ...(isArchived && next.kind !== "delivered" && { archived: true }),
  };
}

/**
 * Characters of answers that a log keeps in all: the newest one as far as it was read (EXCERPT_BYTES in http.ts), and the
 * beginnings of those before it (`SHORT_ANSWER`) while there is room. A row is written again with each attempt, and lists read all of it.
 */
const LOG_EXCERPTS = 6_144;

function logWith(log: readonly AttemptEntry[], entry: AttemptEntry): readonly AttemptEntry[] {
  let room = LOG_EXCERPTS - (entry.excerpt?.length ?? 0);
  const past = log
    .slice(1 - LOG_ENTRIES)
    .toReversed()
    .map(({ excerpt = "", ...rest }): AttemptEntry => {
      const kept = excerpt.slice(0, Math.max(0, Math.min(SHORT_ANSWER, room))).toWellFormed();
      room -= kept.length;
      return { ...rest, ...(kept && { excerpt: kept }) };
    });
  return [...past.toReversed(), entry];
}

const metricEnds = { delivered: "delivered", retry: "again", dead: "dead" } as const;

function attemptMetricOf(attempt: Attempt, { row, transition }: DeliveryOutcome): AttemptMetric {
  const { delivery, exchange, startedAt, endedAt } = attempt;
  return {
    attempt: row.attempts,
    result: resultOf(exchange),
    end: metricEnds[transition.kind],
    tookMs: endedAt - startedAt,
    lateMs: Math.max(0, startedAt - attemptDueAt(delivery, startedAt)),
  };
}

/** When the attempt should have been made: a first one when the event was due, others at their scheduled time. */
function attemptDueAt({ event, row }: LoadedDelivery, startedAt: number): number {
  return row && row.attempts > 0 ? (row.nextAttemptAt ?? startedAt) : dueAtOf(event);
}
