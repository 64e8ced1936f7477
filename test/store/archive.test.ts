/** The archive in R2: what is stored stays as it is, what is read is the tenant's own, and what is gone in D1 goes. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import {
  type ArchivedExchange,
  type AttemptKey,
  archiveNameOf,
  MOST_OBJECT_BYTES,
} from "../../src/core/archive.ts";
import { eventAt } from "../../src/core/bundle.ts";
import { beforeFirstOf } from "../../src/core/placement.ts";
import { storeExchange } from "../../src/delivery/archiver.ts";
import {
  archiveOf,
  emptyExchange,
  mayBeArchived,
  readExchange,
  removeExchanges,
  removeGone,
} from "../../src/store/archive.ts";
import { emptyDatabase } from "../support/api.ts";
import { realBucket, storedObjects, type TestBucket, testBucket } from "../support/bucket.ts";
import { insertBundles } from "../support/bundle-rows.ts";
import { testDatabases } from "../support/databases.ts";

const sleep = () => new Promise<void>(() => {});
const KEY: AttemptKey = { event: 128, destination: "dst_a", at: 7 };

const exchange: ArchivedExchange = {
  ...{ version: 1, tenant: "acme", destination: "dst_a", at: 7 },
  request: { url: "https://a.example/", headers: {}, form: { body: "envelope", template: null } },
};

let r2: TestBucket;
beforeEach(async () => {
  await emptyDatabase();
  r2 = await testBucket();
});

test("there is an archive if R2 is bound", () => {
  expect(archiveOf({ bodies: realBucket, sleep })).toEqual({ bucket: realBucket, sleep });
  expect(archiveOf({ bodies: undefined, sleep })).toBeUndefined();
});

test.each([
  [{}, {}, false],
  [{ bodiesOf: undefined }, { archived: undefined }, false],
  [{ bodiesOf: "all" }, {}, true],
  [{}, { archived: true }, true],
] as const)("with the setting %j an attempt %j may be archived: %s", (config, entry, may) => {
  expect(mayBeArchived(config, entry)).toBe(may);
});

describe("an exchange", () => {
  const read = (bucket: R2Bucket, tenant = "acme", key = KEY) => readExchange({ bucket, sleep }, key, tenant);

  test("is stored once, as JSON, and read only by its tenant", async () => {
    await storeExchange(realBucket, KEY, exchange);
    await storeExchange(realBucket, KEY, { ...exchange, tenant: "rival" });
    expect(await read(realBucket)).toEqual(exchange);
    expect(await read(realBucket, "rival")).toBeUndefined();
    expect(await read(realBucket, "acme", { ...KEY, at: 8 })).toBeUndefined();
    expect((await realBucket.head(archiveNameOf(KEY)))?.httpMetadata?.contentType).toBe("application/json");
  });

  test("that has been emptied cannot be read, and is not stored again", async () => {
    await storeExchange(realBucket, KEY, exchange);
    await emptyExchange({ bucket: realBucket, sleep }, KEY);
    await emptyExchange({ bucket: realBucket, sleep }, { ...KEY, at: 8 });
    for (const at of [7, 8]) {
      await storeExchange(realBucket, { ...KEY, at }, { ...exchange, at });
      expect(await read(realBucket, "acme", { ...KEY, at })).toBeUndefined();
    }
    expect((await storedObjects()).map(({ text }) => text)).toEqual(["", ""]);
  });

  /** A bucket whose object says that it has so many bytes. */
  function bucketWith(size: number) {
    const used: string[] = [];
    const object = {
      size,
      text: async () => {
        used.push("read");
        return JSON.stringify(exchange);
      },
      body: { cancel: async () => void used.push("cancelled") },
    };
    return { bucket: { get: async () => object } as unknown as R2Bucket, used };
  }

  test("that is larger than any that Breakwater stores is not read into memory", async () => {
    const largest = bucketWith(MOST_OBJECT_BYTES);
    expect(await read(largest.bucket)).toEqual(exchange);
    const larger = bucketWith(MOST_OBJECT_BYTES + 1);
    expect(await read(larger.bucket)).toBeUndefined();
    expect([largest.used, larger.used]).toEqual([["read"], ["cancelled"]]);
  });

  test("that does not come in time is an error", async () => {
    const bucket = { get: () => new Promise(() => {}) } as unknown as R2Bucket;
    const late = readExchange({ bucket, sleep: async () => {} }, KEY, "acme");
    await expect(late).rejects.toThrow("R2 did not answer in time");
  });

  test("is removed with its attempt, as many as there are, a thousand in one call", async () => {
    const calls: string[][] = [];
    const bucket = { delete: async (names: string[]) => void calls.push(names) } as unknown as R2Bucket;
    const keys = Array.from({ length: 2_500 }, (_, at) => ({ ...KEY, at }));
    await removeExchanges({ bucket, sleep }, keys);
    expect(calls.map(({ length }) => length)).toEqual([1_000, 1_000, 500]);
    expect(calls.flat()).toEqual(keys.map(archiveNameOf));
    calls.splice(0);
    await removeExchanges({ bucket, sleep }, keys.slice(0, 1_000));
    await removeExchanges({ bucket, sleep }, []);
    expect(calls).toHaveLength(1);
  });
});

