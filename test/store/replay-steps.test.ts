/**
 * The deliveries that a replay selects, among deliveries in rows and in packs that differ in one thing each, beside
 * those of another destination; and the write that moves a portion: all of it, once, or nothing.
 */

import { env } from "cloudflare:workers";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { bundleOf, eventAt, indexOf } from "../../src/core/bundle.ts";
import { endsText, maskOf } from "../../src/core/pack.ts";
import { DAY_MS, type RetentionTimes } from "../../src/core/retention.ts";
import { takesType } from "../../src/core/routing.ts";
import type { StoredState } from "../../src/store/delivery.ts";
import {
  advanceReplay,
  beginReplay,
  countCandidates,
  findPortion,
  isOfEnded,
  type Portion,
} from "../../src/store/replay-steps.ts";
import { findReplay, type Replay, type ReplayInsert } from "../../src/store/replays.ts";
import { insertRow } from "../support/api.ts";
import { insertBundles } from "../support/bundle-rows.ts";
import { emptyDatabase, rowsOfAll } from "../support/databases.ts";
import { meteredD1 } from "../support/meter.ts";
import { execute } from "../support/world.ts";

const NOW = Date.parse("2026-11-21T09:00:00.000Z");
const HOUR = 3_600_000;
const PLACE = "dst_a";
const OTHER = "dst_b";
const TENANT = "acme";
const ID = "rpl_1";
const ALL = { first: 1, last: Number.MAX_SAFE_INTEGER };
const KEPT: RetentionTimes = { ms: 30 * DAY_MS, types: {} };

/** When the bundles were accepted, and when the scheduled ones were due: each of a boundary, and some away from them. */
const TIMES: readonly (readonly [acceptedAt: number, deliverAt?: number])[] = [
  [NOW - KEPT.ms],
  [NOW - KEPT.ms + 1],
  [NOW - 2 * KEPT.ms, NOW - KEPT.ms],
  [NOW - 2 * KEPT.ms, NOW - KEPT.ms + 1],
  [NOW - DAY_MS - 1],
  [NOW - DAY_MS],
  [NOW - DAY_MS + 1],
  [NOW - 2 * DAY_MS, NOW - DAY_MS],
  [NOW - 2 * DAY_MS, NOW - DAY_MS + 1],
  [NOW - HOUR - 1],
  [NOW - HOUR],
  [NOW - HOUR + 1],
  // The plans of the last two are their own: see `SPARSE`.
  [NOW - 2 * HOUR],
  [NOW - 2 * HOUR],
];
const SIZE = 70;
/** Bundles with a pack that has one delivered delivery, in one half of its mask. */
const SPARSE: Readonly<Record<number, number>> = { 13: 3, 14: 60 };
/** A bundle that an operator has removed, and some of which events have been erased. */
const REMOVED = 5;
const ERASED = {
  bundles: [7, 10],
  indexes: [0, 1, 2, 3, 40, 41, 42, 43, 44, 45, 46, 47, 48, 60, 61, 62, 63],
};

/** The last one is a name that every object has something of. */
const TYPES = ["a", "a.b", "a.b.c", "ab", "constructor"];
const TAGS = [[], ["x"], ["y", "z"]];

type Stored = Readonly<{ in: "row" | "pack"; state: StoredState; endedAt: number | null }>;

const KINDS: readonly (Stored | undefined)[] = [
  ...(["dead", "delivered", "cancelled"] as const).flatMap((state): Stored[] =>
    [NOW - 1, NOW, NOW + 1].map((endedAt) => ({ in: "row", state, endedAt })),
  ),
  { in: "row", state: "waiting", endedAt: null },
  { in: "pack", state: "delivered", endedAt: NOW - 1 },
  { in: "pack", state: "delivered", endedAt: NOW },
  { in: "pack", state: "delivered", endedAt: NOW + 1 },
  { in: "pack", state: "cancelled", endedAt: NOW - 1 },
];

type One = Readonly<{ event: number; type: string; tags: readonly string[]; stored: Stored | undefined }>;

