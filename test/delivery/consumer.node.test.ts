/** A batch of messages, from loading its deliveries to the end of each message and each lease. */
import { beforeEach, describe, expect, test } from "vitest";
import type { AdmitResult } from "../../src/core/admit.ts";
import { eventAt } from "../../src/core/bundle.ts";
import { beforeFirstBundleOf } from "../../src/core/placement.ts";
import { attemptWaiting } from "../../src/delivery/message-group.ts";
// Loaded here, because loading takes real time, for which virtual time does not wait.
import "../../src/delivery/transform.ts";
import type { Services } from "../../src/services.ts";
import { type ByHand, worldByHand } from "../support/by-hand.ts";
import { interceptedD1 } from "../support/intercept.ts";

let world: ByHand;
beforeEach(() => {
  world = worldByHand();
});

const part = (destination: string, bundle = 1, indexes?: readonly number[]) => ({
  ...{ bundle, destinations: [destination] },
  ...(indexes && { indexes }),
});
const naming = (...bundles: ReturnType<typeof part>[]) => ({ bundles });

/** A destination whose retries come after so many seconds. */
const retryingAfter = (seconds: number) =>
  world.destination({ retry: { schedule: [seconds], jitter: "none" }, breakerMinAttempts: 100 });

const stateOf = (destination: string, index = 0) => {
  const row = world.rows(destination).find(({ eventId }) => eventId % 128 === index);
  return row && `${row.state} ${row.reason}`;
};

/** D1 refuses what is written about the destination. */
function refuseWrites(destination: string): void {
  for (const table of ["deliveries", "packs"])
    world.sql(
      `CREATE TRIGGER refuse_${table} BEFORE INSERT ON ${table} WHEN NEW.destination_id = '${destination}'
       BEGIN SELECT RAISE(ABORT, 'as the test wants it'); END`,
    );
}

const d1Away = {
  instead: (services: { db: D1Database }) => ({
    db: interceptedD1(services.db, async () => {
      throw new Error("D1 is away");
    }),
  }),
};

describe("while D1 is away", () => {
  test.each([
    [1, 5],
    [2, 10],
    [3, 20],
    [6, 160],
    [7, 300],
    [60, 300],
  ])("all messages of a batch come again, for the %dth time after %d seconds", async (attempts, retryIn) => {
    const shop = world.destination();
    await world.post(2);
    const messages = [naming(part(shop, 1, [0, 0])), naming(part(shop, 1, [1, 1]))];
    expect(await world.consume(messages, { attempts, ...d1Away })).toEqual([{ retryIn }, { retryIn }]);
    expect(world.requests).toEqual([]);
    expect(world.logged("batch_failed")).toEqual([
      { what: "batch_failed", messages: 2, error: expect.stringContaining("D1 is away") },
    ]);
  });
});

describe("a delivery that waits", () => {
  const waits = async () => {
    const shop = world.destination();
    await world.post(2);
    world.pause(shop);
    await world.consume([naming(part(shop))]);
    world.edit(shop, { status: "active" });
    expect(stateOf(shop)).toBe("waiting paused");
    return shop;
  };

  test("is left to drains by an ordinary message, and attempted by one that takes waiting deliveries", async () => {
    const shop = await waits();
    const ordinary = naming(part(shop));
    const live = { ...naming(part(shop, 1, [0, 0])), owner: "by hand", takesWaiting: true };
    expect(await world.consume([ordinary])).toEqual(["acked"]);
    expect(world.requests).toEqual([]);
    expect(await world.consume([ordinary, live])).toEqual(["acked", "acked"]);
    expect([stateOf(shop), stateOf(shop, 1)]).toEqual(["delivered null", "waiting paused"]);
  });

  test("is retried by the message that has taken it", async () => {
    const shop = await waits();
    world.edit(shop, { retry: { schedule: [30], jitter: "none" } });
    world.script(shop, 500);
    const live = { ...naming(part(shop, 1, [0, 0])), owner: "by hand", takesWaiting: true };
    expect(await world.consume([live])).toEqual([{ retryIn: 30 }]);
    expect(world.rows(shop).flatMap(({ log }) => log)).toMatchObject([{ owner: "by hand" }]);
    world.script(shop, 204);
    await world.handled("pause", ({ sleep }) => sleep(30_000));
    expect(await world.consume([live], { attempts: 2 })).toEqual(["acked"]);
    expect(stateOf(shop)).toBe("delivered null");
  });

  test("waits for a drain if the queue does not take its message", async () => {
    const shop = await waits();
    const deliveries = { sendBatch: async () => Promise.reject(new Error("as the test wants it")) };
    await world.handled("retry", (services) => attemptWaiting(services, world.rows(shop)), {
      instead: () => ({ deliveries: deliveries as unknown as Services["deliveries"] }),
    });
    expect(world.asked("scheduleDrain", shop)).toHaveLength(1);
    expect(world.logged("waiting_not_enqueued")).toMatchObject([{ deliveries: 2 }]);
  });
});

