/** Policies without a gate: what is usually written first, and the presets through the production transition. */
import { type PresetName, presets } from "../../../../src/policy/presets.ts";
import { transition } from "../../../../src/policy/transition.ts";
import type { Contender } from "../sender.ts";
import { type Job, type JobPolicy, jobQueue } from "./job-queue.ts";

/** As many workers as Svix publishes: what a job queue needs so that one slow receiver does not stop it. */
export const WORKERS = 500;
const SECOND = 1000;
const HOUR = 3600 * SECOND;

const common = { workers: WORKERS, timeoutMs: 15 * SECOND };

export const immediate = jobQueue({
  ...common,
  name: "immediate, 10 attempts",
  next: (job) => (job.attempts < 10 ? 0 : undefined),
});

export const fixed = jobQueue({
  ...common,
  name: "fixed 60 s, 40 attempts",
  next: (job) => (job.attempts < 40 ? 60 * SECOND : undefined),
});

export const withoutJitter = jobQueue({
  ...common,
  name: "exponential, no jitter",
  next: (job) => (job.attempts < 16 ? Math.min(HOUR, 30 * SECOND * 2 ** (job.attempts - 1)) : undefined),
});

/** A preset on a job queue: its schedule and jitter by the production code, and nothing else of ours. */
export function presetAlone(preset: PresetName): Contender {
  const policy = presets[preset];
  const next: JobPolicy["next"] = (job, exchange, now, random) => {
    const moved = transition(exchange, historyOf(job, policy.giveUpAfterMs), policy, now, random());
    return moved.kind === "retry" ? moved.at - now : undefined;
  };
  return jobQueue({ ...common, name: `${preset} (preset alone)`, next });
}

function historyOf({ attempts, postedAt, waitedMs }: Job, giveUpAfterMs: number) {
  const previous = waitedMs === undefined ? {} : { previousDelayMs: waitedMs };
  return { attempts, giveUpAt: postedAt + giveUpAfterMs, ...previous };
}
