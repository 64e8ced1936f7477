/** A job queue as a contender. */
import { type JobPolicy, startJobQueue } from "../../../src/simulator/job-queue.ts";
import type { Contender } from "../sender.ts";

export function jobQueue(
  queue: JobPolicy & Partial<Pick<Contender, "model">> & Pick<Contender, "name">,
): Contender {
  const { name, model = false, ...policy } = queue;
  return { name, model, start: (context) => startJobQueue(policy, context) };
}
