/**
 * Using a lease: attempts over as many connections as the destination's window allows at the moment.
 *
 * It begins with the lease's width, widens with each success, narrows with trouble, and stops at once when
 * an outcome shuts the door: the same pure functions that the gate uses, on a copy of its condition. What
 * was not started is left over, not lost.
 */

import { widthOf } from "../core/concurrency-window.ts";
import {
  type AttemptSignal,
  type Block,
  blockedBy,
  carriedOver,
  destinationStateAfter,
  withLearned,
} from "../core/destination-state.ts";
import { type Grant, startsUntil } from "../core/lease.ts";
import type { GateSettings } from "../core/limits.ts";
import type { AttemptMetric } from "../core/metrics.ts";
import { sendSlotsOf } from "../core/rate-limit.ts";
import { backsOff, causeOf, healthOf } from "../core/retry/classify.ts";
import type { RetryPolicy } from "../core/retry/policy.ts";
import { holdUntil } from "../core/retry/transition.ts";
import type { LoadedDelivery } from "../db/deliveries.ts";
import { destinationStateAtGate, holdAtGate } from "../gate/client.ts";
import type { Services } from "../services.ts";
import { attemptMetricOf } from "./attempt-log.ts";
import { type Attempt, type Connections, send } from "./http.ts";
import type { Outcome } from "./outcome.ts";
import { outcomeOf } from "./outcome.ts";
import type { Signer } from "./signature.ts";

export type LeaseOrder = Readonly<{
  destination: string;
  grant: Grant;
  works: readonly LoadedDelivery[];
  settings: GateSettings;
  policy: RetryPolicy;
  signer: Signer;
  /** An attempt without an answer for so long is awaited no more. */
  patienceMs: number;
  /** When the grant arrived, by this worker's clock: its times count from then. */
  grantedAt: number;
}>;

/** A lease in use asks the gate so often whether others have found the door shut: a hold is for all of them. */
const NEWS_MS = 1_000;

/** An attempt that has ended, what it makes of its delivery, and what is counted of it. */
export type Finished = Readonly<{ attempt: Attempt; outcome: Outcome; metric: AttemptMetric }>;

/** A lease at work. The lists change while it runs. */
export type LeaseRun = Readonly<{
  done: readonly Finished[];
  /** One per attempt that has ended, in the order of their ends. */
  signals: readonly AttemptSignal[];
  /** Started and not answered yet, the longest first, and when. */
  running: ReadonlyMap<LoadedDelivery, number>;
  /** Not started yet, or never. */
  queue: readonly LoadedDelivery[];
  /** Whether its outcomes have shut the door, and until when. */
  shut: () => Block | undefined;
  /** Whether it has time left to start attempts in, but the rate allows the next one only after it. */
  unplaced: () => boolean;
  /** The rate's theoretical arrival time by what was started, by this worker's clock; undefined when nothing was. */
  tat: () => number | undefined;
  /** True when what is left of it takes no longer than to be let in again; false when it is over without that. */
  nearlyOver: Promise<boolean>;
  /** All attempts have ended, or nothing more is started: one has been without an answer for too long. */
  enough: Promise<void>;
  finished: Promise<void>;
  /** Goes on with the next lease over the same connections: as each of them has nothing more to start under this one. */
  goOnWith: (order: LeaseOrder) => LeaseRun;
}>;

/** To look at what waits, to ask for it and to load it, each of which is slow at times. */
const AHEAD_MS = 700;
/** A receiver that takes longer than that may hang next: nobody plans ahead for it. */
const QUICK_MS = 1_000;

/** One lease of those that are worked off over the same connections. */
type Part = Readonly<{
  run: LeaseRun;
  queue: LoadedDelivery[];
  /** Whether one of them could start now, or has its time. */
  mayStart: () => boolean;
  hasSlot: () => boolean;
  /** When the next may start. It is the caller's then, to be started or given back. */
  claim: () => number;
  /** Starts the next one and awaits its end. */
  attemptNext: () => Promise<void>;
  /** Looks whether it is nearly over, or over. */
  look: () => void;
  fail: (error: unknown) => void;
}>;

