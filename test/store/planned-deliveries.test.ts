/**
 * Events and deliveries found by the plans of bundles: each for its own tenant, in the state that its row or its bit says,
 * until the event is over; and the list of those that are queued.
 */
import { env } from "cloudflare:workers";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { bundleOf, eventAt, indexOf } from "../../src/core/bundle.ts";
import { endsText, maskOf } from "../../src/core/pack.ts";
import { beforeFirstBundleOf } from "../../src/core/placement.ts";
import { DAY_MS } from "../../src/core/retention.ts";
import type { Cutoffs } from "../../src/store/delivery-filter.ts";
import type { ListFilter } from "../../src/store/delivery-list.ts";
import {
  deliveriesOfEvents,
  findDelivery,
  findEvent,
  findEventAlone,
  readEvent,
} from "../../src/store/planned-deliveries.ts";
import { queuedDeliveries } from "../../src/store/queued-deliveries.ts";
import { moveCursor, moveWatermark } from "../../src/store/sweep.ts";
import { insertRow } from "../support/api.ts";
import { type BundleRow, insertBundles } from "../support/bundle-rows.ts";
import { emptyDatabase } from "../support/databases.ts";
import { interceptedD1 } from "../support/intercept.ts";
import { meteredD1 } from "../support/meter.ts";
import { execute } from "../support/world.ts";

const NOW = Date.parse("2026-11-21T09:00:00.000Z");
const HOUR = 3_600_000;
const KEPT_MS = 30 * DAY_MS;
const DB = { db: env.DB };
const OVER: Cutoffs = { dueBy: NOW - KEPT_MS, endedBy: NOW - HOUR, now: NOW, first: env.DB };
const [A, B, C] = ["dst_a", "dst_b", "dst_c"] as const;
const TENANT = "acme";

/** Destinations, which are deleted at the time given. */
async function destinations(ids: readonly string[], deletedAt: number | null = null): Promise<void> {
  await execute(
    `INSERT INTO destinations (id, tenant, url, secret, deleted_at, created_at, updated_at)
     SELECT value, ?2, 'https://example.com/', '', ?3, 0, 0 FROM json_each(?1)`,
    JSON.stringify(ids),
    TENANT,
    deletedAt,
  );
}

const row = (destination: string, event: number, state: string, endedAt: number | null = null) =>
  insertRow("deliveries", {
    ...{ destination_id: destination, event_id: event, state, give_up_at: 0, ended_at: endedAt },
    ...{ attempts: 3, generation: 1 },
  });

/** A pack in which these events were delivered at that time. */
const delivered = (destination: string, events: readonly number[], at: number) => {
  const [low, high] = maskOf(events.map(indexOf));
  const ends = endsText(events.map((event) => ({ index: indexOf(event), at, latencyMs: 0, status: 204 })));
  const bundle = bundleOf(events[0] ?? 0);
  const masks = { delivered0: low, delivered1: high };
  return insertRow("packs", { destination_id: destination, bundle_id: bundle, ...masks, ended_at: at, ends });
};

const pack = (destination: string, bundle: number, masks: object) =>
  insertRow("packs", { destination_id: destination, bundle_id: bundle, give_up_at: 1, ...masks });

