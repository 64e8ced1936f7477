/**
 * Breakwater as a sender that awaits nothing, for pages: gate, drain schedule, lease runner and retry policy are the
 * production code, over virtual time and one receiver. What src/delivery does around them is modelled here in short:
 * deliveries that come at the same time are a batch, refused ones wait, and the gate's alarms start drains. A test
 * compares it with the whole of the production code in virtual time.
 */
import { admit } from "../core/admit.ts";
import { DRAIN_CONNECTIONS, drainsDue, LEASED } from "../core/drain-scheduler.ts";
import { type GateState, newGateState } from "../core/gate-state.ts";
import type { Grant, Lane } from "../core/lease.ts";
import {
  type AttemptResult,
  CONSUMER_STARTS_MS,
  consumerPatienceMs,
  DRAIN_BUDGET_MS,
  DRAIN_STEP_MS,
  type LeaseHands,
  type LeaseProgress,
  LeaseRunner,
} from "../core/lease-runner.ts";
import type { GateSettings } from "../core/limits.ts";
import type { Exchange } from "../core/retry/classify.ts";
import type { RetryPolicy } from "../core/retry/policy.ts";
import { transition } from "../core/retry/transition.ts";
import { afterEmptyDrain, afterHold, settle } from "../core/settle.ts";
import { giveUpAtOf, historyOf, type Job } from "./job-queue.ts";
import type { Sender, SenderContext } from "./sender.ts";

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
): Sender {
  let state = newGateState(engine.now());
  let inbox: Job[] = [];
  /** In the order in which they began to wait. */
  const waiting: Job[] = [];

  const hands: LeaseHands = {
    now: engine.now,
    random: engine.random,
    at: engine.at,
    withConnection: (task, then) => task(then),
    readState: (then) => then(state.destinationState),
    hold: (until) => save(afterHold(state, until, engine.now()).state),
  };

  function save(next: GateState): void {
    const { at } = next.drainSchedule;
    const isNew = at !== state.drainSchedule.at;
    state = next;
    if (isNew && at !== null) engine.at(at, () => alarm(at));
  }

  function alarm(at: number): void {
    if (state.drainSchedule.at !== at) return;
    const { drainSchedule, drains } = drainsDue(state, engine.now());
    save({ ...state, drainSchedule });
    for (let i = 0; i < drains; i++) engine.after(HOP_MS, () => drain(engine.now() + DRAIN_BUDGET_MS));
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
      runLease(grant, granted.jobs, consumerPatienceMs(grant.destinationState.tookMs));
    }
  }

  function drain(endsAt: number): void {
    const found = bothEnds(waiting, engine.random());
    if (found.length === 0) save(afterEmptyDrain(state, engine.now(), engine.now()));
    const alive = withoutExpired(found);
    if (found.length > 0 && alive.length === 0) drain(endsAt);
    if (alive.length === 0) return;
    const { granted, refused } = admitJobs("backlog", alive, Math.min(DRAIN_STEP_MS, endsAt - engine.now()));
    if (!granted) return;
    remove(waiting, granted.jobs);
    const next = () => {
      if (engine.now() < endsAt) engine.after(ROUND_TRIPS_MS, () => drain(endsAt));
      else engine.after(HOP_MS, () => drain(engine.now() + DRAIN_BUDGET_MS));
    };
    runLease(granted.grant, granted.jobs, DRAIN_STEP_MS, refused.length === 0 ? next : undefined);
  }

  function admitJobs(lane: Lane, jobs: readonly Job[], startWithinMs: number) {
    const deliveries = jobs.map(({ delivery }) => delivery);
    const [first] = jobs.toSorted((a, b) => a.attempts - b.attempts);
    const probe = first ? { probe: first.delivery } : {};
    const request = { lane, deliveries, connections: DRAIN_CONNECTIONS, startWithinMs, ...probe };
    const { state: next, answer } = admit(state, request, settings, engine.now());
    save(next);
    const of = (ids: readonly number[] = []) => jobs.filter(({ delivery }) => ids.includes(delivery));
    const { grant, refused } = answer;
    const granted = grant && { grant, jobs: of(grant.deliveries) };
    return { granted, refused: of(refused?.deliveries) };
  }

  /** @param next what a drain does when the lease has come to something */
  function runLease(grant: Grant, deliveries: readonly Job[], patienceMs: number, next?: () => void): void {
    const terms = { grant, settings, patienceMs, grantedAt: engine.now() };
    let isLate = false;
    new LeaseRunner<Job, AttemptResult>(hands, terms).begin({
      ...terms,
      deliveries,
      send: makeAttempt,
      nearlyOver: () => {},
      enough: ({ queue, running }) => {
        isLate = running.size > 0;
        waiting.push(...queue);
      },
      finished: (lease) => {
        const continues = next !== undefined && !isLate && lease.signals.length > 0;
        settleLease(grant, lease, continues);
        if (continues) next();
      },
      failed: (error) => {
        throw error;
      },
    });
  }

  function settleLease(grant: Grant, lease: LeaseProgress<Job, AttemptResult>, continues: boolean): void {
    const tat = lease.tat();
    const settlement = {
      lease: grant.id,
      signals: lease.signals,
      left: lease.queue.length,
      continues,
      ...(tat !== undefined && { tatInMs: tat - engine.now() }),
    };
    save(settle(state, settlement, settings, engine.now(), engine.random()).state);
  }

  function makeAttempt(job: Job, then: (result: AttemptResult) => void): void {
    const startedAt = engine.now();
    job.firstAttemptAt ??= startedAt;
    const answered = (exchange: Exchange) => {
      record(job, exchange);
      then({ attempt: { exchange, startedAt, endedAt: engine.now() } });
    };
    attempt(job.delivery, answered, settings.timeoutMs);
  }

  function record(job: Job, exchange: Exchange): void {
    const now = engine.now();
    job.attempts += 1;
    const outcome = transition(exchange, historyOf(job, policy), policy, now, engine.random());
    if (outcome.kind === "dead") ledger.died(job.delivery, now);
    if (outcome.kind !== "retry") return;
    job.waitedMs = outcome.at - now;
    engine.at(outcome.at, () => enqueue(job));
  }

  /** Gives up those that are too old, and returns the others. */
  function withoutExpired(jobs: readonly Job[]): Job[] {
    const now = engine.now();
    const isOld = (job: Job) => now >= giveUpAtOf(job, policy);
    const old = jobs.filter(isOld);
    for (const { delivery } of old) ledger.died(delivery, now);
    remove(waiting, old);
    return jobs.filter((job) => !isOld(job));
  }

  return { post: (delivery) => enqueue({ delivery, postedAt: engine.now(), attempts: 0 }) };
}

/** What a drain leases at most: from both ends, new and attempted in turn, beginning with what is drawn. */
function bothEnds(jobs: readonly Job[], drawn: number): Job[] {
  const oldest = jobs.slice(0, LEASED / 2);
  const newest = jobs.slice(Math.max(LEASED / 2, jobs.length - LEASED / 2)).reverse();
  const isNew = ({ attempts }: Job) => attempts === 0;
  const isOld = ({ attempts }: Job) => attempts > 0;
  const classes = [oldest.filter(isNew), newest.filter(isNew), oldest.filter(isOld), newest.filter(isOld)];
  const some = classes.filter((list) => list.length > 0);
  const start = Math.floor(drawn * some.length);
  const turns = [...some.slice(start), ...some.slice(0, start)];
  return Array.from({ length: LEASED / 2 }, (_, i) => turns.flatMap((list) => list.slice(i, i + 1))).flat();
}

/** Takes out jobs that were found at both ends. */
function remove(jobs: Job[], taken: readonly Job[]): void {
  const gone = new Set(taken);
  const stays = (job: Job) => !gone.has(job);
  jobs.push(...jobs.splice(-LEASED / 2).filter(stays));
  jobs.unshift(...jobs.splice(0, LEASED / 2).filter(stays));
}
