/** Pages of a polled destination's inbox: they skip nothing, hand out nothing twice, and end where the next one begins. */
import { beforeEach, describe, expect, test } from "vitest";
import { memoryD1 } from "../../bench/storm/breakwater/d1.ts";
import "../../bench/storm/runtime-in-node.ts";
import { bundleOf, eventAt } from "../../src/core/bundle.ts";
import { INBOX_START, type InboxPosition } from "../../src/core/inbox.ts";
import { beforeFirstBundleOf } from "../../src/core/placement.ts";
import { seededRandom } from "../../src/core/seeded-random.ts";
import { countBehind, oldestUnread, readInbox, readReturned } from "../../src/store/inbox.ts";
import { type EventRow, insertBundles } from "../support/bundle-rows.ts";
import { insertDestinations, insertPacks } from "../support/stored-deliveries.ts";

const INBOX = "dst_00000000000000000000";
const OTHER = "dst_00000000000000000001";
const NOW = 1_000_000;

const all = [0, 1, 2].map(() => memoryD1().bindingFor(async (_, work) => work()));
const [db, ...further] = all as [D1Database, ...D1Database[]];
const databases = { db, further };
const OVER = { dueBy: -1, endedBy: -1, now: NOW, first: db };
let counts: number[];
beforeEach(async () => {
  counts = [0, 0, 0];
  for (const one of all)
    for (const table of ["packs", "bundles", "destinations"])
      await one.prepare(`DELETE FROM ${table}`).bind().run();
  await insertDestinations(db, [{ id: INBOX }]);
});

const databaseAt = (database: number) => all[database] as D1Database;

type Posted = Readonly<{
  acceptedAt?: number;
  deliverAt?: number;
  /** The indexes of the events that the inbox gets; absent: all. */
  indexes?: readonly number[];
  /** Whether the deliveries have been cancelled. */
  isCancelled?: boolean;
}>;

/** Commits a bundle; returns the number of its first event. */
async function post(
  events: readonly EventRow[],
  { indexes = [...events.keys()], isCancelled = false, ...times }: Posted = {},
  database = 0,
): Promise<number> {
  const count = (counts[database] ?? 0) + 1;
  counts[database] = count;
  const bundle = beforeFirstBundleOf(database) + count;
  const rows = events.map((event, i) => ({
    ...event,
    destinations: indexes.includes(i) ? [INBOX] : [OTHER],
  }));
  const home = databaseAt(database);
  await insertBundles(home, [{ acceptedAt: 0, ...times, events: rows, id: bundle }]);
  const state = isCancelled ? { cancelled: indexes } : { delivered: indexes };
  await insertPacks(home, [
    { destination: INBOX, bundle, ...state },
    { destination: OTHER, bundle, delivered: [...events.keys()] },
  ]);
  return eventAt(bundle, 0);
}

/** An event whose body has so many bytes. */
const sized = (bytes: number): EventRow => ({ content: { text: "x".repeat(bytes), type: "text/plain" } });

async function execute(sql: string, ...values: readonly unknown[]): Promise<void> {
  await db
    .prepare(sql)
    .bind(...values)
    .run();
}

async function changeHeader(event: number, path: string, value: string, database = 0): Promise<void> {
  const sql = `UPDATE bundles SET header = json_set(header, '$.${path}', json(?1)) WHERE id = ?2`;
  await databaseAt(database).prepare(sql).bind(value, bundleOf(event)).run();
}

type Late = Parameters<typeof readInbox>[2]["late"];

async function read(start: InboxPosition = INBOX_START, limit = 100, late: Late = [], end?: InboxPosition) {
  const page = await readInbox(databases, INBOX, { start, limit, late, ...(end && { end }) }, OVER);
  return { ...page, events: page.deliveries.map(({ event }) => event.id) };
}

