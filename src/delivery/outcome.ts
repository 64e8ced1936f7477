/**
 * What is to become of the deliveries of a group: what to write, and what to do next with each. Read off
 * a run at two moments: when the worker's patience ends, and when the last answer has come.
 */
import type { Refusal } from "../core/admit.ts";
import { type Cause, causeOf } from "../core/retry/classify.ts";
import { ageLimitOf, type RetryPolicy } from "../core/retry/policy.ts";
import { type Transition, transition } from "../core/retry/transition.ts";
import { dueAtOf, type LoadedDelivery } from "../db/deliveries.ts";
import { retryPolicyOf } from "../db/destinations.ts";
import type { AttemptEntry, DeliveryRow } from "../db/schema.ts";
import type { Services } from "../services.ts";
import { logAttempt } from "./attempt-log.ts";
import type { Attempt } from "./http.ts";
import type { Finished } from "./lease-runner.ts";
import { type BatchRun, leftoverReason } from "./pipeline.ts";

// §§ What is written for a delivery: pure functions from what happened to the row that says so. Only an
// attempt counts as an attempt and moves the schedule; waiting, recovery and cancellation do neither.

/** Entries that a delivery's log keeps: with more attempts the oldest go. */
const LOG_ENTRIES = 40;

/** The row as it stands, or as it would stand if it had been written at acceptance. */
export function standing(work: LoadedDelivery): DeliveryRow {
  const { event, destination, row } = work;
  return (
    row ?? {
      destinationId: destination.id,
      eventId: event.id,
      state: "waiting",
      reason: null,
      attempts: 0,
      nextAttemptAt: event.deliverAt ?? null,
      generation: 0,
      firstAttemptAt: null,
      giveUpAt: ageLimitOf(retryPolicyOf(destination), null, dueAtOf(event)),
      endedAt: null,
      lastStatus: null,
      lastError: null,
      replay: null,
      log: [],
    }
  );
}

/** Turned away at the door: the reason, and when it may open. */
export function waitingRow(work: LoadedDelivery, refusal: Refusal): DeliveryRow {
  return { ...standing(work), state: "waiting", reason: refusal.reason, nextAttemptAt: refusal.until };
}

/** Sent and not answered yet. Should this worker die, the sweep takes it up again after `recoverAt`. */
function inFlightRow(work: LoadedDelivery, recoverAt: number): DeliveryRow {
  return { ...standing(work), state: "retrying", reason: "in_flight", nextAttemptAt: recoverAt };
}

/** Ended without an attempt. */
export function overRow(
  work: LoadedDelivery,
  state: "dead" | "cancelled",
  reason: NonNullable<DeliveryRow["reason"]>,
  now: number,
): DeliveryRow {
  return { ...standing(work), state, reason, nextAttemptAt: null, endedAt: now };
}

export type Outcome = Readonly<{ row: DeliveryRow; transition: Transition }>;

/** What an attempt makes of its delivery. `random` in [0, 1) is the jitter. */
export function outcomeOf(attempt: Attempt, policy: RetryPolicy, random: number): Outcome {
  const { work, exchange, startedAt, endedAt } = attempt;
  const before = withAgeLimit(standing(work), startedAt, policy);
  const attempts = before.attempts + 1;
  const sameCause = 1 + comeTo(causeOf(exchange), before);
  const history = { attempts, sameCause, giveUpAt: before.giveUpAt, ...previousDelay(before) };
  const next = transition(exchange, history, policy, endedAt, random);
  const row = {
    ...before,
    ...stateAfter(next, endedAt),
    attempts,
    lastStatus: exchange.kind === "response" ? exchange.status : null,
    lastError: next.kind === "delivered" ? null : causeOf(exchange),
    log: [...before.log.map(asPast), entryOf(attempt, next)].slice(-LOG_ENTRIES),
  };
  return { row, transition: next };
}

/** The first attempt fixes the age limit for good: a policy that is changed later leaves it as it is. */
function withAgeLimit(row: DeliveryRow, startedAt: number, policy: RetryPolicy): DeliveryRow {
  if (row.firstAttemptAt !== null) return row;
  return { ...row, firstAttemptAt: startedAt, giveUpAt: ageLimitOf(policy, startedAt, startedAt) };
}

