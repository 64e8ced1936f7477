/** Deliveries as they are loaded for an attempt: which are, with what, and in how many round trips. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { type BundlePart, bundleOf } from "../../src/core/bundle.ts";
import { checksumOf } from "../../src/core/crc32.ts";
import { headerWithout } from "../../src/core/erase.ts";
import { beforeFirstBundleOf } from "../../src/core/placement.ts";
import { dueAtOf, liveUntilOf, loadDeliveries } from "../../src/store/deliveries.ts";
import { insertBundles } from "../support/bundle-rows.ts";
import { emptyDatabase } from "../support/databases.ts";
import { deliveryRow, storeDeliveries, storePacked } from "../support/delivery-rows.ts";
import { interceptedD1 } from "../support/intercept.ts";
import { meteredD1 } from "../support/meter.ts";
import { execute, newDestination } from "../support/world.ts";

const [A, B, C] = ["dst_a", "dst_b", "dst_c"] as const;
const MB = 1024 * 1024;

beforeEach(async () => {
  await emptyDatabase();
  await newDestination({ id: A });
  await newDestination({ id: B, retry: { give_up_after: 600 } });
  await newDestination({ id: C, tenant: "foreign" });
});

type Options = Parameters<typeof loadDeliveries>[2];

/** Loads the parts. A body is its text, null when it is damaged, undefined when it was not requested. */
async function loaded(parts: readonly BundlePart[], options?: Options, db = env.DB) {
  const { deliveries, ...others } = await loadDeliveries({ db }, parts, options);
  const all = deliveries.map(({ event: { body, ...event }, destination, row }) => ({
    ...{ event, row, destination: destination.id },
    body: body ? new TextDecoder().decode(body) : body,
  }));
  return { all, ...others };
}

const keysOf = ({ all }: Awaited<ReturnType<typeof loaded>>) =>
  all.map(({ event, destination }) => [event.id, destination]);

const bodiesOf = ({ all }: Awaited<ReturnType<typeof loaded>>) => all.map(({ body }) => body);

/** An event whose body is this text. */
const saying = (text: string, destinations: readonly string[] = [A]) => ({
  destinations,
  content: { text, type: "text/plain" },
});