describe("an outcome that cannot be recorded", () => {
  test("makes its messages come again and leaves its lease unsettled; others are completed", async () => {
    const [good, bad] = [retryingAfter(30), retryingAfter(30)];
    for (const shop of [good, bad]) world.script(shop, 500);
    await world.post(2);
    refuseWrites(bad);
    const results = await world.consume([
      naming(part(bad, 1, [0, 0])),
      naming(part(good, 1, [0, 0])),
      naming(part(good, 1, [1, 1]), part(bad, 1, [1, 1])),
    ]);
    expect(results).toEqual([{ retryIn: 5 }, { retryIn: 30 }, { retryIn: 5 }]);
    expect(world.logged("batch_failed")).toMatchObject([{ messages: 2 }]);
    expect([stateOf(good), stateOf(bad)]).toEqual(["retrying http_500", undefined]);
    expect(world.asked("settle", good)).toHaveLength(1);
    expect(world.asked("settle", bad)).toEqual([]);
  });

  test("of a decision without an attempt makes its message come again too", async () => {
    const [good, bad] = [world.destination(), world.destination({ status: "paused" })];
    await world.post(1);
    refuseWrites(bad);
    const results = await world.consume([naming(part(bad)), naming(part(good))]);
    expect(results).toEqual([{ retryIn: 5 }, "acked"]);
    expect([stateOf(good), stateOf(bad)]).toEqual(["delivered null", undefined]);
    expect(world.logged("batch_failed")).toMatchObject([{ messages: 1 }]);
  });

  test("does not occur in the ordinary case", async () => {
    const shop = world.destination();
    await world.post(1);
    expect(await world.consume([naming(part(shop))])).toEqual(["acked"]);
    expect(world.logged("batch_failed")).toEqual([]);
    expect(world.asked("settle")).toMatchObject([
      { continues: false, left: 0, signals: [expect.anything()], tatInMs: expect.any(Number) },
    ]);
  });
});

describe("bodies that are too much at once", () => {
  /** Two bundles of one event for two destinations. Their headers say that each body has 8 MB, so they count as damaged. */
  async function posted() {
    const shops = [world.destination(), world.destination()] as const;
    await world.post(1);
    await world.post(1);
    world.sql("UPDATE bundles SET header = json_set(header, '$.events[2]', 8 * 1024 * 1024)");
    return shops;
  }

  const endsOf = (shop: string) => world.rows(shop).map(({ eventId, reason }) => [eventId, reason]);

  test("are loaded in portions, and no delivery is left out", async () => {
    const [shop] = await posted();
    expect(await world.consume([naming(part(shop, 1), part(shop, 2))])).toEqual(["acked"]);
    expect(endsOf(shop)).toEqual([
      [eventAt(1, 0), "corrupt"],
      [eventAt(2, 0), "corrupt"],
    ]);
  });

  test("have only the messages come again whose portion could not be loaded", async () => {
    const [shop, other] = await posted();
    let loads = 0;
    const instead = ({ db }: Services) => ({
      db: interceptedD1(db, async (name, work) => {
        if (name.includes("length(b.body)") && ++loads === 2) throw new Error("D1 is away");
        return work();
      }),
    });
    const messages = [naming(part(shop, 1), part(shop, 2)), naming(part(other, 1))];
    expect(await world.consume(messages, { instead })).toEqual([{ retryIn: 5 }, "acked"]);
    expect(world.logged("batch_failed")).toMatchObject([{ messages: 1 }]);
    expect([shop, other].map(endsOf)).toEqual(Array(2).fill([[eventAt(1, 0), "corrupt"]]));
  });
});

