/** An isolate's cache of destinations and schemas: the latest reads, and no more than fits. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { CATALOGUE, RoutingCache, schemaOf } from "../../src/ingest/routing-cache.ts";
import { accept } from "../support/accept.ts";
import { interceptedD1 } from "../support/intercept.ts";
import { playedD1 } from "../support/played-d1.ts";
import { execute, newDestination, newWorld, TENANT, type World } from "../support/world.ts";

let world: World;
let cache: RoutingCache;
beforeEach(async () => {
  world = await newWorld();
  cache = new RoutingCache();
});

const read = (...tenants: string[]) => cache.read(world.services.db, tenants);
const fresh = (...tenants: string[]) => cache.fresh(world.services.db, tenants);

const revisionOf = (tenant: string) =>
  env.DB.prepare("SELECT revision FROM tenants WHERE id = ?1").bind(tenant).first<number>("revision");

const idsIn = (found: ReadonlyMap<string, { routes: readonly { destination: string }[] }> | undefined) =>
  found && [...found].map(([tenant, { routes }]) => [tenant, routes.map(({ destination }) => destination)]);

const takesAll = (destination: string) => ({ destination, types: null, channels: null, filter: null });

/** Twenty destinations of the tenant that take everything; returns their ids. */
async function twentyOf(tenant: string): Promise<string[]> {
  const ids = Array.from({ length: 20 }, (_, i) => `dst_${tenant}${i + 10}`);
  await execute(
    `INSERT INTO destinations (id, tenant, url, secret, created_at, updated_at)
     SELECT value, ?1, 'https://example.com', '', 0, 0 FROM json_each(?2)`,
    tenant,
    JSON.stringify(ids),
  );
  return ids;
}

describe("the routes that are read", () => {
  test("are each tenant's own destinations, in the order of their ids, without deleted ones", async () => {
    for (const id of ["dst_c", "dst_a", "dst_b"]) await newDestination({ id });
    await newDestination({ id: "dst_d", deletedAt: 5 });
    await newDestination({ id: "dst_e", tenant: "other" });
    await newDestination({ id: "dst_f", tenant: "third" });
    expect(await read("other", "nobody", TENANT)).toEqual(
      new Map([
        ["other", { revision: await revisionOf("other"), routes: [takesAll("dst_e")] }],
        ["nobody", { revision: 0, routes: [] }],
        [TENANT, { revision: await revisionOf(TENANT), routes: ["dst_a", "dst_b", "dst_c"].map(takesAll) }],
      ]),
    );
  });

  test("have what each destination takes", async () => {
    await newDestination({
      id: "dst_a",
      eventTypes: ["order.*"],
      channels: ["x"],
      filter: { paid: true },
      body: "data",
    });
    await newDestination({ id: "dst_b", body: "envelope" });
    expect((await read(TENANT)).get(TENANT)?.routes).toEqual([
      {
        destination: "dst_a",
        types: ["order.*"],
        channels: ["x"],
        filter: { paid: true },
        takesContent: true,
      },
      takesAll("dst_b"),
    ]);
  });

  test.each([
    ["event types", "event_types = 'order.paid'"],
    ["event types", `event_types = '{"order.paid":1}'`],
    ["channels", "channels = 'x'"],
    ["channels", "channels = '7'"],
    ["a filter", "filter = '{'"],
    ["a form of its body", "body = 'xml'"],
  ])("take everything if %s were edited into nonsense (%s)", async (_what, edit) => {
    const id = await newDestination();
    await execute(`UPDATE destinations SET ${edit}`);
    expect((await read(TENANT)).get(TENANT)?.routes).toEqual([takesAll(id)]);
  });
});

describe("cached routes", () => {
  test("are those that were read last, in the requested order, once all have been read", async () => {
    const [a, b] = [await newDestination({ tenant: "a" }), await newDestination({ tenant: "b" })];
    await read("a");
    expect(cache.known(["a", "b"])).toBeUndefined();
    await read("b");
    expect(idsIn(cache.known(["b", "a"]))).toEqual([
      ["b", [b]],
      ["a", [a]],
    ]);
    await execute("UPDATE destinations SET deleted_at = 1 WHERE id = ?1", b);
    expect(idsIn(cache.known(["b"]))).toEqual([["b", [b]]]);
    await read("b");
    expect(idsIn(cache.known(["b"]))).toEqual([["b", []]]);
  });

  test("do not include the catalogue before it is read, and then know that no type is validated", async () => {
    expect(cache.known([CATALOGUE])).toBeUndefined();
    await read(CATALOGUE);
    expect(cache.known([CATALOGUE])).toEqual(
      new Map([[CATALOGUE, { revision: 0, routes: [], schemas: new Map() }]]),
    );
  });
});

