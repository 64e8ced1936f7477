/** The events that lists hide because they are over, and the deliveries of packs that pass a filter. */

import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { eventAt } from "../../src/core/bundle.ts";
import { deliveriesByEvent } from "../../src/store/deliveries-by-event.ts";
import { loadedRow } from "../../src/store/delivery.ts";
import {
  type Cutoffs,
  eventsOver,
  hasEnded,
  isEventWanted,
  isRowWanted,
  oldAmong,
  overBy,
  QUIET_MS,
} from "../../src/store/delivery-filter.ts";
import { type MergedPage, storedDeliveries } from "../../src/store/delivery-list.ts";
import { type BundleRow, insertBundles } from "../support/bundle-rows.ts";
import { emptyDatabase } from "../support/databases.ts";
import { deliveryRow, storeDeliveries, storePacked } from "../support/delivery-rows.ts";
import { meteredD1 } from "../support/meter.ts";
import { execute, storedRows } from "../support/world.ts";

const HOUR = 60 * 60_000;
const DAY = 24 * HOUR;
const NOW = 100 * DAY;
const KEPT = 30 * DAY;
const [A, B] = ["dst_a", "dst_b"] as const;

beforeEach(emptyDatabase);

type Filter = Partial<Parameters<typeof storedDeliveries>[2]>;

const idsOf = ({ found }: MergedPage) => found.map(({ eventId }) => eventId);

const over = (first = env.DB): Cutoffs =>
  overBy({ now: () => NOW, config: { retentionMs: KEPT }, db: first });

const keepDays = {
  tenant: (tenant: string, days: number) =>
    execute(
      "INSERT INTO tenant_settings (tenant, retention_days, created_at, updated_at) VALUES (?1, ?2, 0, 0)",
      ...[tenant, days],
    ),
  type: (name: string, days: number) =>
    execute(
      "INSERT INTO event_types (name, validates, retention_days, created_at, updated_at) VALUES (?1, 0, ?2, 0, 0)",
      ...[name, days],
    ),
};

test("expiry is counted from now: the retention time for events, an hour for ends", () => {
  expect(over()).toEqual({ dueBy: NOW - KEPT, endedBy: NOW - HOUR, now: NOW, first: env.DB });
  expect(QUIET_MS).toBe(HOUR);
});

describe("a delivery", () => {
  test.each([
    ["delivered", NOW - HOUR, true],
    ["dead", NOW - HOUR, true],
    ["cancelled", NOW - HOUR, true],
    ["delivered", NOW - HOUR + 1, false],
    ["cancelled", null, true],
    ["waiting", NOW - HOUR, false],
    ["retrying", null, false],
  ])("that is %s since %s has ended for good: %s", (state, endedAt, expected) => {
    expect(hasEnded({ state, endedAt }, over())).toBe(expected);
  });
});

describe("an event is old", () => {
  const event = (ageMs: number, columns: object = {}) => ({
    ...{ acceptedAt: NOW - ageMs, deliverAt: null, tenant: "acme", type: "order.paid" },
    ...columns,
  });
  const isOld = async (...events: readonly ReturnType<typeof event>[]) => {
    const old = await oldAmong(over(), events);
    return events.map(old);
  };

  test("once the deployment's time has passed since it was due", async () => {
    const scheduled = event(KEPT + DAY, { deliverAt: NOW - KEPT + 1 });
    const due = event(KEPT + DAY, { deliverAt: NOW - KEPT });
    const events = [event(KEPT - 1), event(KEPT), event(KEPT + 1), scheduled, due, event(0)];
    expect(await isOld(...events)).toEqual([false, true, true, false, true, false]);
    // The same when none of them is young enough for a shorter time to count.
    expect(await isOld(event(KEPT), event(HOUR), due)).toEqual([true, false, true]);
  });

  test("once a shorter time of its own tenant or type has passed", async () => {
    await keepDays.tenant("brief", 3);
    await keepDays.type("order.brief", 2);
    const ages = [2 * DAY - 1, 2 * DAY, 3 * DAY - 1, 3 * DAY];
    const isOldAt = async (columns: object) => isOld(...ages.map((age) => event(age, columns)));
    expect(await isOldAt({})).toEqual([false, false, false, false]);
    expect(await isOldAt({ tenant: "brief" })).toEqual([false, false, false, true]);
    expect(await isOldAt({ type: "order.brief" })).toEqual([false, true, true, true]);
    expect(await isOldAt({ tenant: "brief", type: "order.brief" })).toEqual([false, true, true, true]);
  });

  test("once a day has passed if that is its retention", async () => {
    await keepDays.tenant("acme", 1);
    expect(await isOld(event(DAY - 1), event(DAY))).toEqual([false, true]);
  });

  test("after the deployment's time, however long its tenant's is", async () => {
    await keepDays.tenant("acme", 90);
    expect(await isOld(event(KEPT - 1), event(KEPT))).toEqual([false, true]);
  });

  test("without a query when it is younger than a day or older than all limits", async () => {
    const d1 = meteredD1(env.DB);
    const events = [event(0), event(DAY - 1), event(KEPT), event(KEPT + DAY)];
    const old = await oldAmong(over(d1.db), events);
    expect(events.map(old)).toEqual([false, false, true, true]);
    expect(d1.used().roundTrips).toBe(0);
    await oldAmong(over(d1.db), [...events, event(DAY)]);
    expect(d1.used().roundTrips).toBe(1);
  });
});