describe("removing exchanges of removed events", () => {
  const keep = async (event: number, at = 1) =>
    void (await realBucket.put(archiveNameOf({ ...KEY, event, at }), "{}"));

  const left = async () =>
    (await storedObjects())
      .map(({ name }) => name.split("/"))
      .map(([, event, , at]) => `${Number(event)} ${at}`);

  /** Goes over all events up to `last`, with so many objects in one list. */
  const walk = (
    range: Partial<Record<"after" | "last", number>> = {},
    limit = 1_000,
    mayGoOn = () => true,
  ) => {
    const list = (options: R2ListOptions) => r2.bucket.list({ ...options, limit });
    const bucket = { ...r2.bucket, list } as R2Bucket;
    const bounds = { after: 0, last: Number.MAX_SAFE_INTEGER, ...range };
    return removeGone({ db: env.DB, further: testDatabases.slice(1) }, { bucket, sleep }, bounds, mayGoOn);
  };

  /** Two bundles of three events; of the second the middle event has been erased. */
  const [first, second] = [10, 20];
  async function stored(): Promise<void> {
    const events = [{}, {}, {}];
    await insertBundles(env.DB, [
      { id: first, events },
      { id: second, events },
    ]);
    const erased = "UPDATE bundles SET header = json_set(header, '$.erased', json('[1,1]')) WHERE id = ?1";
    await env.DB.prepare(erased).bind(second).run();
  }

  test("removes exchanges without an event or of an erased one, and keeps everything else", async () => {
    await stored();
    for (const bundle of [first, 15, second]) for (const index of [0, 1]) await keep(eventAt(bundle, index));
    const unbound = beforeFirstOf(testDatabases.length) + eventAt(5, 0);
    await keep(unbound);
    await realBucket.put("attempts/readme", "");
    await realBucket.put("backup/0000000000000001/x", "");
    const last = Number.MAX_SAFE_INTEGER;
    expect(await walk()).toEqual({ upto: last, isLast: true, removed: 3 });
    const kept = [eventAt(first, 0), eventAt(first, 1), eventAt(second, 0), unbound].map((one) => `${one} 1`);
    expect((await left()).filter((name) => !name.startsWith("NaN"))).toEqual(expect.arrayContaining(kept));
    expect(await storedObjects()).toHaveLength(6);
    expect(await walk()).toEqual({ upto: last, isLast: true, removed: 0 });
    expect(r2.called("delete")).toBe(1);
  });

  test("begins behind an event, and ends with another, also where lists end within it", async () => {
    for (const event of [200, 201, 202, 203, 204]) for (const at of [1, 2, 3]) await keep(event, at);
    expect(await walk({ after: 200, last: 202 }, 2)).toEqual({ upto: 202, isLast: true, removed: 6 });
    expect(new Set(await left())).toEqual(
      new Set([200, 203, 204].flatMap((event) => [1, 2, 3].map((at) => `${event} ${at}`))),
    );
    expect(r2.called("list")).toBe(4);
  });

  test("reads nothing beyond the list that leaves the range", async () => {
    await stored();
    for (const index of [0, 1, 2]) await keep(eventAt(first, index));
    expect(await walk({ last: eventAt(first, 0) }, 1)).toMatchObject({ isLast: true });
    expect(r2.called("list")).toBe(2);
  });

  test("stops when it may not continue, before an event that may have more objects", async () => {
    await stored();
    const [kept, gone] = [eventAt(first, 0), eventAt(second, 1)];
    for (const event of [kept, gone]) for (const at of [1, 2]) await keep(event, at);
    expect(await walk({}, 1, () => false)).toEqual({ upto: kept, isLast: false, removed: 0 });
    expect(await walk({ after: kept }, 1, () => false)).toEqual({
      upto: gone - 1,
      isLast: false,
      removed: 1,
    });
    expect(await walk({ after: gone - 1 }, 1, () => false)).toEqual({
      upto: Number.MAX_SAFE_INTEGER,
      isLast: true,
      removed: 1,
    });
    expect(await left()).toEqual([`${kept} 1`, `${kept} 2`]);
  });

  test("over several lists counts everything that it has removed", async () => {
    await stored();
    for (const bundle of [5, 6, 7]) for (const index of [0, 1]) await keep(eventAt(bundle, index));
    await keep(eventAt(first, 2));
    expect(await walk({}, 3)).toMatchObject({ isLast: true, removed: 6 });
    expect(await left()).toEqual([`${eventAt(first, 2)} 1`]);
  });

  test("does not go back when it stops at an object without an event", async () => {
    for (const name of ["readme", "sums"]) await realBucket.put(`attempts/${name}`, "");
    const stopped = { upto: 500, isLast: false, removed: 0 };
    expect(await walk({ after: 500 }, 1, () => false)).toEqual(stopped);
  });

  test("ends at once if nothing is archived", async () => {
    expect(await walk({ last: 500 })).toEqual({ upto: 500, isLast: true, removed: 0 });
    expect([r2.called("list"), r2.called("delete")]).toEqual([1, 0]);
  });
});