describe("refreshing routes", () => {
  test("costs one query while nothing changes, and reads no destination", async () => {
    await twentyOf(TENANT);
    const first = await fresh(TENANT, "nobody");
    world.d1.used();
    expect(await fresh(TENANT, "nobody")).toEqual(first);
    const { roundTrips, queries, rowsRead } = world.d1.used();
    expect([roundTrips, queries]).toEqual([1, 1]);
    expect(rowsRead).toBeLessThan(20);
  });

  test("reads only the tenants again whose destinations have changed", async () => {
    const old = await twentyOf("old");
    const before = await fresh("old", TENANT);
    const added = await newDestination();
    world.d1.used();
    const after = await fresh("old", TENANT);
    expect(world.d1.used().rowsRead).toBeLessThan(20);
    expect(after.get("old")).toBe(before.get("old"));
    expect(idsIn(after)).toEqual([
      ["old", old],
      [TENANT, [added]],
    ]);
    expect(cache.known(["old", TENANT])).toEqual(after);
  });

  test("reads all if one of them is not known", async () => {
    const id = await newDestination();
    await read("other");
    expect(idsIn(await fresh("other", TENANT))).toEqual([
      ["other", []],
      [TENANT, [id]],
    ]);
  });
});

describe("a cache of forty thousand, destinations and tenants together,", () => {
  /** Tenants of these names have so many destinations, others have none. */
  const sizes: Readonly<Record<string, number>> = { full: 39_998, fuller: 39_999, vast: 60_000 };
  /** The tenants whose revisions were read. */
  let asked: string[] = [];
  const rowsOf: Record<string, object[]> = Object.fromEntries(
    Object.entries(sizes).map(([tenant, count]) => [
      tenant,
      Array(count).fill({ tenant, id: "dst_1", types: null, channels: null, filter: null, body: "envelope" }),
    ]),
  );
  const db = playedD1((sql, [names]) => {
    if (sql.includes("JOIN destinations")) {
      const known = Object.entries(JSON.parse(String(names)) as Record<string, number>);
      return known.flatMap(([tenant, revision]) => (revision === 1 ? [] : (rowsOf[tenant] ?? [])));
    }
    const tenants = JSON.parse(String(names)) as string[];
    asked.push(...tenants);
    return tenants.map((tenant) => ({ tenant, revision: 1 }));
  });
  const readInTurn = async (...tenants: string[]) => {
    for (const tenant of tenants) await cache.read(db, [tenant]);
  };
  const known = (...tenants: string[]) => tenants.filter((tenant) => cache.known([tenant]) !== undefined);

  test("is full with that, and drops entries beyond", async () => {
    await readInTurn("full", "a");
    expect(known("full", "a")).toEqual(["full", "a"]);
    await readInTurn("b");
    expect(known("full", "a", "b")).toEqual(["a", "b"]);
    await readInTurn("full");
    expect(known("full", "a", "b")).toEqual(["full", "b"]);
  });

  test("drops the least recently requested entries first", async () => {
    await readInTurn("a", "b", "c");
    cache.known(["a"]);
    await readInTurn("full");
    expect(known("a", "b", "c", "full")).toEqual(["a", "full"]);
  });

  test("counts a tenant once, however often it is read", async () => {
    await readInTurn("a", "full", "full", "full");
    expect(known("a", "full")).toEqual(["a", "full"]);
  });

  test("counts a destination more often that takes a long list or filter", async () => {
    const long = { tenant: "long", id: "dst_1", types: null, channels: null, body: "envelope" };
    rowsOf.long = [{ ...long, filter: JSON.stringify({ a: "x".repeat(2_000) }) }];
    rowsOf.almost = Array(39_989).fill({ ...long, tenant: "almost", filter: null });
    // A tenant, a destination, and seven times 256 characters: with 39,990 more it is full.
    await readInTurn("long", "almost");
    expect(known("long", "almost")).toEqual(["long", "almost"]);
    await readInTurn("a");
    expect(known("long", "almost", "a")).toEqual(["long", "almost", "a"]);
    await readInTurn("b");
    expect(known("long", "almost", "a", "b")).toEqual(["almost", "a", "b"]);
  });

  test("holds ten thousand tenants of two destinations, and reads only what a commit misses", async () => {
    const tenants = Array.from({ length: 10_000 }, (_, i) => `small-${i}`);
    const two = (tenant: string) =>
      Array(2).fill({ tenant, id: "dst_1", types: null, channels: null, filter: null });
    for (const tenant of tenants) rowsOf[tenant] = two(tenant);
    for (let i = 0; i < 10_000; i += 100) await cache.cached(db, tenants.slice(i, i + 100));
    asked = [];
    await cache.cached(db, [...tenants.slice(0, 10), ...["new-1", "new-2"]]);
    expect(asked).toEqual(["new-1", "new-2"]);
    await cache.cached(db, tenants.slice(5_000, 5_015));
    expect(asked).toHaveLength(2);
  });

  test("keeps everything that is needed now, and drops it afterwards", async () => {
    await readInTurn("a");
    const read = await cache.read(db, ["b", "vast", "fuller"]);
    expect([...read.keys()]).toEqual(["b", "vast", "fuller"]);
    expect(known("a", "b", "vast", "fuller")).toEqual(["b", "vast", "fuller"]);
    await readInTurn("c");
    expect(known("b", "vast", "fuller", "c")).toEqual(["c"]);
  });
});

