/** An operator's queue of events with several databases: a message is stored in one of them, however many there are. */
import { beforeEach, expect, test } from "vitest";
import { databaseNumberOf, placeByKey, placeByTime } from "../../src/core/placement.ts";
import { PlacementCache } from "../../src/ingest/placement-cache.ts";
import { RoutingCache } from "../../src/ingest/routing-cache.ts";
import type { Services } from "../../src/services.ts";
import { acceptEach, type GivenSingle } from "../support/accept.ts";
import { insertBundles } from "../support/bundle-rows.ts";
import { rowsOfAll, testDatabases } from "../support/databases.ts";
import { newDestination, newWorld, START, TENANT, type World } from "../support/world.ts";

let world: World;
beforeEach(async () => {
  world = await newWorld();
});

/** Another isolate, after a deployment that places new events in so many databases. */
const withPlaces = (eventDatabases: number): Services => ({
  ...world.services,
  routing: new RoutingCache(),
  placement: new PlacementCache(),
  config: { ...world.services.config, eventDatabases },
});

/** Forty events of forty minutes, so that they are placed in all databases. */
const events = (isRepeated: boolean, key?: (i: number) => string): GivenSingle[] =>
  Array.from({ length: 40 }, (_, i) => ({
    ...{ tenant: TENANT, type: "order.paid", data: { order: i } },
    ...{ token: `token-${i}`, sentAt: START - 60_000 * i, isRepeated },
    ...(key && { key: key(i) }),
  }));

/** The same events with other tokens. */
const as = (prefix: string) => (one: GivenSingle) => ({ ...one, token: `${prefix} ${one.token}` });

const storedIds = async () => (await rowsOfAll<{ id: number }>("SELECT id FROM events")).map(({ id }) => id);

const idsOf = (results: Awaited<ReturnType<typeof acceptEach>>) =>
  results.flatMap((result) => ("events" in result ? result.events.map(({ id }) => id) : []));

test.each([
  ["a message", undefined],
  ["an idempotency key", (i: number) => `order-${i}`],
])("%s that is delivered again is found where it was stored, although it would be placed elsewhere now", async (_what, key) => {
  await newDestination();
  const first = await acceptEach(withPlaces(1), events(false, key));
  expect(await storedIds()).toHaveLength(40);
  const again = await acceptEach(withPlaces(3), events(true, key));
  expect(idsOf(again)).toEqual(idsOf(first));
  expect(again.map(({ kind }) => kind)).toEqual(first.map(({ kind }) => kind));
  expect(await storedIds()).toHaveLength(40);
});

test("a message that is found in another database has its deliveries enqueued again, because the first try may have failed before", async () => {
  await newDestination();
  const isPlacedElsewhere = ({ sentAt }: GivenSingle) => placeByTime(TENANT, 3, sentAt) > 0;
  const first = await acceptEach(withPlaces(1), events(false).filter(isPlacedElsewhere));
  await world.settled();
  const sent = () => {
    const parts = world.deliveryQueue.taken().flatMap(({ body }) => body.bundles);
    return [...new Set(parts.map(({ bundle }) => bundle))].toSorted((a, b) => a - b);
  };
  const bundles = [...new Set(idsOf(first).map((id) => Math.floor(id / 128)))];
  expect(sent()).toEqual(bundles);
  await acceptEach(withPlaces(3), events(true).filter(isPlacedElsewhere));
  await world.settled();
  expect(sent()).toEqual(bundles);
});

test("a message that is delivered again, among new ones with keys, costs few rows even with many bundles", async () => {
  for (const [number, db] of testDatabases.entries())
    await insertBundles(db, Array(1_000).fill({ events: [{}] }), number);
  const mixed = [...events(false, (i) => `order-${i}`).slice(0, 3), ...events(true).slice(3, 6)];
  world.d1.used();
  const results = await acceptEach(withPlaces(3), mixed);
  expect(results.map(({ kind }) => kind)).toEqual(Array(6).fill("accepted"));
  // Two binary searches in each database, and nothing of the bundles.
  expect(world.d1.used().rowsRead).toBeLessThan(500);
});

test("messages are spread over the databases by the time at which they were sent, and each is stored once", async () => {
  await newDestination();
  const first = await acceptEach(withPlaces(3), events(false));
  const placesOf = (results: typeof first) => idsOf(results).map(databaseNumberOf);
  const places = events(false).map(({ sentAt }) => placeByTime(TENANT, 3, sentAt));
  expect(placesOf(first)).toEqual(places);
  // Where the deployment says nothing, all that there are.
  expect(placesOf(await acceptEach(world.services, events(false).map(as("other"))))).toEqual(places);
  expect(new Set(places)).toEqual(new Set([0, 1, 2]));
  expect(idsOf(await acceptEach(withPlaces(3), events(true)))).toEqual(idsOf(first));
  expect(await storedIds()).toHaveLength(80);
});

test("messages with a key are placed by it, among the databases that take new events", async () => {
  const keyed = events(false, (i) => `order-${i}`);
  const placed = idsOf(await acceptEach(withPlaces(2), keyed)).map(databaseNumberOf);
  expect(placed).toEqual(keyed.map(({ key = "" }) => placeByKey(TENANT, key, 2)));
});

test("a batch of messages with keys queries each database at most once, and only those that may have them", async () => {
  const many = events(true, (i) => `order-${i}`);
  await acceptEach(withPlaces(3), many);
  const lookUps = async (services: Services) => {
    let asked = 0;
    world.d1.failing((sql) => {
      if (/^\s*SELECT s\.tenant/.test(sql)) asked += 1;
      return undefined;
    });
    await acceptEach(services, many.map(as("later")));
    return asked;
  };
  expect(await lookUps(withPlaces(3))).toBe(3);
  const first = events(false, (i) => `new-${i}`);
  await testDatabases[0]?.prepare("INSERT INTO database_history (since, count) VALUES (0, 3)").run();
  let asked = 0;
  world.d1.failing((sql) => {
    if (/^\s*SELECT s\.tenant/.test(sql)) asked += 1;
    return undefined;
  });
  const results = await acceptEach({ ...withPlaces(3), placement: new PlacementCache() }, first);
  expect(results.map(({ kind }) => kind)).toEqual(Array(40).fill("accepted"));
  expect(asked).toBe(0);
});

test("a batch of messages with keys over a hundred databases makes fewer queries than an invocation may", async () => {
  // The same three databases again and again: ids of one are not valid for another number, which no test here checks.
  const { db, further = [] } = world.services;
  const hundred = Array.from({ length: 99 }, (_, i) => further[i % 2] ?? db);
  const services = { ...world.services, further: hundred, placement: new PlacementCache() };
  const many = Array.from(
    { length: 100 },
    (_, i): GivenSingle => ({
      ...{ tenant: TENANT, type: "order.paid", data: {}, key: `order-${i}` },
      ...{ token: `token-${i}`, sentAt: START, isRepeated: true },
    }),
  );
  world.d1.used();
  const results = await acceptEach(services, many);
  expect(results.map(({ kind }) => kind)).toEqual(Array(100).fill("accepted"));
  expect(world.d1.used().queries).toBeLessThan(1_000);
});

test("while another database cannot be read, a message that is delivered again waits", async () => {
  world.d1.failing((sql) => (sql.includes("accepted_at <") ? "before" : undefined));
  const again = await acceptEach(withPlaces(3), events(true));
  expect(new Set(again.map(({ kind }) => kind))).toEqual(new Set(["unavailable"]));
  expect(await storedIds()).toEqual([]);
});