describe("loaded deliveries", () => {
  test("are the planned ones that the parts name, each with its own content", async () => {
    const [one = 0, two = 0, three = 0, four = 0] = await insertBundles(env.DB, [
      {
        acceptedAt: 5,
        deliverAt: 9,
        events: [
          { ...saying("one", [A, C]), type: "order.paid", ttlSeconds: 60, headers: { traceparent: "00" } },
          { ...saying("two", [A, B, C]), tenant: "other" },
        ],
      },
      {
        acceptedAt: 6,
        events: [{ destinations: [A, C], data: 3 }, saying("four", [B, A]), saying("5", [A])],
      },
    ]);
    const found = await loaded([
      { bundle: 1, destinations: [A, B] },
      { bundle: 2, destinations: [A], indexes: [1, 1] },
    ]);
    expect(keysOf(found)).toEqual([
      [one, A],
      [two, A],
      [two, B],
      [four, A],
    ]);
    expect(bodiesOf(found)).toEqual(["one", "two", "two", "four"]);
    expect(found.all.map(({ event }) => event)).toStrictEqual([
      {
        ...{ id: one, tenant: "acme", type: "order.paid", contentType: "text/plain" },
        ...{ acceptedAt: 5, deliverAt: 9, ttlSeconds: 60, headers: { traceparent: "00" } },
      },
      ...Array(2).fill({
        ...{ id: two, tenant: "other", type: "a", contentType: "text/plain", acceptedAt: 5, deliverAt: 9 },
      }),
      { id: four, tenant: "acme", type: "a", contentType: "text/plain", acceptedAt: 6, deliverAt: null },
    ]);
    expect(found).toMatchObject({ missing: [], unknown: [], rest: [] });
    const [envelope] = (await loaded([{ bundle: bundleOf(three), destinations: [A], indexes: [0, 0] }])).all;
    expect(JSON.parse(envelope?.body ?? "")).toMatchObject({ type: "a", data: 3 });
    expect(envelope?.event.contentType).toBeUndefined();
  });

  const ENTRY = { at: 1, latencyMs: 1 };
  test("each have their own outcome, from rows and from packs", async () => {
    const events = await insertBundles(env.DB, [
      { events: Array(4).fill(saying("x", [A, B])) },
      { events: [saying("y", [A, B])] },
    ]);
    const [one = 0, two = 0, three = 0, four = 0, five = 0] = events;
    const rows = [
      deliveryRow({ destinationId: A, eventId: one, state: "retrying", attempts: 1 }),
      deliveryRow({ destinationId: A, eventId: two, state: "in_flight", owner: "last", log: [ENTRY, ENTRY] }),
      deliveryRow({ destinationId: B, eventId: five, state: "waiting" }),
    ];
    await storeDeliveries(env.DB, rows);
    await storePacked(env.DB, [
      { destinationId: A, eventId: three, state: "waiting" },
      { destinationId: B, eventId: one, state: "delivered" },
    ]);
    const found = await loaded([
      { bundle: 1, destinations: [A, B] },
      { bundle: 2, destinations: [A, B] },
    ]);
    const state = (event: number, destination: string) =>
      found.all.find((one) => one.event.id === event && one.destination === destination)?.row;
    expect(state(one, A)).toEqual(rows[0]);
    expect(state(two, A)).toEqual(rows[1]);
    expect(state(five, B)).toEqual(rows[2]);
    expect(state(three, A)).toMatchObject({ state: "waiting", reason: "circuit_open" });
    // Its age limit is that of its own destination.
    expect(state(one, B)).toMatchObject({ state: "delivered", endedAt: 1, giveUpAt: 600_001 });
    for (const [event, destination] of [
      [four, A],
      [two, B],
      [five, A],
    ] as const)
      expect(state(event, destination)).toBeUndefined();
  });

  test("have bodies only if they have not ended and are due", async () => {
    const [one = 0, two = 0, three = 0] = await insertBundles(env.DB, [
      { events: [saying("one"), saying("two"), saying("three"), saying("four")] },
    ]);
    await storeDeliveries(env.DB, [
      { destinationId: A, eventId: one, endedAt: 7 },
      { destinationId: A, eventId: two, state: "waiting", attempts: 3 },
      { destinationId: A, eventId: three, state: "waiting", attempts: 2 },
    ]);
    const part = { bundle: 1, destinations: [A] };
    expect(bodiesOf(await loaded([part]))).toEqual([undefined, "two", "three", "four"]);
    const isDue = (row: { attempts: number } | undefined) => row?.attempts !== 3;
    expect(bodiesOf(await loaded([part], { isDue }))).toEqual([undefined, undefined, "three", "four"]);
  });

  test("have bodies also if they have ended, where that is asked for", async () => {
    const [one = 0, two = 0] = await insertBundles(env.DB, [{ events: [saying("one"), saying("two")] }]);
    await storeDeliveries(env.DB, [
      { destinationId: A, eventId: one, endedAt: 7 },
      { destinationId: A, eventId: two, state: "waiting" },
    ]);
    const options = { withEnded: true, isDue: () => false };
    expect(bodiesOf(await loaded([{ bundle: 1, destinations: [A] }], options))).toEqual(["one", "two"]);
  });

  test("have their places in lines and the versions of their types, if they have some", async () => {
    const [, second = 0] = await insertBundles(env.DB, [
      { events: [saying("one", [A, B]), saying("two", [A, B])] },
    ]);
    const header = { versions: [[2, 5, 1, 1]], lines: { [A]: [["x", 9, 1, 0, 1]] } };
    await execute("UPDATE bundles SET header = json_patch(header, ?1)", JSON.stringify(header));
    await execute(
      `INSERT INTO lines (destination_id, line, event_id, give_up_at, holds)
       SELECT ?1, 'x', ?2 + value, 9, 1 FROM json_each('[0, -1]')`,
      A,
      second,
    );
    const { deliveries } = await loadDeliveries({ db: env.DB }, [{ bundle: 1, destinations: [A, B] }]);
    const version = { version: 2, since: 5 };
    expect(
      deliveries.map(({ event, destination, place }) => [
        event.id - second,
        destination.id,
        event.version,
        place,
      ]),
    ).toEqual([
      [-1, A, undefined, { line: "x", before: null, holds: true }],
      [0, A, version, { line: "x", before: second - 1, holds: true }],
      [-1, B, undefined, undefined],
      [0, B, version, undefined],
    ]);
    expect(deliveries.filter((one) => "place" in one)).toHaveLength(2);
  });

  test("have no body if they have been erased", async () => {
    await insertBundles(env.DB, [{ events: [saying(""), saying("kept")] }]);
    await execute("UPDATE bundles SET header = json_set(header, '$.erased', json('[0, 0]'))");
    const { all } = await loaded([{ bundle: 1, destinations: [A] }]);
    expect(all.map(({ event: { isErased }, body }) => ({ isErased, body }))).toStrictEqual([
      { isErased: true, body: undefined },
      { isErased: undefined, body: "kept" },
    ]);
    const d1 = meteredD1(env.DB);
    const only = { bundle: 1, destinations: [A], indexes: [0, 0] };
    expect(bodiesOf(await loaded([only], { fewDueOf: new Set([1]) }, d1.db))).toEqual([undefined]);
    expect(d1.used().roundTrips).toBe(1);
  });

  test("do not include unstored ones, which are reported", async () => {
    const unbound = beforeFirstBundleOf(7) + 1;
    await insertBundles(env.DB, [
      { events: [saying("one", [A, "dst_gone"]), saying("two", [A, "dst_gone"])] },
    ]);
    const found = await loaded([
      { bundle: 9, destinations: [A, B], indexes: [0, 1] },
      { bundle: 1, destinations: ["dst_gone", B, A], indexes: [1, 1] },
      { bundle: unbound, destinations: [A] },
      { bundle: 1, destinations: ["dst_gone"] },
    ]);
    expect(bodiesOf(found)).toEqual(["two"]);
    expect(found.missing).toStrictEqual([
      { bundle: 9, destinations: [A, B], indexes: [0, 1] },
      { bundle: 1, destinations: ["dst_gone"], indexes: [1, 1] },
      { bundle: 1, destinations: ["dst_gone"] },
      { bundle: unbound, destinations: [A] },
    ]);
  });

  test("do not include those that a later version has stored, which are left to its code", async () => {
    await insertBundles(env.DB, [{ events: [saying("one")] }, { events: [saying("two")] }]);
    await execute("UPDATE bundles SET header = json_set(header, '$.version', 5) WHERE id = 1");
    await execute("UPDATE bundles SET header = json_set(header, '$.version', 4) WHERE id = 2");
    const [later, known] = [
      { bundle: 1, destinations: [A] },
      { bundle: 2, destinations: [A] },
    ];
    const found = await loaded([later, known]);
    expect(bodiesOf(found)).toEqual(["two"]);
    expect(found).toMatchObject({ missing: [], unknown: [later] });
  });

  test("are not blocked by an index of a plan without an event in its bundle", async () => {
    await insertBundles(env.DB, [{ events: [saying("one")] }]);
    await execute("UPDATE bundles SET plan = ?1", JSON.stringify({ [A]: [0, 1] }));
    expect(bodiesOf(await loaded([{ bundle: 1, destinations: [A] }]))).toEqual(["one", ""]);
  });

  test("are none, at no cost, when none are requested", async () => {
    const d1 = meteredD1(env.DB);
    expect(await loaded([], {}, d1.db)).toEqual({ all: [], late: [], missing: [], unknown: [], rest: [] });
    expect(d1.used().roundTrips).toBe(0);
  });
});