describe("the highest known bundle", () => {
  const readFloor = () => cache.readFloor(world.services.db, 0);
  const post = () => accept(world.services, [{ tenant: TENANT, type: "a", data: {} }]);

  test("is that of the database when it is read", async () => {
    await post();
    await post();
    expect([cache.hasFloor(0), cache.floor(0)]).toEqual([false, 0]);
    await readFloor();
    expect([cache.hasFloor(0), cache.floor(0)]).toEqual([true, 2]);
    cache.raiseFloor(0, 7);
    await readFloor();
    expect(cache.floor(0)).toBe(7);
  });

  test("is read by others although an invocation that was reading it was killed", async () => {
    await post();
    const dead = interceptedD1(env.DB, () => new Promise(() => {}));
    void cache.readFloor(dead, 0);
    await readFloor();
    expect(cache.floor(0)).toBe(1);
  });

  test("does not exist in a database without bundles", async () => {
    await readFloor();
    expect([cache.hasFloor(0), cache.floor(0)]).toEqual([true, 0]);
  });

  test("only rises, separately in each database", () => {
    for (const bundle of [5, 7, 6]) cache.raiseFloor(2, bundle);
    expect(cache.floor(2)).toBe(7);
    expect([0, 1, 2, 3].map((database) => cache.hasFloor(database))).toEqual([false, false, true, false]);
  });
});

test.each([
  ["nothing", null, undefined],
  ["no JSON", "{", undefined],
  ["JSON that is no schema", "7", undefined],
  ["a schema with a fault", '{"type":"text"}', undefined],
  ["a schema", '{"type":"object"}', { type: "object" }],
  ["a schema that takes nothing", "false", false],
])("a type with %s in place of its schema has that one or none", (_what, text, schema) => {
  expect(schemaOf(text)).toEqual(schema);
});

// The last: where a type has been validated, reads of the catalogue read a row more.
describe("the schemas of validated types", () => {
  const put = (name: string, schema: string | null, validates: boolean) =>
    execute(
      "REPLACE INTO event_types (name, schema, validates, created_at, updated_at) VALUES (?1, ?2, ?3, 0, 0)",
      ...[name, schema, validates ? 1 : 0],
    );
  const schemasIn = (found: ReadonlyMap<string, { schemas?: ReadonlyMap<string, unknown> }>) => [
    ...(found.get(CATALOGUE)?.schemas ?? []),
  ];

  test("are read when one of them has changed, without unusable ones", async () => {
    await put("a", '{"type":"object"}', true);
    await put("asked.for", '{"type":"object"}', false);
    await put("edited", "{", true);
    await put("without", null, true);
    expect(schemasIn(await read(CATALOGUE, TENANT))).toEqual([["a", { type: "object" }]]);
    expect(schemasIn(await read(CATALOGUE))).toEqual([["a", { type: "object" }]]);
    await put("b", "false", true);
    await put("a", '{"type":"object"}', false);
    expect(schemasIn(await read(TENANT, CATALOGUE))).toEqual([["b", false]]);
    expect(schemasIn(cache.known([CATALOGUE]) ?? new Map())).toEqual([["b", false]]);
  });

  test("are not read again while they are unchanged, nor when only tenants change", async () => {
    await put("t0", "{}", true);
    await execute(
      `INSERT INTO event_types (name, schema, validates, created_at, updated_at)
       SELECT 't' || value, '{}', 1, 0, 0 FROM json_each(?1)`,
      JSON.stringify(Array.from({ length: 29 }, (_, i) => i + 1)),
    );
    expect(schemasIn(await read(CATALOGUE))).toHaveLength(30);
    const rowsFor = async (...tenants: string[]) => {
      world.d1.used();
      await read(...tenants);
      return world.d1.used().rowsRead;
    };
    expect(await rowsFor(CATALOGUE)).toBeLessThan(10);
    await put("a", "{}", true);
    expect(await rowsFor(TENANT)).toBeLessThan(10);
    expect(schemasIn(cache.known([CATALOGUE]) ?? new Map())).toHaveLength(30);
  });
});
