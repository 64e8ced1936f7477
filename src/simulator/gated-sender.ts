/**
 * Breakwater as a sender that awaits nothing but virtual time, for pages: gate, drain schedule, lease runner and retry
 * policy are the production code, over virtual time and one receiver. What src/delivery does around them is modelled here in short:
 * deliveries that come at the same time are a batch, refused ones wait, and the gate's alarms start drains. A test
 * compares it with the whole of the production code in virtual time.
 */
import { admit } from "../core/admit.ts";
import { drainsDue, inClasses, interleaved, LEASED } from "../core/drain-scheduler.ts";
import { type GateState, newGateState } from "../core/gate-state.ts";
import { CONNECTIONS, type Grant, type Lane } from "../core/lease.ts";
import {
  type AttemptResult,
  CONSUMER_STARTS_MS,
  consumerPatienceMs,
  DRAIN_BUDGET_MS,
  DRAIN_STEP_MS,
  type LeaseEffects,
  type LeaseRun,
  runLease,
} from "../core/lease-runner.ts";
import type { GateSettings } from "../core/limits.ts";
import type { Exchange } from "../core/retry/classify.ts";
import type { RetryPolicy } from "../core/retry/policy.ts";
import { transition } from "../core/retry/transition.ts";
import { afterEmptyDrain, afterHold, settle } from "../core/settle.ts";
import { attemptHistoryOf, type Job, jobGivesUpAt } from "./job-queue.ts";
import type { Ledger } from "./ledger.ts";
import type { SendAttempt, SenderContext, SimulatedSender } from "./sender.ts";
import type { VirtualTime } from "./virtual-time.ts";

/** How long the queue gathers a batch: as in wrangler.toml. */
const BATCH_MS = 0;
/** Between two leases of a drain: the next is admitted while the first is used, so the first is settled and no more. */
const ROUND_TRIPS_MS = 20;
/** From sending a drain's message to its first admit request. */
const HOP_MS = 100;

export class GatedSender implements SimulatedSender {
  readonly #policy: RetryPolicy;
  readonly #settings: GateSettings;
  readonly #engine: VirtualTime;
  readonly #attempt: SendAttempt;
  readonly #ledger: Ledger;
  readonly #effects: LeaseEffects;
  #gate: GateState;
  /** Jobs that the queue holds and has not handed out yet. */
  #inbox: Job[] = [];
  /** In the order in which they began to wait. */
  readonly #waiting: Job[] = [];

