/** The platform's dead letters: messages that failed too often become dead deliveries, which operators can see. */
import { beforeEach, expect, test } from "vitest";
import { consumeDeadLetters } from "../../src/delivery/dead-letters.ts";
import { batchOf } from "../support/queues.ts";
import {
  isName,
  messageFor,
  newDestination,
  newWorld,
  START,
  storedRows,
  urlOf,
  type World,
} from "../support/world.ts";

let world: World;
let destination: string;
beforeEach(async () => {
  world = await newWorld();
  destination = await newDestination();
});

/** Each name in a message of its own. */
async function buried(given: readonly unknown[]) {
  const messages = given.map((one) => (isName(one) ? messageFor(one) : one));
  const { batch, results } = batchOf("breakwater-dead", messages, 100);
  await consumeDeadLetters(world.services, batch);
  return results;
}

test("a dead letter ends a delivery without an outcome as dead", async () => {
  expect(await buried(await world.post())).toEqual(["acked"]);
  const dead = { state: "dead", reason: "poison", attempts: 0, endedAt: START, nextAttemptAt: null };
  expect(await storedRows()).toMatchObject([dead]);
  expect(world.receiver.calls).toEqual([]);
});

test("a dead letter keeps the attempts that a delivery has had", async () => {
  world.receiver.script(urlOf(destination), 500);
  const messages = await world.post();
  await world.consume(messages);
  await buried(messages);
  expect(await storedRows()).toMatchObject([
    { state: "dead", reason: "poison", attempts: 1, log: [{ status: 500 }] },
  ]);
});

test("a dead letter changes nothing about a delivery that has ended", async () => {
  const messages = await world.post();
  await world.consume(messages);
  expect(await buried(messages)).toEqual(["acked"]);
  expect(await storedRows()).toMatchObject([{ state: "delivered", attempts: 1 }]);
});

test("a dead letter that names no delivery is dropped", async () => {
  expect(await buried([null, { event: 9, destination: "dst_x" }])).toEqual(["acked", "acked"]);
  expect(await storedRows()).toEqual([]);
});

test("a batch of dead letters fails as a whole while D1 is away, so that the platform retries it", async () => {
  const messages = await world.post();
  world.d1.failing(() => "before");
  await expect(buried(messages)).rejects.toThrow("D1");
});
