/** Polled destinations: consumers fetch pages and commit them, and nothing is skipped. */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import type { Principal } from "../../../src/core/principal.ts";
import { attemptWaiting } from "../../../src/delivery/message-group.ts";
import {
  commitPoll,
  getConsumers,
  pollDestination,
  pollInLoop,
  readFromPosition,
  seekPoll,
} from "../../../src/features/polling/service.ts";
import { Inbox } from "../../../src/gate/inbox.ts";
import { eventId, eventNumber } from "../../../src/ids.ts";
import { changeDestination } from "../../../src/store/destinations.ts";
import { findEventType, putEventType } from "../../../src/store/event-types.ts";
import { changeEventVersion, insertEventVersion } from "../../../src/store/event-versions.ts";
import { runCron } from "../../../src/upkeep.ts";
import { accept } from "../../support/accept.ts";
import { insertBundles } from "../../support/bundle-rows.ts";
import { rowsOfAll } from "../../support/databases.ts";
import { requeueOne } from "../../support/requeue.ts";
import { execute, gateOf, newDestination, newWorld, rowOf, TENANT, type World } from "../../support/world.ts";

const MINUTE = 60_000;
/** The pause before a commit whose answer was lost is repeated. */
const COMMIT_PAUSE_MS = 75;
const principal: Principal = { scopes: ["poll"], tenant: TENANT };

let world: World;
let id: string;
beforeEach(async () => {
  world = await newWorld();
  id = await newDestination({ url: "poll:inbox" });
});

const fetching = { consumer: "default", limit: 100, visibility_s: 60, wait_s: 0 };

async function poll(input: Partial<typeof fetching> = {}, as = principal) {
  return pollDestination({ services: world.services, principal: as }, { id, ...fetching, ...input });
}

async function page(input: Partial<typeof fetching> = {}) {
  const polled = await poll(input);
  if (polled.kind !== "ok") throw new Error(JSON.stringify(polled));
  const { data, ...rest } = polled.value;
  return {
    ...rest,
    data,
    numbers: data.map(({ body }) => JSON.parse(body ?? '{"data": {}}').data.n as number),
  };
}

async function commit(iterator: string, input: object = {}, as = principal) {
  const consumer = iterator.split(".")[0] ?? "";
  return commitPoll({ services: world.services, principal: as }, { id, consumer, iterator, ...input });
}

/** Posts events with these numbers, each alone. */
async function post(...numbers: readonly number[]): Promise<void> {
  for (const n of numbers) await world.postBundles(1, { data: { n } });
}

/** All pages of a consumer, committed. */
async function drained(input: Partial<typeof fetching> = {}): Promise<number[]> {
  const all: number[] = [];
  for (;;) {
    const { numbers, iterator, done } = await page(input);
    all.push(...numbers);
    expect((await commit(iterator)).kind).toBe("ok");
    if (done && numbers.length === 0) return all;
  }
}

/** Consumes what is on the queue until nothing is. */
async function consumeAll(): Promise<void> {
  for (let taken = world.deliveryQueue.taken(); taken.length > 0; taken = world.deliveryQueue.taken()) {
    await world.consume(taken.map(({ body }) => body));
    await world.settled();
  }
}

