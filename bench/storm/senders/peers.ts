/**
 * Models of the peers' published behaviour: schedule, jitter, attempts, timeout and workers as their public source and
 * documentation have them (autumn 2026), on a job queue, which they all are. Models, not measurements: none of their
 * code runs here.
 */

import { presets } from "../../../src/core/retry/presets.ts";
import type { Random } from "../../../src/core/seeded-random.ts";
import type { Job } from "../../../src/simulator/job-queue.ts";
import { jobQueue } from "./job-queue.ts";

const SECOND = 1000;

function within(attempts: number, waitMs: (job: Job, random: Random) => number) {
  return (job: Job, _: unknown, __: number, random: Random) =>
    job.attempts < attempts ? waitMs(job, random) : undefined;
}

const svixWaits = "schedule" in presets.svix.delays ? presets.svix.delays.schedule : [];

/** 5 s, 5 min, 30 min, 2 h, 5 h, 10 h, 10 h, ±20 %; 500 workers for all endpoints. */
export const svix = jobQueue({
  name: "Svix (model)",
  model: true,
  workers: 500,
  timeoutMs: 15 * SECOND,
  next: within(8, ({ attempts }, random) => (svixWaits[attempts - 1] ?? 0) * SECOND * (0.8 + 0.4 * random())),
});

/** 30 s doubling, no jitter, 10 retries, 5 s timeout. Its default of one worker could not carry the load: ten. */
export const outpost = jobQueue({
  name: "Outpost (model, 10 workers)",
  model: true,
  workers: 10,
  timeoutMs: 5 * SECOND,
  next: within(11, ({ attempts }) => 30 * SECOND * 2 ** (attempts - 1)),
});

/** Exponential: 100 s doubling, at most 2 h, and up to 5 s on top; 10 attempts; a pool of 100. */
export const convoy = jobQueue({
  name: "Convoy (model)",
  model: true,
  workers: 100,
  timeoutMs: 10 * SECOND,
  next: within(
    10,
    ({ attempts }, random) =>
      Math.min(7200 * SECOND, 100 * SECOND * 2 ** (attempts - 1)) + 5 * SECOND * random(),
  ),
});
