/** Each destination of a batch is recorded and settled as it ends, whatever its neighbours do. */

import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { consumeDeliveries } from "../../src/delivery/consumer.ts";
import { LINGER_MS, Recorder, RIDE_MS } from "../../src/delivery/recorder.ts";
import { loadedRow } from "../../src/store/delivery.ts";
import { faultyRuntime } from "../support/faulty-runtime.ts";
import { interceptedD1 } from "../support/intercept.ts";
import { batchOf } from "../support/queues.ts";
import { silence } from "../support/receivers.ts";
import {
  calm,
  execute,
  FIRST_EVENT,
  forgetOutcomes,
  messageFor,
  newDestination,
  newWorld,
  rowOf,
  storedRows,
  urlOf,
  type World,
} from "../support/world.ts";

/** How long one answer is awaited. */
const PATIENCE_MS = 1_000;
/** A status that is retried and does not open the circuit. */
const BUSY = 409;
const WRITE = "INSERT INTO packs";

let world: World;
beforeEach(async () => {
  world = await newWorld();
});

const event = FIRST_EVENT;

/** A destination that gives no answer until its `end` is called. */
async function silentDestination() {
  const id = await newDestination();
  const { script, end } = silence();
  world.receiver.script(urlOf(id), script);
  return { id, end };
}

/** Delivers the messages. `isOver` says whether the batch has ended. */
function consume(messages: readonly unknown[]) {
  let over = false;
  const results = world.consume(messages).finally(() => {
    over = true;
  });
  return { results, isOver: () => over };
}

/** Waits until the condition holds, without moving the clock. */
async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  for (let turn = 0; turn < 200; turn++) {
    if (await isSo()) return;
    await calm();
  }
  throw new Error("It has not come to be so");
}

/** The gates whose leases were settled, in order. */
function settledGates(): readonly string[] {
  const settled: string[] = [];
  world.gates.before((method, destination) => {
    if (method === "settle") settled.push(destination);
  });
  return settled;
}

/** Lets the time pass in which others may report to share a write. */
async function noCompany(): Promise<void> {
  await world.clock.asleep(10);
  world.clock.pass(10);
}

describe("a destination that answers, beside one of the same batch that hangs", () => {
  test("is recorded and settled before the other one's patience is over", async () => {
    const slow = await silentDestination();
    const quick = await newDestination();
    const settled = settledGates();
    const batch = consume(await world.post());
    await world.receiver.called(2);
    await noCompany();
    await until(() => settled.includes(quick));
    expect(await rowOf({ eventId: event, destinationId: quick })).toMatchObject({ state: "delivered" });
    expect(await rowOf({ eventId: event, destinationId: slow.id })).toBeUndefined();
    expect(batch.isOver()).toBe(false);

    world.clock.pass(PATIENCE_MS);
    expect(await batch.results).toEqual(["acked", "acked"]);
    expect(await rowOf({ eventId: event, destinationId: slow.id })).toMatchObject({ reason: "in_flight" });
    expect(settled).toEqual([quick]);
    slow.end(204);
    await world.settled();
    expect(settled).toEqual([quick, slow.id]);
  });

  test("is recorded together with decisions without an attempt", async () => {
    const [slow, quick] = [await silentDestination(), await silentDestination()];
    const paused = await newDestination({ status: "paused" });
    const messages = await world.post();
    world.d1.used();
    const batch = consume(messages);
    await world.receiver.called(2);
    // Dispositions without an attempt wait to share a write, too.
    await world.clock.asleep(RIDE_MS);
    quick.end(204);
    await noCompany();
    await until(async () => (await storedRows()).length === 2);
    expect(await rowOf({ eventId: event, destinationId: quick.id })).toMatchObject({ state: "delivered" });
    expect(await rowOf({ eventId: event, destinationId: paused })).toMatchObject({ state: "waiting" });
    expect(batch.isOver()).toBe(false);
    world.clock.pass(PATIENCE_MS);
    expect(await batch.results).toEqual(Array(3).fill("acked"));
    // To load, for those two, and for the one that hangs.
    expect(world.d1.used().roundTrips).toBe(3);
    slow.end(204);
  });
});

test("a crash after the first destination is recorded repeats only the others", async () => {
  const quick = await newDestination();
  const slow = await newDestination();
  const others = [slow, await newDestination()];
  // The simulated clock moves by itself.
  const late = () => world.clock.sleep(700).then(() => new Response(null, { status: 204 }));
  for (const id of others) world.receiver.script(urlOf(id), late, 204);
  const messages = (await world.post()).map((name) => messageFor(name));
  const runtime = faultyRuntime(world);
  const delivered = async () => {
    const { batch, results } = batchOf("breakwater-deliveries", messages);
    const survived = await runtime.invoke("consume", (services) => consumeDeliveries(services, batch));
    return { survived, results };
  };
  runtime.failNext((call) => call.includes(WRITE), "crash");
  expect(await delivered()).toEqual({ survived: false, results: Array(3).fill("left") });
  expect((await storedRows()).map(({ destinationId, state }) => [destinationId, state])).toEqual([
    [quick, "delivered"],
  ]);

  runtime.stopFailing();
  // Until the leases of the crashed invocation have expired.
  world.clock.pass(120_000);
  expect(await delivered()).toEqual({ survived: true, results: Array(3).fill("acked") });
  expect(world.receiver.to(urlOf(quick))).toHaveLength(1);
  for (const id of others) expect(world.receiver.to(urlOf(id))).toHaveLength(2);
  expect((await storedRows()).map(({ state }) => state)).toEqual(Array(3).fill("delivered"));
});