describe("an event is over", () => {
  const AGO = NOW - 2 * HOUR;
  const ended = (destinationId: string, eventId: number, endedAt = AGO) => ({
    destinationId,
    eventId,
    endedAt,
  });

  async function overAmong(first = env.DB) {
    return [...(await eventsOver(first, (await storedRows()).map(loadedRow), over(first)))].sort(
      (a, b) => a - b,
    );
  }

  /** A bundle of events for these destinations. */
  const bundle = (ageMs: number, ...destinations: readonly (readonly string[])[]): BundleRow => ({
    acceptedAt: NOW - ageMs,
    events: destinations.map((ids) => ({ destinations: ids })),
  });

  test("when it is old and all of its planned deliveries have ended for good, in rows and packs", async () => {
    const events = await insertBundles(env.DB, [
      bundle(KEPT, [A], [A, B], [A, B], [A, B], [A]),
      bundle(KEPT - HOUR, [A]),
      bundle(KEPT + DAY, [B, A]),
    ]);
    const [whole = 0, mixed = 0, half = 0, open = 0, late = 0, young = 0, last = 0] = events;
    await storeDeliveries(env.DB, [
      ended(A, whole),
      ended(A, mixed),
      ended(A, half),
      ended(A, open),
      { destinationId: B, eventId: open, state: "retrying", nextAttemptAt: NOW },
      ended(A, late, NOW - 1),
      ended(A, young),
      ended(B, last),
    ]);
    await storePacked(
      env.DB,
      [
        { destinationId: B, eventId: mixed, state: "delivered" },
        { destinationId: A, eventId: last, state: "cancelled" },
      ],
      { endedAt: AGO },
    );
    expect(await overAmong()).toEqual([whole, mixed, last]);
  });

  test("by its own tenant's or type's time", async () => {
    await keepDays.tenant("brief", 2);
    const [one = 0, two = 0, young = 0] = await insertBundles(env.DB, [
      {
        acceptedAt: NOW - 2 * DAY,
        events: ["brief", "acme"].map((tenant) => ({ tenant, destinations: [A] })),
      },
      { acceptedAt: NOW - 2 * DAY + 1, events: [{ tenant: "brief", destinations: [A] }] },
    ]);
    await storeDeliveries(
      env.DB,
      [one, two, young].map((event) => ended(A, event)),
    );
    expect(await overAmong()).toEqual([one]);
  });

  test("a day after it was due, if that is its retention, and not a day after it was accepted", async () => {
    await keepDays.tenant("acme", 1);
    const [due = 0, later = 0] = await insertBundles(env.DB, [
      { ...bundle(9 * DAY, [A]), deliverAt: NOW - DAY },
      { ...bundle(9 * DAY, [A]), deliverAt: NOW - DAY + 1 },
    ]);
    await storeDeliveries(env.DB, [ended(A, due), ended(A, later)]);
    expect(await overAmong()).toEqual([due]);
  });

  test("never if its bundle was removed, or has no event of its index", async () => {
    const [event = 0] = await insertBundles(env.DB, [bundle(KEPT, [A])]);
    await storeDeliveries(env.DB, [ended(A, event), ended(A, event + 1), ended(A, eventAt(9, 0))]);
    expect(await overAmong()).toEqual([event]);
  });

  test("and nothing is read while none has ended, or none is old", async () => {
    const events = await insertBundles(env.DB, [bundle(KEPT, [A, B]), bundle(HOUR, [A, B])]);
    const [old = 0, young = 0] = events;
    await insertBundles(env.DB, Array(40).fill(bundle(KEPT, [A])));
    const d1 = meteredD1(env.DB);
    const used = async (...rows: readonly Parameters<typeof deliveryRow>[0][]) => {
      await eventsOver(d1.db, rows.map(deliveryRow), over(d1.db));
      const { roundTrips, rowsRead } = d1.used();
      return [roundTrips, rowsRead <= 4 * roundTrips + 2];
    };
    expect(await used({ destinationId: A, eventId: old, state: "waiting" })).toEqual([0, true]);
    expect(await used(ended(A, young))).toEqual([1, true]);
    expect(await used(ended(A, old))).toEqual([2, true]);
  });

  test("and then both lists skip it and continue after it", async () => {
    const events = await insertBundles(env.DB, [
      bundle(KEPT, [A]),
      bundle(KEPT, [A], [A], [A]),
      bundle(KEPT, [A]),
    ]);
    const [queued = 0, one = 0, open = 0, three = 0, four = 0] = events;
    await storeDeliveries(env.DB, [
      ended(A, one),
      { destinationId: A, eventId: open, state: "waiting" },
      ended(A, three),
      ended(A, four),
    ]);
    const databases = { db: env.DB };
    const stored = (filter: Filter) =>
      storedDeliveries(databases, undefined, { limit: 3, over: over(), ...filter });
    const byEvent = (filter: Filter) =>
      deliveriesByEvent(databases, { state: undefined }, { limit: 3, over: over(), ...filter });
    for (const [list, last] of [
      [stored, []],
      [byEvent, [queued]],
    ] as const) {
      const page = await list({});
      expect(idsOf(page)).toEqual([open]);
      expect(page.next).toEqual([expect.objectContaining({ destinationId: A, eventId: open })]);
      const next = await list({ before: page.next });
      expect([idsOf(next), next.next]).toEqual([last, undefined]);
      expect(idsOf(await list({ over: undefined, limit: 9 }))).toEqual([four, three, open, one, ...last]);
    }
  });
});

