/** Pages of the list by event: what each reads, and where the next one continues. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { bundleOf, eventAt } from "../../src/core/bundle.ts";
import { deliveriesByEvent } from "../../src/store/deliveries-by-event.ts";
import type { Positions } from "../../src/store/delivery-list.ts";
import { type BundleRow, insertBundles } from "../support/bundle-rows.ts";
import { emptyDatabase } from "../support/databases.ts";
import { storeDeliveries } from "../support/delivery-rows.ts";
import { meteredD1 } from "../support/meter.ts";

beforeEach(emptyDatabase);

type Wanted = Parameters<typeof deliveriesByEvent>[1];
type Filter = Partial<Parameters<typeof deliveriesByEvent>[2]>;

const pageOf = (wanted: Partial<Wanted> = {}, filter: Filter = {}, db = env.DB) =>
  deliveriesByEvent({ db }, { state: undefined, ...wanted }, { limit: 100, ...filter });

/** The pages one after the other, each as its events. */
async function pagesOf(wanted: Partial<Wanted> = {}, filter: Filter = {}): Promise<number[][]> {
  const pages: number[][] = [];
  let before: Positions | undefined;
  do {
    const { found, next } = await pageOf(wanted, { ...filter, before });
    pages.push(found.map(({ eventId }) => eventId));
    before = next;
  } while (before && pages.length < 50);
  return pages;
}

const many = (count: number, event: BundleRow["events"][number]): BundleRow[] =>
  Array.from({ length: count }, (_, i) => ({
    acceptedAt: i,
    events: [{ destinations: ["dst_a"], ...event }],
  }));

describe("a page", () => {
  test.each<[string, Partial<Wanted>, Filter]>([
    ["a tenant's", { tenant: "acme" }, {}],
    ["one of a type", {}, { type: "order.paid" }],
    ["one of a pattern of types", {}, { type: "order.*" }],
    ["a tenant's with a tag", { tenant: "acme", tag: "x" }, {}],
  ])("finds %s behind more bundles of others than it reads", async (_, wanted, filter) => {
    const [event] = await insertBundles(env.DB, [
      ...many(1, { tenant: "acme", type: "order.paid", tags: ["x"] }),
      ...many(60, { tenant: "acme2", type: "orders", tags: ["x"] }),
      ...(wanted.tag ? many(60, { tenant: "acme", tags: ["y"] }) : []),
    ]);
    expect(await pagesOf(wanted, filter)).toEqual([[event]]);
  });

  test("takes fifty bundles, with a tag and without", async () => {
    const events = (await insertBundles(env.DB, many(51, { tags: ["x"] }))).toReversed();
    for (const wanted of [{}, { tenant: "acme", tag: "x" }]) {
      const first = await pageOf(wanted);
      expect(first.next).toEqual([{ eventId: eventAt(2, 0), destinationId: " " }]);
      expect(await pagesOf(wanted)).toEqual([events.slice(0, 50), events.slice(50)]);
    }
  });

  test("that has fewer is the last", async () => {
    await insertBundles(env.DB, many(49, { tags: ["x"] }));
    for (const wanted of [{}, { tenant: "acme", tag: "x" }])
      expect((await pageOf(wanted)).next).toBeUndefined();
  });

  test.each([
    [2, [[2_001, 2]]],
    [1, [[2_001], [1]]],
  ])("reads two thousand numbers of bundles: with the bundle %i", async (id, pages) => {
    await insertBundles(
      env.DB,
      many(1, {}).map((row) => ({ ...row, id })),
    );
    await insertBundles(
      env.DB,
      many(1, {}).map((row) => ({ ...row, id: 2_001 })),
    );
    expect((await pagesOf({ tenant: "acme" })).map((page) => page.map(bundleOf))).toEqual(pages);
  });

  test("looks up two thousand deliveries, and the next page continues after them", async () => {
    const destinations = Array.from({ length: 21 }, (_, i) => `dst_${String(i).padStart(2, "0")}`);
    await insertBundles(env.DB, [{ events: Array(100).fill({ destinations }) }]);
    const last = { eventId: eventAt(1, 0), destinationId: "dst_20" };
    await storeDeliveries(env.DB, [last]);
    const d1 = meteredD1(env.DB);
    const page = await pageOf({ state: "dead" }, {}, d1.db);
    // 100 events with 21 deliveries each: 2,000 are 95 events and five deliveries.
    const upto = { eventId: eventAt(1, 4), destinationId: "dst_16" };
    expect(page).toMatchObject({ found: [], next: [upto] });
    expect(d1.used().roundTrips).toBe(21);
    const next = await pageOf({ state: "dead" }, { before: page.next });
    expect(next.found).toMatchObject([last]);
    expect(next.next).toBeUndefined();
  });

  test("looks up no more once it is full, and ends after its last delivery", async () => {
    const destinations = ["dst_a", "dst_b", "dst_c", "dst_d"];
    await insertBundles(env.DB, [{ events: Array(100).fill({ destinations }) }]);
    const d1 = meteredD1(env.DB);
    const page = await pageOf({}, { limit: 199 }, d1.db);
    expect(page.found).toHaveLength(199);
    expect(page.next).toMatchObject([{ eventId: eventAt(1, 50), destinationId: "dst_b" }]);
    expect(d1.used().roundTrips).toBe(3);
    const whole = await pageOf({}, { limit: 400 });
    expect(whole.found).toHaveLength(400);
    expect(whole.next).toBeUndefined();
    expect((await pageOf({}, { limit: 399 })).next).toMatchObject([
      { eventId: eventAt(1, 0), destinationId: "dst_b" },
    ]);
  });

  test("that is full is the last when nothing more is found", async () => {
    await insertBundles(env.DB, [{ events: Array(100).fill({ destinations: ["dst_a", "dst_b", "dst_c"] }) }]);
    await storeDeliveries(env.DB, [{ eventId: eventAt(1, 99), destinationId: "dst_b" }]);
    const page = await pageOf({ state: "dead" }, { limit: 1 });
    expect(page.found).toHaveLength(1);
    expect(page.next).toBeUndefined();
  });

  test("of a time reads the bundles of about that time", async () => {
    const MINUTE = 60_000;
    const rows = many(300, { tags: ["x"] }).map((row, i) => ({ ...row, acceptedAt: (i + 1) * MINUTE }));
    await insertBundles(env.DB, rows);
    const d1 = meteredD1(env.DB);
    for (const wanted of [{}, { tenant: "acme", tag: "x" }])
      for (const [accepted, events] of [
        [{ until: 3 * MINUTE }, [2, 1]],
        [{ since: 299 * MINUTE }, [300, 299]],
      ] as const) {
        const { found } = await pageOf(wanted, { accepted }, d1.db);
        expect(found.map(({ eventId }) => bundleOf(eventId))).toEqual(events);
        expect(d1.used().rowsRead).toBeLessThan(80);
      }
  });
});
