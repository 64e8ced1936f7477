/**
 * Breakwater as a sender that awaits nothing but virtual time, for pages: gate, drain schedule, lease runner and retry
 * policy are the production code, over virtual time and one receiver. The work of src/delivery around them is modelled
 * here in short: deliveries that come at the same time are a batch, refused ones wait, and the gate's alarms start
 * drains. A test compares it with the whole of the production code in virtual time.
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
import type { SenderContext, SimulatedSender } from "./sender.ts";

/** How long the queue gathers a batch: as in wrangler.toml. */
const BATCH_MS = 0;
/** Between two leases of a drain: the next is admitted while the first is used, so the first is settled and no more. */
const ROUND_TRIPS_MS = 20;
/** From sending a drain's message to its first admit request. */
const HOP_MS = 100;

export function startGatedSender(
  policy: RetryPolicy,
  settings: GateSettings,
  { engine, attempt, ledger }: SenderContext,
): SimulatedSender {
  const { now, random, sleep } = engine;
  let gate = newGateState(now());
  /** Jobs that the queue holds and has not handed out yet. */
  let inbox: Job[] = [];
  /** In the order in which they began to wait. */
  const waiting: Job[] = [];
  const effects: LeaseEffects = {
    now,
    random,
    sleep,
    withConnection: (task) => task(() => {}),
    readState: async () => gate.destinationState,
    hold: (until) => save(afterHold(gate, until, now()).state),
  };

  function save(next: GateState): void {
    const { at } = next.drainSchedule;
    const isNew = at !== gate.drainSchedule.at;
    gate = next;
    if (isNew && at !== null) engine.at(at, () => alarm(at));
  }

  function alarm(at: number): void {
    if (gate.drainSchedule.at !== at) return;
    const { drainSchedule, drains } = drainsDue(gate, now());
    save({ ...gate, drainSchedule });
    for (let i = 0; i < drains; i++) engine.after(HOP_MS, () => drain(now() + DRAIN_BUDGET_MS));
  }

  function enqueue(job: Job): void {
    if (inbox.length === 0) engine.after(BATCH_MS, consume);
    inbox.push(job);
  }

  function consume(): void {
    const batch = inbox;
    inbox = [];
    for (const lane of ["fresh", "retry"] as const) {
      const jobs = batch.filter(({ attempts }) => attempts > 0 === (lane === "retry"));
      if (jobs.length === 0) continue;
      const { granted, refused } = admitJobs(lane, jobs, CONSUMER_STARTS_MS);
      waiting.push(...refused);
      if (!granted) continue;
      const { grant } = granted;
      void useLease(grant, granted.jobs, consumerPatienceMs(grant.destinationState.tookMs));
    }
  }

  function drain(endsAt: number): void {
    const found = bothEnds(waiting, random());
    if (found.length === 0) save(afterEmptyDrain(gate, now(), now()));
    const alive = withoutExpired(found);
    if (found.length > 0 && alive.length === 0) drain(endsAt);
    if (alive.length === 0) return;
    const startWithinMs = Math.min(DRAIN_STEP_MS, endsAt - now());
    const { granted, refused } = admitJobs("backlog", alive, startWithinMs);
    if (!granted) return;
    remove(waiting, granted.jobs);
    const next = () => {
      if (now() < endsAt) engine.after(ROUND_TRIPS_MS, () => drain(endsAt));
      else engine.after(HOP_MS, () => drain(now() + DRAIN_BUDGET_MS));
    };
    void useLease(granted.grant, granted.jobs, DRAIN_STEP_MS, refused.length === 0 ? next : undefined);
  }

  function admitJobs(lane: Lane, jobs: readonly Job[], startWithinMs: number) {
    const deliveries = jobs.map(({ delivery }) => delivery);
    const [first] = jobs.toSorted((a, b) => a.attempts - b.attempts);
    const probe = first ? { probe: first.delivery } : {};
    const request = { lane, deliveries, connections: CONNECTIONS, startWithinMs, ...probe };
    const { state: next, result } = admit(gate, request, settings, now());
    save(next);
    const of = (ids: readonly number[] = []) => jobs.filter(({ delivery }) => ids.includes(delivery));
    const { grant, refused } = result;
    const granted = grant && { grant, jobs: of(grant.deliveries) };
    return { granted, refused: of(refused?.deliveries) };
  }

  /** @param next the drain's next action when the lease has led to attempts */
  async function useLease(grant: Grant, deliveries: readonly Job[], patienceMs: number, next?: () => void) {
    const terms = { grant, settings, patienceMs, grantedAt: now() };
    const lease = runLease(effects, { ...terms, deliveries, send: makeAttempt });
    await lease.enough;
    const isLate = lease.running.size > 0;
    waiting.push(...lease.queue);
    await lease.finished;
    const continues = next !== undefined && !isLate && lease.signals.length > 0;
    settleLease(grant, lease, continues);
    if (continues) next();
  }

  function settleLease(grant: Grant, lease: LeaseRun<Job, AttemptResult>, continues: boolean): void {
    const tat = lease.tat();
    const settlement = {
      lease: grant.id,
      signals: lease.signals,
      left: lease.queue.length,
      continues,
      ...(tat !== undefined && { tatInMs: tat - now() }),
    };
    const { state } = settle(gate, settlement, settings, now(), random());
    save(state);
  }

  async function makeAttempt(job: Job): Promise<AttemptResult> {
    const startedAt = now();
    job.firstAttemptAt ??= startedAt;
    const { promise, resolve } = engine.deferred<Exchange>();
    attempt(job.delivery, resolve, settings.timeoutMs);
    const exchange = await promise;
    record(job, exchange);
    return { attempt: { exchange, startedAt, endedAt: now() } };
  }

  function record(job: Job, exchange: Exchange): void {
    const at = now();
    job.attempts += 1;
    const history = attemptHistoryOf(job, policy);
    const outcome = transition(exchange, history, policy, at, random());
    if (outcome.kind === "dead") ledger.died(job.delivery, at);
    if (outcome.kind !== "retry") return;
    job.waitedMs = outcome.at - at;
    engine.at(outcome.at, () => enqueue(job));
  }

  /** Gives up those that are too old, and returns the others. */
  function withoutExpired(jobs: readonly Job[]): Job[] {
    const at = now();
    const isOld = (job: Job) => at >= jobGivesUpAt(job, policy);
    const old = jobs.filter(isOld);
    for (const { delivery } of old) ledger.died(delivery, at);
    remove(waiting, old);
    return jobs.filter((job) => !isOld(job));
  }

  return { post: (delivery) => enqueue({ delivery, postedAt: now(), attempts: 0 }) };
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