describe("deliveries of a further database", () => {
  const FAR = beforeFirstBundleOf(1) + 1;
  const near = { bundle: 1, destinations: [A] };
  const far = { bundle: FAR, destinations: [A] };
  const textsOf = ({ deliveries }: Awaited<ReturnType<typeof loadDeliveries>>) =>
    deliveries.map(({ event: { body } }) => body && new TextDecoder().decode(body));
  beforeEach(() =>
    insertBundles(env.DB, [
      { id: 1, events: [saying("near")] },
      { id: FAR, events: [saying("far")] },
    ]),
  );

  /** Loads both while the further database answers with what is returned. */
  function loadedWith(answer: () => Promise<unknown>, patience?: (over: AbortSignal) => Promise<unknown>) {
    const further = interceptedD1(env.DB, async (_, work) => {
      await answer();
      return work();
    });
    return loadDeliveries({ db: env.DB, further: [further] }, [far, near], patience && { patience });
  }

  test("are awaited without patience, and all fail where they cannot be read", async () => {
    expect(textsOf(await loadedWith(async () => {}))).toEqual(["far", "near"]);
    await expect(loadedWith(() => Promise.reject(new Error("away")))).rejects.toThrow("away");
  });

  test("that come in time end the patience", async () => {
    const signals: AbortSignal[] = [];
    const found = await loadedWith(
      async () => {},
      (over) => {
        signals.push(over);
        return new Promise((end) => over.addEventListener("abort", end));
      },
    );
    expect([textsOf(found), found.late, signals.map(({ aborted }) => aborted)]).toEqual([
      ["far", "near"],
      [],
      [true],
    ]);
  });

  test("are late once the patience is over, and can be awaited by themselves", async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const found = await loadedWith(
      () => promise,
      async () => {},
    );
    expect([textsOf(found), found.missing, found.late.map(({ parts }) => parts)]).toEqual([
      ["near"],
      [],
      [[far]],
    ]);
    resolve();
    const late = await found.late[0]?.loaded;
    expect(late && [textsOf(late), late.missing]).toEqual([["far"], []]);
  });

  test("that cannot be read are late too, and nobody has to wait for that", async () => {
    const found = await loadedWith(
      () => Promise.reject(new Error("away")),
      () => new Promise(() => {}),
    );
    expect([textsOf(found), found.late.map(({ parts }) => parts)]).toEqual([["near"], [[far]]]);
    await expect(found.late[0]?.loaded).rejects.toThrow("away");
  });

  test("need no patience where there are none", async () => {
    const patience = () => Promise.reject(new Error("Nobody waits"));
    const found = await loadDeliveries({ db: env.DB }, [near], { patience });
    expect(textsOf(found)).toEqual(["near"]);
  });
});