/** Every second bundle has no delivery that ended late in its pack. */
function storedAt(bundle: number, index: number): Stored | undefined {
  if (bundle in SPARSE) return index === SPARSE[bundle] ? KINDS[10] : undefined;
  const kind = KINDS[index % KINDS.length];
  return kind?.in === "pack" && bundle % 2 === 0
    ? { ...kind, endedAt: Math.min(NOW, kind.endedAt ?? 0) }
    : kind;
}

const deliveries: readonly One[] = TIMES.flatMap((_, i) =>
  Array.from({ length: SIZE }, (_, index) => ({
    event: eventAt(i + 1, index),
    type: TYPES[index % TYPES.length] ?? "",
    tags: TAGS[(index + i) % TAGS.length] ?? [],
    stored: storedAt(i + 1, index),
  })),
);

/** Stores the deliveries for the destination, rows and packs as they are. */
async function store(destination: string, all: readonly One[]): Promise<void> {
  const rows = all.filter(({ stored }) => stored?.in === "row");
  await execute(
    `INSERT INTO deliveries (destination_id, event_id, state, attempts, give_up_at, ended_at)
     SELECT ?1, value ->> 'event', value ->> '$.stored.state', 3, 0, value ->> '$.stored.endedAt' FROM json_each(?2)`,
    destination,
    JSON.stringify(rows),
  );
  const packed = Map.groupBy(
    all.filter(({ stored }) => stored?.in === "pack"),
    ({ event }) => bundleOf(event),
  );
  const packs = [...packed].map(([bundle, own]) => {
    const maskIn = (state: StoredState) =>
      maskOf(own.flatMap(({ event, stored }) => (stored?.state === state ? [indexOf(event)] : [])));
    const ends = own.map(({ event, stored }) => ({
      index: indexOf(event),
      at: (stored?.endedAt ?? 0) - (stored?.state === "delivered" ? 7 : 0),
      latencyMs: stored?.state === "delivered" ? 7 : 0,
      status: stored?.state === "delivered" ? 204 : undefined,
    }));
    const endedAt = Math.max(...own.map(({ stored }) => stored?.endedAt ?? 0));
    const [delivered, cancelled] = [maskIn("delivered"), maskIn("cancelled")];
    return { bundle, delivered, cancelled, waiting: 2 ** 49, endedAt, ends: endsText(ends) };
  });
  await execute(
    `INSERT INTO packs (destination_id, bundle_id, delivered0, delivered1, cancelled0, cancelled1, waiting1, give_up_at,
       ended_at, ends)
     SELECT ?1, value ->> 'bundle', value ->> '$.delivered[0]', value ->> '$.delivered[1]', value ->> '$.cancelled[0]',
       value ->> '$.cancelled[1]', value ->> 'waiting', 0, value ->> 'endedAt', value ->> 'ends' FROM json_each(?2)`,
    destination,
    JSON.stringify(packs),
  );
}

const job = (fields: Partial<ReplayInsert> = {}): ReplayInsert => ({
  ...{
    id: ID,
    tenant: TENANT,
    destinationId: PLACE,
    include: "dead",
    since: 0,
    until: NOW + 1,
    ratePerMinute: 60,
  },
  ...{ state: "running", pace: 60, nextStepAt: NOW, createdAt: NOW, updatedAt: NOW, ...fields },
});

async function begin(
  fields: Partial<ReplayInsert> = {},
  kept = KEPT,
  range = ALL,
  limit = 10_000,
): Promise<Replay> {
  const replay = await beginReplay(env.DB, job(fields), range, limit, kept);
  if (!replay) throw new Error("There is one under way");
  return replay;
}

