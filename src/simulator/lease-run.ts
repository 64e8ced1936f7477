/**
 * A lease at work, without awaiting anything: what src/delivery/lease-runner.ts does, in virtual time. It begins
 * with the lease's width, moves its own copy of the condition with each answer, and stops when that shuts the
 * door or when an answer takes too long.
 */

import { widthOf } from "../core/concurrency-window.ts";
import {
  type AttemptSignal,
  blockedBy,
  type DestinationState,
  destinationStateAfter,
  withLearned,
} from "../core/destination-state.ts";
import type { Grant } from "../core/lease.ts";
import type { GateSettings } from "../core/limits.ts";
import { sendSlotsOf } from "../core/rate-limit.ts";
import { backsOff, type Exchange, healthOf } from "../core/retry/classify.ts";
import { holdUntil } from "../core/retry/transition.ts";
import type { Ledger } from "./figures.ts";
import type { Job } from "./job-queue.ts";
import type { Receiver } from "./receiver.ts";
import type { Scene } from "./simulate-outage.ts";
import type { VirtualTime } from "./virtual-time.ts";

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
    return Math.max(
      1,
      Math.min(grant.slots, grant.width + allowed(destinationState) - allowed(grant.destinationState)),
    );
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

// §§ Between senders and receivers: what a sender can do, what it is told, and how long the way is.

/** One way between a sender and a receiver. */
export const WIRE_MS = 10;

/** Attempts one delivery; `answer` is called exactly once, after `timeoutMs` at the latest. */
export type Attempt = (delivery: number, answer: (exchange: Exchange) => void, timeoutMs: number) => void;

/** Attempts over the wire to the receiver of each delivery, all of them entered in the ledger. */
export function attemptsTo(
  engine: VirtualTime,
  receivers: readonly Receiver[],
  receiverOf: (delivery: number) => number,
  ledger: Ledger,
): Attempt {
  return (delivery, answer, timeoutMs) => {
    const place = receiverOf(delivery);
    const receiver = receivers[place];
    if (!receiver) throw new Error(`Delivery ${delivery} has no receiver`);
    let over = false;
    const end = (exchange: Exchange) => {
      if (over) return;
      over = true;
      ledger.answered(delivery, place, exchange, engine.now());
      answer(exchange);
    };
    engine.after(timeoutMs, () => end({ kind: "timeout" }));
    engine.after(WIRE_MS, () => {
      ledger.arrived(place, engine.now());
      receiver.take((exchange) => engine.after(WIRE_MS, () => end(exchange)));
    });
  };
}
