/** How waiting deliveries end without an attempt: expired, cancelled, or because their event was removed. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { type DeliveryKey, eventAt } from "../../src/core/bundle.ts";
import {
  cancelWaitingDeliveries,
  endRemoved,
  endWaiting,
  expireWaiting,
  expireWaitingPacks,
} from "../../src/store/waiting.ts";
import { emptyDatabase } from "../support/databases.ts";
import { interceptedD1 } from "../support/intercept.ts";
import { meteredD1 } from "../support/meter.ts";
import {
  deliveryStates,
  insertDeliveries,
  insertPacks,
  insertReplays,
  NEVER,
} from "../support/stored-deliveries.ts";

const NOW = 1_800_000_000_000;
const OWN = "dst_own";
const OTHER = "dst_other";
beforeEach(emptyDatabase);

const states = () => deliveryStates(env.DB);
const own = (event: number) => ({ destination: OWN, event });
const other = (event: number) => ({ destination: OTHER, event });
const keyOf = ({ destination, event }: ReturnType<typeof own>): DeliveryKey => ({
  destinationId: destination,
  eventId: event,
});

/** D1 that does this once, right after its first round trip: what another invocation does meanwhile. */
function interrupted(meanwhile: () => Promise<unknown>): D1Database {
  let isOver = false;
  return interceptedD1(env.DB, async (_, call) => {
    const result = await call();
    if (!isOver) {
      isOver = true;
      await meanwhile();
    }
    return result;
  });
}

const execute = (sql: string) => env.DB.prepare(sql).run();