describe("an event", () => {
  const own = { tenant: TENANT, type: "order.paid", tags: ["x"], channels: ["left"], data: { n: 1 } };
  const foreign = { tenant: "other", type: "user.created", data: { n: 2 } };
  /** Bundle 2 has an event of another tenant, and two of acme; the others are around it. */
  const [first, second, third] = [eventAt(2, 0), eventAt(2, 1), eventAt(2, 2)];

  async function prepared(more: Partial<BundleRow> = {}): Promise<void> {
    await emptyDatabase();
    await destinations([C, A, B]);
    const events = [
      { ...foreign, destinations: [A] },
      { ...own, destinations: [C, A, B] },
      { ...own, data: { n: 3 }, tags: ["y"], destinations: [B] },
    ];
    const around = { acceptedAt: NOW - HOUR, events: events.map((event) => ({ ...event, type: "around" })) };
    await insertBundles(env.DB, [around, { acceptedAt: NOW - HOUR, events, ...more }, around]);
  }

  const idsIn = async (event: number, tenant?: string) =>
    (await findEvent(DB, event, tenant, OVER))?.deliveries.map(({ destinationId }) => destinationId);

  test("is found with its posted properties, by its own tenant or without a tenant", async () => {
    await prepared({ deliverAt: NOW + 5 });
    await execute(
      "UPDATE bundles SET header = json_set(header, '$.ttls', json('[[60,[1,1]]]'), '$.contentTypes', json('{\"2\":\"a/b\"}'))",
    );
    const event = {
      id: second,
      tenant: TENANT,
      type: "order.paid",
      acceptedAt: NOW - HOUR,
      deliverAt: NOW + 5,
    };
    const options = { tags: ["x"], channels: ["left"], ttlSeconds: 60, isErased: false };
    for (const tenant of [TENANT, undefined]) {
      const found = await findEvent(DB, second, tenant, OVER);
      expect(found?.event).toMatchObject({ ...event, ...options, headers: undefined });
      expect(JSON.parse(new TextDecoder().decode(found?.event.body ?? undefined)).data).toEqual({ n: 1 });
      expect(await findEventAlone(DB, second, tenant, OVER)).toEqual(found?.event);
      expect((await readEvent(DB, second, tenant))?.event).toEqual(found?.event);
      expect(found?.event.contentType).toBeUndefined();
      expect((await readEvent(DB, third, tenant))?.event).toMatchObject({
        id: third,
        tags: ["y"],
        contentType: "a/b",
      });
    }
  });

  test.each([
    ["of another tenant", first, TENANT],
    ["of ours, asked for by another tenant", second, "other"],
    ["that its bundle does not have", eventAt(2, 3), TENANT],
    ["that its bundle does not have, whoever asks", eventAt(2, 3), undefined],
    ["of no bundle", eventAt(4, 1), undefined],
    ["of a database that is not bound", 7 * 2 ** 40 + 128, undefined],
  ] as const)("%s is not found", async (_, event, tenant) => {
    await prepared();
    // A plan that has been edited by hand does not make an event.
    await execute("UPDATE bundles SET plan = json_set(plan, '$.dst_a', json('[0,9]'))");
    expect(await findEvent(DB, event, tenant, OVER)).toBeUndefined();
    expect(await findEventAlone(DB, event, tenant, OVER)).toBeUndefined();
    expect(await readEvent(DB, event, tenant)).toBeUndefined();
    for (const destinationId of [A, B])
      expect(await findDelivery(DB, { eventId: event, destinationId }, tenant, OVER)).toBeUndefined();
  });

  test("that has been erased, or is damaged, is found without its content", async () => {
    await prepared();
    await execute("UPDATE bundles SET header = json_set(header, '$.erased', json('[1,1]')) WHERE id = 2");
    expect((await readEvent(DB, second, TENANT))?.event).toMatchObject({
      body: null,
      isErased: true,
      tags: ["x"],
    });
    const other = (await readEvent(DB, third, TENANT))?.event;
    expect([other?.isErased, other?.body?.byteLength]).toEqual([false, expect.any(Number)]);
    expect(await findDelivery(DB, { eventId: second, destinationId: A }, TENANT, OVER)).toMatchObject({
      isErased: true,
    });
    expect(await findDelivery(DB, { eventId: third, destinationId: B }, TENANT, OVER)).toMatchObject({
      isErased: false,
    });
    await execute("UPDATE bundles SET body = x'00' WHERE id = 2");
    expect((await readEvent(DB, third, TENANT))?.event).toMatchObject({ body: null, isErased: false });
  });

  test("comes with its deliveries in the order of its plan, each from its row, its bit or its plan", async () => {
    await prepared({ deliverAt: NOW - 5 });
    await execute("UPDATE bundles SET header = json_set(header, '$.ttls', json('[[60,[1,1]]]'))");
    await row(A, second, "dead", NOW);
    await delivered(B, [second], NOW - 7);
    // Others: of the same destination, of the same event's neighbours, and of other bundles.
    for (const bundle of [1, 3]) {
      await row(C, eventAt(bundle, 1), "waiting");
      for (const destination of [B, C])
        await delivered(destination, [eventAt(bundle, 1), eventAt(bundle, 2)], NOW - 9);
    }
    await row(C, third, "waiting");
    await row(A, first, "waiting");
    const planned = { kind: "planned", acceptedAt: NOW - HOUR, deliverAt: NOW - 5, ttlSeconds: 60 };
    const expected = [
      { destinationId: A, kind: "stored", row: { state: "dead", endedAt: NOW, eventId: second } },
      { destinationId: B, kind: "stored", row: { state: "delivered", endedAt: NOW - 7, eventId: second } },
      { destinationId: C, ...planned },
    ].map((one) => ({ ...one, eventId: second, destination: { id: one.destinationId } }));
    const { deliveries = [] } = (await findEvent(DB, second, TENANT, OVER)) ?? {};
    expect(deliveries.toSorted((a, b) => (a.destinationId < b.destinationId ? -1 : 1))).toMatchObject(
      expected,
    );
    expect(await idsIn(second)).toEqual([A, C, B]);
    for (const { destinationId, ...one } of expected)
      for (const tenant of [TENANT, undefined])
        expect(await findDelivery(DB, { eventId: second, destinationId }, tenant, OVER)).toMatchObject(one);
    expect(await idsIn(first, "other")).toEqual([A]);
    expect(await findDelivery(DB, { eventId: first, destinationId: B }, "other", OVER)).toBeUndefined();
    expect(await findDelivery(DB, { eventId: third, destinationId: C }, TENANT, OVER)).toBeUndefined();
    expect(
      await findDelivery(DB, { eventId: third, destinationId: "dst_none" }, TENANT, OVER),
    ).toBeUndefined();
  });

  test("and its deliveries take one statement each in the first database, while it is less than a day old", async () => {
    await prepared();
    await row(A, second, "dead", 1);
    const metered = meteredD1(env.DB);
    const over = { ...OVER, first: metered.db };
    for (const destinationId of [A, C])
      await findDelivery({ db: metered.db }, { eventId: second, destinationId }, TENANT, over);
    await findEventAlone({ db: metered.db }, second, TENANT, over);
    expect(metered.used().roundTrips).toBe(3);
  });

  test("keeps deliveries to a destination that an operator has removed", async () => {
    await prepared();
    await execute("DELETE FROM destinations WHERE id = ?1", B);
    await delivered(B, [third], NOW - 7);
    const gone = { destinationId: B, destination: null, row: { state: "delivered" } };
    expect((await findEvent(DB, third, TENANT, OVER))?.deliveries).toMatchObject([gone]);
    expect(await findDelivery(DB, { eventId: third, destinationId: B }, TENANT, OVER)).toMatchObject(gone);
  });

  describe("that is older than its retention", () => {
    const ENDED = OVER.endedBy;

    /** Whether the event, it alone and its delivery to A are found. */
    const seen = async () => [
      (await findEvent(DB, second, TENANT, OVER)) !== undefined,
      (await findEventAlone(DB, second, TENANT, OVER)) !== undefined,
      (await findDelivery(DB, { eventId: second, destinationId: A }, TENANT, OVER)) !== undefined,
    ];
    const ended = async (state = "dead", endedAt = ENDED) => {
      await row(A, second, state, endedAt);
      await delivered(B, [second, third], endedAt);
      await row(C, second, "cancelled", endedAt);
    };
    const gone = [false, false, false];
    const there = [true, true, true];

    test.each<[string, Partial<BundleRow>]>([
      ["accepted", { acceptedAt: OVER.dueBy }],
      ["due", { acceptedAt: 1, deliverAt: OVER.dueBy }],
    ])("by the time that it was %s is over once all its deliveries have ended for good", async (_, times) => {
      await prepared(times);
      await ended();
      expect(await seen()).toEqual(gone);
      await execute("UPDATE deliveries SET ended_at = ended_at + 1 WHERE destination_id = ?1", C);
      expect(await seen()).toEqual(there);
      await execute("UPDATE deliveries SET state = 'retrying', ended_at = NULL WHERE destination_id = ?1", C);
      expect(await seen()).toEqual(there);
      await execute("DELETE FROM deliveries WHERE destination_id = ?1", C);
      expect(await seen()).toEqual(there);
    });

    test.each<[string, Partial<BundleRow>]>([
      ["accepted", { acceptedAt: OVER.dueBy + 1 }],
      ["due", { acceptedAt: 1, deliverAt: OVER.dueBy + 1 }],
    ])("by a millisecond less since it was %s is still found", async (_, times) => {
      await prepared(times);
      await ended();
      expect(await seen()).toEqual(there);
    });

    test("of its tenant or its type is over too", async () => {
      await prepared({ acceptedAt: NOW - 3 * DAY_MS });
      await ended();
      const at = { created_at: 0, updated_at: 0 };
      expect(await seen()).toEqual(there);
      await insertRow("tenant_settings", { tenant: "other", retention_days: 2, ...at });
      expect(await seen()).toEqual(there);
      await insertRow("tenant_settings", { tenant: TENANT, retention_days: 3, ...at });
      expect(await seen()).toEqual(gone);
      await execute("DELETE FROM tenant_settings");
      await insertRow("event_types", { name: "order.paid", validates: 0, retention_days: 2, ...at });
      expect(await seen()).toEqual(gone);
    });

    test("is found by a delivery with a recent end, and by others while that is recent", async () => {
      await prepared({ acceptedAt: OVER.dueBy });
      await ended("dead", ENDED);
      await execute("UPDATE deliveries SET ended_at = ?1 WHERE destination_id = ?2", NOW, A);
      expect(await seen()).toEqual(there);
      expect(await findDelivery(DB, { eventId: second, destinationId: B }, TENANT, OVER)).toMatchObject({
        row: { state: "delivered" },
      });
    });

    test.each([
      0, 99, 100, 150, 199, 200, 249,
    ])("is found by one of two hundred and fifty deliveries that has not ended (number %i)", async (open) => {
      await emptyDatabase();
      const ids = Array.from({ length: 250 }, (_, i) => `dst_${String(i).padStart(3, "0")}`);
      const [event = 0] = await insertBundles(env.DB, [
        { acceptedAt: 1, events: [{ tenant: TENANT, destinations: ids }] },
      ]);
      await execute(
        `INSERT INTO deliveries (destination_id, event_id, state, give_up_at, ended_at)
         SELECT value, ?2, 'dead', 0, 1 FROM json_each(?1)`,
        JSON.stringify(ids),
        event,
      );
      expect(await findEventAlone(DB, event, TENANT, OVER)).toBeUndefined();
      await execute("DELETE FROM deliveries WHERE destination_id = ?1", ids[open] ?? "");
      const metered = meteredD1(env.DB);
      expect(await findEventAlone({ db: metered.db }, event, TENANT, OVER)).toMatchObject({ id: event });
      // A hundred at a time, for which the destinations and the rows are read.
      expect(metered.used().roundTrips).toBe(1 + 2 * Math.ceil((open + 1) / 100));
    });
  });
});

