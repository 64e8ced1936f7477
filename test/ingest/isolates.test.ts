/** An isolate that has slept while others committed reads no more than a busy one, and gives no wrong answer. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { type CommitResult, postedEvent } from "../../src/ingest/bundle.ts";
import { commitEntries, WAIT_MS } from "../../src/ingest/commit.ts";
import { GroupCommit } from "../../src/ingest/intake.ts";
import { INTAKE_VERSION } from "../../src/ingest/intake-protocol.ts";
import { RoutingCache } from "../../src/ingest/routing-cache.ts";
import type { Services } from "../../src/services.ts";
import {
  accept,
  acceptEach,
  acceptOperational,
  type GivenEvent,
  type GivenSingle,
} from "../support/accept.ts";
import { calm, execute, newDestination, newWorld, START, TENANT, type World } from "../support/world.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
/** The most that a commit may read, however much others have committed: its own guards, and a few lookups. */
const FEW = 60;

let world: World;
beforeEach(async () => {
  world = await newWorld();
});

/** Another isolate: it shares nothing but the database. */
const elsewhere = (): Services => ({ ...world.services, routing: new RoutingCache() });

const event = (type = "a", tenant = TENANT): GivenEvent => ({ tenant, type, data: {} });

/** Other isolates commit so many bundles, one event each, evenly until now. */
async function othersCommit(count: number, overMs = 10 * MINUTE): Promise<void> {
  const now = world.clock.now();
  await execute(
    `INSERT INTO bundles (id, tokens, accepted_at, count, planned, plan, header, body)
     WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
     SELECT coalesce((SELECT max(id) FROM bundles), 0) + i, '["other ' || hex(randomblob(8)) || '"]',
       ?2 - (?1 - i) * ?3 / ?1, 1, 0, '{}', '{"version":1,"encoding":"plain","tenants":[],"types":[],"events":[]}', x''
     FROM n`,
    ...[count, now, overMs],
  );
}

async function rowsFor(work: () => Promise<unknown>): Promise<number> {
  world.d1.used();
  await work();
  return world.d1.used().rowsRead;
}

const storedTypes = async () =>
  (
    await env.DB.prepare("SELECT type FROM events WHERE type IS NOT NULL ORDER BY id").all<{ type: string }>()
  ).results.map(({ type }) => type);

const idsOf = (results: readonly CommitResult[]) =>
  results.flatMap((result) => ("events" in result ? result.events.map(({ id }) => id) : []));

describe("an isolate that was quiet while others committed twelve thousand bundles reads few rows", () => {
  beforeEach(async () => {
    await newDestination();
    await accept(world.services, [event("warm-up")]);
    await othersCommit(12_000);
  });

  test("to accept an event, and needs one round trip more than a busy one", async () => {
    world.d1.used();
    expect((await accept(world.services, [event()])).kind).toBe("accepted");
    const { rowsRead, roundTrips } = world.d1.used();
    expect(rowsRead).toBeLessThan(FEW);
    expect(roundTrips).toBe(2);
  });

  test("to accept a thousand events in one request", async () => {
    const many = Array.from({ length: 1_000 }, () => event());
    expect(await rowsFor(() => accept(world.services, many))).toBeLessThan(2 * FEW);
    expect((await storedTypes()).filter((type) => type === "a")).toHaveLength(1_000);
  });

  test("to accept an event again and again while the database is away", async () => {
    world.d1.failing((sql) => (sql.includes("INSERT INTO bundles") ? "before" : undefined));
    const failing = accept(world.services, [event()]);
    await world.clock.asleep(75);
    world.clock.pass(75);
    expect((await failing).kind).toBe("unavailable");
    world.d1.failing(() => undefined);
    expect(await rowsFor(() => accept(world.services, [event()]))).toBeLessThan(FEW);
  });

  test("to store an operational event", async () => {
    const posting = () => acceptOperational(world.services, [{ ...event("operational"), key: "k" }]);
    expect(await rowsFor(posting)).toBeLessThan(FEW);
    await posting();
    expect((await storedTypes()).filter((type) => type === "operational")).toHaveLength(1);
  });

  test("to refuse a repeat under a key", async () => {
    await accept(elsewhere(), [event()], "k");
    await othersCommit(1_000);
    expect(await rowsFor(() => accept(world.services, [event()], "k"))).toBeLessThan(FEW);
    expect((await accept(world.services, [event()], "k")).kind).toBe("replayed");
  });

  test("as an object of intake", async () => {
    const intake = new GroupCommit(world.services);
    const events = [postedEvent({ tenant: TENANT, type: "a", data: {} })];
    const posted = { token: "t", events, deadlineAt: world.clock.now() + WAIT_MS };
    expect(await rowsFor(() => intake.accept(INTAKE_VERSION, 0, posted))).toBeLessThan(FEW);
    expect((await storedTypes()).filter((type) => type === "a")).toHaveLength(1);
  });
});

