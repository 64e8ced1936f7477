/** The catalogue of event types in the database: its limits, which two changes at once cannot exceed, and all or none. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import {
  type EventTypeInput,
  eventTypesByName,
  findEventType,
  listEventTypes,
  listTypeNames,
  MOST_TYPES,
  MOST_VALIDATED,
  putEventType,
  putEventTypes,
  removeEventType,
  schemasOf,
} from "../../src/store/event-types.ts";
import { emptyDatabase } from "../support/api.ts";
import { meteredD1 } from "../support/meter.ts";

beforeEach(emptyDatabase);

const typeOf = (name: string, more: Partial<EventTypeInput> = {}): EventTypeInput => ({
  ...{ name, description: null, schema: null, example: null, retentionDays: null },
  ...{ validates: false, archived: false },
  ...more,
});

/** @param seen null for no type; left out for whatever there is */
const put = async (
  name: string,
  more: Partial<EventTypeInput> = {},
  now = 10,
  seen?: { updatedAt: number } | null,
) =>
  putEventType(env.DB, typeOf(name, more), now, seen === undefined ? await find(name) : (seen ?? undefined));

/** The given number of types `x000` and so on, put at 5; the first of them are validated. */
async function fill(count: number, validated = 0): Promise<void> {
  await env.DB.prepare(
    `WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?1 - 1)
     INSERT INTO event_types (name, validates, created_at, updated_at) SELECT printf('x%03d', i), i < ?2, 5, 5 FROM n`,
  )
    .bind(count, validated)
    .run();
}

const find = (name: string) => findEventType(env.DB, name);
const names = async () => (await listTypeNames(env.DB, 999)).join(" ");

describe("a type", () => {
  const whole = { description: "d", schema: '{"type":"object"}', example: "{}", retentionDays: 3 };

  test("is stored as it was given, and replaced as a whole", async () => {
    const first = { version: 1, versionAt: 0 };
    const stored = {
      name: "a",
      ...whole,
      ...first,
      validates: 1,
      archivedAt: null,
      createdAt: 10,
      updatedAt: 10,
    };
    expect(await put("a", { ...whole, validates: true })).toEqual(stored);
    await put("b");
    expect(await find("a")).toEqual(stored);
    const nulls = { description: null, schema: null, example: null, retentionDays: null, validates: 0 };
    expect(await put("a", {}, 20)).toEqual({ ...stored, ...nulls, updatedAt: 20 });
    expect(await find("b")).toMatchObject({ updatedAt: 10 });
    expect(await find("c")).toBeUndefined();
  });

  test("is changed later than before, however the clock stands", async () => {
    await put("a", {}, 10);
    expect((await put("a", {}, 10))?.updatedAt).toBe(11);
    expect((await put("a", {}, 3))?.updatedAt).toBe(12);
    expect((await put("a", {}, 40))?.updatedAt).toBe(40);
  });

  test("is archived since it was first archived, until it is unarchived", async () => {
    expect(await put("a", { archived: true }, 10)).toMatchObject({ archivedAt: 10 });
    expect(await put("a", { archived: true }, 20)).toMatchObject({ archivedAt: 10 });
    expect(await put("a", {}, 30)).toMatchObject({ archivedAt: null });
    expect(await put("a", { archived: true }, 40)).toMatchObject({ archivedAt: 40 });
  });

  test("is replaced only if it is unchanged since it was read", async () => {
    await put("0", {}, 7);
    expect(await put("a", {}, 10, { updatedAt: 7 })).toBeUndefined();
    expect(await put("a", {}, 10, null)).toBeDefined();
    expect(await put("a", {}, 20, null)).toBeUndefined();
    expect(await put("a", {}, 20, { updatedAt: 9 })).toBeUndefined();
    expect(await find("a")).toMatchObject({ updatedAt: 10 });
    expect(await put("a", {}, 20, { updatedAt: 10 })).toMatchObject({ updatedAt: 20 });
  });

  test("is removed once, without others", async () => {
    await put("a");
    await put("b");
    expect([await removeEventType(env.DB, "a"), await removeEventType(env.DB, "a")]).toEqual([true, false]);
    expect(await names()).toBe("b");
  });
});

describe("the limits of the catalogue", () => {
  test("admit at most 500 types, and replacements of these", async () => {
    await fill(MOST_TYPES - 1);
    expect(await put("a")).toBeDefined();
    expect(await put("b")).toBeUndefined();
    expect(await put("x000", { description: "new" })).toMatchObject({ description: "new" });
    expect(await find("b")).toBeUndefined();
  });

  test("admit at most a hundred validated types, and replacements of these", async () => {
    await fill(MOST_VALIDATED + 50, MOST_VALIDATED - 1);
    expect(await put("a", { validates: true })).toBeDefined();
    expect(await put("b", { validates: true })).toBeUndefined();
    expect(await put("x120", { validates: true })).toBeUndefined();
    expect(await put("b")).toBeDefined();
    expect(await put("x000", { validates: true, description: "new" })).toMatchObject({ description: "new" });
    expect(await put("x000")).toBeDefined();
    expect(await put("b", { validates: true })).toBeDefined();
  });
});