describe("an event for a polled destination", () => {
  test("ends with its commit, costs one row beside its bundle and goes to no queue", async () => {
    await post(0);
    world.d1.used();
    const messages = await world.postBundles(3, { data: { n: 1 } });
    expect(messages).toEqual([]);
    expect(world.d1.used()).toMatchObject({ rowsWritten: 2 });
    world.clock.pass(10 * MINUTE);
    await runCron(world.services);
    await world.settled();
    expect(world.deliveryQueue.taken()).toEqual([]);
    expect(world.drainQueue.taken()).toEqual([]);
  });

  test("goes to the queue for the other destinations", async () => {
    const other = await newDestination();
    const messages = await world.postBundles(1, { data: { n: 1 } });
    expect(messages).toMatchObject([{ bundles: [{ destinations: [other] }] }]);
  });

  test("is handed out with the headers and the signature of a delivery", async () => {
    await post(7);
    const [event] = (await page()).data;
    expect(event).toMatchObject({
      id: expect.stringMatching(/^evt_/),
      type: "order.paid",
      attempt: 1,
      headers: { "webhook-id": event?.id, "webhook-signature": expect.stringMatching(/^v1,/) },
    });
  });

  test("is not handed out when its content is erased, its time is over or its bundle is gone", async () => {
    await post(1);
    await world.postBundles(1, { data: { n: 2 }, options: { ttlSeconds: 60 } });
    await post(3, 4);
    world.clock.pass(2 * MINUTE);
    await execute("DELETE FROM packs WHERE bundle_id = 3");
    await execute("DELETE FROM bundles WHERE id = 3");
    expect(await drained()).toEqual([1, 4]);
  });

  test("is not handed out once it is past the retention of its tenant or of the deployment", async () => {
    await post(1);
    const DAY = 24 * 60 * MINUTE;
    world.clock.pass(world.services.config.retentionMs - 7 * DAY);
    await post(2);
    world.clock.pass(7 * DAY);
    expect((await page({ consumer: "early", limit: 10 })).numbers).toEqual([2]);
    const settings =
      "INSERT INTO tenant_settings (tenant, retention_days, created_at, updated_at) VALUES (?1, 7, 0, 0)";
    await execute(settings, TENANT);
    await post(3);
    expect(await drained()).toEqual([3]);
  });

  test("is passed when its stored bytes are damaged, and that is logged", async () => {
    await post(1, 2);
    await execute("UPDATE bundles SET body = x'00' WHERE id = 1");
    expect(await drained()).toEqual([2]);
    expect(world.log).toContainEqual(expect.objectContaining({ what: "polled_event_corrupt" }));
  });
});

