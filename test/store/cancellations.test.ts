/** The deliveries that may be cancelled, in rows and in packs, page by page, and the write that cancels one. */
import { env } from "cloudflare:workers";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { bundleOf, eventAt, indexOf } from "../../src/core/bundle.ts";
import { maskOf } from "../../src/core/pack.ts";
import { takesType } from "../../src/core/routing.ts";
import {
  cancelDeliveries,
  cancelEach,
  type WaitingFilter,
  waitingPage,
} from "../../src/store/cancellations.ts";
import { insertRow } from "../support/api.ts";
import { insertBundles } from "../support/bundle-rows.ts";
import { emptyDatabase, rowsOfAll } from "../support/databases.ts";
import { execute } from "../support/world.ts";

const NOW = 1_000_000;
const [A, B] = ["dst_a", "dst_b"] as const;
const BUNDLES = 26;
const PER_BUNDLE = 100;
/** A bundle that an operator has removed. */
const REMOVED = 6;
const TYPES = ["a", "a.b", "b"];
const typeAt = (index: number) => TYPES[index % TYPES.length] ?? "";
/** Each bundle a second later. */
const acceptedAt = (bundle: number) => bundle * 1_000;

const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i);

const insertWaiting = (destination: string, events: readonly number[]) =>
  execute(
    `INSERT INTO deliveries (destination_id, event_id, state, reason, give_up_at)
     SELECT ?1, value, 'waiting', 'paused', 5 FROM json_each(?2)`,
    destination,
    JSON.stringify(events),
  );

/** Packs in which these events wait, beside one delivery in each other state. */
async function insertPacks(destination: string, events: readonly number[]): Promise<void> {
  const packs = [...Map.groupBy(events, bundleOf)].map(([bundle, own]) => [
    bundle,
    ...maskOf(own.map((event) => indexOf(event))),
  ]);
  await execute(
    `INSERT INTO packs (destination_id, bundle_id, waiting0, waiting1, in_flight1, delivered1, cancelled1, reason, give_up_at)
     SELECT ?1, value ->> 0, value ->> 1, value ->> 2, 1 << 47, 1 << 48, 1 << 49, 'paused', 5 FROM json_each(?2)`,
    destination,
    JSON.stringify(packs),
  );
}

