/** The sweep's reads and writes: its lease, its progress, and the deliveries that it finds lost, overdue or due. */

import { env } from "cloudflare:workers";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { bundleOf, type DeliveryKey, eventAt, indexOf } from "../../src/core/bundle.ts";
import type { DeliveryRecord } from "../../src/store/delivery.ts";
import { WITHOUT_ATTEMPT } from "../../src/store/packs.ts";
import {
  beginSweep,
  beginSweepPage,
  findLost,
  findLostScheduled,
  fitting,
  markWaiting,
  moveCursor,
  moveWatermark,
  nextScheduled,
  type Position,
  readCursor,
  readCursors,
  readHeartbeat,
  readWatermark,
  recoverOverdue,
  saveSweep,
  scheduledAfter,
} from "../../src/store/sweep.ts";
import { insertBundles } from "../support/bundle-rows.ts";
import { START } from "../support/clock.ts";
import { emptyDatabase } from "../support/databases.ts";
import { interceptedD1 } from "../support/intercept.ts";
import { meteredD1 } from "../support/meter.ts";
import { deliveryStates, insertDeliveries, insertPacks, NEVER } from "../support/stored-deliveries.ts";

const db = env.DB;
const run = (sql: string) => db.prepare(sql).run();
const A = "dst_a";
const B = "dst_b";

describe("the sweep's row", () => {
  beforeEach(() => run("DELETE FROM sweeps"));

  const part = { at: 5, behind: true, failures: 2, cursor: [1, "x"] };
  const sweepRow = () => db.prepare("SELECT * FROM sweeps").first();
  const save = (page: number, lease = "one", heartbeatAt = 50, leasedUntil = 0) =>
    saveSweep(db, { lease, page }, { parts: { lost: part }, heartbeatAt, leasedUntil });

  test("has a watermark that only rises, and nothing before the first sweep", async () => {
    expect([await readWatermark(db), await readHeartbeat(db)]).toEqual([0, null]);
    const marks: number[] = [];
    for (const watermark of [3, 7, 5]) {
      await moveWatermark(db, watermark);
      marks.push(await readWatermark(db));
    }
    expect(marks).toEqual([3, 7, 7]);
    expect(await readHeartbeat(db)).toBeNull();
  });

  test("is leased to one sweep until its lease is over", async () => {
    expect(await beginSweep(db, "one", 100, 10)).toEqual({});
    expect(await beginSweep(db, "two", 200, 99)).toBeUndefined();
    expect(await beginSweepPage(db, { lease: "two", page: 1 }, 200)).toBeUndefined();
    expect(await beginSweep(db, "two", 200, 100)).toEqual({});
    expect(await beginSweepPage(db, { lease: "one", page: 1 }, 200)).toBeUndefined();
    expect(await beginSweepPage(db, { lease: "two", page: 1 }, 300)).toEqual({});
    expect(await beginSweep(db, "three", 400, 299)).toBeUndefined();
    expect(await beginSweep(db, "three", 400, 300)).toEqual({});
    // Its pages are counted from the beginning.
    expect(await beginSweepPage(db, { lease: "three", page: 2 }, 500)).toBeUndefined();
    expect(await beginSweepPage(db, { lease: "three", page: 1 }, 500)).toEqual({});
  });

  test("is leased to one of several that begin at once", async () => {
    const begun = await Promise.all(["one", "two", "three"].map((lease) => beginSweep(db, lease, 100, 10)));
    expect(begun.filter((parts) => parts !== undefined)).toEqual([{}]);
  });

  test("has each page begun once, in turn, with what the one before it saved", async () => {
    await beginSweep(db, "one", 100, 10);
    expect(await beginSweepPage(db, { lease: "one", page: 2 }, 200)).toBeUndefined();
    expect(await save(0)).toBe(true);
    const pages = await Promise.all([1, 1].map((page) => beginSweepPage(db, { lease: "one", page }, 200)));
    expect(pages.filter((parts) => parts !== undefined)).toEqual([{ lost: part }]);
    expect(await beginSweepPage(db, { lease: "one", page: 2 }, 200)).toEqual({ lost: part });
  });

  test("is saved only by the holder of the lease and the page", async () => {
    await beginSweep(db, "one", 100, 10);
    await beginSweepPage(db, { lease: "one", page: 1 }, 100);
    const before = await sweepRow();
    expect([await save(0), await save(2), await save(1, "two")]).toEqual([false, false, false]);
    expect(await sweepRow()).toEqual(before);
    expect(await save(1, "one", 70, 90)).toBe(true);
    expect(await sweepRow()).toMatchObject({ heartbeat_at: 70, leased_until: 90, page: 1, lease: "one" });
    expect(await save(1, "one", 60, 80)).toBe(true);
    expect(await sweepRow()).toMatchObject({ heartbeat_at: 70, leased_until: 80 });
    expect(await readHeartbeat(db)).toBe(70);
  });

  test.each([
    ["garbage", {}],
    ["null", {}],
    ["7", {}],
    [JSON.stringify({ a: null, b: part }), { b: part }],
    ['{"a":{"at":"5","failures":2,"cursor":[]}}', {}],
    ['{"a":{"at":5,"failures":null,"cursor":[]}}', {}],
    ['{"a":{"at":5,"failures":2,"cursor":"x"}}', {}],
  ])("is read without broken parts (%s)", async (stored, parts) => {
    await moveWatermark(db, 1);
    await db.prepare("UPDATE sweeps SET parts = ?1").bind(stored).run();
    expect(await beginSweep(db, "one", 100, 10)).toEqual(parts);
  });
});

