/** Loading, recording and following deliveries over three databases, each of which is queried only for what it has. */
import { beforeEach, describe, expect, test } from "vitest";
import { bundleOf } from "../../src/core/bundle.ts";
import { beforeFirstBundleOf } from "../../src/core/placement.ts";
import { loadDeliveries } from "../../src/store/deliveries.ts";
import { type Positions, storedDeliveries } from "../../src/store/delivery-list.ts";
import { newTail, tailAfter, tailStep } from "../../src/store/delivery-tail.ts";
import { listEvents } from "../../src/store/event-list.ts";
import { recordOutcomes } from "../../src/store/record.ts";
import { requeueEnded } from "../../src/store/requeue.ts";
import { insertBundles } from "../support/bundle-rows.ts";
import { emptyDatabase, testDatabases } from "../support/databases.ts";
import { deliveryRow, storeDeliveries, storePacked } from "../support/delivery-rows.ts";
import { meteredD1 } from "../support/meter.ts";
import { newDestination, statusOf, storedRows } from "../support/world.ts";

const [db, ...further] = testDatabases as [D1Database, ...D1Database[]];
const databases = { db, further };
const A = "dst_a";

beforeEach(async () => {
  await emptyDatabase();
  await newDestination({ id: A });
});

/** Stores so many bundles of one event in the database of that number; returns the events. */
const insertIn = (database: number, count = 1, acceptedAt = 0) =>
  insertBundles(
    testDatabases[database] ?? db,
    Array.from({ length: count }, () => ({
      acceptedAt,
      events: [{ destinations: [A], content: { text: `of ${database}`, type: "text/plain" } }],
    })),
    database,
  );

const partOf = (event: number) => ({ bundle: bundleOf(event), destinations: [A] });

describe("loading", () => {
  const textOf = (body: Uint8Array | null | undefined) => body && new TextDecoder().decode(body);

  test("returns the bodies and outcomes of all databases, and reports what none has", async () => {
    const [one = 0] = await insertIn(0);
    const [two = 0] = await insertIn(1);
    const [three = 0] = await insertIn(2);
    await storeDeliveries(further[0] ?? db, [{ destinationId: A, eventId: two, state: "waiting" }]);
    await storePacked(further[1] ?? db, [{ destinationId: A, eventId: three, state: "inFlight" }]);
    const unbound = { bundle: beforeFirstBundleOf(3) + 1, destinations: [A] };
    const parts = [one, two, three].map(partOf);
    for (const fewDueOf of [new Set<number>(), new Set(parts.map(({ bundle }) => bundle))]) {
      const { deliveries, missing } = await loadDeliveries(databases, [...parts, unbound], { fewDueOf });
      expect(deliveries.map(({ event, row }) => [event.id, textOf(event.body), row?.state])).toEqual([
        [one, "of 0", undefined],
        [two, "of 1", "waiting"],
        [three, "of 2", "in_flight"],
      ]);
      expect(missing).toEqual([unbound]);
    }
  });

  test("reads only the destinations from a database without any of them", async () => {
    const [event = 0] = await insertIn(2);
    const d1 = meteredD1(db, ...further);
    const { deliveries } = await loadDeliveries(d1, [partOf(event)]);
    expect(deliveries).toHaveLength(1);
    expect(d1.used()).toMatchObject({ roundTrips: 2, queries: 4 });
  });
});

describe("recording", () => {
  test("pauses a destination in the first database, wherever the outcome is", async () => {
    const [event = 0] = await insertIn(1);
    const row = deliveryRow({ destinationId: A, eventId: event, reason: "gone", attempts: 1 });
    const d1 = meteredD1(db, ...further);
    expect(await recordOutcomes(d1, [row], [A], 7)).toMatchObject({
      paused: [{ id: A, status: "paused" }],
      next: [],
    });
    expect(d1.used()).toMatchObject({ roundTrips: 2, queries: 3 });
    expect(await statusOf(A)).toEqual(["paused", "gone"]);
    expect(await storedRows()).toEqual([row]);
  });

  test("reads only the databases of the outcomes, and requeues in each", async () => {
    const events = [...(await insertIn(1)), ...(await insertIn(2))];
    const rows = events.map((eventId) => deliveryRow({ destinationId: A, eventId, attempts: 1 }));
    const d1 = meteredD1(db, ...further);
    expect(await recordOutcomes(d1, rows, [], 7)).toEqual({ paused: [], next: [] });
    expect(d1.used()).toMatchObject({ roundTrips: 2, queries: 2 });
    const again = await requeueEnded(databases, rows);
    expect(again.map(({ eventId, state }) => [eventId, state])).toEqual(
      events.map((event) => [event, "waiting"]),
    );
    expect(await storedRows()).toEqual(again);
  });
});

