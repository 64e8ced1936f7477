/**
 * No isolate is special: whatever it has cached, however old, full or empty its caches are, it gives no wrong answer, reads
 * no unbounded number of rows, and misses no change beyond the staleness that its caches state. The counted figures are D1's
 * own.
 */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { keyToken, REMEMBERED_MS } from "../src/core/credentials.ts";
import { seededRandom } from "../src/core/seeded-random.ts";
import { type Authenticate, byKey } from "../src/http/auth.ts";
import { accept } from "./support/accept.ts";
import { repeatedBundle } from "./support/bundle-rows.ts";
import { type Isolate, isolates, newIsolate } from "./support/isolates.ts";
import { insertRows } from "./support/stored-deliveries.ts";
import { execute, newDestination, newWorld, TENANT, type World } from "./support/world.ts";

const HOUR = 3_600_000;

let world: World;
beforeEach(async () => {
  world = await newWorld();
});

/** An event of each tenant, posted together; the plans. */
async function post(isolate: Isolate, tenants: readonly string[] = [TENANT]): Promise<readonly string[][]> {
  const events = tenants.map((tenant) => ({ tenant, type: "order.paid", data: {} }));
  const outcome = await accept(isolate.own(world.services), events);
  await world.settled();
  if (!("events" in outcome)) throw new Error(`It was ${outcome.kind}`);
  return outcome.events.map(({ plan }) => [...plan].toSorted());
}

async function rowsReadBy(work: () => Promise<unknown>): Promise<number> {
  world.d1.used();
  await work();
  return world.d1.used().rowsRead;
}

/** The given number of bundles that other isolates commit, now. */
async function othersCommit(bundles: number): Promise<void> {
  const newest = await env.DB.prepare("SELECT coalesce(max(id), 0) AS id FROM bundles").first<number>("id");
  const event = { tenant: "others", type: "a", data: {}, destinations: [] };
  const { sql, values } = repeatedBundle([event], {
    first: (newest ?? 0) + 1,
    count: bundles,
    acceptedAt: world.clock.now(),
  });
  await env.DB.prepare(sql)
    .bind(...values)
    .run();
}

/** The given number of destinations of a tenant, which take everything. */
async function destinationsOf(tenant: string, count: number): Promise<void> {
  await execute(
    `INSERT INTO destinations (id, tenant, url, secret, created_at, updated_at)
     SELECT 'dst_' || ?1 || value, ?1, 'https://example.com', '', 0, 0 FROM json_each(?2)`,
    tenant,
    JSON.stringify(Array.from({ length: count }, (_, i) => i + 10)),
  );
}

describe("the rows that a commit reads", () => {
  test("are the same in an isolate that others have overtaken by thousands of bundles as in a new one", async () => {
    await newDestination();
    const asleep = newIsolate();
    await post(asleep);
    await othersCommit(5_000);
    world.clock.pass(HOUR);
    const ofNew = await rowsReadBy(() => post(newIsolate(), Array(10).fill(TENANT)));
    expect(await rowsReadBy(() => post(asleep, Array(10).fill(TENANT)))).toBeLessThanOrEqual(ofNew + 10);
  });

  test("stay the same after a failed commit, however much others have committed meanwhile", async () => {
    await newDestination();
    const isolate = newIsolate();
    await post(isolate);
    world.d1.failing((sql) => {
      if (!sql.includes("INSERT INTO bundles")) return undefined;
      throw new Error("D1_ERROR: D1 DB is overloaded. Too many requests queued.");
    });
    await expect(post(isolate)).rejects.toThrow("unavailable");
    world.d1.failing(() => undefined);
    await othersCommit(5_000);
    world.clock.pass(HOUR);
    const ofNew = await rowsReadBy(() => post(newIsolate()));
    expect(await rowsReadBy(() => post(isolate))).toBeLessThanOrEqual(ofNew + 10);
  });

  test("are only those of the tenants that the isolate has not cached", async () => {
    const known = Array.from({ length: 10 }, (_, i) => `known${i}`);
    const missing = Array.from({ length: 5 }, (_, i) => `missing${i}`);
    for (const tenant of [...known, ...missing]) await destinationsOf(tenant, 20);
    const isolate = newIsolate();
    await post(isolate, known);
    const ofMissing = await rowsReadBy(() => post(newIsolate(), missing));
    // The revisions of the known ones are compared; their 200 destinations are not read.
    expect(await rowsReadBy(() => post(isolate, [...known, ...missing]))).toBeLessThanOrEqual(
      ofMissing + 5 * known.length,
    );
  });
});

type Key = Readonly<{ id: string; token: string; hash: string }>;

