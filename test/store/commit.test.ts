/** Bundles are committed whole or not at all, under the guards of each of their units, and are found as they were stored. */

import { env } from "cloudflare:workers";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { eventAt, type StoredHeader, storedHeader } from "../../src/core/bundle.ts";
import { beforeFirstBundleOf } from "../../src/core/placement.ts";
import { readContents } from "../../src/store/bundles.ts";
import {
  commitUnits,
  findCommitted,
  findPlans,
  type NewBundle,
  type NewIdempotencyKey,
  storeBodies,
  type Unit,
} from "../../src/store/commit.ts";
import { eventNames } from "../../src/store/events.ts";
import { idBefore, idRangeOf } from "../../src/store/time-ranges.ts";
import { insertBundles } from "../support/bundle-rows.ts";
import { emptyDatabase } from "../support/databases.ts";
import { meteredD1 } from "../support/meter.ts";
import { insertRows } from "../support/stored-deliveries.ts";

const db = env.DB;
const encoder = new TextEncoder();

describe("a commit", () => {
  beforeEach(async () => {
    await emptyDatabase();
    await insertRows(db, "tenants", [
      { id: "acme", revision: 4 },
      { id: "other", revision: 9 },
    ]);
  });

  const header = storedHeader([{ tenant: "acme", type: "a", bytes: 2 }], { encoding: "plain" });
  const bundle = (...tokens: string[]): NewBundle => ({
    ...{ tokens, count: tokens.length, plan: { dst_a: [0, 0], dst_b: [0, 0] } },
    ...{ header, hex: "7b7d" },
  });
  const key = (tenant: string, name: string, ...tokens: string[]): NewIdempotencyKey => ({
    ...{ tenant, key: name, fingerprint: `of ${name}`, tokens, places: tokens.map((_, i) => [i, 0]) },
  });
  const unit = (bundles: NewBundle[], more: Partial<Unit> = {}): Unit => ({
    ...{ bundles, revisions: { acme: 4 }, keys: [], ...more },
  });
  const tryCommit = (units: readonly Unit[], floor = 0, database = 0, far = 1_000) =>
    commitUnits(db, database, { units, acceptedAt: 5, floor, far, nonce: () => crypto.randomUUID() });
  const commit = async (units: readonly Unit[], floor = 0, database = 0) =>
    (await tryCommit(units, floor, database)).ids;
  const find = (
    within: number,
    tokens: readonly string[],
    keys: Parameters<typeof findCommitted>[2]["keys"],
  ) => findCommitted(db, 0, { within, tokens, keys });

  const stored = async () =>
    (
      await db.prepare("SELECT id, tokens FROM bundles ORDER BY id").all<{ id: number; tokens: string }>()
    ).results.map(({ id, tokens }) => [id, ...JSON.parse(tokens)]);

  test("numbers its bundles in order, and returns the numbers of each unit", async () => {
    const units = [
      unit([bundle("a"), bundle("b")], { keys: [key("acme", "one", "a", "b"), key("acme", "two", "b")] }),
      unit([bundle("c")], { keys: [key("other", "one", "c")] }),
      unit([bundle("d"), bundle("e"), bundle("f")]),
    ];
    expect(await commit(units)).toEqual([[1, 2], [3], [4, 5, 6]]);
    const { results } = await db.prepare("SELECT * FROM bundles WHERE id = 2").all();
    expect(results).toMatchObject([
      {
        tokens: '["b"]',
        accepted_at: 5,
        deliver_at: null,
        count: 1,
        planned: 2,
        plan: '{"dst_a":[0,0],"dst_b":[0,0]}',
      },
    ]);
    const { keys } = await find(
      0,
      [],
      [
        { tenant: "acme", key: "one" },
        { tenant: "acme", key: "two" },
        { tenant: "other", key: "one" },
      ],
    );
    expect(keys).toEqual([
      {
        tenant: "acme",
        key: "one",
        fingerprint: "of one",
        bundles: [1, 2],
        places: [
          [0, 0],
          [1, 0],
        ],
      },
      { tenant: "acme", key: "two", fingerprint: "of two", bundles: [2], places: [[0, 0]] },
      { tenant: "other", key: "one", fingerprint: "of one", bundles: [3], places: [[0, 0]] },
    ]);
  });

  test.each([
    ["behind the newest", 0, 0, [21]],
    ["above the floor, even where the newest is below it", 50, 0, [51]],
  ])("gives numbers %s", async (_, floor, database, ids) => {
    await insertBundles(db, [
      { id: 20, events: [{}] },
      { id: 9, events: [{}] },
    ]);
    expect(await commit([unit([bundle("a")])], floor, database)).toEqual([ids]);
  });

  test.each([0, 2])("gives the first number of an empty database (%d)", async (database) => {
    expect(await commit([unit([bundle("a")])], 0, database)).toEqual([[beforeFirstBundleOf(database) + 1]]);
  });

  test("that is repeated changes nothing, whatever is committed with it", async () => {
    const first = unit([bundle("a", "b"), bundle("c")], { keys: [key("acme", "one", "a")] });
    await commit([first]);
    const again = await commit([first, unit([bundle("d")]), unit([bundle("e", "b")])]);
    expect(again).toEqual([undefined, [3], undefined]);
    expect(await stored()).toEqual([
      [1, "a", "b", expect.any(String)],
      [2, "c"],
      [3, "d"],
    ]);
    const found = await find(0, ["b", "c", "x"], []);
    expect(found.tokens).toEqual([
      { id: 1, place: 1, token: "b" },
      { id: 2, place: 0, token: "c" },
    ]);
  });

  test("searches tokens only in the bundles behind the floor", async () => {
    await commit([unit([bundle("a")]), unit([bundle("b")])]);
    expect((await find(1, ["a", "b"], [])).tokens).toEqual([{ id: 2, place: 0, token: "b" }]);
    expect(await commit([unit([bundle("a")]), unit([bundle("b")])], 1)).toEqual([[3], undefined]);
  });

  test.each<[why: string, revisions: Record<string, number>, isTaken: boolean]>([
    ["has not changed", { acme: 4 }, true],
    ["has changed", { acme: 3 }, false],
    ["has changed for one of several", { acme: 4, other: 8 }, false],
    ["has changed for none of several", { acme: 4, other: 9 }, true],
    ["has never been stored", { new: 0 }, true],
    ["has been removed", { new: 1 }, false],
    ["is of no tenant", {}, true],
  ])("is accepted if the revision of each tenant %s", async (_, revisions, isTaken) => {
    const [ids] = await commit([unit([bundle("a")], { revisions, keys: [key("acme", "one", "a")] })]);
    expect(ids).toEqual(isTaken ? [1] : undefined);
    const { keys } = await find(0, [], [{ tenant: "acme", key: "one" }]);
    expect(keys).toHaveLength(isTaken ? 1 : 0);
  });

  test.each<[revisions: Record<string, number>, isTaken: boolean]>([
    [{ acme: 4, "": 7 }, true],
    [{ acme: 4, "": 6 }, false],
    [{ acme: 4 }, false],
  ])("is accepted only with the revision of the validated event types (%j)", async (revisions, isTaken) => {
    await insertRows(db, "tenants", [{ id: "", revision: 7 }]);
    expect(await commit([unit([bundle("a")], { revisions })])).toEqual([isTaken ? [1] : undefined]);
  });

  test("is not accepted with a key that its tenant has used, whoever else has", async () => {
    await commit([unit([bundle("a")], { keys: [key("acme", "one", "a")] })]);
    const tries = [key("acme", "one", "b"), key("other", "one", "c"), key("acme", "two", "d")];
    const outcomes = await commit(
      tries.map((one) => unit([bundle(...one.tokens)], { revisions: {}, keys: [one] })),
    );
    expect(outcomes).toEqual([undefined, [2], [3]]);
    const { keys } = await find(
      0,
      [],
      [
        { tenant: "acme", key: "one" },
        { tenant: "x", key: "two" },
      ],
    );
    expect(keys).toMatchObject([{ key: "one", bundles: [1] }]);
  });

  test("with a key twice at once is accepted once", async () => {
    const units = ["a", "b", "c"].map((token) =>
      unit([bundle(token)], { keys: [key("acme", "one", token)] }),
    );
    const outcomes = await Promise.all(units.map((one) => commit([one])));
    expect(outcomes.flat().filter((ids) => ids !== undefined)).toEqual([[1]]);
    expect(await stored()).toHaveLength(1);
  });

  describe("of deliveries to polled destinations", () => {
    const placing = (given: NewBundle, ...destinations: string[]): NewBundle => ({
      ...given,
      plan: {
        ...given.plan,
        ...Object.fromEntries(destinations.map((destination) => [destination, [0, 0]])),
      },
      placed: destinations.map((destination) => ({ destination, mask: [1, 2] as const, ends: "e" })),
    });
    const packs = async () => {
      const all = db.prepare(
        `SELECT bundle_id, destination_id, delivered0, delivered1, ended_at, ends, waiting0 FROM packs
         ORDER BY bundle_id, destination_id`,
      );
      return (await all.all()).results.map((row) => Object.values(row));
    };
    const ended = [1, 2, 5, "e", 0];

    test("stores them with their bundles only", async () => {
      const first = unit(
        [placing(bundle("a"), "dst_p", "dst_q"), bundle("b"), placing(bundle("c"), "dst_p")],
        { keys: [key("acme", "one", "a")] },
      );
      const second = unit([placing(bundle("d"), "dst_q")]);
      expect(await commit([first, second, unit([bundle("e")])])).toEqual([[1, 2, 3], [4], [5]]);
      expect(await packs()).toEqual([
        [1, "dst_p", ...ended],
        [1, "dst_q", ...ended],
        [3, "dst_p", ...ended],
        [4, "dst_q", ...ended],
      ]);
      await db.prepare("DELETE FROM packs").run();
      const another = unit([placing(bundle("f"), "dst_p")]);
      expect(await commit([first, another, second])).toEqual([undefined, [6], undefined]);
      expect(await packs()).toEqual([[6, "dst_p", ...ended]]);
    });

    test.each([
      ["together with another event that is for such a destination", bundle("a", "b")],
      ["when there is such a destination", bundle("a")],
    ])("stores none with the newest bundle, of a try without an answer that is repeated %s", async (_, again) => {
      expect(await commit([unit([bundle("a")])])).toEqual([[1]]);
      expect(await commit([unit([placing(again, "dst_p")])])).toEqual([undefined]);
      expect(await packs()).toEqual([]);
    });
  });

  test("finds tokens in bundles accepted within spans of time, each once", async () => {
    await commit([..."abcdef"].map((token) => unit([bundle(token)])));
    for (const [i, at] of [1_000, 2_000, 2_000, 3_000, 500_000, 501_000].entries())
      await db
        .prepare("UPDATE bundles SET accepted_at = ?2 WHERE id = ?1")
        .bind(i + 1, at)
        .run();
    const found = async (...within: [number, number][]) => {
      const { tokens } = await findCommitted(db, 0, { within, tokens: [..."abcdef"], keys: [] });
      return tokens.map(({ token }) => token).join("");
    };
    expect(await found([2_000, 2_000])).toBe("bc");
    expect(await found([1_001, 2_999])).toBe("bc");
    expect(await found([1_000, 3_000])).toBe("abcd");
    expect(await found([2_001, 3_000], [500_000, 500_000])).toBe("de");
    expect(await found([2_000, 3_000], [1_000, 2_500])).toBe("abcd");
    expect(await found([1_000, 500_000], [2_000, 2_001])).toBe("abcde");
    expect(await found([501_000, 501_000], [1_000, 1_000])).toBe("af");
    expect(await found()).toBe("");
  });

  test("is refused by a further database that a tenant has been pinned away from, for good", async () => {
    await commit([unit([bundle("a")], { keys: [key("acme", "one", "a")] })]);
    const sought = {
      ...{ within: 0, keys: [{ tenant: "acme", key: "one" }] },
      tenants: ["acme", "new", "none"],
    };
    const before = await findCommitted(db, 1, { ...sought, tokens: ["a"] });
    expect(before.pinned).toEqual(new Map([["acme", 4]]));
    for (const [tokens, at] of [[["a"], 70] as const, [[], 80] as const]) {
      const found = await findCommitted(db, 1, { ...sought, tokens, pin: { tenants: ["new"], at } });
      expect(found.tokens).toEqual(tokens.map((token) => ({ id: 1, place: 0, token })));
      expect(found).toMatchObject({ keys: [{ key: "one", bundles: [1] }], highest: 1 });
      expect([...found.pinned].toSorted()).toEqual([
        ["acme", 4],
        ["new", 70],
      ]);
    }
    expect((await findCommitted(db, 0, { ...sought, tokens: ["a"] })).pinned).toEqual(new Map());
  });

  test.each([
    ["places", "oops"],
    ["places", "{}"],
    ["places", '[["a", 0]]'],
    ["bundles", "oops"],
    ["bundles", "{}"],
    ["bundles", '["a"]'],
  ])("takes a key for used by another request when an edit has damaged its %s (%s)", async (column, value) => {
    await commit([unit([bundle("a")], { keys: [key("acme", "one", "a")] })]);
    await db.prepare(`UPDATE idempotency_keys SET ${column} = ?1`).bind(value).run();
    expect((await find(0, [], [{ tenant: "acme", key: "one" }])).keys).toEqual([
      { tenant: "acme", key: "one", fingerprint: "unreadable", bundles: [], places: [] },
    ]);
  });

  test("without tokens searches no bundle", async () => {
    const { db: metered, used } = meteredD1(db);
    const found = await findCommitted(metered, 0, { within: 0, tokens: [], keys: [] });
    expect(found).toEqual({ tokens: [], keys: [], highest: 0, pinned: new Map() });
    expect(used().queries).toBe(2);
  });
});