describe("a tail", () => {
  const step = (tail = tailAfter([]), filter = {}) => tailStep(databases, filter, tail);

  test("continues in each database where it ended, in order of acceptance", async () => {
    const before = [await insertIn(0), await insertIn(1)];
    expect((await newTail(databases)).after).toEqual([...before.flat().map(bundleOf), 0]);
    const tail = await newTail(databases);
    const [late] = await insertIn(0, 1, 30);
    const [early] = await insertIn(1, 1, 10);
    const [middle] = await insertIn(2, 1, 20);
    const next = await step(tail);
    expect(next.news.map(({ found }) => found.eventId)).toEqual([early, middle, late]);
    expect(next.tail.after).toEqual([late, early, middle].map((event) => bundleOf(event ?? 0)));
    expect((await step(next.tail)).news).toEqual([]);
  });

  test("has a gap when one database has more than a step reads", async () => {
    const tail = await newTail(databases);
    await insertIn(1, 1);
    expect((await step(await newTail(databases))).isGap).toBe(false);
    await insertIn(0, 50);
    expect(
      (await step({ ...tail, after: [0, beforeFirstBundleOf(1) + 1, 0] }, { tenant: "acme" })).isGap,
    ).toBe(true);
  });
});

describe("a list of events", () => {
  const over = { dueBy: -1, endedBy: 0, now: 0, first: db };
  const pageOf = async (asked: object) => {
    const { found, next, lookedBackTo } = await listEvents(databases, { over, limit: 9, ...asked });
    return { shown: found.map(({ acceptedAt }) => acceptedAt), next, lookedBackTo };
  };

  test.each([
    ["by bundles", { tenant: "acme" }],
    ["by a tag", { tenant: "acme", tag: "x" }],
  ])("continues in each database, and reports how far back all have read: %s", async (_, names) => {
    for (const [database, times] of [
      [0, [10, 40]],
      [1, [20, 30]],
    ] as const)
      await insertBundles(
        testDatabases[database] ?? db,
        times.map((acceptedAt) => ({ acceptedAt, events: [{ tags: ["x"] }] })),
        database,
      );
    const first = await pageOf({ ...names, limit: 2 });
    expect([first.shown, first.lookedBackTo]).toEqual([[40, 30], 20]);
    expect(await pageOf({ ...names, limit: 2, from: first.next })).toEqual({
      ...{ shown: [20, 10], next: undefined, lookedBackTo: undefined },
    });
    const single = await pageOf({ ...names, limit: 1 });
    expect([single.shown, single.lookedBackTo]).toEqual([[40], 40]);
    const rest = await pageOf({ ...names, from: single.next });
    expect([rest.shown, rest.next]).toEqual([[30, 20, 10], undefined]);
  });
});

test("a list of deliveries rereads nothing, and reads no database without more", async () => {
  const events = await insertIn(0, 3);
  await storeDeliveries(
    db,
    events.map((eventId) => ({ destinationId: A, eventId })),
  );
  const [last = 0] = await insertIn(1);
  const d1 = meteredD1(db, ...further);
  const pageOf = async (before?: Positions) => {
    const { found, next } = await storedDeliveries(d1, "dead", { limit: 2, before });
    return { shown: found.map(({ eventId }) => eventId), next, roundTrips: d1.used().roundTrips };
  };
  const newestFirst = events.toReversed();
  // Rows in each database, and the times of their events.
  const first = await pageOf();
  expect(first).toMatchObject({ shown: newestFirst.slice(0, 2), roundTrips: 4 });
  expect(await pageOf(first.next)).toEqual({ shown: newestFirst.slice(2), next: undefined, roundTrips: 2 });
  await storeDeliveries(further[0] ?? db, [{ destinationId: A, eventId: last }]);
  // And the destination, which only the first has.
  expect(await pageOf()).toMatchObject({ roundTrips: 6 });
});
