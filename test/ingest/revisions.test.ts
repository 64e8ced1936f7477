/** Every change of a tenant's routes raises the tenant's revision, whoever makes it and however. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { CATALOGUE, type Routes, RoutingCache } from "../../src/ingest/routing-cache.ts";
import { accept } from "../support/accept.ts";
import { execute, newDestination, newWorld, TENANT, type World } from "../support/world.ts";

let world: World;
beforeEach(async () => {
  world = await newWorld();
});

const revision = async (tenant: string) =>
  (await env.DB.prepare("SELECT revision FROM tenants WHERE id = ?1")
    .bind(tenant)
    .first<number>("revision")) ?? 0;

const planOf = async (services = world.services, type = "a") => {
  const outcome = await accept(services, [{ tenant: TENANT, type, data: {} }]);
  return "events" in outcome ? outcome.events[0]?.plan : outcome.kind;
};

describe("a tenant's revision", () => {
  test.each([
    ["is moved to it", "UPDATE destinations SET tenant = 'other' WHERE id = ?1", ["acme", "other"]],
    ["is renamed", "UPDATE destinations SET id = id || 'x' WHERE id = ?1", ["acme"]],
    ["gets other types", `UPDATE destinations SET event_types = '["b"]' WHERE id = ?1`, ["acme"]],
    ["gets a filter", `UPDATE destinations SET filter = '{"a":1}' WHERE id = ?1`, ["acme"]],
    ["gets channels", `UPDATE destinations SET channels = '["x"]' WHERE id = ?1`, ["acme"]],
    ["is deleted", "UPDATE destinations SET deleted_at = 1 WHERE id = ?1", ["acme"]],
    ["is removed", "DELETE FROM destinations WHERE id = ?1", ["acme"]],
    [
      "is replaced by one of another tenant",
      "INSERT OR REPLACE INTO destinations (id, tenant, url, secret, created_at, updated_at) VALUES (?1, 'other', 'https://x.example', '', 0, 0)",
      ["acme", "other"],
    ],
  ])("rises when a destination %s", async (_what, sql, tenants) => {
    const id = await newDestination();
    const before = await Promise.all(["acme", "other"].map(revision));
    await execute(sql, id);
    const after = await Promise.all(["acme", "other"].map(revision));
    for (const [i, tenant] of ["acme", "other"].entries()) {
      if (tenants.includes(tenant)) expect(after[i], tenant).toBeGreaterThan(before[i] ?? 0);
      else expect(after[i], tenant).toBe(before[i]);
    }
  });

  test("stays when a destination changes in fields that routing does not use", async () => {
    const id = await newDestination();
    const before = await revision(TENANT);
    await execute(
      "UPDATE destinations SET status = 'paused', max_concurrency = 3, url = 'https://y.example', updated_at = 5 WHERE id = ?1",
      id,
    );
    expect(await revision(TENANT)).toBe(before);
  });

  test("is never reused, not even after a restore to an earlier time", async () => {
    await newDestination();
    const seen = await revision(TENANT);
    // As Time Travel does it: the row is as it was, and time has passed.
    await execute("UPDATE tenants SET revision = 5");
    await new Promise((resolve) => setTimeout(resolve, 2));
    await newDestination();
    expect(await revision(TENANT)).toBeGreaterThan(seen);
  });
});

describe("a destination", () => {
  test("created before an event is posted gets it, whatever an isolate has cached", async () => {
    expect(await planOf()).toEqual([]);
    const id = await newDestination();
    expect(await planOf()).toEqual([id]);
    const other = await newDestination();
    expect(await planOf({ ...world.services, routing: new RoutingCache() })).toEqual([id, other].toSorted());
    expect(await planOf()).toEqual([id, other].toSorted());
  });

  test("that is deleted gets no event that is posted afterwards, whatever an isolate has cached", async () => {
    const id = await newDestination();
    expect(await planOf()).toEqual([id]);
    await execute("UPDATE destinations SET deleted_at = 1 WHERE id = ?1", id);
    expect(await planOf()).toEqual([]);
  });

  test("deleted between routing and commit is in no plan", async () => {
    const id = await newDestination();
    await planOf();
    const { db } = world.services;
    let isDeleted = false;
    const meddling = {
      prepare: db.prepare.bind(db),
      batch: async (statements: D1PreparedStatement[]) => {
        if (!isDeleted) await execute("UPDATE destinations SET deleted_at = 1 WHERE id = ?1", id);
        isDeleted = true;
        return db.batch(statements);
      },
    } as unknown as D1Database;
    expect(await planOf({ ...world.services, db: meddling })).toEqual([]);
  });

  test.each([
    "b",
    "other",
  ])("edited in the database to take %s is routed by that from the next event on", async (type) => {
    const id = await newDestination({ eventTypes: ["a"] });
    expect(await planOf(world.services, type)).toEqual([]);
    await execute("UPDATE destinations SET event_types = ?1 WHERE id = ?2", JSON.stringify([type]), id);
    expect(await planOf(world.services, type)).toEqual([id]);
  });
});

describe("routing in the steady state", () => {
  test.each([
    1, 100, 1_000,
  ])("reads the same number of rows with %d destinations as with one", async (count) => {
    await execute(
      `INSERT INTO destinations (id, tenant, url, secret, event_types, created_at, updated_at)
       WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
       SELECT 'dst_' || printf('%020d', i), ?2, 'https://example.com', '', '["b"]', 0, 0 FROM n`,
      count,
      TENANT,
    );
    for (let i = 0; i < 3; i++) await planOf();
    world.d1.used();
    await planOf();
    const { roundTrips, rowsRead, rowsWritten } = world.d1.used();
    expect([roundTrips, rowsWritten]).toEqual([1, 1]);
    expect(rowsRead).toBeLessThanOrEqual(8);
  });
});

// The last: where a type has been validated, commits read a row more.
test("a read of the validated types that is overtaken by a later one leaves none out", async () => {
  const validate = (schema: string) =>
    execute(
      "REPLACE INTO event_types (name, schema, validates, created_at, updated_at) VALUES ('a', ?1, 1, 0, 0)",
      schema,
    );
  await validate("false");
  const cache = new RoutingCache();
  const schemasOf = (read: ReadonlyMap<string, Routes>) => [...(read.get(CATALOGUE)?.schemas ?? [])];
  await cache.read(env.DB, [CATALOGUE]);
  const answered = Promise.withResolvers<void>();
  const slow = {
    prepare: env.DB.prepare.bind(env.DB),
    batch: async (statements: D1PreparedStatement[]) => {
      const results = await env.DB.batch(statements);
      await answered.promise;
      return results;
    },
  } as unknown as D1Database;
  const overtaken = cache.read(slow, [CATALOGUE]);
  await cache.read(env.DB, [CATALOGUE]);
  await validate("{}");
  expect(schemasOf(await cache.read(env.DB, [CATALOGUE]))).toEqual([["a", {}]]);
  answered.resolve();
  expect(schemasOf(await overtaken)).toEqual([["a", false]]);
  expect(schemasOf(await cache.fresh(env.DB, [CATALOGUE]))).toEqual([["a", {}]]);
});
