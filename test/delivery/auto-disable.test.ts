/** A destination that refuses everything, or has failed for days, is paused with a reason, until an operator resumes it. */
import { beforeEach, describe, expect, test } from "vitest";
import { setDestinationStatus } from "../../src/store/destinations.ts";
import {
  execute,
  newDestination,
  newWorld,
  START,
  statusOf,
  storedRows,
  urlOf,
  type World,
} from "../support/world.ts";

const DAY = 86_400_000;

let world: World;
let place: string;
beforeEach(async () => {
  world = await newWorld();
  place = await newDestination();
});

/** Posts so many, and delivers them in batches of as many as their gate admits, slowly enough for the rate. */
async function deliver(count: number): Promise<void> {
  for (let left = count; left > 0; left -= 10) {
    world.clock.pass(1_000);
    await world.consume(await world.post(Math.min(10, left)));
    await world.settled();
    for (let i = 0; i < 10 && (await waiting()) > 0; i++) {
      world.clock.pass(2_000);
      await world.drain(place);
      await world.settled();
    }
  }
}

const waiting = async () => (await storedRows()).filter(({ state }) => state === "waiting").length;

async function resume(): Promise<void> {
  await setDestinationStatus(
    world.services.db,
    place,
    { status: "active", statusReason: null },
    undefined,
    START,
  );
  const { gates } = world.services;
  await gates.get(gates.idFromName(place)).resume();
}

describe("a destination that rejects permanently", () => {
  beforeEach(() => world.receiver.script(urlOf(place), 400));

  test("a hundred times stays active", async () => {
    await deliver(100);
    expect(await statusOf(place)).toEqual(["active", null]);
  });

  test("more than a hundred times is paused, and later deliveries wait", async () => {
    await deliver(101);
    expect(await statusOf(place)).toEqual(["paused", "rejecting"]);
    expect(world.logged("destination_paused")).toMatchObject([{ destination: place, reason: "rejecting" }]);
    const calls = world.receiver.calls.length;
    await world.consume(await world.post());
    expect(world.receiver.calls).toHaveLength(calls);
    expect((await storedRows()).at(-1)).toMatchObject({ state: "waiting", reason: "paused" });
  });

  test("and is resumed has a hundred rejections again", async () => {
    await deliver(101);
    await resume();
    await deliver(1);
    expect(await statusOf(place)).toEqual(["active", null]);
  });

  test("and was activated in the database has a hundred rejections again", async () => {
    await deliver(101);
    await world.consume(await world.post());
    await execute("UPDATE destinations SET status = 'active', status_reason = NULL");
    await deliver(1);
    expect(await statusOf(place)).toEqual(["active", null]);
  });

  test("is paused by the next failure when D1 was away at the first", async () => {
    world.d1.failing((sql) => (sql.includes("status = 'paused'") ? "before" : undefined));
    await deliver(101);
    expect(await statusOf(place)).toEqual(["active", null]);
    expect(world.logged("pause_failed")).toHaveLength(1);
    world.d1.failing(() => undefined);
    await deliver(1);
    expect(await statusOf(place)).toEqual(["paused", "rejecting"]);
  });
});

test("a destination that has failed for five days without a success is paused", async () => {
  world.receiver.script(urlOf(place), 500);
  for (let day = 0; day < 5; day++) {
    await deliver(4);
    expect(await statusOf(place)).toEqual(["active", null]);
    world.clock.pass(DAY);
  }
  await deliver(4);
  expect(await statusOf(place)).toEqual(["paused", "failing"]);
});

test("auto-disable costs nothing while a destination succeeds", async () => {
  await world.earnTrust(place);
  world.d1.used();
  world.gates.called();
  await world.consume(await world.post());
  await world.settled();
  expect(world.gates.called()).toEqual(["admit", "settle"]);
  expect(world.d1.used().rowsWritten).toBe(2);
});
