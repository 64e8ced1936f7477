/** Replays over three databases: one part after the other, exact counts, one replay at a time. */
import { beforeEach, describe, expect, test } from "vitest";
import { databaseNumberOf } from "../../src/core/placement.ts";
import { sweep } from "../../src/jobs/sweep.ts";
import { findReplay } from "../../src/store/replays.ts";
import { accept } from "../support/accept.ts";
import { KEY, testApi } from "../support/api.ts";
import { rowsOfAll, testDatabases } from "../support/databases.ts";
import {
  execute,
  newDestination,
  newWorld,
  storedRows,
  TENANT,
  urlOf,
  type World,
} from "../support/world.ts";

const MINUTE = 60_000;
const EVENTS = 24;

let world: World;
let destination: string;
let since: number;

beforeEach(async () => {
  world = await newWorld();
  destination = await newDestination();
  world.receiver.script(urlOf(destination), 400);
  since = world.clock.now();
  for (let i = 0; i < EVENTS; i++) {
    await accept(world.services, [{ tenant: TENANT, type: "order.paid", data: i }]);
    world.clock.pass(MINUTE);
  }
  await world.settled();
  await world.consume(world.deliveryQueue.taken().map(({ body }) => body));
  await world.settled();
  world.receiver.script(urlOf(destination), 204);
  world.clock.pass(MINUTE);
});

async function call(method: string, path: string, body?: unknown) {
  const services = { ...world.services, config: { ...world.services.config, adminKey: KEY } };
  const answer = await testApi({ services }).call(method, path, body);
  await world.settled();
  return answer;
}

const post = () =>
  call("POST", "/v1/replays", {
    destination_id: destination,
    since: new Date(since).toISOString(),
    until: new Date(world.clock.now()).toISOString(),
    rate_per_minute: 60,
  });

/** Runs steps and drains, until so many steps have been made or none is scheduled. */
async function goOn(steps = 40): Promise<void> {
  for (let step = 0; step < steps; step++) {
    const bells = world.upkeepQueue.taken().map(({ body }) => body);
    if (bells.length === 0) break;
    world.clock.pass(20_000);
    await world.keepUp(bells);
    await world.settled();
    await world.drain(destination);
    await world.settled();
  }
}

const states = async () => (await storedRows()).map(({ state }) => state);
const replayRows = () =>
  rowsOfAll<{ state: string; requeued: number; total: number }>("SELECT * FROM replays");

test("the dead deliveries are in all three databases", async () => {
  const rows = await storedRows();
  expect(rows.map(({ state }) => state)).toEqual(Array(EVENTS).fill("dead"));
  expect(new Set(rows.map(({ eventId }) => databaseNumberOf(eventId)))).toEqual(new Set([0, 1, 2]));
});

test("a replay counts what it selects in all databases when it begins, and requeues all of it", async () => {
  const { status, json } = await post();
  expect(status).toBe(201);
  expect(json).toMatchObject({ state: "running", total: EVENTS, requeued: 0, delivered: 0, failed: 0 });
  await goOn();
  expect(await states()).toEqual(Array(EVENTS).fill("delivered"));
  const done = { state: "completed", total: EVENTS, requeued: EVENTS, delivered: EVENTS, failed: 0 };
  expect((await call("GET", `/v1/replays/${json.id}`)).json).toMatchObject(done);
  expect((await call("GET", "/v1/replays")).json.data).toMatchObject([done]);
});

test("a replay counts each end once, delivered or failed, whichever database it is in", async () => {
  const { json } = await post();
  world.receiver.script(
    urlOf(destination),
    ...Array.from({ length: EVENTS }, (_, i) => (i % 3 ? 204 : 400)),
    204,
  );
  await goOn();
  const rows = await storedRows();
  const bad = rows.filter(({ state }) => state === "dead").length;
  expect(bad).toBeGreaterThan(0);
  expect(await findReplay(world.services, json.id, undefined)).toMatchObject({
    requeued: EVENTS,
    delivered: EVENTS - bad,
    failed: bad,
  });
});

test("a destination has one replay at a time, and may have the next when it is cancelled half way", async () => {
  const { json: first } = await post();
  expect((await post()).status).toBe(409);
  await goOn(2);
  await call("POST", `/v1/replays/${first.id}/cancel`);
  world.upkeepQueue.taken();
  const { requeued } = (await call("GET", `/v1/replays/${first.id}`)).json;
  expect(requeued).toBeGreaterThan(0);
  expect(requeued).toBeLessThan(EVENTS);
  const { status, json: second } = await post();
  expect(status).toBe(201);
  expect(second.total).toBe((await states()).filter((state) => state === "dead").length);
  await goOn();
  expect((await call("GET", `/v1/replays/${second.id}`)).json).toMatchObject({
    state: "completed",
    requeued: second.total,
  });
  expect((await states()).filter((state) => state === "dead")).toEqual([]);
});

