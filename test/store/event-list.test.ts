/** Lists of events: the pages together are exactly the tenant's events, in order, and each page reads a bounded number of rows. */
import fc from "fast-check";
import { beforeEach, describe, expect, test } from "vitest";
import { bundleOf } from "../../src/core/bundle.ts";
import { takesType } from "../../src/core/routing.ts";
import {
  BUNDLES_LOOKED_AT,
  type EventPosition,
  eachBody,
  type ListedEvent,
  type ListedEventFilter,
  listEvents,
  withinBytes,
} from "../../src/store/event-list.ts";
import { type BundleRow, insertBundles, repeatedBundle } from "../support/bundle-rows.ts";
import { emptyDatabase, testDatabases } from "../support/databases.ts";
import { meteredD1 } from "../support/meter.ts";

const [db, ...further] = testDatabases as [D1Database, ...D1Database[]];
const databases = { db, further };

beforeEach(emptyDatabase);

/** Events due by then are old; tenants and types have no settings. */
const overAt = (dueBy: number) => ({ dueBy, endedBy: 0, now: 0, first: db });

type Walk = Readonly<{ events: readonly ListedEvent[]; pages: number }>;

/** All pages, one after the other. */
async function walk(
  filter: ListedEventFilter & { limit: number },
  withBodies: boolean,
  over = databases,
): Promise<Walk> {
  const events: ListedEvent[] = [];
  let from: readonly EventPosition[] | undefined;
  for (let pages = 1; ; pages++) {
    const page = await listEvents(over, { ...filter, from });
    const { found, next, lookedBackTo: looked } = withBodies ? withinBytes(page, () => true) : page;
    expect(found.length).toBeLessThanOrEqual(filter.limit);
    events.push(...found);
    expect(next === undefined).toBe(looked === undefined);
    expect(events.filter(({ acceptedAt }) => acceptedAt < (looked ?? 0))).toEqual([]);
    if (next === undefined) return { events, pages };
    expect(pages).toBeLessThan(1_000);
    from = next;
  }
}

const tenant = fc.constantFrom("acme", "acm", "rival");
const type = fc.constantFrom("order.paid", "order.made", "orders", "acme");
const event = fc.record({
  tenant,
  type,
  tags: fc.subarray(["x", "acme", "order.paid"]),
});
const bundle = fc.record({
  events: fc.array(event, { minLength: 1, maxLength: 5 }),
  database: fc.nat({ max: testDatabases.length - 1 }),
  deliverAt: fc.option(fc.integer({ min: 1, max: 60_000 }), { nil: undefined }),
});
const filter = fc.record(
  {
    tenant,
    types: fc.constantFrom(["order.*"], ["order.paid"], ["order.paid", "orders"], ["*"]),
    tag: fc.constantFrom("x", "acme"),
    accepted: fc.record({ since: fc.nat({ max: 30 }), until: fc.integer({ min: 31, max: 60 }) }),
  },
  { requiredKeys: [] },
);