describe("an event whose bundle was damaged", () => {
  const PAUSE = 15 * MINUTE;
  let stored: { header: string; plan: string };
  const columns = async () =>
    (await rowsOfAll<typeof stored>("SELECT header, plan FROM bundles WHERE id = 2"))[0] ?? stored;
  const damage = async () => {
    stored = await columns();
    await execute("UPDATE bundles SET header = 'oops' WHERE id = 2");
  };
  const mend = () =>
    execute("UPDATE bundles SET header = ?1, plan = ?2 WHERE id = 2", stored.header, stored.plan);
  const consumerRow = async () => {
    const found = await getConsumers({ services: world.services, principal: { scopes: ["read"] } }, id);
    return found.kind === "ok" ? found.value.data[0] : found;
  };

  test.each([
    "header",
    "plan",
  ])("delays no others, is reported, and comes once it is mended (%s)", async (column) => {
    await post(1, 2, 3);
    stored = await columns();
    await execute(`UPDATE bundles SET ${column} = 'oops' WHERE id = 2`);
    const first = await page();
    expect(first).toMatchObject({ numbers: [1, 3], done: true });
    expect((await commit(first.iterator)).kind).toBe("ok");
    expect(await consumerRow()).toMatchObject({ lag: { events: 1 }, pages: 0, returned: 1 });
    world.clock.pass(PAUSE);
    expect(await drained()).toEqual([]);
    expect(world.logged("bundle_unreadable")).toMatchObject([{ bundle: 2, fault: column }]);
    await mend();
    world.clock.pass(PAUSE - 1);
    expect(await drained()).toEqual([]);
    world.clock.pass(1);
    expect(await drained()).toEqual([2]);
  });

  test("leaves a page that it is alone in, and those behind it are handed out", async () => {
    await post(1, 2, 3);
    await damage();
    expect(await drained({ limit: 1 })).toEqual([1, 3]);
    await post(4);
    expect(await drained({ limit: 1 })).toEqual([4]);
    expect(await consumerRow()).toMatchObject({ pages: 0, returned: 1 });
  });

  test("leaves a page that was handed out before, and does not come twice with it", async () => {
    await post(1, 2, 3);
    expect((await page()).numbers).toEqual([1, 2, 3]);
    await damage();
    world.clock.pass(MINUTE);
    const again = await page();
    expect(again.numbers).toEqual([1, 3]);
    await mend();
    world.clock.pass(MINUTE);
    expect((await page()).numbers).toEqual([1, 3]);
    world.clock.pass(PAUSE);
    expect((await commit(again.iterator)).kind).toBe("ok");
    expect(await drained()).toEqual([2]);
  });

  test("delays no others of a Svix loop, and none of a reader with its own position", async () => {
    await post(1, 2, 3);
    await damage();
    const numbersOf = (deliveries: readonly { event: { body?: Uint8Array | null | undefined } }[]) =>
      deliveries.map(({ event: { body } }) => JSON.parse(new TextDecoder().decode(body ?? undefined)).data.n);
    const caller = { services: world.services, principal };
    const loop = await pollInLoop(caller, { id, consumer: "loop", limit: 100 });
    expect(loop.kind === "ok" && numbersOf(loop.value.deliveries)).toEqual([1, 3]);
    const read = await readFromPosition(caller, { id, limit: 100 });
    expect(read.kind === "ok" && numbersOf(read.value.deliveries)).toEqual([1, 3]);
  });

  test("makes the consumer wait only if ten thousand others have been returned", async () => {
    await post(1, 2, 3);
    await damage();
    await page({ limit: 1 });
    await runInDurableObject(gateOf(id), (_, { storage }) => {
      storage.sql.exec(
        `INSERT INTO returned WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
         SELECT 'default', i, 9e15 FROM n`,
      );
    });
    expect(await poll()).toMatchObject({ kind: "too_many" });
  });
});

test("an event that only later code can read is not passed, and a page with one is not committed", async () => {
  const setVersion = (version: number) =>
    execute("UPDATE bundles SET header = json_set(header, '$.version', ?1) WHERE id = 2", version);
  await post(1, 2, 3);
  await setVersion(99);
  const first = await page();
  expect(first.numbers).toEqual([1]);
  expect((await commit(first.iterator)).kind).toBe("ok");
  expect(await poll()).toMatchObject({ kind: "ok", value: { data: [], done: false } });
  await setVersion(1);
  expect((await page({ limit: 1 })).numbers).toEqual([2]);
  await setVersion(99);
  world.clock.pass(MINUTE);
  expect(await poll()).toMatchObject({ kind: "unavailable" });
  await setVersion(1);
  world.clock.pass(MINUTE);
  expect(await drained()).toEqual([2, 3]);
});