/** All pages, up to the last; each is read again, as an uncommitted one is. */
async function pages(limit = 100, from = INBOX_START): Promise<number[][]> {
  const all: number[][] = [];
  let position = from;
  for (;;) {
    const { events, end, isLast } = await read(position, limit);
    const again = await read(position, limit, [], end);
    expect([again.events, again.end]).toEqual([events, end]);
    all.push(events);
    if (isLast) return all;
    expect(end).not.toEqual(position);
    position = end;
  }
}

/** Behind all events of a database that has so many bundles. */
const behind = (database: number, bundles: number) => eventAt(beforeFirstBundleOf(database) + bundles + 1, 0);

describe("a page", () => {
  test("has the events of each log in order, and among several logs those accepted first", async () => {
    const scheduled = await post([{}], { acceptedAt: 1, deliverAt: 25 });
    const first = await post([{}, {}], { acceptedAt: 30 });
    const slow = await post([{}], { acceptedAt: 20 }, 1);
    const beside = await post([{}], { acceptedAt: 30 }, 1);
    // A clock that was set back: nothing of its database comes before what was accepted before it.
    const back = await post([{}], { acceptedAt: 5 }, 1);
    const page = await read(INBOX_START, 100, [{ position: 7, event: scheduled, placedAt: 25 }]);
    expect(page.events).toEqual([slow, scheduled, first, first + 1, beside, back]);
    expect(page).toMatchObject({ isLast: true, damaged: [] });
    expect(page.end).toEqual({ late: 7, next: [behind(0, 2), behind(1, 3)] });
    expect(await read(page.end)).toMatchObject({ events: [], end: page.end, isLast: true });
  });

  test.each([1, 2, 3])("of any size skips nothing and repeats nothing (seed %i)", async (seed) => {
    const random = seededRandom(seed);
    const some = (count: number, share: number) =>
      Array.from({ length: count }, (_, i) => i).filter(() => random() < share);
    const wanted: { event: number; at: number; database: number }[] = [];
    for (let i = 0; i < 24; i++) {
      const database = Math.floor(random() * 3);
      const length = random() < 0.3 ? 100 : 5;
      const indexes = some(length, 0.1);
      const isScheduled = random() < 0.2;
      const ttls = some(length, 0.3);
      const events = Array.from({ length }, (_, index) => (ttls.includes(index) ? { ttlSeconds: 1 } : {}));
      const first = await post(
        events,
        { acceptedAt: i, indexes, ...(isScheduled && { deliverAt: 500 }) },
        database,
      );
      const erased = some(length, 0.1).flatMap((index) => [index, index]);
      await changeHeader(first, "erased", JSON.stringify(erased), database);
      if (isScheduled) continue;
      for (const index of indexes)
        if (!ttls.includes(index) && !erased.includes(index))
          wanted.push({ event: first + index, at: i, database });
    }
    const expected = wanted.map(({ event }) => event);
    expect(expected.length).toBeGreaterThan(20);
    for (const limit of [1, 2, 7, 100]) expect((await pages(limit)).flat()).toEqual(expected);
  });

  test("ends after the maximum of events, and is the last only if nothing is stored behind it", async () => {
    const first = await post([{}, {}, {}]);
    const next = await post([{}]);
    expect(await pages(3)).toEqual([[first, first + 1, first + 2], [next]]);
    expect(await pages(2)).toEqual([
      [first, first + 1],
      [first + 2, next],
    ]);
    const end = { late: 0, next: [behind(0, 2)] };
    expect((await read(INBOX_START, 1, [], end)).events).toEqual([first, first + 1, first + 2, next]);
    const late = [{ position: 4, event: first, placedAt: 0 }];
    const start = { late: 3, next: [behind(0, 2)] };
    expect(await read(start, 1, late)).toMatchObject({ events: [first], isLast: false });
    expect(await read(start, 2, late)).toMatchObject({ events: [first], isLast: true });
  });

  test("passes events that are expired, erased, cancelled or removed", async () => {
    const expired = await post([{ ttlSeconds: 10 }, { ttlSeconds: 10 }], {
      acceptedAt: NOW - 10_000,
      indexes: [1],
    });
    const alive = await post([{ ttlSeconds: 10 }], { acceptedAt: NOW - 9_999 });
    const erased = await post([{}, {}], { acceptedAt: NOW });
    await changeHeader(erased, "erased", "[0, 0]");
    const cancelled = await post([{}], { deliverAt: 1, isCancelled: true });
    const gone = eventAt(beforeFirstBundleOf(1) + 9, 0);
    const late = [cancelled, gone, expired + 1].map((event, i) => ({
      event,
      position: i + 1,
      placedAt: NOW + i,
    }));
    const page = await read(INBOX_START, 100, late);
    expect(page).toMatchObject({ events: [alive, erased + 1], damaged: [], isLast: true });
    expect(page.end).toEqual({ late: 3, next: [behind(0, 4)] });
    expect(await read(INBOX_START, 100, late.slice(0, 2), { late: 2, next: [alive + 1] })).toMatchObject({
      events: [alive],
      end: { late: 2, next: [alive + 1] },
      isLast: true,
    });
  });

  test("names damaged events, which it passes", async () => {
    const damaged = await post([{}, {}], { indexes: [1] });
    const next = await post([{}]);
    await execute("UPDATE bundles SET body = x'00' WHERE id = ?1", bundleOf(damaged));
    const page = await read();
    expect(page).toMatchObject({ events: [next], damaged: [damaged + 1], isLast: true });
  });

  test("names events of bundles that were damaged, which it passes", async () => {
    const damaged = await post([{}, {}, {}], { indexes: [0, 2] });
    const next = await post([{}]);
    await changeHeader(damaged, "types", "7");
    const bundle = bundleOf(damaged);
    const unreadable = [damaged, damaged + 2].map((event) => ({ event, bundle, fault: "header" }));
    expect(await read()).toMatchObject({ events: [next], damaged: [], unreadable, isLast: true });
    expect(await read(INBOX_START, 1)).toMatchObject({
      events: [],
      unreadable: unreadable.slice(0, 1),
      end: { late: 0, next: [damaged + 1] },
    });
    const late = [{ position: 1, event: damaged, placedAt: 0 }];
    expect(await read({ late: 0, next: [next] }, 100, late)).toMatchObject({
      events: [next],
      unreadable: unreadable.slice(0, 1),
    });
    await execute("UPDATE bundles SET header = '[' WHERE id = ?1", bundle);
    expect(await read()).toMatchObject({ events: [next], unreadable });
  });

  test("ends before an event that only later code can read, in any database", async () => {
    const first = await post([{}], { acceptedAt: 1 });
    const beside = await post([{}], { acceptedAt: 1 }, 1);
    const later = await post([{}], { acceptedAt: 2 });
    await post([{}], { acceptedAt: 3 }, 1);
    await changeHeader(later, "version", "99");
    const end = { late: 0, next: [behind(0, 1), behind(1, 1)] };
    const page = await read();
    expect(page).toMatchObject({ events: [first, beside], isLast: false, end });
    expect(await read(page.end)).toMatchObject({ events: [], end, isLast: false });
    expect(await read(INBOX_START, 100, [], { late: 0, next: [behind(0, 2)] })).toMatchObject({
      events: [first],
      end: { late: 0, next: [behind(0, 1)] },
    });
  });

  test("has at most 1 MiB of bodies, and an event that has more alone", async () => {
    const events: number[] = [];
    for (const bytes of [1024 * 1024 - 100, 100, 100, 1_200_000, 1]) events.push(await post([sized(bytes)]));
    const [a, b, c, d, e] = events;
    expect(await pages()).toEqual([[a, b], [c], [d], [e]]);
    expect((await read(INBOX_START, 100, [], { late: 0, next: [behind(0, 5)] })).events).toEqual(events);
  });

  test("counts no bytes of passed events", async () => {
    await post([{ ...sized(1_000_000), ttlSeconds: 1 }]);
    const event = await post([sized(100_000)]);
    expect(await pages()).toEqual([[event]]);
  });

  test("reads at most 4 MiB of stored bodies in a database, whoever the events are for", async () => {
    const first = await post([{}], { indexes: [] });
    await post([{}], { indexes: [] });
    await post([{}], { indexes: [] });
    const event = await post([{}]);
    for (const [i, bytes] of [2_000_000, 2_000_000, 194_304].entries())
      await execute("UPDATE bundles SET body = zeroblob(?1) WHERE id = ?2", bytes, bundleOf(first) + i);
    const page = await read();
    expect(page).toMatchObject({ events: [], isLast: false, end: { late: 0, next: [behind(0, 3)] } });
    expect(await read(page.end)).toMatchObject({ events: [event], isLast: true });
    const end = { late: 0, next: [behind(0, 4)] };
    expect((await read(INBOX_START, 100, [], end)).events).toEqual([event]);
  });

  test("loads no more bodies at once than an isolate can hold, and leaves the rest to the next one", async () => {
    const large: number[] = [];
    for (let i = 0; i < 3; i++) large.push(await post([{}]));
    for (const event of large) await changeHeader(event, "events[2]", "3000000");
    const last = await post([{}]);
    const page = await read();
    expect(page).toMatchObject({ events: [], damaged: large.slice(0, 2), isLast: false });
    expect(await read(page.end)).toMatchObject({ events: [last], damaged: large.slice(2), isLast: true });
    expect((await read(INBOX_START, 100, [], { late: 0, next: [behind(0, 4)] })).events).toEqual([last]);
  });

  test("reads at least 50 bundles, and ends behind scheduled ones", async () => {
    for (let i = 0; i < 50; i++) await post([{}], { deliverAt: 1 });
    const page = await read(INBOX_START, 1);
    expect(page).toMatchObject({ events: [], isLast: false, end: { late: 0, next: [behind(0, 50)] } });
    expect(await read(page.end, 1)).toMatchObject({ events: [], isLast: true });
    const event = await post([{}]);
    expect(await read(page.end, 1)).toMatchObject({ events: [event], isLast: true });
    const events = [event];
    for (let i = 1; i < 61; i++) events.push(await post([{}]));
    expect(await pages(60, page.end)).toEqual([events.slice(0, 60), events.slice(60)]);
  });
});

