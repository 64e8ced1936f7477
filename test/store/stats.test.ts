/** Figures for operators count what their names say, for the requested tenant or destination, up to their bounds. */
import { env } from "cloudflare:workers";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { eventAt } from "../../src/core/bundle.ts";
import {
  addToCount,
  backlogOf,
  countKeyed,
  countOutcomes,
  LATEST_MIGRATION,
  OUTCOMES_COUNTED,
  readAppliedMigrations,
  readCounts,
  readSystemHealth,
  retriesByDestination,
  retryingForADay,
  saveBacklogSnapshot,
} from "../../src/store/stats.ts";
import { insertBundles } from "../support/bundle-rows.ts";
import { emptyDatabase } from "../support/databases.ts";
import { interceptedD1 } from "../support/intercept.ts";
import { meteredD1 } from "../support/meter.ts";
import { insertDeliveries, insertPacks, insertRows } from "../support/stored-deliveries.ts";

const db = env.DB;
const run = (sql: string) => db.prepare(sql).run();
const HOUR = 3_600_000;
const MINUTE = 60_000;
const NOW = 1_800_000_000_000;
const [A, B, C] = ["dst_a", "dst_b", "dst_c"];

describe("the health of the system", () => {
  beforeEach(emptyDatabase);

  test("of an empty database is only its size", async () => {
    const { databases, ...health } = await readSystemHealth({ db });
    expect(health).toEqual({
      ...{ heartbeatAt: null, oldestDueAt: null, deduplicated: 0, keyed: 0, unreadable: 0 },
    });
    expect(databases).toMatchObject([{ name: "DB" }]);
    const [{ bytes, headroomBytes } = { bytes: 0, headroomBytes: 0 }] = databases;
    expect(bytes).toBeGreaterThan(0);
    expect(bytes + headroomBytes).toBe(10_000_000_000);
  });

  test.each<[rows: number[], recovered: number[], oldest: number]>([
    [[70, 50, 60], [90, 80], 50],
    [[70, 60], [90, 55, 80], 55],
    [[], [90, 55], 55],
    [[70, 60], [], 60],
  ])("shows when the first retry of rows (%j) and of packs (%j) is due", async (rows, recovered, oldest) => {
    await insertRows(db, "sweeps", [{ id: 1, heartbeat_at: 40 }]);
    await insertDeliveries(db, [
      ...rows.map((at, i) => ({
        destination: A,
        event: 130 + i,
        state: "retrying" as const,
        nextAttemptAt: at,
      })),
      { destination: B, event: 130, state: "waiting", nextAttemptAt: 3 },
      { destination: B, event: 131, state: "dead", nextAttemptAt: 2 },
    ]);
    await insertPacks(db, [
      ...recovered.map((at, i) => ({ destination: A, bundle: 2 + i, inFlight: [1], recoverAt: at })),
      { destination: B, bundle: 2, waiting: [1], nextAttemptAt: 1 },
    ]);
    expect(await readSystemHealth({ db })).toMatchObject({ heartbeatAt: 40, oldestDueAt: oldest });
  });

  test.each([
    [["keyed", "deduplicated"]],
    [["deduplicated", "keyed"]],
  ] as const)("reports how many requests had keys, and how many repeated one (%j)", async (names) => {
    for (const name of names) await addToCount(db, name, name === "keyed" ? 5 : 2);
    await addToCount(db, "keyed", 6);
    expect(await readSystemHealth({ db })).toMatchObject({ keyed: 11, deduplicated: 2 });
    expect(await readCounts({ db })).toEqual({ keyed: 11, deduplicated: 2 });
    await run("DELETE FROM counts WHERE name = 'deduplicated'");
    expect(await readSystemHealth({ db })).toMatchObject({ keyed: 11, deduplicated: 0 });
  });

  test("reads no more rows, however many deliveries are over", async () => {
    const { db: metered, used } = meteredD1(db);
    await readSystemHealth({ db: metered });
    const before = used().rowsRead;
    const many = Array.from({ length: 50 }, (_, i) => i);
    await insertPacks(
      db,
      many.map((i) => ({ destination: A, bundle: 2 + i, delivered: [1] })),
    );
    await insertDeliveries(
      db,
      many.map((i) => ({ destination: B, event: 130 + i, state: "delivered" })),
    );
    await readSystemHealth({ db: metered });
    expect(used().rowsRead).toBe(before);
  });
});

describe("the applied migrations", () => {
  test("end with the latest, in each database that has a record", async () => {
    const { db: metered } = meteredD1(db);
    const withoutRecord = interceptedD1(db, async () => {
      throw new Error("D1_ERROR: no such table: d1_migrations");
    });
    const withoutRows = interceptedD1(db, async (_, call) => ({ ...(await call()), results: [] }));
    const found = await readAppliedMigrations({ db: metered, further: [withoutRecord, withoutRows] });
    expect(found).toMatchObject([
      { migration: LATEST_MIGRATION, name: "DB" },
      undefined,
      { migration: null, name: "DB_2" },
    ]);
    expect(LATEST_MIGRATION).not.toBe("");
  });
});

