/**
 * Which bundles are old, what prevents their removal, and that they are removed with all that is theirs and nothing
 * else.
 */
import { env } from "cloudflare:workers";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { eventAt } from "../../src/core/bundle.ts";
import {
  destinationFacts,
  oldBundles,
  oldTombstones,
  removeEnded,
  removeTombstones,
  withoutDeliveries,
} from "../../src/store/retention.ts";
import { insertBundles } from "../support/bundle-rows.ts";
import { emptyDatabase } from "../support/databases.ts";
import { meteredD1 } from "../support/meter.ts";
import {
  deliveryStates,
  insertDeliveries,
  insertDestinations,
  insertPacks,
  insertReplays,
  insertRows,
} from "../support/stored-deliveries.ts";

const db = env.DB;
const run = (sql: string) => db.prepare(sql).run();
const HOUR = 3_600_000;
const NOW = 1_800_000_000_000;
const [A, B, C] = ["dst_a", "dst_b", "dst_c"];

/** Events, each for these destinations. */
const planned = (...plans: string[][]) => plans.map((destinations) => ({ destinations }));

describe("old bundles", () => {
  const most = { horizon: 30, bundles: 10, deliveries: 100 };

  beforeAll(async () => {
    await emptyDatabase();
    await insertBundles(db, [
      { id: 3, acceptedAt: 10, keys: [["acme", "k"]], events: planned([A, B], [A]) },
      { id: 4, acceptedAt: 20, deliverAt: 31, events: planned([A]) },
      { id: 5, acceptedAt: 20, deliverAt: 30, events: [{ tenant: "other" }] },
      { id: 6, acceptedAt: 30, events: planned([B]) },
      { id: 7, acceptedAt: 31, events: planned([A]) },
      { id: 8, acceptedAt: 5, events: planned([A]) },
    ]);
  });

  test("come with everything that their removal needs, without those that are due later", async () => {
    const more = { keys: [], tenants: ["acme"] };
    expect(await oldBundles(db, 0, most)).toEqual({
      bundles: [
        {
          bundle: 3,
          acceptedAt: 10,
          planned: 3,
          plan: { [A]: [0, 1], [B]: [0, 0] },
          ...more,
          keys: [["acme", "k"]],
        },
        { bundle: 5, acceptedAt: 20, planned: 0, plan: {}, ...more, tenants: ["other"] },
        { bundle: 6, acceptedAt: 30, planned: 1, plan: { [B]: [0, 0] }, ...more },
      ],
      upto: 6,
      unreadable: [],
      isLast: true,
    });
  });

  test.each<[after: number, more: Partial<typeof most>, found: number[], upto: number, isLast: boolean]>([
    [3, { bundles: 1 }, [], 4, false],
    [3, { bundles: 2 }, [5], 5, false],
    [3, { bundles: 3 }, [5, 6], 6, false],
    [5, { bundles: 3 }, [6], 6, true],
    [6, {}, [], 6, true],
    [0, { horizon: 29 }, [3], 5, true],
    [0, { horizon: 10 }, [3], 3, true],
    [0, { horizon: 9 }, [], 0, true],
    [0, { deliveries: 4 }, [3, 5], 5, false],
    [0, { deliveries: 5 }, [3, 5, 6], 6, true],
    [0, { deliveries: 1 }, [3], 3, false],
  ])("after bundle %i within %j are %j", async (after, more, found, upto, isLast) => {
    const page = await oldBundles(db, after, { ...most, ...more });
    expect({ ...page, bundles: page.bundles.map(({ bundle }) => bundle) }).toEqual({
      unreadable: [],
      bundles: found,
      upto,
      isLast,
    });
  });

  test("are not read beyond the first if that is too young", async () => {
    const { db: metered, used } = meteredD1(db);
    await oldBundles(metered, 6, most);
    expect(used().rowsRead).toBeLessThanOrEqual(2);
  });
});

/** A bundle as the page has it. */
const pageOf = (bundle: number, plan: Record<string, number[]>, more: object = {}) => ({
  ...{ bundle, acceptedAt: 0, planned: 0, plan, keys: [], tenants: ["acme"] },
  ...more,
});