describe("a consumer", () => {
  test("gets events in the order of acceptance, each once, over pages that may divide a bundle", async () => {
    for (const n of [0, 10, 20])
      await accept(
        world.services,
        Array.from({ length: 10 }, (_, i) => ({ tenant: TENANT, type: "order.paid", data: { n: n + i } })),
      );
    expect(await drained({ limit: 7 })).toEqual(Array.from({ length: 30 }, (_, n) => n));
  });

  test("gets a page again when its time is over, and not before", async () => {
    await post(1, 2);
    const first = await page({ limit: 1 });
    expect(first.numbers).toEqual([1]);
    expect((await page({ limit: 1 })).numbers).toEqual([2]);
    expect(await page()).toMatchObject({ numbers: [], done: true });
    world.clock.pass(MINUTE);
    const again = await page();
    expect(again).toMatchObject({ numbers: [1], iterator: first.iterator });
  });

  test("does not pass events held by another process, however much behind them is committed", async () => {
    await post(1, 2, 3);
    await page({ limit: 1 });
    for (const _ of [2, 3]) await commit((await page({ limit: 1 })).iterator);
    const { evictDurableObject } = await import("cloudflare:test");
    await evictDurableObject(gateOf(id));
    world.clock.pass(MINUTE);
    expect(await drained()).toEqual([1]);
  });

  test("has its own position", async () => {
    await post(1, 2);
    expect(await drained({ consumer: "a" })).toEqual([1, 2]);
    expect(await drained({ consumer: "b" })).toEqual([1, 2]);
    await post(3);
    expect(await drained({ consumer: "a" })).toEqual([3]);
  });

  test("alone commits a stale page that another process has got meanwhile", async () => {
    await post(1, 2);
    const stale = await page({ limit: 1 });
    world.clock.pass(MINUTE);
    expect((await page({ limit: 1 })).iterator).toBe(stale.iterator);
    await page({ limit: 1 });
    expect((await commit(stale.iterator)).kind).toBe("ok");
    expect((await commit(stale.iterator)).kind).toBe("ok");
    world.clock.pass(MINUTE);
    expect(await drained()).toEqual([2]);
  });

  test("acknowledges and returns single events of a page", async () => {
    await post(1, 2, 3);
    const { data, iterator } = await page();
    const [first, second] = data.map((event) => eventNumber(event.id) ?? 0);
    await commit(iterator, { acknowledge: [first], return: [{ id: second, retry_after_s: 300 }] });
    expect((await page()).numbers).toEqual([]);
    world.clock.pass(MINUTE);
    expect(await drained()).toEqual([3]);
    world.clock.pass(5 * MINUTE);
    expect(await drained()).toEqual([2]);
  });

  test("cannot acknowledge events outside of the page, nor with the iterator of another", async () => {
    await post(1, 2);
    const { iterator } = await page({ limit: 1 });
    const { data } = await page({ limit: 1 });
    const foreign = eventNumber(data[0]?.id ?? "") ?? 0;
    expect(await commit(iterator, { acknowledge: [foreign] })).toMatchObject({
      kind: "invalid",
      errors: [{ field: "acknowledge", fault: `has ${eventId(foreign)}, which is not in the page` }],
    });
    expect(await commit(iterator, { consumer: "other" })).toMatchObject({ kind: "invalid" });
    for (const bad of ["default.99", "", "default", "default.1.2", "x".repeat(5000)])
      expect(await commit(bad, { consumer: "default" })).toMatchObject({ kind: "invalid" });
  });

  test("begins at a requested place", async () => {
    await post(1);
    world.clock.pass(60 * MINUTE);
    await post(2);
    expect(await drained()).toEqual([1, 2]);
    const seek = (since: number | null) =>
      seekPoll({ services: world.services, principal }, { id, consumer: "default", since });
    await seek(world.clock.now() - MINUTE);
    expect(await drained()).toEqual([2]);
    await seek(null);
    expect(await drained()).toEqual([1, 2]);
  });

  test("gets at most 1 MiB at once, and a larger event alone", async () => {
    for (const n of [1, 2, 3, 4])
      await world.postBundles(1, { data: { n, text: "x".repeat(n === 3 ? 240_000 : 400_000) } });
    const sizes: number[] = [];
    for (;;) {
      const { numbers, iterator, done } = await page();
      if (numbers.length > 0) sizes.push(numbers.length);
      await commit(iterator);
      if (done) break;
    }
    expect(sizes).toEqual([3, 1]);
  });

  test("reads the same number of rows for a page, whatever else is stored", async () => {
    const cost = async () => {
      await page({ limit: 5 });
      return world.d1.used().rowsRead;
    };
    await post(...Array.from({ length: 10 }, (_, n) => n));
    await page({ limit: 5 });
    await newDestination();
    await post(...Array.from({ length: 60 }, (_, n) => n));
    world.d1.used();
    const before = await cost();
    await post(...Array.from({ length: 60 }, (_, n) => n));
    world.d1.used();
    expect(await cost()).toBeLessThanOrEqual(before + 5);
  });
});