describe("a walk's cursor", () => {
  test("begins at nothing, and is moved without the others'", async () => {
    await run("DELETE FROM cursors");
    expect(await readCursor(db, "retention")).toEqual({ at: 0, row: 0 });
    await moveCursor(db, "retention", { at: 5, row: 6 });
    await moveCursor(db, "tombstones", { at: 7, row: 8 });
    await moveCursor(db, "retention", { at: 3, row: 4 });
    expect(await readCursor(db, "retention")).toEqual({ at: 3, row: 4 });
    expect(await readCursor(db, "tombstones")).toEqual({ at: 7, row: 8 });
    expect(await readCursor(db, "kept_7")).toEqual({ at: 0, row: 0 });
    const some = await readCursors(db, ["retention", "kept_7"]);
    expect([...some]).toEqual([["retention", { at: 3, row: 4 }]]);
  });
});

test.each<[planned: number[], deliveries: number, count: number]>([
  [[], 5, 0],
  [[9], 5, 1],
  [[9, 0], 5, 1],
  [[2, 3], 5, 2],
  [[2, 4], 5, 1],
  [[2, 3, 0, 1], 5, 3],
])("of bundles with %j planned deliveries, those with at most %d together fit, and the first always does", (planned, deliveries, count) => {
  const bundles = planned.map((planned) => ({ planned }));
  expect(fitting(bundles, deliveries)).toEqual(bundles.slice(0, count));
});

/** Lost deliveries as `bundle/index destination`. */
const short = (lost: readonly DeliveryKey[]) =>
  lost
    .map(({ eventId, destinationId }) => `${bundleOf(eventId)}/${indexOf(eventId)} ${destinationId}`)
    .toSorted();

