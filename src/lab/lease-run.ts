/**
 * A lease at work, without awaiting anything: what src/delivery/run-lease.ts does, in virtual time. It begins
 * with the lease's width, moves its own copy of the condition with each answer, and stops when that shuts the
 * door or when an answer takes too long.
 */

import type { DestinationState } from "../policy/condition.ts";
import { destinationStateAfter, type AttemptSignal, blockedBy, withLearned } from "../policy/condition.ts";
import type { GateSettings } from "../policy/gate-settings.ts";
import type { Grant } from "../policy/lease.ts";
import { backsOff, type Exchange, healthOf } from "../policy/outcome.ts";
import { sendSlotsOf } from "../policy/places.ts";
import { holdUntil } from "../policy/transition.ts";
import { widthOf } from "../policy/window.ts";
import type { Job } from "./job-queue.ts";
import type { Scene } from "./sender.ts";

export type LeaseOrder = Readonly<{
  grant: Grant;
  jobs: readonly Job[];
  settings: GateSettings;
  /** An attempt without an answer for so long ends the starting of others. */
  patienceMs: number;
  /** What the gate has learned meanwhile. */
  news: () => DestinationState;
  answered: (job: Job, exchange: Exchange, signal: AttemptSignal) => void;
  /** What will not be started under this lease: told as soon as that is known. */
  left: (jobs: readonly Job[]) => void;
  /** All attempts have ended. */
  over: (signals: readonly AttemptSignal[], left: number, tat: number | undefined) => void;
}>;

export function runLease({ engine, attempt }: Scene, order: LeaseOrder): void {
  const { grant, settings } = order;
  const askedAt = engine.now();
  const queue = [...order.jobs];
  const running = new Set<Job>();
  const signals: AttemptSignal[] = [];
  const slots = sendSlotsOf(grant, askedAt);
  const startsUntil = askedAt + grant.startWithinMs;
  let destinationState = grant.destinationState;
  let planned = false;
  let stopped = false;
  let left = 0;

  function width(): number {
    const allowed = ({ window }: DestinationState) => widthOf(window, settings.maxConcurrency);
    return Math.max(1, Math.min(grant.slots, grant.width + allowed(destinationState) - allowed(grant.destinationState)));
  }

  function mayStart(): boolean {
    destinationState = withLearned(destinationState, order.news());
    return (
      !stopped &&
      engine.now() < startsUntil &&
      (slots.nextAt() ?? startsUntil) < startsUntil &&
      queue.length > 0 &&
      !blockedBy(destinationState, settings, engine.now())
    );
  }

  function goOn(): void {
    while (!planned && running.size < width() && mayStart()) {
      const from = slots.nextAt() ?? 0;
      if (from > engine.now()) plan(from);
      else start();
    }
    if (!planned && (running.size === 0 || !mayStart())) leave();
    if (!planned && running.size === 0) order.over(signals, left, slots.tat());
  }

  function plan(at: number): void {
    planned = true;
    engine.at(at, () => {
      planned = false;
      goOn();
    });
  }

  function start(): void {
    const job = queue.shift();
    if (!job) return;
    slots.claim();
    slots.use(engine.now());
    running.add(job);
    const startedAt = engine.now();
    job.firstAttemptAt ??= startedAt;
    engine.after(order.patienceMs, () => giveUpOn(job));
    attempt(job.delivery, (exchange) => answer(job, exchange, startedAt), settings.timeoutMs);
  }

  function answer(job: Job, exchange: Exchange, startedAt: number): void {
    const at = engine.now();
    const hold = holdUntil(exchange, at);
    const signal: AttemptSignal = {
      at,
      health: healthOf(exchange),
      backsOff: backsOff(exchange),
      tookMs: at - startedAt,
      ...(hold !== undefined && { holdUntil: hold }),
    };
    running.delete(job);
    signals.push(signal);
    destinationState = destinationStateAfter(destinationState, signal, settings, engine.random());
    order.answered(job, exchange, signal);
    goOn();
  }

  function giveUpOn(job: Job): void {
    if (!running.has(job)) return;
    stopped = true;
    leave();
  }

  function leave(): void {
    left += queue.length;
    if (queue.length > 0) order.left(queue.splice(0));
  }

  goOn();
}
