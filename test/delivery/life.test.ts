/**
 * Random histories: posts, responses of every kind, messages that come twice, crashes,
 * evicted gates, pauses, deletions, retries by hand, replays, and a clock that jumps. After each step every
 * delivery is as a simple model says; at the end, when everything works again, every one of them
 * ends, and every replay has moved what it meant.
 */
import fc from "fast-check";
import { expect, test } from "vitest";
import { compare, leftOpen, type Model, newModel, retry } from "../support/life-model.ts";
import {
  answerSequence,
  lifeDestinations,
  type Real,
  resume,
  script,
  steps,
  turn,
} from "../support/life-steps.ts";
import { heal, platformOf } from "../support/platform.ts";
import { wireOf } from "../support/wire.ts";
import { witnessOf } from "../support/witness.ts";
import { newDestination, newGates, newWorld, urlOf } from "../support/world.ts";

const RUNS = 40;
const STEPS = 30;

const destinations = lifeDestinations.map(({ id }) => id);

type Place = Readonly<{ model: Model; real: Real }>;

/** Each world has other latencies, also when a failing history is repeated to shorten it. */
let worlds = 0;

/** A new world with events under way for every run, so that a shorter history begins where the longer one did. */
async function begin(): Promise<Place> {
  const world = await newWorld();
  const witness = witnessOf(world.services);
  worlds += 1;
  const wire = wireOf({ ...world, services: witness.services }, { seed: worlds });
  await newGates(destinations);
  for (const destination of lifeDestinations) await newDestination({ ...destination, retry });
  const platform = platformOf(world, wire, destinations, worlds);
  await platform.post(3);
  return { model: newModel(), real: { world, witness, wire, destinations, platform } };
}

function look({ model, real: { witness, world } }: Place): Promise<void> {
  return compare(model, witness, world.clock.now(), false);
}

async function endWell(place: Place): Promise<void> {
  const { model, real } = place;
  for (const destination of destinations) {
    real.world.receiver.script(urlOf(destination), 204);
    await resume(destination, real, model);
    await turn(real.wire, destination, "running");
  }
  await heal(real.platform);
  await look(place);
  expect(await leftOpen(model)).toEqual([]);
  expect(real.platform.dropped, "let go before its outcome was on record").toEqual([]);
}

test("a delivery changes state as the model says, whatever happens to it", async () => {
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
      for (const { requeued } of place.model.replays.values()) replayed += requeued;
    },
  );
  await fc.assert(property, { numRuns: RUNS, seed: 7 });
  expect(replayed).toBeGreaterThan(RUNS / 4);
}, 300_000);