test("the deliveries of several events are the first of their plans, from all databases, with their number", async () => {
  await emptyDatabase();
  await destinations([A, B]);
  const FAR = beforeFirstBundleOf(1) + 1;
  const events = [{ destinations: [A, B, C], ttlSeconds: 60 }, { destinations: [B] }, {}];
  await insertBundles(env.DB, [
    { id: 1, acceptedAt: 5, deliverAt: 9, events },
    { id: 2, events },
    { id: FAR, acceptedAt: 6, events },
  ]);
  await execute("UPDATE bundles SET header = '{' WHERE id = 2");
  const [first, second, third, far] = [eventAt(1, 0), eventAt(1, 1), eventAt(1, 2), eventAt(FAR, 0)];
  await row(A, first, "dead", 7);
  await delivered(B, [second], 8);
  await delivered(B, [far], 9);
  const asked = [first, second, third, far, eventAt(2, 0), eventAt(3, 0), eventAt(FAR + 1, 0)];
  const further = [interceptedD1(env.DB, (_, work) => work())];
  const found = await deliveriesOfEvents({ db: env.DB, further }, asked, 2);
  const short = [...found].map(([event, { found, count }]) => [
    event,
    count,
    found.map((one) => [
      one.destinationId,
      one.destination?.id,
      one.kind === "stored" ? one.row.state : [one.acceptedAt, one.deliverAt, one.ttlSeconds],
    ]),
  ]);
  expect(short).toEqual([
    [
      first,
      3,
      [
        [A, A, "dead"],
        [B, B, [5, 9, 60]],
      ],
    ],
    [second, 1, [[B, B, "delivered"]]],
    [third, 0, []],
    [
      far,
      3,
      [
        [A, A, [6, null, 60]],
        [B, B, "delivered"],
      ],
    ],
  ]);
  const [all] = (await deliveriesOfEvents(DB, [first], 9)).values();
  expect(all?.found.map(({ destination }) => destination?.id)).toEqual([A, B, undefined]);
});