describe("ending waiting deliveries", () => {
  const expired = { state: "dead", reason: "expired", dueBy: NOW } as const;
  const at = (index: number, bundle = 2) => eventAt(bundle, index);

  test("ends those of the list that still wait and are over their age limit, and no other", async () => {
    await insertDeliveries(env.DB, [
      { ...own(131), state: "waiting", reason: "rate", nextAttemptAt: 1, giveUpAt: NOW - 1 },
      { ...own(132), state: "waiting", reason: "rate", giveUpAt: NOW },
      { ...own(133), state: "waiting", reason: "rate", giveUpAt: NOW + 1 },
      { ...own(134), state: "retrying", reason: "http_500", giveUpAt: NOW - 1 },
      { ...own(135), state: "waiting", reason: "rate", giveUpAt: NOW - 1 },
      { ...other(131), state: "waiting", reason: "rate", giveUpAt: NOW - 1 },
      { ...other(135), state: "waiting", reason: "rate", giveUpAt: NOW },
    ]);
    await insertPacks(env.DB, [
      {
        ...{ destination: OWN, bundle: 2, reason: "hold", giveUpAt: NOW },
        ...{ waiting: [0, 51, 60], inFlight: [1], delivered: [2], cancelled: [3] },
      },
      { destination: OWN, bundle: 3, waiting: [0], reason: "hold", giveUpAt: NOW + 1 },
      { destination: OWN, bundle: 4, waiting: [0, 1, 2, 3, 4], reason: "hold", giveUpAt: NOW - 1 },
      { destination: OTHER, bundle: 2, waiting: [0, 1, 51], reason: "hold", giveUpAt: NOW - 1 },
    ]);
    const list = [
      ...[131, 132, 133, 134, at(0), at(51), at(1), at(2), at(3), at(4), at(0, 3)].map(own),
      other(135),
    ];
    expect(await endWaiting(env.DB, list.map(keyOf), expired, NOW)).toBe(5);
    expect(await states()).toEqual([
      "dst_other 131 waiting/rate",
      "dst_other 135 dead/expired",
      ...[at(0), at(1), at(51)].map((event) => `dst_other ${event} waiting/hold`),
      "dst_own 131 dead/expired",
      "dst_own 132 dead/expired",
      "dst_own 133 waiting/rate",
      "dst_own 134 retrying/http_500",
      "dst_own 135 waiting/rate",
      `dst_own ${at(0)} dead/expired`,
      `dst_own ${at(1)} retrying/in_flight`,
      `dst_own ${at(2)} delivered`,
      `dst_own ${at(3)} cancelled/destination_deleted`,
      `dst_own ${at(51)} dead/expired`,
      `dst_own ${at(60)} waiting/hold`,
      `dst_own ${at(0, 3)} waiting/hold`,
      ...[0, 1, 2, 3, 4].map((index) => `dst_own ${at(index, 4)} waiting/hold`),
    ]);
    const { results } = await env.DB.prepare(
      `SELECT event_id AS event, next_attempt_at AS next, give_up_at AS giveUpAt, ended_at AS endedAt FROM deliveries
       WHERE state = 'dead' AND destination_id = '${OWN}' ORDER BY event_id`,
    ).all();
    expect(results).toEqual([
      { event: 131, next: null, giveUpAt: NOW - 1, endedAt: NOW },
      { event: 132, next: null, giveUpAt: NOW, endedAt: NOW },
      { event: at(0), next: null, giveUpAt: NOW, endedAt: NOW },
      { event: at(51), next: null, giveUpAt: NOW, endedAt: NOW },
    ]);
  });

  test("twice at once ends and counts each once, also in its replay", async () => {
    await insertReplays(env.DB, [{ id: "rpl_1", destination: OWN }]);
    await insertDeliveries(env.DB, [
      { ...own(131), state: "waiting", replay: "rpl_1", giveUpAt: NOW },
      { ...own(132), state: "waiting", replay: "rpl_1", giveUpAt: NOW },
    ]);
    await insertPacks(env.DB, [{ destination: OWN, bundle: 2, waiting: [7, 70], giveUpAt: NOW }]);
    const list = [131, 132, at(7), at(70)].map(own);
    const counts = await Promise.all([1, 2].map(() => endWaiting(env.DB, list.map(keyOf), expired, NOW)));
    expect(counts.toSorted()).toEqual([0, 4]);
    expect(await env.DB.prepare("SELECT failed FROM replays").first("failed")).toBe(2);
  });

  test("of an empty list makes no query", async () => {
    const { db, used } = meteredD1(env.DB);
    expect(await endWaiting(db, [], expired, NOW)).toBe(0);
    expect(used().roundTrips).toBe(0);
  });

  test("of removed events ends them whatever their age limits, and no others", async () => {
    await insertDeliveries(env.DB, [
      { ...own(131), state: "waiting" },
      { ...own(132), state: "waiting" },
      { ...other(131), state: "waiting" },
    ]);
    await insertPacks(env.DB, [
      { destination: OWN, bundle: 2, waiting: [7, 70] },
      { destination: OTHER, bundle: 2, waiting: [7, 70] },
    ]);
    expect(await endRemoved({ db: env.DB }, OWN, [131, at(70)], NOW)).toBe(2);
    expect(await states()).toEqual([
      "dst_other 131 waiting",
      `dst_other ${at(7)} waiting`,
      `dst_other ${at(70)} waiting`,
      "dst_own 131 dead/event_removed",
      "dst_own 132 waiting",
      `dst_own ${at(7)} waiting`,
      `dst_own ${at(70)} dead/event_removed`,
    ]);
  });
});