test("consumers are listed with how far they are behind", async () => {
  const list = async () => {
    const found = await getConsumers({ services: world.services, principal: { scopes: ["read"] } }, id);
    return found.kind === "ok" ? found.value.data : found;
  };
  await post(1);
  world.clock.pass(30_000);
  await post(2, 3);
  const { iterator } = await page({ limit: 1 });
  expect(await list()).toMatchObject([
    { name: "default", lag: { events: 3, is_more: false, seconds: 30 }, pages: 1, committed_at: null },
  ]);
  await commit(iterator);
  expect(await list()).toMatchObject([{ lag: { events: 2, seconds: 0 }, pages: 0, returned: 0 }]);
  await drained();
  expect(await list()).toMatchObject([{ lag: { events: 0, is_more: false, seconds: 0 } }]);
});

test("a consumer far behind is as old as the event that is next, however many newer ones there are", async () => {
  const now = world.clock.now();
  await insertBundles(
    env.DB,
    Array.from({ length: 1_100 }, (_, i) => ({
      events: [{ destinations: [id] }],
      acceptedAt: i === 0 ? now - 60_000 : now,
    })),
  );
  const packs = "INSERT INTO packs (destination_id, bundle_id, delivered0) SELECT ?1, id, 1 FROM bundles";
  await execute(packs, id);
  await page({ limit: 1 });
  const found = await getConsumers({ services: world.services, principal: { scopes: ["read"] } }, id);
  expect(found).toMatchObject({
    value: { data: [{ lag: { events: 1_000, is_more: true, seconds: 60 } }] },
  });
});

test("a page that is held for hours leaves room for a thousand others, whatever has been committed behind it", async () => {
  const visibleMs = 12 * 60 * MINUTE;
  await runInDurableObject(gateOf(id), async (gate, { storage }) => {
    const nextStart = async () => {
      const next = await gate.nextInInbox({ consumer: "c", limit: 1, visibleMs });
      if (next.kind !== "unread") throw new Error(next.kind);
      return next.start;
    };
    const take = async () => {
      const start = await nextStart();
      const end = { late: 0, next: [(start.next[0] ?? 128) + 1] };
      return (await gate.claimPage({ consumer: "c", start, end, count: 1, visibleMs })) ?? 0;
    };
    const done = (page: number) => gate.commitPage({ consumer: "c", page, returned: [] });
    const held = await take();
    for (let n = 0; n < 1_100; n += 2) {
      const [one, other] = [await take(), await take()];
      await done(n % 4 === 0 ? other : one);
      await done(n % 4 === 0 ? one : other);
    }
    expect([...storage.sql.exec("SELECT id FROM pages")]).toHaveLength(2);
    const {
      next: [upto],
    } = await nextStart();
    expect(upto).toBe(128 + 1_101);
    expect(await done(5)).toMatchObject({ kind: "committed", position: { next: [] } });
    expect(await done(held)).toMatchObject({ kind: "committed", position: { next: [upto] } });
  });
});