type Queued = Readonly<{
  event: number;
  destination: string;
  tenant: string;
  type: string;
  deliverAt: number | null;
}>;

/** Every page, one after the other, as `event destination`. */
async function pagesOf(filter: ListFilter): Promise<string[][]> {
  const pages: string[][] = [];
  let { before } = filter;
  for (;;) {
    const { found, next } = await queuedDeliveries(DB, { ...filter, before });
    expect(found.length).toBeLessThanOrEqual(filter.limit);
    for (const one of found)
      expect(one).toMatchObject({ kind: "planned", destination: { id: one.destinationId } });
    pages.push(found.map(({ eventId, destinationId }) => `${eventId} ${destinationId}`));
    if (next === undefined) return pages;
    if (pages.length > 300) throw new Error("The list does not end");
    before = next;
  }
}

describe("the list of queued deliveries", () => {
  const BUNDLES = 230;
  const WATERMARK = 5;
  const DUE = NOW + HOUR;
  /** Every second bundle from the 61st on is scheduled, three at a time for the same millisecond, the later ones first. */
  const deliverAtOf = (bundle: number) =>
    bundle > 60 && bundle % 2 === 0 ? DUE - 10 * Math.floor(bundle / 6) : null;
  const acceptedAt = (bundle: number) => bundle * 60_000_000;
  /** The part that the sweep has checked: all bundles due before, and the first ones of that millisecond. */
  const CHECKED = { at: deliverAtOf(224) ?? 0, row: 222 };
  const eventsOf = (bundle: number) => [
    { tenant: TENANT, type: "a.b", destinations: [A, B] },
    { tenant: "other", type: "c", destinations: bundle % 3 === 0 ? [C, "dst_gone"] : ["dst_gone"] },
  ];
  /** Some have a bit, some a row. */
  const isKnown = (bundle: number, destination: string) =>
    (bundle % 11 === 0 && destination === A) || (bundle % 13 === 0 && destination === B);

  /** All that are queued, in the order of the list. */
  const all: readonly Queued[] = Array.from({ length: BUNDLES }, (_, i) => i + 1)
    .flatMap((bundle) =>
      eventsOf(bundle).flatMap(({ destinations, ...event }, index) =>
        destinations
          .filter((destination) => destination !== "dst_gone" && !isKnown(bundle, destination))
          .map((destination) => ({
            ...event,
            event: eventAt(bundle, index),
            destination,
            deliverAt: deliverAtOf(bundle),
          })),
      ),
    )
    .filter(({ event, deliverAt }) =>
      deliverAt === null
        ? bundleOf(event) > WATERMARK
        : deliverAt > CHECKED.at || (deliverAt === CHECKED.at && bundleOf(event) > CHECKED.row),
    )
    .sort((a, b) => {
      if (a.deliverAt === null || b.deliverAt === null)
        return a.deliverAt === b.deliverAt
          ? b.event - a.event || (a.destination < b.destination ? 1 : -1)
          : a.deliverAt === null
            ? -1
            : 1;
      return a.deliverAt - b.deliverAt || a.event - b.event || (a.destination < b.destination ? 1 : -1);
    });
  const namesOf = (queued: readonly Queued[]) =>
    queued.map(({ event, destination }) => `${event} ${destination}`);

  beforeAll(async () => {
    await emptyDatabase();
    await destinations([A, B, C]);
    await destinations(["dst_gone"], 5);
    const ids = Array.from({ length: BUNDLES }, (_, i) => i + 1);
    await insertBundles(
      env.DB,
      ids.map((bundle) => ({
        ...{
          acceptedAt: acceptedAt(bundle),
          deliverAt: deliverAtOf(bundle) ?? undefined,
          events: eventsOf(bundle),
        },
      })),
    );
    for (const bundle of ids) {
      if (isKnown(bundle, A)) await pack(A, bundle, { waiting0: 0b11 });
      if (isKnown(bundle, B)) await row(B, eventAt(bundle, 0), "dead", 1);
    }
    await moveWatermark(env.DB, WATERMARK);
    await moveCursor(env.DB, "scheduled_checked", CHECKED);
  });

  test("has unscheduled and scheduled ones, and more of both than a page reads", () => {
    const scheduled = all.filter(({ deliverAt }) => deliverAt !== null);
    const bundles = (some: readonly Queued[]) => new Set(some.map(({ event }) => bundleOf(event))).size;
    expect(bundles(scheduled)).toBeGreaterThan(60);
    expect(bundles(all) - bundles(scheduled)).toBeGreaterThan(110);
  });

  test.each([
    1_000, 50, 3,
  ])("shows each once, the newest first and then the next due, %i a page", async (limit) => {
    const some = limit < 50 ? all.filter(({ destination }) => destination === C) : all;
    const destinationId = limit < 50 ? C : undefined;
    const pages = await pagesOf({ limit, destinationId });
    expect(pages.flat()).toEqual(namesOf(some));
    // A page ends early only after fifty bundles, or where unscheduled ones end.
    expect(pages.length).toBeLessThanOrEqual(Math.ceil(some.length / limit) + 8);
  });

  test.each<[string, Partial<ListFilter>, (queued: Queued) => boolean]>([
    ["a tenant", { tenant: TENANT }, ({ tenant }) => tenant === TENANT],
    ["a type", { type: "c" }, ({ type }) => type === "c"],
    ["a destination", { destinationId: B }, ({ destination }) => destination === B],
    [
      "a period",
      { accepted: { since: acceptedAt(55), until: acceptedAt(200) } },
      ({ event }) => bundleOf(event) >= 55 && bundleOf(event) < 200,
    ],
  ])("may be limited to %s", async (_, filter, isMeant) => {
    expect((await pagesOf({ limit: 60, ...filter })).flat()).toEqual(namesOf(all.filter(isMeant)));
  });

  test("reads fifty bundles for a page, wherever it begins", async () => {
    const metered = meteredD1(env.DB);
    const before = [{ eventId: eventAt(40, 0), destinationId: C }];
    await queuedDeliveries({ db: metered.db }, { limit: 5, before });
    const inTheMiddle = metered.used().rowsRead;
    const accepted = { until: acceptedAt(20) };
    const { found } = await queuedDeliveries({ db: metered.db }, { limit: 5, accepted });
    expect(found.map(({ eventId }) => bundleOf(eventId))).toContain(19);
    const ofAPeriod = metered.used().rowsRead;
    console.log(`a page from the middle: ${inTheMiddle} rows read, a page of a period: ${ofAPeriod}`);
    expect(inTheMiddle).toBeLessThanOrEqual(450);
    expect(ofAPeriod).toBeLessThanOrEqual(230);
  });

  test("continues anywhere, even between two destinations of an event", async () => {
    for (const i of [
      0,
      1,
      2,
      40,
      all.findIndex(({ deliverAt }) => deliverAt !== null),
      all.length - 2,
      all.length - 1,
    ]) {
      for (const at of [i - 1, i, i + 1]) {
        const last = all[at];
        if (last === undefined) continue;
        const before = [{ eventId: last.event, destinationId: last.destination }];
        const { found } = await queuedDeliveries(DB, { limit: 5, before });
        expect(found.map(({ eventId, destinationId }) => `${eventId} ${destinationId}`)).toEqual(
          namesOf(all.slice(at + 1, at + 6)).slice(0, found.length),
        );
        expect(found.length).toBeGreaterThan(at + 1 < all.length ? 0 : -1);
      }
    }
  });
});