/** One portion after the other, as a replay's steps find them. */
async function portionsOf(replay: Replay, size: number, kept = KEPT, last = ALL.last): Promise<Portion[]> {
  if (!isOfEnded(replay)) throw new Error("It is of missing deliveries");
  const portions: Portion[] = [];
  for (let { cursor } = replay; portions.length < 1_000; ) {
    const portion = await findPortion(env.DB, { ...replay, cursor }, last, size, kept);
    portions.push(portion);
    if (portion.isLast) return portions;
    expect(portion.cursor).toBeGreaterThanOrEqual(cursor);
    cursor = portion.cursor;
  }
  throw new Error("The replay does not end");
}

/** Whether the replay means the delivery, by its rules. */
function isMeant({ event, type, tags, stored }: One, replay: ReplayInsert, kept: RetentionTimes): boolean {
  const { include, since, until, createdAt, eventTypes = null, tag = null } = replay;
  const [acceptedAt = 0, deliverAt = acceptedAt] = TIMES[bundleOf(event) - 1] ?? [];
  const isErased = ERASED.bundles.includes(bundleOf(event)) && ERASED.indexes.includes(indexOf(event));
  return (
    stored?.state === include &&
    (stored.endedAt ?? 0) <= createdAt &&
    acceptedAt >= since &&
    acceptedAt < until &&
    deliverAt > createdAt - (new Map(Object.entries(kept.types)).get(type) ?? kept.ms) &&
    takesType(eventTypes, type) &&
    (tag === null || tags.includes(tag)) &&
    !isErased &&
    bundleOf(event) !== REMOVED
  );
}