describe("retries", () => {
  beforeAll(async () => {
    await emptyDatabase();
    const retrying = { state: "retrying", firstAttemptAt: NOW - 24 * HOUR - 1 } as const;
    await insertBundles(db, [
      { id: 1, events: [{ tenant: "acme" }, { tenant: "other" }, { tenant: "acme" }] },
      { id: 2, events: [{ tenant: "other" }, { tenant: "acme" }, { tenant: "third" }] },
    ]);
    await insertDeliveries(db, [
      { destination: A, event: eventAt(1, 0), ...retrying },
      { destination: A, event: eventAt(1, 1), ...retrying },
      { destination: B, event: eventAt(1, 1), ...retrying, state: "waiting" },
      { destination: B, event: eventAt(2, 0), ...retrying },
      { destination: C, event: eventAt(2, 2), ...retrying, state: "waiting" },
      // Too young by a millisecond, without an attempt, and over.
      { destination: A, event: eventAt(2, 1), ...retrying, firstAttemptAt: NOW - 24 * HOUR },
      { destination: A, event: eventAt(1, 2), state: "waiting" },
      { destination: B, event: eventAt(2, 1), ...retrying, state: "dead" },
      { destination: C, event: eventAt(1, 0), ...retrying, state: "delivered" },
    ]);
    await insertPacks(db, [
      { destination: A, bundle: 7, inFlight: [0, 49, 50], waiting: [1], recoverAt: NOW },
      { destination: A, bundle: 8, inFlight: [99], delivered: [1], recoverAt: NOW },
      { destination: C, bundle: 8, waiting: [1, 2], delivered: [3], cancelled: [4] },
    ]);
  });

  test("are counted by destination, with attempts in flight", async () => {
    expect(await retriesByDestination({ db })).toEqual(
      new Map([
        [A, 7],
        [B, 1],
      ]),
    );
  });

  test.each<[scope: Parameters<typeof retryingForADay>[1], count: number]>([
    [{}, 5],
    [{ tenant: "acme" }, 1],
    [{ tenant: "other" }, 3],
    [{ tenant: "none" }, 0],
    [{ destination: A }, 2],
    [{ destination: B }, 2],
    [{ destination: C, tenant: "third" }, 1],
    [{ destination: A, tenant: "third" }, 0],
    [{ without: "other" }, 2],
    [{ without: "third", destination: B }, 2],
    [{ without: "none" }, 5],
  ])("for longer than a day are those that have not ended, of the requested destinations (%j)", async (scope, count) => {
    expect(await retryingForADay({ db }, scope, NOW)).toBe(count);
  });
});

describe("outcomes", () => {
  const none = { waiting: 0, in_flight: 0, retrying: 0, delivered: 0, dead: 0, cancelled: 0 };

  beforeAll(async () => {
    await emptyDatabase();
    await insertBundles(
      db,
      [1, 2, 3].map((id) => ({ id, acceptedAt: id * 10 * MINUTE, events: [{}] })),
    );
    const states = ["waiting", "retrying", "retrying", "delivered", "dead", "dead", "cancelled"] as const;
    for (const bundle of [1, 2, 3])
      await insertDeliveries(db, [
        ...states.map((state, i) => ({ destination: A, event: eventAt(bundle, i), state, reason: "rate" })),
        { destination: A, event: eventAt(bundle, 127), state: "retrying", reason: "in_flight" },
        { destination: B, event: eventAt(bundle, 0), state: "dead" },
      ]);
    const masks = {
      waiting: [10, 11, 60],
      inFlight: [12, 61],
      delivered: [13, 14, 62, 63, 64],
      cancelled: [15],
    };
    await insertPacks(db, [
      ...[1, 2, 3].map((bundle) => ({ destination: A, bundle, ...masks })),
      { destination: B, bundle: 2, delivered: [1] },
    ]);
  });

  const times = (count: number) => ({
    ...{ waiting: 4 * count, in_flight: 3 * count, retrying: 2 * count },
    ...{ delivered: 6 * count, dead: 2 * count, cancelled: 2 * count },
  });

  test.each([
    ["all", {}, 3],
    ["those since a time", { since: 20 * MINUTE }, 2],
    ["those until a time", { until: 20 * MINUTE }, 2],
    ["those of a range", { since: 15 * MINUTE, until: 25 * MINUTE }, 1],
    ["those before any", { until: 5 * MINUTE }, 0],
    ["those after all", { since: 35 * MINUTE }, 0],
  ])("of a destination are counted by state, in rows and packs: %s", async (_, range, count) => {
    expect(await countOutcomes({ db }, A, range)).toEqual(times(count));
  });

  test("of another destination are its own, and of an unknown one none", async () => {
    expect(await countOutcomes({ db }, B, {})).toEqual({ ...none, dead: 3, delivered: 1 });
    expect(await countOutcomes({ db }, "dst_none", {})).toEqual(none);
  });

  test("are those of the newest rows and packs if there are more than are counted", async () => {
    const numbers = `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i <= ${OUTCOMES_COUNTED})`;
    await run(`${numbers} INSERT OR IGNORE INTO deliveries (destination_id, event_id, state, give_up_at)
      SELECT 'dst_many', 128 + i, iif(i = 1, 'delivered', 'dead'), 0 FROM n`);
    await run(`${numbers} INSERT OR IGNORE INTO packs (destination_id, bundle_id, waiting0, cancelled0)
      SELECT 'dst_many', 1000 + i, iif(i = 1, 1, 0), iif(i = 1, 0, 1) FROM n`);
    const counted = { dead: OUTCOMES_COUNTED, cancelled: OUTCOMES_COUNTED };
    expect(await countOutcomes({ db }, "dst_many", {})).toEqual({ ...none, ...counted });
  });
});

