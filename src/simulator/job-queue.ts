/**
 * The usual design: one job per delivery, workers that take due jobs, no memory of the receiver. The policy decides how
 * long a failed job waits.
 */

import type { Exchange } from "../core/retry/classify.ts";
import { ageLimitOf, type RetryPolicy } from "../core/retry/policy.ts";
import { transition } from "../core/retry/transition.ts";
import type { Random } from "../core/seeded-random.ts";
import type { SenderContext, SimulatedSender } from "./sender.ts";

export type Job = {
  readonly delivery: number;
  readonly postedAt: number;
  attempts: number;
  firstAttemptAt?: number;
  waitedMs?: number;
};

export type JobPolicy = Readonly<{
  /** Attempts in flight at once, over all receivers. */
  workers: number;
  timeoutMs: number;
  /** How long to wait after a failed attempt, in milliseconds; undefined to give up. */
  next: (job: Job, exchange: Exchange, now: number, random: Random) => number | undefined;
}>;

export function startJobQueue(
  policy: JobPolicy,
  { engine, attempt, ledger }: SenderContext,
): SimulatedSender {
  let due: Job[] = [];
  let taken = 0;
  let running = 0;

  function startDue(): void {
    while (running < policy.workers && taken < due.length) {
      const job = due[taken];
      taken += 1;
      if (job) start(job);
    }
    if (taken < 10_000 && taken < due.length) return;
    due = due.slice(taken);
    taken = 0;
  }

  function start(job: Job): void {
    running += 1;
    job.firstAttemptAt ??= engine.now();
    attempt(job.delivery, (exchange) => end(job, exchange), policy.timeoutMs);
  }

  function end(job: Job, exchange: Exchange): void {
    running -= 1;
    job.attempts += 1;
    if (exchange.kind !== "response" || exchange.status >= 300) fail(job, exchange);
    startDue();
  }

  function fail(job: Job, exchange: Exchange): void {
    const waitMs = policy.next(job, exchange, engine.now(), engine.random);
    if (waitMs === undefined) {
      ledger.died(job.delivery, engine.now());
      return;
    }
    job.waitedMs = waitMs;
    engine.after(waitMs, () => enqueue(job));
  }

  function enqueue(job: Job): void {
    due.push(job);
    startDue();
  }

  return { post: (delivery) => enqueue({ delivery, postedAt: engine.now(), attempts: 0 }) };
}

/** The number that Svix publishes: a job queue needs it so that one slow receiver does not stop it. */
export const WORKERS = 500;
export const TIMEOUT_MS = 15_000;

/** A job queue with a retry policy: its schedule and jitter by the production code, and nothing else of Breakwater. */
export function queueWith(policy: RetryPolicy): JobPolicy {
  const next: JobPolicy["next"] = (job, exchange, now, random) => {
    const moved = transition(exchange, attemptHistoryOf(job, policy), policy, now, random());
    return moved.kind === "retry" ? moved.at - now : undefined;
  };
  return { workers: WORKERS, timeoutMs: TIMEOUT_MS, next };
}

export function attemptHistoryOf(job: Job, policy: RetryPolicy) {
  const previous = job.waitedMs === undefined ? {} : { previousDelayMs: job.waitedMs };
  return { attempts: job.attempts, giveUpAt: jobGivesUpAt(job, policy), ...previous };
}

/** When it is given up for its age, epoch ms. */
export function jobGivesUpAt({ firstAttemptAt, postedAt }: Job, policy: RetryPolicy): number {
  return ageLimitOf(policy, firstAttemptAt, postedAt);
}
