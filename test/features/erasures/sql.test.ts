/** Erasures as jobs: who may begin one, who sees it, and which step advances it. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { bundleOf } from "../../../src/core/bundle.ts";
import {
  bundlesOfTenant,
  type ErasureInsert,
  erasureBeginning,
  erasureOf,
  findErasure,
  findErasureJob,
  insertErasure,
  listErasures,
  MOST_WALKS,
  moveErasure,
  overdueErasures,
} from "../../../src/features/erasures/sql.ts";
import { emptyDatabase } from "../../support/api.ts";
import { insertBundles } from "../../support/bundle-rows.ts";
import { execute } from "../../support/world.ts";

const databases = { db: env.DB };
let count = 0;

beforeEach(async () => {
  await emptyDatabase();
  count = 0;
});

/** Begins an erasure of all of a tenant unless more is said; its id is `e1`, `e2` and so on. */
async function begin(tenant: string, more: Partial<ErasureInsert> = {}) {
  count += 1;
  const target = { kind: "tenant", eventId: null, since: null, until: null } as const;
  return insertErasure(env.DB, {
    id: `e${count}`,
    tenant,
    ...target,
    nextStepAt: count,
    createdAt: count,
    ...more,
  });
}

describe("an erasure", () => {
  test("begins as requested, with nothing erased yet", async () => {
    const begun = await begin("acme", { kind: "range", since: 5, until: 9, nextStepAt: 20, createdAt: 10 });
    expect(begun).toEqual({
      ...{ id: "e1", tenant: "acme", kind: "range", eventId: null, since: 5, until: 9 },
      ...{ state: "running", cursor: [], events: 0, deliveries: 0, cancelled: 0, unreadable: [] },
      ...{ nextStepAt: 20, createdAt: 10, updatedAt: 10, endedAt: null },
    });
    expect(await findErasureJob(env.DB, "e1")).toEqual(begun);
  });

  test("begins while fewer than five of the tenant's walks are running, or if it must", async () => {
    for (let i = 0; i < MOST_WALKS; i++) await begin("rival");
    for (let i = 0; i < 3; i++) expect(await begin("acme", { kind: "event", eventId: 128 })).toBeDefined();
    for (let i = 0; i < MOST_WALKS; i++) expect(await begin("acme")).toBeDefined();
    expect(await begin("acme")).toBeUndefined();
    expect(await begin("acme", { kind: "range" })).toBeUndefined();
    expect(await begin("acme", { kind: "event", eventId: 256 })).toBeDefined();
    const target = { id: "always", tenant: "acme", kind: "tenant", eventId: null } as const;
    const row = { ...target, since: null, until: null, nextStepAt: 1, createdAt: 1 };
    const raw = await erasureBeginning(env.DB, row, true).first<Record<string, unknown>>();
    expect(raw && erasureOf(raw)).toMatchObject({ id: "always", state: "running" });
    await execute("UPDATE erasures SET state = 'completed' WHERE id IN ('always', 'e10')");
    expect(await begin("acme")).toBeDefined();
    expect(await begin("acme")).toBeUndefined();
  });

  test("is found by its tenant and the operator, and by no other tenant", async () => {
    await begin("acme");
    await begin("rival");
    const seen = await Promise.all(
      ["acme", "rival", undefined].map((tenant) => findErasure(databases, "e1", tenant)),
    );
    expect(seen.map((one) => one?.id)).toEqual(["e1", undefined, "e1"]);
    expect(await findErasure(databases, "e9", undefined)).toBeUndefined();
    expect(await findErasure(databases, "e9", "acme")).toBeUndefined();
  });

  test("is listed for its tenant, the newest first, a page at a time", async () => {
    for (const tenant of ["acme", "rival", "acme", "acme", "rival"]) await begin(tenant);
    const page = async (tenant: string | undefined, limit: number, before?: number) => {
      const { erasures, next } = await listErasures(databases, { tenant, before, limit });
      return { ids: erasures.map(({ id }) => id), next };
    };
    const first = await page("acme", 2);
    expect(first.ids).toEqual(["e4", "e3"]);
    expect(await page("acme", 2, first.next)).toEqual({ ids: ["e1"], next: undefined });
    expect(await page(undefined, 5)).toEqual({ ids: ["e5", "e4", "e3", "e2", "e1"], next: undefined });
    const second = await page(undefined, 3, (await page(undefined, 3)).next);
    expect(second).toEqual({ ids: ["e2", "e1"], next: undefined });
    expect(await page("none", 2)).toEqual({ ids: [], next: undefined });
  });
});