describe("lost deliveries", () => {
  const LOST = [`2/1 ${B}`, `2/2 ${B}`, `3/2 ${A}`, `4/0 ${A}`, `4/99 ${A}`, `5/1 ${A}`, `7/0 ${A}`];
  const reach = { horizon: 1_000, scheduledUpto: { at: 0, row: 0 } };
  const most = { bundles: 100, deliveries: 1_000 };

  beforeAll(async () => {
    await emptyDatabase();
    const at = (acceptedAt: number, ...plans: string[][]) => ({
      acceptedAt,
      events: plans.map((destinations) => ({ destinations })),
    });
    const wide = Array.from({ length: 100 }, (_, i) => (i === 0 || i === 99 ? [A] : []));
    const { events, ...times } = at(200, [A], [A], [A]);
    await insertBundles(db, [
      { id: 2, ...at(100, [A], [A, B], [B], [], [A], [B]) },
      { id: 3, ...at(100, [A], [A], [A]) },
      { id: 4, ...at(150, ...wide) },
      { id: 5, ...times, events: events.map((one, i) => ({ ...one, ...(i > 0 && { ttlSeconds: 60 * i }) })) },
      { id: 6, ...at(300) },
      { id: 7, ...at(1_000, [A]), deliverAt: 500 },
      { id: 8, ...at(1_001, [A]) },
    ]);
    await insertPacks(db, [
      { destination: A, bundle: 2, waiting: [0], delivered: [1] },
      { destination: A, bundle: 3, inFlight: [0], cancelled: [1] },
      { destination: B, bundle: 3, waiting: [2] },
      { destination: B, bundle: 4, waiting: [0, 99], delivered: [1, 2, 3] },
      { destination: A, bundle: 5, waiting: [0] },
    ]);
    await insertDeliveries(db, [
      { destination: A, event: eventAt(2, 4), state: "dead" },
      { destination: B, event: eventAt(2, 5), state: "retrying" },
      { destination: A, event: eventAt(5, 2), state: "delivered" },
      { destination: B, event: eventAt(5, 1), state: "delivered" },
      { destination: B, event: eventAt(7, 0), state: "delivered" },
      // Values that only an operator could store: they do not affect the bundles next to them.
      { destination: A, event: eventAt(6, 0), state: "delivered" },
      { destination: A, event: eventAt(8, 0), state: "waiting" },
    ]);
  });

  const found = async (
    after: number,
    more: Partial<typeof reach> = {},
    bounds: Partial<typeof most> = {},
  ) => {
    const { lost, ...page } = await findLost(db, after, { ...reach, ...more }, { ...most, ...bounds });
    return { ...page, lost: short(lost) };
  };
  const withoutScheduled = LOST.filter((one) => !one.startsWith("7/"));

  test("are those without a bit and without a row", async () => {
    expect(await found(0)).toEqual({ upto: 7, more: false, lost: withoutScheduled, unreadable: [] });
  });

  test("are not those that stand behind others", async () => {
    const lines = JSON.stringify({ [B]: [["x", 9, 0, 1, 2]] });
    await run(`UPDATE bundles SET header = json_set(header, '$.lines', json('${lines}')) WHERE id = 2`);
    for (const index of [1, 2])
      await run(`INSERT INTO lines VALUES ('${B}', 'x', ${eventAt(2, index)}, 9, 0)`);
    const { lost } = await found(0);
    // The last first, so that none moves up.
    for (const index of [2, 1]) await run(`DELETE FROM lines WHERE event_id = ${eventAt(2, index)}`);
    await run("UPDATE bundles SET header = json_remove(header, '$.lines')");
    expect(lost).toEqual(withoutScheduled.filter((one) => one !== `2/2 ${B}`));
  });

  test("have the times and the time to live of their event", async () => {
    const { lost } = await findLost(db, 4, reach, most);
    expect(lost).toEqual([
      { eventId: eventAt(5, 1), destinationId: A, acceptedAt: 200, deliverAt: null, ttlSeconds: 60 },
    ]);
    const { lost: scheduled } = await findLostScheduled(db, { at: 0, row: 0 }, 500, most);
    expect(scheduled).toEqual([
      { eventId: eventAt(7, 0), destinationId: A, acceptedAt: 1_000, deliverAt: 500, ttlSeconds: undefined },
    ]);
  });

  test.each<[why: string, at: number, row: number, isFound: boolean]>([
    ["before it", 499, 9, false],
    ["at its time, before its id", 500, 6, false],
    ["at it", 500, 7, true],
    ["behind it", 501, 0, true],
  ])("of a scheduled bundle are found once the walk by time has passed it (%s)", async (_, at, row, isFound) => {
    const { lost } = await found(0, { scheduledUpto: { at, row } });
    expect(lost).toEqual(isFound ? LOST : withoutScheduled);
  });

  test.each<
    [after: number, horizon: number, bundles: number, deliveries: number, upto: number, more: boolean]
  >([
    [0, 1_000, 2, 1_000, 3, true],
    [3, 1_000, 2, 1_000, 5, true],
    [5, 1_000, 2, 1_000, 7, true],
    [7, 1_000, 2, 1_000, 7, false],
    [7, 1_001, 2, 1_000, 8, false],
    [7, 1_001, 1, 1_000, 8, true],
    [0, 99, 9, 1_000, 0, false],
    [0, 100, 9, 1_000, 3, false],
    [0, 149, 9, 1_000, 3, false],
    [0, 150, 9, 1_000, 4, false],
    [0, 1_000, 9, 8, 2, true],
    [0, 1_000, 9, 9, 3, true],
    [2, 1_000, 9, 5, 4, true],
    [5, 1_000, 9, 1, 7, false],
  ])("after bundle %i, up to the time %i, by %i bundles of %i deliveries, are searched up to bundle %i", async (after, horizon, bundles, deliveries, upto, more) => {
    const page = await found(after, { horizon }, { bundles, deliveries });
    const within = withoutScheduled.filter((one) => Number(one[0]) > after && Number(one[0]) <= upto);
    expect(page).toMatchObject({ upto, more });
    expect(page.lost.filter((one) => !one.startsWith("8/"))).toEqual(within);
  });

  test("cost one round trip if nothing is planned, and two if nothing is lost", async () => {
    const { db: metered, used } = meteredD1(db);
    await findLost(metered, 5, { ...reach, horizon: 300 }, most);
    expect(used().roundTrips).toBe(1);
    await findLostScheduled(metered, { at: 0, row: 0 }, 499, most);
    expect(used().roundTrips).toBe(1);
    const delivered = { destination: A, event: eventAt(7, 0), state: "delivered" } as const;
    await insertDeliveries(db, [delivered]);
    await findLostScheduled(metered, { at: 0, row: 0 }, 500, most);
    expect(used().roundTrips).toBe(2);
    await run(`DELETE FROM deliveries WHERE destination_id = '${A}' AND event_id = ${delivered.event}`);
  });
});

