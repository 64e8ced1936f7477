/** Which deliveries of dead letters end, which wait, and which get a message of their own. */
import { beforeEach, expect, test } from "vitest";
import { indexesOf } from "../../src/core/bundle.ts";
import { type ByHand, worldByHand } from "../support/by-hand.ts";

let world: ByHand;
let shop: string;
let other: string;
beforeEach(async () => {
  world = worldByHand();
  shop = world.destination({ eventTypes: ["order.paid"] });
  other = world.destination({ eventTypes: ["elsewhere"] });
  await world.post(6);
});

const INDEXES = 128;
const part = (first: number, last = first) => ({ bundle: 1, destinations: [shop], indexes: [first, last] });

/** Stores the delivery of the event at an index, as it stands. */
function store(
  index: number,
  state: string,
  { reason = null as string | null, inMs = 5_000 as number | null, owner = "" } = {},
) {
  const log = JSON.stringify([{ at: 0, latencyMs: 0, ...(owner && { owner }) }]);
  world.sql(
    `INSERT INTO deliveries (destination_id, event_id, state, reason, attempts, next_attempt_at, give_up_at, log)
     VALUES (?1, ?2, ?3, ?4, 1, ?5, ?6, ?7)`,
    ...[
      shop,
      INDEXES + index,
      state,
      reason,
      inMs === null ? null : world.now() + inMs,
      world.now() + 9e9,
      log,
    ],
  );
}

const stateOf = (index: number) => {
  const row = world.rows(shop).find(({ eventId }) => eventId === INDEXES + index);
  return row && [row.state, row.reason];
};

/** The messages that were sent, each as the indexes that it names, its owner, and its delay. */
const sent = () =>
  world
    .sent()
    .map(({ body: { bundles, owner }, delaySeconds }) => [
      bundles.flatMap(({ indexes = [] }) => indexesOf(indexes)),
      owner,
      delaySeconds,
    ]);

test("deliveries that were never attempted wait, also a single one, and its gate schedules a drain", async () => {
  expect(await world.bury([{ bundles: [part(0)] }, { bundles: [part(1, 2)] }])).toEqual(["acked", "acked"]);
  expect([0, 1, 2, 3].map(stateOf)).toEqual([...Array(3).fill(["waiting", "recovered"]), undefined]);
  expect(world.rows(shop)[0]).toMatchObject({ attempts: 0, nextAttemptAt: expect.any(Number) });
  await world.run(100);
  expect(world.gateCalls.map(({ method, destination }) => [method, destination])).toEqual([
    ["scheduleDrain", shop],
  ]);
  expect(sent()).toEqual([]);
  expect(world.logged("delivery_dead")).toEqual([]);
});

test("an attempted delivery that was alone in its message ends as dead, and is counted", async () => {
  for (const index of [0, 1]) store(index, "retrying", { reason: "http_500" });
  expect(await world.bury([{ bundles: [part(0)] }])).toEqual(["acked"]);
  expect([0, 1].map(stateOf)).toEqual([
    ["dead", "poison"],
    ["retrying", "http_500"],
  ]);
  expect(world.rows(shop)[0]).toMatchObject({
    endedAt: expect.any(Number),
    nextAttemptAt: null,
    attempts: 1,
  });
  expect(world.logged("delivery_dead")).toMatchObject([{ destination: shop, reason: "poison" }]);
  await world.run(100);
  expect(world.gateCalls.map(({ method }) => method)).toEqual(["countDead"]);
  expect(sent()).toEqual([]);
});

test("attempted deliveries that shared a message get one each, at their own times, with their owners", async () => {
  store(0, "retrying", { inMs: 5_000 });
  store(1, "retrying", { inMs: null });
  store(2, "retrying", { inMs: 7_000, owner: "x" });
  expect(await world.bury([{ bundles: [part(0, 1)] }, { bundles: [part(2, 3)], owner: "x" }])).toEqual([
    "acked",
    "acked",
  ]);
  expect(sent()).toEqual([
    [[0], undefined, 5],
    [[1], undefined, 0],
    [[2], "x", 7],
  ]);
  expect([0, 1, 2].map(stateOf)).toEqual(Array(3).fill(["retrying", null]));
});

test("the last delivery of a message whose others are in another message is not alone in it", async () => {
  for (const index of [0, 1]) store(index, "retrying");
  await world.bury([{ bundles: [part(0)] }, { bundles: [part(0, 1)] }]);
  expect([0, 1].map(stateOf)).toEqual([
    ["dead", "poison"],
    ["retrying", null],
  ]);
  expect(sent()).toEqual([[[1], undefined, 5]]);
});

test.each(["waiting", "delivered", "dead", "cancelled"])("one that is %s stays unchanged", async (state) => {
  store(0, state);
  expect(await world.bury([{ bundles: [part(0)] }])).toEqual(["acked"]);
  expect(stateOf(0)).toEqual([state, null]);
  await world.run(100);
  expect([sent(), world.gateCalls, world.logged("delivery_dead")]).toEqual([[], [], []]);
});

test.each<[string, number | null, unknown, number]>([
  ["stays its sender's before its time", 1_000, ["retrying", "in_flight"], 1],
  ["ends at its time", 2, ["dead", "poison"], 0],
  ["ends where it has no time", null, ["dead", "poison"], 0],
])("a delivery in flight that was alone in its message %s", async (_, inMs, state, messages) => {
  store(0, "retrying", { reason: "in_flight", inMs });
  expect(await world.bury([{ bundles: [part(0)] }])).toEqual(["acked"]);
  expect(stateOf(0)).toEqual(state);
  expect(sent()).toHaveLength(messages);
});

test("a retry with another owner is left to that, until it is overdue", async () => {
  store(0, "retrying", { owner: "x" });
  store(1, "retrying", { owner: "x", inMs: -1 });
  expect(await world.bury([{ bundles: [part(0)] }, { bundles: [part(1)] }])).toEqual(["acked", "acked"]);
  expect([0, 1].map(stateOf)).toEqual([
    ["retrying", null],
    ["dead", "poison"],
  ]);
  expect(sent()).toEqual([]);
});

test("each of many deliveries is judged separately, and no other destination's is changed", async () => {
  const untouched = world.rows(other);
  store(1, "retrying", { reason: "http_500" });
  store(2, "delivered");
  store(3, "retrying", { reason: "in_flight", inMs: 9_000 });
  expect(await world.bury([{ bundles: [part(0, 3)] }, { bundles: [part(4)] }])).toEqual(["acked", "acked"]);
  expect([0, 1, 2, 3, 4, 5].map(stateOf)).toEqual([
    ["waiting", "recovered"],
    ["retrying", "http_500"],
    ["delivered", null],
    ["retrying", "in_flight"],
    ["waiting", "recovered"],
    undefined,
  ]);
  expect(sent()).toEqual([
    [[1], undefined, 5],
    [[3], undefined, 9],
  ]);
  await world.run(100);
  expect(world.gateCalls.map(({ method }) => method)).toEqual(["scheduleDrain"]);
  expect(world.rows(other)).toEqual(untouched);
});
