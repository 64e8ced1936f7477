/** Lists of deliveries in packs and rows show every delivery once and in order, whatever moves between two pages. */

import { env } from "cloudflare:workers";
import fc from "fast-check";
import { beforeEach, describe, expect, test } from "vitest";
import { eventAt } from "../../src/core/bundle.ts";
import type { StoredState } from "../../src/store/delivery.ts";
import { type Positions, storedDeliveries } from "../../src/store/delivery-list.ts";
import { execute, newDestination, newWorld, storedRows } from "../support/world.ts";

let places: readonly string[];
beforeEach(async () => {
  await newWorld();
  places = [await newDestination(), await newDestination(), await newDestination()].sort();
});

type Mask = "waiting0" | "in_flight0" | "delivered0" | "cancelled0";

/** Stores packs of some bundles for one of the destinations, with all bits of each in one mask. */
const pack = fc.record({
  place: fc.integer({ min: 0, max: 2 }),
  bundle: fc.integer({ min: 1, max: 12 }),
  mask: fc.constantFrom<Mask>("waiting0", "in_flight0", "delivered0", "cancelled0"),
  bits: fc.integer({ min: 1, max: 1023 }),
});

const packs = fc.uniqueArray(pack, { selector: ({ place, bundle }) => `${place} ${bundle}`, maxLength: 15 });

async function store(some: readonly (typeof pack extends fc.Arbitrary<infer T> ? T : never)[]) {
  await execute("DELETE FROM deliveries");
  await execute("DELETE FROM packs");
  for (const { place, bundle, mask, bits } of some)
    await execute(
      `INSERT INTO packs (destination_id, bundle_id, ${mask}, recover_at) VALUES (?1, ?2, ?3, ?4)`,
      ...[places[place] ?? "", bundle, bits, mask === "in_flight0" ? 1 : null],
    );
}

/** Moves deliveries from packs to rows, as a replay or a failed attempt does. */
async function giveRow(destination: string, event: number, state: StoredState): Promise<void> {
  await execute(
    `INSERT INTO deliveries (destination_id, event_id, state, generation, give_up_at) VALUES (?1, ?2, ?3, 1, 0)
     ON CONFLICT DO NOTHING`,
    ...[destination, event, state],
  );
}

type Key = readonly [destination: string, event: number];

const keysNow = async (state?: StoredState): Promise<Key[]> =>
  (await storedRows())
    .filter((row) => state === undefined || row.state === state)
    .map(({ destinationId, eventId }) => [destinationId, eventId] as const);

/** All pages, one after the other. @param between is called after each, with what has not been shown yet */
async function walk(
  limit: number,
  state: StoredState | undefined,
  between: (rest: readonly Key[]) => Promise<void> = async () => {},
): Promise<Key[]> {
  const shown: Key[] = [];
  let before: Positions | undefined;
  for (let page = 0; page < 500; page++) {
    const { found, next } = await storedDeliveries({ db: env.DB }, state, { limit, before });
    expect(found.length).toBeLessThanOrEqual(limit);
    shown.push(...found.map(({ destinationId, eventId }) => [destinationId, eventId] as const));
    if (!next) return shown;
    before = next;
    const names = new Set(shown.map(String));
    await between((await keysNow()).filter((key) => !names.has(String(key))));
  }
  throw new Error("The list does not end");
}

const descending = (keys: readonly Key[]) =>
  keys.toSorted(([a, x], [b, y]) => (a === b ? y - x : a < b ? 1 : -1));

describe("a list, page by page", () => {
  test("shows everything once, the newest first of each destination, while deliveries not yet shown move to rows", async () => {
    await fc.assert(
      fc.asyncProperty(packs, fc.integer({ min: 1, max: 7 }), fc.nat(), async (some, limit, seed) => {
        await store(some);
        const all = await keysNow();
        let turn = seed;
        const shown = await walk(limit, undefined, async (rest) => {
          const [destination, event] = rest[turn++ % Math.max(1, rest.length)] ?? [];
          if (destination !== undefined && event !== undefined) await giveRow(destination, event, "waiting");
        });
        expect(shown).toEqual(descending(all));
      }),
      { numRuns: 25 },
    );
  });

  test.each([
    "waiting",
    "retrying",
    "delivered",
    "cancelled",
  ] as const)("of what is %s shows all of that and nothing else, of packs and of rows", async (state) => {
    await fc.assert(
      fc.asyncProperty(packs, fc.integer({ min: 1, max: 7 }), async (some, limit) => {
        await store(some);
        for (const [i, place] of places.entries()) {
          await giveRow(place, eventAt(3 * i + 1, 3), "waiting");
          await giveRow(place, eventAt(3 * i + 2, 1), "dead");
        }
        expect(await walk(limit, state)).toEqual(descending(await keysNow(state)));
      }),
      { numRuns: 10 },
    );
  });

  test("merges more packs than one page reads with rows between them", async () => {
    const [place = ""] = places;
    await execute(
      `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 260)
       INSERT INTO packs (destination_id, bundle_id, delivered0) SELECT ?1, i, 1 FROM n`,
      place,
    );
    for (let bundle = 1; bundle <= 20; bundle++) await giveRow(place, eventAt(bundle, 7), "waiting");
    for (let bundle = 240; bundle <= 260; bundle++) await giveRow(place, eventAt(bundle, 7), "waiting");
    expect(await walk(90, undefined)).toEqual(descending(await keysNow()));
    expect(await walk(7, undefined)).toEqual(descending(await keysNow()));
  });

  test("shows no pack before the rows that come before it", async () => {
    const [place = ""] = places;
    await execute(
      `WITH RECURSIVE n (i) AS (SELECT 1000 UNION ALL SELECT i + 1 FROM n WHERE i < 1800)
       INSERT INTO deliveries (destination_id, event_id, state, give_up_at) SELECT ?1, i * 128, 'dead', 0 FROM n`,
      place,
    );
    await giveRow(place, eventAt(500, 7), "delivered");
    await execute(
      `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 150)
       INSERT INTO packs (destination_id, bundle_id, delivered0) SELECT ?1, i, 1 FROM n`,
      place,
    );
    expect(await walk(50, "delivered")).toEqual(descending(await keysNow("delivered")));
  });

  test("continues after more destinations without deliveries than one page reads", async () => {
    await execute(
      `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1600)
       INSERT INTO packs (destination_id, bundle_id, waiting0) SELECT 'dst_z' || printf('%04d', i), 1, 1 FROM n`,
    );
    await execute(
      "INSERT INTO packs (destination_id, bundle_id, delivered0) VALUES (?1, 1, 5)",
      places[0] ?? "",
    );
    expect(await walk(50, "delivered")).toEqual([
      [places[0], eventAt(1, 2)],
      [places[0], eventAt(1, 0)],
    ]);
  });
});
