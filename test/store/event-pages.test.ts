/** Single pages of events: what they find among the events of others, how far they search, and the bodies with them. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { bundleOf, eventAt } from "../../src/core/bundle.ts";
import { beforeFirstBundleOf } from "../../src/core/placement.ts";
import {
  countWithinBytes,
  type EventPage,
  type EventPosition,
  eachBody,
  endingAfter,
  eventsById,
  type ListedEvent,
  type ListedEventFilter,
  listEvents,
  withinBytes,
} from "../../src/store/event-list.ts";
import { type BundleRow, type EventRow, insertBundles } from "../support/bundle-rows.ts";
import { emptyDatabase } from "../support/databases.ts";
import { meteredD1 } from "../support/meter.ts";
import { execute } from "../support/world.ts";

const databases = { db: env.DB };
const MB = 1024 * 1024;
const MINUTE = 60_000;

beforeEach(emptyDatabase);

const over = { dueBy: -1, endedBy: 0, now: 0, first: env.DB };

type Asked = Partial<ListedEventFilter> & {
  destination?: string;
  limit?: number;
  from?: readonly EventPosition[];
};

const pageOf = (asked: Asked = {}, db = env.DB) => listEvents({ db }, { over, limit: 100, ...asked });

const idsOf = ({ found }: EventPage) => found.map(({ id }) => id);

/** The given number of bundles of one event each. */
const many = (count: number, event: EventRow): BundleRow[] =>
  Array.from({ length: count }, () => ({ events: [event] }));