describe("stored bundles", () => {
  beforeAll(async () => {
    await emptyDatabase();
    const labelled = { tags: ["blue"], channels: ["eu", "at"] };
    await insertBundles(db, [
      {
        id: 3,
        acceptedAt: 100,
        events: [{ destinations: ["dst_a"] }, { tenant: "other", type: "b", ...labelled }],
      },
      { id: 5, acceptedAt: 300, deliverAt: 900, events: [{ tenant: "third", destinations: ["dst_b"] }] },
      { id: 8, acceptedAt: 200, events: [{ type: "c" }] },
    ]);
    await db
      .prepare("UPDATE bundles SET header = json_set(header, '$.erased', json('[1,1]')) WHERE id = 3")
      .run();
  });

  test.each([
    [100, 0],
    [101, 3],
    [300, 3],
    [301, 8],
  ])("are above an id from a minute before their acceptance on: %d: %d", async (time, id) => {
    expect(await idBefore(db, time + 60_000)).toBe(id);
  });

  test("have their plans, and their times if they are scheduled", async () => {
    expect(await findPlans(db, [5, 4, 3])).toEqual([
      { id: 3, tokens: expect.any(Array), plan: { dst_a: [0, 0] }, acceptedAt: 100 },
      { id: 5, tokens: expect.any(Array), plan: { dst_b: [0, 0] }, acceptedAt: 300, deliverAt: 900 },
    ]);
    const { db: metered, used } = meteredD1(db);
    expect(await findPlans(metered, [])).toEqual([]);
    expect(used().roundTrips).toBe(0);
  });

  test("have no plan where an edit has damaged it, and no tokens where one has damaged those", async () => {
    await insertBundles(db, [
      { id: 6, acceptedAt: 300, events: [{ destinations: ["dst_a"] }] },
      { id: 7, acceptedAt: 300, events: [{ destinations: ["dst_a"] }] },
    ]);
    await db.prepare("UPDATE bundles SET plan = 'oops' WHERE id = 6").run();
    await db.prepare("UPDATE bundles SET tokens = 'oops' WHERE id = 7").run();
    expect(await findPlans(db, [6, 7])).toEqual([
      { id: 7, tokens: [], plan: { dst_a: [0, 0] }, acceptedAt: 300 },
    ]);
    await db.prepare("DELETE FROM bundles WHERE id IN (6, 7)").run();
  });

  test("have the parts of their events that a list shows, without removed ones", async () => {
    const events = [eventAt(8, 0), eventAt(3, 1), eventAt(3, 0), eventAt(3, 2), eventAt(4, 0)];
    const { db: metered, used } = meteredD1(db);
    const plain = { tags: [], channels: [], isErased: false };
    expect(await eventNames({ db: metered }, events)).toEqual(
      new Map([
        [eventAt(8, 0), { tenant: "acme", type: "c", acceptedAt: 200, ...plain }],
        [eventAt(3, 0), { tenant: "acme", type: "a", acceptedAt: 100, ...plain }],
        [
          eventAt(3, 1),
          {
            tenant: "other",
            type: "b",
            acceptedAt: 100,
            tags: ["blue"],
            channels: ["at", "eu"],
            isErased: true,
          },
        ],
      ]),
    );
    expect(used().roundTrips).toBe(1);
    expect(await eventNames({ db }, [])).toEqual(new Map());
  });
});