export function runLease(services: Services, connections: Connections, order: LeaseOrder): LeaseRun {
  const { destination } = order;
  const running = new Map<LoadedDelivery, number>();
  const impatient = Promise.withResolvers<void>();
  let parts: readonly Part[] = [];
  let { grant, settings } = order;
  let { destinationState } = grant;
  let newsAt = order.grantedAt;
  let stopped = false;
  let watched = false;
  let gone = false;
  let lines = 0;

  function width(): number {
    const allowed = (window: typeof destinationState.window) => widthOf(window, settings.maxConcurrency);
    const growth = allowed(destinationState.window) - allowed(grant.destinationState.window);
    return Math.max(1, Math.min(grant.slots, grant.width + growth));
  }

  function isOpen(): boolean {
    return !stopped && !gone && blockedBy(destinationState, settings, services.now()) === undefined;
  }

  async function hearNews(): Promise<void> {
    if (services.now() - newsAt < NEWS_MS) return;
    newsAt = services.now();
    const news = await destinationStateAtGate(services, destination);
    if (news) destinationState = withLearned(destinationState, news);
  }

  function spreadNews(until: number): void {
    services.background(holdAtGate(services, destination, until));
  }

  function learn(finished: Finished): AttemptSignal {
    gone ||= causeOf(finished.attempt.exchange) === "http_410";
    const signal = signOf(finished);
    if ((signal.holdUntil ?? 0) > destinationState.heldUntil) spreadNews(signal.holdUntil ?? 0);
    destinationState = destinationStateAfter(destinationState, signal, settings, services.random());
    return signal;
  }

  /** Until one has been without an answer for too long. One timer for all: each of them costs the runtime much. */
  async function watch(): Promise<void> {
    watched = true;
    for (let [longest] = running; longest; [longest] = running) {
      const [work, startedAt] = longest;
      await services.sleep(Math.max(0, startedAt + order.patienceMs - services.now()));
      if (!running.has(work)) continue;
      stopped = true;
      impatient.resolve();
      for (const part of parts) part.look();
      return;
    }
    watched = false;
  }

  function partOf({ grant: granted, works, grantedAt, policy, signer, patienceMs }: LeaseOrder): Part {
    const { timeoutMs } = settings;
    const readyAt = services.now();
    const startsUntilAt = startsUntil(granted, grantedAt, readyAt, timeoutMs);
    const queue = [...works];
    const done: Finished[] = [];
    const signals: AttemptSignal[] = [];
    const own = new Map<LoadedDelivery, number>();
    const slots = sendSlotsOf(granted, grantedAt);
    const near = Promise.withResolvers<boolean>();
    const over = Promise.withResolvers<void>();
    let claimed = 0;

    function isInTime(): boolean {
      return services.now() < startsUntilAt;
    }

    /** Whether the rate allows another attempt before the lease's time for starting any is over. */
    function hasSlot(): boolean {
      return (slots.nextAt() ?? startsUntilAt) < startsUntilAt;
    }

    function mayStart(): boolean {
      return isOpen() && isInTime() && queue.length > 0;
    }

    function claim(): number {
      claimed += 1;
      return slots.claim() ?? 0;
    }

    /** In a slot that was claimed. Another may have started later than its own said: then this one is not free yet. */
    async function attemptNext(): Promise<void> {
      await hearNews();
      claimed -= 1;
      const work = slots.isFree(services.now()) && mayStart() ? queue.shift() : undefined;
      if (!work) return slots.giveBack();
      slots.use(services.now());
      own.set(work, services.now());
      running.set(work, services.now());
      if (!watched) void watch();
      const attempt = await send(services, work, { timeoutMs, signer });
      own.delete(work);
      running.delete(work);
      const outcome = outcomeOf(attempt, policy, services.random());
      const finished = { attempt, outcome, metric: attemptMetricOf(attempt, outcome) };
      done.push(finished);
      signals.push(learn(finished));
    }

    function look(): void {
      const { tookMs } = destinationState;
      const isQuick = tookMs > 0 && tookMs <= QUICK_MS;
      if (!isOpen()) near.resolve(false);
      if (isQuick && (queue.length * tookMs) / width() <= AHEAD_MS) near.resolve(true);
      if (own.size + claimed > 0 || (mayStart() && hasSlot())) return;
      near.resolve(false);
      over.resolve();
    }

    function fail(error: unknown): void {
      near.resolve(false);
      over.reject(error);
    }

    // A receiver that is gone is about to be paused: what is left waits for a person.
    const shut = () => blockedBy(destinationState, { paused: settings.paused || gone }, services.now());
    const unplaced = () => isInTime() && !hasSlot();
    // By then nothing is started any more; what still queues for a connection behind others' waits instead.
    const overdue = services.sleep(Math.max(0, startsUntilAt - readyAt) + patienceMs);
    void overdue.then(() => near.resolve(false));
    const finished = over.promise;
    const enough = Promise.race([finished, impatient.promise, overdue]);
    const ends = { nearlyOver: near.promise, enough, finished };
    const run = { done, signals, running: own, queue, shut, unplaced, tat: slots.tat, ...ends, goOnWith };
    return { run, queue, mayStart, hasSlot, claim, attemptNext, look, fail };
  }

  function next(): Part | undefined {
    return parts.find((part) => part.mayStart() && part.hasSlot());
  }

  function openLines(): void {
    while (lines < width() && next()) {
      line().catch((error: unknown) => {
        for (const part of parts) part.fail(error);
      });
    }
  }

  /** One attempt after the other. Opens more lines when the window has grown, ends when it has shrunk. */
  async function line(): Promise<void> {
    lines += 1;
    for (let part = next(); part && lines <= width(); part = next()) {
      const at = part.claim();
      if (at > services.now()) await services.sleep(at - services.now());
      await connections.run(destination, part.attemptNext);
      openLines();
      for (const each of parts) each.look();
    }
    lines -= 1;
    for (const each of parts) each.look();
  }

  function begin(part: Part): LeaseRun {
    parts = [...parts, part];
    const leave = () => {
      parts = parts.filter((other) => other !== part);
    };
    part.run.finished.then(leave, leave);
    openLines();
    part.look();
    return part.run;
  }

  function goOnWith(following: LeaseOrder): LeaseRun {
    destinationState = carriedOver(
      destinationState,
      grant.destinationState,
      following.grant.destinationState,
    );
    ({ grant, settings } = following);
    return begin(partOf(following));
  }

  return begin(partOf(order));
}

function signOf({ attempt, metric }: Finished): AttemptSignal {
  const { exchange, endedAt, limits } = attempt;
  const spent = limits?.remaining === 0 ? limits.resetAt : 0;
  const hold = Math.max(holdUntil(exchange, endedAt) ?? 0, spent);
  return {
    at: endedAt,
    health: healthOf(exchange),
    backsOff: backsOff(exchange),
    tookMs: metric.tookMs,
    metric,
    ...(hold > 0 && { holdUntil: hold }),
    ...(limits && { remaining: limits.remaining }),
  };
}
