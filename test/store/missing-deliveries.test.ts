/**
 * Which events of a destination's tenant are missing, among bundles that differ in one thing each and that it shares with
 * others; and the statements that plan them: each once, and only in plans that are still what was read.
 */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { bundleOf, eventAt, indexOf } from "../../src/core/bundle.ts";
import { DAY_MS, type RetentionTimes } from "../../src/core/retention.ts";
import { takesType } from "../../src/core/routing.ts";
import type { Criteria } from "../../src/store/event-refusals.ts";
import { findMissing, type PlanChange } from "../../src/store/missing-deliveries.ts";
import { advanceReplay, beginReplay } from "../../src/store/replay-steps.ts";
import type { Replay, ReplayInsert } from "../../src/store/replays.ts";
import { insertRow } from "../support/api.ts";
import { type BundleRow, insertBundles, repeatedBundle } from "../support/bundle-rows.ts";
import { emptyDatabase, rowsOfAll } from "../support/databases.ts";
import { meteredD1 } from "../support/meter.ts";
import { execute } from "../support/world.ts";

const NOW = Date.parse("2026-11-21T09:00:00.000Z");
const HOUR = 3_600_000;
const PLACE = "dst_a";
const OTHER = "dst_b";
const TENANT = "acme";
const ALL = { first: 1, last: Number.MAX_SAFE_INTEGER };
const KEPT: RetentionTimes = { ms: 30 * DAY_MS, types: {} };
const ANYTHING: Criteria = { types: null, channels: null, filter: null, takesContent: true };

async function begin(fields: Partial<ReplayInsert> = {}): Promise<Replay> {
  const job = {
    ...({
      id: "rpl_1",
      tenant: TENANT,
      destinationId: PLACE,
      include: "missing",
      since: 0,
      until: NOW + HOUR,
    } as const),
    ...({
      ratePerMinute: 60,
      state: "running",
      pace: 60,
      nextStepAt: NOW,
      createdAt: NOW,
      updatedAt: NOW,
    } as const),
    ...fields,
  };
  const replay = await beginReplay(env.DB, job, ALL, 1, KEPT);
  if (!replay) throw new Error("There is one under way");
  return replay;
}

type Asked = Partial<Parameters<typeof findMissing>[3]>;

const find = (replay: Replay, asked: Asked = {}, db: D1Database = env.DB) =>
  findMissing({ db }, db, replay, { route: ANYTHING, last: ALL.last, size: 10_000, kept: KEPT, ...asked });

/** Portion after portion, as a replay's steps find them. */
async function portionsOf(replay: Replay, asked: Asked = {}): Promise<number[][]> {
  const portions: number[][] = [];
  for (let { cursor } = replay; portions.length < 1_000; ) {
    const { events, isLast, ...portion } = await find({ ...replay, cursor }, asked);
    portions.push([...events]);
    if (isLast) return portions;
    expect(portion.cursor).toBeGreaterThan(cursor);
    cursor = portion.cursor;
  }
  throw new Error("The replay does not end");
}

beforeEach(emptyDatabase);