describe("the bodies of a bundle", () => {
  test("are compressed from 128 bytes on, if that saves bytes", async () => {
    const encodingOf = async (text: string) => (await storeBodies([encoder.encode(text)])).encoding;
    expect(await encodingOf("x".repeat(127))).toBe("plain");
    expect(await encodingOf("x".repeat(128))).toBe("gzip");
  });

  test("come with the request headers of events that have some", async () => {
    const own = encoder.encode(JSON.stringify({ 1: { "x-trace": "7" } }));
    const bodies = ["{}", "[1]", "0"].map((text) => encoder.encode(text));
    const { hex, ...how } = await storeBodies([...bodies, own]);
    const header: StoredHeader = storedHeader(
      bodies.map(({ byteLength }) => ({ tenant: "acme", type: "a", bytes: byteLength })),
      { ...how, headerBytes: own.byteLength },
    );
    const contents = await readContents(hex, header);
    expect(contents?.map(({ body, ...more }) => ({ ...more, body: new TextDecoder().decode(body) }))).toEqual(
      [{ body: "{}" }, { body: "[1]", headers: { "x-trace": "7" } }, { body: "0" }],
    );
  });
});

describe("the ids of a range of times", () => {
  const MINUTE = 60_000;
  const FAR = beforeFirstBundleOf(2);
  const first = async (minute: number) => (await idRangeOf(db, { since: (minute + 1) * MINUTE })).first;
  const last = async (minute: number) => (await idRangeOf(db, { until: (minute - 1) * MINUTE })).last;

  beforeAll(async () => {
    await emptyDatabase();
    // Ids of the third database and the minutes in which they were accepted.
    const accepted = { 1: 1, 2: 2, 3: 3, 4: 4, 10: 5, 11: 6, 12: 6, 15: 6, 16: 6, 17: 8, 40: 8.5, 41: 9 };
    await insertBundles(
      db,
      Object.entries(accepted).map(([id, minute]) => ({
        ...{ id: FAR + Number(id), acceptedAt: minute * MINUTE, events: [{}] },
      })),
    );
  });

  test.each([
    [0, 1],
    [1, 1],
    [1.5, 2],
    [4, 4],
    [4.5, 5],
    [5, 5],
    [5.1, 11],
    [6, 11],
    [6.1, 17],
    [8, 17],
    [8.2, 18],
    [8.6, 41],
    [9, 41],
    [9.1, 42],
  ])("begin at the first bundle that was not accepted before (minute %d)", async (minute, bundle) => {
    const found = await first(minute);
    expect(found % 128).toBe(0);
    const stored = [1, 2, 3, 4, 10, 11, 12, 15, 16, 17, 40, 41, 42];
    const next = (id: number) => stored.find((one) => one >= id);
    expect(next(found / 128 - FAR)).toBe(next(bundle));
    expect(await last(minute)).toBe(found - 1);
  });

  test("begin with the first or end with the last without such a bound", async () => {
    expect(await idRangeOf(db, {})).toEqual({ first: 1, last: Number.MAX_SAFE_INTEGER });
    expect(await idRangeOf(db, { since: 0 })).toMatchObject({ last: Number.MAX_SAFE_INTEGER });
    expect(await idRangeOf(db, { until: 0 })).toEqual({ first: 1, last: eventAt(FAR + 1, 0) - 1 });
  });

  test("are determined by reading a few rows of many", async () => {
    const { db: metered, used } = meteredD1(db);
    await idRangeOf(metered, { since: 5 * MINUTE });
    expect(used().rowsRead).toBeLessThanOrEqual(2 * 40);
  });
});