/**
 * Bundles of one event for the destination A, whose stored bodies have so many bytes. The body is one letter, zipped, and
 * what is left is filled with a comment (RFC 1952 §2.3: flag 16, after ten bytes, and ended by a zero).
 */
async function insertSized(...sizes: readonly number[]): Promise<BundlePart[]> {
  await insertBundles(
    env.DB,
    sizes.map(() => ({ events: [{ destinations: [A] }] })),
  );
  const zipping = new Blob(["x"]).stream().pipeThrough(new CompressionStream("gzip"));
  const zipped = await new Response(zipping).bytes();
  const start = zipped.slice(0, 10);
  start[3] = 16;
  const end = `00${zipped.subarray(10).toHex()}`;
  const header = { version: 1, encoding: "gzip", tenants: ["acme"], types: ["a"], events: [0, 0, 1] };
  for (const [i, bytes] of sizes.entries())
    await execute(
      `UPDATE bundles SET header = ?2, body = unhex(?3 || replace(hex(zeroblob(?4)), '00', '20') || ?5)
       WHERE id = ?1`,
      ...[i + 1, JSON.stringify(header), start.toHex(), bytes - zipped.byteLength - 1, end],
    );
  return sizes.map((_, i) => ({ bundle: i + 1, destinations: [A] }));
}

