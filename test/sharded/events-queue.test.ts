/** An operator's queue of events with several databases: a message is stored in one of them, however many there are. */
import { beforeEach, expect, test } from "vitest";
import { acceptEach, type SingleEvent } from "../../src/ingest/accept.ts";
import { RoutingCache } from "../../src/ingest/routing-cache.ts";
import type { Services } from "../../src/services.ts";
import { rowsOfAll } from "../support/databases.ts";
import { newDestination, newWorld, START, TENANT, type World } from "../support/world.ts";

let world: World;
beforeEach(async () => {
  world = await newWorld();
});

/** Another isolate, after a deployment that places new events in so many databases. */
const withPlaces = (eventDatabases: number): Services => ({
  ...world.services,
  routing: new RoutingCache(),
  config: { ...world.services.config, eventDatabases },
});

/** Forty events of forty minutes, so that they are placed in all databases. */
const events = (isRepeated: boolean, key?: (i: number) => string): SingleEvent[] =>
  Array.from({ length: 40 }, (_, i) => ({
    ...{ tenant: TENANT, type: "order.paid", data: { order: i } },
    ...{ token: `token-${i}`, sentAt: START - 60_000 * i, isRepeated },
    ...(key && { key: key(i) }),
  }));

const storedIds = async () => (await rowsOfAll<{ id: number }>("SELECT id FROM events")).map(({ id }) => id);

const idsOf = (results: Awaited<ReturnType<typeof acceptEach>>) =>
  results.flatMap((result) => ("events" in result ? result.events.map(({ id }) => id) : []));

test.each([
  ["a message", undefined],
  ["an idempotency key", (i: number) => `order-${i}`],
])("%s that is handed over again is found where it was stored, though it would be placed elsewhere now", async (_what, key) => {
  await newDestination();
  const first = await acceptEach(withPlaces(1), events(false, key));
  expect(await storedIds()).toHaveLength(40);
  const again = await acceptEach(withPlaces(3), events(true, key));
  expect(idsOf(again)).toEqual(idsOf(first));
  expect(await storedIds()).toHaveLength(40);
});

test("messages are spread over the databases by the time at which they were sent, and each is stored once", async () => {
  await newDestination();
  const first = await acceptEach(withPlaces(3), events(false));
  const ids = await storedIds();
  expect(new Set(ids.map((id) => Math.floor(id / 2 ** 40)))).toEqual(new Set([0, 1, 2]));
  expect(idsOf(await acceptEach(withPlaces(3), events(true)))).toEqual(idsOf(first));
  expect(await storedIds()).toHaveLength(40);
});

test("while another database cannot be asked, a message that is handed over again waits", async () => {
  world.d1.failing((sql) => (sql.includes("accepted_at <") ? "before" : undefined));
  const again = await acceptEach(withPlaces(3), events(true));
  expect(new Set(again.map(({ kind }) => kind))).toEqual(new Set(["unavailable"]));
  expect(await storedIds()).toEqual([]);
});
