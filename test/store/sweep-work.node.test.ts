/** Whether the sweep has anything to do in a database, and the walk over retries of a deleted destination. */
import { beforeEach, describe, expect, test } from "vitest";
import { memoryD1 } from "../../bench/storm/breakwater/d1.ts";
import { sweepWork } from "../../src/store/sweep.ts";
import {
  cancelRetrying,
  cancelWaitingDeliveries,
  expireBehind,
  expireWaiting,
  retryingPage,
} from "../../src/store/waiting.ts";
import { insertBundles } from "../support/bundle-rows.ts";
import {
  deliveryStates,
  insertDeliveries,
  insertPacks,
  insertReplays,
  insertRows,
} from "../support/stored-deliveries.ts";

const [A, B] = ["dst_a", "dst_b"] as const;
const UNTIL = 2_000;
const HORIZON = 1_000;
const NOTHING = { scheduled: false, lost: false, overdue: false, expired: false, lined: false };

let db: D1Database;
beforeEach(() => {
  db = memoryD1().bindingFor(async (_, work) => work());
});

describe("the sweep of a database", () => {
  const work = () => sweepWork(db, UNTIL, HORIZON);
  const bundle = (id: number, acceptedAt: number, deliverAt?: number) =>
    insertBundles(db, [{ id, events: [{}], acceptedAt, deliverAt }]);
  const watermark = (at: number) => insertRows(db, "sweeps", [{ id: 1, watermark: at, heartbeat_at: 0 }]);
  const cursor = (name: string, at: number, row = 0) =>
    insertRows(db, "cursors", [{ name, at, row_id: row }]);

  test("has nothing to do where nothing is stored", async () => {
    expect(await work()).toEqual(NOTHING);
  });

  test.each([
    [UNTIL, true],
    [UNTIL + 1, false],
  ])("has a bundle to enqueue that is due by then: at %d", async (deliverAt, scheduled) => {
    await watermark(9);
    await bundle(3, HORIZON + 1, deliverAt);
    expect(await work()).toEqual({ ...NOTHING, scheduled });
  });

  test.each<[string, number, number, boolean]>([
    ["before its time", 1_500, 9, true],
    ["at its time, before it", 1_600, 2, true],
    ["at its time, with it", 1_600, 3, false],
    ["behind its time", 1_601, 0, false],
  ])("has none to enqueue again: where its walk is %s", async (_, at, row, scheduled) => {
    await watermark(9);
    await cursor("scheduled", at, row);
    // The cursor of the other walk.
    await cursor("scheduled_checked", 1_600, 3);
    await bundle(3, HORIZON + 1, 1_600);
    expect(await work()).toEqual({ ...NOTHING, scheduled });
  });

  test.each<[string, number, number, number, boolean]>([
    ["due by the horizon", HORIZON, 0, 0, true],
    ["due later", HORIZON + 1, 0, 0, false],
    ["behind its walk", HORIZON, HORIZON, 2, true],
    ["that its walk has passed", HORIZON, HORIZON, 3, false],
  ])("looks for what was lost of a scheduled bundle %s", async (_, deliverAt, at, row, lost) => {
    await watermark(9);
    await cursor("scheduled", UNTIL, 3);
    await cursor("scheduled_checked", at, row);
    await bundle(3, HORIZON + 1, deliverAt);
    expect(await work()).toEqual({ ...NOTHING, lost });
  });

  test.each<[string, number, number, boolean]>([
    ["accepted by the horizon", HORIZON, 0, true],
    ["accepted later", HORIZON + 1, 0, false],
    ["behind its watermark", HORIZON, 2, true],
    ["at its watermark", HORIZON, 3, false],
  ])("looks for what was lost of a bundle %s", async (_, acceptedAt, at, lost) => {
    await watermark(at);
    await bundle(3, acceptedAt);
    await bundle(4, HORIZON + 1);
    expect(await work()).toEqual({ ...NOTHING, lost });
  });

  test.each([
    ["a retry", HORIZON, true],
    ["a retry", HORIZON + 1, false],
    ["an attempt", HORIZON, true],
    ["an attempt", HORIZON + 1, false],
  ])("recovers %s that is due by the horizon: at %d", async (what, at, overdue) => {
    if (what === "a retry")
      await insertDeliveries(db, [
        { destination: A, event: 1, state: "retrying", nextAttemptAt: at },
        { destination: A, event: 2, state: "delivered", nextAttemptAt: 1 },
      ]);
    else await insertPacks(db, [{ destination: A, bundle: 1, inFlight: [1], recoverAt: at }]);
    expect(await work()).toEqual({ ...NOTHING, overdue });
  });

  test("looks at the age limits of what stands in lines", async () => {
    await insertRows(db, "lines", [{ destination_id: A, line: "*", event_id: 128, give_up_at: 9, holds: 0 }]);
    expect(await work()).toEqual({ ...NOTHING, lined: true });
  });

  test("looks at the age limits of whatever waits", async () => {
    await insertDeliveries(db, [{ destination: A, event: 1, state: "dead" }]);
    expect((await work()).expired).toBe(false);
    await insertPacks(db, [{ destination: A, bundle: 1, waiting: [1] }]);
    expect(await work()).toEqual({ ...NOTHING, expired: true });
    await db.prepare("DELETE FROM packs").bind().run();
    await insertDeliveries(db, [{ destination: A, event: 2, state: "waiting" }]);
    expect(await work()).toEqual({ ...NOTHING, expired: true });
  });
});

