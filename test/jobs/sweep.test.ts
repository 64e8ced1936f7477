/** Lost deliveries are recovered, once and not too early; drains are scheduled for waiting ones; whatever fails in between. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { type DeliveryKey, eventAt } from "../../src/core/bundle.ts";
import { sweep } from "../../src/jobs/sweep.ts";
import { runCron } from "../../src/upkeep.ts";
import { accept } from "../support/accept.ts";
import { bundlesOf, type EventRow, insertBundles, repeatedBundle } from "../support/bundle-rows.ts";
import { silence } from "../support/receivers.ts";
import {
  alarmOf,
  calm,
  execute,
  forgetOutcomes,
  GRACE_MS,
  gateOf,
  newDestination,
  newWorld,
  rowOf,
  START,
  storedRows,
  TENANT,
  urlOf,
  type World,
} from "../support/world.ts";

let world: World;
let destination: string;
beforeEach(async () => {
  world = await newWorld();
  destination = await newDestination();
});

/** Accepts so many events whose messages the queue loses. */
async function lose(count = 1): Promise<DeliveryKey[]> {
  const posted = Array.from({ length: count }, () => ({ tenant: TENANT, type: "order.paid", data: 1 }));
  const accepted = await accept(world.services, posted);
  await world.settled();
  world.deliveryQueue.taken();
  const events = accepted.kind === "accepted" ? accepted.events : [];
  return events.flatMap(({ id, plan }) => plan.map((place) => ({ eventId: id, destinationId: place })));
}

/** The given number of past bundles, of one event each. */
function past(count: number, event: (i: number) => EventRow = () => ({})): Promise<number[]> {
  return insertBundles(
    env.DB,
    bundlesOf(
      Array.from({ length: count }, (_, i) => event(i + 1)),
      {},
      1,
    ),
  );
}

/** The given number of past bundles without destinations. */
async function fill(count: number): Promise<void> {
  const { sql, values } = repeatedBundle([{}], { first: 1, count, acceptedAt: 0 });
  await execute(sql, ...values);
}

/** The first event of the first bundle. */
const FIRST = eventAt(1, 0);

function swept(): Promise<{ watermark: number; heartbeat_at: number } | null> {
  return env.DB.prepare("SELECT watermark, heartbeat_at FROM sweeps").first();
}

/** Brings what has been put on the drains' queue. */
async function answerSent(): Promise<void> {
  await world.answer(world.drainQueue.taken().map(({ body }) => body));
}

async function statesNow(): Promise<string[]> {
  return (await storedRows()).map(({ state, reason }) => (reason ? `${state}/${reason}` : state));
}

/** A row as it would be after a failure. */
function insertRow(event: number, columns: Readonly<Record<string, string | number | null>>): Promise<void> {
  const row = { destination_id: destination, event_id: event, give_up_at: START + 1_000_000, ...columns };
  const marks = Object.keys(row).map((_, i) => `?${i + 1}`);
  return execute(`INSERT INTO deliveries (${Object.keys(row)}) VALUES (${marks})`, ...Object.values(row));
}

