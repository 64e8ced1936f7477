/** The cost of a page of a list of deliveries: round trips, and only the rows of its entries. */

import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { eventAt } from "../../src/core/bundle.ts";
import type { StoredState } from "../../src/store/delivery.ts";
import { type ListFilter, type Positions, storedDeliveries } from "../../src/store/delivery-list.ts";
import { insertBundles } from "../support/bundle-rows.ts";
import { emptyDatabase } from "../support/databases.ts";
import { storeDeliveries, storePacked } from "../support/delivery-rows.ts";
import { meteredD1 } from "../support/meter.ts";
import { execute, newDestination, TENANT } from "../support/world.ts";

const over = { dueBy: 1, endedBy: 1, now: 1, first: env.DB };
const [BEFORE, OWN, AFTER] = ["dst_1", "dst_2", "dst_3"] as const;

beforeEach(async () => {
  await emptyDatabase();
  for (const id of [BEFORE, OWN, AFTER])
    await newDestination({ id, tenant: id === OWN ? TENANT : "foreign" });
});

describe("a page", () => {
  const events = Array.from({ length: 30 }, (_, i) => eventAt(i + 1, 0));

  /** Rows of own and foreign destinations, and packs, a minute after one another. */
  async function storeMany() {
    await insertBundles(
      env.DB,
      events.map((_, i) => ({ acceptedAt: i * 60_000, events: [{}, {}] })),
    );
    for (const destinationId of [BEFORE, OWN, AFTER]) {
      await storeDeliveries(
        env.DB,
        events.map((eventId, i) => ({ destinationId, eventId, state: i % 2 ? "dead" : "waiting" })),
      );
      await storePacked(
        env.DB,
        events.map((eventId) => ({ destinationId, eventId: eventId + 1, state: "delivered" })),
      );
    }
  }

  test.each<[string, StoredState | undefined, object, number]>([
    ["looks at rows and packs", undefined, {}, 2],
    ["of what is dead looks at rows alone", "dead", {}, 1],
    ["of what is retrying also counts that", "retrying", {}, 3],
    ["of a destination looks for no other", undefined, { destinationId: "dst_x" }, 2],
    ["of a tenant looks for its destinations", undefined, { tenant: TENANT }, 3],
    [
      "of a tenant's destination looks for whose it is",
      undefined,
      { tenant: TENANT, destinationId: "dst_x" },
      3,
    ],
    [
      "of another tenant's destination looks no further",
      undefined,
      { tenant: TENANT, destinationId: BEFORE },
      1,
    ],
    ["of a tenant without destinations looks at nothing else", undefined, { tenant: "nobody" }, 1],
    ["of a time looks for the ids of its limits", "dead", { accepted: { since: 1, until: 2 } }, 3],
    ["that hides what is over looks at nothing else where nothing has ended", "waiting", { over }, 2],
  ])("%s", async (_, state, filter, roundTrips) => {
    await storeDeliveries(env.DB, [{ destinationId: OWN, eventId: eventAt(1, 0), state: "waiting" }]);
    const d1 = meteredD1(env.DB);
    await storedDeliveries({ db: d1.db }, state, { limit: 9, ...filter });
    expect(d1.used().roundTrips).toBe(roundTrips);
  });

  test.each<[string, StoredState | undefined, object, number]>([
    ["a tenant", undefined, { tenant: TENANT }, 200],
    ["a state of a tenant", "dead", { tenant: TENANT }, 30],
    ["a time of a tenant", undefined, { tenant: TENANT, accepted: { since: 27 * 60_000 } }, 90],
    ["a time before of a tenant", undefined, { tenant: TENANT, accepted: { until: 2 * 60_000 } }, 80],
  ])("of %s reads only its entries", async (_, state, filter, rows) => {
    await storeMany();
    const d1 = meteredD1(env.DB);
    const { found } = await storedDeliveries({ db: d1.db }, state, { limit: 4, ...filter });
    expect(found).toHaveLength(4);
    expect(new Set(found.map(({ destinationId }) => destinationId))).toEqual(new Set([OWN]));
    expect(d1.used().rowsRead).toBeLessThan(rows);
  });
});

