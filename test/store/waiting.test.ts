/** Queries about waiting deliveries: what they find, in which order, and that ended deliveries cost them nothing. */

import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { bundleOf, eventAt } from "../../src/core/bundle.ts";
import type { DeliveryRow } from "../../src/store/delivery.ts";
import { settingBits } from "../../src/store/packs.ts";
import {
  countWaiting,
  expireWaiting,
  expireWaitingPacks,
  lookAtWaiting,
  waitingByReason,
} from "../../src/store/waiting.ts";
import { newDestination, newWorld, type World } from "../support/world.ts";

let world: World;
let destination: string;
beforeEach(async () => {
  world = await newWorld();
  destination = await newDestination();
});

const NEVER = 8_640_000_000_000;
const NUMBERS = "WITH RECURSIVE n (i) AS (SELECT ?2 UNION ALL SELECT i + 1 FROM n WHERE i < ?3)";

/** Stores deliveries with rows, of the first events of the bundles from `first` to `last`. */
async function store(state: string, first: number, last: number, attempts = 0): Promise<void> {
  await env.DB.prepare(
    `${NUMBERS} INSERT INTO deliveries (destination_id, event_id, state, reason, attempts, give_up_at)
     SELECT ?1, i * 128, ?4, 'rate', ?5, ${NEVER} FROM n`,
  )
    .bind(destination, first, last, state, attempts)
    .run();
}

/** Stores deliveries that wait in the pack of a bundle. */
async function pack(bundle: number, indexes: readonly number[]): Promise<void> {
  const rows = indexes.map(
    (index): DeliveryRow => ({
      destinationId: destination,
      eventId: eventAt(bundle, index),
      state: "waiting",
      reason: "rate",
      attempts: 0,
      nextAttemptAt: null,
      generation: 0,
      firstAttemptAt: null,
      giveUpAt: NEVER,
      endedAt: null,
      lastStatus: null,
      lastError: null,
      replay: null,
      log: [],
    }),
  );
  await env.DB.batch(settingBits(env.DB, rows));
}

/** Stores as many full packs, from one bundle on. */
async function packs(first: number, count: number): Promise<void> {
  for (let i = 0; i < count; i++) await pack(first + i, HUNDRED);
}

const HUNDRED = Array.from({ length: 100 }, (_, i) => i);
const bundles = (events: readonly number[]) => events.map(bundleOf);

const databases = () => ({ db: world.d1.db });
const ENDS = { perEnd: 3, between: 0, isFurthest: true };
const look = (range = ENDS, random = 0.5) => lookAtWaiting(databases(), destination, range, () => random);

/** Stores for another destination what would be found first, last and between, in rows and in packs. */
async function storeForAnother(): Promise<void> {
  const another = await newDestination({ id: "dst_0" });
  const numbers = `${NUMBERS} INSERT INTO`;
  await env.DB.batch([
    env.DB.prepare(
      `${numbers} deliveries (destination_id, event_id, state, reason, give_up_at)
       SELECT ?1, i * 128 + 5, 'waiting', 'rate', 0 FROM n`,
    ).bind(another, 0, 210),
    env.DB.prepare(
      `${numbers} packs (destination_id, bundle_id, waiting0, waiting1) SELECT ?1, i, 64, 64 FROM n`,
    ).bind(another, 0, 210),
  ]);
}

