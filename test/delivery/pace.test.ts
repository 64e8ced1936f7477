/** A lease's places in time, as a batch uses them: what comes too late for its place does not crowd the next. */
import { beforeEach, expect, test } from "vitest";
import { newDestination, newWorld, rowOf, START, urlOf, type World } from "../support/world.ts";

let world: World;
beforeEach(async () => {
  world = await newWorld();
});

/** Five deliveries for a receiver that takes 700 ms for the first: the places of four more have passed then. */
async function bringFive(rateBurst: number) {
  const destination = await newDestination({ ratePerSecond: 10, rateBurst });
  const slowly = () => {
    world.clock.pass(700);
    return new Response(null, { status: 204 });
  };
  world.receiver.script(urlOf(destination), slowly, 204);
  const messages = await world.post(5);
  expect(await world.bring(messages)).toEqual(Array(5).fill("acked"));
  const rows = await Promise.all(messages.map((message) => rowOf(message)));
  return rows.map((row) => [row?.state, row?.because]);
}

test("what misses its place in time waits for the rate instead of crowding the places after it", async () => {
  expect(await bringFive(1)).toEqual([["delivered", null], ...Array(4).fill(["waiting", "rate"])]);
  expect(world.receiver.calls).toHaveLength(1);
});

test("nobody's start is too late while the rate has enough for all", async () => {
  expect(await bringFive(50)).toEqual(Array(5).fill(["delivered", null]));
});

test("each attempt waits for its own place", async () => {
  const destination = await newDestination({ ratePerSecond: 2, rateBurst: 1 });
  const startedAt: number[] = [];
  world.receiver.script(urlOf(destination), () => {
    startedAt.push(world.clock.now() - START);
    return new Response(null, { status: 204 });
  });
  const brought = world.bring(await world.post(3));
  await world.clock.asleep(500);
  world.clock.pass(500);
  await world.receiver.called(2);
  world.clock.pass(500);
  await brought;
  expect(startedAt).toEqual([0, 500, 1_000]);
});