describe("overdue deliveries", () => {
  const NOW = 9_000;
  const HORIZON = 5_000;

  beforeEach(async () => {
    await run("DELETE FROM deliveries");
    await run("DELETE FROM packs");
    const retrying = { state: "retrying", reason: "http_500" } as const;
    await insertDeliveries(db, [
      { destination: A, event: 131, ...retrying, nextAttemptAt: HORIZON },
      { destination: A, event: 132, ...retrying, nextAttemptAt: HORIZON + 1 },
      { destination: B, event: 131, ...retrying, nextAttemptAt: HORIZON - 1 },
      { destination: B, event: 132, state: "waiting", reason: "hold", nextAttemptAt: HORIZON - 1 },
      { destination: B, event: 133, state: "dead", reason: "expired", nextAttemptAt: HORIZON - 1 },
    ]);
    const masks = { waiting: [1, 61], inFlight: [0, 60, 99], delivered: [2], cancelled: [3] };
    await insertPacks(db, [
      { destination: A, bundle: 2, ...masks, reason: "hold", recoverAt: HORIZON },
      { destination: B, bundle: 2, ...masks, reason: "hold", recoverAt: HORIZON + 1 },
      { destination: B, bundle: 3, inFlight: [5], recoverAt: HORIZON - 1 },
    ]);
  });

  const changed = async () => (await deliveryStates(db)).filter((one) => one.endsWith("/recovered"));
  const at = (destination: string, ...events: number[]) =>
    events.map((event) => `${destination} ${event} waiting/recovered`);

  test("wait again: retries, and attempts whose lease has ended, but none that may still come", async () => {
    const before = await deliveryStates(db);
    const { destinations, ...found } = await recoverOverdue(db, HORIZON, NOW, 10);
    expect(found).toEqual({ recovered: 6, more: false });
    expect(destinations.toSorted()).toEqual([A, A, B, B]);
    const events = [0, 1, 60, 61, 99].map((index) => eventAt(2, index));
    const recovered = [...at(A, 131, ...events), ...at(B, 131, eventAt(3, 5))];
    expect(await changed()).toEqual(recovered);
    // All others are as they were.
    const others = (states: readonly string[]) =>
      states.filter(
        (one) => !recovered.some((it) => it.split(" ", 2).join(" ") === one.split(" ", 2).join(" ")),
      );
    expect(others(await deliveryStates(db))).toEqual(others(before));
    const due = "SELECT DISTINCT next_attempt_at AS at FROM delivery_states WHERE reason = 'recovered'";
    expect(await db.prepare(due).all()).toMatchObject({ results: [{ at: NOW }] });
    expect(
      await db.prepare("SELECT recover_at AS at FROM packs ORDER BY destination_id, bundle_id").all(),
    ).toMatchObject({
      results: [{ at: null }, { at: HORIZON + 1 }, { at: null }],
    });
  });

  test("wait again in a limited number of rows and packs at a time, the most overdue first", async () => {
    expect(await recoverOverdue(db, HORIZON, NOW, 1)).toEqual({
      destinations: [B, B],
      recovered: 2,
      more: true,
    });
    expect(await changed()).toEqual(at(B, 131, eventAt(3, 5)));
    expect(await recoverOverdue(db, HORIZON, NOW, 2)).toMatchObject({ recovered: 4, more: false });
    expect(await recoverOverdue(db, HORIZON, NOW, 2)).toMatchObject({ recovered: 0, more: false });
  });

  test("may be more if only the rows reach the limit", async () => {
    await run("DELETE FROM packs");
    expect(await recoverOverdue(db, HORIZON, NOW, 2)).toMatchObject({ recovered: 2, more: true });
  });
});

