/** Queued jobs: which messages make a step, and which come too early or twice. */
import { beforeEach, expect, test } from "vitest";
import { queuedJob } from "../../src/jobs/runner.ts";
import { upkeepMessage } from "../../src/queue-messages.ts";
import { type ByHand, worldByHand } from "../support/by-hand.ts";

const EVERY_MS = 10_000;

let world: ByHand;
let row: { state: string; nextStepAt: number };
let steps: number;
beforeEach(() => {
  world = worldByHand();
  row = { state: "running", nextStepAt: world.now() };
  steps = 0;
});

const job = queuedJob({
  name: "replay",
  budget: { queries: 1 },
  find: async () => row,
  step: async ({ startedAt }) => {
    steps += 1;
    row = { ...row, nextStepAt: startedAt + EVERY_MS };
    return row.nextStepAt;
  },
  findLate: async () => [],
});

/** Receives the message, by a clock that is so far behind. Returns the messages that it has sent. */
async function receive(body: unknown, behindMs = 0) {
  const message = upkeepMessage(body);
  if (!message) throw new Error("It is a message of a job");
  const instead = ({ now }: { now: () => number }) => ({ now: () => now() - behindMs });
  await world.handled("step", (services) => job.receive(services, message), { instead });
  return world.sentUpkeep();
}

test("a step's message that arrives before its time, by the consumer's clock, comes again when the step is due", async () => {
  const body = { replay: "rpl_1", at: row.nextStepAt };
  const [again, ...others] = await receive(body, 2_500);
  expect(again).toEqual({ body, delaySeconds: 3 });
  expect([others, steps]).toEqual([[], 0]);
  await world.run(3_000);
  expect(await receive(body, 2_500)).toMatchObject([{ delaySeconds: 10 }]);
  expect(steps).toBe(1);
});

test("a step's message that arrives twice makes one step, and the next one has one message", async () => {
  const body = { replay: "rpl_1", at: row.nextStepAt };
  const [next] = await receive(body);
  expect(next).toEqual({ body: { replay: "rpl_1", at: row.nextStepAt }, delaySeconds: 10 });
  expect(await receive(body)).toEqual([]);
  expect(steps).toBe(1);
});

test("a message without a time, as 0.3.0 sent it, makes a step that is due and nothing else", async () => {
  expect(await receive({ replay: "rpl_1" }, 1)).toEqual([]);
  expect(await receive({ replay: "rpl_1" })).toHaveLength(1);
  expect(steps).toBe(1);
});

test("a message for a job that has ended makes no step", async () => {
  row = { ...row, state: "cancelled" };
  expect(await receive({ replay: "rpl_1", at: row.nextStepAt })).toEqual([]);
  expect(steps).toBe(0);
});