describe("a page", () => {
  test("has everything that is stored about each event", async () => {
    const [one, two] = await insertBundles(env.DB, [
      {
        ...{ acceptedAt: 5, deliverAt: 9 },
        events: [
          {
            ...{ tenant: "acme", type: "order.paid", tags: ["x"], channels: ["us", "eu"], ttlSeconds: 60 },
            ...{ content: { text: "four", type: "text/plain" }, destinations: ["dst_a"] },
          },
          { tenant: "rival", content: { text: "seven..", type: "text/plain" }, destinations: ["dst_b"] },
        ],
      },
    ]);
    await execute("UPDATE bundles SET header = json_set(header, '$.erased', json('[1, 1]'))");
    const { found } = await pageOf({ destination: "dst_a" });
    expect(found).toStrictEqual([
      {
        ...{ id: two, tenant: "rival", type: "a", acceptedAt: 5, deliverAt: 9, tags: [], channels: [] },
        ...{
          ttlSeconds: undefined,
          contentType: "text/plain",
          isPlanned: false,
          isErased: true,
          bundleBytes: 11,
        },
      },
      {
        ...{ id: one, tenant: "acme", type: "order.paid", acceptedAt: 5, deliverAt: 9 },
        ...{ tags: ["x"], channels: ["eu", "us"], ttlSeconds: 60, contentType: "text/plain" },
        ...{ isPlanned: true, isErased: false, bundleBytes: 11 },
      },
    ]);
    for (const asked of [{}, { destination: "dst_c" }])
      expect((await pageOf(asked)).found.map(({ isPlanned }) => isPlanned)).toEqual([false, false]);
    const tagged = await pageOf({ tenant: "acme", tag: "x", destination: "dst_a" });
    expect(tagged.found.map(({ id, isPlanned }) => [id, isPlanned])).toEqual([[one, true]]);
  });

  test.each<[string, Asked, readonly EventRow[]]>([
    ["a tenant's", { tenant: "acme" }, [{ tenant: "acme2" }, { tenant: "my acme" }]],
    ["one of a type", { types: ["order.paid"] }, [{ type: "order.paint" }, { type: "reorder.paid" }]],
    ["one of a pattern of types", { types: ["order.*"] }, [{ type: "orders" }, { type: "reorder.paid" }]],
    ["one with a tag", { tag: "x" }, [{ tags: ["xy"] }, { tags: ["y x"] }]],
    [
      "a tenant's with a tag",
      { tenant: "acme", tag: "x" },
      [{ tags: ["y"] }, { tenant: "rival", tags: ["x"] }],
    ],
  ])("finds %s behind more bundles of others than it reads", async (_, asked, others) => {
    const own = { tenant: "acme", type: "order.paid", tags: ["x"] };
    const [, event] = await insertBundles(env.DB, [
      { events: [{ tenant: "acmes", type: "reorder.paid" }, own] },
      ...others.flatMap((other) => many(205, other)),
    ]);
    const page = await pageOf(asked);
    expect(idsOf(page)).toEqual([event]);
    expect(page).toMatchObject({ next: undefined, lookedBackTo: undefined });
  });

  test("of a tenant's events with a tag reads only the bundles that have it", async () => {
    await insertBundles(env.DB, [{ events: [{ tags: ["x"] }] }, ...many(50, { tags: ["y"] })]);
    const d1 = meteredD1(env.DB);
    expect(idsOf(await pageOf({ tenant: "acme", tag: "x" }, d1.db))).toEqual([eventAt(1, 0)]);
    expect(d1.used().rowsRead).toBeLessThan(10);
  });

  test.each<[readonly string[] | undefined, readonly string[]]>([
    [undefined, ["user.new", "orders", "order.paid"]],
    [["*"], ["user.new", "orders", "order.paid"]],
    [["order.paid"], ["order.paid"]],
    [["order.*"], ["order.paid"]],
    [
      ["order.paid", "user.new"],
      ["user.new", "order.paid"],
    ],
    [
      ["user.*", "orders"],
      ["user.new", "orders"],
    ],
    [
      ["order.paid", "*"],
      ["user.new", "orders", "order.paid"],
    ],
  ])("of the types %s has only these", async (types, expected) => {
    await insertBundles(
      env.DB,
      ["order.paid", "orders", "user.new"].map((type) => ({ events: [{ type }] })),
    );
    expect((await pageOf({ types })).found.map(({ type }) => type)).toEqual(expected);
  });

  test("has only events with the requested channel and tag", async () => {
    const [one, two, three] = await insertBundles(env.DB, [
      {
        events: [
          { channels: ["eu", "us"], tags: ["x"] },
          { channels: ["us"], tags: ["x", "y"] },
          { channels: [] },
        ],
      },
    ]);
    expect(idsOf(await pageOf({ channel: "us" }))).toEqual([two, one]);
    expect(idsOf(await pageOf({ channel: "eu" }))).toEqual([one]);
    expect(idsOf(await pageOf({ channel: "e" }))).toEqual([]);
    expect(idsOf(await pageOf({ tag: "y" }))).toEqual([two]);
    expect(idsOf(await pageOf({ tag: "x", channel: "eu", tenant: "acme" }))).toEqual([one]);
    expect(idsOf(await pageOf())).toEqual([three, two, one]);
  });

  test("of a time reads the bundles of about that time", async () => {
    await insertBundles(
      env.DB,
      Array.from({ length: 400 }, (_, i) => ({ acceptedAt: (i + 1) * MINUTE, events: [{ tags: ["x"] }] })),
    );
    const d1 = meteredD1(env.DB);
    for (const names of [{}, { tag: "x", tenant: "acme" }])
      for (const [since, until] of [
        [397, undefined],
        [undefined, 4],
        [200, 203],
      ] as const) {
        const accepted = {
          ...(since !== undefined && { since: since * MINUTE }),
          ...(until !== undefined && { until: until * MINUTE }),
        };
        const { found } = await pageOf({ accepted, ...names }, d1.db);
        const times = found.map(({ acceptedAt }) => acceptedAt / MINUTE);
        expect(times[0]).toBe((until ?? 401) - 1);
        expect(times.at(-1)).toBe(since ?? 1);
        expect(times).toHaveLength((until ?? 401) - (since ?? 1));
        expect(d1.used().rowsRead).toBeLessThan(100);
      }
  });
});