describe("waiting deliveries of a destination", () => {
  /** Rows end the first page of the one in the middle of a bundle, packs that of the other. */
  const waiting: Readonly<Record<string, readonly number[]>> = {
    [A]: [
      ...range(1, BUNDLES).flatMap((bundle) => [0, 3, 60, 90].map((index) => eventAt(bundle, index))),
      ...range(3, 9).flatMap((bundle) => range(5, 58).map((index) => eventAt(bundle, index))),
      ...range(10, 13).flatMap((bundle) => range(5, 58).map((index) => eventAt(bundle, index))),
    ].sort((a, b) => a - b),
    [B]: [
      ...range(1, BUNDLES).flatMap((bundle) => [1, 49, 50].map((index) => eventAt(bundle, index))),
      ...range(21, BUNDLES).map((bundle) => eventAt(bundle, 2)),
    ].sort((a, b) => a - b),
  };
  const isPacked = (destination: string, event: number) =>
    (destination === A ? [0, 3, 60, 90] : [1, 49, 50]).includes(indexOf(event));

  beforeAll(async () => {
    await emptyDatabase();
    await insertBundles(
      env.DB,
      range(1, BUNDLES).map((bundle) => ({
        acceptedAt: acceptedAt(bundle),
        events: range(0, PER_BUNDLE - 1).map((index) => ({ type: typeAt(index), destinations: [A, B] })),
      })),
    );
    await execute("DELETE FROM bundles WHERE id = ?1", REMOVED);
    for (const [destination, events] of Object.entries(waiting)) {
      await insertWaiting(
        destination,
        events.filter((event) => !isPacked(destination, event)),
      );
      await insertPacks(
        destination,
        events.filter((event) => isPacked(destination, event)),
      );
    }
    for (const [state, index] of [
      ["retrying", 61],
      ["dead", 62],
      ["delivered", 63],
      ["cancelled", 64],
    ] as const)
      await execute(
        `INSERT INTO deliveries (destination_id, event_id, state, give_up_at) SELECT ?1, id * 128 + ?2, ?3, 0 FROM bundles`,
        ...[A, index, state],
      );
  });

  const ALL = { after: 0, last: Number.MAX_SAFE_INTEGER };

  /** Every page from one event to another, each of its events once. */
  async function pagesOf(destination: string, bounds = ALL, filter: WaitingFilter = {}): Promise<number[][]> {
    const pages: number[][] = [];
    for (let { after } = bounds; pages.length < 20; ) {
      const { events, upto } = await waitingPage(env.DB, destination, { ...bounds, after }, filter);
      expect(
        events.every((event) => event > after && event <= Math.min(bounds.last, upto ?? bounds.last)),
      ).toBe(true);
      pages.push(events.toSorted((a, b) => a - b));
      if (upto === undefined) return pages;
      expect(upto).toBeGreaterThan(after);
      after = upto;
    }
    throw new Error("The pages do not end");
  }

  test.each([
    [A, "rows"],
    [B, "packs"],
  ])("are found on pages that end in the middle (%s, with its %s)", async (destination, _) => {
    const pages = await pagesOf(destination);
    expect(pages.length).toBeGreaterThan(1);
    expect(pages.flat()).toEqual(waiting[destination]);
  });

  test("fill a page with five hundred rows, or twenty packs", async () => {
    const rows = waiting[A]?.filter((event) => !isPacked(A, event)) ?? [];
    expect((await waitingPage(env.DB, A, ALL, {})).upto).toBe(rows[499]);
    expect((await waitingPage(env.DB, B, ALL, {})).upto).toBe(eventAt(20, 127));
    // Exactly as many left, and one less.
    const left = rows.length - 500;
    const last = eventAt(13, 127);
    const uptoAfter = async (after = 0) => (await waitingPage(env.DB, A, { after, last }, {})).upto;
    expect(await uptoAfter(rows[left - 1])).toBe(rows.at(-1));
    expect(await uptoAfter(rows[left])).toBeUndefined();
    expect((await waitingPage(env.DB, B, { ...ALL, after: eventAt(7, 60) }, {})).upto).toBe(
      eventAt(BUNDLES, 127),
    );
    expect((await waitingPage(env.DB, B, { ...ALL, after: eventAt(8, 0) - 1 }, {})).upto).toBeUndefined();
  });

  test.each([
    A,
    B,
  ])("are found after one event and up to another, both in the middle of a bundle (%s)", async (destination) => {
    const all = waiting[destination] ?? [];
    for (const [from, to] of [
      [0, 3],
      [2, 9],
      [7, 50],
    ] as const) {
      const [after = 0, last = 0] = [all[from], all[to]];
      const { events, upto } = await waitingPage(env.DB, destination, { after, last }, {});
      expect(events.toSorted((a, b) => a - b)).toEqual(all.slice(from + 1, to + 1));
      expect(upto).toBeUndefined();
    }
  });

  test.each<WaitingFilter>([
    { since: 0 },
    { since: acceptedAt(3) },
    { since: acceptedAt(3) + 1 },
    { until: acceptedAt(9) },
    { until: acceptedAt(9) + 1 },
    { since: acceptedAt(2), until: acceptedAt(8) },
    { eventTypes: ["a.*"] },
    { eventTypes: ["b", "a"], since: acceptedAt(4) },
    { eventTypes: ["none"] },
    { eventTypes: null },
  ])("may be limited to a period and to types, without those of events that an operator removed (%j)", async (filter) => {
    const { since, until, eventTypes = null } = filter;
    const isMeant = (event: number) => {
      const bundle = bundleOf(event);
      if (bundle === REMOVED) return since === undefined && until === undefined && eventTypes === null;
      return (
        acceptedAt(bundle) >= (since ?? 0) &&
        acceptedAt(bundle) < (until ?? Number.POSITIVE_INFINITY) &&
        takesType(eventTypes, typeAt(indexOf(event)))
      );
    };
    for (const destination of [A, B])
      expect((await pagesOf(destination, ALL, filter)).flat()).toEqual(waiting[destination]?.filter(isMeant));
  });
});

