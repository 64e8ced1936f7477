/** Options of events: headers and a time to live; and their cost for events that have neither. */
import { beforeEach, describe, expect, test } from "vitest";
import { sweep } from "../../src/jobs/sweep.ts";
import { accept } from "../support/accept.ts";
import { rowsOfAll } from "../support/databases.ts";
import { requeueOne } from "../support/requeue.ts";
import {
  execute,
  GRACE_MS,
  newDestination,
  newWorld,
  START,
  storedRows,
  urlOf,
  type World,
} from "../support/world.ts";

let world: World;
beforeEach(async () => {
  world = await newWorld();
});

const MINUTE = 60_000;

/** Posts with these options, and makes the first attempt, which the script answers. */
async function attempt(
  options: NonNullable<Parameters<World["post"]>[1]>["options"],
  script: Parameters<World["receiver"]["script"]>[1] = 204,
  columns = {},
) {
  const destination = await newDestination(columns);
  world.receiver.script(urlOf(destination), script);
  const messages = await world.postBundles(1, { ...(options && { options }) });
  await world.consume(messages);
  return { destination, messages };
}

describe("an event's own headers", () => {
  test("are sent below the destination's and Breakwater's, on every attempt", async () => {
    const headers = { "X-Trace": "t1", "X-Both": "event", "User-Agent": "nobody" };
    const { messages } = await attempt({ headers }, 500, { headers: { "x-both": "destination" } });
    world.clock.pass(MINUTE);
    await world.consume(messages);
    const sent = world.receiver.calls.map(({ headers: got }) => [
      got.get("x-trace"),
      got.get("x-both"),
      got.get("user-agent")?.startsWith("Breakwater"),
    ]);
    expect(sent).toEqual([
      ["t1", "destination", true],
      ["t1", "destination", true],
    ]);
  });

  test("are sent with that event only, and not with its neighbours in the bundle", async () => {
    const destination = await newDestination();
    world.receiver.script(urlOf(destination), 204);
    const event = { tenant: "acme", type: "a" };
    await accept(world.services, [
      { ...event, data: 0 },
      { ...event, data: 1, options: { headers: { "x-own": "1" } } },
      { ...event, data: 2 },
    ]);
    await world.settled();
    await world.consume(world.deliveryQueue.taken().map(({ body }) => body));
    const sent = world.receiver.calls.map(({ body, headers }) => [
      JSON.parse(body).data,
      headers.get("x-own"),
    ]);
    expect(sent.toSorted()).toEqual([
      [0, null],
      [1, "1"],
      [2, null],
    ]);
  });
});

describe("an event with a time to live", () => {
  test("is given up when that ends, even if its policy would continue", async () => {
    const { messages } = await attempt({ ttlSeconds: 100 }, 500);
    expect(await storedRows()).toMatchObject([{ state: "retrying", giveUpAt: START + 100_000 }]);
    world.clock.pass(101_000);
    await world.consume(messages);
    expect(await storedRows()).toMatchObject([{ state: "dead", reason: "expired", attempts: 1 }]);
    expect(world.receiver.calls).toHaveLength(1);
  });

  test("keeps the policy's limit if that is earlier", async () => {
    await attempt({ ttlSeconds: 3_600 }, 500, { retry: { give_up_after: 600 } });
    expect(await storedRows()).toMatchObject([{ giveUpAt: START + 600_000 }]);
  });

  test("expires while it waits, and its neighbours in the bundle continue to wait", async () => {
    const destination = await newDestination({ status: "paused" });
    const event = { tenant: "acme", type: "a", data: {} };
    await accept(world.services, [event, { ...event, options: { ttlSeconds: 30 } }, event]);
    await world.settled();
    await world.consume(world.deliveryQueue.taken().map(({ body }) => body));
    const states = async () => (await storedRows()).map(({ state, reason }) => `${state} ${reason}`);
    expect(await states()).toEqual(["waiting paused", "waiting paused", "waiting paused"]);
    world.clock.pass(31_000);
    await sweep.run(world.services);
    expect(await states()).toEqual(["waiting paused", "dead expired", "waiting paused"]);
    expect((await storedRows()).every((row) => row.destinationId === destination)).toBe(true);
  });

  test("keeps its time to live when it is lost and found by the sweep", async () => {
    await newDestination();
    await world.postBundles(1, { options: { ttlSeconds: 3_600 } });
    world.clock.pass(GRACE_MS + MINUTE);
    await sweep.run(world.services);
    expect(await storedRows()).toMatchObject([
      { state: "waiting", reason: "recovered", giveUpAt: START + 3_600_000 },
    ]);
  });

  test("is no longer bound by it when an operator sends it again", async () => {
    const { destination, messages } = await attempt({ ttlSeconds: 100 }, 500);
    world.clock.pass(101_000);
    await world.consume(messages);
    const [row] = await storedRows();
    const now = world.services.now();
    await requeueOne(
      world.services,
      { destinationId: destination, eventId: row?.eventId ?? 0 },
      now + MINUTE,
    );
    await execute("UPDATE deliveries SET state = 'retrying', next_attempt_at = ?1", now);
    await world.consume(messages);
    expect(await storedRows()).toMatchObject([{ state: "retrying", attempts: 1 }]);
    expect(world.receiver.calls).toHaveLength(2);
  });
});

describe("an event without options", () => {
  test("writes the same rows and the same header as before", async () => {
    await newDestination();
    world.d1.used();
    await world.postBundles(100);
    expect(world.d1.used()).toMatchObject({ rowsWritten: 1 });
    const [header] = await headers();
    expect(Object.keys(header ?? {}).sort()).toEqual(["encoding", "events", "tenants", "types", "version"]);
    expect(header).toMatchObject({ version: 1 });
  });

  test("with a tag for a hundred writes one row more", async () => {
    await newDestination();
    await world.postBundles(100, { options: { tags: ["import"] } });
    expect(world.d1.used()).toMatchObject({ rowsWritten: 2 });
  });
});

async function headers(): Promise<Record<string, unknown>[]> {
  const rows = await rowsOfAll<{ header: string }>("SELECT header FROM bundles");
  return rows.map(({ header }) => JSON.parse(header));
}
