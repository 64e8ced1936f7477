/**
 * Breakwater as a model that awaits nothing, for pages: the production gate, bell and retry policy decide, and
 * what src/delivery does with their decisions is told here in short: batches of what
 * comes at once, refused deliveries that wait, drains that the bell sends for. One receiver. The storm lab runs the production code itself; a test
 * holds the two together.
 */
import { admit } from "../core/admit.ts";
import type { AttemptSignal } from "../core/destination-state.ts";
import { drainsDue } from "../core/drain-scheduler.ts";
import { type GateState, newGateState } from "../core/gate-state.ts";
import type { Grant, Lane } from "../core/lease.ts";
import type { GateSettings } from "../core/limits.ts";
import type { Exchange } from "../core/retry/classify.ts";
import type { RetryPolicy } from "../core/retry/policy.ts";
import { transition } from "../core/retry/transition.ts";
import { afterEmptyDrain, afterHold, settle } from "../core/settle.ts";
import { giveUpAtOf, historyOf, type Job } from "./job-queue.ts";
import { runLease } from "./lease-run.ts";
import type { Scene, Sender } from "./simulate-outage.ts";

/** As in production: see src/delivery/consumer.ts, src/delivery/drain.ts and wrangler.toml. */
const CONNECTIONS = 6;
const BATCH_MS = 0;
const LIVE = { startWithinMs: 5_000, patienceMs: 1_000 };
const STEP_MS = 3_000;
const BUDGET_MS = 15_000;
const LEASED = 60;
/** Between two leases of a drain: the next is asked for while the first is worked off, so it is settled and no more. */
const ROUND_TRIPS_MS = 20;
/** From sending for a drain to its first question. */
const HOP_MS = 100;

export function startGatedSender(policy: RetryPolicy, settings: GateSettings, scene: Scene): Sender {
  const { engine, ledger } = scene;
  let state = newGateState(engine.now());
  let inbox: Job[] = [];
  /** In the order in which they began to wait. */
  const waiting: Job[] = [];

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
    for (let i = 0; i < drains; i++) engine.after(HOP_MS, () => drain(engine.now() + BUDGET_MS));
  }

  function bring(job: Job): void {
    if (inbox.length === 0) engine.after(BATCH_MS, consume);
    inbox.push(job);
  }

  function consume(): void {
    const batch = inbox;
    inbox = [];
    for (const lane of ["fresh", "retry"] as const) {
      const jobs = batch.filter(({ attempts }) => attempts > 0 === (lane === "retry"));
      if (jobs.length === 0) continue;
      const { granted, refused } = ask(lane, jobs, LIVE.startWithinMs);
      waiting.push(...refused);
      if (granted) run(granted.grant, granted.jobs, LIVE.patienceMs, false, () => undefined);
    }
  }

  function drain(endsAt: number): void {
    const found = bothEnds(waiting, engine.random());
    if (found.length === 0) save(afterEmptyDrain(state, engine.now(), engine.now()));
    const alive = bury(found);
    if (found.length > 0 && alive.length === 0) drain(endsAt);
    if (alive.length === 0) return;
    const { granted, refused } = ask("backlog", alive, Math.min(STEP_MS, endsAt - engine.now()));
    if (!granted) return;
    withdraw(waiting, granted.jobs);
    const continues = refused.length === 0;
    run(granted.grant, granted.jobs, STEP_MS, continues, () => {
      if (engine.now() < endsAt) engine.after(ROUND_TRIPS_MS, () => drain(endsAt));
      else engine.after(HOP_MS, () => drain(engine.now() + BUDGET_MS));
    });
  }

  function ask(lane: Lane, jobs: readonly Job[], startWithinMs: number) {
    const deliveries = jobs.map(({ delivery }) => delivery);
    const [first] = jobs.toSorted((a, b) => a.attempts - b.attempts);
    const probe = first ? { probe: first.delivery } : {};
    const question = { lane, deliveries, connections: CONNECTIONS, startWithinMs, ...probe };
    const { state: next, result } = admit(state, question, settings, engine.now());
    save(next);
    const of = (ids: readonly number[] = []) => jobs.filter(({ delivery }) => ids.includes(delivery));
    const { grant, refused } = result;
    const granted = grant && { grant, jobs: of(grant.deliveries) };
    return { granted, refused: of(refused?.deliveries) };
  }

  function run(
    grant: Grant,
    jobs: readonly Job[],
    patienceMs: number,
    continues: boolean,
    next: () => void,
  ): void {
    runLease(scene, {
      grant,
      jobs,
      settings,
      patienceMs,
      news: () => state.destinationState,
      answered,
      left: (rest) => waiting.push(...rest),
      over: (signals, left, tat) => {
        const goesOn = continues && signals.length > 0;
        const started = tat === undefined ? {} : { tatInMs: tat - engine.now() };
        const settlement = { lease: grant.id, signals, left, continues: goesOn, ...started };
        save(settle(state, settlement, settings, engine.now(), engine.random()).state);
        if (goesOn) next();
      },
    });
  }

  function answered(job: Job, exchange: Exchange, { holdUntil }: AttemptSignal): void {
    const now = engine.now();
    if (holdUntil !== undefined) save(afterHold(state, holdUntil, now).state);
    job.attempts += 1;
    const moved = transition(exchange, historyOf(job, policy), policy, now, engine.random());
    if (moved.kind === "dead") ledger.died(job.delivery, now);
    if (moved.kind !== "retry") return;
    job.waitedMs = moved.at - now;
    engine.at(moved.at, () => bring(job));
  }

  /** Gives up those that are too old, and returns the others. */
  function bury(jobs: readonly Job[]): Job[] {
    const now = engine.now();
    const isOld = (job: Job) => now >= giveUpAtOf(job, policy);
    const old = jobs.filter(isOld);
    for (const { delivery } of old) ledger.died(delivery, now);
    withdraw(waiting, old);
    return jobs.filter((job) => !isOld(job));
  }

  return { post: (delivery) => bring({ delivery, postedAt: engine.now(), attempts: 0 }) };
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

/** Takes away what was found at both ends. */
function withdraw(jobs: Job[], taken: readonly Job[]): void {
  const gone = new Set(taken);
  const stays = (job: Job) => !gone.has(job);
  jobs.push(...jobs.splice(-LEASED / 2).filter(stays));
  jobs.unshift(...jobs.splice(0, LEASED / 2).filter(stays));
}