const sha256 = async (text: string) =>
  Array.from(new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text))), (byte) =>
    byte.toString(16).padStart(2, "0"),
  ).join("");

/** The given number of stored keys of the tenant. */
async function newKeys(count: number): Promise<readonly Key[]> {
  const keys = await Promise.all(
    Array.from({ length: count }, async (_, i) => {
      const id = `key_${String(i).padStart(20, "0")}`;
      const token = keyToken(id, String(i).padStart(32, "0"));
      return { id, token, hash: await sha256(token) };
    }),
  );
  const columns = { tenant: TENANT, scopes: '["read"]', created_at: 0, last_used_at: world.clock.now() };
  await insertRows(
    env.DB,
    "api_keys",
    keys.map(({ id, hash }) => ({ id, hash, ...columns })),
  );
  return keys;
}

describe("API keys", () => {
  /** Each key once, in turn; how many queries they cost. */
  async function queriesOf(authenticate: Authenticate, keys: readonly Key[]): Promise<number> {
    world.d1.used();
    for (const { token } of keys)
      expect(await authenticate(world.services, token)).toMatchObject({ tenant: TENANT });
    await world.settled();
    return world.d1.used().queries;
  }

  test("used by the thousands in turn, cost no query each in an isolate that has cached them", async () => {
    const keys = await newKeys(1_200);
    const authenticate = byKey();
    await queriesOf(authenticate, keys);
    expect(await queriesOf(authenticate, keys)).toBeLessThanOrEqual(keys.length / 10);
  });

  test("cost no query each when the isolate's cache has grown old", async () => {
    const keys = await newKeys(300);
    const authenticate = byKey();
    await queriesOf(authenticate, keys);
    world.clock.pass(2 * REMEMBERED_MS);
    expect(await queriesOf(authenticate, keys)).toBeLessThanOrEqual(keys.length / 10);
  });
});

describe("in a random history of isolates that sleep, end, differ in clock and version", () => {
  const SKEW_MS = 2_000;
  const TENANTS = ["a", "b", "c"];

  test.each([1, 2, 3])("every answer is correct and every read is bounded (seed %i)", async (seed) => {
    const random = seededRandom(seed);
    const running = isolates({ count: 4, seed, skewMs: SKEW_MS });
    const doors = new WeakMap<Isolate, Authenticate>();
    const routes = new Map<string, Set<string>>(TENANTS.map((tenant) => [tenant, new Set()]));
    const keys = await newKeys(8);
    const revokedAt = new Map<string, number>();
    const pick = <T>(from: readonly T[]) => from[Math.floor(random() * from.length)] as T;
    const steps: readonly (() => Promise<void>)[] = [
      async () => {
        const tenant = pick(TENANTS);
        routes.get(tenant)?.add(await newDestination({ tenant }));
      },
      async () => {
        const tenant = pick(TENANTS);
        const [first] = routes.get(tenant) ?? [];
        if (first === undefined) return;
        await execute("UPDATE destinations SET deleted_at = ?2 WHERE id = ?1", first, world.clock.now());
        routes.get(tenant)?.delete(first);
      },
      () => othersCommit(500),
      async () => world.clock.pass(Math.round(random() * 2 * HOUR)),
      async () => world.clock.pass(Math.round(random() * 10_000)),
      async () => {
        const { id } = pick(keys.slice(1));
        if (revokedAt.has(id)) return;
        await execute("UPDATE api_keys SET revoked_at = ?2 WHERE id = ?1", id, world.clock.now());
        revokedAt.set(id, world.clock.now());
      },
    ];
    const postOne = async () => {
      const tenants = TENANTS.filter(() => random() < 0.6);
      if (tenants.length === 0) return;
      let plans: readonly string[][] = [];
      const isolate = running.any(world.clock.now());
      const rows = await rowsReadBy(async () => {
        plans = await post(isolate, tenants);
      });
      expect(plans).toEqual(tenants.map((tenant) => [...(routes.get(tenant) ?? [])].toSorted()));
      expect(rows).toBeLessThan(250);
    };
    const useKey = async () => {
      const isolate = running.any(world.clock.now());
      const door = doors.get(isolate) ?? byKey();
      doors.set(isolate, door);
      const { id, token } = pick(keys);
      const found = await door(isolate.own(world.services), token);
      await world.settled();
      const since = revokedAt.get(id);
      if (since === undefined) expect(found).toMatchObject({ tenant: TENANT });
      else if (world.clock.now() - since > REMEMBERED_MS) expect(found).toBeUndefined();
    };
    for (let step = 0; step < 120; step++) {
      await (random() < 0.4 ? pick(steps) : pick([postOne, useKey]))();
    }
  });
});