describe("what destinations and replays hold back", () => {
  const ids = ["dst_a", "dst_b", "dst_c", "dst_d", "dst_e", "dst_f", "dst_g"];

  beforeAll(async () => {
    await emptyDatabase();
    await insertDestinations(
      db,
      [...ids.slice(1), "dst_x", "dst_y", "dst_z"].map((id) => ({
        id,
        deletedAt: ["dst_e", "dst_y"].includes(id) ? 1 : null,
      })),
    );
    const missing = { include: "missing", tenant: "other" };
    const replays = [
      { id: "rpl_c", destination: "dst_c" },
      { id: "rpl_d", destination: "dst_d", state: "paused", since: 6 },
      { id: "rpl_e", destination: "dst_e" },
      { id: "rpl_f", destination: "dst_f", state: "completed" },
      { id: "rpl_g", destination: "dst_g", state: "paused", include: "missing", since: 7 },
      { id: "rpl_x", destination: "dst_x", ...missing },
      { id: "rpl_y", destination: "dst_y", ...missing },
      { id: "rpl_z", destination: "dst_z", ...missing, state: "cancelled" },
    ];
    await insertReplays(
      db,
      replays.map((one) => ({ since: 5, until: 9, ...one })),
    );
  });

  test("are events that running replays of existing destinations may select, and deleted rows", async () => {
    const half = Math.ceil(ids.length / 2);
    const plans = [ids.slice(0, half), ids.slice(half - 1)].map((some) =>
      Object.fromEntries(some.map((id) => [id, [0, 0]])),
    );
    const { gone, replays } = await destinationFacts(
      db,
      plans.map((plan, i) => pageOf(i + 1, plan)),
    );
    expect(gone).toEqual(["dst_a"]);
    expect(replays.toSorted((a, b) => a.since - b.since || (a.destination < b.destination ? -1 : 1))).toEqual(
      [
        { destination: "dst_c", tenant: null, since: 5, until: 9 },
        { destination: "dst_x", tenant: "other", since: 5, until: 9 },
        { destination: "dst_d", tenant: null, since: 6, until: 9 },
        { destination: "dst_g", tenant: null, since: 7, until: 9 },
        { destination: "dst_g", tenant: "acme", since: 7, until: 9 },
      ],
    );
  });

  test("are only replays of missing deliveries for bundles without destinations", async () => {
    const { gone, replays } = await destinationFacts(db, [pageOf(1, {})]);
    expect(gone).toEqual([]);
    expect(replays.map(({ destination }) => destination).toSorted()).toEqual(["dst_g", "dst_x"]);
  });
});

