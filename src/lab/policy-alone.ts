/** A retry policy on a job queue: its schedule and jitter by the production code, and nothing else of ours. */

import type { RetryPolicy } from "../policy/retry-policy.ts";
import { transition } from "../policy/transition.ts";
import type { Job, JobPolicy } from "./job-queue.ts";

/** As many as Svix publishes: what a job queue needs so that one slow receiver does not stop it. */
export const WORKERS = 500;
export const TIMEOUT_MS = 15_000;

export function queueWith(policy: RetryPolicy): JobPolicy {
  const next: JobPolicy["next"] = (job, exchange, now, random) => {
    const moved = transition(exchange, historyOf(job, policy.giveUpAfterMs), policy, now, random());
    return moved.kind === "retry" ? moved.at - now : undefined;
  };
  return { workers: WORKERS, timeoutMs: TIMEOUT_MS, next };
}

/** What the policy must know of a job. */
export function historyOf({ attempts, postedAt, waitedMs }: Job, giveUpAfterMs: number) {
  const previous = waitedMs === undefined ? {} : { previousDelayMs: waitedMs };
  return { attempts, giveUpAt: postedAt + giveUpAfterMs, ...previous };
}