test("a page that is read again has all of its events, however many scheduled ones have become due in its range", async () => {
  const scheduled: number[] = [];
  for (let i = 0; i < 60; i++) scheduled.push(await post([{}], { deliverAt: 1 }));
  await execute("DELETE FROM packs");
  const events: number[] = [];
  for (let i = 0; i < 50; i++) events.push(await post([{}]));
  const page = await read(INBOX_START, 50);
  expect(page.events).toEqual(events);
  const due = scheduled.map((event) => ({ destination: INBOX, bundle: bundleOf(event), delivered: [0] }));
  await insertPacks(db, due);
  expect(await read(INBOX_START, 50, [], page.end)).toMatchObject({ events, end: page.end });
});

describe("events that were returned", () => {
  test("come in the requested order, without removed ones", async () => {
    const [a, b] = [await post([{}]), await post([{}, {}], {}, 1)];
    const expired = await post([{ ttlSeconds: 1 }]);
    const damaged = await post([{}]);
    await execute("UPDATE bundles SET body = x'00' WHERE id = ?1", bundleOf(damaged));
    const gone = eventAt(beforeFirstBundleOf(1) + 9, 0);
    const asked = [b + 1, expired, damaged, gone, a];
    const found = await readReturned(databases, INBOX, asked, OVER);
    expect(found?.deliveries.map(({ event }) => event.id)).toEqual([b + 1, a]);
    expect(found?.unreadable).toEqual([]);
    await changeHeader(a, "types", "7");
    const unreadable = [{ event: a, bundle: bundleOf(a), fault: "header" }];
    const without = await readReturned(databases, INBOX, asked, OVER);
    expect(without?.deliveries.map(({ event }) => event.id)).toEqual([b + 1]);
    expect(without?.unreadable).toEqual(unreadable);
    await changeHeader(b, "version", "99", 1);
    expect(await readReturned(databases, INBOX, asked, OVER)).toBeUndefined();
    expect(await readReturned(databases, INBOX, [a], OVER)).toEqual({ deliveries: [], unreadable });
    expect(await readReturned(databases, INBOX, [], OVER)).toEqual({ deliveries: [], unreadable: [] });
  });

  test("are all read, even if they are more than an isolate holds at once", async () => {
    const large = await post([{}]);
    await changeHeader(large, "events[2]", "8000000");
    const event = await post([sized(500_000)]);
    const found = await readReturned(databases, INBOX, [large, event], OVER);
    expect(found?.deliveries.map(({ event }) => event.body?.byteLength)).toEqual([500_000]);
  });
});

