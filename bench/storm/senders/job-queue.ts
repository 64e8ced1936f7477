/** A job queue among those that are compared. */
import { type JobPolicy, startJobQueue } from "../../../src/simulator/job-queue.ts";
import type { Contender } from "../sender.ts";

export function jobQueue(
  queue: JobPolicy & Readonly<{ name: string /** Somebody else's, as published. */; model?: boolean }>,
): Contender {
  const { name, model = false, ...policy } = queue;
  return { name, model, start: (context) => startJobQueue(policy, context) };
}