describe("the retries of a deleted destination", () => {
  beforeEach(() =>
    insertDeliveries(db, [
      { destination: A, event: 1, state: "retrying", reason: "http_500", replay: "rpl_1" },
      { destination: A, event: 2, state: "retrying", reason: "in_flight" },
      { destination: A, event: 3, state: "waiting", reason: "hold" },
      { destination: A, event: 4, state: "retrying", reason: null },
      { destination: B, event: 3, state: "retrying", reason: "http_500" },
    ]),
  );

  test("are found page by page, without those that are in flight", async () => {
    expect(await retryingPage(db, A, 0, 2)).toEqual({ events: [1], upto: 2 });
    expect(await retryingPage(db, A, 2, 2)).toEqual({ events: [4], upto: 4 });
    expect(await retryingPage(db, A, 4, 2)).toEqual({ events: [], upto: undefined });
    expect(await retryingPage(db, A, 1, 9)).toEqual({ events: [4], upto: undefined });
  });

  test("are cancelled where they are still to be made, and counted in their replays", async () => {
    await insertReplays(db, [{ id: "rpl_1", destination: A }]);
    await insertPacks(db, [{ destination: A, bundle: 0, waiting: [5] }]);
    const before = await deliveryStates(db);
    expect(await cancelRetrying(db, A, [1, 2, 3, 5], 9)).toBe(1);
    expect(await deliveryStates(db)).toEqual(
      before.map((one) => one.replace(`${A} 1 retrying/http_500`, `${A} 1 cancelled/destination_deleted`)),
    );
    expect(await db.prepare("SELECT failed FROM replays").first("failed")).toBe(1);
    expect(await cancelRetrying(db, A, [], 9)).toBe(0);
  });
});

describe("what stands in lines", () => {
  const line = (events: readonly number[], holds = 0, destination_id: string = A) =>
    insertRows(
      db,
      "lines",
      events.map((event_id) => ({ destination_id, line: "x", event_id, give_up_at: 70, holds })),
    );
  const headed = (bundle: number, indexes: readonly number[], holds = 0) =>
    db
      .prepare("UPDATE bundles SET header = json_set(header, '$.lines', json(?1)) WHERE id = ?2")
      .bind(JSON.stringify({ [A]: [["x", 0, holds, ...indexes]] }), bundle)
      .run();

  test("is cancelled with what waits for a deleted destination", async () => {
    await line([129, 130]);
    await line([131], 0, B);
    await insertDeliveries(db, [{ destination: A, event: 128, state: "waiting", reason: "hold" }]);
    expect(await cancelWaitingDeliveries(db, A, 9, 10)).toBe(3);
    expect(await deliveryStates(db)).toEqual(
      [128, 129, 130].map((event) => `${A} ${event} cancelled/destination_deleted`),
    );
  });

  test.each([
    [1, [{ destinationId: A, eventId: 128 }]],
    [0, []],
  ])("is held by what expires, where its destination holds lines (%d)", async (holds, held) => {
    await insertBundles(db, [{ id: 1, events: [{}, {}] }]);
    await headed(1, [0, 1], holds);
    await line([128, 129], holds);
    await insertDeliveries(db, [
      { destination: A, event: 128, state: "waiting", giveUpAt: 5 },
      { destination: B, event: 128, state: "waiting", giveUpAt: 5 },
    ]);
    const expired = await expireWaiting(db, { destinationId: "", eventId: 0 }, 9, 10);
    expect(expired.held).toEqual(held);
    expect([...expired.ended]).toEqual([
      [A, 1],
      [B, 1],
    ]);
  });

  describe("behind others", () => {
    beforeEach(async () => {
      await insertBundles(db, [{ id: 1, events: Array(5).fill({}) }]);
      await headed(1, [0, 1, 2, 3, 4], 1);
      await line([128, 129, 130, 131, 132], 1);
      await line([128, 129], 0, B);
      await db.prepare("UPDATE lines SET give_up_at = 71 WHERE event_id = 130").bind().run();
      await insertPacks(db, [{ destination: A, bundle: 1, inFlight: [3] }]);
      await insertDeliveries(db, [{ destination: A, event: 132, state: "waiting", reason: "hold" }]);
    });
    const FIRST = { destinationId: "", eventId: 0 };
    const dead = async () => (await deliveryStates(db)).filter((one) => one.includes("dead"));

    test("expires at its age limit if nothing else is stored of it, and may hold its line", async () => {
      expect(await expireBehind(db, FIRST, 70, 10)).toEqual({
        ...{ upto: undefined, looked: 7, held: [{ destinationId: A, eventId: 129 }] },
        ended: new Map([
          [A, 1],
          [B, 1],
        ]),
      });
      expect(await dead()).toEqual([`${A} 129 dead/expired`, `${B} 129 dead/expired`]);
    });

    test("does not expire before its age limit", async () => {
      const nothing = { ended: new Map(), held: [] };
      expect(await expireBehind(db, FIRST, 69, 10)).toEqual({ upto: undefined, looked: 7, ...nothing });
      expect(await dead()).toEqual([]);
    });

    test.each([
      [3, [`3 ${A} x 130`, `3 ${B} x 128`, "1 end"]],
      [7, [`7 ${B} x 129`, "0 end"]],
    ])("is walked in pages of %d", async (limit, expected) => {
      const pages: string[] = [];
      let after: typeof FIRST | undefined = FIRST;
      while (after) {
        const { upto, looked }: Awaited<ReturnType<typeof expireBehind>> = await expireBehind(
          db,
          after,
          0,
          limit,
        );
        pages.push(`${looked} ${upto ? `${upto.destinationId} ${upto.eventId}` : "end"}`);
        after = upto;
      }
      expect(pages).toEqual(expected);
    });
  });
});
