/**
 * Uses leases: makes attempts over as many connections as the destination's window allows at the moment.
 *
 * A lease begins with its granted width, widens with each success, narrows with trouble, and stops at once when an
 * outcome blocks the destination: the same pure functions that the gate uses, on a copy of its state. Deliveries that
 * were not started are left over, not lost. A drain's next lease continues over the same connections, without a pause.
 *
 * Clock, timers, connections, HTTP and gate are the caller's, as `LeaseEffects`: production's are in
 * src/delivery/admission.ts, the simulator's in src/simulator/gated-sender.ts.
 *
 * Every connection in use has a sender, which repeats this cycle until nothing more may be started: claim a send slot →
 * wait for its time → wait for a connection → refresh the destination's state → attempt.
 */
import type { Refusal } from "./admit.ts";
import { widthOf } from "./concurrency-window.ts";
import {
  type AttemptSignal,
  blockedBy,
  carriedOver,
  type DestinationState,
  destinationStateAfter,
  withLearned,
} from "./destination-state.ts";
import { type Grant, startsUntil } from "./lease.ts";
import type { GateSettings } from "./limits.ts";
import type { AttemptMetric } from "./metrics.ts";
import { type SendSlots, sendSlotsOf } from "./rate-limit.ts";
import { backsOff, causeOf, type Exchange, healthOfExchange } from "./retry/classify.ts";
import type { StatedLimits } from "./retry/retry-after.ts";
import { holdUntil } from "./retry/transition.ts";

/** How often a worker queries the gate for the findings of other leases: a hold applies to all of them. */
const REFRESH_MS = 1_000;
/** The time to find waiting deliveries, to have them admitted and to load them, each of which is slow at times. */
const AHEAD_MS = 700;
/** A receiver that takes longer than this may hang next: no lease is prepared ahead for it. */
const QUICK_MS = 1_000;

/** How long the queue's consumer starts attempts under a lease, as long as answers come. */
export const CONSUMER_STARTS_MS = 5_000;
/** How long a drain starts attempts under one lease, and how long it awaits an answer. */
export const DRAIN_STEP_MS = 3_000;
/** How long one drain runs. Short, so that a queue of drains moves on; a drain's message costs little beside it. */
export const DRAIN_BUDGET_MS = 15_000;

/** How long the queue's consumer awaits an answer: a multiple of the receiver's usual time, within bounds. */
const PATIENCE_PER_MS = 20;
const SHORTEST_PATIENCE_MS = 200;
const LONGEST_PATIENCE_MS = 1_000;

/**
 * A receiver that either answers at once or hangs does not delay a batch as long as one that is always slow.
 * @param usualMs 0: not known
 */
export function consumerPatienceMs(usualMs: number): number {
  if (usualMs === 0) return LONGEST_PATIENCE_MS;
  return Math.min(LONGEST_PATIENCE_MS, Math.max(SHORTEST_PATIENCE_MS, PATIENCE_PER_MS * usualMs));
}

/**
 * How long a drain awaits an answer. A receiver that takes longer than a step is awaited in the background from the
 * start, and beside other drains every slow one: the drains that come next wait for the end of this invocation. A drain
 * by itself waits longer, and saves the row for deliveries in flight.
 * @param usualMs 0: not known
 */
export function drainPatienceMs(usualMs: number, isBeside: boolean): number {
  if (usualMs > (isBeside ? QUICK_MS : DRAIN_STEP_MS)) return SHORTEST_PATIENCE_MS;
  return isBeside ? consumerPatienceMs(usualMs) : DRAIN_STEP_MS;
}

/** The effects that the runner needs. */
export type LeaseEffects = Readonly<{
  /** Epoch ms. */
  now: () => number;
  /** Uniform in [0, 1). */
  random: () => number;
  sleep: (ms: number) => Promise<void>;
  /**
   * Runs the task as soon as a connection is free, which it is again when the task calls `free`, and at the latest when
   * the task ends.
   */
  withConnection: (task: (free: () => void) => Promise<void>) => Promise<void>;
  /** The gate's state of the destination; undefined when the gate cannot be reached. */
  readState: () => Promise<DestinationState | undefined>;
  /** Notifies the gate at once that the receiver wants no requests until then (epoch ms). */
  hold: (until: number) => void;
}>;