describe("an accepted event without an outcome", () => {
  test("counts as lost when the grace period is over, and not before", async () => {
    await lose();
    world.clock.pass(GRACE_MS - 1);
    await sweep.run(world.services);
    expect(await storedRows()).toEqual([]);
    world.clock.pass(1);
    await sweep.run(world.services);
    const recovered = {
      state: "waiting",
      reason: "recovered",
      attempts: 0,
      giveUpAt: START + 14 * 86_400_000,
    };
    expect(await storedRows()).toMatchObject([recovered]);
  });

  test("has a drain scheduled, and is delivered by it", async () => {
    const messages = await lose(5);
    world.clock.pass(GRACE_MS);
    await sweep.run(world.services);
    expect(await alarmOf(destination)).not.toBeNull();
    world.clock.pass(1_000);
    await world.drain(destination);
    for (const message of messages)
      expect(await rowOf(message)).toMatchObject({ state: "delivered", attempts: 1 });
  });

  test("is recovered only for the destinations without an outcome", async () => {
    const [other, third] = [await newDestination(), await newDestination()];
    const messages = await lose();
    await world.consume(messages.filter((message) => message.destinationId === destination));
    await execute("UPDATE destinations SET status = 'paused' WHERE id = ?1", other);
    await world.consume(messages.filter((message) => message.destinationId === other));
    world.clock.pass(GRACE_MS);
    await sweep.run(world.services);
    expect(await rowOf({ eventId: FIRST, destinationId: destination })).toMatchObject({ state: "delivered" });
    expect(await rowOf({ eventId: FIRST, destinationId: other })).toMatchObject({ reason: "paused" });
    expect(await rowOf({ eventId: FIRST, destinationId: third })).toMatchObject({ reason: "recovered" });
  });

  test("is attempted once when its message was only late", async () => {
    const messages = await lose();
    world.clock.pass(GRACE_MS);
    await sweep.run(world.services);
    expect(await world.consume(messages)).toEqual(["acked"]);
    world.clock.pass(1_000);
    await world.drain(destination);
    await world.consume(messages);
    expect(world.receiver.calls).toHaveLength(1);
  });

  test("without any destination is skipped", async () => {
    await execute("DELETE FROM destinations");
    await lose(3);
    world.clock.pass(GRACE_MS);
    await sweep.run(world.services);
    expect(await storedRows()).toEqual([]);
    expect(await swept()).toMatchObject({ watermark: 1 });
  });

  test("for a deleted destination is recovered, and cancelled by the drain", async () => {
    await lose();
    await execute("UPDATE destinations SET deleted_at = 1");
    world.clock.pass(GRACE_MS);
    await sweep.run(world.services);
    await answerSent();
    expect(await statesNow()).toEqual(["cancelled/destination_deleted"]);
  });
});

describe("a bundle", () => {
  const lostOf = async () =>
    (await storedRows()).filter(({ reason }) => reason === "recovered").map(({ eventId }) => eventId);

  test("with outcomes for some events has the others recovered, and each delivered once", async () => {
    const messages = await lose(20);
    const [delivered, rest] = [messages.filter((_, i) => i % 3 === 0), messages.filter((_, i) => i % 3 > 0)];
    await world.consume(delivered);
    world.clock.pass(GRACE_MS);
    await sweep.run(world.services);
    expect(await lostOf()).toEqual(rest.map(({ eventId }) => eventId));
    for (let i = 0; i < 10; i++) {
      world.clock.pass(1_000);
      await world.drain(destination);
    }
    await world.consume(messages);
    expect(await statesNow()).toEqual(Array(20).fill("delivered"));
    expect(world.receiver.calls).toHaveLength(20);
  });

  test("that is scheduled and partly lost is recovered after its time, and not before", async () => {
    const deliverAt = START + 3_600_000;
    const events = await insertBundles(env.DB, [
      { acceptedAt: START, deliverAt, events: Array(5).fill({ destinations: [destination] }) },
    ]);
    await insertRow(events[2] ?? 0, { state: "cancelled", ended_at: START });
    world.clock.pass(GRACE_MS);
    await sweep.run(world.services);
    expect(await swept()).toMatchObject({ watermark: 1 });
    world.clock.pass(3_600_000 - 1);
    await sweep.run(world.services);
    expect(await lostOf()).toEqual([]);
    world.clock.pass(1);
    await sweep.run(world.services);
    expect(await lostOf()).toEqual(events.filter((_, i) => i !== 2));
    await forgetOutcomes();
    await sweep.run(world.services);
    expect(await lostOf()).toEqual([]);
  });

  test("for a thousand destinations is recovered within the queries of its part, and so are the following ones", async () => {
    const ids = Array.from({ length: 1_000 }, (_, i) => `dst_${String(i).padStart(20, "0")}`);
    await execute(
      `INSERT INTO destinations (id, tenant, url, secret, status, created_at, updated_at)
       SELECT value, 'acme', 'https://a.example/', '', 'paused', 0, 0 FROM json_each(?1)`,
      JSON.stringify(ids),
    );
    const acceptedAt = START;
    const wide = { acceptedAt, events: [{ destinations: ids }, { destinations: ids.slice(0, 500) }, {}] };
    await insertBundles(env.DB, [
      wide,
      wide,
      wide,
      wide,
      { acceptedAt, events: [{ destinations: [destination] }] },
    ]);
    await execute(
      "INSERT INTO deliveries (destination_id, event_id, state, give_up_at) SELECT value, ?2, 'delivered', 0 FROM json_each(?1)",
      JSON.stringify(ids.slice(0, 250)),
      FIRST + 1,
    );
    world.clock.pass(GRACE_MS);
    world.d1.used();
    await sweep.run(world.services);
    expect(world.d1.used().queries).toBeLessThanOrEqual(70);
    expect(await swept()).toMatchObject({ watermark: 5 });
    expect(await lostOf()).toHaveLength(4 * 1_500 - 250 + 1);
  });
});

