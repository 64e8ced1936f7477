/** An operator's own queue of events: each message is accepted once, and a bad one goes to its dead-letter queue. */
import { env } from "cloudflare:workers";
import fc from "fast-check";
import { beforeEach, describe, expect, test } from "vitest";
import { consumeEvents } from "../../src/bindings/events-queue.ts";
import { RoutingCache } from "../../src/ingest/routing-cache.ts";
import type { Services } from "../../src/services.ts";
import { strictServices } from "../../tools/strict/bindings.ts";
import { Invocation } from "../../tools/strict/invocation.ts";
import { accept } from "../support/accept.ts";
import { batchOf } from "../support/queues.ts";
import { newDestination, newWorld, START, storedRows, TENANT, urlOf, type World } from "../support/world.ts";

const QUEUE = "shop-events";
const MINUTE = 60_000;
/** Between an uncertain commit and its repeat, while chance is 0.5. */
const PAUSE_MS = 75;

let world: World;
beforeEach(async () => {
  world = await newWorld();
});

type Given = Readonly<{ id: string; body: unknown; attempts?: number; sentAt?: number }>;

/** Hands messages to the consumer in one batch. */
async function consume(given: readonly Given[], services: Services = world.services) {
  const { batch, results } = batchOf(
    QUEUE,
    given.map(({ body }) => body),
  );
  for (const [i, { id, attempts = 1, sentAt = START }] of given.entries())
    Object.assign(batch.messages[i] ?? {}, { id, attempts, timestamp: new Date(sentAt) });
  await consumeEvents(services, batch);
  return results;
}

const paid = (order: number, also: object = {}) => ({
  ...{ type: "order.paid", tenant: TENANT, data: { order } },
  ...also,
});

const messages = (count: number, from = 0): Given[] =>
  Array.from({ length: count }, (_, i) => ({ id: `m-${from + i}`, body: paid(from + i) }));

const again = (given: readonly Given[], attempts = 2) => given.map((one) => ({ ...one, attempts }));

/** Another isolate: it shares nothing but the database. */
const elsewhere = (): Services => ({ ...world.services, routing: new RoutingCache() });

async function storedTypes(): Promise<string[]> {
  const { results } = await env.DB.prepare("SELECT type FROM events ORDER BY id").all<{ type: string }>();
  return results.map(({ type }) => type);
}

/** The bodies that receivers got of all that was accepted. */
async function delivered(): Promise<unknown[]> {
  await world.settled();
  await world.consume(world.deliveryQueue.taken().map(({ body }) => body));
  return world.receiver.calls.map(({ body }) => JSON.parse(body).data.order);
}

describe("a batch of messages", () => {
  test("is committed in one bundle, acknowledged, and delivered", async () => {
    await newDestination();
    expect(await consume(messages(100))).toEqual(Array(100).fill("acked"));
    const bundles = await env.DB.prepare("SELECT count FROM bundles").all();
    expect(bundles.results).toEqual([{ count: 100 }]);
    expect(await delivered()).toEqual(Array.from({ length: 100 }, (_, i) => i));
    expect((await storedRows()).every(({ state }) => state === "delivered")).toBe(true);
  });

  test("costs the rows and round trips of a posted batch", async () => {
    await newDestination();
    await accept(world.services, [{ tenant: TENANT, type: "nobody.asked", data: {} }]);
    world.d1.used();
    const events = Array.from({ length: 100 }, (_, order) => ({ ...paid(order), tenant: TENANT }));
    await accept(world.services, events);
    const posted = world.d1.used();
    await consume(messages(100));
    const consumed = world.d1.used();
    console.log(`a hundred messages: ${JSON.stringify(consumed)}; posted: ${JSON.stringify(posted)}`);
    expect(consumed).toEqual(posted);
    expect(consumed.rowsWritten).toBe(1);
  });

  test("that is delivered again writes no row", async () => {
    await newDestination();
    await consume(messages(100));
    world.d1.used();
    expect(await consume(again(messages(100)))).toEqual(Array(100).fill("acked"));
    const repeated = world.d1.used();
    console.log(`a hundred messages again: ${JSON.stringify(repeated)}`);
    expect(repeated.rowsWritten).toBe(0);
  });

  test("of a hundred large messages is committed in portions of a mebibyte, within the platform's quotas", async () => {
    const breaches: unknown[] = [];
    const invocation = new Invocation({ now: world.clock.now, onBreach: (breach) => breaches.push(breach) });
    let commits = 0;
    world.d1.failing((sql) => {
      if (sql.includes("INSERT INTO bundles")) commits += 1;
      return undefined;
    });
    const given = messages(100).map((one) => ({ ...one, body: paid(1, { data: "x".repeat(120_000) }) }));
    const results = await consume(given, strictServices(world.services, invocation));
    expect(results).toEqual(Array(100).fill("acked"));
    expect(await storedTypes()).toHaveLength(100);
    expect(commits).toBe(13);
    expect(breaches).toEqual([]);
  });

  test("is routed by each message's tenant, and by filters", async () => {
    const acme = await newDestination({ filter: { order: { gte: 2 } } });
    const other = await newDestination({ tenant: "default" });
    await consume([
      { id: "a", body: paid(1) },
      { id: "b", body: paid(2) },
      { id: "c", body: { type: "order.paid", data: { order: 3 } } },
    ]);
    await delivered();
    expect(world.receiver.calls.map(({ url }) => url).sort()).toEqual([urlOf(acme), urlOf(other)].sort());
  });

  test("may hold an event back until its time", async () => {
    await newDestination();
    const deliver_at = new Date(START + 60 * MINUTE).toISOString();
    expect(await consume([{ id: "a", body: paid(1, { deliver_at }) }])).toEqual(["acked"]);
    expect(await delivered()).toEqual([]);
    const row = await env.DB.prepare("SELECT deliver_at AS at FROM bundles").first<number>("at");
    expect(row).toBe(START + 60 * MINUTE);
  });
});

