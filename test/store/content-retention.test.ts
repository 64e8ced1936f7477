/**
 * For how long events are stored, by the settings of tenants and types; and what the walks that erase their content
 * find.
 */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { bundleOf, eventAt, type Plan } from "../../src/core/bundle.ts";
import { DAY_MS } from "../../src/core/retention.ts";
import {
  bundlesLater,
  contentLimitsOf,
  eventsDone,
  keptOfTenant,
  limitsInUse,
  planOfBundle,
  saveLater,
  walkOn,
} from "../../src/store/content-retention.ts";
import { emptyDatabase, insertRow } from "../support/api.ts";
import { insertBundles } from "../support/bundle-rows.ts";
import { meteredD1 } from "../support/meter.ts";

beforeEach(emptyDatabase);

const setTenant = (tenant: string, days: unknown, payloadFree = 0) =>
  insertRow("tenant_settings", {
    tenant,
    retention_days: days,
    payload_free: payloadFree,
    created_at: 0,
    updated_at: 0,
  });

const setType = (name: string, days: unknown) =>
  insertRow("event_types", { name, validates: 0, retention_days: days, created_at: 0, updated_at: 0 });

describe("the limits of some tenants and types", () => {
  test("are the shorter of the tenant's and the type's, and no other's", async () => {
    await setTenant("acme", 7);
    await setTenant("rival", 3, 1);
    await setTenant("stranger", 1, 1);
    await setType("a", 5);
    await setType("b", null);
    await setType("unasked", 1);
    const limits = await contentLimitsOf(env.DB, ["acme", "rival", "none", "acme"], ["a", "b", "a"]);
    const days = (tenant: string, type: string) => limits.keptMs({ tenant, type }) / DAY_MS;
    expect([days("acme", "a"), days("acme", "b"), days("rival", "a")]).toEqual([5, 7, 3]);
    expect([days("none", "a"), days("none", "b")]).toEqual([5, Number.POSITIVE_INFINITY]);
    expect([days("stranger", "b"), days("none", "unasked")]).toEqual(Array(2).fill(Number.POSITIVE_INFINITY));
    const free = ["acme", "rival", "none", "stranger"].filter(limits.isPayloadFree);
    expect(free).toEqual(["rival"]);
  });
});

describe("the retention of a tenant's events", () => {
  beforeEach(async () => {
    await setTenant("acme", 7);
    await setTenant("rival", 1);
    await setType("short", 2);
    await setType("as long", 7);
    await setType("longer", 9);
    await setType("unset", null);
  });

  test("is the tenant's own time, with types of a shorter one", async () => {
    expect(await keptOfTenant(env.DB, "acme", 30 * DAY_MS)).toEqual({
      ms: 7 * DAY_MS,
      types: { short: 2 * DAY_MS },
    });
  });

  test("is the deployment's if the tenant has none", async () => {
    expect(await keptOfTenant(env.DB, "none", 8 * DAY_MS)).toEqual({
      ms: 8 * DAY_MS,
      types: { short: 2 * DAY_MS, "as long": 7 * DAY_MS },
    });
  });

  test("is never longer than the deployment's", async () => {
    expect(await keptOfTenant(env.DB, "acme", DAY_MS)).toEqual({ ms: DAY_MS, types: {} });
  });
});