describe("cancelling deliveries that wait for a deleted destination", () => {
  const at = (index: number, bundle = 2) => eventAt(bundle, index);

  test("cancels its waiting rows and bits, and nothing else", async () => {
    await insertDeliveries(env.DB, [
      { ...own(131), state: "waiting", reason: "rate", nextAttemptAt: 1 },
      { ...own(132), state: "retrying", reason: "http_500" },
      { ...own(133), state: "waiting", reason: "hold" },
      { ...own(134), state: "dead", reason: "expired" },
      { ...other(131), state: "waiting", reason: "rate" },
    ]);
    await insertPacks(env.DB, [
      {
        ...{ destination: OWN, bundle: 2, reason: "hold", recoverAt: NOW },
        ...{ waiting: [0, 49, 50, 99], inFlight: [1, 51], delivered: [2] },
      },
      { destination: OTHER, bundle: 2, waiting: [0], reason: "hold" },
    ]);
    expect(await cancelWaitingDeliveries(env.DB, OWN, NOW, 100)).toBe(6);
    expect(await states()).toEqual([
      "dst_other 131 waiting/rate",
      `dst_other ${at(0)} waiting/hold`,
      "dst_own 131 cancelled/destination_deleted",
      "dst_own 132 retrying/http_500",
      "dst_own 133 cancelled/destination_deleted",
      "dst_own 134 dead/expired",
      `dst_own ${at(0)} cancelled/destination_deleted`,
      `dst_own ${at(1)} retrying/in_flight`,
      `dst_own ${at(2)} delivered`,
      ...[49, 50].map((index) => `dst_own ${at(index)} cancelled/destination_deleted`),
      `dst_own ${at(51)} retrying/in_flight`,
      `dst_own ${at(99)} cancelled/destination_deleted`,
    ]);
    const ended = "SELECT count(*) AS n FROM delivery_states WHERE state = 'cancelled' AND ended_at = ?1";
    expect(await env.DB.prepare(ended).bind(NOW).first("n")).toBe(6);
    expect(await cancelWaitingDeliveries(env.DB, OWN, NOW + 1, 100)).toBe(0);
  });

  test("takes a limited number of rows and a tenth as many packs at a time, until none is left", async () => {
    const rows = Array.from({ length: 20 }, (_, i) => ({ ...own(128 + i), state: "waiting" as const }));
    await insertDeliveries(env.DB, rows);
    await insertDeliveries(
      env.DB,
      rows.map((row, i) => ({ ...row, ...other(500 + i) })),
    );
    await insertPacks(
      env.DB,
      [2, 3, 4, 5].map((bundle) => ({ destination: OWN, bundle, waiting: [5] })),
    );
    const counts: number[] = [];
    for (let i = 0; i < 3; i++) counts.push(await cancelWaitingDeliveries(env.DB, OWN, NOW, 15));
    expect(counts).toEqual([15 + 2, 5 + 2, 0]);
  });

  test("writes no packs if there are none", async () => {
    await insertDeliveries(env.DB, [{ ...own(131), state: "waiting" }]);
    const { db, used } = meteredD1(env.DB);
    expect(await cancelWaitingDeliveries(db, OWN, NOW, 10)).toBe(1);
    expect(used().roundTrips).toBe(2);
  });

  test("leaves deliveries that have been sent, or are being sent, meanwhile", async () => {
    await insertDeliveries(env.DB, [
      { ...own(131), state: "waiting" },
      { ...own(132), state: "waiting" },
    ]);
    await insertPacks(env.DB, [{ destination: OWN, bundle: 2, waiting: [0, 1], recoverAt: null }]);
    const db = interrupted(async () => {
      await execute("UPDATE deliveries SET state = 'delivered' WHERE event_id = 131");
      await execute(`UPDATE packs SET waiting0 = 2, in_flight0 = 1, recover_at = ${NOW}`);
    });
    await cancelWaitingDeliveries(db, OWN, NOW, 10);
    expect(await states()).toEqual([
      "dst_own 131 delivered",
      "dst_own 132 cancelled/destination_deleted",
      `dst_own ${at(0)} retrying/in_flight`,
      `dst_own ${at(1)} cancelled/destination_deleted`,
    ]);
  });
});

/** The pages of a walk over all waiting deliveries, from the beginning to its end. */
async function pagesOf(expire: typeof expireWaiting, limit: number, now = NOW) {
  const pages: [looked: number, ended: [string, number][], upto: string][] = [];
  let after: DeliveryKey | undefined = { destinationId: "", eventId: 0 };
  while (after !== undefined && pages.length < 30) {
    const { upto, looked, ended } = await expire(env.DB, after, now, limit);
    pages.push([looked, [...ended], upto === undefined ? "end" : `${upto.destinationId} ${upto.eventId}`]);
    after = upto;
  }
  return pages;
}

