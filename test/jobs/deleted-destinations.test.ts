/** The retries of a deleted destination. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { eventAt } from "../../src/core/bundle.ts";
import { endDeleted } from "../../src/jobs/deleted-destinations.ts";
import { sweep } from "../../src/jobs/sweep.ts";
import { insertRow } from "../support/api.ts";
import {
  execute,
  newDestination,
  newWorld,
  rowOf,
  START,
  storedRows,
  TENANT,
  urlOf,
  type World,
} from "../support/world.ts";

let world: World;
beforeEach(async () => {
  world = await newWorld();
});

const HOUR = 3_600_000;
const cancelled = { state: "cancelled", reason: "destination_deleted", nextAttemptAt: null };

const tombstone = (id: string, at = START) =>
  execute("UPDATE destinations SET deleted_at = ?2 WHERE id = ?1", id, at);

/** A delivery of its own row, in the bundle. */
const insertDelivery = (destination: string, bundle: number, fields: object = {}) =>
  insertRow("deliveries", {
    destination_id: destination,
    event_id: eventAt(bundle, 0),
    state: "retrying",
    reason: "http_503",
    attempts: 2,
    next_attempt_at: START + HOUR,
    give_up_at: START + 9 * HOUR,
    ...fields,
  });

describe("a delivery that is to be retried", () => {
  test("is cancelled at once when its destination is deleted, with its attempts in the log", async () => {
    const destination = await newDestination();
    world.receiver.script(urlOf(destination), 503);
    const [message] = await world.post();
    if (!message) throw new Error("There is a delivery");
    await world.consume([message]);
    expect(await rowOf(message)).toMatchObject({ state: "retrying", attempts: 1 });
    await tombstone(destination);
    await endDeleted(world.services, destination);
    expect(await rowOf(message)).toMatchObject({ ...cancelled, attempts: 1, endedAt: world.clock.now() });
    // Its message, which still comes, finds nothing to do.
    await world.consume([message]);
    expect(world.receiver.calls).toHaveLength(1);
  });

  test("is left to its sender while it is being attempted", async () => {
    const destination = await newDestination();
    const other = await newDestination();
    await insertDelivery(destination, 1, { reason: "in_flight" });
    await insertDelivery(destination, 2);
    await insertDelivery(other, 2);
    await insertDelivery(destination, 3, { state: "dead", reason: "expired", next_attempt_at: null });
    await tombstone(destination);
    await endDeleted(world.services, destination);
    const rows = (await storedRows()).filter(({ destinationId }) => destinationId === destination);
    expect(rows).toMatchObject([{ state: "retrying", reason: "in_flight" }, cancelled, { state: "dead" }]);
    expect((await storedRows()).find(({ destinationId }) => destinationId === other)).toMatchObject({
      state: "retrying",
    });
  });

  test("counts as failed for the replay that sent it again", async () => {
    const destination = await newDestination();
    await insertRow("replays", {
      id: "rpl_1",
      tenant: TENANT,
      destination_id: destination,
      include: "dead",
      since: 0,
      until: START,
      rate_per_minute: 100,
      state: "running",
      pace: 100,
      next_step_at: START + HOUR,
      created_at: 0,
      updated_at: 0,
    });
    await insertDelivery(destination, 1, { replay: "rpl_1" });
    await tombstone(destination);
    await endDeleted(world.services, destination);
    await endDeleted(world.services, destination);
    expect(await env.DB.prepare("SELECT failed FROM replays").first("failed")).toBe(1);
  });
});

describe("if the invocation that deleted a destination has died, or had too many to cancel, the sweep", () => {
  async function sweepOften(times: number): Promise<void> {
    for (let i = 0; i < times; i++) {
      world.clock.pass(60_000);
      await sweep.run(world.services);
      await world.settled();
    }
  }

  test("cancels the retries within three minutes, in every database", async () => {
    const [first, second] = [await newDestination(), await newDestination()];
    await insertDelivery(first, 1);
    await insertDelivery(second, 2);
    await tombstone(first);
    await tombstone(second, START + 1);
    await sweepOften(3);
    expect(await storedRows()).toMatchObject([cancelled, cancelled]);
  });

  test("continues where it has stopped, and past a destination whose gate cannot be reached", async () => {
    const [first, second] = [await newDestination(), await newDestination()];
    await insertDelivery(first, 1);
    await insertDelivery(second, 2);
    await tombstone(first);
    await tombstone(second, START + 1);
    world.gates.before((method, destination) => {
      if (method === "recheck" && destination === first) throw new Error("The gate is away");
    });
    await sweepOften(3);
    expect((await storedRows()).find(({ destinationId }) => destinationId === second)).toMatchObject(
      cancelled,
    );
  });

  test("reads a destination that was deleted once, and then never again", async () => {
    const destination = await newDestination();
    await insertDelivery(destination, 1);
    await tombstone(destination);
    await sweepOften(3);
    await execute("UPDATE deliveries SET state = 'retrying', next_attempt_at = ?1", START + HOUR);
    await sweepOften(2);
    expect(await storedRows()).toMatchObject([{ state: "retrying" }]);
  });
});

test("thousands of retries are cancelled in steps, without missing one between them", async () => {
  const destination = await newDestination();
  await execute(
    `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12000)
      INSERT INTO deliveries (destination_id, event_id, state, reason, attempts, next_attempt_at, give_up_at)
      SELECT ?1, i * 128, iif(i % 3, 'retrying', 'dead'), 'http_503', 1, iif(i % 3, ?2, NULL), ?2 FROM n`,
    destination,
    START + HOUR,
  );
  await tombstone(destination);
  const left = () =>
    env.DB.prepare("SELECT count(*) AS n FROM deliveries WHERE state = 'retrying'").first<number>("n");
  await endDeleted(world.services, destination);
  const afterFirst = Number(await left());
  expect(afterFirst).toBeGreaterThan(0);
  expect(afterFirst).toBeLessThan(8_000);
  for (let i = 0; i < 4; i++) {
    world.clock.pass(60_000);
    await sweep.run(world.services);
    for (const { body } of world.drainQueue.taken()) await world.answer([body]);
  }
  expect(await left()).toBe(0);
});