describe("the limits in use", () => {
  test("are none if nothing is set, or if the settings have no effect", async () => {
    const nothing = { days: [], payloadFree: false };
    expect(await limitsInUse(env.DB)).toMatchObject(nothing);
    await setTenant("acme", null);
    await setTenant("rival", -3);
    await setType("a", 0);
    await setType("b", null);
    expect(await limitsInUse(env.DB)).toMatchObject(nothing);
  });

  test.each([
    [[5, 2, 5], [], [2, 5]],
    [
      [5, 3],
      [9, 4, 3],
      [3, 4, 5, 9],
    ],
    [[8], [6, 1], [1, 6, 8]],
    [[1], [], [1]],
    [[], [4, "soon", 1.5, -3], [4]],
  ])("of tenants with %j days and types with %j days are %j days", async (tenants, types, days) => {
    for (const [i, one] of tenants.entries()) await setTenant(`t${i}`, one);
    for (const [i, one] of types.entries()) await setType(`t${i}`, one);
    expect(await limitsInUse(env.DB)).toEqual({ days, payloadFree: false, changedAt: 0 });
  });

  test("include whether a tenant has no payload retention", async () => {
    await setTenant("acme", null, 1);
    await setTenant("rival", null, 0);
    expect(await limitsInUse(env.DB)).toEqual({ days: [], payloadFree: true, changedAt: 0 });
  });

  test("include when the settings of tenants and types were last changed", async () => {
    await setTenant("acme", 5);
    await setTenant("rival", null, 1);
    await setTenant("other", null);
    await setType("a", 3);
    const changed = (table: string, name: string, at: number) =>
      env.DB.prepare(
        `UPDATE ${table} SET updated_at = ?2 WHERE ${table === "event_types" ? "name" : "tenant"} = ?1`,
      )
        .bind(name, at)
        .run();
    const at = async () => (await limitsInUse(env.DB)).changedAt;
    await changed("tenant_settings", "other", 99);
    expect(await at()).toBe(0);
    await changed("tenant_settings", "rival", 7);
    expect(await at()).toBe(7);
    await changed("event_types", "a", 8);
    expect(await at()).toBe(8);
    await changed("tenant_settings", "acme", 9);
    expect(await at()).toBe(9);
  });

  test("cost a row for each number of days, however many tenants have it", async () => {
    for (let i = 0; i < 50; i++) await setTenant(`t${i}`, 1 + (i % 2));
    const { db, used } = meteredD1(env.DB);
    await limitsInUse(db);
    expect(used().rowsRead).toBeLessThan(20);
  });
});

describe("a walk over bundles", () => {
  /** Bundles accepted at these times; the second is due later. */
  async function bundles(...times: number[]): Promise<number[]> {
    const rows = times.map((acceptedAt, i) => ({
      acceptedAt,
      deliverAt: i === 1 ? acceptedAt + 5 : undefined,
      events: [
        { tenant: "acme", type: "a" },
        { tenant: `t${i}`, type: `b${i}` },
      ],
    }));
    const events = await insertBundles(env.DB, rows);
    return [...new Set(events.map(bundleOf))];
  }

  test("returns the tenants and times of each bundle, as far as bundles are old enough", async () => {
    const [first = 0, second = 0] = await bundles(10, 20, 21, 15);
    const found = await walkOn(env.DB, 0, { horizon: 20, limit: 9 });
    const about = (tenant: string, type: string) => ({
      kind: "read",
      header: { tenants: ["acme", tenant], types: ["a", type] },
    });
    expect(found).toMatchObject({
      bundles: [
        { id: first, acceptedAt: 10, dueAt: 10, read: about("t0", "b0") },
        { id: second, acceptedAt: 20, dueAt: 25, read: about("t1", "b1") },
      ],
      upto: second,
      isLast: true,
    });
  });

  test("continues behind the last bundle, and ends when a page is not full", async () => {
    const [, second = 0, third = 0, fourth = 0] = await bundles(1, 2, 3, 4);
    const page = async (after: number) => {
      const { bundles, upto, isLast } = await walkOn(env.DB, after, { horizon: 4, limit: 2 });
      return [bundles.map(({ id }) => id), upto, isLast];
    };
    expect(await page(second)).toEqual([[third, fourth], fourth, false]);
    expect(await page(third)).toEqual([[fourth], fourth, true]);
    expect(await page(fourth)).toEqual([[], fourth, true]);
  });

  test("begins with a bundle that just reaches the age", async () => {
    const [first = 0] = await bundles(20);
    expect(await walkOn(env.DB, 0, { horizon: 20, limit: 2 })).toMatchObject({ upto: first });
    expect(await walkOn(env.DB, 0, { horizon: 19, limit: 2 })).toEqual({
      bundles: [],
      upto: 0,
      isLast: true,
    });
  });

  test("reads one row if the next bundle is too young, however many there are", async () => {
    const [old = 0] = await bundles(1, ...Array<number>(20).fill(9));
    const { db, used } = meteredD1(env.DB);
    await walkOn(db, old, { horizon: 8, limit: 100 });
    expect(used().rowsRead).toBe(1);
  });
});

test("the plan of a bundle is its own; a removed bundle has none, and an invalid plan is reported", async () => {
  const [, event = 0] = await insertBundles(env.DB, [
    { events: [{ tenant: "other" }] },
    { events: [{ tenant: "acme", destinations: ["dst_a"] }] },
  ]);
  const bundle = bundleOf(event);
  expect(await planOfBundle(env.DB, bundle)).toEqual({ dst_a: [0, 0] });
  expect(await planOfBundle(env.DB, 999)).toBe("gone");
  await env.DB.prepare("UPDATE bundles SET plan = 'oops' WHERE id = ?1").bind(bundle).run();
  expect(await planOfBundle(env.DB, bundle)).toBe("unreadable");
});

