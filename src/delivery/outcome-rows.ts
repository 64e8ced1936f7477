/**
 * What is written for a delivery: pure functions from what happened to the row that says so. Only an
 * attempt counts as an attempt and moves the schedule; waiting, recovery and cancellation do neither.
 */
import type { Refusal } from "../policy/ask.ts";
import { causeOf } from "../policy/outcome.ts";
import type { RetryPolicy } from "../policy/retry-policy.ts";
import { type Transition, transition } from "../policy/transition.ts";
import { retryPolicyOf } from "../store/destination-settings.ts";
import type { AttemptEntry } from "../store/schema.ts";
import { type DeliveryRow, dueAtOf, type Work } from "../store/work.ts";
import type { Attempt } from "./send.ts";

/** Entries that a delivery's log keeps: with more attempts the oldest go. */
const LOG_ENTRIES = 40;

/** The row as it stands, or as it would stand if it had been written at acceptance. */
export function standing(work: Work): DeliveryRow {
  const { event, destination, row } = work;
  return (
    row ?? {
      destinationId: destination.id,
      eventId: event.id,
      state: "waiting",
      because: null,
      attempts: 0,
      nextAttemptAt: event.deliverAt ?? null,
      giveUpAt: dueAtOf(event) + retryPolicyOf(destination).giveUpAfterMs,
      endedAt: null,
      lastStatus: null,
      lastError: null,
      replay: null,
      log: [],
    }
  );
}

/** Turned away at the door: the reason, and when it may open. */
export function waitingRow(work: Work, refusal: Refusal): DeliveryRow {
  return { ...standing(work), state: "waiting", because: refusal.reason, nextAttemptAt: refusal.until };
}

/** Sent and not answered yet. Should this worker die, the sweep takes it up again after `recoverAt`. */
export function inFlightRow(work: Work, recoverAt: number): DeliveryRow {
  return { ...standing(work), state: "retrying", because: "in_flight", nextAttemptAt: recoverAt };
}

/** Ended without an attempt. */
export function overRow(work: Work, state: "dead" | "cancelled", because: string, now: number): DeliveryRow {
  return { ...standing(work), state, because, nextAttemptAt: null, endedAt: now };
}

export type Outcome = Readonly<{ row: DeliveryRow; transition: Transition }>;

/** What an attempt makes of its delivery. `random` in [0, 1) is the jitter. */
export function outcomeOf(attempt: Attempt, policy: RetryPolicy, random: number): Outcome {
  const { work, exchange, endedAt } = attempt;
  const before = standing(work);
  const attempts = before.attempts + 1;
  const history = { attempts, giveUpAt: before.giveUpAt, ...previousDelay(before) };
  const next = transition(exchange, history, policy, endedAt, random);
  const row = {
    ...before,
    ...stateAfter(next, endedAt),
    attempts,
    lastStatus: exchange.kind === "response" ? exchange.status : null,
    lastError: next.kind === "delivered" ? null : causeOf(exchange),
    log: [...before.log.map(withoutExcerpt), entryOf(attempt, next)].slice(-LOG_ENTRIES),
  };
  return { row, transition: next };
}

function stateAfter(
  next: Transition,
  now: number,
): Pick<DeliveryRow, "state" | "because" | "nextAttemptAt" | "endedAt"> {
  switch (next.kind) {
    case "delivered":
      return { state: "delivered", because: null, nextAttemptAt: null, endedAt: now };
    case "dead":
      return { state: "dead", because: next.because, nextAttemptAt: null, endedAt: now };
    case "retry":
      return { state: "retrying", because: next.because, nextAttemptAt: next.at, endedAt: null };
  }
}

function entryOf(attempt: Attempt, next: Transition): AttemptEntry {
  const { exchange, startedAt, endedAt, location, excerpt } = attempt;
  const notes = [
    next.kind === "delivered" ? undefined : next.note,
    location && `Location: ${location.slice(0, 200)}`,
  ];
  const note = notes.filter(Boolean).join("; ");
  return {
    at: startedAt,
    latencyMs: endedAt - startedAt,
    ...(exchange.kind === "response" ? { status: exchange.status } : { error: exchange.kind }),
    ...(note && { note }),
    ...(excerpt && { excerpt }),
  };
}

/** Only the last attempt keeps the receiver's words. */
function withoutExcerpt({ excerpt: _, ...entry }: AttemptEntry): AttemptEntry {
  return entry;
}

/** How long the attempt just made had been waited for: the last one's end to its time. */
function previousDelay({ log, nextAttemptAt }: DeliveryRow): { previousDelayMs?: number } {
  const last = log.at(-1);
  if (!last || nextAttemptAt === null) return {};
  return { previousDelayMs: Math.max(0, nextAttemptAt - last.at - last.latencyMs) };
}