describe("events of every kind", () => {
  /** When the bundles were accepted, and when the scheduled ones were due. */
  const TIMES: readonly (readonly [acceptedAt: number, deliverAt?: number])[] = [
    [NOW - KEPT.ms],
    [NOW - KEPT.ms + 1],
    [NOW - 2 * KEPT.ms, NOW - KEPT.ms],
    [NOW - 2 * KEPT.ms, NOW - KEPT.ms + 1],
    [NOW - DAY_MS - 1],
    [NOW - DAY_MS],
    [NOW - DAY_MS + 1],
    [NOW - HOUR - 1],
    [NOW - HOUR],
    [NOW - HOUR, NOW],
    [NOW - HOUR, NOW + 1],
    [NOW],
    [NOW + 1],
    [NOW + 1, NOW - 5],
  ];
  const SIZE = 64;
  const CONTENT = [7, 8, 30, 31];
  const ERASED = [9, 10, 11, 40];
  const ADDRESSED = [12, 13, 14, 15, 41, 42, 43, 44];

  /** Everything differs from one index to the next, so that each combination occurs. */
  const eventOf = (index: number) => ({
    tenant: [TENANT, "other", TENANT, "acme2", TENANT][index % 5] ?? "",
    type: ["a", "b", "a.b"][index % 3] ?? "",
    tags: index % 7 < 3 ? ["x"] : index % 7 < 5 ? ["y", "z"] : [],
    channels: index % 4 === 3 ? ["left"] : [],
    data: { n: index },
    destinations: [OTHER, ...(index % 2 === 0 && index < 50 ? [PLACE] : [])],
  });

  beforeEach(async () => {
    const events = Array.from({ length: SIZE }, (_, index) => eventOf(index));
    await insertBundles(
      env.DB,
      TIMES.map(([acceptedAt, deliverAt]) => ({ acceptedAt, deliverAt, events })),
    );
    const runs = (indexes: readonly number[]) => JSON.stringify(indexes.flatMap((index) => [index, index]));
    const types = JSON.stringify(Object.fromEntries(CONTENT.map((index) => [index, "text/plain"])));
    await execute(
      `UPDATE bundles SET header = json_set(header, '$.erased', json(?1), '$.addressed', json(?2), '$.contentTypes', json(?3))`,
      runs(ERASED),
      runs(ADDRESSED),
      types,
    );
  });

  const everything = TIMES.flatMap(([acceptedAt, deliverAt = acceptedAt], i) =>
    Array.from({ length: SIZE }, (_, index) => ({
      ...eventOf(index),
      id: eventAt(i + 1, index),
      acceptedAt,
      dueAt: deliverAt,
    })),
  );

  /** Whether the replay means the event, by its rules. */
  function isMeant(
    event: (typeof everything)[number],
    replay: Replay,
    { route = ANYTHING, kept = KEPT }: Asked,
  ) {
    const index = indexOf(event.id);
    const isContent = CONTENT.includes(index);
    const { gte } = ((route.filter as { n?: unknown } | null)?.n ?? {}) as { gte?: number };
    const isTaken =
      replay.matching === 0 ||
      (!ADDRESSED.includes(index) &&
        takesType(route.types, event.type) &&
        (route.channels === null || event.channels.some((one) => route.channels?.includes(one))) &&
        (gte === undefined || (!isContent && index >= gte)));
    return (
      isTaken &&
      (!isContent || route.takesContent) &&
      event.tenant === TENANT &&
      !event.destinations.includes(PLACE) &&
      event.acceptedAt >= replay.since &&
      event.acceptedAt < replay.until &&
      event.acceptedAt <= replay.createdAt &&
      event.dueAt <= replay.createdAt &&
      event.dueAt > replay.createdAt - (kept.types[event.type] ?? kept.ms) &&
      takesType(replay.eventTypes, event.type) &&
      (replay.tag === null || event.tags.includes(replay.tag)) &&
      !ERASED.includes(index)
    );
  }

  const cases: Readonly<Record<string, [Partial<ReplayInsert>, Asked?]>> = {
    "all that the destination takes now": [{}],
    "all, whatever it takes": [{ matching: 0 }],
    "all, whatever it takes, but content that it cannot be sent": [
      { matching: 0 },
      { route: { ...ANYTHING, types: ["a"], takesContent: false } },
    ],
    "no content where it takes none": [{}, { route: { ...ANYTHING, takesContent: false } }],
    "those of the types that it takes": [{}, { route: { ...ANYTHING, types: ["a.*"] } }],
    "those of its channels": [{}, { route: { ...ANYTHING, channels: ["right", "left"] } }],
    "those that its filter lets through": [{}, { route: { ...ANYTHING, filter: { n: { gte: 33 } } } }],
    "requested types": [{ eventTypes: ["a.b", "b"] }],
    "a tag": [{ tag: "x" }],
    "the second tag of its events": [{ tag: "z" }],
    "a tag that there is not": [{ tag: "none" }],
    "a period": [{ since: NOW - DAY_MS, until: NOW - HOUR }],
    "the retention of a type": [{}, { kept: { ...KEPT, types: { b: DAY_MS } } }],
  };

  test.each(Object.keys(cases))("are found in order, exactly the selected ones: %s", async (name) => {
    const [fields, asked = {}] = cases[name] ?? [{}];
    const replay = await begin(fields);
    const meant = everything.filter((event) => isMeant(event, replay, asked)).map(({ id }) => id);
    expect((await portionsOf(replay, asked)).flat()).toEqual(meant);
    expect((await portionsOf(replay, { ...asked, size: 1_000 })).flat()).toEqual(meant);
  });

  test.each([1, 4, 7])("are all found in portions of %i", async (size) => {
    const replay = await begin({ since: NOW - DAY_MS, until: NOW - HOUR });
    const meant = everything.filter((event) => isMeant(event, replay, {})).map(({ id }) => id);
    const portions = await portionsOf(replay, { size });
    expect(portions.flat()).toEqual(meant);
    for (const portion of portions.slice(0, -1)) expect(portion).toHaveLength(size);
    expect(portions).toHaveLength(Math.max(1, Math.ceil(meant.length / size)));
  });

  test("are searched behind the cursor, and up to the bundle of the last one", async () => {
    const replay = await begin();
    const meant = everything.filter((event) => isMeant(event, replay, {})).map(({ id }) => id);
    for (const i of [0, 5, 40]) {
      const cursor = meant[i] ?? 0;
      const last = eventAt(8, 127);
      const found = await find({ ...replay, cursor }, { last });
      expect(found.events).toEqual(meant.filter((id) => id > cursor && id <= last));
      expect([found.isLast, found.cursor]).toEqual([true, last]);
    }
    const behind = { ...replay, cursor: eventAt(9, 5) };
    expect(await find(behind, { last: eventAt(8, 127) })).toMatchObject({
      events: [],
      cursor: eventAt(9, 5),
      isLast: true,
    });
  });

  test("come with the new plans of their bundles", async () => {
    const { plans, events } = await find(await begin());
    expect(plans.flatMap((plan) => plan.events)).toEqual(events);
    const stored = await rowsOfAll<{ id: number; plan: string }>("SELECT id, plan FROM bundles");
    for (const { bundle, before, after, added, events } of plans) {
      const plan = JSON.parse(stored.find(({ id }) => id === bundle)?.plan ?? "{}");
      expect(before).toBe(JSON.stringify(plan[PLACE]));
      expect(added).toBe(events.length);
      expect(events.map(bundleOf)).toEqual(events.map(() => bundle));
      const runs: number[] = JSON.parse(after);
      const indexes = runs.flatMap((from, i) =>
        i % 2 === 0 ? Array.from({ length: (runs[i + 1] ?? 0) - from + 1 }, (_, n) => from + n) : [],
      );
      const planned = Array.from({ length: SIZE }, (_, index) => index).filter(
        (index) => index % 2 === 0 && index < 50,
      );
      expect(indexes).toEqual([...planned, ...events.map(indexOf)].sort((a, b) => a - b));
    }
  });
});

