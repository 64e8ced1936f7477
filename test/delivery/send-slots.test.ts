/** The send slots of a lease: an attempt that starts late is still made, and moves the slots behind it. */
import { beforeEach, expect, test } from "vitest";
import { calm, newDestination, newWorld, rowOf, START, urlOf, type World } from "../support/world.ts";

let world: World;
beforeEach(async () => {
  world = await newWorld();
});

/** Five deliveries for a receiver that takes 700 ms for the first: by then the slots of four more have passed. */
async function bringFive(rateBurst: number) {
  const destination = await newDestination({ ratePerSecond: 10, rateBurst });
  const startedAt: number[] = [];
  const answer = (ms: number) => () => {
    startedAt.push(world.clock.now() - START);
    world.clock.pass(ms);
    return new Response(null, { status: 204 });
  };
  world.receiver.script(urlOf(destination), answer(700), answer(0));
  const messages = await world.post(5);
  const delivered = world.consume(messages);
  return { messages, delivered, startedAt };
}

async function statesOf({ messages, delivered }: Awaited<ReturnType<typeof bringFive>>) {
  expect(await delivered).toEqual(Array(5).fill("acked"));
  const rows = await Promise.all(messages.map((message) => rowOf(message)));
  return rows.map((row) => row?.state);
}

test("a delivery that missed its send slot is still sent, and the rate counts from the late start", async () => {
  const five = await bringFive(1);
  for (const calls of [2, 3, 4]) {
    await world.receiver.called(calls);
    await calm();
    world.clock.pass(100);
  }
  expect(await statesOf(five)).toEqual(Array(5).fill("delivered"));
  expect(five.startedAt).toEqual([0, 700, 800, 900, 1_000]);
});

test("no start is too late while the rate has enough for all", async () => {
  const five = await bringFive(50);
  expect(await statesOf(five)).toEqual(Array(5).fill("delivered"));
  expect(five.startedAt).toEqual([0, 700, 700, 700, 700]);
});

test("each attempt waits for its own send slot", async () => {
  const destination = await newDestination({ ratePerSecond: 2, rateBurst: 1 });
  const startedAt: number[] = [];
  world.receiver.script(urlOf(destination), () => {
    startedAt.push(world.clock.now() - START);
    return new Response(null, { status: 204 });
  });
  const delivered = world.consume(await world.post(3));
  await world.clock.asleep(500);
  world.clock.pass(500);
  await world.receiver.called(2);
  world.clock.pass(500);
  await delivered;
  expect(startedAt).toEqual([0, 500, 1_000]);
});