  constructor(policy: RetryPolicy, settings: GateSettings, { engine, attempt, ledger }: SenderContext) {
    const { now, random, sleep } = engine;
    this.#policy = policy;
    this.#settings = settings;
    this.#engine = engine;
    this.#attempt = attempt;
    this.#ledger = ledger;
    this.#gate = newGateState(now());
    this.#effects = {
      now,
      random,
      sleep,
      withConnection: (task) => task(() => {}),
      readState: async () => this.#gate.destinationState,
      hold: (until) => this.#save(afterHold(this.#gate, until, now()).state),
    };
  }

  post(delivery: number): void {
    this.#enqueue({ delivery, postedAt: this.#now(), attempts: 0 });
  }

  #save(next: GateState): void {
    const { at } = next.drainSchedule;
    const isNew = at !== this.#gate.drainSchedule.at;
    this.#gate = next;
    if (isNew && at !== null) this.#engine.at(at, () => this.#alarm(at));
  }

  #alarm(at: number): void {
    if (this.#gate.drainSchedule.at !== at) return;
    const { drainSchedule, drains } = drainsDue(this.#gate, this.#now());
    this.#save({ ...this.#gate, drainSchedule });
    for (let i = 0; i < drains; i++)
      this.#engine.after(HOP_MS, () => this.#drain(this.#now() + DRAIN_BUDGET_MS));
  }

  #enqueue(job: Job): void {
    if (this.#inbox.length === 0) this.#engine.after(BATCH_MS, () => this.#consume());
    this.#inbox.push(job);
  }

  #consume(): void {
    const batch = this.#inbox;
    this.#inbox = [];
    for (const lane of ["fresh", "retry"] as const) {
      const jobs = batch.filter(({ attempts }) => attempts > 0 === (lane === "retry"));
      if (jobs.length === 0) continue;
      const { granted, refused } = this.#admitJobs(lane, jobs, CONSUMER_STARTS_MS);
      this.#waiting.push(...refused);
      if (!granted) continue;
      const { grant } = granted;
      void this.#useLease(grant, granted.jobs, consumerPatienceMs(grant.destinationState.tookMs));
    }
  }

  #drain(endsAt: number): void {
    const found = bothEnds(this.#waiting, this.#engine.random());
    if (found.length === 0) this.#save(afterEmptyDrain(this.#gate, this.#now(), this.#now()));
    const alive = this.#withoutExpired(found);
    if (found.length > 0 && alive.length === 0) this.#drain(endsAt);
    if (alive.length === 0) return;
    const startWithinMs = Math.min(DRAIN_STEP_MS, endsAt - this.#now());
    const { granted, refused } = this.#admitJobs("backlog", alive, startWithinMs);
    if (!granted) return;
    remove(this.#waiting, granted.jobs);
    const next = () => {
      if (this.#now() < endsAt) this.#engine.after(ROUND_TRIPS_MS, () => this.#drain(endsAt));
      else this.#engine.after(HOP_MS, () => this.#drain(this.#now() + DRAIN_BUDGET_MS));
    };
    void this.#useLease(granted.grant, granted.jobs, DRAIN_STEP_MS, refused.length === 0 ? next : undefined);
  }

  #admitJobs(lane: Lane, jobs: readonly Job[], startWithinMs: number) {
    const deliveries = jobs.map(({ delivery }) => delivery);
    const [first] = jobs.toSorted((a, b) => a.attempts - b.attempts);
    const probe = first ? { probe: first.delivery } : {};
    const request = { lane, deliveries, connections: CONNECTIONS, startWithinMs, ...probe };
    const { state: next, result } = admit(this.#gate, request, this.#settings, this.#now());
    this.#save(next);
    const of = (ids: readonly number[] = []) => jobs.filter(({ delivery }) => ids.includes(delivery));
    const { grant, refused } = result;
    const granted = grant && { grant, jobs: of(grant.deliveries) };
    return { granted, refused: of(refused?.deliveries) };
  }

  /** @param next what a drain does when the lease has come to something */
  async #useLease(grant: Grant, deliveries: readonly Job[], patienceMs: number, next?: () => void) {
    const terms = { grant, settings: this.#settings, patienceMs, grantedAt: this.#now() };
    const lease = runLease(this.#effects, {
      ...terms,
      deliveries,
      send: (job: Job) => this.#makeAttempt(job),
    });
    await lease.enough;
    const isLate = lease.running.size > 0;
    this.#waiting.push(...lease.queue);
    await lease.finished;
    const continues = next !== undefined && !isLate && lease.signals.length > 0;
    this.#settleLease(grant, lease, continues);
    if (continues) next();
  }

  #settleLease(grant: Grant, lease: LeaseRun<Job, AttemptResult>, continues: boolean): void {
    const tat = lease.tat();
    const settlement = {
      lease: grant.id,
      signals: lease.signals,
      left: lease.queue.length,
      continues,
      ...(tat !== undefined && { tatInMs: tat - this.#now() }),
    };
    const { state } = settle(this.#gate, settlement, this.#settings, this.#now(), this.#engine.random());
    this.#save(state);
  }

  async #makeAttempt(job: Job): Promise<AttemptResult> {
    const startedAt = this.#now();
    job.firstAttemptAt ??= startedAt;
    const { promise, resolve } = this.#engine.deferred<Exchange>();
    this.#attempt(job.delivery, resolve, this.#settings.timeoutMs);
    const exchange = await promise;
    this.#record(job, exchange);
    return { attempt: { exchange, startedAt, endedAt: this.#now() } };
  }

  #record(job: Job, exchange: Exchange): void {
    const now = this.#now();
    job.attempts += 1;
    const history = attemptHistoryOf(job, this.#policy);
    const outcome = transition(exchange, history, this.#policy, now, this.#engine.random());
    if (outcome.kind === "dead") this.#ledger.died(job.delivery, now);
    if (outcome.kind !== "retry") return;
    job.waitedMs = outcome.at - now;
    this.#engine.at(outcome.at, () => this.#enqueue(job));
  }

  /** Gives up those that are too old, and returns the others. */
  #withoutExpired(jobs: readonly Job[]): Job[] {
    const now = this.#now();
    const isOld = (job: Job) => now >= jobGivesUpAt(job, this.#policy);
    const old = jobs.filter(isOld);
    for (const { delivery } of old) this.#ledger.died(delivery, now);
    remove(this.#waiting, old);
    return jobs.filter((job) => !isOld(job));
  }

  #now(): number {
    return this.#engine.now();
  }
}

/** The most that a drain leases: from both ends, new and attempted in turn, beginning with what is drawn. */
function bothEnds(jobs: readonly Job[], drawn: number): Job[] {
  const oldest = jobs.slice(0, LEASED / 2);
  const newest = jobs.slice(Math.max(LEASED / 2, jobs.length - LEASED / 2)).reverse();
  return interleaved(inClasses(oldest, newest, drawn));
}

/** Takes out jobs that were found at both ends. */
function remove(jobs: Job[], taken: readonly Job[]): void {
  const gone = new Set(taken);
  const stays = (job: Job) => !gone.has(job);
  jobs.push(...jobs.splice(-LEASED / 2).filter(stays));
  jobs.unshift(...jobs.splice(0, LEASED / 2).filter(stays));
}