describe("removing bundles", () => {
  const nothing = { gone: [], replays: [] };

  beforeEach(emptyDatabase);

  const left = async (table: string, column: string) => {
    const { results } = await db
      .prepare(`SELECT ${column} AS one FROM ${table} ORDER BY 1`)
      .all<{ one: unknown }>();
    return results.map(({ one }) => one);
  };
  const bundlesLeft = () => left("bundles", "id");
  const key = (tenant: string, name: string) => ({
    ...{ tenant, key: name, fingerprint: "f", bundles: [2], places: [[0, 0]], created_at: 0 },
  });

  /**
   * Two bundles with the same destinations and the youngest behind them. All of the first has ended, an hour ago; the
   * second is the same except for what the test changes.
   */
  async function storeTwo() {
    const plans = planned([A, B], [A, B], [A], [C], [], [A]);
    await insertBundles(db, [
      { id: 2, events: plans },
      { id: 3, events: plans },
      { id: 4, events: plans },
    ]);
    const endedAt = NOW - HOUR;
    for (const bundle of [2, 3, 4]) {
      await insertDeliveries(db, [
        { destination: A, event: eventAt(bundle, 0), state: "delivered", endedAt },
        { destination: A, event: eventAt(bundle, 1), state: "dead", reason: "expired", endedAt },
        { destination: B, event: eventAt(bundle, 1), state: "cancelled", endedAt },
      ]);
      await insertPacks(db, [
        { destination: A, bundle, delivered: [2], cancelled: [5], endedAt },
        { destination: B, bundle, delivered: [0], endedAt },
        { destination: C, bundle, delivered: [3], endedAt },
      ]);
    }
    await insertRows(db, "idempotency_keys", [
      key("acme", "one"),
      key("acme", "two"),
      key("acme", "three"),
      key("other", "one"),
    ]);
    const plan = { [A]: [0, 2, 5, 5], [B]: [0, 1], [C]: [3, 3] };
    return [
      pageOf(2, plan, { planned: 7, keys: [["acme", "one"]] }),
      pageOf(3, plan, { planned: 7, keys: [["acme", "two"]] }),
    ];
  }

  const keysLeft = () => left("idempotency_keys", "tenant || ' ' || key");
  const EVERY_KEY = ["acme one", "acme three", "acme two", "other one"];

  test("also removes their deliveries, packs and keys, and no others", async () => {
    const old = await storeTwo();
    const before = await deliveryStates(db);
    expect(await removeEnded(db, old.slice(0, 1), nothing, NOW)).toEqual({ events: 6, deliveries: 7 });
    expect(await bundlesLeft()).toEqual([3, 4]);
    expect(await deliveryStates(db)).toEqual(
      before.filter((one) => Number(one.split(" ")[1]) >= eventAt(3, 0)),
    );
    expect(await left("packs", "bundle_id")).toEqual([3, 3, 3, 4, 4, 4]);
    expect(await keysLeft()).toEqual(EVERY_KEY.filter((one) => one !== "acme one"));
    expect(await removeEnded(db, old, nothing, NOW)).toEqual({ events: 6, deliveries: 7 });
    expect(await bundlesLeft()).toEqual([4]);
    expect(await keysLeft()).toEqual(["acme three", "other one"]);
  });

  test.each([
    [
      "a row waits again",
      `UPDATE deliveries SET state = 'waiting' WHERE event_id = ${eventAt(3, 1)} AND destination_id = '${B}'`,
    ],
    ["a row is retried again", `UPDATE deliveries SET state = 'retrying' WHERE event_id = ${eventAt(3, 0)}`],
    [
      "a row ended less than an hour ago",
      `UPDATE deliveries SET ended_at = ${NOW - HOUR + 1} WHERE event_id = ${eventAt(3, 0)}`,
    ],
    [
      "a pack ended less than an hour ago",
      `UPDATE packs SET ended_at = ${NOW - HOUR + 1} WHERE bundle_id = 3 AND destination_id = '${B}'`,
    ],
    [
      "a bit waits",
      `UPDATE packs SET waiting0 = delivered0, delivered0 = 0 WHERE bundle_id = 3 AND destination_id = '${C}'`,
    ],
    ["a row is not there yet", `DELETE FROM deliveries WHERE event_id = ${eventAt(3, 0)}`],
    ["a pack is not there yet", `DELETE FROM packs WHERE bundle_id = 3 AND destination_id = '${C}'`],
    [
      "a bit is not there yet",
      `UPDATE packs SET cancelled0 = 0 WHERE bundle_id = 3 AND destination_id = '${A}'`,
    ],
    ["more is planned by now", "UPDATE bundles SET planned = 8 WHERE id = 3"],
  ])("leaves a bundle as a whole of which %s, and removes the others", async (_, change) => {
    const old = await storeTwo();
    await run(change);
    const before = await deliveryStates(db);
    const { events } = await removeEnded(db, old, nothing, NOW);
    expect(events).toBe(6);
    expect(await bundlesLeft()).toEqual([3, 4]);
    expect(await deliveryStates(db)).toEqual(
      before.filter((one) => Number(one.split(" ")[1]) >= eventAt(3, 0)),
    );
    expect(await keysLeft()).toEqual(EVERY_KEY.filter((one) => one !== "acme one"));
  });

  test("does not count ends of other bundles or destinations as missing ones", async () => {
    const old = await storeTwo();
    const endedAt = 0;
    await run(`DELETE FROM deliveries WHERE event_id = ${eventAt(3, 0)}`);
    await run(`DELETE FROM packs WHERE bundle_id = 3 AND destination_id = '${C}'`);
    await insertDeliveries(db, [
      { destination: A, event: eventAt(2, 127), state: "delivered", endedAt },
      { destination: "dst_d", event: eventAt(3, 0), state: "delivered", endedAt },
      { destination: A, event: eventAt(5, 0), state: "delivered", endedAt },
    ]);
    await insertPacks(db, [{ destination: "dst_d", bundle: 3, delivered: [0], endedAt }]);
    await removeEnded(db, old.slice(1), nothing, NOW);
    expect(await bundlesLeft()).toEqual([2, 3, 4]);
  });

  test("never removes the newest, so that its number is not reused", async () => {
    const [first] = await storeTwo();
    if (first === undefined) throw new Error("Two were stored");
    const newest = { ...first, bundle: 4 };
    expect(await removeEnded(db, [first, newest], nothing, NOW)).toEqual({ events: 6, deliveries: 7 });
    expect(await bundlesLeft()).toEqual([3, 4]);
  });

  test("does not wait for deleted destinations, and removes their remains", async () => {
    const [first] = await storeTwo();
    if (first === undefined) throw new Error("Two were stored");
    await run(
      `UPDATE packs SET waiting0 = delivered0, delivered0 = 0 WHERE bundle_id = 2 AND destination_id = '${C}'`,
    );
    expect(await removeEnded(db, [first], nothing, NOW)).toEqual({ events: 0, deliveries: 0 });
    expect(await removeEnded(db, [first], { ...nothing, gone: [C] }, NOW)).toEqual({
      events: 6,
      deliveries: 7,
    });
    expect(await left("packs", "bundle_id")).toEqual([3, 3, 3, 4, 4, 4]);
  });

  test.each<
    [
      why: string,
      replays: { destination: string; tenant: string | null; since: number; until: number }[],
      isKept: boolean,
    ]
  >([
    ["of one of its destinations", [{ destination: B, tenant: null, since: 500, until: 501 }], true],
    ["that begins after it", [{ destination: B, tenant: null, since: 501, until: 900 }], false],
    ["that ends before it", [{ destination: B, tenant: null, since: 0, until: 500 }], false],
    ["of another destination", [{ destination: "dst_d", tenant: null, since: 0, until: 900 }], false],
    [
      "of its tenant's missing deliveries",
      [{ destination: "dst_d", tenant: "acme", since: 0, until: 900 }],
      true,
    ],
    [
      "of another tenant's missing deliveries",
      [{ destination: "dst_d", tenant: "other", since: 0, until: 900 }],
      false,
    ],
    [
      "that is one of several",
      [
        { destination: "dst_d", tenant: null, since: 0, until: 900 },
        { destination: B, tenant: null, since: 0, until: 900 },
      ],
      true,
    ],
  ])("leaves events that a replay may select, %s", async (_, replays, isKept) => {
    const old = await storeTwo();
    const page = old.map((one, i) => ({ ...one, acceptedAt: 500 + 1_000 * i }));
    await removeEnded(db, page, { gone: [], replays }, NOW);
    expect(await bundlesLeft()).toEqual(isKept ? [2, 4] : [4]);
  });

  test("removes the keys of all events of full bundles, however long they are", async () => {
    const ids = Array.from({ length: 100 }, (_, i) => i + 1);
    const keysOf = (id: number) => ids.map((i) => ["acme", `${id} ${i}`.padEnd(255, "k")] as const);
    await insertBundles(
      db,
      [...ids, 101].map((id) => ({ id, keys: keysOf(id), events: [{}] })),
    );
    const stored = [1, 100].map((id) => key("acme", keysOf(id)[99]?.[1] ?? ""));
    await insertRows(db, "idempotency_keys", [...stored, key("acme", "another")]);
    const old = ids.map((id) => pageOf(id, {}, { keys: keysOf(id) }));
    expect(await removeEnded(db, old, nothing, NOW)).toEqual({ events: 100, deliveries: 0 });
    expect(await keysLeft()).toEqual(["acme another"]);
  });

  test("makes no query if a replay holds everything back, and removes no keys if there are none", async () => {
    const old = await storeTwo();
    const { db: metered, used } = meteredD1(db);
    const replays = [{ destination: A, tenant: null, since: 0, until: 1 }];
    expect(await removeEnded(metered, old, { gone: [], replays }, NOW)).toEqual({ events: 0, deliveries: 0 });
    expect(used().roundTrips).toBe(0);
    await removeEnded(
      metered,
      old.map((one) => ({ ...one, keys: [] })),
      nothing,
      NOW,
    );
    expect(used()).toMatchObject({ roundTrips: 1, queries: 4 });
    expect(await keysLeft()).toEqual(EVERY_KEY);
  });
});

