/** Groups with limits of their own, names that destinations have, and hosts that many of them share. */
import { beforeEach, describe, expect, test } from "vitest";
import { memoryD1 } from "../../bench/storm/breakwater/d1.ts";
import { findGroup, findSharedHosts } from "../../src/store/group.ts";
import { countSharedHosts, listGroups, MOST_GROUPS, putGroup, removeGroup } from "../../src/store/groups.ts";
import { insertRows } from "../support/stored-deliveries.ts";

let db: D1Database;
beforeEach(() => {
  db = memoryD1().bindingFor(async (_, work) => work());
});

type Given = Readonly<{ group?: string; url?: string; deleted?: boolean }>;

async function destinations(...given: Given[]): Promise<void> {
  const n = (await db.prepare("SELECT count(*) AS n FROM destinations").first<number>("n")) ?? 0;
  const rows = given.map(({ group = null, url = "https://a.example/", deleted = false }, i) => ({
    ...{ id: `dst_${n + i}`, tenant: "acme", url, secret: "", created_at: 0, updated_at: 0 },
    ...{ group_name: group, deleted_at: deleted ? 1 : null },
  }));
  await insertRows(db, "destinations", rows);
}

const NO_LIMITS = {
  ...{ maxConcurrency: null, ratePerSecond: null, rateBurst: null, breakerFailureRatio: null },
  ...{ breakerMinAttempts: null, breakerWindowS: null, breakerCooldownS: null, breakerMaxCooldownS: null },
};
const put = (name: string, maxConcurrency: number | null = 5, now = 1) =>
  putGroup(db, { ...NO_LIMITS, name, maxConcurrency }, now);

describe("a list of groups", () => {
  const names = async (limit = 100, after?: string) =>
    (await listGroups(db, { after, limit })).map(({ name, row }) => `${name} ${row?.maxConcurrency}`);

  test("has those with limits and those that destinations name, in order", async () => {
    await destinations({ group: "c" }, { group: "c" }, { group: "host" }, { group: "z", deleted: true }, {});
    await destinations({ group: "0", deleted: true });
    await destinations({ group: "a" });
    await put("b", 7);
    await put("c", 8);
    await put("host:a.example", 9);
    expect(await names()).toEqual(["a undefined", "b 7", "c 8", "host:a.example 9"]);
  });

  test("comes in pages, of which none is short where there is more", async () => {
    await destinations({ group: "a" }, { group: "c" }, { group: "host" }, { group: "x" }, { group: "y" });
    await put("b");
    await put("d");
    expect(await names(3)).toEqual(["a undefined", "b 5", "c undefined"]);
    expect(await names(2, "d")).toEqual(["x undefined", "y undefined"]);
    expect(await names(2, "c")).toEqual(["d 5", "x undefined"]);
    expect(await names(1, "x")).toEqual(["y undefined"]);
    expect(await names(5, "y")).toEqual([]);
  });
});

describe("a group's limits", () => {
  test("are created, replaced as a whole, and removed", async () => {
    const first = { ...NO_LIMITS, name: "a", maxConcurrency: 5, createdAt: 1, updatedAt: 1 };
    expect(await put("a")).toEqual(first);
    const second = { ...NO_LIMITS, name: "a", rateBurst: 3 };
    expect(await putGroup(db, second, 2)).toEqual({ ...second, createdAt: 1, updatedAt: 2 });
    expect(await findGroup(db, "a")).toEqual({ ...second, createdAt: 1, updatedAt: 2 });
    await put("b");
    expect(await removeGroup(db, "a")).toBe(true);
    expect(await removeGroup(db, "a")).toBe(false);
    expect(await findGroup(db, "b")).toBeDefined();
  });

  test("are those of a thousand groups at most, of which each can still be changed", async () => {
    const rows = Array.from({ length: MOST_GROUPS - 1 }, (_, i) => ({
      name: `g${i}`,
      created_at: 0,
      updated_at: 0,
    }));
    await insertRows(db, "groups", rows);
    expect(await put("last")).toMatchObject({ name: "last" });
    expect(await put("more")).toBeUndefined();
    expect(await findGroup(db, "more")).toBeUndefined();
    expect(await put("g0", 6)).toMatchObject({ maxConcurrency: 6 });
  });
});

test("hosts that more destinations have than that are counted, those with the most first", async () => {
  const at = (host: string, times: number, scheme = "https") =>
    Array.from({ length: times }, (_, i) => ({ url: `${scheme}://${host}/${i}` }));
  await destinations(
    ...at("two.example", 2),
    ...at("three.example:8443", 3),
    ...at("also.example", 3, "http"),
    ...at("many.example", 4),
    ...at("two.example", 1).map((one) => ({ ...one, deleted: true })),
    ...at("no.example", 3, "ftp"),
    ...Array.from({ length: 3 }, () => ({ url: "queue:ORDERS" })),
  );
  await countSharedHosts(db, 5, 50);
  await countSharedHosts(db, 2, 60);
  const hosts = ["many.example", "also.example", "three.example:8443"];
  expect(await findSharedHosts(db, 2)).toEqual({ most: 2, countedAt: 60, hosts });
  // The counts by another number are of no use any more.
  expect(await findSharedHosts(db, 5)).toBeUndefined();
  await db.prepare("DELETE FROM destinations").bind().run();
  await countSharedHosts(db, 2, 70);
  expect(await findSharedHosts(db, 2)).toEqual({ most: 2, countedAt: 70, hosts: [] });
});