/** The result of an attempt, as far as the lease is concerned. */
export type AttemptResult = Readonly<{
  attempt: Readonly<{ exchange: Exchange; startedAt: number; endedAt: number; limits?: StatedLimits }>;
  metric?: AttemptMetric;
  /** A 410 is only about the delivery, and the destination continues. */
  isGoneAlone?: boolean;
}>;

export type LeaseOrder<Delivery, Result> = Readonly<{
  grant: Grant;
  settings: GateSettings;
  /** How long an attempt's answer is awaited. After that the attempt continues, but no others are started behind it. */
  patienceMs: number;
  /** When the grant arrived, by this worker's clock: its times count from then. */
  grantedAt: number;
  deliveries: readonly Delivery[];
  /** The order, if some are attempted one after the other; absent: any order. */
  sequence?: Sequence<Delivery, Result> | undefined;
  /** Makes an attempt; calls `free` when its connection is no longer needed, at the latest with the result. */
  send: (delivery: Delivery, free: () => void) => Promise<Result>;
}>;

/** Deliveries that start only when another of the lease has succeeded. */
type Sequence<Delivery, Result> = Readonly<{
  predecessors: ReadonlyMap<Delivery, Delivery>;
  isSuccess: (result: Result) => boolean;
}>;

/** A lease in use. The lists change while it is. The promises of its end reject when an effect fails. */
export type LeaseRun<Delivery, Result> = Readonly<{
  /** Not started yet, or never. */
  queue: readonly Delivery[];
  /** Started and not answered yet, the longest first, and when. */
  running: ReadonlyMap<Delivery, number>;
  done: readonly Result[];
  /** One for each attempt that has ended, in the order of their ends. */
  signals: readonly AttemptSignal[];
  /** True as soon as the remaining attempts take no longer than another admit call; false if the lease ends first. */
  readyForSuccessor: Promise<boolean>;
  /**
   * All attempts have ended, or nothing more is started, because one has been without an answer for too long: what is in
   * the queue stays there.
   */
  enough: Promise<void>;
  /** All attempts have ended. */
  finished: Promise<void>;
  /** The rate's theoretical arrival time by what was started, by this worker's clock; undefined when nothing was. */
  tat: () => number | undefined;
  /** Starts no more attempts, under this lease and those before and after it. */
  stop: () => void;
  /** The reason why left-over deliveries must wait. */
  leftoverReason: () => Refusal;
  /**
   * Continues with the next lease over the same connections, as soon as each of them has nothing more to start under
   * this one.
   */
  continueWith: (order: LeaseOrder<Delivery, Result>) => LeaseRun<Delivery, Result>;
}>;

/** Starts to use a lease. */
export function runLease<Delivery, Result extends AttemptResult>(
  effects: LeaseEffects,
  order: LeaseOrder<Delivery, Result>,
): LeaseRun<Delivery, Result> {
  return new LeaseRunner<Delivery, Result>(effects, order).begin(order);
}

/** The leases that are used one after the other, or overlapping, over the same connections to one destination. */
class LeaseRunner<Delivery, Result extends AttemptResult> {
  readonly #effects: LeaseEffects;
  readonly #patienceMs: number;
  readonly #running = new Map<Delivery, number>();
  #state: SendingState;
  #leases: readonly Lease<Delivery, Result>[] = [];
  #senders = 0;
  #isWatching = false;

  constructor(effects: LeaseEffects, first: LeaseOrder<Delivery, Result>) {
    this.#effects = effects;
    this.#patienceMs = first.patienceMs;
    this.#state = initialState(first);
  }

  begin(order: LeaseOrder<Delivery, Result>): LeaseRun<Delivery, Result> {
    this.#state = withLease(this.#state, order);
    const readyAt = this.#effects.now();
    const lease: Lease<Delivery, Result> = new Lease(order, readyAt, {
      leftoverReason: () => this.#leftoverReason(lease),
      stop: () => this.#stop("unrecorded"),
      continueWith: (next) => this.begin(next),
    });
    this.#leases = [...this.#leases, lease];
    this.#start(this.#endInTime(lease, readyAt));
    this.#openSenders();
    this.#look(lease);
    return lease;
  }

