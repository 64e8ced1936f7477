/**
 * Whatever happens, in whatever order: posts, answers of every kind, messages that come twice, crashes,
 * evicted gates, pauses, deletions, retries by hand, replays, and a clock that jumps. After each step every
 * delivery is as the model on the napkin has it; at the end, when everything works again, every one of them
 * ends, and every replay has moved what it meant.
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
import { faultyRuntime } from "../support/faulty-runtime.ts";
import { heal, platformOf } from "../support/platform.ts";
import { logRequests } from "../support/request-log.ts";
import { newDestination, newGates, newWorld, urlOf } from "../support/world.ts";

const RUNS = 40;
const STEPS = 30;

const destinations = modelDestinations.map(({ id }) => id);

type Place = Readonly<{ model: Model; real: Real }>;

/** Each world has other latencies; a history that is told again for a shorter one too. */
let worlds = 0;

/** A new world with events under way for every run, so that a shorter history begins where the longer one did. */
async function begin(): Promise<Place> {
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

function look({ model, real: { requestLog, world } }: Place): Promise<void> {
  return compare(model, requestLog, world.clock.now(), false);
}

async function endWell(place: Place): Promise<void> {
  const { model, real } = place;
  for (const destination of destinations) {
    real.world.receiver.script(urlOf(destination), 204);
    await resume(destination, real, model);
    await turn(real.runtime, destination, "running");
  }
  await heal(real.platform);
  await look(place);
  expect(await faultsAtEnd(model)).toEqual([]);
  expect(real.platform.dropped, "let go before its outcome was on record").toEqual([]);
}

test("a delivery lives as the model has it, whatever happens to it", async () => {
  let replayed = 0;
  const history = fc.commands(steps, { maxCommands: STEPS, size: "max" });
  const property = fc.asyncProperty(
    answerSequence,
    answerSequence,
    history,
    async (first, second, commands) => {
      const place = await begin();
      script(place.real, 0, first);
      script(place.real, 1, second);
      await place.real.platform.deliver();
      await look(place);
      await fc.asyncModelRun(() => place, commands);
      await endWell(place);
      for (const { moved } of place.model.replays.values()) replayed += moved;
    },
  );
  await fc.assert(property, { numRuns: RUNS, seed: 7 });
  expect(replayed).toBeGreaterThan(RUNS / 4);
}, 300_000);