describe("a message that is delivered again", () => {
  test("among others, in another isolate, is not stored a second time", async () => {
    await newDestination();
    await consume(messages(10));
    world.clock.pass(90 * MINUTE);
    const mixed = [...again(messages(3)), ...messages(3, 10), ...again(messages(2, 5), 7)];
    expect(await consume(mixed, elsewhere())).toEqual(Array(8).fill("acked"));
    expect(await storedTypes()).toHaveLength(13);
    expect(((await delivered()) as number[]).sort((a, b) => a - b)).toEqual([...Array(13).keys()]);
  });

  test("is stored once although the answer of the commit was lost", async () => {
    await newDestination();
    await consume([{ id: "warm-up", body: paid(0) }]);
    world.d1.failing((sql) => (sql.includes("INSERT INTO bundles") ? "after" : undefined));
    const first = consume(messages(3, 1), elsewhere());
    await world.clock.asleep(PAUSE_MS);
    world.clock.pass(PAUSE_MS);
    expect(await first).toEqual(Array(3).fill({ retryIn: 35 }));
    world.d1.failing(() => undefined);
    expect(await consume(again(messages(3, 1)), elsewhere())).toEqual(Array(3).fill("acked"));
    expect(await storedTypes()).toHaveLength(4);
    expect(await delivered()).toEqual([0, 1, 2, 3]);
  });

  test("twice in one batch is stored once", async () => {
    await newDestination();
    const twice = [...messages(2), ...messages(2)];
    expect(await consume(twice)).toEqual(Array(4).fill("acked"));
    expect(await delivered()).toEqual([0, 1]);
  });

  test("is identified by its queue too: another queue's message with the same id is another event", async () => {
    await consume(messages(1));
    const { batch, results } = batchOf("other-events", [paid(0)], 2);
    Object.assign(batch.messages[0] ?? {}, { id: "m-0", timestamp: new Date(START) });
    await consumeEvents(world.services, batch);
    expect(results).toEqual(["acked"]);
    expect(await storedTypes()).toHaveLength(2);
  });
});

/** Sleeps as the world does, but not before a commit is repeated. */
const withoutPause: Services["sleep"] = async (ms, signal) =>
  ms === PAUSE_MS ? undefined : world.clock.sleep(ms, signal);

test("each message is stored once and acknowledged only then, however messages are delivered, batched and failed", async () => {
  const step = fc.record({
    ids: fc.array(fc.nat(5), { minLength: 1, maxLength: 6 }),
    /** The fates of this delivery's commits, in turn: nothing done, or done and the answer lost. */
    faults: fc.array(fc.constantFrom("before", "after", undefined), { maxLength: 3 }),
    isElsewhere: fc.boolean(),
    passMs: fc.constantFrom(0, 1_000, 90 * MINUTE),
  });
  const isKeyed = fc.array(fc.boolean(), { minLength: 6, maxLength: 6 });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 6 }), isKeyed, async (steps, keyed) => {
      world = await newWorld();
      const attempts = new Map<number, number>();
      const next = (id: number): Given => {
        attempts.set(id, (attempts.get(id) ?? 0) + 1);
        const key = keyed[id] && { idempotency_key: `key-${id}` };
        return {
          id: `m-${id}`,
          body: { type: `t${id}`, data: id, ...key },
          attempts: attempts.get(id) ?? 1,
        };
      };
      const handOver = async (ids: readonly number[], isElsewhere: boolean) => {
        const services = { ...(isElsewhere ? elsewhere() : world.services), sleep: withoutPause };
        const results = await consume(ids.map(next), services);
        const acknowledged = ids.filter((_, i) => results[i] === "acked").map((id) => `t${id}`);
        expect(await storedTypes()).toEqual(expect.arrayContaining(acknowledged));
      };
      for (const { ids, faults, isElsewhere, passMs } of steps) {
        const left = [...faults];
        world.d1.failing((sql) => (sql.includes("INSERT INTO bundles") ? left.shift() : undefined));
        await handOver([...new Set(ids)], isElsewhere);
        world.clock.pass(passMs);
      }
      world.d1.failing(() => undefined);
      await handOver([0, 1, 2, 3, 4, 5], true);
      expect((await storedTypes()).sort()).toEqual(["t0", "t1", "t2", "t3", "t4", "t5"]);
    }),
    { numRuns: 40 },
  );
});