test("events behind positions are counted in the newest packs of each database, without scheduled ones", async () => {
  const first = await post([{}, {}, {}], { indexes: [0, 2] });
  await post([{}], { deliverAt: 5 });
  const last = await post([{}, {}]);
  const beside = await post([{}, {}], {}, 1);
  const at = (...next: number[]) => ({ late: 0, next });
  const positions = [
    at(),
    at(first + 1),
    at(first + 3, beside + 1),
    at(last + 1),
    at(behind(0, 3), behind(1, 1)),
  ];
  const found = (packs: number, some: readonly InboxPosition[] = positions) =>
    countBehind(databases, INBOX, some, packs);
  expect((await found(4)).map(({ events }) => events)).toEqual([6, 5, 3, 3, 0]);
  expect((await found(4)).map(({ isMore }) => isMore)).toEqual(Array(5).fill(false));
  expect(await found(2)).toEqual([
    { events: 4, isMore: true },
    { events: 4, isMore: true },
    { events: 3, isMore: true },
    { events: 3, isMore: false },
    { events: 0, isMore: false },
  ]);
  // The counted range begins at the position.
  expect(await found(3, [at(first), at(first - 1)])).toEqual([
    { events: 6, isMore: false },
    { events: 6, isMore: true },
  ]);
  expect(await found(4, [])).toEqual([]);
});