describe("requests with keys", () => {
  beforeEach(emptyDatabase);
  const keyed = async () => (await readCounts({ db })).keyed;

  test("are counted once each, without the operator's, whatever other walks there are", async () => {
    await insertRows(db, "cursors", [{ name: "archive", at: 0, row_id: 77 }]);
    const keys = (...names: string[]) => names.map((name) => ["acme", name] as const);
    await insertBundles(db, [
      { id: 20, keys: keys("a", "b"), events: [{}] },
      { id: 21, events: [{}] },
      { id: 22, keys: [...keys("c"), ["operator", "d"]], events: [{}] },
    ]);
    await countKeyed({ db });
    expect(await keyed()).toBe(3);
    await countKeyed({ db });
    expect(await keyed()).toBe(3);
    await insertBundles(db, [{ id: 23, keys: keys("e"), events: [{}] }]);
    await countKeyed({ db });
    expect(await keyed()).toBe(4);
  });

  test("are counted in a limited number of bundles at a time", async () => {
    await insertBundles(
      db,
      [1, 60_000, 60_001, 60_002].map((id) => ({ id, keys: [["acme", `${id}`]] as const, events: [{}] })),
    );
    const counts: unknown[] = [];
    for (let i = 0; i < 3; i++) {
      await countKeyed({ db });
      counts.push(await keyed());
    }
    expect(counts).toEqual([2, 4, 4]);
  });

  test("write nothing if nothing is new, or nothing is stored", async () => {
    const { db: metered, used } = meteredD1(db);
    await countKeyed({ db: metered });
    expect(used().rowsWritten).toBe(0);
    await insertBundles(db, [{ id: 1, events: [{}] }]);
    await countKeyed({ db: metered });
    expect(await readCounts({ db })).toEqual({});
    used();
    await countKeyed({ db: metered });
    expect(used().rowsWritten).toBe(0);
  });
});

describe("backlogs", () => {
  test("are the waiting and dead deliveries of each requested destination, up to a limit", async () => {
    await emptyDatabase();
    await insertDeliveries(db, [
      ...[1, 2, 3].map((i) => ({ destination: A, event: 130 + i, state: "dead" as const })),
      { destination: A, event: 140, state: "waiting" },
      { destination: A, event: 141, state: "delivered" },
      { destination: B, event: 130, state: "waiting" },
      { destination: B, event: 131, state: "waiting" },
      { destination: C, event: 130, state: "dead" },
    ]);
    await insertPacks(db, [
      { destination: A, bundle: 2, waiting: [1, 60], delivered: [2] },
      { destination: C, bundle: 2, inFlight: [1, 60] },
    ]);
    expect(await backlogOf({ db }, [A, B, "dst_none"], 10)).toEqual(
      new Map([
        [A, { waiting: 3, dead: 3 }],
        [B, { waiting: 2, dead: 0 }],
        ["dst_none", { waiting: 0, dead: 0 }],
      ]),
    );
    expect(await backlogOf({ db }, [C, A], 2)).toEqual(
      new Map([
        [C, { waiting: 0, dead: 1 }],
        [A, { waiting: 2, dead: 2 }],
      ]),
    );
  });

  test("are saved for an hour, and the other readings of it are returned", async () => {
    await run("DELETE FROM backlog_snapshots");
    const at = [NOW - HOUR - 1, NOW - HOUR, NOW - HOUR + 1, NOW - 1, NOW, NOW + 1];
    await insertRows(
      db,
      "backlog_snapshots",
      at.map((one, i) => ({ at: one, backlogs: { [A]: i } })),
    );
    const kept = [
      { at: NOW - HOUR + 1, backlogs: { [A]: 2 } },
      { at: NOW - 1, backlogs: { [A]: 3 } },
    ];
    expect(await saveBacklogSnapshot(db, { at: NOW, backlogs: { [A]: 9 } })).toEqual(kept);
    const { results } = await db.prepare("SELECT at, backlogs FROM backlog_snapshots ORDER BY at").all();
    expect(results).toEqual(
      [...kept, { at: NOW, backlogs: { [A]: 9 } }].map((one) => ({
        ...one,
        backlogs: JSON.stringify(one.backlogs),
      })),
    );
  });
});