describe("the pages of a list of events", () => {
  test("are together exactly the wanted events, the newest first", async () => {
    const holds = async (
      bundles: readonly (typeof bundle extends fc.Arbitrary<infer B> ? B : never)[],
      wanted: Omit<ListedEventFilter, "over">,
      limit: number,
      withBodies: boolean,
    ) => {
      await emptyDatabase();
      const stored: { id: number; acceptedAt: number; event: (typeof bundles)[number]["events"][number] }[] =
        [];
      for (const [i, { events, database, deliverAt }] of bundles.entries()) {
        const row: BundleRow = { events, acceptedAt: i + 1, deliverAt };
        const ids = await insertBundles(testDatabases[database] ?? db, [row], database);
        for (const [place, one] of events.entries())
          stored.push({ id: ids[place] ?? 0, acceptedAt: i + 1, event: one });
      }
      const { since = 0, until = Number.POSITIVE_INFINITY } = wanted.accepted ?? {};
      const expected = stored
        .filter(({ event }) => wanted.tenant === undefined || event.tenant === wanted.tenant)
        .filter(({ event }) => wanted.types === undefined || takesType(wanted.types, event.type))
        .filter(({ event }) => wanted.tag === undefined || event.tags.includes(wanted.tag))
        .filter(({ acceptedAt }) => acceptedAt >= since && acceptedAt < until)
        .sort((a, b) => b.acceptedAt - a.acceptedAt || b.id - a.id)
        .map(({ id }) => id);
      const { events } = await walk({ ...wanted, over: overAt(0), limit }, withBodies);
      expect(events.map(({ id }) => id)).toEqual(expected);
    };
    await fc.assert(
      fc.asyncProperty(
        fc.array(bundle, { maxLength: 12 }),
        filter,
        fc.integer({ min: 1, max: 9 }),
        fc.boolean(),
        holds,
      ),
      { numRuns: 60 },
    );
  });

  test("leave out events due before the retention time, whatever else is in their bundle", async () => {
    await insertBundles(db, [
      { events: [{}], acceptedAt: 10 },
      { events: [{}], acceptedAt: 10, deliverAt: 30 },
      { events: [{}], acceptedAt: 20 },
    ]);
    const { events } = await walk({ tenant: "acme", over: overAt(15), limit: 9 }, false);
    expect(events.map(({ id }) => bundleOf(id))).toEqual([3, 2]);
  });

  test("continue after as many bundles as one reads, with and without a tag", async () => {
    const stored = await insertBundles(
      db,
      Array.from({ length: 450 }, (_, i) => ({ events: [{ tags: ["x"] }, {}], acceptedAt: i + 1 })),
    );
    const all = await walk({ tenant: "acme", over: overAt(0), limit: 1_000 }, false);
    expect(all.events.map(({ id }) => id)).toEqual(stored.toReversed());
    expect(all.pages).toBe(3);
    const tagged = await walk({ tenant: "acme", tag: "x", over: overAt(0), limit: 1_000 }, false);
    expect([tagged.events.length, tagged.pages]).toEqual([450, 3]);
  });

  test("end despite any gap between the ids of bundles", async () => {
    const ids = [1, BUNDLES_LOOKED_AT - 1, 3 * BUNDLES_LOOKED_AT, 2 ** 32];
    await insertBundles(
      db,
      ids.map((id) => ({ id, events: [{}], acceptedAt: id })),
    );
    const { events, pages } = await walk({ tenant: "acme", over: overAt(0), limit: 9 }, false);
    expect(events.map(({ id }) => bundleOf(id))).toEqual(ids.toReversed());
    expect(pages).toBeLessThanOrEqual(ids.length);
  });
});

describe("a tenant in a crowd", () => {
  const CROWD = 100_000;
  const foreign = { tenant: "rival", type: "order.paid", tags: ["acme"] };

  async function crowd() {
    await insertBundles(db, [{ events: [{ tags: ["own"] }], acceptedAt: 1 }]);
    const { sql, values } = repeatedBundle([foreign], { first: 2, count: CROWD, acceptedAt: "2 + i" });
    await db.prepare("DROP TRIGGER bundles_tagged").run();
    await db
      .prepare(sql)
      .bind(...values)
      .run();
  }

  test("finds its event behind 100,000 bundles of others, with bounded work for each page", async () => {
    await crowd();
    const metered = meteredD1(db, ...further);
    let from: readonly EventPosition[] | undefined;
    let pages = 0;
    let found: readonly ListedEvent[] = [];
    let looked = Number.POSITIVE_INFINITY;
    do {
      const page = await listEvents(metered, { tenant: "acme", over: overAt(0), from, limit: 50 });
      expect(metered.used().rowsRead).toBeLessThanOrEqual(BUNDLES_LOOKED_AT + 20);
      found = [...found, ...page.found];
      expect(page.lookedBackTo ?? 0).toBeLessThan(looked);
      looked = page.lookedBackTo ?? 0;
      from = page.next;
      pages += 1;
    } while (from);
    expect(found.map(({ id }) => bundleOf(id))).toEqual([1]);
    expect(pages).toBe(CROWD / BUNDLES_LOOKED_AT + 1);

    const tagged = await listEvents(metered, { tenant: "acme", tag: "own", over: overAt(0), limit: 50 });
    expect(tagged.found).toHaveLength(1);
    expect(metered.used().rowsRead).toBeLessThanOrEqual(10);
  });
});

test("bodies are read in portions, and end a page after 8 MB of them", async () => {
  const data = "x".repeat(256_000);
  const big = Array.from({ length: 2 }, () => ({ data }));
  await insertBundles(
    db,
    Array.from({ length: 20 }, (_, i) => ({ events: big, acceptedAt: i })),
  );
  const page = await listEvents(databases, { tenant: "acme", over: overAt(-1), limit: 100 });
  const { found, next } = withinBytes(page, () => true);
  expect(found).toHaveLength(32);
  const read: number[] = [];
  await eachBody(databases, found, ({ id }, body) => read.push(body ? id : 0));
  expect(read.toSorted()).toEqual(found.map(({ id }) => id).toSorted());
  expect((await walk({ tenant: "acme", over: overAt(-1), limit: 100 }, true)).events).toHaveLength(40);
  expect(next).toBeDefined();
});
