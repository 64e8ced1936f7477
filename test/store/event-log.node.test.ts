/** A tenant's events of one type in the order of their acceptance: a position skips nothing and repeats nothing. */
import { beforeEach, describe, expect, test } from "vitest";
import { memoryD1 } from "../../bench/storm/breakwater/d1.ts";
import { bundleOf, lastEventOf } from "../../src/core/bundle.ts";
import { beforeFirstBundleOf } from "../../src/core/placement.ts";
import { endOfLog, positionAt, readEventLog } from "../../src/store/event-log.ts";
import { type EventRow, insertBundles } from "../support/bundle-rows.ts";

/** Younger than a day, so that retention settings are not read. */
const NOW = 1_000_000;

let databases: { db: D1Database; further: D1Database[] };
beforeEach(() => {
  const [db, far] = [0, 1].map(() => memoryD1().bindingFor(async (_, work) => work())) as [
    D1Database,
    D1Database,
  ];
  databases = { db, further: [far] };
});

const database = (number: number) => (number === 0 ? databases.db : (databases.further[0] as D1Database));
const post = (events: readonly EventRow[], acceptedAt = NOW, number = 0, id?: number) =>
  insertBundles(database(number), [{ events, acceptedAt, ...(id !== undefined && { id }) }], number);

/** Before all events of both databases. */
const BEGIN = [lastEventOf(0), lastEventOf(beforeFirstBundleOf(1))];

async function read(from: readonly number[] = BEGIN, limit = 100, dueBy = 0) {
  const over = { dueBy, endedBy: 0, now: NOW, first: databases.db };
  const page = await readEventLog(databases, from, { tenant: "acme", type: "a", limit, over });
  return { ...page, found: page.found.map(({ id }) => id) };
}

/** All pages of the log. */
async function pages(limit: number): Promise<number[][]> {
  const all: number[][] = [];
  for (let from: readonly number[] = BEGIN; ; ) {
    const { found, next, hasMore } = await read(from, limit);
    all.push(found);
    if (!hasMore) return all;
    expect(next).not.toEqual(from);
    from = next;
  }
}

