/**
 * The usual design: one job per delivery, workers that take whatever is due, no memory of the receiver.
 * How long a failed job waits is its policy's business.
 */
import type { Exchange } from "../policy/outcome.ts";
import type { Random } from "./random.ts";
import type { Scene, Sender } from "./sender.ts";

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

export function startJobQueue(policy: JobPolicy, { engine, attempt, ledger }: Scene): Sender {
  let due: Job[] = [];
  let taken = 0;
  let working = 0;

  function work(): void {
    while (working < policy.workers && taken < due.length) {
      const job = due[taken];
      taken += 1;
      if (job) start(job);
    }
    if (taken < 10_000 && taken < due.length) return;
    due = due.slice(taken);
    taken = 0;
  }

  function start(job: Job): void {
    working += 1;
    job.firstAttemptAt ??= engine.now();
    attempt(job.delivery, (exchange) => end(job, exchange), policy.timeoutMs);
  }

  function end(job: Job, exchange: Exchange): void {
    working -= 1;
    job.attempts += 1;
    if (exchange.kind !== "response" || exchange.status >= 300) fail(job, exchange);
    work();
  }

  function fail(job: Job, exchange: Exchange): void {
    const waitMs = policy.next(job, exchange, engine.now(), engine.random);
    if (waitMs === undefined) {
      ledger.died(job.delivery, engine.now());
      return;
    }
    job.waitedMs = waitMs;
    engine.after(waitMs, () => bring(job));
  }

  function bring(job: Job): void {
    due.push(job);
    work();
  }

  return { post: (delivery) => bring({ delivery, postedAt: engine.now(), attempts: 0 }) };
}