describe("the next page", () => {
  test("continues after the last event, and the page reports how far back it has read", async () => {
    const [one, two, three] = await insertBundles(env.DB, [
      { acceptedAt: 10, events: [{}, {}] },
      { acceptedAt: 20, events: [{}] },
    ]);
    const all = await pageOf({ limit: 3 });
    expect([idsOf(all), all.next, all.lookedBackTo]).toEqual([[three, two, one], undefined, undefined]);
    const first = await pageOf({ limit: 2 });
    expect([idsOf(first), first.next, first.lookedBackTo]).toEqual([[three, two], [two], 10]);
    const newest = await pageOf({ limit: 1 });
    expect([idsOf(newest), newest.next, newest.lookedBackTo]).toEqual([[three], [three], 20]);
    expect(idsOf(await pageOf({ from: newest.next ?? [] }))).toEqual([two, one]);
    expect(idsOf(await pageOf({ from: first.next ?? [] }))).toEqual([one]);
  });

  test("after the first event of all is empty, and costs nothing", async () => {
    await insertBundles(env.DB, many(1, {}));
    const d1 = meteredD1(env.DB);
    const last = await pageOf({ from: [eventAt(1, 0)] }, d1.db);
    expect(last).toMatchObject({ found: [], next: undefined });
    expect(d1.used().roundTrips).toBe(0);
    expect(idsOf(await pageOf({ from: [eventAt(1, 1)] }))).toEqual([eventAt(1, 0)]);
  });

  test.each([
    [2, [2_001, 2], undefined],
    [1, [2_001], eventAt(1, 127)],
  ])("is needed beyond two thousand bundles: with the bundle %i", async (id, found, next) => {
    await insertBundles(env.DB, [
      { id, acceptedAt: 10, events: [{}] },
      { id: 2_001, acceptedAt: 20, events: [{}] },
    ]);
    const page = await pageOf({ tenant: "acme" });
    expect(idsOf(page).map(bundleOf)).toEqual(found);
    expect(page).toMatchObject(
      next === undefined ? { next: undefined, lookedBackTo: undefined } : { next: [next], lookedBackTo: 10 },
    );
    if (page.next) expect(idsOf(await pageOf({ from: page.next }))).toEqual([eventAt(1, 0)]);
  });

  test.each([
    ["two hundred bundles", {}],
    ["two hundred bundles with a tag", { tenant: "acme", tag: "x" }],
  ])("is needed after %s", async (_, names) => {
    const bundles = Array.from({ length: 200 }, (_, i) => ({
      acceptedAt: i + 10,
      events: [{ tags: ["x"] }],
    }));
    await insertBundles(env.DB, bundles.slice(1));
    expect((await pageOf({ limit: 300, ...names })).next).toBeUndefined();
    await insertBundles(env.DB, bundles.slice(0, 1));
    const page = await pageOf({ limit: 300, ...names });
    expect(page.found).toHaveLength(200);
    expect(page).toMatchObject({ next: [eventAt(0, 127)], lookedBackTo: 11 });
    expect(await pageOf({ from: page.next ?? [], ...names })).toMatchObject({ found: [], next: undefined });
  });
});

test("events are found by their ids if they are the tenant's", async () => {
  const [own = 0, foreign = 0, other = 0, last = 0] = await insertBundles(env.DB, [
    { events: [{ type: "own" }, { tenant: "rival" }, { type: "other" }] },
    { events: [{ type: "last" }] },
  ]);
  const found = await eventsById(databases, "acme", [own, foreign, last, eventAt(1, 9), eventAt(7, 0), last]);
  expect([...found].map(([id, event]) => [id, event.id, event.type])).toEqual([
    [own, own, "own"],
    [last, last, "last"],
  ]);
  expect([...(await eventsById(databases, "rival", [own, foreign, other])).keys()]).toEqual([foreign]);
  expect((await eventsById(databases, "acme", [])).size).toBe(0);
});