describe("scheduled bundles", () => {
  /** Ids and times in the order of the times. */
  const DUE = [
    [2, 10],
    [9, 10],
    [3, 20],
    [4, 20],
    [7, 20],
    [1, 30],
    [8, 40],
  ] as const;
  const planOf = (id: number) => ({ [A]: [0, id % 3] });

  beforeAll(async () => {
    await emptyDatabase();
    const times = new Map<number, number>(DUE);
    await insertBundles(
      db,
      [1, 2, 3, 4, 5, 7, 8, 9].map((id) => ({
        id,
        deliverAt: times.get(id),
        events: Array.from({ length: 1 + (id % 3) }, () => ({ destinations: [A] })),
      })),
    );
  });

  const most = { bundles: 100, deliveries: 1_000 };

  /** The pages of the walk over what is due by a time. */
  async function walked(until: number, bounds: Partial<typeof most>) {
    const pages: number[][] = [];
    for (let after: Position = { at: 0, row: 0 }, more = true; more && pages.length < 10; ) {
      const page = await nextScheduled(db, after, until, { ...most, ...bounds });
      pages.push(page.bundles.map(({ id }) => id));
      ({ upto: after, more } = page);
    }
    return pages;
  }

  test("come in order of their times and ids, with their plans", async () => {
    const page = await nextScheduled(db, { at: 0, row: 0 }, 30, most);
    const due = DUE.filter(([, deliverAt]) => deliverAt <= 30);
    expect(page).toEqual({
      bundles: due.map(([id, deliverAt]) => ({ id, deliverAt, plan: planOf(id) })),
      unreadable: [],
      upto: { at: 30, row: 1 },
      more: false,
    });
    expect(await nextScheduled(db, page.upto, 30, most)).toEqual({
      bundles: [],
      unreadable: [],
      upto: page.upto,
      more: false,
    });
  });

  test.each<[until: number, bounds: Partial<typeof most>, pages: number[][]]>([
    [9, {}, [[]]],
    [10, {}, [[2, 9]]],
    [19, {}, [[2, 9]]],
    [20, { bundles: 2 }, [[2, 9], [3, 4], [7]]],
    [30, { bundles: 2 }, [[2, 9], [3, 4], [7, 1], []]],
    [40, { bundles: 3 }, [[2, 9, 3], [4, 7, 1], [8]]],
    [40, { deliveries: 4 }, [[2, 9], [3, 4], [7, 1], [8]]],
    [40, { deliveries: 1 }, DUE.map(([id]) => [id])],
  ])("due by %i come in pages (%j)", async (until, bounds, pages) => {
    expect(await walked(until, bounds)).toEqual(pages);
  });

  test("are none if the walk is beyond everything due", async () => {
    const after = { at: 20, row: 3 };
    expect(await nextScheduled(db, after, 19, most)).toEqual({
      ...{ bundles: [], unreadable: [], upto: after, more: false },
    });
  });

  test("that are removed meanwhile have no deliveries", async () => {
    const removing = interceptedD1(db, async (_, call) => {
      const result = await call();
      await run("DELETE FROM bundles WHERE id = 99");
      return result;
    });
    await insertBundles(db, [{ id: 99, deliverAt: 41, events: [{ destinations: [A] }] }]);
    const { bundles } = await nextScheduled(removing, { at: 40, row: 8 }, 41, most);
    expect(bundles).toEqual([{ id: 99, deliverAt: 41, plan: {} }]);
  });

  test("are listed whenever they are due, up to a number after a position", async () => {
    expect(await scheduledAfter(db, { at: 0, row: 0 }, 100)).toEqual(DUE.map(([id]) => id));
    expect(await scheduledAfter(db, { at: 20, row: 3 }, 3)).toEqual([4, 7, 1]);
  });

  test("are checked in order of their times up to a horizon, page by page", async () => {
    await insertPacks(db, [{ destination: A, bundle: 9, waiting: [0] }]);
    const first = await findLostScheduled(db, { at: 0, row: 0 }, 20, { bundles: 3, deliveries: 1_000 });
    expect({ ...first, lost: short(first.lost) }).toEqual({
      upto: { at: 20, row: 3 },
      more: true,
      lost: [`2/0 ${A}`, `2/1 ${A}`, `2/2 ${A}`, `3/0 ${A}`],
      unreadable: [],
    });
    const second = await findLostScheduled(db, first.upto, 20, { bundles: 3, deliveries: 1_000 });
    expect({ ...second, lost: short(second.lost) }).toEqual({
      upto: { at: 20, row: 7 },
      more: false,
      lost: [`4/0 ${A}`, `4/1 ${A}`, `7/0 ${A}`, `7/1 ${A}`],
      unreadable: [],
    });
    await run("DELETE FROM packs");
  });
});