describe("a drain's read", () => {
  beforeEach(storeForAnother);

  test("finds the oldest and the newest in turn, beginning at a random end, and the destination", async () => {
    await store("waiting", 1, 100);
    for (const random of [0, 0.49])
      expect(bundles((await look(ENDS, random)).events)).toEqual([1, 100, 2, 99, 3, 98]);
    const { events, destination: found } = await look();
    expect(bundles(events)).toEqual([100, 1, 99, 2, 98, 3]);
    expect(found?.id).toBe(destination);
  });

  test("finds each once when the ends meet, and reports that these are all", async () => {
    await store("waiting", 1, 5);
    const found = await look({ ...ENDS, perEnd: 6 });
    expect(bundles(found.events)).toEqual([5, 1, 4, 2, 3]);
    expect(found.isAll).toBe(true);
    await store("waiting", 6, 6);
    expect(await look({ ...ENDS, perEnd: 6 })).toMatchObject({ isAll: false });
  });

  test.each([
    [0, [1, 100, 2, 99, 3, 98, 4]],
    [0.5, [100, 1, 99, 2, 98, 3, 51, 52, 53, 54]],
    [0.9999, [100, 1, 99, 2, 98, 3]],
  ])("finds some from a random point between the ends too (%d)", async (random, wanted) => {
    await store("waiting", 1, 100);
    expect(bundles((await look({ ...ENDS, between: 4 }, random)).events)).toEqual(wanted);
  });

  test("has no LIMIT that is a parameter: SQLite would compile the statement again for each", async () => {
    const prepare = vi.spyOn(env.DB, "prepare");
    await look({ ...ENDS, between: 4 });
    const statements = prepare.mock.calls.map(([sql]) => sql);
    expect(statements.join()).toContain("LIMIT 4");
    expect(statements.join()).not.toMatch(/LIMIT \?/);
    prepare.mockRestore();
  });

  test("takes deliveries with and without attempts in turn, from both ends", async () => {
    await store("waiting", 1, 2, 2);
    await store("waiting", 3, 50);
    await store("waiting", 51, 52, 1);
    const found = await look({ ...ENDS, between: 2 });
    expect(bundles(found.events)).toEqual([1, 52, 3, 50, 2, 51, 27, 28]);
    expect(found.probe).toBe(eventAt(3, 0));
  });

  test("has the first of the least attempted ones as the probe", async () => {
    await store("waiting", 1, 2, 3);
    await store("waiting", 3, 5, 1);
    await store("waiting", 6, 6, 2);
    const { events, probe } = await look({ ...ENDS, perEnd: 10 }, 0);
    expect(bundles(events)).toEqual([1, 6, 2, 5, 3, 4]);
    expect(probe).toBe(eventAt(5, 0));
  });

  test("for a destination whose row was deleted finds its waiting deliveries, and for one without any finds nothing", async () => {
    await store("waiting", 1, 2);
    await env.DB.prepare("DELETE FROM destinations WHERE id = ?1").bind(destination).run();
    const found = await look(ENDS, 0);
    expect(found).toMatchObject({ destination: undefined, isAll: true });
    expect(bundles(found.events)).toEqual([1, 2]);
    await env.DB.prepare("DELETE FROM deliveries WHERE destination_id = ?1").bind(destination).run();
    expect(await look({ ...ENDS, between: 3 })).toMatchObject({ events: [], probe: undefined, isAll: true });
  });

  test("finds rows and packs of the same bundles in the order of their events, from both ends and between", async () => {
    for (const bundle of [1, 2, 3, 4, 5]) await pack(bundle, [7]);
    await store("waiting", 1, 5);
    const { events } = await look({ perEnd: 2, between: 1, isFurthest: true }, 0);
    const [oldest, newest] = [[1, 2].flatMap((bundle) => [eventAt(bundle, 0), eventAt(bundle, 7)]), [5, 4]];
    expect(events).toEqual([
      ...oldest.slice(0, 2),
      ...newest.slice(0, 1).flatMap((bundle) => [eventAt(bundle, 7), eventAt(bundle, 0)]),
      ...oldest.slice(2),
      ...newest.slice(1).flatMap((bundle) => [eventAt(bundle, 7), eventAt(bundle, 0)]),
    ]);
  });

  test.each([
    [0, [3]],
    [0.5, [51]],
    [0.51, [51]],
    [0.52, [52]],
    [0.97, [98]],
  ])("begins between the ends at the first pack from a random point on (%d)", async (random, wanted) => {
    for (const bundle of [1, 2, 3, 51, 52, 98, 99, 100]) await pack(bundle, [7]);
    const { events } = await look({ perEnd: 2, between: 3, isFurthest: true }, random);
    const ends = new Set([1, 2, 99, 100]);
    expect(
      bundles(events)
        .filter((bundle) => !ends.has(bundle))
        .slice(0, 1),
    ).toEqual(wanted);
  });

  test("finds waiting deliveries of packs, bundle by bundle, from both ends", async () => {
    await pack(1, [0, 7]);
    await pack(2, [99]);
    await packs(3, 3);
    await pack(6, [50]);
    const { events, isAll } = await look(ENDS, 0);
    expect(events.slice(0, 3)).toEqual([eventAt(1, 0), eventAt(1, 7), eventAt(6, 50)]);
    expect(events[3]).toBe(eventAt(2, 99));
    expect(new Set(bundles(events))).toEqual(new Set([1, 2, 5, 6]));
    expect(isAll).toBe(false);
    expect((await look({ ...ENDS, perEnd: 400 })).isAll).toBe(true);
    await packs(7, 100);
    const between = (await look({ ...ENDS, between: 101 }, 0.5)).events.slice(events.length);
    expect(new Set(bundles(between))).toEqual(new Set([53, 54]));
  });

  test("takes packs and rows in turn, so that attempted deliveries do not starve beside the others", async () => {
    await store("waiting", 3, 4, 2);
    await packs(1, 2);
    await packs(5, 2);
    const { events, probe } = await look(ENDS, 0);
    expect([...new Set(bundles(events))]).toEqual([1, 6, 3, 4]);
    expect(probe).toBe(eventAt(1, 0));
  });
});