describe("bodies", () => {
  test.each([
    ["come with their bundles when they are small", [99, 99, 99], 1],
    ["come with their bundles up to an equal share of 2 MB", [MB, MB], 1],
    ["come in another round trip beyond that", [MB + 1, 99], 2],
    ["share that round trip up to 2 MB", [MB, MB, 99], 2],
    ["come in several beyond that", [MB, MB + 1, 99], 3],
    ["come in portions as large as possible", [700_000, 700_000, 700_000, 700_000], 3],
  ])("%s", async (_, sizes, roundTrips) => {
    const parts = await insertSized(...sizes);
    const d1 = meteredD1(env.DB);
    expect(bodiesOf(await loaded(parts, {}, d1.db))).toEqual(sizes.map(() => "x"));
    expect(d1.used().roundTrips).toBe(roundTrips);
  });

  test("of bundles with few due deliveries come once it is known that some are", async () => {
    const [one, two] = await insertBundles(env.DB, [
      { events: [saying("one")] },
      { events: [saying("two")] },
    ]);
    const parts = [1, 2].map((bundle) => ({ bundle, destinations: [A] }));
    const d1 = meteredD1(env.DB);
    const load = async () => [
      bodiesOf(await loaded(parts, { fewDueOf: new Set([2]) }, d1.db)),
      d1.used().roundTrips,
    ];
    expect(await load()).toEqual([["one", "two"], 2]);
    await storeDeliveries(env.DB, [{ destinationId: A, eventId: two ?? 0, endedAt: 7 }]);
    expect(await load()).toEqual([["one", undefined], 1]);
    await storeDeliveries(env.DB, [{ destinationId: A, eventId: one ?? 0, endedAt: 7 }]);
    expect(await load()).toEqual([[undefined, undefined], 1]);
  });

  test("are also loaded if they have no bytes", async () => {
    await insertBundles(env.DB, [{ events: [saying("")] }, { events: [saying("")] }]);
    const parts = [1, 2].map((bundle) => ({ bundle, destinations: [A] }));
    expect(bodiesOf(await loaded(parts, { fewDueOf: new Set([1, 2]) }))).toEqual(["", ""]);
  });

  test.each([
    ["that came with its bundle", new Set<number>(), 2],
    ["that did not", new Set([1]), 3],
  ])("count as damaged once one %s has been read twice", async (_, fewDueOf, roundTrips) => {
    await insertBundles(env.DB, [{ events: [saying("one"), saying("two")] }]);
    await execute("UPDATE bundles SET body = x'00'");
    const d1 = meteredD1(env.DB);
    expect(bodiesOf(await loaded([{ bundle: 1, destinations: [A] }], { fewDueOf }, d1.db))).toEqual([
      null,
      null,
    ]);
    expect(d1.used().roundTrips).toBe(roundTrips);
  });

  /** Loads the first bundle while `meanwhile` happens between the first round trip and the next. */
  async function loadedWhile(meanwhile: () => Promise<unknown>) {
    let trips = 0;
    const db = interceptedD1(env.DB, async (_, work) => {
      if (++trips === 2) await meanwhile();
      return work();
    });
    return loaded([{ bundle: 1, destinations: [A] }], { fewDueOf: new Set([1]) }, db);
  }

  test("are read by the header that is stored beside them when an erasure comes between", async () => {
    await insertBundles(env.DB, [{ events: [saying("secret"), saying("kept")] }]);
    const { all } = await loadedWhile(async () => {
      const left = new TextEncoder().encode("kept");
      const header = await env.DB.prepare("SELECT header FROM bundles").first<string>("header");
      const also = { tags: false, keys: [] };
      const stored = { encoding: "plain", checksum: checksumOf(left) } as const;
      const erased = headerWithout(JSON.parse(header ?? ""), [0], stored, also);
      await execute("UPDATE bundles SET header = ?1, body = unhex(?2)", JSON.stringify(erased), left.toHex());
    });
    expect(all.map(({ event: { isErased }, body }) => ({ isErased, body }))).toStrictEqual([
      { isErased: true, body: undefined },
      { isErased: undefined, body: "kept" },
    ]);
  });

  test("of a bundle that is removed meanwhile count as damaged", async () => {
    await insertBundles(env.DB, [{ events: [saying("one")] }]);
    const found = await loadedWhile(() => execute("DELETE FROM bundles"));
    expect(bodiesOf(found)).toEqual([null]);
  });

  test("and bundles of others are not read", async () => {
    await insertBundles(
      env.DB,
      Array.from({ length: 60 }, () => ({ events: [saying("x", [A, C])] })),
    );
    const d1 = meteredD1(env.DB);
    await loaded([{ bundle: 30, destinations: [A] }], { fewDueOf: new Set([30]) }, d1.db);
    expect(d1.used().rowsRead).toBeLessThanOrEqual(12);
  });
});