describe("a step", () => {
  const progress = {
    cursor: [0, 0, 7],
    state: "running",
    unreadable: [5],
    nextStepAt: 50,
    endedAt: null,
  } as const;

  test("moves its erasure on, and no other", async () => {
    const job = await begin("acme");
    await begin("acme");
    if (!job) throw new Error("The erasure begins");
    expect(await moveErasure(env.DB, job, progress, 40)).toBe(true);
    expect(await findErasureJob(env.DB, "e1")).toMatchObject({ ...progress, updatedAt: 40 });
    expect(await findErasureJob(env.DB, "e2")).toMatchObject({ cursor: [], updatedAt: 2 });
  });

  test.each(["oops", "7", "{}"])("moves on an erasure whose cursor was edited into %s", async (cursor) => {
    await begin("acme");
    await execute("UPDATE erasures SET cursor = ?1", cursor);
    const job = await findErasureJob(env.DB, "e1");
    expect(job).toMatchObject({ cursor: [] });
    if (job) expect(await moveErasure(env.DB, job, progress, 40)).toBe(true);
    expect(await findErasureJob(env.DB, "e1")).toMatchObject(progress);
  });

  test("does not move the erasure on if another step has, or if it is completed", async () => {
    const job = await begin("acme");
    if (!job) throw new Error("The erasure begins");
    await moveErasure(env.DB, job, progress, 40);
    expect(await moveErasure(env.DB, job, { ...progress, cursor: [0, 0, 5] }, 41)).toBe(false);
    const moved = { ...job, cursor: progress.cursor };
    const done = { ...progress, state: "completed", endedAt: 42 } as const;
    expect(await moveErasure(env.DB, moved, done, 42)).toBe(true);
    expect(await moveErasure(env.DB, moved, progress, 43)).toBe(false);
    expect(await findErasureJob(env.DB, "e1")).toMatchObject({ ...done, updatedAt: 42 });
  });

  test("is overdue from its time on, the longest-waiting first", async () => {
    for (const nextStepAt of [30, 10, 20, 31, 5]) await begin(`t${nextStepAt}`, { nextStepAt });
    await execute("UPDATE erasures SET state = 'completed' WHERE id = 'e5'");
    expect(await overdueErasures(env.DB, 30, 10)).toEqual(["e2", "e3", "e1"]);
    expect(await overdueErasures(env.DB, 30, 2)).toEqual(["e2", "e3"]);
    expect(await overdueErasures(env.DB, 9, 2)).toEqual([]);
  });
});

describe("the bundles of a tenant", () => {
  /** Bundles with events of these tenants; returns their ids. */
  async function bundles(...tenants: string[][]): Promise<number[]> {
    const rows = tenants.map((names, i) => ({
      acceptedAt: i,
      events: names.map((tenant) => ({ tenant })),
    }));
    const events = await insertBundles(env.DB, rows);
    return [...new Set(events.map(bundleOf))];
  }

  const page = async (after: number, last: number, limit: number) => {
    const { bundles, upto } = await bundlesOfTenant(env.DB, "acme", { after, last, limit });
    return [bundles.map(({ id }) => id), upto];
  };

  test("are those with an event of it, not of a tenant whose name contains its own", async () => {
    const [first = 0, , third = 0, fourth = 0] = await bundles(
      ["rival", "acme"],
      ["acme2", "big-acme", "rival"],
      ["acme"],
      ["rival"],
    );
    expect(await page(0, fourth, 9)).toEqual([[first, third], undefined]);
    const { bundles: found } = await bundlesOfTenant(env.DB, "acme", { after: 0, last: fourth, limit: 9 });
    expect(found[1]).toMatchObject({ acceptedAt: 2, plan: "{}", header: expect.stringContaining("acme") });
  });

  test("are searched behind the last one, up to the last of the range, a page at a time", async () => {
    const [first = 0, second = 0, third = 0, fourth = 0] = await bundles(
      ["acme"],
      ["acme"],
      ["rival"],
      ["acme"],
      ["acme"],
    );
    expect(await page(first, fourth, 2)).toEqual([[second], third]);
    expect(await page(third, fourth, 2)).toEqual([[fourth], undefined]);
    expect(await page(second, third, 1)).toEqual([[], third]);
    expect(await page(fourth, fourth, 2)).toEqual([[], undefined]);
  });
});