/** Rows of a destination, of so many events of bundles of their own. */
const insertRows = (count: number, destination: string, state: StoredState, lastStatus = 503) =>
  execute(
    `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
     INSERT INTO deliveries (destination_id, event_id, state, next_attempt_at, last_status, give_up_at)
     SELECT ?2, i * 128, ?3, iif(?3 = 'retrying', i, NULL), ?4, 0 FROM n`,
    ...[count, destination, state, lastStatus],
  );

/** The same in packs. */
const insertBits = (count: number, destination: string, mask: "delivered0" | "in_flight0") =>
  execute(
    `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
     INSERT INTO packs (destination_id, bundle_id, ${mask}, recover_at)
     SELECT ?2, i, 2, iif(?3, i, NULL) FROM n`,
    ...[count, destination, mask === "in_flight0" ? 1 : 0],
  );

const pageOf = (state: StoredState | undefined, filter: Partial<ListFilter> = {}) =>
  storedDeliveries({ db: env.DB }, state, { limit: 9, ...filter });

/** The events of all pages, one after the other. */
async function walk(state: StoredState, filter: Partial<ListFilter> = {}): Promise<number[]> {
  const shown: number[] = [];
  let before: Positions | undefined;
  for (let page = 0; page < 20; page++) {
    const { found, next } = await pageOf(state, { ...filter, before });
    shown.push(...found.map(({ eventId }) => eventId));
    if (!next) return shown;
    before = next;
  }
  throw new Error("The list does not end");
}

describe("a list", () => {
  test("shows no row before the packs that come before it", async () => {
    await insertRows(12, OWN, "delivered");
    await insertBits(250, OWN, "delivered0");
    // All but one of the packs have other deliveries, and that one is not among those that a page reads.
    await execute("DELETE FROM packs WHERE bundle_id <= 100");
    await execute("UPDATE packs SET delivered0 = 0, cancelled0 = 2 WHERE bundle_id <> 110");
    const rows = Array.from({ length: 12 }, (_, i) => eventAt(12 - i, 0));
    expect(await walk("delivered")).toEqual([eventAt(110, 1), ...rows]);
  });

  test.each([
    ["more destinations without deliveries than a page has steps", 705, 0],
    ["as many destinations and packs as a page has steps", 640, 70],
  ])("of a tenant continues after %s", async (_, destinations, packs) => {
    await execute(
      `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
       INSERT INTO destinations (id, tenant, url, secret, created_at, updated_at)
       SELECT 'dst_9' || printf('%03d', i), ?1, 'https://example.com', 'x', 0, 0 FROM n`,
      ...[TENANT, destinations],
    );
    if (packs > 0) await insertBits(packs, `dst_9${destinations}`, "delivered0");
    await insertRows(1, OWN, "delivered");
    await insertBits(1, OWN, "delivered0");
    const packed = Array.from({ length: packs }, (_, i) => eventAt(packs - i, 1));
    expect(await walk("delivered", { tenant: TENANT, limit: 200 })).toEqual([
      ...packed,
      eventAt(1, 1),
      eventAt(1, 0),
    ]);
  });
});

describe("the last page", () => {
  test.each([5, 6])("is one that has everything: of %i", async (limit) => {
    await insertRows(3, OWN, "dead");
    await insertBits(2, OWN, "delivered0");
    for (const filter of [{}, { tenant: TENANT }, { destinationId: OWN }]) {
      const { found, next } = await pageOf(undefined, { limit, ...filter });
      expect([found.length, next]).toEqual([5, undefined]);
    }
    expect((await pageOf("dead", { limit: 3 })).next).toBeUndefined();
    expect((await pageOf("dead", { limit: 2 })).next).toMatchObject([{ eventId: eventAt(2, 0) }]);
    expect((await pageOf("delivered", { limit: 2 })).next).toBeUndefined();
    expect((await pageOf("delivered", { limit: 1 })).next).toMatchObject([{ eventId: eventAt(2, 1) }]);
  });

  test("is one that ends just before the last step", async () => {
    await insertRows(698, OWN, "dead", 500);
    for (const filter of [{ destinationId: OWN }, { tenant: TENANT }])
      expect(await pageOf("dead", { status: 503, ...filter })).toEqual({ found: [], next: undefined });
  });

  test.each([
    [699, { destinationId: OWN, eventId: 1 }],
    [700, { destinationId: OWN, eventId: eventAt(1, 0) }],
    [800, { destinationId: OWN, eventId: eventAt(101, 0) }],
  ])("comes after one of seven hundred steps: of %i", async (count, next) => {
    await insertRows(count, OWN, "dead", 500);
    await execute("UPDATE deliveries SET last_status = 503 WHERE event_id = ?1", eventAt(1, 0));
    for (const filter of [{ destinationId: OWN }, { tenant: TENANT }]) {
      const page = await pageOf("dead", { status: 503, ...filter });
      expect(page.next).toMatchObject([next]);
      const rest = await pageOf("dead", { status: 503, ...filter, before: page.next });
      expect([...page.found, ...rest.found]).toMatchObject([{ eventId: eventAt(1, 0) }]);
      expect(rest.next).toBeUndefined();
    }
  });

  test.each([
    [99, undefined],
    [100, [{ destinationId: OWN, eventId: eventAt(1, 0) }]],
    [101, [{ destinationId: OWN, eventId: eventAt(2, 0) }]],
  ])("comes after one of a hundred packs: of %i", async (count, next) => {
    await insertBits(count, OWN, "delivered0");
    const page = await pageOf("cancelled");
    expect([page.found, page.next]).toEqual([[], next]);
    if (page.next) expect((await pageOf("cancelled", { before: page.next })).next).toBeUndefined();
  });
});