describe("the walk over waiting rows", () => {
  beforeEach(() =>
    insertDeliveries(env.DB, [
      { destination: "dst_a", event: 140, state: "waiting", giveUpAt: NOW + 1 },
      { destination: "dst_a", event: 150, state: "waiting", giveUpAt: NOW },
      { destination: "dst_a", event: 160, state: "delivered", giveUpAt: NOW - 1 },
      { destination: "dst_a", event: 170, state: "waiting", giveUpAt: NOW - 1 },
      { destination: "dst_b", event: 130, state: "waiting", giveUpAt: NOW - 1 },
      { destination: "dst_b", event: 180, state: "waiting", giveUpAt: NOW + 1 },
    ]),
  );

  test("ends what is over its age limit at that time, page by page, and ends itself behind the last", async () => {
    expect(await pagesOf(expireWaiting, 2)).toEqual([
      [2, [["dst_a", 1]], "dst_a 150"],
      [
        2,
        [
          ["dst_a", 1],
          ["dst_b", 1],
        ],
        "dst_b 130",
      ],
      [1, [], "end"],
    ]);
    expect(await states()).toEqual([
      "dst_a 140 waiting",
      "dst_a 150 dead/expired",
      "dst_a 160 delivered",
      "dst_a 170 dead/expired",
      "dst_b 130 dead/expired",
      "dst_b 180 waiting",
    ]);
  });

  test("comes to a full last page, and then to its end", async () => {
    expect(await pagesOf(expireWaiting, 5)).toEqual([
      [
        5,
        [
          ["dst_a", 2],
          ["dst_b", 1],
        ],
        "dst_b 180",
      ],
      [0, [], "end"],
    ]);
  });

  test("counts none where all were sent meanwhile", async () => {
    const db = interrupted(() => execute("UPDATE deliveries SET state = 'delivered'"));
    const { ended } = await expireWaiting(db, { destinationId: "", eventId: 0 }, NOW, 10);
    expect([...ended]).toEqual([]);
  });
});

describe("the walk over waiting packs", () => {
  const all = Array.from({ length: 100 }, (_, i) => i);

  test("ends what is over its age limit at that time, page by page, and ends itself behind the last", async () => {
    await insertPacks(env.DB, [
      { destination: "dst_a", bundle: 2, waiting: [1, 50], inFlight: [2], giveUpAt: NOW },
      { destination: "dst_a", bundle: 3, waiting: [1, 50], giveUpAt: NOW + 1 },
      { destination: "dst_a", bundle: 4, inFlight: [1], delivered: [2], giveUpAt: NOW - 1 },
      { destination: "dst_a", bundle: 5, waiting: [99], giveUpAt: NOW - 1 },
      { destination: "dst_b", bundle: 2, waiting: [0, 9, 98], giveUpAt: NOW - 1 },
      { destination: "dst_b", bundle: 6, waiting: [0], giveUpAt: null },
    ]);
    const before = await states();
    expect(await pagesOf(expireWaitingPacks, 2)).toEqual([
      [2, [["dst_a", 2]], `dst_a ${eventAt(3, 127)}`],
      [
        2,
        [
          ["dst_a", 1],
          ["dst_b", 3],
        ],
        `dst_b ${eventAt(2, 127)}`,
      ],
      [1, [], "end"],
    ]);
    const over = [
      ...[eventAt(2, 1), eventAt(2, 50), eventAt(5, 99)].map((event) => `dst_a ${event} waiting`),
      ...[0, 9, 98].map((index) => `dst_b ${eventAt(2, index)} waiting`),
    ];
    expect(await states()).toEqual(
      before.map((one) => (over.includes(one) ? one.replace("waiting", "dead/expired") : one)),
    );
  });

  test("comes to a full last page, and then to its end", async () => {
    await insertPacks(env.DB, [
      { destination: "dst_a", bundle: 2, waiting: [1], giveUpAt: NEVER },
      { destination: "dst_a", bundle: 3, waiting: [1], giveUpAt: NEVER },
    ]);
    expect(await pagesOf(expireWaitingPacks, 2)).toEqual([
      [2, [], `dst_a ${eventAt(3, 127)}`],
      [0, [], "end"],
    ]);
  });

  test("reads no more packs of a page once 2,000 deliveries are to be ended", async () => {
    const packs = Array.from({ length: 21 }, (_, i) => ({ destination: OWN, bundle: 2 + i, waiting: all }));
    await insertPacks(
      env.DB,
      packs.map((pack) => ({ ...pack, giveUpAt: NOW })),
    );
    expect(await pagesOf(expireWaitingPacks, 25)).toEqual([
      [20, [[OWN, 2_000]], `${OWN} ${eventAt(21, 127)}`],
      [1, [[OWN, 100]], "end"],
    ]);
  });

  test("counts none where all were sent meanwhile", async () => {
    await insertPacks(env.DB, [{ destination: OWN, bundle: 2, waiting: [1], giveUpAt: NOW }]);
    const db = interrupted(() => execute("UPDATE packs SET delivered0 = waiting0, waiting0 = 0"));
    const { ended } = await expireWaitingPacks(db, { destinationId: "", eventId: 0 }, NOW, 10);
    expect([...ended]).toEqual([]);
  });
});