describe("a replay among deliveries of every kind", () => {
  beforeAll(async () => {
    await emptyDatabase();
    const events = (i: number) =>
      deliveries
        .slice(i * SIZE, (i + 1) * SIZE)
        .map(({ type, tags }) => ({ tenant: TENANT, type, tags, destinations: [PLACE, OTHER] }));
    await insertBundles(
      env.DB,
      TIMES.map(([acceptedAt, deliverAt], i) => ({ acceptedAt, deliverAt, events: events(i) })),
    );
    await execute("DELETE FROM bundles WHERE id = ?1", REMOVED);
    const runs = JSON.stringify(ERASED.indexes.flatMap((index) => [index, index]));
    for (const bundle of ERASED.bundles)
      await execute(
        "UPDATE bundles SET header = json_set(header, '$.erased', json(?2)) WHERE id = ?1",
        bundle,
        runs,
      );
    await store(PLACE, deliveries);
    const everything = deliveries.map((one, i) => ({ ...one, stored: KINDS[i % 2 === 0 ? 0 : 10] }));
    await store(OTHER, everything);
  });
  beforeEach(async () => {
    await execute("DELETE FROM replays");
    await begin({ id: "rpl_0", destinationId: OTHER, eventTypes: ["none"], tag: "none" });
  });

  const filters: Readonly<Record<string, [Partial<ReplayInsert>, RetentionTimes["types"]?]>> = {
    everything: [{}],
    "a prefix of types": [{ eventTypes: ["a.*"] }],
    "each type": [{ eventTypes: ["*"] }],
    "some types": [{ eventTypes: ["constructor", "a.b", "c.*"] }],
    "no type that occurs": [{ eventTypes: ["a.b.c.d", "b.*"] }],
    "a tag": [{ tag: "x" }],
    "the second tag of its events, and a type": [{ tag: "z", eventTypes: ["a"] }],
    "a tag that no event has": [{ tag: "none" }],
    "what a type's shorter retention leaves": [{}, { constructor: DAY_MS, a: 2 * DAY_MS }],
    "a period": [{ since: NOW - DAY_MS, until: NOW - HOUR }],
    "what was there earlier": [{ createdAt: NOW - 1 }],
  };

  test.each(
    Object.keys(filters).flatMap((name) => [
      [name, "dead" as const],
      [name, "delivered" as const],
    ]),
  )("of %s (%s) counts, and finds in order, exactly its deliveries", async (name, include) => {
    const [fields, types = {}] = filters[name as keyof typeof filters] ?? [{}];
    const kept = { ...KEPT, types };
    const replay = await begin({ ...fields, include: include as "dead" }, kept);
    const meant = deliveries.filter((one) =>
      isMeant(one, job({ ...fields, include: include as "dead" }), kept),
    );
    const events = meant.map(({ event }) => event);
    expect(replay.total).toBe(events.length);
    const whole = await portionsOf(replay, 1_000, kept);
    expect(whole.flatMap((one) => one.events)).toEqual(events);
    const packed = meant.filter(({ stored }) => stored?.in === "pack");
    expect(whole.flatMap((one) => one.packed.map(({ eventId, endedAt }) => [eventId, endedAt]))).toEqual(
      packed.map(({ event, stored }) => [event, stored?.endedAt]),
    );
    for (const one of whole.flatMap((one) => one.packed))
      expect(one).toMatchObject({ destinationId: PLACE, state: "delivered", attempts: 1, lastStatus: 204 });
  });

  test.each([
    ["dead", 2, { since: NOW - DAY_MS }],
    ["dead", 4, { tag: "x" }],
    ["delivered", 3, { since: NOW - 2 * HOUR }],
    ["delivered", 7, { until: NOW - 2 * HOUR }],
    ["delivered", 5, { eventTypes: ["a"] }],
  ] as const)("of what is %s is found whole in portions of %i (%j)", async (include, size, fields) => {
    const replay = await begin({ include, ...fields });
    const meant = deliveries.filter((one) => isMeant(one, job({ include, ...fields }), KEPT));
    const portions = await portionsOf(replay, size);
    expect(portions.flatMap(({ events }) => events)).toEqual(meant.map(({ event }) => event));
    expect(Math.max(...portions.map(({ events }) => events.length))).toBe(size);
    const full = portions.filter(({ events }) => events.length === size);
    expect(full.length).toBeGreaterThanOrEqual(Math.floor(meant.length / size) - 1);
    for (const { events, cursor } of portions) expect(cursor).toBeGreaterThanOrEqual(events.at(-1) ?? 0);
  });

  test.each([
    "dead",
    "delivered",
  ] as const)("of what is %s begins behind its cursor, and ends at the last event that it may look at", async (include) => {
    const replay = await begin({ include });
    const all = (await portionsOf(replay, 10_000)).flatMap(({ events }) => events);
    for (const [from, to] of [
      [3, 20],
      [4, 21],
      [0, 0],
    ] as const) {
      const [cursor = 0, last = 0] = [all[from], all[to]];
      for (const size of [2, 1_000]) {
        const some = (await portionsOf({ ...replay, cursor }, size, KEPT, last)).flatMap(
          ({ events }) => events,
        );
        expect(some).toEqual(all.slice(from + 1, to + 1));
      }
    }
  });

  test.each([
    "dead",
    "delivered",
  ] as const)("of what is %s counts no event outside of its range of ids, nor more than the limit", async (include) => {
    const range = { first: eventAt(6, 0), last: eventAt(10, 127) };
    const replay = await begin({ include }, KEPT, range);
    const inRange = ({ event }: One) => event >= range.first && event <= range.last;
    const meant = deliveries.filter((one) => inRange(one) && isMeant(one, job({ include }), KEPT));
    expect(replay.total).toBe(meant.length);
    const candidates = { include, destinationId: PLACE };
    // Only the rows themselves would show which delivered ones match: all of them count as candidates.
    const isCandidate = ({ stored }: One) =>
      stored?.state === include || (include === "delivered" && stored?.in === "row");
    const ended = deliveries.filter((one) => inRange(one) && isCandidate(one));
    expect(await countCandidates(env.DB, candidates, range, 10_000)).toBe(ended.length);
    expect(await countCandidates(env.DB, candidates, range, ended.length)).toBe(ended.length);
    expect(await countCandidates(env.DB, candidates, range, ended.length - 1)).toBe(ended.length - 1);
    expect(await countCandidates(env.DB, { include, destinationId: "dst_c" }, range, 10)).toBe(0);
    expect(await countCandidates(env.DB, { include: "missing", destinationId: PLACE }, range, 10)).toBe(0);
  });
});

