/**
 * Random histories: posts, answers of every kind, duplicate messages, crashes, evicted gates, pauses, deletions,
 * retries by hand, replays, and a clock that jumps. After each step every delivery is as the model has it. In the end,
 * when everything works again, every delivery ends, and every replay has moved all that it covered.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { compare, faultsAtEnd, type Model, newModel, retry } from "../support/delivery-model.ts";
import {
  answerSequence,
  modelDestinations,
  type Real,
  resume,
  script,
  steps,
  turn,
} from "../support/delivery-model-steps.ts";
import { propertySeed, runs } from "../support/effort.ts";
import { faultyRuntime } from "../support/faulty-runtime.ts";
import { heal, platformOf } from "../support/platform.ts";
import { logRequests } from "../support/request-log.ts";
import { newDestination, newGates, newWorld, urlOf } from "../support/world.ts";

const RUNS = runs(15, 120);
const STEPS = 30;

const destinations = modelDestinations.map(({ id }) => id);

type ModelRun = Readonly<{ model: Model; real: Real }>;

/** Each world has other latencies, also when a history is shrunk. */
let worlds = 0;

/** A new world with events under way for every run, so that a shrunk history begins like the original one. */
async function begin(): Promise<ModelRun> {
  const world = await newWorld();
  const requestLog = logRequests(world.services);
  worlds += 1;
  const runtime = faultyRuntime({ ...world, services: requestLog.services }, { seed: worlds });
  await newGates(destinations);
  for (const destination of modelDestinations) await newDestination({ ...destination, retry });
  const platform = platformOf(world, runtime, destinations, worlds);
  await platform.post(3);
  return { model: newModel(), real: { world, requestLog, runtime, destinations, platform } };
}

function look({ model, real: { requestLog, world } }: ModelRun): Promise<void> {
  return compare(model, requestLog, world.clock.now(), false);
}

async function endWell(run: ModelRun): Promise<void> {
  const { model, real } = run;
  for (const destination of destinations) {
    real.world.receiver.script(urlOf(destination), 204);
    await resume(destination, real, model);
    await turn(real.runtime, destination, "running");
  }
  await heal(real.platform);
  await look(run);
  expect(await faultsAtEnd(model)).toEqual([]);
  expect(real.platform.dropped, "acknowledged before its outcome was recorded").toEqual([]);
}

test("every delivery is as the model has it after each step of a random history, and ends", async () => {
  let replayed = 0;
  const history = fc.commands(steps, { maxCommands: STEPS, size: "max" });
  const property = fc.asyncProperty(
    answerSequence,
    answerSequence,
    history,
    async (first, second, commands) => {
      const run = await begin();
      script(run.real, 0, first);
      script(run.real, 1, second);
      await run.real.platform.deliver();
      await look(run);
      await fc.asyncModelRun(() => run, commands);
      await endWell(run);
      for (const { requeued } of run.model.replays.values()) replayed += requeued;
    },
  );
  await fc.assert(property, { numRuns: RUNS, seed: propertySeed(7) });
  // Replays are examined only when they have something to move; seeds differ from 8 to 39.
  expect(replayed).toBeGreaterThan(RUNS / 8);
});