test("a commit of many bundles searches its tokens once, not once for each bundle", async () => {
  await accept(world.services, [event("warm-up")]);
  await othersCommit(150);
  const many = Array.from({ length: 1_000 }, () => event());
  // Each bundle of the others, and its token.
  expect(await rowsFor(() => accept(world.services, many))).toBeLessThan(2 * 150 + 2 * FEW);
});

test("many keys in one commit do not each cost a read of others' bundles", async () => {
  await accept(world.services, [event("warm-up")]);
  await othersCommit(150);
  const entries = Array.from({ length: 100 }, (_, i) => ({
    ...{ token: `token ${i}`, deadlineAt: world.clock.now() + WAIT_MS },
    events: [postedEvent({ tenant: TENANT, type: "a", data: {} })],
    key: { key: `key ${i}`, fingerprint: "f" },
  }));
  const commit = () => commitEntries(world.services, 0, entries, world.clock.now());
  expect(await rowsFor(commit)).toBeLessThan(2 * 150 + 10 * 100);
  const { outcomes } = await commit();
  expect(outcomes.map(({ kind }) => kind)).toEqual(Array(100).fill("accepted"));
  expect(await storedTypes()).toHaveLength(101);
});

describe("an entry that an object accepted while it was far behind", () => {
  const posted = () => ({
    token: "the same",
    events: [postedEvent({ tenant: TENANT, type: "twice", data: {} })],
    deadlineAt: world.clock.now() + WAIT_MS,
  });

  test.each([99, 100, 3_000])("and that another object has stored %d ms later is stored once", async (ms) => {
    await accept(world.services, [event("warm-up")]);
    await othersCommit(1_000);
    const { db } = world.services;
    const { promise: held, resolve: letGo } = Promise.withResolvers<void>();
    let isFirst = true;
    const slow = {
      prepare: db.prepare.bind(db),
      batch: async (statements: D1PreparedStatement[]) => {
        const isHeld = isFirst;
        isFirst = false;
        if (isHeld) await held;
        return db.batch(statements);
      },
    } as unknown as D1Database;
    const old = new GroupCommit({ ...world.services, db: slow });
    const first = old.accept(INTAKE_VERSION, 0, posted());
    await calm();
    world.clock.pass(ms);
    // A second call is made no sooner than a tenth of a second after the first.
    const isElsewhere = ms >= 100;
    const triedAt = world.clock.now() - ms;
    if (isElsewhere) await new GroupCommit(elsewhere()).accept(INTAKE_VERSION, 0, { ...posted(), triedAt });
    letGo();
    expect(await first).toMatchObject({ kind: "done", outcome: { kind: "accepted" } });
    expect((await storedTypes()).filter((type) => type === "twice")).toHaveLength(1);
  });
});