describe("bundles that cannot be read", () => {
  const most = { bundles: 100, deliveries: 1_000 };
  const start = { at: 0, row: 0 };
  const faults = [
    { bundle: 1, fault: "plan" },
    { bundle: 2, fault: "header" },
    { bundle: 3, fault: "version" },
  ];
  /** Only its times to live are damaged, which the walk over scheduled bundles does not read. */
  const ofTimes = { bundle: 4, fault: "header" };

  /** Of five bundles only the last one can be read. */
  async function damaged(deliverAt?: number): Promise<void> {
    await emptyDatabase();
    const events = [{ destinations: [A, B] }];
    await insertBundles(
      db,
      [1, 2, 3, 4, 5].map((id) => ({ id, acceptedAt: 100, deliverAt, events })),
    );
    await run("UPDATE bundles SET plan = 'oops' WHERE id = 1");
    await run("UPDATE bundles SET header = 'oops' WHERE id = 2");
    await run("UPDATE bundles SET header = json_set(header, '$.version', 9) WHERE id = 3");
    await run("UPDATE bundles SET header = json_set(header, '$.ttls', 5) WHERE id = 4");
  }

  test("have no lost deliveries, and are named with their faults", async () => {
    await damaged();
    const { lost, ...page } = await findLost(db, 0, { horizon: 100, scheduledUpto: start }, most);
    expect(short(lost)).toEqual([`5/0 ${A}`, `5/0 ${B}`]);
    expect(page).toEqual({ upto: 5, more: false, unreadable: [...faults, ofTimes] });
  });

  test("are named if they have planned nothing too", async () => {
    await damaged();
    await run("UPDATE bundles SET planned = 0");
    const found = await findLost(db, 0, { horizon: 100, scheduledUpto: start }, most);
    expect(found).toMatchObject({ lost: [], unreadable: faults });
  });

  test("are not enqueued when they are due, and are named", async () => {
    await damaged(500);
    const { bundles, unreadable, upto } = await nextScheduled(db, start, 500, most);
    expect(bundles.map(({ id }) => id)).toEqual([4, 5]);
    expect([unreadable, upto]).toEqual([faults, { at: 500, row: 5 }]);
  });

  test("have no lost deliveries when these were due", async () => {
    await damaged(500);
    const { lost, unreadable } = await findLostScheduled(db, start, 500, most);
    expect(short(lost)).toEqual([`5/0 ${A}`, `5/0 ${B}`]);
    expect(unreadable).toEqual([...faults, ofTimes]);
  });
});