/** How many attempts of this life have come to a cause, of those that the log still has. */
function comeTo(cause: Cause, { log, attempts }: DeliveryRow): number {
  const ofThisLife = log.slice(Math.max(0, log.length - attempts));
  return ofThisLife.filter(({ status, error }) => cause === (error ?? `http_${status}`)).length;
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

/** A retry, and the mark of the message that brings it; without, it is the one of its bundle. */
function ownedBy(row: DeliveryRow, owner: string | undefined): DeliveryRow {
  const last = row.log.at(-1);
  if (owner === undefined || row.state !== "retrying" || !last) return row;
  return { ...row, log: [...row.log.slice(0, -1), { ...last, owner }] };
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

/** Only the last attempt keeps the receiver's words, and tells who brings the next. */
function asPast({ excerpt: _, owner: __, ...entry }: AttemptEntry): AttemptEntry {
  return entry;
}

/** How long the attempt just made had been waited for: the last one's end to its time. */
function previousDelay({ log, nextAttemptAt }: DeliveryRow): { previousDelayMs?: number } {
  const last = log.at(-1);
  if (!last || nextAttemptAt === null) return {};
  return { previousDelayMs: Math.max(0, nextAttemptAt - last.at - last.latencyMs) };
}

export type Disposition = Readonly<{
  work: LoadedDelivery;
  /** What to write; undefined when nothing has changed. */
  row?: DeliveryRow;
  /** When to bring it again; undefined when this bringer is done with it. */
  againAt?: number;
  /** It answered 410: the destination is to be paused. */
  gone?: boolean;
}>;

type OwnerOf = (work: LoadedDelivery) => string | undefined;

/** For a gate that could not be reached: come back after this, spread over as much again. */
const UNREACHABLE_MS = 5_000;

/**
 * What a run has to say at this moment; what is running counts as on its way.
 * @param ownerOf the mark of the message that brings a retry
 */
export function runDispositions(
  services: Services,
  { run, recoverAt }: BatchRun,
  ownerOf: OwnerOf,
): Disposition[] {
  if (!run) return [];
  const leftover = leftoverReason(run, services.now());
  return [
    ...run.queue.map((work) => waitingVerdict(work, leftover)),
    ...[...run.running.keys()].map((work) => ({ work, row: inFlightRow(work, recoverAt) })),
    ...attemptDispositions(services, run.done, ownerOf),
  ];
}

/** What the gate's answer means for those of `works` that it did not let in. */
export function refusedDispositions(
  services: Services,
  { answer }: BatchRun,
  works: readonly LoadedDelivery[],
): Disposition[] {
  if (!answer) return works.map((work) => ({ work, againAt: unreachableUntil(services) }));
  const { refused, inFlight } = answer;
  if (!refused && !inFlight) return [];
  const turned = new Set(refused?.deliveries);
  const elsewhere = new Set(inFlight?.deliveries);
  return works.flatMap((work): Disposition[] => {
    if (refused && turned.has(work.event.id)) return [waitingVerdict(work, refused)];
    return inFlight && elsewhere.has(work.event.id) ? [{ work, againAt: inFlight.until }] : [];
  });
}

/** What waits already is not written again: the reason of the moment is the gate's to tell. */
function waitingVerdict(work: LoadedDelivery, refusal: Refusal): Disposition {
  return work.row?.state === "waiting" ? { work } : { work, row: waitingRow(work, refusal) };
}

function unreachableUntil({ now, random }: Services): number {
  return now() + UNREACHABLE_MS * (1 + random());
}

/** What finished attempts say. Each is told of as it is read off. */
export function attemptDispositions(
  services: Services,
  ended: readonly Finished[],
  ownerOf: OwnerOf,
): Disposition[] {
  return ended.map((finished) => {
    logAttempt(services, finished);
    return verdictOf(finished.attempt.work, finished.outcome, ownerOf);
  });
}

function verdictOf(work: LoadedDelivery, { row, transition }: Outcome, ownerOf: OwnerOf): Disposition {
  switch (transition.kind) {
    case "delivered":
      return { work, row };
    case "dead":
      return { work, row, gone: transition.reason === "gone" };
    case "retry":
      return { work, row: ownedBy(row, ownerOf(work)), againAt: transition.at };
  }
}