test("a transformation that cannot be read has its own messages come again", async () => {
  const by = { kind: "admin_key", key: null, session: null } as const;
  const transform = { version: 2, after: 99, at: 0, by, template: { body: "{}" } };
  const [plain, shaping] = [world.destination(), world.destination({ transform })];
  await world.post(1);
  const instead = ({ db }: Services) => ({
    db: interceptedD1(db, async (name, work) => {
      if (name.includes('from "transforms"')) throw new Error("D1 is away");
      return work();
    }),
  });
  const results = await world.consume([naming(part(shaping)), naming(part(plain))], { instead });
  expect(results).toEqual([{ retryIn: 5 }, "acked"]);
  expect(world.logged("batch_failed")).toMatchObject([{ messages: 1 }]);
  expect(world.requests.map(({ destination }) => destination)).toEqual([plain]);
});

describe("a message", () => {
  test.each([
    [10, 60],
    [60, 10],
  ])("comes again when the first of its deliveries is due (%d s and %d s)", async (a, b) => {
    const shops = [retryingAfter(a), retryingAfter(b)];
    for (const [i, shop] of shops.entries()) world.script(shop, { status: 500, afterMs: 10 + 40 * i });
    await world.post(1);
    const [result] = await world.consume([naming(...shops.map((shop) => part(shop)))]);
    expect(result).toEqual({ retryIn: 10 });
    expect(shops.map((shop) => stateOf(shop))).toEqual(Array(2).fill("retrying http_500"));
  });

  test("is acknowledged if all of its deliveries end, whatever else of the batch must come again", async () => {
    const [ends, fails] = [world.destination(), retryingAfter(30)];
    world.script(fails, 500);
    await world.post(1);
    expect(await world.consume([naming(part(ends)), naming(part(fails))])).toEqual([
      "acked",
      { retryIn: 30 },
    ]);
  });

  test("that comes again finds its delivery due at its time, and not before", async () => {
    const shop = retryingAfter(30);
    world.script(shop, 500, 204);
    const messages = await world.post(1);
    await world.consume(messages);
    const [row] = world.rows(shop);
    const dueAt = row?.nextAttemptAt ?? 0;
    await world.run(dueAt - world.now() - 10);
    expect(await world.consume(messages, { attempts: 2 })).toEqual([{ retryIn: 1 }]);
    expect(world.requests).toHaveLength(1);
    await world.run(dueAt - world.now());
    expect(world.now()).toBe(dueAt);
    expect(await world.consume(messages, { attempts: 2 })).toEqual(["acked"]);
    expect(world.requests.map(({ attempt }) => attempt)).toEqual([1, 2]);
  });

  test("that comes again reads bodies only once it is known that one is due", async () => {
    const shop = retryingAfter(30);
    world.script(shop, 500, 204);
    const messages = await world.post(1);
    const costOf = async (attempts: number) => {
      world.calls();
      await world.consume(messages, { attempts });
      return world.calls().d1;
    };
    // To load, to read the body, and to record.
    expect(await costOf(1)).toBe(2);
    expect(await costOf(2)).toBe(1);
    await world.run(30_000);
    expect(await costOf(3)).toBe(3);
    expect(world.requests).toHaveLength(2);
  });

  test("of an event or a destination that is not stored is acknowledged, and logged", async () => {
    const shop = world.destination();
    await world.post(1);
    const unknown = { bundles: [{ bundle: 9, destinations: [shop, "dst_x"] }] };
    expect(await world.consume([unknown, naming(part("dst_y"))])).toEqual(["acked", "acked"]);
    expect(world.logged("delivery_unknown")).toEqual([
      { what: "delivery_unknown", bundle: 9, destination: `${shop} dst_x` },
      { what: "delivery_unknown", bundle: 1, destination: "dst_y" },
    ]);
    expect(world.logged("database_not_bound")).toEqual([]);
  });

  test("of a database that this version does not know comes again, with all of its deliveries", async () => {
    const shop = world.destination();
    await world.post(2);
    const far = beforeFirstBundleOf(1) + 1;
    const results = await world.consume([
      naming(part(shop, 1, [0, 0]), part(shop, far)),
      naming(part(shop, 1, [1, 1])),
    ]);
    expect(results).toEqual([{ retryIn: 5 }, "acked"]);
    expect([stateOf(shop, 0), stateOf(shop, 1)]).toEqual(["delivered null", "delivered null"]);
    expect(world.logged("database_not_bound")).toEqual([
      { what: "database_not_bound", bundle: far, destination: shop },
    ]);
    expect(world.logged("delivery_unknown")).toEqual([]);
  });

  test("of a bundle that only later code can read comes again", async () => {
    const shop = world.destination();
    await world.post(1);
    await world.post(1);
    world.sql("UPDATE bundles SET header = json_set(header, '$.version', 9) WHERE id = 1");
    const results = await world.consume([naming(part(shop, 1)), naming(part(shop, 2))]);
    expect(results).toEqual([{ retryIn: 5 }, "acked"]);
    expect(world.requests.map(({ event }) => event)).toEqual([eventAt(2, 0)]);
  });

  test("with an owner retries deliveries of that owner, and leaves those of others", async () => {
    const shop = retryingAfter(1);
    world.script(shop, 500);
    const [message] = await world.post(1);
    await world.consume([{ ...message, owner: "x" }]);
    expect(world.rows(shop)[0]?.log.at(-1)?.owner).toBe("x");
    expect(await world.consume([message])).toEqual(["acked"]);
    expect(world.requests).toHaveLength(1);
    await world.run(1_100);
    expect(await world.consume([message, { ...message, owner: "x" }])).toEqual(["acked", { retryIn: 1 }]);
    expect(world.requests).toHaveLength(2);
  });

  test("leaves deliveries of another owner to that, also when they are to be cancelled", async () => {
    const shop = retryingAfter(30);
    world.script(shop, 500);
    const [message] = await world.post(1);
    const owned = { ...message, owner: "x" };
    await world.consume([owned]);
    world.edit(shop, { deletedAt: 1 });
    expect(await world.consume([message])).toEqual(["acked"]);
    expect(stateOf(shop)).toBe("retrying http_500");
    expect(await world.consume([owned])).toEqual(["acked"]);
    expect(stateOf(shop)).toBe("cancelled destination_deleted");
  });

  test("that comes while another invocation delivers the same comes again after that", async () => {
    const shop = world.destination();
    world.script(shop, { status: 204, afterMs: 400 });
    const messages = await world.post(1);
    let twin: unknown;
    // While this one awaits its answer, the message comes a second time.
    const instead = ({ fetch }: Services) => ({
      fetch: (async (url: string, init: RequestInit) => {
        const answer = fetch(url, init);
        twin ??= world.consume(messages);
        return answer;
      }) as typeof fetch,
    });
    expect(await world.consume(messages, { instead })).toEqual(["acked"]);
    expect(await twin).toEqual([{ retryIn: expect.any(Number) }]);
    expect(world.requests).toHaveLength(1);
    await world.run(60_000);
    expect(await world.consume(messages)).toEqual(["acked"]);
    expect(world.requests).toHaveLength(1);
  });
});