describe("the watermark", () => {
  test("makes the sweep read each bundle once", async () => {
    await lose(3);
    world.clock.pass(GRACE_MS);
    await sweep.run(world.services);
    expect(await swept()).toMatchObject({ watermark: 1 });
    await forgetOutcomes();
    await sweep.run(world.services);
    expect(await storedRows()).toEqual([]);
  });

  test("stops before the first bundle that is too young", async () => {
    await lose(2);
    world.clock.pass(10_000);
    await lose(2);
    world.clock.pass(GRACE_MS - 10_000);
    await sweep.run(world.services);
    expect(await swept()).toMatchObject({ watermark: 1 });
    world.clock.pass(10_000);
    await sweep.run(world.services);
    expect(await swept()).toMatchObject({ watermark: 2 });
    expect(await storedRows()).toHaveLength(4);
  });

  test("passes more than one page in one sweep, which recovers everything that was lost", async () => {
    await past(2_500, (i) => (i % 100 === 0 ? { destinations: [destination] } : {}));
    await sweep.run(world.services);
    expect(await swept()).toMatchObject({ watermark: 2_500 });
    expect(await storedRows()).toHaveLength(25);
  });

  test("costs a sweep that finds nothing new a few rows, however much is stored", async () => {
    await fill(3_000);
    await sweep.run(world.services);
    world.d1.used();
    await sweep.run(world.services);
    const used = world.d1.used();
    console.log(`cost of a sweep that finds nothing: ${JSON.stringify(used)}`);
    expect(used.rowsRead).toBeLessThanOrEqual(30);
    expect(used.rowsWritten).toBeLessThanOrEqual(2);
  });
});

describe("a queue", () => {
  const oldest = (at: number | undefined | "unavailable") => world.deliveryQueue.oldest(at);

  test("that is behind may still contain events accepted after its oldest message", async () => {
    await lose();
    oldest(START - 1);
    world.clock.pass(GRACE_MS + 60_000);
    await sweep.run(world.services);
    expect(await storedRows()).toEqual([]);
  });

  test("whose oldest message is younger than an event does not contain that event", async () => {
    await lose();
    oldest(START + 1);
    world.clock.pass(GRACE_MS);
    await sweep.run(world.services);
    expect(await statesNow()).toEqual(["waiting/recovered"]);
  });

  test("is trusted for a limited time, because its oldest message may be a delayed retry", async () => {
    await lose();
    oldest(START - 1);
    world.clock.pass(GRACE_MS + 15 * 60_000);
    await sweep.run(world.services);
    expect(await statesNow()).toEqual(["waiting/recovered"]);
  });

  test("without metrics does not stop a sweep", async () => {
    await lose();
    oldest("unavailable");
    world.clock.pass(GRACE_MS);
    await sweep.run(world.services);
    expect(await statesNow()).toEqual(["waiting/recovered"]);
    expect(world.logged("queue_metrics_unavailable")).toHaveLength(1);
  });
});

describe("a retry that no message has delivered", () => {
  test("waits when it is overdue by more than the grace period, and its attempts stay", async () => {
    const messages = await lose();
    world.receiver.script(urlOf(destination), 500);
    await world.consume(messages);
    world.clock.pass(22_500 + GRACE_MS - 1);
    await sweep.run(world.services);
    expect(await statesNow()).toEqual(["retrying/http_500"]);
    world.clock.pass(1);
    await sweep.run(world.services);
    expect(await storedRows()).toMatchObject([{ state: "waiting", reason: "recovered", attempts: 1 }]);

    world.receiver.script(urlOf(destination), 204);
    world.clock.pass(1_000);
    await world.drain(destination);
    expect(await storedRows()).toMatchObject([{ state: "delivered", attempts: 2 }]);
  });

  test("whose worker died during the attempt waits too, and that attempt is not counted", async () => {
    const { script, end } = silence();
    world.receiver.script(urlOf(destination), script);
    const delivering = world.consume(await lose());
    await world.receiver.called(1);
    await calm();
    world.clock.pass(1_000);
    await delivering;
    expect(await statesNow()).toEqual(["retrying/in_flight"]);

    const recoverAt = (await storedRows())[0]?.nextAttemptAt ?? 0;
    world.clock.pass(recoverAt + GRACE_MS - world.clock.now());
    await sweep.run(world.services);
    expect(await storedRows()).toMatchObject([{ state: "waiting", reason: "recovered", attempts: 0 }]);
    world.receiver.script(urlOf(destination), 204);
    world.clock.pass(1_000);
    await world.drain(destination);
    expect(await storedRows()).toMatchObject([{ state: "delivered", attempts: 1 }]);
    // Otherwise its end might be recorded in the database of a later test.
    end(204);
    await world.settled();
  });
});