describe("a portion", () => {
  const bundle = (events: BundleRow["events"], id?: number): BundleRow => ({
    ...{ acceptedAt: NOW - HOUR, events },
    ...(id !== undefined && { id }),
  });
  const own = { tenant: TENANT };
  /** Bundles of others, one after the other. */
  async function others(first: number, count: number): Promise<void> {
    const { sql, values } = repeatedBundle([{ tenant: "other" }], { first, count, acceptedAt: NOW - HOUR });
    await execute(sql, ...values);
  }

  test("is searched in many bundles of others at once, five hundred by a statement", async () => {
    const ids = [1, 500, 501, 1_000, 1_001];
    let next = 1;
    for (const id of ids) {
      if (id > next) await others(next, id - next);
      await insertBundles(env.DB, [bundle([own], id)]);
      next = id + 1;
    }
    const replay = await begin();
    const metered = meteredD1(env.DB);
    const { events, isLast } = await find(replay, {}, metered.db);
    expect([events, isLast]).toEqual([ids.map((id) => eventAt(id, 0)), true]);
    expect(metered.used().roundTrips).toBe(3);
    expect(await find({ ...replay, matching: 0 }, {}, metered.db)).toMatchObject({ events, isLast: true });
    expect(metered.used().roundTrips).toBe(3);
    await execute("DELETE FROM bundles WHERE id = 1001");
    expect(await find(replay, {}, metered.db)).toMatchObject({ isLast: true });
    // Five hundred may not be all.
    expect(metered.used().roundTrips).toBe(3);
  });

  test("ends after five thousand bundles of others, and continues behind them", async () => {
    await others(1, 5_500);
    const replay = await begin();
    const first = await find(replay);
    expect(first).toEqual({ plans: [], events: [], cursor: eventAt(5_000, 127), isLast: false });
    expect(await find({ ...replay, cursor: first.cursor })).toMatchObject({ events: [], isLast: true });
  });

  test("changes plans of bundles with at most four megabytes together, however many of their events are selected", async () => {
    const bytes = 1024 * 1024;
    await insertBundles(
      env.DB,
      Array.from({ length: 6 }, () => bundle([own, own, own])),
    );
    await execute("UPDATE bundles SET body = zeroblob(?1)", bytes);
    const replay = await begin();
    const three = (first: number, last: number) =>
      Array.from({ length: 3 * (last - first + 1) }, (_, i) => eventAt(first + Math.floor(i / 3), i % 3));
    const first = await find(replay);
    expect(first).toMatchObject({ events: three(1, 4), cursor: eventAt(4, 2), isLast: false });
    expect(await find({ ...replay, cursor: first.cursor })).toMatchObject({
      events: three(5, 6),
      isLast: true,
    });
    await execute("UPDATE bundles SET body = zeroblob(?1) WHERE id = 4", bytes + 1);
    expect((await find(replay)).events).toEqual(three(1, 3));
  });

  test("counts the bytes of bundles that an earlier statement has found", async () => {
    await insertBundles(env.DB, [bundle([own, own]), bundle([own])]);
    await others(3, 498);
    await insertBundles(env.DB, [bundle([own]), bundle([own])]);
    await execute("UPDATE bundles SET body = zeroblob(1500000) WHERE id IN (1, 2, 501, 502)");
    const { events, isLast } = await find(await begin());
    expect([events, isLast]).toEqual([[eventAt(1, 0), eventAt(1, 1), eventAt(2, 0)], false]);
    await execute("UPDATE bundles SET body = zeroblob(1190000) WHERE id IN (501)");
    const replay = await begin({ id: "rpl_2", destinationId: OTHER });
    expect((await find(replay)).events).toEqual([
      eventAt(1, 0),
      eventAt(1, 1),
      eventAt(2, 0),
      eventAt(501, 0),
    ]);
    expect((await find(replay, { size: 3 })).events).toHaveLength(3);
    expect(await find(replay, { size: 4 })).toMatchObject({ cursor: eventAt(501, 0), isLast: false });
  });

  describe("for a destination with a filter", () => {
    const route: Criteria = { ...ANYTHING, filter: { n: { gte: 2 } } };
    const numbered = (n: number, more: object = {}) => ({ tenant: TENANT, data: { n, ...more } });

    test("reads at most eight megabytes of bodies by their headers, and selects no event of damaged ones", async () => {
      await insertBundles(env.DB, [
        bundle([numbered(7), numbered(8), numbered(9)]),
        bundle([numbered(8)]),
        bundle([numbered(9)]),
      ]);
      await execute("UPDATE bundles SET header = json_set(header, '$.events[2]', 5000000) WHERE id < 3");
      const replay = await begin();
      const first = await find(replay, { route });
      expect(first).toMatchObject({ events: [], cursor: eventAt(1, 2), isLast: false });
      const second = await find({ ...replay, cursor: first.cursor }, { route });
      expect(second).toMatchObject({ events: [eventAt(3, 0)], isLast: true });
    });

    test("ends after bodies have been read, even if more bundles follow", async () => {
      await insertBundles(env.DB, [bundle([numbered(1), numbered(2)])]);
      await others(2, 499);
      await insertBundles(env.DB, [bundle([numbered(3)])]);
      const replay = await begin();
      const first = await find(replay, { route });
      expect(first).toMatchObject({ events: [eventAt(1, 1)], cursor: eventAt(500, 127), isLast: false });
      const second = await find({ ...replay, cursor: first.cursor }, { route });
      expect(second).toMatchObject({ events: [eventAt(501, 0)], isLast: true });
      // Nothing is read of what its types rule out, nor of content, in which a filter finds nothing.
      expect(await find(replay, { route: { ...route, types: ["none"] } })).toMatchObject({
        events: [],
        isLast: true,
      });
      await execute(
        "UPDATE bundles SET header = json_set(header, '$.contentTypes', json(?1)) WHERE id IN (1, 501)",
        '{"0":"a/b"}',
      );
      expect(await find(replay, { route })).toMatchObject({ events: [eventAt(1, 1)], isLast: false });
    });
  });
});