describe("a request that waits", () => {
  test("answers when an event is accepted, without a query meanwhile", async () => {
    const answer = page({ wait_s: 30 });
    await world.clock.asleep(30_000);
    world.d1.used();
    world.gates.called();
    world.clock.pass(10_000);
    expect(world.d1.used().queries).toBe(0);
    expect(world.gates.called()).toEqual([]);
    await post(1);
    expect((await answer).numbers).toEqual([1]);
  });

  test("answers when an event is accepted, also if D1's answer to its commit is lost", async () => {
    const answer = page({ wait_s: 30 });
    await world.clock.asleep(30_000);
    let isLost = false;
    world.d1.failing((sql) => {
      if (isLost || !sql.includes("INSERT INTO bundles")) return undefined;
      isLost = true;
      return "after";
    });
    const posted = world.postBundles(1, { data: { n: 1 } });
    await world.clock.asleep(COMMIT_PAUSE_MS);
    world.clock.pass(COMMIT_PAUSE_MS);
    expect(await posted).toEqual([]);
    expect(world.gates.called()).toContain("wakeInbox");
    expect((await answer).numbers).toEqual([1]);
  });

  test("answers when a late event is due, or a returned one", async () => {
    await accept(world.services, [
      { tenant: TENANT, type: "order.paid", data: { n: 1 }, deliverAt: world.clock.now() + MINUTE },
    ]);
    await world.settled();
    world.clock.pass(MINUTE);
    const late = page({ wait_s: 30 });
    await world.clock.asleep(30_000);
    await consumeAll();
    const { numbers, data, iterator } = await late;
    expect(numbers).toEqual([1]);
    await commit(iterator, { return: [{ id: eventNumber(data[0]?.id ?? ""), retry_after_s: 7 }] });
    const returned = page({ wait_s: 30 });
    await world.clock.asleep(7_000);
    world.clock.pass(7_000);
    expect((await returned).numbers).toEqual([1]);
  });

  test("answers without an event at the end of its wait", async () => {
    const answer = page({ wait_s: 30 });
    await world.clock.asleep(30_000);
    world.clock.pass(30_000);
    expect(await answer).toMatchObject({ numbers: [], done: true });
  });

  test("misses no event that comes while it reads", async () => {
    const [{ numbers }] = await Promise.all([page({ wait_s: 30 }), post(1)]);
    expect(numbers).toEqual([1]);
  });
});

describe("an event that is due later", () => {
  test("comes when it is due, also when later ones have been committed", async () => {
    await accept(world.services, [
      { tenant: TENANT, type: "order.paid", data: { n: 1 }, deliverAt: world.clock.now() + MINUTE },
    ]);
    await world.settled();
    const messages = world.deliveryQueue.taken().map(({ body }) => body);
    await post(2);
    expect(await drained()).toEqual([2]);
    world.clock.pass(MINUTE);
    await world.consume(messages);
    await world.settled();
    expect(await drained()).toEqual([1]);
  });

  test("comes again when it is sent again", async () => {
    await post(1);
    const [event] = (await page()).data;
    expect(await drained()).toEqual([]);
    const key = { destinationId: id, eventId: eventNumber(event?.id ?? "") ?? 0 };
    await requeueOne(world.services, key, world.clock.now() + 60 * MINUTE);
    await attemptWaiting(world.services, [key]);
    await consumeAll();
    expect(await rowOf(key)).toMatchObject({ state: "delivered" });
    expect((await page()).data).toMatchObject([{ id: event?.id, attempt: 1 }]);
  });
});

test("a caller with a position of its own gets no event that was due before the requested time, on no page", async () => {
  const dueIn = (minutes: number, n: number) => ({
    tenant: TENANT,
    type: "order.paid",
    data: { n },
    deliverAt: world.clock.now() + minutes * MINUTE,
  });
  await accept(world.services, [dueIn(1, 1)]);
  await world.settled();
  world.clock.pass(MINUTE);
  await consumeAll();
  world.clock.pass(60 * MINUTE);
  const after = world.clock.now();
  const readOn = async (iterator?: string) => {
    const where = iterator === undefined ? { after } : { iterator };
    const read = await readFromPosition({ services: world.services, principal }, { id, limit: 10, ...where });
    if (read.kind !== "ok") throw new Error(JSON.stringify(read));
    const numbers = read.value.deliveries.map(({ event: { body } }) =>
      Number(JSON.parse(new TextDecoder().decode(body ?? undefined)).data.n),
    );
    return { ...read.value, numbers };
  };
  const first = await readOn();
  expect(first.numbers).toEqual([]);
  const second = await readOn(first.iterator);
  expect(second.numbers).toEqual([]);
  await accept(world.services, [dueIn(1, 2)]);
  await world.settled();
  world.clock.pass(MINUTE);
  await consumeAll();
  expect((await readOn(second.iterator)).numbers).toEqual([2]);
  expect((await readOn()).numbers).toEqual([2]);
});