describe("a short list of queued deliveries", () => {
  beforeEach(async () => {
    await emptyDatabase();
    await destinations([A, B, C]);
  });

  const event = (...destinations: string[]) => ({ tenant: TENANT, destinations });
  const bundle = (deliverAt: number | undefined, ...events: ReturnType<typeof event>[]): BundleRow => ({
    ...{ acceptedAt: NOW, deliverAt, events },
  });

  test("is empty without bundles, and has no next page", async () => {
    expect(await queuedDeliveries(DB, { limit: 5 })).toEqual({ found: [], next: undefined });
  });

  test.each([
    [2, ["256 dst_b", "256 dst_a"], true],
    [3, ["256 dst_b", "256 dst_a", "128 dst_a"], true],
    [4, ["256 dst_b", "256 dst_a", "128 dst_a", "384 dst_c"], true],
    [5, ["256 dst_b", "256 dst_a", "128 dst_a", "384 dst_c", "384 dst_a"], true],
    [6, ["256 dst_b", "256 dst_a", "128 dst_a", "384 dst_c", "384 dst_a", "385 dst_a"], false],
    [7, ["256 dst_b", "256 dst_a", "128 dst_a", "384 dst_c", "384 dst_a", "385 dst_a"], false],
  ])("with %i a page begins with %j; more follow: %j", async (limit, expected, isMore) => {
    await insertBundles(env.DB, [
      bundle(undefined, event(A)),
      bundle(undefined, event(A, B)),
      bundle(NOW + 9, event(A, C), event(A)),
    ]);
    const { found, next } = await queuedDeliveries(DB, { limit });
    expect(found.map(({ eventId, destinationId }) => `${eventId} ${destinationId}`)).toEqual(expected);
    expect(next !== undefined).toBe(isMore);
    expect((await pagesOf({ limit })).flat()).toHaveLength(6);
  });

  test("ends after the unscheduled ones if there are no others", async () => {
    await insertBundles(env.DB, [bundle(undefined, event(A, B))]);
    for (const limit of [2, 3]) expect((await queuedDeliveries(DB, { limit })).next).toBeUndefined();
    // A scheduled delivery with a record, or for a deleted destination, is not queued.
    await insertBundles(env.DB, [bundle(NOW, event(C))]);
    await row(C, eventAt(2, 0), "waiting");
    for (const limit of [2, 3]) expect((await queuedDeliveries(DB, { limit })).next).toBeUndefined();
  });

  test("has a next page for a scheduled one, or one that may be behind fifty bundles of others", async () => {
    await insertBundles(env.DB, [bundle(undefined, event(A)), bundle(NOW, event(B))]);
    const first = await queuedDeliveries(DB, { limit: 1 });
    expect(first).toMatchObject({
      found: [{ destinationId: A }],
      next: [{ eventId: 128, destinationId: A }],
    });
    expect((await pagesOf({ limit: 1 })).flat()).toEqual(["128 dst_a", "256 dst_b"]);
    const others = Array.from({ length: 60 }, () => ({
      ...bundle(NOW - 5, event(B)),
      events: [{ tenant: "other" }],
    }));
    await insertBundles(env.DB, others);
    expect((await pagesOf({ limit: 1 })).flat()).toEqual(["128 dst_a", "256 dst_b"]);
  });

  test("skips a scheduled bundle that is removed while it is read", async () => {
    await insertBundles(env.DB, [bundle(NOW, event(A)), bundle(NOW, event(B))]);
    const db = interceptedD1(env.DB, async (sql, work) => {
      if (sql.includes("deliverAt, plan") && sql.includes("json_each"))
        await execute("DELETE FROM bundles WHERE id = 1");
      return work();
    });
    const { found } = await queuedDeliveries({ db }, { limit: 5 });
    expect(found.map(({ eventId }) => eventId)).toEqual([eventAt(2, 0)]);
  });

  test("looks up two hundred destinations at once, and no more than a page takes", async () => {
    const ids = Array.from({ length: 450 }, (_, i) => `dst_${String(i).padStart(3, "0")}`);
    await destinations(ids);
    await insertBundles(env.DB, [bundle(undefined, event(...ids))]);
    const metered = meteredD1(env.DB);
    for (const [limit, trips, rows] of [
      [1, 4, 1_205],
      [199, 4, 1_205],
      [200, 6, 2_405],
    ] as const) {
      expect((await queuedDeliveries({ db: metered.db }, { limit })).found).toHaveLength(limit);
      const { roundTrips, rowsRead } = metered.used();
      console.log(`a page of ${limit}: ${rowsRead} rows read`);
      expect(roundTrips).toBe(trips);
      expect(rowsRead).toBeLessThanOrEqual(rows);
    }
  });

  test("looks up the destinations of one event two hundred at a time", async () => {
    const ids = Array.from({ length: 450 }, (_, i) => `dst_${String(i).padStart(3, "0")}`);
    await destinations(ids.filter((_, i) => i % 10 !== 0));
    await destinations(
      ids.filter((_, i) => i % 10 === 0),
      5,
    );
    await insertBundles(env.DB, [
      bundle(undefined, event(...ids), event(...ids.slice(0, 3))),
      bundle(NOW, event(...ids)),
    ]);
    await execute(
      `INSERT INTO deliveries (destination_id, event_id, state, give_up_at) SELECT value, 128, 'waiting', 0 FROM json_each(?1)`,
      JSON.stringify(ids.filter((_, i) => i % 3 === 0)),
    );
    const queued = (some: readonly string[], number: number) =>
      some
        .filter((id) => {
          const i = ids.indexOf(id);
          return i % 10 !== 0 && (number !== 128 || i % 3 !== 0);
        })
        .toReversed()
        .map((id) => `${number} ${id}`);
    const expected = [...queued(ids.slice(0, 3), 129), ...queued(ids, 128), ...queued(ids, 256)];
    expect((await pagesOf({ limit: 1_000 })).flat()).toEqual(expected);
    expect((await pagesOf({ limit: 120 })).flat()).toEqual(expected);
  });
});