describe("a waiting delivery", () => {
  test("of which its gate knows nothing has a drain scheduled", async () => {
    const [message] = await lose();
    await insertRow(FIRST, { state: "waiting", reason: "slow" });
    expect(await alarmOf(destination)).toBeNull();
    await sweep.run(world.services);
    expect(await alarmOf(destination)).not.toBeNull();
    await world.drain(destination);
    if (message) expect(await rowOf(message)).toMatchObject({ state: "delivered" });
  });

  test("has a drain scheduled although its gate has lost its memory", async () => {
    await lose();
    await insertRow(FIRST, { state: "waiting", reason: "slow" });
    await runInDurableObject(gateOf(destination), (_, { storage }) => storage.kv.put("gate", "garbage"));
    await sweep.run(world.services);
    await world.drain(destination);
    expect(await statesNow()).toEqual(["delivered"]);
  });

  test("for a paused destination has no drain scheduled, and expires at its age limit", async () => {
    await lose();
    await execute("UPDATE destinations SET status = 'paused'");
    await insertRow(FIRST, { state: "waiting", reason: "paused", give_up_at: START + 60_000 });
    world.clock.pass(59_999);
    await sweep.run(world.services);
    expect(await alarmOf(destination)).toBeNull();
    expect(world.gates.called()).toEqual([]);
    expect(await statesNow()).toEqual(["waiting/paused"]);
    world.clock.pass(1);
    await sweep.run(world.services);
    expect(await storedRows()).toMatchObject([
      { state: "dead", reason: "expired", attempts: 0, endedAt: START + 60_000, nextAttemptAt: null },
    ]);
  });

  test("for a paused and deleted destination has a drain sent, to be cancelled", async () => {
    await lose();
    await execute("UPDATE destinations SET status = 'paused', deleted_at = 1");
    await insertRow(FIRST, { state: "waiting", reason: "paused" });
    await sweep.run(world.services);
    await answerSent();
    expect(await statesNow()).toEqual(["cancelled/destination_deleted"]);
  });

  test.each([
    ["holds", (id: string) => gateOf(id).hold(START + 3_600_000)],
    ["does not answer", () => world.gates.before(() => new Promise(() => {}))],
  ])("for a deleted destination whose gate %s is cancelled by the next sweep", async (_, trouble) => {
    await lose();
    await insertRow(FIRST, { state: "waiting", reason: "held" });
    await trouble(destination);
    await execute("UPDATE destinations SET deleted_at = 1");
    await sweep.run(world.services);
    const answered = answerSent();
    await calm();
    expect(await statesNow()).toEqual(["cancelled/destination_deleted"]);
    world.clock.pass(20_000);
    await answered;
  });

  test("expires in the sweep after its age limit, even if others before it wait longer", async () => {
    await execute(
      `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000)
       INSERT INTO deliveries (destination_id, event_id, state, reason, give_up_at)
       SELECT ?1, i, 'waiting', 'rate', ?2 FROM n`,
      destination,
      START + 9_000_000,
    );
    for (const event of [600, 2_500, 5_000])
      await execute("UPDATE deliveries SET give_up_at = ?1 WHERE event_id = ?2", START + 60_000, event);
    world.clock.pass(60_000);
    await sweep.run(world.services);
    const dead = (await storedRows()).filter(({ state }) => state === "dead");
    expect(dead.map(({ eventId, reason }) => [eventId, reason])).toEqual([
      [600, "expired"],
      [2_500, "expired"],
      [5_000, "expired"],
    ]);
    expect(world.logged("deliveries_dead")).toMatchObject([{ destination, deliveries: 3 }]);
  });

  test("in a pack expires in the sweep too, with a separate row, and its neighbours continue to wait", async () => {
    const busy = () => new Response(null, { status: 503, headers: { "retry-after": "3600" } });
    world.receiver.script(urlOf(destination), busy);
    const [first, ...messages] = await world.post(150);
    if (!first) throw new Error("They were posted");
    await world.consume([first, ...messages]);
    await execute("UPDATE packs SET give_up_at = ?1 WHERE bundle_id = 2", START + 60_000);
    expect(await env.DB.prepare("SELECT count(*) AS n FROM packs").first("n")).toBe(2);
    world.clock.pass(60_000);
    await sweep.run(world.services);
    const states = Map.groupBy(await storedRows(), ({ state, reason }) => `${state}/${reason}`);
    expect([...states].map(([state, { length }]) => [state, length])).toEqual([
      ["retrying/http_503", 1],
      ["waiting/hold", 99],
      ["dead/expired", 50],
    ]);
    expect(world.logged("deliveries_dead")).toMatchObject([{ destination, deliveries: 50 }]);
  });

  test("in a pack does not delay those in rows, however many there are", async () => {
    await execute(
      `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000)
       INSERT INTO packs (destination_id, bundle_id, waiting0, give_up_at) SELECT ?1, i, 1, ?2 FROM n`,
      destination,
      START + 9_000_000,
    );
    await insertRow(FIRST, { state: "waiting", reason: "held", give_up_at: START });
    await sweep.run(world.services);
    expect((await storedRows()).filter(({ state }) => state === "dead")).toHaveLength(1);
  });

  test("is checked for its age limit by several sweeps if one cannot check all", async () => {
    const all = 100_000;
    await execute(
      `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${all})
       INSERT INTO deliveries (destination_id, event_id, state, reason, give_up_at)
       SELECT ?1, i, 'waiting', 'rate', iif(i IN (1, 90000, 99999), ?2, ?3) FROM n`,
      destination,
      START + 60_000,
      START + 9_000_000,
    );
    world.d1.used();
    await sweep.run(world.services);
    expect(world.d1.used().rowsRead).toBeLessThanOrEqual(25_000);
    world.clock.pass(60_000);
    for (let ticks = 0; ticks < 5; ticks++) {
      await sweep.run(world.services);
      world.clock.pass(60_000);
    }
    const left = "SELECT count(*) AS n FROM deliveries WHERE state = 'waiting'";
    expect(await env.DB.prepare(left).first("n")).toBe(all - 3);
  });

  test("at an unreachable gate does not stop the sweep of others", async () => {
    const other = await newDestination();
    await lose();
    world.clock.pass(GRACE_MS);
    world.gates.before((_, name) => {
      if (name === destination) throw new Error("Durable Object is overloaded");
    });
    await sweep.run(world.services);
    expect(await alarmOf(other)).not.toBeNull();
    expect(await alarmOf(destination)).toBeNull();
  });
});

