/** Applications of the Svix API in the database: found by either name, changed without a race, and their endpoints with them. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import {
  changeApplication,
  deleteApplication,
  findApplication,
  insertApplication,
  listApplications,
  rateOf,
} from "../../../src/features/applications/sql.ts";
import { findDestination } from "../../../src/store/destinations.ts";
import { emptyDatabase, plainDestination } from "../../support/api.ts";
import { rowsOfAll } from "../../support/databases.ts";

beforeEach(emptyDatabase);

const application = (id: string, uid: string | null = null, ratePerSecond: number | null = null) =>
  insertApplication(env.DB, {
    id,
    uid,
    ratePerSecond,
    name: `name of ${id}`,
    metadata: null,
    createdAt: 1,
    updatedAt: 1,
  });

const endpoint = (id: string, tenant: string, rate: number, deletedAt: number | null = null) =>
  plainDestination(id, { tenant, rate_per_second: rate, deleted_at: deletedAt });

const rates = async () =>
  Object.fromEntries(
    (
      await rowsOfAll<{ id: string; rate: number; at: number }>(
        "SELECT id, rate_per_second AS rate, updated_at AS at FROM destinations",
      )
    ).map(({ id, rate, at }) => [id, [rate, at]]),
  );

describe("an application", () => {
  test("is found by its id or its uid, and by its id before another's uid", async () => {
    await application("one", "two");
    await application("two", "three");
    await application("four", "one");
    const found = await Promise.all(
      ["one", "two", "three", "four", "five"].map((name) => findApplication(env.DB, name)),
    );
    expect(found.map((one) => one?.id)).toEqual(["one", "two", "two", "four", undefined]);
    expect(found[0]).toMatchObject({ name: "name of one", uid: "two", createdAt: 1 });
  });

  test("is not created with an id or a uid that is taken", async () => {
    expect(await application("one", "uid")).toMatchObject({ id: "one" });
    expect(await application("one")).toBeUndefined();
    expect(await application("two", "uid")).toBeUndefined();
    expect(await application("two")).toMatchObject({ id: "two" });
  });

  test("is listed in order of its id, either way, a page at a time", async () => {
    for (const id of ["b", "d", "a", "c"]) await application(id);
    const page = async (after?: string, descending?: boolean) =>
      (
        await listApplications(env.DB, {
          after,
          limit: 3,
          ...(descending !== undefined && { descending }),
        })
      )
        .map(({ id }) => id)
        .join("");
    expect([await page(), await page("b")]).toEqual(["abc", "cd"]);
    expect([await page(undefined, true), await page("c", true)]).toEqual(["dcb", "ba"]);
  });
});

describe("a change", () => {
  test("writes the given fields, nulls too, and leaves other fields and applications alone", async () => {
    await application("one", "uid", 5);
    await application("two", "other", 5);
    expect(await changeApplication(env.DB, "one", { name: "new", metadata: { a: "b" } }, 7)).toEqual({
      id: "one",
      uid: "uid",
      name: "new",
      ratePerSecond: 5,
      metadata: { a: "b" },
      createdAt: 1,
      updatedAt: 7,
    });
    const nulls = { uid: null, ratePerSecond: null, metadata: null };
    expect(await changeApplication(env.DB, "one", nulls, 8)).toMatchObject({ ...nulls, name: "new" });
    expect(await findApplication(env.DB, "two")).toMatchObject({ name: "name of two", updatedAt: 1 });
    expect(await changeApplication(env.DB, "none", { name: "new" }, 9)).toBeUndefined();
  });

  test("may name the application's own uid, but not another's", async () => {
    await application("one", "uid", 5);
    await application("two", "other", 5);
    await endpoint("dst_a", "one", 5);
    expect(await changeApplication(env.DB, "one", { uid: "uid", ratePerSecond: 6 }, 7)).toBeDefined();
    expect(await changeApplication(env.DB, "one", { uid: "other", ratePerSecond: 9 }, 8)).toBeUndefined();
    expect(await findApplication(env.DB, "one")).toMatchObject({
      uid: "uid",
      ratePerSecond: 6,
      updatedAt: 7,
    });
    expect(await rates()).toEqual({ dst_a: [6, 7] });
  });

  test("of the rate changes the endpoints without their own rate", async () => {
    await application("two", null, 6);
    await application("one", null, 5);
    await endpoint("dst_same", "one", 5);
    await endpoint("dst_own", "one", 6);
    await endpoint("dst_deleted", "one", 5, 3);
    await endpoint("dst_foreign", "two", 5);
    await changeApplication(env.DB, "one", { ratePerSecond: 8 }, 7);
    const others = { dst_own: [6, 1], dst_deleted: [5, 1], dst_foreign: [5, 1] };
    expect(await rates()).toEqual({ dst_same: [8, 7], ...others });
    await changeApplication(env.DB, "one", { ratePerSecond: null }, 9);
    expect(await rates()).toEqual({ dst_same: [100, 9], ...others });
    await changeApplication(env.DB, "one", { ratePerSecond: 2 }, 10);
    expect(await rates()).toEqual({ dst_same: [2, 10], ...others });
  });

  test.each([
    { ratePerSecond: 5 },
    { name: "new" },
  ])("to %j of an application with a rate of 5 changes no endpoint", async (change) => {
    await application("one", null, 5);
    await endpoint("dst_a", "one", 5);
    await changeApplication(env.DB, "one", change, 7);
    expect(await rates()).toEqual({ dst_a: [5, 1] });
  });
});

test("an application without a rate has the default of a destination", () => {
  expect([rateOf({ ratePerSecond: null }), rateOf({ ratePerSecond: 3 })]).toEqual([100, 3]);
});

test("deleting an application deletes its endpoints, and no others, and names those that were there", async () => {
  await application("one");
  await application("two");
  await endpoint("dst_a", "one", 1);
  await endpoint("dst_b", "one", 1);
  await endpoint("dst_gone", "one", 1, 3);
  await endpoint("dst_foreign", "two", 1);
  expect((await deleteApplication(env.DB, "one", 9)).toSorted()).toEqual(["dst_a", "dst_b"]);
  expect(await findApplication(env.DB, "one")).toBeUndefined();
  expect(await findApplication(env.DB, "two")).toBeDefined();
  const deleted = await rowsOfAll(
    "SELECT id, deleted_at AS at FROM destinations WHERE deleted_at > 0 ORDER BY id",
  );
  expect(deleted).toEqual([
    { id: "dst_a", at: 9 },
    { id: "dst_b", at: 9 },
    { id: "dst_gone", at: 3 },
  ]);
  expect(await findDestination(env.DB, "dst_foreign", "two")).toBeDefined();
  expect(await deleteApplication(env.DB, "one", 10)).toEqual([]);
});