  #leftoverReason(lease: Lease<Delivery, Result>): Refusal {
    const now = this.#effects.now();
    const { destinationState, settings, stopped } = this.#state;
    // A destination that answered 410 is about to be paused: the remaining deliveries wait for its operator.
    const paused = settings.paused || stopped === "gone";
    const reason = lease.isRateBound(now) ? "rate" : "slow";
    return blockedBy(destinationState, { paused }, now) ?? { reason, until: now };
  }

  /** When an effect fails, no lease can be used any more. */
  #start(work: Promise<void>): void {
    void work.catch((error: unknown) => {
      const failed = this.#leases;
      this.#leases = [];
      for (const lease of failed) lease.fail(error);
    });
  }

  /** By then nothing is started any more; deliveries that still queue for a connection behind others' wait instead. */
  async #endInTime(lease: Lease<Delivery, Result>, readyAt: number): Promise<void> {
    await this.#sleepUntil(Math.max(readyAt, lease.startsUntilAt) + lease.order.patienceMs);
    lease.resolveSuccessor(false);
    lease.resolveEnough();
  }

  async #sleepUntil(at: number): Promise<void> {
    await this.#effects.sleep(Math.max(0, at - this.#effects.now()));
  }

  #openSenders(): void {
    while (this.#senders < widthAllowed(this.#state) && this.#nextLease()) {
      this.#senders += 1;
      this.#start(this.#send());
    }
  }

  /** One attempt after the other. Opens more senders when the window has grown, ends when it has shrunk. */
  async #send(): Promise<void> {
    for (let lease = this.#leaseToUse(); lease; lease = this.#leaseToUse()) {
      const used = lease;
      const at = used.claim();
      if (at > this.#effects.now()) await this.#sleepUntil(at);
      await this.#effects.withConnection((free) => this.#attemptNext(used, free));
      this.#openSenders();
      this.#lookAtAll();
    }
    this.#senders -= 1;
    this.#lookAtAll();
  }

  #leaseToUse(): Lease<Delivery, Result> | undefined {
    return this.#senders <= widthAllowed(this.#state) ? this.#nextLease() : undefined;
  }

  #nextLease(): Lease<Delivery, Result> | undefined {
    return this.#leases.find((lease) => this.#mayStart(lease) && lease.hasSlot());
  }

  #mayStart(lease: Lease<Delivery, Result>): boolean {
    const now = this.#effects.now();
    return isOpen(this.#state, now) && lease.isInTime(now) && lease.hasNext();
  }

  async #attemptNext(lease: Lease<Delivery, Result>, free: () => void): Promise<void> {
    if (this.#effects.now() - this.#state.refreshedAt >= REFRESH_MS) await this.#refresh();
    const startedAt = this.#effects.now();
    const delivery = lease.take(this.#mayStart(lease), startedAt);
    if (delivery === undefined) return;
    this.#running.set(delivery, startedAt);
    if (!this.#isWatching) this.#start(this.#watch());
    const result = await lease.order.send(delivery, free);
    this.#running.delete(delivery);
    lease.ended(delivery, result, this.#learn(result));
  }

  async #refresh(): Promise<void> {
    this.#state = { ...this.#state, refreshedAt: this.#effects.now() };
    const learned = await this.#effects.readState();
    if (!learned) return;
    const destinationState = withLearned(this.#state.destinationState, learned);
    this.#state = { ...this.#state, destinationState };
  }

  #learn(result: Result): AttemptSignal {
    const signal = signalOf(result);
    const { holdUntil: until = 0 } = signal;
    if (until > this.#state.destinationState.heldUntil) this.#effects.hold(until);
    this.#state = afterAttempt(this.#state, result, signal, this.#effects.random());
    return signal;
  }

  /**
   * Resolves when one attempt has had no answer for too long, or when none runs. All attempts share one timer, because an
   * invocation has few. One slow attempt decides, so watching ends with it.
   */
  async #watch(): Promise<void> {
    this.#isWatching = true;
    for (let [longest] = this.#running; longest; [longest] = this.#running) {
      const [delivery, startedAt] = longest;
      await this.#sleepUntil(startedAt + this.#patienceMs);
      if (this.#running.has(delivery)) return this.#stop("hanging");
    }
    this.#isWatching = false;
  }

  /** Running attempts are still awaited. */
  #stop(reason: NonNullable<SendingState["stopped"]>): void {
    const { stopped = reason } = this.#state;
    this.#state = { ...this.#state, stopped };
    for (const lease of this.#leases) lease.resolveEnough();
    this.#lookAtAll();
  }

  #lookAtAll(): void {
    for (const lease of this.#leases) this.#look(lease);
  }

  /** Checks whether the lease is ready for a successor, or has ended. */
  #look(lease: Lease<Delivery, Result>): void {
    const { tookMs } = this.#state.destinationState;
    const isQuick = tookMs > 0 && tookMs <= QUICK_MS;
    if (!isOpen(this.#state, this.#effects.now())) lease.resolveSuccessor(false);
    if (isQuick && (lease.queue.length * tookMs) / widthAllowed(this.#state) <= AHEAD_MS)
      lease.resolveSuccessor(true);
    if (lease.isBusy() || (this.#mayStart(lease) && lease.hasSlot())) return;
    this.#leases = this.#leases.filter((other) => other !== lease);
    lease.finish();
  }
}

/** One lease, as it is used up. */
class Lease<Delivery, Result> implements LeaseRun<Delivery, Result> {
  readonly order: LeaseOrder<Delivery, Result>;
  readonly queue: Delivery[];
  readonly running = new Map<Delivery, number>();
  readonly done: Result[] = [];
  readonly signals: AttemptSignal[] = [];
  readonly startsUntilAt: number;
  readonly leftoverReason: LeaseRun<Delivery, Result>["leftoverReason"];
  readonly stop: LeaseRun<Delivery, Result>["stop"];
  readonly continueWith: LeaseRun<Delivery, Result>["continueWith"];
  readonly #slots: SendSlots;
  readonly #successor = Promise.withResolvers<boolean>();
  readonly #enough = Promise.withResolvers<void>();
  readonly #finished = Promise.withResolvers<void>();
  readonly readyForSuccessor = this.#successor.promise;
  readonly enough = this.#enough.promise;
  readonly finished = this.#finished.promise;
  /** Deliveries that have succeeded, where some start only behind others. */
  readonly #succeeded = new Set<Delivery>();
  /** Slots claimed by senders that have not started an attempt in them yet. */
  #claimed = 0;

  constructor(
    order: LeaseOrder<Delivery, Result>,
    readyAt: number,
    runner: Pick<LeaseRun<Delivery, Result>, "leftoverReason" | "stop" | "continueWith">,
  ) {
    const { grant, grantedAt, settings } = order;
    this.order = order;
    this.queue = [...order.deliveries];
    this.startsUntilAt = startsUntil(grant, grantedAt, readyAt, settings.timeoutMs);
    this.leftoverReason = runner.leftoverReason;
    this.stop = runner.stop;
    this.continueWith = runner.continueWith;
    this.#slots = sendSlotsOf(grant, grantedAt);
    // Each awaiter of one of them handles its error; not both need be awaited.
    for (const promise of [this.enough, this.finished]) promise.catch(() => {});
  }

  tat(): number | undefined {
    return this.#slots.tat();
  }

  isInTime(now: number): boolean {
    return now < this.startsUntilAt;
  }

  /** Whether it has time left to start attempts in, but the rate allows the next one only after it. */
  isRateBound(now: number): boolean {
    return this.isInTime(now) && !this.hasSlot();
  }

  /** Whether the rate allows another attempt before the lease's time for starting any is over. */
  hasSlot(): boolean {
    return (this.#slots.nextAt() ?? this.startsUntilAt) < this.startsUntilAt;
  }

  /** When the next attempt may start. The slot then belongs to the caller, until it takes a delivery. */
  claim(): number {
    this.#claimed += 1;
    return this.#slots.claim() ?? 0;
  }

  /** The next delivery, whose attempt starts now in a slot that was claimed; undefined when none may: the slot is given back. */
  take(mayStart: boolean, now: number): Delivery | undefined {
    this.#claimed -= 1;
    // Another attempt may have started later than its own slot said: then this one is not free yet.
    const delivery = mayStart && this.#slots.isFree(now) ? this.#next() : undefined;
    if (delivery === undefined) {
      this.#slots.giveBack();
      return undefined;
    }
    this.#slots.use(now);
    this.running.set(delivery, now);
    return delivery;
  }

  /** Whether the turn of a delivery has come. */
  hasNext(): boolean {
    return this.order.sequence ? this.#indexOfNext() >= 0 : this.queue.length > 0;
  }

  #next(): Delivery | undefined {
    return this.order.sequence ? this.queue.splice(this.#indexOfNext(), 1)[0] : this.queue.shift();
  }

  #indexOfNext(): number {
    return this.queue.findIndex((one) => {
      const before = this.order.sequence?.predecessors.get(one);
      return before === undefined || this.#succeeded.has(before);
    });
  }

  ended(delivery: Delivery, result: Result, signal: AttemptSignal): void {
    this.running.delete(delivery);
    if (this.order.sequence?.isSuccess(result)) this.#succeeded.add(delivery);
    this.done.push(result);
    this.signals.push(signal);
  }

  isBusy(): boolean {
    return this.running.size + this.#claimed > 0;
  }

  /** The first call counts. */
  resolveSuccessor(isNear: boolean): void {
    this.#successor.resolve(isNear);
  }

  resolveEnough(): void {
    this.#enough.resolve();
  }

  finish(): void {
    this.resolveSuccessor(false);
    this.resolveEnough();
    this.#finished.resolve();
  }

  fail(error: unknown): void {
    this.resolveSuccessor(false);
    this.#enough.reject(error);
    this.#finished.reject(error);
  }
}

/** A worker's knowledge of a destination while it uses leases for it. */
type SendingState = Readonly<{
  /** The newest lease's. */
  grant: Grant;
  settings: GateSettings;
  destinationState: DestinationState;
  /** When the gate was last queried for its state. */
  refreshedAt: number;
  /**
   * Why no more attempts are started, under any lease: it has answered 410, or not answered for too long, or outcomes
   * could not be recorded.
   */
  stopped: "gone" | "hanging" | "unrecorded" | undefined;
}>;

type Terms = Pick<LeaseOrder<unknown, unknown>, "grant" | "settings" | "grantedAt">;

function initialState({ grant, settings, grantedAt }: Terms): SendingState {
  const { destinationState } = grant;
  return { grant, settings, destinationState, refreshedAt: grantedAt, stopped: undefined };
}

function withLease(state: SendingState, { grant, settings }: Terms): SendingState {
  const { destinationState: own, grant: former } = state;
  const destinationState = carriedOver(own, former.destinationState, grant.destinationState);
  return { ...state, grant, settings, destinationState };
}

function afterAttempt(
  state: SendingState,
  { attempt, isGoneAlone = false }: AttemptResult,
  signal: AttemptSignal,
  random: number,
): SendingState {
  const { destinationState: before, settings } = state;
  return {
    ...state,
    stopped: causeOf(attempt.exchange) === "http_410" && !isGoneAlone ? "gone" : state.stopped,
    destinationState: destinationStateAfter(before, signal, settings, random),
  };
}

/** Connections that may be in use: the granted width, and by how much the window has grown since. */
function widthAllowed({ grant, settings, destinationState }: SendingState): number {
  const allowed = ({ window }: DestinationState) => widthOf(window, settings.maxConcurrency);
  const growth = allowed(destinationState) - allowed(grant.destinationState);
  return Math.max(1, Math.min(grant.slots, grant.width + growth));
}

function isOpen({ stopped, destinationState, settings }: SendingState, now: number): boolean {
  return stopped === undefined && blockedBy(destinationState, settings, now) === undefined;
}

function signalOf({ attempt, metric }: AttemptResult): AttemptSignal {
  const { exchange, startedAt, endedAt, limits } = attempt;
  const usedUpUntil = limits?.remaining === 0 ? limits.resetAt : 0;
  const until = Math.max(holdUntil(exchange, endedAt) ?? 0, usedUpUntil);
  return {
    at: endedAt,
    health: healthOfExchange(exchange),
    backsOff: backsOff(exchange),
    tookMs: endedAt - startedAt,
    ...(metric && { metric }),
    ...(until > 0 && { holdUntil: until }),
    ...(limits && { remaining: limits.remaining }),
  };
}