test("who starts at a time gets all late events since then, also where the gate's clock has gone back", async () => {
  const found = await runInDurableObject(gateOf(id), (_, { storage }) => {
    const inbox = new Inbox(storage);
    for (const [event, at] of [
      [1, 1_000],
      [2, 2_000],
      [3, 1_500],
      [4, 2_500],
    ] as const)
      inbox.place(event, at, 0);
    return [0, 1_001, 2_000, 2_001, 2_501].map((since) =>
      inbox.late(inbox.lateBefore(since)).map(({ event }) => event),
    );
  });
  expect(found).toEqual([[1, 2, 3, 4], [2, 3, 4], [2, 3, 4], [4], []]);
});

describe("polling is refused", () => {
  test("to keys that lack the scope, are of another tenant, or name another destination", async () => {
    expect(await poll({}, { scopes: ["read", "admin"], tenant: TENANT })).toMatchObject({
      kind: "forbidden",
    });
    expect(await poll({}, { scopes: ["poll"], tenant: "globex" })).toMatchObject({ kind: "not_found" });
    id = await newDestination();
    expect(await poll()).toMatchObject({ kind: "conflict" });
  });

  test("while the destination is paused, without a loss", async () => {
    await execute("UPDATE destinations SET status = 'paused' WHERE id = ?", id);
    await post(1);
    expect(await poll()).toMatchObject({ kind: "conflict" });
    await execute("UPDATE destinations SET status = 'active' WHERE id = ?", id);
    expect(await drained()).toEqual([1]);
  });

  test("to a consumer with a thousand uncommitted pages", async () => {
    await post(1, 2);
    await page({ limit: 1 });
    const { runInDurableObject } = await import("cloudflare:test");
    await runInDurableObject(gateOf(id), (_, { storage }) => {
      for (let page = 2; page <= 1000; page++)
        storage.sql.exec(
          `INSERT INTO pages SELECT consumer, ?, start, "end", events, done, count, until, 0 FROM pages LIMIT 1`,
          page,
        );
    });
    expect(await poll({ limit: 1 })).toMatchObject({ kind: "too_many", retryAfterS: 1 });
  });
});