describe("the gate", () => {
  test("is called for first attempts and for retries separately, with those of this batch", async () => {
    const [shop, other] = [retryingAfter(1), world.destination()];
    world.script(shop, 500, 204);
    const messages = await world.post(3);
    await world.consume([naming(part(shop, 1, [0, 0]))]);
    // Its sender is lost, and its attempt is not counted: its first is still to come.
    world.sql(
      `INSERT INTO deliveries (destination_id, event_id, state, reason, attempts, next_attempt_at, give_up_at)
       VALUES (?1, 129, 'retrying', 'in_flight', 0, ?2, ?3)`,
      ...[shop, world.now(), world.now() + 9e9],
    );
    await world.run(2_000);
    world.gateCalls.splice(0);
    expect(await world.consume(messages)).toEqual(["acked"]);
    const asked = world.gateCalls.filter(({ method }) => method === "admit");
    expect(asked.map(({ destination, given: [request] }) => [destination, request])).toMatchObject([
      [shop, { lane: "retry", deliveries: [128] }],
      [shop, { lane: "fresh", deliveries: [129, 130] }],
      [other, { lane: "fresh", deliveries: [128, 129, 130] }],
    ]);
    expect(asked[0]?.given[0]).toMatchObject({ startWithinMs: 5_000, lookedUpMsAgo: 2 });
  });

  test("admits a part, and the rest waits with the reason", async () => {
    const shop = world.destination({ ratePerSecond: 0.01, rateBurst: 2 });
    const messages = await world.post(5);
    expect(await world.consume(messages)).toEqual(["acked"]);
    expect(world.requests.map(({ event }) => event)).toEqual([128, 129]);
    expect([0, 1, 2, 3, 4].map((index) => stateOf(shop, index))).toEqual([
      ...Array(2).fill("delivered null"),
      ...Array(3).fill("waiting rate"),
    ]);
  });

  test("admits a part, and deliveries held by another lease are not attempted, and come again", async () => {
    const shop = world.destination();
    const messages = await world.post(3);
    world.answering(async ({ method }, real) => {
      const result = (await real()) as AdmitResult;
      if (method !== "admit" || !result.grant) return result;
      const { deliveries } = result.grant;
      const inFlight = { deliveries: deliveries.slice(1), until: world.now() + 7_000 };
      return { ...result, grant: { ...result.grant, deliveries: deliveries.slice(0, 1) }, inFlight };
    });
    expect(await world.consume(messages)).toEqual([{ retryIn: 7 }]);
    expect(world.requests.map(({ event }) => event)).toEqual([eventAt(1, 0)]);
    expect([stateOf(shop, 0), stateOf(shop, 1)]).toEqual(["delivered null", undefined]);
  });

  test("may have admitted deliveries read again: what has ended is not attempted, and what is not found comes again", async () => {
    const shop = world.destination();
    for (let i = 0; i < 4; i++) await world.post(1);
    const [ended, open, gone, held] = [1, 2, 3, 4].map((bundle) => eventAt(bundle, 0));
    world.answering(async ({ method }, real) => {
      const result = (await real()) as AdmitResult;
      if (method !== "admit" || !result.grant) return result;
      world.sql(
        `INSERT INTO deliveries (destination_id, event_id, state, reason, give_up_at, ended_at)
         VALUES (?1, ?2, 'cancelled', 'destination_deleted', 0, 1)`,
        ...[shop, ended ?? 0],
      );
      world.sql("DELETE FROM bundles WHERE id = 3");
      const deliveries = result.grant.deliveries.filter((event) => event !== held);
      const inFlight = { deliveries: [held], until: world.now() + 7_000 };
      return { ...result, grant: { ...result.grant, deliveries }, inFlight, readAgain: true };
    });
    const results = await world.consume([1, 2, 3, 4].map((bundle) => naming(part(shop, bundle))));
    expect(results).toEqual(["acked", "acked", { retryIn: expect.any(Number) }, { retryIn: 7 }]);
    expect(world.requests.map(({ event }) => event)).toEqual([open]);
    expect(world.rows(shop).some(({ eventId }) => eventId === gone)).toBe(false);
  });

  test("learns which deliveries are left over, and that none continue by themselves", async () => {
    const shop = world.destination({ maxConcurrency: 1, rateBurst: 100 });
    world.script(shop, { status: 204, afterMs: 2_000 });
    const messages = await world.post(6);
    await world.consume(messages);
    await world.run(20_000);
    const [settlement, ...others] = world.asked("settle", shop);
    expect(others).toEqual([]);
    expect(settlement).toMatchObject({ lease: expect.any(String), continues: false });
    const left = world.rows(shop).filter(({ state }) => state === "waiting").length;
    expect(left).toBeGreaterThan(0);
    expect(settlement).toMatchObject({ left, signals: Array(6 - left).fill(expect.anything()) });
  });
});