describe("the beginning of a replay", () => {
  beforeEach(emptyDatabase);

  const fields = {
    since: 3,
    until: 9,
    ratePerMinute: 6,
    pace: 6,
    tag: "x",
    eventTypes: ["a"],
    cursor: 7,
    createdAt: NOW,
  };

  test.each([
    "dead",
    "delivered",
    "missing",
  ] as const)("of what is %s stores what is asked for, while none is under way", async (include) => {
    const asked = { ...fields, include, matching: 0 };
    expect(await begin(asked)).toMatchObject({ ...asked, id: ID, state: "running", total: 0, requeued: 0 });
    const again = { ...asked, id: "rpl_2", updatedAt: NOW, nextStepAt: NOW };
    expect(await beginReplay(env.DB, job(again), ALL, 10, KEPT)).toBeUndefined();
    expect(await begin({ ...again, id: "rpl_0", destinationId: OTHER })).toMatchObject({
      destinationId: OTHER,
    });
    await execute("UPDATE replays SET state = 'paused'");
    expect(await beginReplay(env.DB, job(again), ALL, 10, KEPT)).toBeUndefined();
    await execute("UPDATE replays SET state = 'completed' WHERE id = ?1", ID);
    expect(await begin({ id: "rpl_3", include })).toMatchObject({
      cursor: 0,
      tag: null,
      eventTypes: null,
      matching: 1,
    });
  });
});