test("a paused replay requeues nothing in any database", async () => {
  const { json } = await post();
  await call("POST", `/v1/replays/${json.id}/pause`);
  await goOn(5);
  expect(await states()).toEqual(Array(EVENTS).fill("dead"));
  const resumed = await call("POST", `/v1/replays/${json.id}/resume`);
  expect(resumed.json).toMatchObject({ state: "running", total: EVENTS });
  await goOn();
  expect(await states()).toEqual(Array(EVENTS).fill("delivered"));
});

describe("when something breaks", () => {
  test("between inserting its job and its parts, the next step inserts the parts", async () => {
    const began = await post();
    await Promise.all(testDatabases.slice(1).map((db) => db.prepare("DELETE FROM replays").run()));
    await goOn();
    const seen = await findReplay(world.services, began.json.id, undefined);
    expect(seen).toMatchObject({ state: "completed", total: EVENTS, requeued: EVENTS, delivered: EVENTS });
  });

  test.each([
    "before",
    "after",
  ] as const)("%s a portion in another database, nothing is lost or counted twice", async (fault) => {
    const { json } = await post();
    let broken = 0;
    world.d1.failing((sql) => (sql.includes("reason = 'replayed'") && broken++ < 2 ? fault : undefined));
    for (let again = 0; again < 6; again++) {
      await goOn(8);
      await world.answer([{ replay: json.id }]);
      await sweep.run(world.services);
      await world.drain(destination);
      world.clock.pass(20_000);
    }
    await goOn();
    expect(broken).toBeGreaterThanOrEqual(2);
    expect(await states()).toEqual(Array(EVENTS).fill("delivered"));
    const seen = await findReplay(world.services, json.id, undefined);
    expect(seen).toMatchObject({
      state: "completed",
      total: EVENTS,
      requeued: EVENTS,
      delivered: EVENTS,
      failed: 0,
    });
    const rows = await replayRows();
    expect(rows.map(({ state }) => state)).toEqual(["completed", "completed", "completed"]);
    for (const { requeued, total } of rows) expect(requeued).toBe(total);
  });
});

test("a hundred and one replays are listed by a hundred, with the sums of their parts", async () => {
  await execute(
    `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 101)
     INSERT INTO replays (id, tenant, destination_id, include, since, until, rate_per_minute, state, total, pace,
       next_step_at, created_at, updated_at)
     SELECT 'rpl_' || i, ?1, 'dst_' || i, 'dead', 0, 1, 1, 'completed', i, 1, 0, 0, 0 FROM n`,
    TENANT,
  );
  const first = await call("GET", "/v1/replays?limit=100");
  expect(first.status).toBe(200);
  expect(first.json.data).toHaveLength(100);
  expect(first.json.data[0]).toMatchObject({ id: "rpl_101", total: 101 * testDatabases.length });
  const second = await call("GET", `/v1/replays?limit=100&cursor=${first.json.next_cursor}`);
  expect(second.json.data).toMatchObject([{ id: "rpl_1" }]);
});

test("a replay of missing deliveries plans and sends the events of all databases to a new destination", async () => {
  const old = destination;
  destination = await newDestination();
  const { status, json } = await call("POST", "/v1/replays", {
    destination_id: destination,
    since: new Date(since).toISOString(),
    until: new Date(world.clock.now()).toISOString(),
    rate_per_minute: 60,
    include: "missing",
  });
  expect(status).toBe(201);
  await goOn(80);
  const rows = (await storedRows()).filter(({ destinationId }) => destinationId === destination);
  expect(rows.map(({ state }) => state)).toEqual(Array(EVENTS).fill("delivered"));
  expect(new Set(rows.map(({ eventId }) => databaseNumberOf(eventId)))).toEqual(new Set([0, 1, 2]));
  expect((await call("GET", `/v1/replays/${json.id}`)).json).toMatchObject({
    state: "completed",
    total: EVENTS,
    requeued: EVENTS,
    delivered: EVENTS,
  });
  const others = (await storedRows()).filter(({ destinationId }) => destinationId === old);
  expect(others.map(({ state }) => state)).toEqual(Array(EVENTS).fill("dead"));
});