describe("bodies", () => {
  const sized = (bundle: number, bundleBytes: number, index = 0) => ({
    id: eventAt(bundle, index),
    bundleBytes,
  });
  const all = () => true;

  test.each([
    ["as many as there are", [sized(3, 1), sized(2, 1)], 2],
    ["8 MB", [sized(4, 4 * MB), sized(3, 4 * MB), sized(2, 0)], 3],
    ["no more", [sized(4, 4 * MB), sized(3, 4 * MB), sized(2, 1)], 2],
    ["one bundle of any size", [sized(4, 9 * MB, 1), sized(4, 9 * MB), sized(2, 1)], 2],
    ["each bundle once", [sized(4, 4 * MB, 2), sized(4, 4 * MB, 1), sized(3, 4 * MB)], 3],
    ["none without events", [], 0],
  ])("fit into a page: %s", (_, events, count) => {
    expect(countWithinBytes(events, all)).toBe(count);
  });

  test("that are not requested take no room", () => {
    const events = [sized(5, 9 * MB), sized(4, 4 * MB), sized(3, 9 * MB), sized(2, 4 * MB), sized(1, 1)];
    expect(countWithinBytes(events, ({ bundleBytes }) => bundleBytes < 9 * MB)).toBe(4);
  });

  const listed = (id: number, bundleBytes: number): ListedEvent => ({
    ...{ id, bundleBytes, tenant: "acme", type: "a", acceptedAt: id % 1_000, deliverAt: null, tags: [] },
    ...{ channels: [], ttlSeconds: undefined, contentType: undefined, isPlanned: false, isErased: false },
  });

  test("end a page where they no longer fit, and each database continues where it ended", () => {
    const second = (bundle: number) => eventAt(beforeFirstBundleOf(1) + bundle, 0);
    const [a, b, c, d] = [
      listed(eventAt(9, 0), 1),
      listed(second(8), 1),
      listed(eventAt(7, 0), 1),
      listed(second(6), 1),
    ];
    const from = [1_000_000, second(9), 0];
    const page: EventPage = { found: [a, b, c, d], from, next: [5, 6, 0], lookedBackTo: 3 };
    expect(endingAfter(page, 4)).toBe(page);
    expect(endingAfter(page, 9)).toBe(page);
    const ends = (count: number) => {
      const { found, next, lookedBackTo, ...rest } = endingAfter(page, count);
      expect(rest.from).toEqual(from);
      return [found, next, lookedBackTo];
    };
    expect(ends(3)).toEqual([[a, b, c], [5, b.id, 0], d.acceptedAt]);
    expect(ends(2)).toEqual([[a, b], [a.id, b.id, 0], c.acceptedAt]);
    expect(ends(1)).toEqual([[a], [a.id, second(9), 0], b.acceptedAt]);
    const last = endingAfter({ ...page, next: undefined }, 3);
    expect(last.next).toEqual([0, b.id, 0]);
    const large = { ...page, found: [a, { ...b, bundleBytes: 9 * MB }, c, d] };
    expect(withinBytes(large, all).found).toEqual([a]);
    expect(withinBytes(large, ({ id }) => id !== b.id)).toBe(large);
  });

  test("are read for the requested events, but not for erased and damaged ones", async () => {
    const text = (text: string): EventRow => ({ content: { text, type: "text/plain" } });
    const [one = 0, two = 0, three = 0, four = 0] = await insertBundles(env.DB, [
      { events: [text("one"), text("two"), text("three")] },
      { events: [text("four")] },
      { events: [text("five")] },
    ]);
    const five = eventAt(3, 0);
    await execute("UPDATE bundles SET header = json_set(header, '$.erased', json('[1, 1]')) WHERE id = 1");
    await execute("UPDATE bundles SET body = x'00' WHERE id = 2");
    const read: unknown[] = [];
    const asked = [five, four, three, two].map((id) => ({ id, bundleBytes: 1 }));
    await eachBody(databases, [...asked, { id: eventAt(8, 0), bundleBytes: 1 }], ({ id }, body) =>
      read.push([id, body && new TextDecoder().decode(body)]),
    );
    expect(read.sort()).toEqual([
      [two, undefined],
      [three, "three"],
      [four, undefined],
      [five, "five"],
    ]);
    expect(one).toBe(two - 1);
  });

  test.each([
    ["in one round trip up to 2 MB", [MB, MB], 1],
    ["in two beyond that", [MB, MB + 1], 2],
    ["in portions as large as possible", [MB - 1, 1, MB, MB, MB], 2],
    ["in one when they are larger", [3 * MB], 1],
    ["in several when each is larger", [3 * MB, 3 * MB, 1], 3],
  ])("are read %s", async (_, sizes, roundTrips) => {
    const events = await insertBundles(env.DB, many(sizes.length, {}));
    const pairs = events.flatMap((id, i) => [0, 1].map(() => ({ id, bundleBytes: sizes[i] ?? 0 })));
    const d1 = meteredD1(env.DB);
    const read: number[] = [];
    await eachBody(d1, pairs, ({ id }, body) => read.push(body ? id : 0));
    expect(read.sort()).toEqual([...events, ...events].sort());
    expect(d1.used().roundTrips).toBe(roundTrips);
  });
});