test("the oldest unread event is the oldest of all databases, for any number of places", async () => {
  const first = await post(
    Array.from({ length: 70 }, () => ({})),
    { acceptedAt: 30, indexes: [3, 60] },
  );
  await post([{}], { acceptedAt: 20 }, 1);
  await post([{}], { acceptedAt: 40 }, 1);
  await post([{}], { acceptedAt: 10, deliverAt: 5 }, 1);
  const asked: [next: number[], oldest: number | null][] = [
    [[], 20],
    [[behind(0, 1)], 20],
    [[0, behind(1, 1)], 30],
    [[first + 3, behind(1, 1)], 30],
    [[first + 4, behind(1, 1)], 30],
    [[first + 60, behind(1, 1)], 30],
    [[first + 61, behind(1, 1)], 40],
    [[behind(0, 1), behind(1, 1)], 40],
    [[behind(0, 1), behind(1, 2)], null],
  ];
  const places = asked.map(([next]) => ({ destination: INBOX, position: { late: 0, next } }));
  const oldest = asked.map(([, at]) => at);
  expect(await oldestUnread(databases, places)).toEqual(oldest);
  const times = 600;
  const many = Array.from({ length: times }, () => places).flat();
  expect(await oldestUnread(databases, many)).toEqual(Array.from({ length: times }, () => oldest).flat());
  expect(await oldestUnread(databases, [])).toEqual([]);
});