describe("memory for bodies", () => {
  /** Bundles whose headers say that their only event has so many bytes. */
  async function openedOf(...sizes: readonly number[]) {
    await insertBundles(
      env.DB,
      sizes.map(() => ({ events: [saying("x")] })),
    );
    for (const [i, bytes] of sizes.entries())
      await execute(
        "UPDATE bundles SET header = json_set(header, '$.events[2]', ?2) WHERE id = ?1",
        i + 1,
        bytes,
      );
    const parts = sizes.map((_, i) => ({ bundle: i + 1, destinations: [A] }));
    const found = await loaded(parts);
    expect(keysOf(found).length + found.rest.length).toBe(sizes.length);
    expect(found.rest.every((part) => parts.includes(part as (typeof parts)[number]))).toBe(true);
    return found.all.map(({ event }) => bundleOf(event.id));
  }

  test.each([
    ["holds 8 MB in all", [4 * MB, 4 * MB, 1], [1, 2]],
    ["leaves the rest for later, but not what still fits", [5 * MB, 4 * MB, 3 * MB], [1, 3]],
    ["holds one bundle, however large it is", [9 * MB, 1], [1]],
    ["has no room for another beside a larger one", [1, 9 * MB], [1]],
    ["has room for all small ones", [1, 1, 1], [1, 2, 3]],
  ])("%s", async (_, sizes, opened) => {
    expect(await openedOf(...sizes)).toEqual(opened);
  });

  test("counts only due deliveries, and nothing for an index without an event", async () => {
    const [, event = 0] = await insertBundles(
      env.DB,
      [1, 2, 3].map(() => ({ events: [saying("x")] })),
    );
    await execute("UPDATE bundles SET header = json_set(header, '$.events[2]', ?1)", 8 * MB);
    await execute("UPDATE bundles SET plan = ?1 WHERE id = 1", JSON.stringify({ [A]: [0, 4] }));
    await storeDeliveries(env.DB, [{ destinationId: A, eventId: event, endedAt: 7 }]);
    const found = await loaded([1, 2, 3].map((bundle) => ({ bundle, destinations: [A] })));
    expect(new Set(found.all.map(({ event }) => bundleOf(event.id)))).toEqual(new Set([1, 2]));
    expect(found.rest).toEqual([{ bundle: 3, destinations: [A] }]);
  });
});

describe("the times of an event", () => {
  test("count from when it is due", () => {
    expect(dueAtOf({ acceptedAt: 1_000, deliverAt: null })).toBe(1_000);
    expect(dueAtOf({ acceptedAt: 1_000, deliverAt: 5_000 })).toBe(5_000);
  });

  test.each([
    [{ acceptedAt: 1_000, deliverAt: null }, undefined],
    [{ acceptedAt: 1_000, deliverAt: null, ttlSeconds: 60 }, 61_000],
    [{ acceptedAt: 1_000, deliverAt: 5_000, ttlSeconds: 60 }, 65_000],
  ])("%o ends at %s", (event, end) => {
    expect(liveUntilOf(event)).toBe(end);
  });
});