describe("a delivery", () => {
  const EVENT = eventAt(1, 60);
  const GIVE_UP = NOW + 9;

  const row = (fields: object = {}) =>
    insertRow("deliveries", {
      ...{ destination_id: A, event_id: EVENT, state: "waiting", generation: 1, give_up_at: 5, ...fields },
    });
  const replay = (id: string, destination: string) =>
    insertRow("replays", {
      ...{
        id,
        tenant: "acme",
        destination_id: destination,
        include: "dead",
        since: 0,
        until: 1,
        rate_per_minute: 1,
      },
      ...{ state: "running", pace: 1, next_step_at: 0, created_at: 0, updated_at: 0 },
    });
  const pack = (fields: object) =>
    insertRow("packs", { destination_id: A, bundle_id: 1, give_up_at: 5, ...fields });
  const cancelled = { destinationId: A, eventId: EVENT, giveUpAt: GIVE_UP };
  const cancel = async () => (await cancelDeliveries({ db: env.DB }, [cancelled], NOW))[0];
  const rows = () => rowsOfAll("SELECT * FROM deliveries ORDER BY destination_id, event_id");
  const packs = () => rowsOfAll("SELECT * FROM packs ORDER BY destination_id, bundle_id");
  const counts = async () =>
    Object.fromEntries(
      (await rowsOfAll<{ id: string; failed: number }>("SELECT id, failed FROM replays")).map((one) => [
        one.id,
        one.failed,
      ]),
    );

  beforeEach(async () => {
    await emptyDatabase();
    await replay("rpl_own", A);
    await replay("rpl_other", B);
    await insertBundles(env.DB, [
      { acceptedAt: 1, events: range(0, 70).map(() => ({ destinations: [A, B] })) },
      { acceptedAt: 1, events: range(0, 70).map(() => ({ destinations: [A, B] })) },
    ]);
    // Beside it: the same event for another destination, its neighbour, and other packs in which it would be in flight.
    await row({ destination_id: B, replay: "rpl_other" });
    await row({ event_id: EVENT + 1, replay: "rpl_other" });
    await row({
      event_id: EVENT - 1,
      state: "retrying",
      reason: "http_500",
      next_attempt_at: 7,
      replay: "rpl_other",
    });
    await insertRow("packs", { destination_id: B, bundle_id: 1, in_flight1: 1 << 10, recover_at: 1 });
    await insertRow("packs", { destination_id: A, bundle_id: 2, in_flight1: 1 << 10, recover_at: 1 });
  });

  test.each<[string, () => Promise<void>]>([
    ["queued", async () => {}],
    ["waiting in a pack", () => pack({ waiting1: 1 << 10, reason: "paused" })],
    [
      "waiting in a pack beside one that is in flight",
      () => pack({ waiting1: 1 << 10, in_flight1: 1 << 11, recover_at: 1 }),
    ],
  ])("that is %s becomes a cancelled row, with the age limit that it would have had", async (_, prepare) => {
    await prepare();
    const before = await rows();
    const ended = { state: "cancelled", reason: "cancelled_by_request", giveUpAt: GIVE_UP, endedAt: NOW };
    expect(await cancel()).toMatchObject({ destinationId: A, eventId: EVENT, ...ended, attempts: 0 });
    const after = await rows();
    expect(after).toHaveLength(before.length + 1);
    expect(after).toEqual(expect.arrayContaining(before));
    expect(await rowsOfAll("SELECT * FROM packs WHERE waiting0 | waiting1 <> 0")).toEqual([]);
    expect(await counts()).toEqual({ rpl_own: 0, rpl_other: 0 });
    // Again: it has ended.
    expect(await cancel()).toBeUndefined();
    expect(await rows()).toEqual(after);
  });

  test.each([
    ["waiting", { state: "waiting", reason: "replayed" }],
    ["waiting for no reason", { state: "waiting", reason: null }],
    ["to be retried", { state: "retrying", reason: "http_500", attempts: 2, next_attempt_at: NOW + 5 }],
  ])("that is %s in a row ends, and counts as failed only for its replay, once", async (_, fields) => {
    await row({ ...fields, replay: "rpl_own" });
    const before = await rows();
    const [first, second, third] = await Promise.all([cancel(), cancel(), cancel()]);
    const ended = { state: "cancelled", reason: "cancelled_by_request", nextAttemptAt: null, endedAt: NOW };
    expect([first, second, third].filter((one) => one !== undefined)).toMatchObject([
      { ...ended, giveUpAt: 5 },
    ]);
    expect(await counts()).toEqual({ rpl_own: 1, rpl_other: 0 });
    const others = (all: unknown[]) =>
      all.filter((one) => !["own", null].includes((one as { replay: string }).replay?.slice(4) ?? null));
    expect(others(await rows())).toEqual(others(before));
  });

  test.each<[string, () => Promise<void>]>([
    [
      "in flight",
      () => row({ state: "retrying", reason: "in_flight", next_attempt_at: NOW, replay: "rpl_own" }),
    ],
    ["in flight in a pack", () => pack({ in_flight1: 1 << 10, recover_at: NOW })],
    ["delivered", () => row({ state: "delivered", ended_at: 3, replay: "rpl_own" })],
    ["dead", () => row({ state: "dead", reason: "exhausted", ended_at: 3, replay: "rpl_own" })],
    ["delivered in a pack", () => pack({ delivered1: 1 << 10, ended_at: 3 })],
  ])("that is %s stays as it is, and counts for no replay", async (_, prepare) => {
    await prepare();
    const before = [await rows(), await packs()];
    expect(await cancel()).toBeUndefined();
    expect([await rows(), await packs()]).toEqual(before);
    expect(await counts()).toEqual({ rpl_own: 0, rpl_other: 0 });
  });

  test("of an unbound database is not found", async () => {
    const far = { destinationId: A, eventId: 7 * 2 ** 40 + 128, giveUpAt: GIVE_UP };
    expect(await cancelDeliveries({ db: env.DB }, [far], NOW)).toEqual([]);
  });

  test("is cancelled at once with others, whether in a row or in a pack", async () => {
    await row();
    await insertRow("packs", {
      destination_id: A,
      bundle_id: 1,
      waiting0: 0b11,
      give_up_at: 5,
      reason: "paused",
    });
    const events = [eventAt(1, 0), EVENT, EVENT - 1];
    expect(await cancelEach(env.DB, A, events, NOW)).toBe(2);
    expect(
      await rowsOfAll("SELECT event_id, reason FROM deliveries WHERE state = 'cancelled' ORDER BY event_id"),
    ).toEqual([eventAt(1, 0), EVENT].map((event_id) => ({ event_id, reason: "cancelled_by_request" })));
    expect(await cancelEach(env.DB, A, [], NOW)).toBe(0);
  });
});