describe("deliveries that are to wait", () => {
  beforeEach(async () => {
    await run("DELETE FROM deliveries");
    await run("DELETE FROM packs");
  });

  const record = (event: number, columns: Partial<DeliveryRecord> = {}): DeliveryRecord => ({
    ...{ ...WITHOUT_ATTEMPT, destinationId: A, eventId: event, giveUpAt: NEVER },
    ...{ state: "waiting", reason: "recovered", ...columns },
  });

  test("wait in packs, or in rows if they have their own limit, unless they have an outcome", async () => {
    await insertDeliveries(db, [{ destination: A, event: eventAt(2, 3), state: "delivered" }]);
    await insertPacks(db, [{ destination: A, bundle: 2, delivered: [4] }]);
    const rows = [0, 3, 4, 60].map((index) => record(eventAt(2, index)));
    const own = [1, 4].map((index) => record(eventAt(2, index), { hasOwnLimit: true }));
    await markWaiting(db, [...rows, ...own]);
    expect(await deliveryStates(db)).toEqual([
      `${A} ${eventAt(2, 0)} waiting/recovered`,
      `${A} ${eventAt(2, 1)} waiting/recovered`,
      `${A} ${eventAt(2, 3)} delivered`,
      `${A} ${eventAt(2, 4)} delivered`,
      `${A} ${eventAt(2, 60)} waiting/recovered`,
    ]);
    const { results } = await db.prepare("SELECT event_id AS event FROM deliveries ORDER BY event_id").all();
    expect(results).toEqual([{ event: eventAt(2, 1) }, { event: eventAt(2, 3) }]);
  });

  test("are written by one statement if one value holds them, and by none if there are none", async () => {
    const { db: metered, used } = meteredD1(db);
    await markWaiting(metered, []);
    expect(used().roundTrips).toBe(0);
    const rows = Array.from({ length: 5_000 }, (_, i) => record(eventAt(2 + Math.floor(i / 100), i % 100)));
    await markWaiting(metered, rows);
    expect(used().roundTrips).toBe(1);
    expect(await db.prepare("SELECT count(*) AS n FROM packs").first("n")).toBe(50);
  });

  test("are written even if each is in a separate pack, with the most digits", async () => {
    const last = Math.floor(Number.MAX_SAFE_INTEGER / 128);
    const rows = Array.from({ length: 10_001 }, (_, i) => ({
      ...record(eventAt(last - i, 99), { nextAttemptAt: START, giveUpAt: START }),
      destinationId: `dst_${String(i).padStart(26, "0")}`,
    }));
    await markWaiting(db, rows);
    expect(await db.prepare("SELECT count(*) AS n FROM packs").first("n")).toBe(rows.length);
  });
});