describe("messages with an idempotency key", () => {
  const keyed = (id: string, order: number, key = "order-42") => ({
    id,
    body: paid(order, { idempotency_key: key }),
  });

  test("are one event, within a batch, across batches, and with one that came over HTTP", async () => {
    await newDestination();
    const posted = { tenant: TENANT, type: "order.paid", data: { order: 7 } };
    await accept(world.services, [posted], "order-7");
    const batch = [keyed("a", 42), keyed("b", 42), keyed("c", 7, "order-7")];
    expect(await consume(batch)).toEqual(Array(3).fill("acked"));
    expect(await consume([keyed("d", 42)], elsewhere())).toEqual(["acked"]);
    expect((await delivered()).sort()).toEqual([42, 7]);
    expect(world.logged("deduplicated")).toHaveLength(3);
  });

  test("and different content are refused, except for the first", async () => {
    expect(await consume([keyed("a", 1), keyed("b", 2)])).toEqual(["acked", { retryIn: 0 }]);
    expect(world.logged("message_refused")).toEqual([
      {
        what: "message_refused",
        queue: QUEUE,
        message: "b",
        fault: "idempotency_key: expected a new key for new content",
      },
    ]);
  });
});

describe("a message that can never be accepted", () => {
  test.each<[string, unknown, string]>([
    ["a text", '{"type":"a","data":1}', "message: expected"],
    ["bytes", new TextEncoder().encode('{"type":"a"}').buffer, "message: expected a JSON value"],
    ["a list", [paid(1)], "message: expected"],
    ["nothing", null, "message: expected"],
    ["without a type", { data: 1 }, "type: expected letters, digits"],
    ["without data", { type: "a" }, "data: expected any JSON value"],
    ["with a field too many", paid(1, { tennant: "a" }), "tennant: expected one of type, data, tenant"],
    ["with a time too far ahead", paid(1, { deliver_at: "2051-01-01T00:00:00Z" }), "deliver_at: expected"],
    ["with a key that is none", paid(1, { idempotency_key: "" }), "idempotency_key: expected 1 to 255"],
    ["for the operator", paid(1, { tenant: "operator" }), "The queue is bound to another tenant"],
    ["with a Map", paid(1, { data: { by: new Map() } }), "data.by: expected a JSON value"],
    ["that refers to itself", paid(1, { data: circular() }), "The message is nested more than 500 levels"],
  ])("(%s) is retried at once, logged with its fault, and its neighbours are accepted", async (_what, body, fault) => {
    const results = await consume([...messages(1), { id: "bad", body }, ...messages(1, 1)]);
    expect(results).toEqual(["acked", { retryIn: 0 }, "acked"]);
    expect(await storedTypes()).toHaveLength(2);
    expect(world.logged("message_refused")).toEqual([
      { what: "message_refused", queue: QUEUE, message: "bad", fault: expect.stringContaining(fault) },
    ]);
  });

  test("is logged without any of its content", async () => {
    await consume([{ id: "bad", body: { type: "hunter2 is secret", data: "hunter2", tenant: "hunter2!" } }]);
    expect(JSON.stringify(world.log)).not.toContain("hunter2");
    expect(world.logged("message_refused")[0]?.fault).toMatch(/^type: expected .* \(and 1 more\)$/);
  });

  test("is logged at its first attempt and seldom again", async () => {
    for (let attempts = 1; attempts <= 11; attempts++) await consume([{ id: "bad", body: 1, attempts }]);
    expect(world.logged("message_refused")).toHaveLength(4);
  });
});

describe("while the database is away", () => {
  test("messages are retried after growing, jittered pauses, and accepted when it is back", async () => {
    await newDestination();
    world.d1.failing(() => "before");
    const pauses: unknown[] = [];
    for (const attempts of [1, 2, 5, 10, 40]) pauses.push(...(await consume(again(messages(1), attempts))));
    expect(pauses).toEqual([35, 70, 560, 17_920, 86_400].map((retryIn) => ({ retryIn })));
    world.chance(0);
    expect(await consume(messages(1))).toEqual([{ retryIn: 30 }]);
    expect(world.logged("messages_delayed")).toHaveLength(6);
    world.d1.failing(() => undefined);
    expect(await consume(again(messages(1), 41))).toEqual(["acked"]);
    expect(await delivered()).toEqual([0]);
  });

  test("invalid messages are recognized nevertheless", async () => {
    world.d1.failing(() => "before");
    expect(await consume([{ id: "bad", body: 1 }])).toEqual([{ retryIn: 0 }]);
  });
});

function circular(): unknown {
  const value: Record<string, unknown> = {};
  value.self = value;
  return value;
}