describe("a portion", () => {
  const EVENTS = 500;
  let metered: ReturnType<typeof meteredD1>;

  /** Deliveries of which some are selected, by their places. */
  async function prepared(
    isSelected: (i: number) => boolean,
    include: "dead" | "delivered",
    fields: Partial<ReplayInsert> = {},
  ) {
    const events = Array.from({ length: EVENTS }, (_, i) => ({
      ...{ tenant: TENANT, destinations: [PLACE], type: isSelected(i) ? "a" : "b" },
      tags: isSelected(i) ? ["x"] : [],
    }));
    const numbers = await insertBundles(
      env.DB,
      Array.from({ length: EVENTS / 10 }, (_, i) => ({
        acceptedAt: NOW - HOUR,
        events: events.slice(10 * i, 10 * i + 10),
      })),
    );
    const endedAt = (i: number) => (isSelected(i) ? NOW : NOW + 1);
    const how = { in: include === "dead" ? "row" : "pack", state: include } as const;
    await store(
      PLACE,
      numbers.map((event, i) => ({ event, type: "", tags: [], stored: { ...how, endedAt: endedAt(i) } })),
    );
    const replay = await begin({ include, ...fields });
    metered = meteredD1(env.DB);
    return { replay: { ...replay, include }, numbers };
  }

  const find = (replay: Parameters<typeof findPortion>[1], size: number) =>
    findPortion(metered.db, replay, ALL.last, size, KEPT);

  beforeEach(emptyDatabase);

  test.each([
    ["dead", {}],
    ["delivered", {}],
    ["dead", { tag: "x" }],
  ] as const)("is the last one when only such come after it as are not meant (%s, %j)", async (include, fields) => {
    const { replay, numbers } = await prepared((i) => i < 10, include, fields);
    expect(await find(replay, 10)).toMatchObject({ events: numbers.slice(0, 10), isLast: true });
    expect(await find(replay, 9)).toMatchObject({
      events: numbers.slice(0, 9),
      cursor: numbers[8],
      isLast: false,
    });
  });

  test.each([
    ["dead", 60],
    ["delivered", 9],
  ] as const)("of what is %s is found in one look, at little more than it takes", async (include, rows) => {
    const { replay, numbers } = await prepared(() => true, include);
    expect((await find(replay, 10)).events).toEqual(numbers.slice(0, 10));
    const { roundTrips, rowsRead } = metered.used();
    console.log(`a portion of ten that are ${include}: ${rowsRead} rows read`);
    expect(roundTrips).toBe(1);
    expect(rowsRead).toBeLessThanOrEqual(rows);
  });

  test("is searched among twice as many each time that it is not found", async () => {
    const { replay, numbers } = await prepared((i) => i >= 480, "dead");
    expect((await find(replay, 10)).events).toEqual(numbers.slice(480, 490));
    // 11, 22, 44, 88, 176 and 352 rows are more than 490.
    expect(metered.used().roundTrips).toBe(6);
  });

  test("is searched among no more than that", async () => {
    const { replay, numbers } = await prepared((i) => i >= 11, "dead");
    expect((await find(replay, 10)).events).toEqual(numbers.slice(11, 21));
    const { roundTrips, rowsRead } = metered.used();
    console.log(`a portion of ten behind eleven others: ${rowsRead} rows read`);
    expect(roundTrips).toBe(2);
    expect(rowsRead).toBeLessThanOrEqual(160);
  });

  test.each([
    { tag: "x" },
    { eventTypes: ["a"] },
  ])("of %j is searched among a thousand at once", async (fields) => {
    const { replay, numbers } = await prepared((i) => i === EVENTS - 1, "dead", fields);
    expect(await find(replay, 10)).toMatchObject({ events: numbers.slice(-1), isLast: true });
    expect(metered.used().roundTrips).toBe(1);
  });

  test("ends after ten thousand deliveries, and continues behind them", async () => {
    const replay = { ...(await begin({ tag: "x" })), include: "dead" as const };
    await execute(
      `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 11500)
       INSERT INTO deliveries (destination_id, event_id, state, give_up_at, ended_at) SELECT ?1, i, 'dead', 0, 0 FROM n`,
      PLACE,
    );
    const first = await findPortion(env.DB, replay, ALL.last, 10, KEPT);
    expect(first).toEqual({ events: [], packed: [], cursor: 10_000, isLast: false });
    expect(await findPortion(env.DB, { ...replay, cursor: 10_000 }, ALL.last, 10, KEPT)).toMatchObject({
      isLast: true,
    });
  });

  test("is found behind many bundles that an operator has removed", async () => {
    const replay = { ...(await begin({ include: "delivered" })), include: "delivered" as const };
    const [event = 0] = await insertBundles(env.DB, [
      { id: 300, acceptedAt: NOW - HOUR, events: [{ tenant: TENANT }] },
    ]);
    await execute(
      `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300)
       INSERT INTO packs (destination_id, bundle_id, delivered0, ended_at) SELECT ?1, i, 1, 1 FROM n`,
      PLACE,
    );
    const found = await findPortion(env.DB, replay, ALL.last, 10, KEPT);
    expect(found).toMatchObject({ events: [event], isLast: true });
  });

  test("leaves out an event that is missing from the header of its bundle", async () => {
    const { replay, numbers } = await prepared(() => true, "delivered");
    await execute("UPDATE packs SET delivered0 = delivered0 | (1 << 10)");
    const { events, isLast } = await find(replay, 1_000);
    expect([events, isLast]).toEqual([numbers, true]);
  });
});

