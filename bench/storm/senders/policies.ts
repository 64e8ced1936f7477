/** Policies without a gate: those that people usually write first, and the presets through the production transition. */

import { type PresetName, presets } from "../../../src/core/retry/presets.ts";
import { queueWith, TIMEOUT_MS, WORKERS } from "../../../src/simulator/job-queue.ts";
import type { Contender } from "../sender.ts";
import { jobQueue } from "./job-queue.ts";

const SECOND = 1000;
const HOUR = 3600 * SECOND;

const common = { workers: WORKERS, timeoutMs: TIMEOUT_MS };

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

/** A preset on a job queue: production code computes its schedule and jitter; nothing else of Breakwater runs. */
export function presetAlone(preset: PresetName): Contender {
  return jobQueue({ ...queueWith(presets[preset]), name: `${preset} (preset alone)` });
}