describe("a page of the log", () => {
  test("has the tenant's events of the type, with data, and for all destinations", async () => {
    const [first = 0] = await post([
      ...[{}, { tenant: "globex" }, { type: "b" }, { content: { text: "x", type: "text/plain" } }],
      ...[{}, {}, {}],
    ]);
    await databases.db
      .prepare(
        "UPDATE bundles SET header = json_set(header, '$.erased', json('[4, 4]'), '$.addressed', json('[5, 5]'))",
      )
      .bind()
      .run();
    const page = await read();
    expect(page).toMatchObject({ found: [first, first + 6], hasMore: false, hasGap: false });
    expect(page.next).toEqual([lastEventOf(bundleOf(first)), BEGIN[1]]);
    expect((await read(page.next)).found).toEqual([]);
  });

  test("has the events of several databases by the times of their acceptance, and by their numbers", async () => {
    const [late = 0] = await post([{}], 30);
    const [far = 0] = await post([{}, {}], 20, 1);
    const [same = 0] = await post([{}], 30, 1);
    expect((await read()).found).toEqual([far, far + 1, late, same]);
    for (const limit of [1, 2, 3, 4]) expect((await pages(limit)).flat()).toEqual([far, far + 1, late, same]);
  });

  test("skips nothing where a later event has an earlier time, because the clocks of Workers differ", async () => {
    const events = [...(await post([{}, {}], 40)), ...(await post([{}], 30)), ...(await post([{}], 50))];
    const far = await post([{}], 35, 1);
    for (const limit of [1, 2, 3, 4, 5]) expect((await pages(limit)).flat()).toEqual([...far, ...events]);
  });

  test("ends where it is full, and the next begins there", async () => {
    const events = [...(await post([{}, {}, {}])), ...(await post([{}, {}]))];
    expect(await pages(2)).toEqual([events.slice(0, 2), events.slice(2, 4), events.slice(4)]);
    expect(await pages(5)).toEqual([events]);
    const page = await read(BEGIN, 2);
    expect([page.next[0], page.hasMore]).toEqual([events[1], true]);
  });

  test("passes any number of bundles that have none of the tenant's events of the type", async () => {
    const none = Array.from({ length: 200 }, (_, i) => ({
      events: [i % 2 === 0 ? { tenant: "globex" } : { type: "b" }],
      acceptedAt: NOW,
    }));
    await insertBundles(databases.db, [...none, ...none]);
    const [wanted = 0] = await post([{}]);
    const [last = 0] = await post([{ tenant: "globex" }]);
    const page = await read();
    expect(page).toMatchObject({ found: [wanted], hasMore: false });
    expect(page.next[0]).toBe(lastEventOf(bundleOf(last)));
  });

  test("passes a bundle whose header is damaged", async () => {
    const [damaged = 0] = await post([{}]);
    const [intact] = await post([{}]);
    await databases.db
      .prepare("UPDATE bundles SET header = json_set(header, '$.events', 'none') WHERE id = ?1")
      .bind(bundleOf(damaged))
      .run();
    expect(await read()).toMatchObject({ found: [intact], hasMore: false });
  });

  test("has no more than eight megabytes of bodies", async () => {
    const events = [...(await post([{}])), ...(await post([{}])), ...(await post([{}]))];
    await databases.db
      .prepare("UPDATE bundles SET header = json_set(header, '$.events[2]', 4000000)")
      .bind()
      .run();
    expect(await pages(100)).toEqual([events.slice(0, 2), events.slice(2)]);
  });

  test("passes events that are too old", async () => {
    await post([{}], 10);
    const [young] = await post([{}], 11);
    expect((await read(BEGIN, 100, 10)).found).toEqual([young]);
  });

  test("takes two hundred bundles at most, and looks at two thousand", async () => {
    const many = Array.from({ length: 201 }, () => ({ events: [{}], acceptedAt: NOW }));
    const events = await insertBundles(databases.db, many);
    const first = await read(BEGIN, 1_000);
    expect([first.found, first.hasMore]).toEqual([events.slice(0, 200), true]);
    expect(await read(first.next, 1_000)).toMatchObject({ found: events.slice(200), hasMore: false });
    const [near] = await post([{}], NOW, 0, 201 + 1_999);
    const from = [lastEventOf(200), 0];
    expect(await read(from)).toMatchObject({ found: [events[200], near], hasMore: false });
    const [far] = await post([{}], NOW, 0, 201 + 2_000);
    const page = await read(from);
    expect(page).toMatchObject({ found: [events[200], near], hasMore: true });
    expect(await read(page.next)).toMatchObject({ found: [far], hasMore: false });
  });

  test("goes on behind any number of bundles that have been removed", async () => {
    const [first = 0] = await post([{}, {}]);
    const [far = 0] = await post([{}], NOW, 0, 5_000);
    expect(await pages(1)).toEqual([[first], [first + 1], [far]]);
    expect(await read([lastEventOf(bundleOf(first)), 0])).toMatchObject({ found: [far], hasMore: false });
  });

  test("says whether events behind its position have been removed", async () => {
    const [first = 0] = await post([{}], NOW, 0, 5);
    const gapAt = async (bundle: number) => (await read([lastEventOf(bundle), 0])).hasGap;
    expect(await gapAt(3)).toBe(true);
    expect(await gapAt(4)).toBe(false);
    expect(await gapAt(0)).toBe(false);
    expect((await read([first, 0])).hasGap).toBe(false);
    await post([{}], NOW, 0, 9);
    expect(await gapAt(5)).toBe(false);
  });
});

describe("a position", () => {
  test("at the end is behind everything that is stored", async () => {
    const [last = 0] = await post([{}, {}]);
    expect(await endOfLog(databases)).toEqual([lastEventOf(bundleOf(last)), BEGIN[1]]);
    const from = await endOfLog(databases);
    const [next] = await post([{}], NOW, 1);
    expect((await read(from)).found).toEqual([next]);
  });

  test("at a time is before everything that was accepted then or later", async () => {
    await post([{}], 100_000);
    const [late] = await post([{}], 900_000);
    expect((await read(await positionAt(databases, 900_000))).found).toEqual([late]);
    expect((await read(await positionAt(databases, 0))).found).toHaveLength(2);
    expect((await positionAt(databases, 0))[0]).toBe(lastEventOf(0));
  });

  test("of a database that it does not know yet is its beginning", async () => {
    const [event] = await post([{}], NOW, 1);
    expect((await read([BEGIN[0] ?? 0])).found).toEqual([event]);
  });
});
