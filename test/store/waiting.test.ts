/** What is asked of the waiting: what is found in which order, and that nobody pays for what has ended. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { countWaiting, waitingByReason } from "../../src/store/waiting.ts";
import { expireWaiting } from "../../src/store/waiting-ends.ts";
import { lookAtWaiting } from "../../src/store/waiting-look.ts";
import { newDestination, newWorld, type World } from "../support/world.ts";

let world: World;
let destination: string;
beforeEach(async () => {
  world = await newWorld();
  destination = await newDestination();
});

const NEVER = 8_640_000_000_000;
const NUMBERS = "WITH RECURSIVE n (i) AS (SELECT ?2 UNION ALL SELECT i + 1 FROM n WHERE i < ?3)";

/** Deliveries of the events from `first` to `last`. */
async function store(state: string, first: number, last: number, attempts = 0): Promise<void> {
  await env.DB.prepare(
    `${NUMBERS} INSERT INTO deliveries (destination_id, event_id, state, because, attempts, give_up_at)
     SELECT ?1, i, ?4, 'rate', ?5, ${NEVER} FROM n`,
  )
    .bind(destination, first, last, state, attempts)
    .run();
}

const databases = () => ({ db: world.d1.db });
const ENDS = { perEnd: 3, between: 0, isFurthest: true };
const look = (reach = ENDS, random = 0.5) => lookAtWaiting(databases(), destination, reach, () => random);

describe("a drain's look", () => {
  test("finds the oldest and the newest in turn, beginning where chance has it, and the destination", async () => {
    await store("waiting", 1, 100);
    expect((await look(ENDS, 0)).events).toEqual([1, 100, 2, 99, 3, 98]);
    const { events, destination: found } = await look();
    expect(events).toEqual([100, 1, 99, 2, 98, 3]);
    expect(found?.id).toBe(destination);
  });

  test("finds each once, and knows that it is all, when the ends meet", async () => {
    await store("waiting", 1, 5);
    expect(await look()).toMatchObject({ events: [5, 1, 4, 2, 3], isAll: true });
    await store("waiting", 6, 6);
    expect(await look()).toMatchObject({ isAll: false });
  });

  test.each([
    [0, [1, 100, 2, 99, 3, 98, 4]],
    [0.5, [100, 1, 99, 2, 98, 3, 50, 51, 52, 53]],
    [0.9999, [100, 1, 99, 2, 98, 3]],
  ])("finds some from a place between them too (%d)", async (random, wanted) => {
    await store("waiting", 1, 100);
    expect((await look({ ...ENDS, between: 4 }, random)).events).toEqual(wanted);
  });

  test("takes what has been attempted and what has not in turn, at both ends", async () => {
    await store("waiting", 1, 2, 2);
    await store("waiting", 3, 50);
    await store("waiting", 51, 52, 1);
    expect((await look({ ...ENDS, between: 2 })).events).toEqual([1, 52, 3, 50, 2, 51, 26, 27]);
  });
});

describe("the rows read", () => {
  const asked: [string, () => Promise<unknown>][] = [
    ["a drain's look", () => look()],
    ["a drain's look between the ends", () => look({ ...ENDS, between: 6 })],
    [
      "the sweep's look for what is too old",
      () => expireWaiting(world.d1.db, { destination: "", event: 0 }, 0, 10),
    ],
    ["counting them", () => countWaiting(databases(), destination, 10)],
    ["counting them by reason", () => waitingByReason(databases(), destination, 10)],
  ];

  const rowsRead = async (ask: () => Promise<unknown>) => {
    world.d1.used();
    await ask();
    return world.d1.used().rowsRead;
  };

  test.each(asked)("for %s are the same however much was delivered before", async (_, ask) => {
    await store("waiting", 10_001, 10_020);
    const before = await rowsRead(ask);
    await store("delivered", 1, 2_000);
    await store("delivered", 20_001, 22_000);
    expect(await rowsRead(ask)).toBe(before);
  });

  test.each(asked)("for %s are the same however much waits", async (_, ask) => {
    await store("waiting", 1, 20);
    const before = await rowsRead(ask);
    await store("waiting", 21, 4_000);
    expect(await rowsRead(ask)).toBe(before);
  });

  test("are one for each that a drain looks at, and one for the destination", async () => {
    await store("waiting", 1, 100);
    expect(await rowsRead(look)).toBe(2 * ENDS.perEnd + 1);
  });
});