describe("the rows read", () => {
  const queries: [string, () => Promise<unknown>][] = [
    ["a drain's look", () => look()],
    ["a drain's look between the ends", () => look({ ...ENDS, between: 6 })],
    [
      "the sweep's search for expired rows",
      () => expireWaiting(world.d1.db, { destinationId: "", eventId: 0 }, 0, 10),
    ],
    [
      "the sweep's search for expired packs",
      () => expireWaitingPacks(world.d1.db, { destinationId: "", eventId: 0 }, 0, 10),
    ],
    ["counting them", () => countWaiting(databases(), destination, 10)],
    ["counting them by reason", () => waitingByReason(databases(), destination, 10)],
  ];

  const rowsRead = async (query: () => Promise<unknown>) => {
    world.d1.used();
    await query();
    return world.d1.used().rowsRead;
  };

  test.each(queries)("for %s are the same however much was delivered before", async (_, query) => {
    await store("waiting", 10_001, 10_020);
    const before = await rowsRead(query);
    await store("delivered", 1, 2_000);
    await store("delivered", 20_001, 22_000);
    expect(await rowsRead(query)).toBe(before);
  });

  test.each(queries)("for %s are the same however much waits", async (_, query) => {
    await store("waiting", 1, 20);
    const before = await rowsRead(query);
    await store("waiting", 21, 4_000);
    expect(await rowsRead(query)).toBe(before);
  });

  test("are one for each delivery that a drain reads, and a few for the destination and packs", async () => {
    await store("waiting", 1, 100);
    world.d1.used();
    await look();
    const { rowsRead, queries } = world.d1.used();
    expect(rowsRead).toBeLessThanOrEqual(2 * ENDS.perEnd + 7);
    expect(queries).toBe(2);
  });

  test.each(
    queries,
  )("for %s are few for packs, and the same however many wait and were delivered", async (_, query) => {
    await packs(1_001, 20);
    const before = await rowsRead(query);
    expect(before).toBeLessThanOrEqual(40);
    await packs(1_021, 20);
    await store("delivered", 1, 1_000);
    expect(await rowsRead(query)).toBe(before);
  });
});
