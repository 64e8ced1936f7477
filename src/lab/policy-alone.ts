/** A retry policy on a job queue: its schedule and jitter by the production code, and nothing else of ours. */

import { ageLimitOf, type RetryPolicy } from "../policy/retry-policy.ts";
import { transition } from "../policy/transition.ts";
import type { Job, JobPolicy } from "./job-queue.ts";

/** As many as Svix publishes: what a job queue needs so that one slow receiver does not stop it. */
export const WORKERS = 500;
export const TIMEOUT_MS = 15_000;

export function queueWith(policy: RetryPolicy): JobPolicy {
  const next: JobPolicy["next"] = (job, exchange, now, random) => {
    const moved = transition(exchange, historyOf(job, policy), policy, now, random());
    return moved.kind === "retry" ? moved.at - now : undefined;
  };
  return { workers: WORKERS, timeoutMs: TIMEOUT_MS, next };
}

/** What the policy must know of a job. */
export function historyOf(job: Job, policy: RetryPolicy) {
  const previous = job.waitedMs === undefined ? {} : { previousDelayMs: job.waitedMs };
  return { attempts: job.attempts, giveUpAt: giveUpAtOf(job, policy), ...previous };
}

/** The age limit that counts for it at the moment, epoch ms. */
export function giveUpAtOf({ firstAttemptAt, postedAt }: Job, policy: RetryPolicy): number {
  return ageLimitOf(policy, firstAttemptAt, postedAt);
}