test("a tenant's list continues with its next destination when the one at which it ended is not its own", async () => {
  await insertRows(3, OWN, "dead");
  const page = await pageOf("dead", {
    tenant: TENANT,
    before: [{ destinationId: AFTER, eventId: eventAt(2, 0) }],
  });
  expect(page.found).toHaveLength(3);
});

describe("retries", () => {
  test("are found behind any number of others", async () => {
    await insertRows(800, AFTER, "delivered");
    await insertBits(300, AFTER, "delivered0");
    await insertRows(1, BEFORE, "retrying");
    await insertBits(1, BEFORE, "in_flight0");
    expect((await pageOf("retrying")).found.map(({ eventId }) => eventId)).toEqual([
      eventAt(1, 1),
      eventAt(1, 0),
    ]);
  });

  test("in more packs than one page reads are all found, in order", async () => {
    await insertBits(150, OWN, "in_flight0");
    await execute("UPDATE packs SET in_flight0 = 7");
    await insertBits(1, AFTER, "in_flight0");
    const all = Array.from({ length: 150 }, (_, i) => [0, 1, 2].map((index) => eventAt(i + 1, index)));
    expect(await walk("retrying", { limit: 200 })).toEqual([eventAt(1, 1), ...all.flat().toReversed()]);
  });

  test("are all found, however many there are", async () => {
    await insertRows(10_050, OWN, "retrying");
    const newest = [10_050, 10_049].map((bundle) => ({ eventId: eventAt(bundle, 0) }));
    expect((await pageOf("retrying", { limit: 2 })).found).toMatchObject(newest);
    await insertBits(5_010, BEFORE, "in_flight0");
    expect((await pageOf("retrying", { limit: 2 })).found).toMatchObject(newest);
    expect((await pageOf("retrying", { limit: 1, destinationId: BEFORE })).found).toMatchObject([
      { eventId: eventAt(5_010, 1) },
    ]);
  });

  test("of a time or a destination are read without others", async () => {
    const MINUTE = 60_000;
    await insertBundles(
      env.DB,
      Array.from({ length: 200 }, (_, i) => ({ acceptedAt: (i + 1) * MINUTE, events: [{}, {}] })),
    );
    for (const id of [BEFORE, OWN, AFTER]) {
      await insertRows(200, id, "retrying");
      await insertBits(200, id, "in_flight0");
    }
    const d1 = meteredD1(env.DB);
    for (const [filter, found] of [
      [{ destinationId: OWN, accepted: { since: 199 * MINUTE } }, 4],
      [{ destinationId: OWN, accepted: { until: 3 * MINUTE } }, 4],
      [{ accepted: { since: 199 * MINUTE } }, 12],
    ] as const) {
      const page = await storedDeliveries({ db: d1.db }, "retrying", { limit: 20, ...filter });
      expect(page.found).toHaveLength(found);
      // All entries of both indexes are read, twice: to be counted, and to be sorted.
      expect(d1.used().rowsRead).toBeLessThan(4 * 600 + 200);
    }
  });
});