describe("planning", () => {
  const GIVE_UP = NOW + DAY_MS;
  const AFTER = { state: "running", reason: null, pace: 1, nextStepAt: NOW, endedAt: null } as const;

  const plans = async () =>
    (await rowsOfAll<{ plan: string; planned: number }>("SELECT plan, planned FROM bundles ORDER BY id")).map(
      ({ plan, planned }) => [JSON.parse(plan), planned],
    );
  const rows = () =>
    rowsOfAll<{ destination_id: string; event_id: number }>(
      "SELECT * FROM deliveries ORDER BY destination_id, event_id",
    );
  const names = async () => (await rows()).map((row) => [row.destination_id, row.event_id]);

  const change = (
    bundle: number,
    before: string | null,
    after: string,
    ...indexes: number[]
  ): PlanChange => ({
    ...{ bundle, before, after, added: indexes.length },
    events: indexes.map((index) => eventAt(bundle, index)),
  });

  async function plan(...changes: PlanChange[]) {
    const replay = await begin();
    const found = { events: [], packed: [], plans: changes, cursor: eventAt(9, 0) };
    return advanceReplay(env.DB, replay, found, AFTER, GIVE_UP, NOW);
  }

  beforeEach(async () => {
    const two = Array.from({ length: 4 }, (_, i) => ({
      tenant: TENANT,
      destinations: i < 2 ? [PLACE, OTHER] : [OTHER],
    }));
    const none = two.map((event) => ({ ...event, destinations: [OTHER] }));
    const three = two.map((event, i) => ({ ...event, destinations: i < 3 ? [PLACE] : [] }));
    await insertBundles(env.DB, [{ events: two }, { events: none }, { events: three }, { events: two }]);
  });

  test("adds the events to the plans of their bundles, and each waits", async () => {
    expect(await plan(change(1, "[0,1]", "[0,1,3,3]", 3), change(2, null, "[0,0,2,2]", 0, 2))).toBe(true);
    expect(await plans()).toEqual([
      [{ [PLACE]: [0, 1, 3, 3], [OTHER]: [0, 3] }, 7],
      [{ [PLACE]: [0, 0, 2, 2], [OTHER]: [0, 3] }, 6],
      [{ [PLACE]: [0, 2] }, 3],
      [{ [PLACE]: [0, 1], [OTHER]: [0, 3] }, 6],
    ]);
    const waiting = { state: "waiting", reason: "replayed", generation: 1, attempts: 0, give_up_at: GIVE_UP };
    expect(await rows()).toMatchObject(
      [eventAt(1, 3), eventAt(2, 0), eventAt(2, 2)].map((event_id) => ({
        ...{ destination_id: PLACE, event_id, replay: "rpl_1" },
        ...waiting,
      })),
    );
  });

  test("leaves alone a bundle whose plan has changed meanwhile, even to another bundle's", async () => {
    const before = await plans();
    // Bundle 3 has the plan that bundle 1 was to get, and bundle 2 has one where it had none.
    await plan(
      change(1, "[0,0]", "[0,2]", 2),
      change(2, "[0,0]", "[0,1]", 1),
      change(4, "[0,1]", "[0,2]", 2),
    );
    expect(await plans()).toEqual([...before.slice(0, 3), [{ [PLACE]: [0, 2], [OTHER]: [0, 3] }, 7]]);
    expect(await names()).toEqual([[PLACE, eventAt(4, 2)]]);
  });

  test("keeps the row of a delivery that has one", async () => {
    await insertRow("deliveries", {
      destination_id: PLACE,
      event_id: eventAt(1, 2),
      state: "dead",
      give_up_at: 1,
    });
    await plan(change(1, "[0,1]", "[0,3]", 2, 3));
    expect(await rows()).toMatchObject([
      { event_id: eventAt(1, 2), state: "dead", give_up_at: 1, replay: null },
      { event_id: eventAt(1, 3), state: "waiting" },
    ]);
    expect(await rowsOfAll("SELECT requeued FROM replays")).toEqual([{ requeued: 1 }]);
  });
});