describe("deleted destinations", () => {
  beforeAll(async () => {
    await emptyDatabase();
    const rows = [5, 7, null, 5, 6, 8].map((deletedAt, i) => ({ id: `dst_${i}`, deletedAt }));
    await insertDestinations(db, rows);
    await insertDeliveries(db, [{ destination: "dst_0", event: 130, state: "dead" }]);
    await insertPacks(db, [{ destination: "dst_4", bundle: 2, delivered: [1] }]);
  });

  test.each([
    1, 2, 3, 4, 5,
  ])("come in the order of their deletion, by a time, in pages of %d", async (limit) => {
    const seen: string[] = [];
    for (let after = { at: 0, row: 0 }, isOver = false; !isOver && seen.length < 9; ) {
      const page = await oldTombstones(db, after, 7, limit);
      seen.push(...page.map(({ id }) => id));
      after = page.at(-1) ?? after;
      isOver = page.length < limit;
    }
    expect(seen).toEqual(["dst_0", "dst_3", "dst_4", "dst_1"]);
  });

  test("that have deliveries left, in rows or in packs, are distinguished from those without", async () => {
    const ids = ["dst_4", "dst_3", "dst_none", "dst_0", "dst_1"];
    expect(await withoutDeliveries({ db }, ids)).toEqual(["dst_3", "dst_none", "dst_1"]);
  });

  test("are removed by their ids, except restored ones", async () => {
    const { db: metered, used } = meteredD1(db);
    await removeTombstones(metered, []);
    expect(used().roundTrips).toBe(0);
    await insertDestinations(db, [
      { id: "dst_x", deletedAt: 1 },
      { id: "dst_y", deletedAt: null },
      { id: "dst_z", deletedAt: 1 },
    ]);
    await removeTombstones(metered, ["dst_x", "dst_y"]);
    const { results } = await db.prepare("SELECT id FROM destinations WHERE id > 'dst_w' ORDER BY id").all();
    expect(results).toEqual([{ id: "dst_y" }, { id: "dst_z" }]);
    await run("DELETE FROM destinations WHERE id > 'dst_w'");
  });
});