describe("destinations of one batch", () => {
  test("share its connections, so that a hanging one does not block the others", async () => {
    const slow = world.destination({
      maxConcurrency: 50,
      ratePerSecond: 1_000,
      rateBurst: 1_000,
      eventTypes: ["a"],
    });
    for (let round = 0; round < 4; round++) await world.consume(await world.post(20, { type: "a" }));
    const quick = world.destination({ eventTypes: ["b"] });
    world.script(slow, { status: 204, afterMs: 900 });
    const messages = [...(await world.post(20, { type: "a" })), ...(await world.post(1, { type: "b" }))];
    const before = world.requests.length;
    await world.consume(messages);
    const began = world.requests.slice(before);
    const first = began.find(({ destination }) => destination === quick);
    expect((first?.at ?? 0) - (began[0]?.at ?? 0)).toBeLessThan(100);
    await world.run(30_000);
  });
});

describe("an attempt that outlasts the batch's patience", () => {
  /** One that answers at once and one that hangs for three seconds, of one destination. */
  async function late(answer: number, first = 204) {
    const shop = world.destination({
      retry: { schedule: [30], jitter: "none" },
      ratePerSecond: 1_000,
      rateBurst: 1_000,
    });
    for (let round = 0; round < 2; round++) await world.consume(await world.post(10));
    world.script(shop, first, { status: answer, afterMs: 3_000 });
    const messages = await world.post(2);
    world.gateCalls.splice(0);
    const log = world.log.length;
    const results = await world.consume(messages);
    return {
      shop,
      messages,
      results,
      logged: (what: string) => world.log.slice(log).filter((line) => line.what === what),
    };
  }
  const row = (shop: string, index: number) => {
    const found = world.rows(shop).find(({ eventId }) => eventId === eventAt(3, index));
    return found && [found.state, found.reason, found.attempts];
  };

  test("is in flight, its message is acknowledged, and its end is recorded and settled in the background", async () => {
    const { shop, results, logged } = await late(204);
    expect(results).toEqual(["acked"]);
    expect([row(shop, 0), row(shop, 1)]).toEqual([
      ["delivered", null, 1],
      ["retrying", "in_flight", 0],
    ]);
    expect(world.asked("settle", shop)).toEqual([]);
    expect(logged("lease")).toMatchObject([{ granted: 2, delivered: 1, running: 1, left: 0 }]);
    await world.run(5_000);
    expect(row(shop, 1)).toEqual(["delivered", null, 1]);
    expect(world.asked("settle", shop)).toMatchObject([{ continues: false, left: 0, signals: [{}, {}] }]);
    expect(world.sent()).toEqual([]);
  });

  test("gets a separate message for its retry, because that of the batch is gone", async () => {
    const { shop, logged } = await late(500);
    await world.run(5_000);
    expect(row(shop, 1)).toEqual(["retrying", "http_500", 1]);
    const lease = world.asked("settle", shop)[0]?.lease;
    expect(world.sent()).toMatchObject([
      { body: { bundles: [{ bundle: 3, indexes: [1, 1] }], owner: lease }, delaySeconds: 30 },
    ]);
    expect(logged("attempt")).toHaveLength(1);
  });

  test("does not delay the report that its destination is gone", async () => {
    const { shop, logged } = await late(204, 410);
    await world.run(100);
    expect(logged("destination_paused")).toMatchObject([{ destination: shop, reason: "gone" }]);
    await world.run(5_000);
    expect(logged("destination_paused")).toHaveLength(1);
  });

  test("is left to the sweep if its end cannot be recorded", async () => {
    const { shop, logged } = await late(500);
    refuseWrites(shop);
    await world.run(10_000);
    expect(row(shop, 1)).toEqual(["retrying", "in_flight", 0]);
    expect(logged("late_outcomes_lost")).toMatchObject([
      { error: expect.stringContaining("as the test wants it") },
    ]);
    expect(world.asked("settle", shop)).toEqual([]);
    expect(world.sent()).toEqual([]);
  });
});