describe("the list of bundles to read again", () => {
  const begun = { why: "over", events: [1, 2], destinations: 40 } as const;
  const listed = async (now = 10) =>
    (await bundlesLater(env.DB, now, 9)).map((one) => [one.id, one.bundle?.acceptedAt, one.begun]);

  beforeEach(async () => {
    await insertBundles(
      env.DB,
      [1, 2].map((acceptedAt) => ({ acceptedAt, events: [{ tenant: "acme" }] })),
    );
  });

  test("has those that are due, in the order of their times, also a removed one", async () => {
    await saveLater(env.DB, [
      { bundle: 1, lookAt: 9 },
      { bundle: 2, lookAt: 8, begun },
      { bundle: 3, lookAt: 10 },
      { bundle: 4, lookAt: 11 },
    ]);
    expect(await listed()).toEqual([
      [2, 2, begun],
      [1, 1, undefined],
      [3, undefined, undefined],
    ]);
  });

  test("keeps progress until the bundle is removed from it, and restarts unreadable progress", async () => {
    await saveLater(env.DB, [{ bundle: 1, lookAt: 1, begun }]);
    await saveLater(env.DB, [{ bundle: 1, lookAt: 2 }]);
    expect(await listed()).toEqual([[1, 1, begun]]);
    await saveLater(env.DB, [{ bundle: 1, lookAt: 2 }], [1]);
    expect(await listed()).toEqual([[1, 1, undefined]]);
    await env.DB.prepare("UPDATE kept_later SET begun = 'oops'").run();
    expect(await listed()).toEqual([[1, 1, undefined]]);
    await saveLater(env.DB, [], [1]);
    expect(await listed()).toEqual([]);
  });
});

describe("the completed events", () => {
  const isDelivered = ({ state }: { state: string }) => state === "delivered";

  test("are those with all deliveries completed, in rows or in packs", async () => {
    const plan: Plan = { dst_a: [0, 3], dst_b: [0, 0, 2, 3] };
    const packed = { bundle_id: 7, ended_at: 1, ends: "" };
    await insertRow("packs", { ...packed, destination_id: "dst_a", delivered0: 0b0101 });
    await insertRow("packs", { ...packed, destination_id: "dst_b", delivered0: 0b1000 });
    const ended = { give_up_at: 1, ended_at: 1 };
    for (const [destination_id, index, state] of [
      ["dst_a", 1, "delivered"],
      ["dst_a", 3, "dead"],
      ["dst_b", 0, "delivered"],
    ] as const)
      await insertRow("deliveries", {
        destination_id,
        event_id: eventAt(7, index),
        state,
        ...ended,
        reason: state === "dead" ? "exhausted" : null,
      });
    expect(await eventsDone(env.DB, 7, plan, [0, 1, 2, 3], isDelivered)).toEqual([0, 1]);
    expect(await eventsDone(env.DB, 7, plan, [1, 3], isDelivered)).toEqual([1]);
    expect(await eventsDone(env.DB, 7, plan, [3], () => true)).toEqual([3]);
    expect(await eventsDone(env.DB, 7, plan, [2], () => true)).toEqual([]);
    expect(await eventsDone(env.DB, 7, plan, [], () => true)).toEqual([]);
  });

  test("are found among more destinations than are read at once, each read once", async () => {
    const names = Array.from({ length: 1_000 }, (_, i) => `dst_${String(i).padStart(4, "0")}`);
    const planOf = (count: number): Plan =>
      Object.fromEntries(names.slice(0, count).map((name) => [name, [0, 0]]));
    const fill = (from: number, to: number) =>
      env.DB.prepare(
        `INSERT INTO packs (destination_id, bundle_id, delivered0, ended_at, ends)
         SELECT value, 7, 1, 1, '' FROM json_each(?1)`,
      )
        .bind(JSON.stringify(names.slice(from, to)))
        .run();
    await fill(0, 999);
    expect(await eventsDone(env.DB, 7, planOf(1_000), [0], isDelivered)).toEqual([]);
    await fill(999, 1_000);
    const { db, used } = meteredD1(env.DB);
    expect(await eventsDone(db, 7, planOf(500), [0], isDelivered)).toEqual([0]);
    const { queries, rowsRead } = used();
    expect(await eventsDone(db, 7, planOf(1_000), [0], isDelivered)).toEqual([0]);
    expect(used()).toMatchObject({ queries: 2 * queries, rowsRead: 2 * rowsRead });
  });
});