describe("of a pack, a delivery passes a filter", () => {
  const event = {
    acceptedAt: 5,
    owner: "acme",
    ...{ tenant: "other", type: "order.paid", tags: ["x"], channels: ["eu", "us"] },
  };
  const gone = { acceptedAt: null };

  test.each([
    ["everything", {}, event, true],
    ["since its time", { accepted: { since: 5 } }, event, true],
    ["since later", { accepted: { since: 6 } }, event, false],
    ["until its time", { accepted: { until: 5 } }, event, false],
    ["until later", { accepted: { until: 6 } }, event, true],
    ["of its type", { types: ["user.*", "order.*"] }, event, true],
    ["of another type", { types: ["user.*"] }, event, false],
    ["of its tag", { tag: "x" }, event, true],
    ["of another tag", { tag: "y" }, event, false],
    ["of one of its channels", { channel: "us" }, event, true],
    ["of another channel", { channel: "u" }, event, false],
    ["of its destination's tenant", { tenant: "acme" }, event, true],
    ["of its event's tenant only", { tenant: "other" }, event, false],
    [
      "of its event's tenant, where destinations are unknown",
      { tenant: "other" },
      { ...event, owner: undefined },
      true,
    ],
    ["of any time, without its bundle", {}, gone, true],
    ["of all times since the first, without its bundle", { accepted: { since: 0 } }, gone, false],
    ["of all times until the last, without its bundle", { accepted: { until: 9 } }, gone, false],
    ["of any type, without its bundle", { types: ["*"] }, gone, false],
    ["of a tenant, without its bundle", { tenant: "acme" }, gone, false],
    ["of its destination's tenant, without its bundle", { tenant: "acme" }, { ...gone, owner: "acme" }, true],
  ])("about the accepted event, %s", (_, filter, about, expected) => {
    expect(isEventWanted(filter, about)).toBe(expected);
  });

  test.each([
    [{}, true],
    [{ status: 204 }, true],
    [{ status: 200 }, false],
    [{ reason: "slow" }, true],
    [{ reason: "paused" }, false],
    [{ status: 204, reason: "paused" }, false],
    [{ status: 200, reason: "slow" }, false],
    [{ status: 204, reason: "slow" }, true],
  ])("about its outcome: %o is %s", (filter, expected) => {
    const row = deliveryRow({ destinationId: A, eventId: 1, lastStatus: 204, reason: "slow" });
    expect(isRowWanted({ limit: 1, ...filter }, row)).toBe(expected);
  });
});