describe("a delivery that ends as dead without an attempt", () => {
  test("is logged and counted at its gate, beside one that is delivered", async () => {
    const [shop, forbidden] = [world.destination(), world.destination()];
    await world.post(1);
    world.sql(
      "UPDATE destinations SET retry = '{\"expire_unattempted_after\": 60}' WHERE id = ?1",
      forbidden,
    );
    await world.run(61_000);
    expect(await world.consume([naming(part(shop), part(forbidden))])).toEqual(["acked"]);
    expect([stateOf(shop), stateOf(forbidden)]).toEqual(["delivered null", "dead expired"]);
    expect(world.logged("delivery_dead")).toMatchObject([{ destination: forbidden, reason: "expired" }]);
    await world.run(100);
    expect(world.asked("countDead")).toHaveLength(1);
  });
});

test("a delivery that ends without an attempt is counted once beside one of its destination that is attempted", async () => {
  const shop = world.destination();
  await world.post(2);
  world.sql(
    `INSERT INTO deliveries (destination_id, event_id, state, reason, next_attempt_at, give_up_at)
     VALUES (?1, 128, 'retrying', 'http_500', 0, 0)`,
    shop,
  );
  expect(await world.consume([naming(part(shop))])).toEqual(["acked"]);
  expect([stateOf(shop), stateOf(shop, 1)]).toEqual(["dead expired", "delivered null"]);
  await world.run(100);
  expect([world.logged("delivery_dead").length, world.asked("countDead").length]).toEqual([1, 1]);
});