describe("a list of types", () => {
  beforeEach(async () => {
    for (const name of ["b", "d", "a", "c"]) await put(name, { archived: name === "b" });
  });

  const page = async (given: Partial<Parameters<typeof listEventTypes>[1]>) =>
    (await listEventTypes(env.DB, { archived: false, after: undefined, limit: 2, ...given }))
      .map(({ name }) => name)
      .join("");

  test("has those that are not archived, or all, by their names, a page at a time", async () => {
    expect([await page({}), await page({ after: "c" }), await page({ archived: true })]).toEqual([
      "ac",
      "d",
      "ab",
    ]);
    expect(await page({ archived: true, after: "b" })).toBe("cd");
  });

  test("begins with the last name on request", async () => {
    expect(await page({ descending: true })).toBe("dc");
    expect(await page({ descending: true, after: "c", archived: true })).toBe("ba");
  });

  test("with only names has no archived ones", async () => {
    expect(await names()).toBe("a c d");
    expect(await listTypeNames(env.DB, 2)).toEqual(["a", "c"]);
  });
});

describe("types by their names", () => {
  test("have their schemas, and are left out without one", async () => {
    await put("a", { schema: "1" });
    await put("b");
    await put("c", { schema: "3" });
    await put("d", { schema: "4" });
    expect(await schemasOf(env.DB, ["c", "a", "none", "b", "a"])).toEqual([
      { name: "c", schema: "3" },
      { name: "a", schema: "1" },
    ]);
  });

  test("are found, however many are requested, and each is read once", async () => {
    await fill(120);
    const asked = Array.from({ length: 100 }, (_, i) => `x${String(i + 10).padStart(3, "0")}`);
    const found = await eventTypesByName(env.DB, [...asked, "none"]);
    expect([...found.keys()]).toEqual(asked);
    expect(found.get("x010")).toMatchObject({ name: "x010", createdAt: 5 });
    const { db, used } = meteredD1(env.DB);
    await eventTypesByName(db, asked.slice(50));
    const { rowsRead, queries } = used();
    await eventTypesByName(db, asked);
    expect([queries, used()]).toMatchObject([1, { queries: 2, rowsRead: 2 * rowsRead }]);
  });
});

describe("many types at once", () => {
  const some = (...list: string[]) => list.map((name) => typeOf(name, { description: `new ${name}` }));
  async function putAll(list: string[], kept?: string[], now = 10): Promise<boolean> {
    const before = await eventTypesByName(env.DB, list);
    const types = some(...list).map((one) => ({ ...one, archivedAt: null, seen: before.get(one.name) }));
    return (await putEventTypes(env.DB, types, kept, now)) !== undefined;
  }

  test("are created or replaced, are no longer archived, and stay validated", async () => {
    await put("a", { validates: true, archived: true, retentionDays: 4 }, 1);
    await put("c", {}, 1);
    expect(await putAll(["a", "b"])).toBe(true);
    const both = { archivedAt: null, updatedAt: 10 };
    expect(await find("a")).toMatchObject({ ...both, description: "new a", validates: 1, createdAt: 1 });
    expect(await find("a")).toMatchObject({ retentionDays: 4 });
    expect(await find("b")).toMatchObject({ ...both, description: "new b", validates: 0, createdAt: 10 });
    expect(await find("c")).toMatchObject({ archivedAt: null, updatedAt: 1 });
  });

  test("archive all others except the kept ones", async () => {
    await put("kept", {}, 1);
    await put("old", { archived: true }, 2);
    await put("gone", {}, 1);
    expect(await putAll(["a", "b"], ["a", "b", "kept"])).toBe(true);
    expect(await names()).toBe("a b kept");
    expect(await find("gone")).toMatchObject({ archivedAt: 10, updatedAt: 10 });
    expect(await find("old")).toMatchObject({ archivedAt: 2, updatedAt: 2 });
    expect(await find("kept")).toMatchObject({ updatedAt: 1 });
  });

  test("are stored all or none if the catalogue has no room, and then none is archived", async () => {
    await fill(MOST_TYPES - 1);
    expect(await putAll(["a", "b"], ["a", "b"])).toBe(false);
    expect([await find("a"), await find("x000")]).toMatchObject([undefined, { archivedAt: null }]);
    expect(await putAll(["a", "x000", "x001"])).toBe(true);
    expect(await find("x000")).toMatchObject({ description: "new x000" });
    expect(await putAll(["b", "x000"], ["b"], 20)).toBe(false);
    expect(await putAll(["a", "x001"], undefined, 20)).toBe(true);
    expect(await listTypeNames(env.DB, 999)).toHaveLength(MOST_TYPES);
  });
});