describe("the write that moves a portion", () => {
  const RUNNING = { state: "running", reason: null, pace: 30, nextStepAt: NOW + 9, endedAt: null } as const;
  const GIVE_UP = NOW + DAY_MS;
  const CURSOR = 7;
  const [first, second, third, fourth, fifth] = [0, 1, 2, 60, 61].map((index) => eventAt(1, index)) as [
    number,
    number,
    number,
    number,
    number,
  ];

  const row = (event: number, state: StoredState, endedAt: number | null = NOW, destination = PLACE) =>
    insertRow("deliveries", {
      ...{
        destination_id: destination,
        event_id: event,
        state,
        attempts: 3,
        give_up_at: 0,
        ended_at: endedAt,
      },
      ...{ reason: state === "dead" ? "exhausted" : null, generation: state === "waiting" ? 1 : 0 },
    });

  /** Everything that the write could change. */
  const everything = async () => ({
    deliveries: await rowsOfAll("SELECT * FROM deliveries ORDER BY destination_id, event_id"),
    packs: await rowsOfAll("SELECT * FROM packs ORDER BY destination_id, bundle_id"),
    bundles: await rowsOfAll("SELECT id, planned, plan FROM bundles ORDER BY id"),
    replays: await rowsOfAll("SELECT * FROM replays ORDER BY id"),
  });

  const requeuedNow = async () =>
    (
      await rowsOfAll<{ destination_id: string; event_id: number }>(
        "SELECT destination_id, event_id FROM deliveries WHERE replay = 'rpl_1' ORDER BY event_id",
      )
    ).map(({ destination_id, event_id }) => [destination_id, event_id]);

  /** Another replay at the same cursor, and one that runs elsewhere. */
  beforeEach(async () => {
    await emptyDatabase();
    await begin({ id: "rpl_0", destinationId: OTHER, cursor: CURSOR });
    await begin({ id: "rpl_2", destinationId: "dst_c", cursor: CURSOR + 1 });
    await insertBundles(env.DB, [
      {
        acceptedAt: NOW - HOUR,
        events: Array.from({ length: 70 }, () => ({ tenant: TENANT, destinations: [PLACE] })),
      },
    ]);
  });

  /** The result of one step, for each kind of replay. */
  const portions = {
    "of rows": { include: "dead" as const, found: { events: [first, second], packed: [], cursor: 900 } },
    "of rows and packs": {
      include: "delivered" as const,
      found: { events: [first, third, fourth], packed: [] as Portion["packed"], cursor: 900 },
    },
    "of missing deliveries": {
      include: "missing" as const,
      found: {
        events: [fourth, fifth],
        packed: [],
        plans: [{ bundle: 1, before: "[0,69]", after: "[0,71]", added: 2, events: [fourth, fifth] }],
        cursor: 900,
      },
    },
  };
  type Kind = keyof typeof portions;

  /** Stores what the portion is about; returns the portion with its rows of packs. */
  async function prepared(kind: Kind) {
    const { include, found } = portions[kind];
    const replay = await begin({ include, cursor: CURSOR });
    if (include !== "missing") await row(first, include);
    if (include === "dead") await row(second, "dead");
    if (include === "delivered") {
      await insertRow("packs", {
        ...{
          destination_id: PLACE,
          bundle_id: 1,
          delivered0: 0b110,
          delivered1: 2 ** 10 + 2 ** 11,
          ended_at: NOW - 1,
        },
        ends: endsText([1, 2, 60, 61].map((index) => ({ index, at: NOW - 9, latencyMs: 8, status: 200 }))),
      });
      const looked = await findPortion(env.DB, { ...replay, include, cursor: second }, ALL.last, 2, KEPT);
      expect(looked.events).toEqual([third, fourth]);
      return { replay, found: { ...found, packed: looked.packed } };
    }
    return { replay, found };
  }

  const advance = (
    replay: Replay,
    found: Omit<Portion, "isLast">,
    after: Parameters<typeof advanceReplay>[3] = RUNNING,
  ) => advanceReplay(env.DB, replay, found, after, GIVE_UP, NOW + 5);

  test.each(
    Object.keys(portions) as Kind[],
  )("%s requeues its deliveries, counts them and moves the replay", async (kind) => {
    const { replay, found } = await prepared(kind);
    await row(first, "dead", NOW, OTHER);
    await row(second, "delivered", NOW, OTHER);
    const before = await everything();
    expect(await advance(replay, found)).toBe(true);
    expect(await requeuedNow()).toEqual(found.events.map((event) => [PLACE, event]));
    const after = await everything();
    const waiting = { state: "waiting", reason: "replayed", attempts: 0, generation: 1, give_up_at: GIVE_UP };
    for (const one of after.deliveries.filter((one) => (one as { replay: unknown }).replay === ID))
      expect(one).toMatchObject({ ...waiting, ended_at: null, first_attempt_at: null });
    const isForeign = (one: unknown) => (one as { destination_id: string }).destination_id !== PLACE;
    expect(after.deliveries.filter(isForeign)).toEqual(before.deliveries.filter(isForeign));
    expect(await findReplay({ db: env.DB }, ID, undefined)).toMatchObject({
      ...RUNNING,
      ...{ requeued: found.events.length, cursor: 900, updatedAt: NOW + 5 },
    });
    const others = (rows: readonly unknown[]) => rows.filter((one) => (one as { id: string }).id !== ID);
    expect(others(after.replays)).toEqual(others(before.replays));
    // Again, as a message that comes twice would: its cursor has moved.
    expect(await advance(replay, found)).toBe(false);
    expect(await everything()).toEqual(after);
  });

  test.each(
    (Object.keys(portions) as Kind[]).flatMap((kind) =>
      ["state = 'paused'", "state = 'cancelled'", `cursor = ${CURSOR + 1}`, `cursor = ${CURSOR - 1}`].map(
        (change) => [kind, change] as const,
      ),
    ),
  )("%s changes nothing in a replay that was changed meanwhile (%s)", async (kind, change) => {
    const { replay, found } = await prepared(kind);
    await execute(`UPDATE replays SET ${change} WHERE id = ?1`, ID);
    const before = await everything();
    expect(await advance(replay, found)).toBe(false);
    expect(await everything()).toEqual(before);
  });

  test("of missing deliveries inserts none for a paused replay, even if the plan already has them", async () => {
    const { replay, found } = await prepared("of missing deliveries");
    await execute("UPDATE bundles SET plan = json_set(plan, '$.dst_a', json('[0,71]'))");
    await execute("UPDATE replays SET state = 'paused' WHERE id = ?1", ID);
    const before = await everything();
    expect(await advance(replay, found)).toBe(false);
    expect(await everything()).toEqual(before);
  });

  test("writes the end of the replay", async () => {
    const { replay, found } = await prepared("of rows");
    const end = { state: "completed", reason: "stuck", pace: 1, nextStepAt: 2, endedAt: NOW + 3 } as const;
    expect(await advance(replay, found, end)).toBe(true);
    expect(await findReplay({ db: env.DB }, ID, undefined)).toMatchObject(end);
  });

  test("moves a replay on that has found nothing", async () => {
    const replay = await begin({ cursor: CURSOR });
    expect(await advance(replay, { events: [], packed: [], cursor: 900 })).toBe(true);
    expect(await findReplay({ db: env.DB }, ID, undefined)).toMatchObject({ cursor: 900, requeued: 0 });
  });

  test("moves a replay of missing deliveries on that has found none", async () => {
    const replay = await begin({ include: "missing", cursor: CURSOR });
    expect(await advance(replay, { events: [], packed: [], plans: [], cursor: 900 })).toBe(true);
    expect(await findReplay({ db: env.DB }, ID, undefined)).toMatchObject({ cursor: 900, requeued: 0 });
  });

  test("leaves changed deliveries alone: sent again meanwhile, ended again since, or ended differently", async () => {
    const replay = await begin({ cursor: CURSOR });
    const events = [first, second, third, fourth, fifth];
    await row(first, "dead", NOW);
    await row(second, "dead", NOW + 1);
    await row(third, "waiting", null);
    await row(fourth, "delivered", NOW);
    await row(eventAt(1, 30), "dead", NOW);
    expect(await advance(replay, { events, packed: [], cursor: 900 })).toBe(true);
    expect(await requeuedNow()).toEqual([[PLACE, first]]);
    expect((await findReplay({ db: env.DB }, ID, undefined))?.requeued).toBe(1);
  });

  test("does not count deliveries that were requeued out of a pack by others meanwhile", async () => {
    const { replay, found } = await prepared("of rows and packs");
    await row(third, "waiting", null);
    const own = () => rowsOfAll("SELECT * FROM deliveries WHERE event_id = ?1", third);
    const before = await own();
    expect(before).toHaveLength(1);
    expect(await advance(replay, found)).toBe(true);
    expect(await own()).toEqual(before);
    expect((await findReplay({ db: env.DB }, ID, undefined))?.requeued).toBe(2);
  });
});