describe("what a batch learns of its destinations", () => {
  /** The types of the events for the operator. */
  const published = () =>
    world
      .sql<{ type: string }>("SELECT type FROM events WHERE tenant = 'operator' ORDER BY id")
      .map(({ type }) => type);

  test("is published: some of them are gone, and wait for an operator", async () => {
    world.destination({ tenant: "operator" });
    const gone = [world.destination(), world.destination()];
    const fine = world.destination();
    for (const shop of gone) world.script(shop, { status: 410, afterMs: 30 });
    const messages = await world.post(2);
    world.calls();
    expect(await world.consume(messages)).toEqual(["acked"]);
    await world.run(1_000);
    // To load, to record twice, and four to publish both; published separately, they would take four more.
    expect(world.calls().d1).toBe(7);
    expect(world.logged("destination_paused").map(({ destination }) => destination)).toEqual(gone);
    for (const shop of gone)
      expect([stateOf(shop, 0), stateOf(shop, 1)]).toEqual(["dead gone", "waiting paused"]);
    expect(stateOf(fine)).toBe("delivered null");
    expect(published()).toEqual(["destination.paused", "destination.paused"]);
  });

  test("is published when the leases are settled: a circuit has opened", async () => {
    world.destination({ tenant: "operator" });
    const shop = world.destination();
    world.script(shop, 500);
    await world.consume(await world.post(10));
    await world.run(1_000);
    expect(published()).toEqual(["destination.circuit_opened"]);
  });

  test("is nothing in the ordinary case, and costs no further call of D1", async () => {
    world.destination();
    const messages = await world.post(1);
    world.calls();
    await world.consume(messages);
    await world.run(1_000);
    expect(world.calls()).toMatchObject({ d1: 2 });
  });
});

test("the exchanges of a batch are archived once its messages are done with", async () => {
  const kept: string[] = [];
  const bodies = { put: async (name: string) => void kept.push(name) } as unknown as R2Bucket;
  world.destination();
  const messages = await world.post(1);
  const instead = ({ config }: Services) => ({ bodies, config: { ...config, bodiesOf: "all" as const } });
  await world.consume(messages, { instead });
  await world.run(1_000);
  expect(kept).toHaveLength(1);
});