test("destinations that end together share a write, and no row is written twice", async () => {
  for (let i = 0; i < 10; i++) await newDestination();
  const messages = await world.post(3);
  world.d1.used();
  await world.consume(messages);
  // To load, and to record.
  expect(world.d1.used()).toMatchObject({ roundTrips: 2, rowsWritten: 10 });
});

describe("a write that fails", () => {
  afterEach(() => execute("DROP TRIGGER IF EXISTS poison"));

  async function passTries(): Promise<void> {
    for (const pause of [188, 375]) {
      await world.clock.asleep(pause);
      world.clock.pass(pause);
    }
  }

  test("on every try retries the messages that it was for, and no others", async () => {
    const quick = await newDestination();
    const slow = await silentDestination();
    const messages = await world.post();
    const settled = settledGates();
    let writes = 0;
    world.d1.failing((sql) => (sql.includes(WRITE) && ++writes <= 3 ? "before" : undefined));
    const batch = consume(messages);
    await world.receiver.called(2);
    await noCompany();
    await world.clock.asleep(188);
    slow.end(204);
    await passTries();
    const results = await batch.results;
    expect(results[messages.findIndex(({ destinationId }) => destinationId === quick)]).toEqual({
      retryIn: 5,
    });
    expect(results[messages.findIndex(({ destinationId }) => destinationId === slow.id)]).toBe("acked");
    expect(settled).toEqual([slow.id]);
    expect(await storedRows()).toMatchObject([{ destinationId: slow.id, state: "delivered" }]);
    expect(world.logged("batch_failed")).toMatchObject([{ messages: 1 }]);
  });

  test("because of one destination fails only for that one, also when others share it", async () => {
    const places = [await newDestination(), await newDestination(), await newDestination()];
    for (const id of places) world.receiver.script(urlOf(id), BUSY);
    const poisoned = places[1] ?? "";
    await execute(`CREATE TRIGGER poison BEFORE INSERT ON deliveries WHEN new.destination_id = '${poisoned}'
      BEGIN SELECT raise(ABORT, 'poison'); END`);
    const messages = await world.post();
    const settled = settledGates();
    const batch = consume(messages);
    await passTries();
    const results = await batch.results;
    for (const [i, { destinationId: destination }] of messages.entries())
      expect(results[i]).toEqual({ retryIn: destination === poisoned ? 5 : 22 });
    expect([...settled].sort()).toEqual(places.filter((id) => id !== poisoned).sort());
    expect(await storedRows()).toHaveLength(2);
    // All of them twice, and each of them once.
    expect(world.logged("record_failed").map(({ deliveries }) => deliveries)).toEqual([3, 3, 1]);
  });
});

describe("a recorder", () => {
  /** Writes that do not end until they are released. */
  function heldWrites() {
    const held: (() => void)[] = [];
    const db = interceptedD1(env.DB, async (_, work) => {
      await new Promise<void>((letGo) => held.push(letGo));
      return work();
    });
    return { recorder: new Recorder({ ...world.services, db, further: [] }), held };
  }

  async function dispositions(count: number) {
    const destination = await newDestination();
    await world.consume(await world.post(count));
    const rows = (await storedRows()).filter((row) => row.destinationId === destination);
    await forgetOutcomes();
    return rows.map((row) => ({ delivery: {} as never, row: loadedRow(row) }));
  }

  test("has one write under way, and reports that come meanwhile share the next", async () => {
    const [a, b, c] = await dispositions(3);
    if (!a || !b || !c) throw new Error("They are there");
    const { recorder, held } = heldWrites();
    const done: string[] = [];
    void recorder.report([a]).then(() => done.push("a"));
    void recorder.report([b]).then(() => done.push("b"));
    void recorder.report([c], LINGER_MS).then(() => done.push("c"));
    await calm();
    expect(held).toHaveLength(1);
    expect(done).toEqual([]);
    held[0]?.();
    await until(() => held.length === 2);
    expect(done).toEqual(["a"]);
    held[1]?.();
    await until(() => done.length === 3);
    await calm();
    expect(held).toHaveLength(2);
  });

  test("writes nothing for an empty report", async () => {
    const { recorder, held } = heldWrites();
    expect(await recorder.report([])).toEqual([]);
    expect(await recorder.report([{ delivery: {} as never }], LINGER_MS)).toEqual([]);
    expect(held).toEqual([]);
  });
});
