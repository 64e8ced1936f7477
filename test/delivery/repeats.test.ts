/**
 * A queue may deliver a message twice, and two batches may overlap: there is one attempt at a time, and no superfluous one.
 */
import { beforeEach, describe, expect, test } from "vitest";
import { consumeDeliveries } from "../../src/delivery/consumer.ts";
import { batchOf } from "../support/queues.ts";
import { silence } from "../support/receivers.ts";
import {
  execute,
  FIRST_EVENT,
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

describe("the same message twice in one batch", () => {
  test("is one attempt, and both are acknowledged", async () => {
    const messages = await world.post();
    expect(await world.consume([...messages, ...messages])).toEqual(["acked", "acked"]);
    expect(world.receiver.calls).toHaveLength(1);
  });

  test("comes again once, not twice, after a failure", async () => {
    world.receiver.script(urlOf(destination), 500);
    const messages = await world.post();
    expect(await world.consume([...messages, ...messages, ...messages])).toEqual([
      { retryIn: 23 },
      "acked",
      "acked",
    ]);
  });
});

describe("the same message in two batches at once", () => {
  test("is one attempt: the second is retried when the first one's lease has ended at the latest", async () => {
    const { script, end } = silence();
    world.receiver.script(urlOf(destination), script);
    const messages = await world.post();
    const first = world.consume(messages);
    await world.receiver.called(1);

    const [second] = await world.consume(messages);
    expect(second).toEqual({ retryIn: expect.any(Number) });
    expect((second as { retryIn: number }).retryIn).toBeLessThanOrEqual(60);

    end(204);
    expect(await first).toEqual(["acked"]);
    world.clock.pass(60_000);
    expect(await world.consume(messages)).toEqual(["acked"]);
    expect(world.receiver.calls).toHaveLength(1);
    expect(await storedRows()).toMatchObject([{ state: "delivered", attempts: 1 }]);
  });

  test("is one attempt when one loads it before the other ends it, and requests admission after that", async () => {
    const messages = await world.post();
    const { batch, results } = batchOf("breakwater-deliveries", messages.map(messageFor));
    const between = async () => {
      world.clock.pass(5);
      expect(await world.consume(messages)).toEqual(["acked"]);
      world.clock.pass(5);
    };
    await consumeDeliveries({ ...world.services, db: afterFirstLookUp(world.services.db, between) }, batch);
    expect(results).toEqual([{ retryIn: 0 }]);
    expect(await world.consume(messages)).toEqual(["acked"]);
    expect(world.receiver.calls).toHaveLength(1);
  });

  test("is one attempt when both run in step", async () => {
    const messages = await world.post(20);
    await Promise.all([world.consume(messages), world.consume(messages), world.consume(messages)]);
    expect(world.receiver.calls).toHaveLength(20);
    expect((await storedRows()).map(({ state, attempts }) => [state, attempts])).toEqual(
      Array(20).fill(["delivered", 1]),
    );
  });
});

describe("a message for a delivery that is", () => {
  test.each(["delivered", "dead", "cancelled"])("%s is acknowledged without an attempt", async (state) => {
    const messages = await world.post();
    await stored({ state });
    expect(await world.consume(messages)).toEqual(["acked"]);
    expect(world.receiver.calls).toEqual([]);
    expect(world.gates.called()).toEqual([]);
    expect(await storedRows()).toMatchObject([{ state, attempts: 1 }]);
  });

  test("waiting is acknowledged: the drain will deliver it", async () => {
    const messages = await world.post();
    await stored({ state: "waiting" });
    expect(await world.consume(messages)).toEqual(["acked"]);
    expect(world.receiver.calls).toEqual([]);
    expect(await storedRows()).toMatchObject([{ state: "waiting", attempts: 1 }]);
  });
});

/** The delivery of the first event as a row. */
async function stored({ state }: { state: string }): Promise<void> {
  await execute(
    `INSERT INTO deliveries (destination_id, event_id, state, attempts, give_up_at) VALUES (?1, ?4, ?2, 1, ?3)`,
    destination,
    state,
    START + 1_000_000,
    FIRST_EVENT,
  );
}

/** The database, and what happens between the first read and its answer. */
function afterFirstLookUp(db: D1Database, meanwhile: () => Promise<void>): D1Database {
  let isFirst = true;
  const batch: D1Database["batch"] = async <T>(statements: D1PreparedStatement[]) => {
    const found = await db.batch<T>(statements);
    if (isFirst) {
      isFirst = false;
      await meanwhile();
    }
    return found;
  };
  return { prepare: (sql: string) => db.prepare(sql), batch } as D1Database;
}
