/** Destinations with waiting deliveries in more databases than are read at once. */
import { expect, test } from "vitest";
import { memoryD1 } from "../../bench/storm/breakwater/d1.ts";
import { waitingDestinations } from "../../src/store/waiting.ts";
import { insertDeliveries } from "../support/stored-deliveries.ts";
import { walkedDestinations } from "../support/waiting-walk.ts";

const named = (names: string) => [...names].map((name) => `dst_${name}`);

/** By the names of its destinations. */
const databases = new Map<string, Promise<D1Database>>();

/** A database in which destinations of these names, a letter each, have waiting deliveries. */
async function databaseWith(names: string): Promise<D1Database> {
  const db = memoryD1().bindingFor(async (_, work) => work());
  const waiting = { event: 128, state: "waiting", reason: "rate" } as const;
  await insertDeliveries(
    db,
    named(names).map((destination) => ({ destination, ...waiting })),
  );
  return db;
}

function databasesWith(places: readonly string[]): Promise<D1Database[]> {
  for (const names of places) if (!databases.has(names)) databases.set(names, databaseWith(names));
  return Promise.all(places.flatMap((names) => databases.get(names) ?? []));
}

test.each([
  1, 2, 3, 5, 8, 9,
])("destinations of fourteen databases come in order, each once, in pages of %d", async (limit) => {
  const places = ["g", "", "ab", "", "e", "", "bf", "", "", "", "", "", "dh", "ac"];
  const [db, ...further] = (await databasesWith(places)) as [D1Database, ...D1Database[]];
  expect(await walkedDestinations({ db, further }, limit)).toEqual(named("abcdefgh"));
});

test.each([
  ["a database read first", ["abc", "", "", "", "", "", "a"], 2, "ab", false],
  ["a database read last", ["a", "", "", "", "", "", "abc"], 2, "ab", false],
  ["several databases together", ["a", "", "", "", "", "", "b", "c"], 2, "ab", false],
  ["several databases read first", ["a", "b", "c", "", "", "", "a"], 2, "ab", false],
  ["no database", ["a", "", "", "", "", "", "b", "a"], 2, "ab", true],
])("a page is not the last if %s has more than it holds", async (_, places, limit, ids, isLast) => {
  expect(await waitingDestinations(await databasesWith(places), "", limit)).toEqual({
    ids: named(ids),
    isLast,
  });
});