describe("a sweep", () => {
  test("leaves its heartbeat", async () => {
    await sweep.run(world.services);
    expect(await swept()).toEqual({ watermark: 0, heartbeat_at: START });
    world.clock.pass(60_000);
    await sweep.run(world.services);
    expect(await swept()).toEqual({ watermark: 0, heartbeat_at: START + 60_000 });
    expect(world.logged("sweep")).toHaveLength(2);
  });

  test.each([
    ["retries", "state = 'retrying'"],
    ["what waits", "WITH RECURSIVE found"],
  ])("that fails at reading %s leaves none", async (_, part) => {
    await sweep.run(world.services);
    world.clock.pass(60_000);
    world.d1.failing((sql) => (sql.includes(part) ? "before" : undefined));
    await expect(sweep.run(world.services)).rejects.toThrow("D1");
    expect(await swept()).toMatchObject({ heartbeat_at: START });
  });

  test.each([
    ["retries", "state = 'retrying'", "overdue", ["lost", "drains_scheduled"]],
    ["what waits", "WITH RECURSIVE found", "waiting", ["lost", "overdue"]],
    ["what was lost", "AS acceptedAt, planned", "lost", ["overdue", "drains_scheduled"]],
    ["what is over its age limit", "give_up_at AS giveUpAt", "expired", ["lost", "drains_scheduled"]],
  ])("that cannot read %s does everything else, and says so", async (_, part, name, others) => {
    await sweep.run(world.services);
    world.clock.pass(60_000);
    const isLookForWork = (sql: string) => sql.includes("AS overdue,");
    world.d1.failing((sql) => (sql.includes(part) || isLookForWork(sql) ? "before" : undefined));
    for (const failures of [1, 2]) {
      await expect(sweep.run(world.services)).rejects.toThrow("D1");
      expect(world.logged("sweep_part_failed").at(-1)).toMatchObject({ part: name, failures });
    }
    const done = world.logged("sweep").at(-1) ?? {};
    for (const other of others) expect(done).toHaveProperty(other);
    world.d1.failing(() => undefined);
    await sweep.run(world.services);
    expect(await swept()).toMatchObject({ heartbeat_at: START + 60_000 });
  });

  test("with a part that has failed for longer than five minutes is logged as stalled", async () => {
    world.d1.failing((sql) => (sql.includes("state = 'retrying'") ? "before" : undefined));
    for (let minute = 0; minute <= 6; minute++) {
      await runCron(world.services).catch(() => {});
      world.clock.pass(60_000);
    }
    expect(world.logged("sweep_stalled")).toMatchObject([{ heartbeat_at: START, age_ms: 360_000 }]);
  });

  test("runs alone: another one begins after its end, or when it has been dead for most of a minute", async () => {
    await lose(3);
    world.clock.pass(GRACE_MS);
    world.d1.failing((sql) => (sql.includes("leased_until <= ") ? "after" : undefined));
    await expect(sweep.run(world.services)).rejects.toThrow("D1");
    world.d1.failing(() => undefined);
    await sweep.run(world.services);
    expect(world.logged("sweep_already_running")).toHaveLength(1);
    expect(await storedRows()).toEqual([]);
    world.clock.pass(50_000);
    await sweep.run(world.services);
    expect(await storedRows()).toHaveLength(3);
    await sweep.run(world.services);
    expect(world.logged("sweep")).toHaveLength(2);
  });

  test("that has more to do than it may continues in pages, each once, until the next is due", async () => {
    await fill(90_000);
    const watermark = async () => (await swept())?.watermark ?? 0;
    await sweep.run(world.services);
    const first = await watermark();
    expect(first).toBeLessThan(90_000);
    const [page] = world.upkeepQueue.taken().map(({ body }) => body);
    expect(page).toMatchObject({ sweep: expect.any(String), page: 1 });
    await world.keepUp([page]);
    const second = await watermark();
    expect(second).toBeGreaterThan(first);
    await world.keepUp([page]);
    expect(await watermark()).toBe(second);
    await sweep.run(world.services);
    expect(world.logged("sweep_already_running")).toHaveLength(1);
    world.clock.pass(60_000);
    await sweep.run(world.services);
    expect(await watermark()).toBe(90_000);
    await world.keepUp(world.upkeepQueue.taken().map(({ body }) => body));
    expect(world.upkeepQueue.taken()).toEqual([]);
  });

  test("whose page cannot be enqueued lets the next one begin", async () => {
    await fill(60_000);
    world.upkeepQueue.break(true);
    await sweep.run(world.services);
    await sweep.run(world.services);
    expect(await swept()).toMatchObject({ watermark: 60_000 });
  });

  test("that runs twice at once takes effect once", async () => {
    await lose(3);
    world.clock.pass(GRACE_MS);
    await Promise.all([sweep.run(world.services), sweep.run(world.services)]);
    await sweep.run(world.services);
    expect(await statesNow()).toEqual(Array(3).fill("waiting/recovered"));
    world.clock.pass(1_000);
    await world.drain(destination);
    await sweep.run(world.services);
    expect(await statesNow()).toEqual(Array(3).fill("delivered"));
    expect(world.receiver.calls).toHaveLength(3);
  });

  test.each([
    ["the bits are set", "INSERT INTO packs", "before"],
    ["it knows that the bits are set", "INSERT INTO packs", "after"],
    ["the watermark has moved", "max(watermark", "before"],
    ["it knows that the watermark has moved", "max(watermark", "after"],
  ] as const)("that dies before %s loses nothing", async (_, part, fault) => {
    await lose(3);
    world.clock.pass(GRACE_MS);
    world.d1.failing((sql) => (sql.includes(part) ? fault : undefined));
    await expect(sweep.run(world.services)).rejects.toThrow("D1");
    world.d1.failing(() => undefined);
    await sweep.run(world.services);
    expect(await swept()).toMatchObject({ watermark: 1 });
    expect(await statesNow()).toEqual(Array(3).fill("waiting/recovered"));
  });
});