describe("an event whose type has versions", () => {
  const TYPE = "order.paid";
  const publish = async (conversion: string) => {
    const plain = { name: TYPE, description: null, schema: null, example: null, retentionDays: null };
    const now = world.services.now();
    await putEventType(env.DB, { ...plain, validates: false, archived: false }, now - 2);
    const seen = await findEventType(env.DB, TYPE);
    if (!seen) throw new Error("There is no type");
    await insertEventVersion(env.DB, seen, { schema: "true", example: null, conversion }, now - 1);
    await execute("UPDATE destinations SET created_at = 0 WHERE id = ?1", id);
  };

  test("is handed out in the version that the destination gets, in the same bytes each time, for one query a page", async () => {
    await publish('{"n": "{{ data.order }}", "was": 2}');
    await world.postBundles(2, { data: { order: 7 } });
    world.d1.used();
    const first = await page();
    const { queries } = world.d1.used();
    expect(first.data.map(({ body }) => JSON.parse(body ?? "").data)).toEqual([
      { n: 7, was: 2 },
      { n: 7, was: 2 },
    ]);
    await changeEventVersion(env.DB, TYPE, 2, { conversion: '{"n": 0}' }, world.services.now());
    world.clock.pass(2 * MINUTE);
    expect((await page()).data.map(({ body }) => body)).toEqual(first.data.map(({ body }) => body));
    const pins = [{ pins: { [TYPE]: 2 }, at: world.services.now(), after: -1 }];
    await changeDestination(env.DB, id, { eventVersions: pins }, TENANT);
    await commit((await page({ consumer: "other" })).iterator);
    await world.postBundles(2, { data: { order: 7 } });
    world.d1.used();
    expect(JSON.parse((await page({ consumer: "other" })).data[0]?.body ?? "").data).toEqual({ order: 7 });
    expect(queries - world.d1.used().queries).toBe(1);
  });

  test("that cannot be converted is handed out with its fault and without a body, delays nothing, and comes again when it is returned", async () => {
    await publish('{"n": {{ data.n }} }');
    await world.postBundles(1, { data: { n: "no number" } });
    await world.postBundles(1, { data: { n: 3 } });
    const { data, iterator } = await page();
    expect(data).toMatchObject([
      { headers: {}, fault: expect.stringMatching(/^conversion of order.paid from version 2 to 1/) },
      { body: expect.stringContaining('"n":3') },
    ]);
    expect(data[0]).not.toHaveProperty("body");
    expect(world.logged("polled_event_unconverted")).toMatchObject([{ destination: id, events: 1 }]);
    const faulty = eventNumber(data[0]?.id ?? "") ?? 0;
    expect((await commit(iterator, { return: [{ id: faulty, retry_after_s: 0 }] })).kind).toBe("ok");
    await changeEventVersion(env.DB, TYPE, 2, { conversion: '{"n": "mended"}' }, world.services.now());
    const again = await page();
    expect(again.data.map(({ body }) => JSON.parse(body ?? "").data)).toEqual([{ n: "mended" }]);
  });

  test("that cannot be converted is left out of the page of a Svix loop, which knows no faults, until it can be", async () => {
    await publish('{"n": {{ data.n }} }');
    await world.postBundles(1, { data: { n: "no number" } });
    await world.postBundles(1, { data: { n: 3 } });
    const looped = async (iterator?: string) => {
      const polled = await pollInLoop(
        { services: world.services, principal },
        { id, consumer: "loop", limit: 100, iterator },
      );
      if (polled.kind !== "ok") throw new Error(JSON.stringify(polled));
      const { deliveries, ...rest } = polled.value;
      return {
        ...rest,
        numbers: deliveries.map(
          ({ event: { body } }) => JSON.parse(new TextDecoder().decode(body ?? undefined)).data.n,
        ),
      };
    };
    const first = await looped();
    expect(first.numbers).toEqual([3]);
    // A process that has lost the page gets the same one again.
    expect((await looped()).numbers).toEqual([3]);
    const { numbers, iterator } = await looped(first.iterator);
    expect(numbers).toEqual([]);
    world.clock.pass(MINUTE);
    expect((await looped(iterator)).numbers).toEqual([]);
    await changeEventVersion(env.DB, TYPE, 2, { conversion: '{"n": "mended"}' }, world.services.now());
    world.clock.pass(MINUTE);
    const mended = await looped(iterator);
    expect(mended.numbers).toEqual(["mended"]);
    expect((await looped(mended.iterator)).numbers).toEqual([]);
  });

  test("that its conversion leaves out is not handed out, and the position passes it", async () => {
    await publish('{% if data.n == 1 %}{% cancel %}{% endif %}{"n": {{ data.n }}}');
    await post(1, 2);
    expect(await drained()).toEqual([2]);
  });

  test("is converted only as far as a page may reach", async () => {
    await publish(`{"n": "{{ data.n }}", "much": "{% for i in (1..500) %}${"x".repeat(1_000)}{% endfor %}"}`);
    await world.postBundles(30, { data: { n: 1 } });
    const { data } = await page();
    const sizes = data.map(({ body }) => body?.length ?? 0);
    expect(sizes.filter((size) => size > 500_000)).toHaveLength(17);
    expect(data.at(-1)).toMatchObject({ fault: expect.stringContaining("return the event") });
  });
});