describe("messages that are delivered again six hours after they were sent", () => {
  const messages = (isRepeated: boolean, sentAt: number, count = 10): GivenSingle[] =>
    Array.from({ length: count }, (_, i) => ({
      ...event("message"),
      ...{ token: `message-${i}`, sentAt: sentAt + i, isRepeated },
    }));

  test("cost few rows, however many bundles there have been since", async () => {
    await othersCommit(12_000, 6 * HOUR);
    const again = messages(true, world.clock.now() - 6 * HOUR);
    // Two minutes' bundles, and a minute's before and after.
    expect(await rowsFor(() => acceptEach(world.services, again))).toBeLessThan(700);
    expect((await storedTypes()).filter((type) => type === "message")).toHaveLength(10);
  });

  test.each([
    ["at once", 0],
    ["two minutes", 2 * MINUTE],
    ["a millisecond more than two minutes", 2 * MINUTE + 1],
    ["an hour", HOUR],
    ["thirteen days", 13 * 24 * HOUR],
  ])("are found although they were first stored only after %s, and in another isolate", async (_when, ms) => {
    const sentAt = START;
    world.clock.pass(ms);
    const first = await acceptEach(elsewhere(), messages(false, sentAt));
    await othersCommit(300, 0);
    world.clock.pass(6 * HOUR);
    await othersCommit(300, 0);
    const again = await acceptEach(world.services, messages(true, sentAt));
    expect(again.map(({ kind }) => kind)).toEqual(Array(10).fill("accepted"));
    expect(idsOf(again)).toEqual(idsOf(first));
    const third = await acceptEach(elsewhere(), messages(true, sentAt));
    expect(idsOf(third)).toEqual(idsOf(first));
  });

  test("are found although they were first stored when they were delivered again", async () => {
    const sentAt = START;
    world.clock.pass(6 * HOUR);
    const first = await acceptEach(elsewhere(), messages(true, sentAt));
    await othersCommit(1_000, 0);
    world.clock.pass(6 * HOUR);
    const again = await acceptEach(world.services, messages(true, sentAt));
    expect(idsOf(again)).toEqual(idsOf(first));
    expect((await storedTypes()).filter((type) => type === "message")).toHaveLength(10);
  });

  test("have their bundles put on the queue again", async () => {
    await newDestination();
    world.clock.pass(HOUR);
    await acceptEach(world.services, messages(false, START));
    await world.settled();
    expect(world.deliveryQueue.taken()).not.toEqual([]);
    await acceptEach(world.services, messages(true, START));
    await world.settled();
    expect(world.deliveryQueue.taken()).not.toEqual([]);
  });

  test("cost no additional row if they are stored at once", async () => {
    await accept(world.services, [event("warm-up")]);
    world.d1.used();
    await acceptEach(world.services, messages(false, START, 100));
    expect(world.d1.used().rowsWritten).toBe(1);
  });
});

describe("routes", () => {
  const tenantsFrom = (first: number, count: number) =>
    Array.from({ length: count }, (_, i) => `tenant-${first + i}`);
  const post = (tenants: readonly string[]) =>
    accept(
      world.services,
      tenants.map((tenant) => event("a", tenant)),
    );
  const destinations = 20;

  beforeEach(async () => {
    await execute(
      `INSERT INTO destinations (id, tenant, url, secret, event_types, created_at, updated_at)
       SELECT 'dst_' || t.value || '_' || d.value, t.value, 'https://example.com', '', '["b"]', 0, 0
       FROM json_each(?1) t CROSS JOIN json_each(?2) d`,
      JSON.stringify(tenantsFrom(0, 20)),
      JSON.stringify(Array.from({ length: destinations }, (_, i) => i)),
    );
    await post(tenantsFrom(0, 10));
  });

  test("of missing tenants are read, and of no others", async () => {
    const before = await rowsFor(() => post(tenantsFrom(0, 10)));
    const rows = await rowsFor(() => post([...tenantsFrom(0, 10), ...tenantsFrom(10, 5)]));
    // Each destination of five tenants, and its entry in an index.
    expect(rows - before).toBeLessThan(5 * 2 * destinations + FEW);
  });

  test("of changed tenants are read, and of no others", async () => {
    await post(tenantsFrom(10, 10));
    await newDestination({ tenant: "tenant-3" });
    const rows = await rowsFor(() => post(tenantsFrom(0, 20)));
    expect(rows).toBeLessThan(2 * destinations + 5 * FEW);
    expect((await post(["tenant-3"])).kind).toBe("accepted");
  });
});
