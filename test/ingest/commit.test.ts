/**
 * Committing entries: each entirely or not at all, once however often it is repeated, and none fails by another's
 * fault.
 */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { retention } from "../../src/features/retention/job.ts";
import { type CommitOutcome, type Entry, postedEvent } from "../../src/ingest/bundle.ts";
import { commitEntries, WAIT_MS } from "../../src/ingest/commit.ts";
import { RoutingCache } from "../../src/ingest/routing-cache.ts";
import type { Services } from "../../src/services.ts";
import { accept, type GivenEvent } from "../support/accept.ts";
import { calm, execute, newDestination, newWorld, TENANT, type World } from "../support/world.ts";

/** Between an uncertain commit and its repeat, while chance is 0.5. */
const PAUSE_MS = 75;

let world: World;
beforeEach(async () => {
  world = await newWorld();
  await accept(world.services, [event("warm-up")]);
  world.deliveryQueue.taken();
});

const event = (type = "a", data: unknown = {}, tenant = TENANT): GivenEvent => ({ tenant, type, data });

const encoder = new TextEncoder();
let tokens = 0;

function entry(types: readonly string[] = ["a"], also: Partial<Entry> = {}, tenant = TENANT): Entry {
  tokens += 1;
  return {
    token: `token-${tokens}`,
    events: types.map((type) => postedEvent({ tenant, type, data: {} })),
    deadlineAt: world.clock.now() + WAIT_MS,
    ...also,
  };
}

const committed = (entries: readonly Entry[], services: Services = world.services) =>
  commitEntries(services, 0, entries, world.clock.now());

async function commit(entries: readonly Entry[], services?: Services) {
  return (await committed(entries, services)).outcomes;
}

/** Passes the pause before each repeat, as soon as the code sleeps so long. */
async function patiently<T>(work: Promise<T>): Promise<T> {
  let isDone = false;
  const pass = async () => {
    while (!isDone) {
      await world.clock.asleep(PAUSE_MS);
      if (!isDone) world.clock.pass(PAUSE_MS);
    }
  };
  void pass();
  const result = await work;
  isDone = true;
  return result;
}

/** Another isolate: it shares nothing but the database. */
const elsewhere = (services: Services = world.services): Services => ({
  ...services,
  routing: new RoutingCache(),
});

const types = async () =>
  (
    await env.DB.prepare("SELECT type FROM events WHERE type <> 'warm-up' ORDER BY id").all<{
      type: string;
    }>()
  ).results.map(({ type }) => type);

const idsOf = (outcome: CommitOutcome | undefined) =>
  outcome && "events" in outcome ? outcome.events.map(({ id }) => id) : [];

const INSERTS = (sql: string) => sql.includes("INSERT INTO bundles");

/** The next so many commits fail in this way. */
function failCommits(fault: "before" | "after", count: number): void {
  let left = count;
  world.d1.failing((sql) => (INSERTS(sql) && left-- > 0 ? fault : undefined));
}

describe("a commit whose answer is uncertain", () => {
  test.each([
    ["that never happened", "before"],
    ["whose answer got lost", "after"],
  ] as const)("%s is repeated, and stored once", async (_what, fault) => {
    const destination = await newDestination();
    await accept(world.services, [event("warm-up")]);
    world.deliveryQueue.taken();
    failCommits(fault, 1);
    const many = [entry(["a"]), entry(["b", "c"]), entry(["d"], { key: { key: "k", fingerprint: "f" } })];
    const outcomes = await patiently(commit(many));
    expect(outcomes.map(({ kind }) => kind)).toEqual(["accepted", "accepted", "accepted"]);
    expect((await types()).toSorted()).toEqual(["a", "b", "c", "d"]);
    expect(new Set(outcomes.flatMap(idsOf)).size).toBe(4);
    for (const outcome of outcomes)
      expect("events" in outcome && outcome.events.map(({ plan }) => plan)).toEqual(
        idsOf(outcome).map(() => [destination]),
      );
  });

  test("wakes the polled destinations of every tenant with events in the bundle", async () => {
    const polled = [
      await newDestination({ url: "poll:inbox" }),
      await newDestination({ url: "poll:inbox", tenant: "other" }),
    ];
    await accept(world.services, [event("warm-up"), event("warm-up", {}, "other")]);
    failCommits("after", 1);
    const many = [entry(["a"]), entry(["a"], {}, "other")];
    const { bundles } = await patiently(committed(many));
    expect(bundles).toHaveLength(1);
    expect(bundles.flatMap(({ polled: own = [] }) => own).toSorted()).toEqual(polled.toSorted());
  });

  test("twice in a row is unavailable, and a repeat with its token in another isolate finds it", async () => {
    failCommits("after", 2);
    const one = entry(["a"]);
    const triedAt = world.clock.now();
    const [first] = await patiently(commit([one]));
    // The second try found the first one's token; whatever it says, the event is there once.
    expect(["accepted", "unavailable"]).toContain(first?.kind);
    for (let i = 0; i < 3; i++) await accept(world.services, [event("later")]);
    const [again] = await commit([{ ...one, triedAt }], elsewhere());
    expect(again?.kind).toBe("accepted");
    expect((await types()).filter((type) => type === "a")).toEqual(["a"]);
  });

  test("is found although other commits of the same isolate were made meanwhile", async () => {
    let neighbours: Promise<unknown> | undefined;
    world.d1.failing((sql) => {
      if (!INSERTS(sql) || neighbours) return undefined;
      neighbours = accept(world.services, [event("neighbour")]);
      return "after";
    });
    const committing = commit([entry(["a"])]);
    await world.clock.asleep(PAUSE_MS);
    await neighbours;
    world.clock.pass(PAUSE_MS);
    expect((await committing).map(({ kind }) => kind)).toEqual(["accepted"]);
    expect((await types()).toSorted()).toEqual(["a", "neighbour"]);
  });

  test("has its bundles enqueued once, however many of its events were looked up", async () => {
    await newDestination();
    await accept(world.services, [event("warm-up")]);
    failCommits("after", 1);
    const { bundles } = await patiently(committed(Array.from({ length: 50 }, () => entry())));
    expect(bundles).toHaveLength(1);
  });

  test("costs the same number of round trips to look up for a hundred entries as for one", async () => {
    const tripsFor = async (count: number) => {
      failCommits("after", 1);
      world.d1.used();
      await patiently(commit(Array.from({ length: count }, () => entry())));
      return world.d1.used().roundTrips;
    };
    expect(await tripsFor(100)).toBe(await tripsFor(1));
  });

  test("answers 503 with Retry-After after one repeat, and the sender's repeat with a key is stored once", async () => {
    failCommits("before", 100);
    const posting = () => patiently(accept(world.services, [event("a")], "key"));
    expect(await posting()).toEqual({ kind: "unavailable" });
    expect(world.logged("commit_repeated")).toHaveLength(1);
    world.d1.failing(() => undefined);
    expect((await posting()).kind).toBe("accepted");
    expect((await posting()).kind).toBe("replayed");
    expect(await types()).toEqual(["a"]);
  });

  test("is not begun again once nothing waits for it", async () => {
    failCommits("before", 1);
    const outcomes = await commit([entry(["a"], { deadlineAt: world.clock.now() + PAUSE_MS - 1 })]);
    expect(outcomes).toEqual([{ kind: "unavailable" }]);
    expect(await types()).toEqual([]);
  });

  test("is begun again as long as one of its senders waits", async () => {
    failCommits("before", 1);
    const [short, long] = [PAUSE_MS - 1, WAIT_MS].map((ms) => world.clock.now() + ms);
    const many = [
      entry(["a"], { deadlineAt: short as number }),
      entry(["b"], { deadlineAt: long as number }),
    ];
    expect((await patiently(commit(many))).map(({ kind }) => kind)).toEqual(["accepted", "accepted"]);
  });

  test("is searched from the first try of its entries on", async () => {
    const deadlineAt = world.clock.now() + 3_600_000;
    const [old, recent] = [entry(["a"], { deadlineAt }), entry(["b"], { deadlineAt })];
    const [first] = await commit([old]);
    const triedAt = world.clock.now();
    world.clock.pass(10 * 60_000);
    await accept(world.services, [event("between")]);
    const [again, other] = await commit(
      [
        { ...old, triedAt },
        { ...recent, triedAt: world.clock.now() },
      ],
      elsewhere(),
    );
    expect(idsOf(again)).toEqual(idsOf(first));
    expect(other?.kind).toBe("accepted");
    expect(await types()).toEqual(["a", "between", "b"]);
  });

  test("is searched above the lowest bundle that its entries knew", async () => {
    const [old, recent] = [entry(["a"], { floor: 1 }), entry(["b"])];
    const [first] = await commit([old]);
    await accept(world.services, [event("between")]);
    const [again] = await commit([{ ...recent, floor: 3 }, old]);
    expect(again?.kind).toBe("accepted");
    const [repeated] = await commit([old]);
    expect(idsOf(repeated)).toEqual(idsOf(first));
    expect(await types()).toEqual(["a", "between", "b"]);
  });

  test("is accepted if it is found, although its bundle has been removed since", async () => {
    const one = entry(["a"]);
    const [first] = await commit([one]);
    const triedAt = world.clock.now();
    const { db } = world.services;
    const removing = {
      batch: db.batch.bind(db),
      prepare: (sql: string) => {
        if (!sql.startsWith("SELECT id, tokens, plan")) return db.prepare(sql);
        const all = async () => {
          await execute("DELETE FROM bundles");
          return { results: [] };
        };
        return { bind: () => ({ all }) };
      },
    } as unknown as D1Database;
    const { outcomes, bundles } = await committed([{ ...one, triedAt }], {
      ...world.services,
      db: removing,
    });
    expect(outcomes).toEqual([
      { kind: "accepted", events: [{ id: idsOf(first)[0], plan: [], isRemoved: true }] },
    ]);
    expect(bundles).toEqual([]);
  });

  test.each([
    "D1_ERROR: D1 DB is overloaded. Requests queued for too long.",
    "D1_ERROR: D1 DB is overloaded. Too many requests queued.",
  ])("is not begun again in an overloaded database: %s", async (message) => {
    let commits = 0;
    world.d1.failing((sql) => {
      if (!INSERTS(sql)) return undefined;
      commits += 1;
      throw new Error(message);
    });
    expect(await accept(world.services, [event("a")])).toEqual({ kind: "unavailable" });
    expect(commits).toBe(1);
    expect(await types()).toEqual([]);
  });

  test("is given up when the database does not answer", async () => {
    const { db } = world.services;
    const stuck = {
      prepare: db.prepare.bind(db),
      batch: () => new Promise(() => {}),
    } as unknown as D1Database;
    const committing = commit([entry()], { ...world.services, db: stuck });
    for (const ms of [5_000, PAUSE_MS, 5_000]) {
      await calm();
      await world.clock.asleep(ms);
      world.clock.pass(ms);
    }
    expect(await committing).toEqual([{ kind: "unavailable" }]);
  });
});

describe("a commit", () => {
  test("is made for the callers that still wait", async () => {
    const now = world.clock.now();
    const deadlines = [now - 1, now, now + 1].map((deadlineAt) => entry(["a"], { deadlineAt }));
    const outcomes = await commit(deadlines);
    expect(outcomes.map(({ kind }) => kind)).toEqual(["unavailable", "accepted", "accepted"]);
  });

  test("reads the same number of rows in an isolate that has just started, however many bundles there are", async () => {
    const rowsFor = async () => {
      world.d1.used();
      await commit([entry()], elsewhere());
      return world.d1.used().rowsRead;
    };
    const before = await rowsFor();
    for (let i = 0; i < 10; i++) await commit([entry()]);
    expect(await rowsFor()).toBe(before);
  });
});

describe("a committed bundle", () => {
  test("is enqueued with its plan and its delivery time", async () => {
    const id = await newDestination();
    await accept(world.services, [event("warm-up")]);
    const acceptedAt = world.clock.now();
    const later = acceptedAt + 60_000;
    const held = entry(["a", "b"]);
    const events = held.events.map((one, i) => (i === 1 ? { ...one, deliverAt: later } : one));
    const entries = [{ ...held, events }, entry(["c"], {}, "nobody")];
    const { outcomes, bundles } = await committed(entries);
    const [due, heldBack, other] = outcomes.flatMap(idsOf);
    const bundleOf = (event = 0) => Math.floor(event / 128);
    expect(bundles.toSorted((a, b) => a.id - b.id)).toStrictEqual(
      [
        { id: bundleOf(due), plan: { [id]: [0, 0] } },
        { id: bundleOf(heldBack), plan: { [id]: [0, 0] }, deliverAt: later },
        { id: bundleOf(other), plan: {} },
      ].toSorted((a, b) => a.id - b.id),
    );
    expect(outcomes).toStrictEqual([
      {
        kind: "accepted",
        events: [
          { id: due, plan: [id], acceptedAt },
          { id: heldBack, plan: [id], acceptedAt, deliverAt: later },
        ],
      },
      { kind: "accepted", events: [{ id: other, plan: [], acceptedAt }] },
    ]);
  });
});

describe("an entry that is refused", () => {
  const addressed = (destinationIds: readonly string[], also: Partial<Entry> = {}): Entry => {
    const one = entry(["a"], also);
    return { ...one, events: one.events.map((given) => ({ ...given, options: { destinationIds } })) };
  };
  const asking = (type: string, body: string): Entry => {
    const one = entry([type]);
    const options = { validate: true } as const;
    return { ...one, events: one.events.map((given) => ({ ...given, body: encoder.encode(body), options })) };
  };
  const kinds = async (...entries: Entry[]) => (await commit(entries)).map(({ kind }) => kind);
  const putType = (name: string, schema: string, validates: boolean) =>
    execute(
      "REPLACE INTO event_types (name, schema, validates, created_at, updated_at) VALUES (?1, ?2, ?3, 0, 0)",
      ...[name, schema, validates ? 1 : 0],
    );

  test("is not stored, while its neighbours are", async () => {
    const outcomes = await commit([entry(["x"]), addressed(["dst_unknown"]), entry(["y"])]);
    expect(outcomes.map(({ kind }) => kind)).toEqual(["accepted", "invalid", "accepted"]);
    expect(outcomes[1]).toMatchObject({ faults: [{ place: 0, field: "destination_ids[0]" }] });
    expect(await types()).toEqual(["x", "y"]);
  });

  test("alone costs one read of the cause, and no commit", async () => {
    world.d1.used();
    expect(await kinds(addressed(["dst_unknown"]))).toEqual(["invalid"]);
    expect(world.d1.used().roundTrips).toBe(1);
    expect(world.log).toEqual([]);
  });

  test("is accepted if the named object was created since the isolate's last read", async () => {
    const id = await newDestination();
    expect(await kinds(addressed([id]))).toEqual(["accepted"]);
  });

  test.each([
    ["an isolate that remembers it", (): Services => world.services],
    ["one that does not", () => elsewhere()],
  ])("is accepted if it was accepted before the named object was removed: in %s", async (_which, isolate) => {
    const id = await newDestination();
    const keyed = addressed([id], { key: { key: "k", fingerprint: "f" } });
    const plain = addressed([id]);
    expect(await kinds(keyed, plain)).toEqual(["accepted", "accepted"]);
    await execute("UPDATE destinations SET deleted_at = 1");
    const again = { ...plain, triedAt: world.clock.now() };
    const entries = [{ ...keyed, token: "another" }, again, addressed([id])];
    const outcomes = await commit(entries, isolate());
    expect(outcomes.map(({ kind }) => kind)).toEqual(["replayed", "accepted", "invalid"]);
    expect(await types()).toEqual(["a", "a"]);
  });

  test("for planning too many deliveries is not stored, while its neighbours are", async () => {
    for (const eventTypes of [null, null, ["z"]]) await newDestination({ eventTypes });
    await accept(world.services, [event("warm-up")]);
    const services = { ...world.services, config: { ...world.services.config, maxDeliveriesPerRequest: 4 } };
    const three = ["a", "b", "c"];
    const outcomes = await commit([entry(["x", "y"]), entry(three), entry(three, {}, "nobody")], services);
    expect(outcomes.map(({ kind }) => kind)).toEqual(["accepted", "too_many", "accepted"]);
    expect(outcomes[1]).toEqual({ kind: "too_many", planned: 6 });
    expect((await types()).toSorted()).toEqual(["a", "b", "c", "x", "y"]);
    world.d1.used();
    expect((await commit([entry(three)], services)).map(({ kind }) => kind)).toEqual(["too_many"]);
    expect(world.d1.used().roundTrips).toBe(0);
  });

  test("for its data is of a validated type, or requests validation, unlike its neighbour of the same type", async () => {
    const needed = (field: string) => JSON.stringify({ type: "object", required: [field] });
    await putType("asked", needed("n"), false);
    await putType("edited", "{", false);
    await putType("always", needed("m"), true);
    const data = '{"data":{"n":1}}';
    expect(
      await kinds(
        ...[asking("asked", data), asking("asked", '{"data":{}}'), asking("edited", data), entry(["asked"])],
        ...[entry(["always"]), asking("unknown", data)],
      ),
    ).toEqual(["accepted", "invalid", "invalid", "accepted", "invalid", "invalid"]);
    expect((await types()).toSorted()).toEqual(["asked", "asked"]);
  });
});

describe("an entry of several bundles", () => {
  const many = (tenant: (i: number) => string) =>
    Array.from({ length: 250 }, (_, i) => event("a", { i }, tenant(i)));

  test("is stored as a whole or not at all when one bundle's tenant has changed meanwhile", async () => {
    await accept(
      world.services,
      many((i) => (i < 200 ? TENANT : "late")),
    );
    await execute("DELETE FROM bundles");
    // Only the last bundle has an event of that tenant, whose destinations are read before the commit.
    const added = await newDestination({ tenant: "late" });
    const { db } = world.services;
    const countsAfterBatches: unknown[] = [];
    const watched = {
      prepare: db.prepare.bind(db),
      batch: async (statements: D1PreparedStatement[]) => {
        const results = await db.batch(statements);
        countsAfterBatches.push(await env.DB.prepare("SELECT count(*) AS n FROM bundles").first("n"));
        return results;
      },
    } as unknown as D1Database;
    const outcome = await accept(
      { ...world.services, db: watched },
      many((i) => (i < 200 ? TENANT : "late")),
    );
    expect(outcome.kind).toBe("accepted");
    // The commit that missed, the lookup, and the commit.
    expect(countsAfterBatches).toEqual([0, 0, 0, 3]);
    const { results } = await env.DB.prepare("SELECT count FROM bundles ORDER BY id").all<{
      count: number;
    }>();
    expect(results.map(({ count }) => count)).toEqual([100, 100, 50]);
    const plans = "events" in outcome ? outcome.events.map(({ plan }) => plan.join()) : [];
    expect(plans).toEqual(Array.from({ length: 250 }, (_, i) => (i < 200 ? "" : added)));
  });

  test("is not stored when its key is taken", async () => {
    await accept(world.services, [event("first")], "k");
    expect(
      await accept(
        world.services,
        many(() => TENANT),
        "k",
      ),
    ).toEqual({ kind: "conflict" });
    expect(await types()).toEqual(["first"]);
  });

  test("is given up after five commits, when a tenant changes during each of them", async () => {
    let commits = 0;
    const { db } = world.services;
    const changing = {
      prepare: db.prepare.bind(db),
      batch: async (statements: D1PreparedStatement[]) => {
        await execute("UPDATE tenants SET revision = revision + 1");
        return db.batch(statements);
      },
    } as unknown as D1Database;
    world.d1.failing((sql) => {
      if (INSERTS(sql)) commits += 1;
      return undefined;
    });
    await newDestination();
    const services = { ...world.services, db: changing };
    expect(await accept(services, [event("a"), event("b")])).toEqual({ kind: "unavailable" });
    expect(commits).toBe(5);
    expect(await types()).toEqual([]);
  });

  test("keeps the order of its events in the answer and in their numbers", async () => {
    const outcome = await accept(
      world.services,
      many(() => TENANT),
    );
    const ids = idsOf(outcome);
    expect(ids).toHaveLength(250);
    expect(ids).toEqual(ids.toSorted((a, b) => a - b));
  });
});

describe("a fault in one entry's content", () => {
  test("affects only that entry, and not those that were committed with it", async () => {
    await execute(
      "CREATE TRIGGER refuse BEFORE INSERT ON bundles WHEN new.header LIKE '%poison%' BEGIN SELECT RAISE(ABORT, 'poison'); END",
    );
    try {
      const entries = ["a", "b", "poison", "c", "d"].map((type) => entry([type]));
      const outcomes = await commit(entries);
      expect(outcomes.map(({ kind }) => kind)).toEqual([
        "accepted",
        "accepted",
        "unavailable",
        "accepted",
        "accepted",
      ]);
      expect((await types()).toSorted()).toEqual(["a", "b", "c", "d"]);
      expect(world.logged("commit_repeated")).toEqual([]);
      const two = [entry(["poison"], {}, "them"), entry(["e"], {}, "us")];
      const { outcomes: ofTwo, faultyTenants } = await committed(two);
      expect(ofTwo.map(({ kind }) => kind)).toEqual(["unavailable", "accepted"]);
      expect(faultyTenants).toEqual(["them"]);
      // All of them, the half of them that it is in, and it alone.
      expect(world.logged("commit_failed").map(({ entries: count }) => count)).toEqual([5, 3, 1, 2, 1]);
    } finally {
      await execute("DROP TRIGGER refuse");
    }
  });

  test("is not searched if the database as a whole is in trouble", async () => {
    failCommits("before", 100);
    world.d1.used();
    await patiently(commit(Array.from({ length: 20 }, () => entry())));
    expect(world.d1.used().roundTrips).toBe(2);
    expect(world.logged("commit_failed")).toMatchObject([{ entries: 20 }]);
  });
});

describe("a key", () => {
  const keyed = (type: string, key: string, fingerprint = "f") =>
    entry([type], { key: { key, fingerprint } });

  test("that comes twice in one gathering counts for the first event", async () => {
    const [first, second, other] = await commit([keyed("a", "k"), keyed("a", "k"), keyed("b", "k", "g")]);
    expect(first?.kind).toBe("accepted");
    expect(second).toMatchObject({ kind: "replayed", events: [{ id: idsOf(first)[0] }] });
    expect(other).toEqual({ kind: "conflict" });
    expect(await types()).toEqual(["a"]);
  });

  test("that comes twice in one gathering is unavailable both times, when it is uncertain the first time", async () => {
    failCommits("before", 2);
    const outcomes = await patiently(commit([keyed("a", "k"), keyed("a", "k")]));
    expect(outcomes).toEqual([{ kind: "unavailable" }, { kind: "unavailable" }]);
    expect(await types()).toEqual([]);
  });

  test("that comes twice in one gathering is unavailable the second time, when it cannot be looked up", async () => {
    world.d1.failing((sql) => (/^\s*SELECT s\.tenant/.test(sql) ? "before" : undefined));
    const outcomes = await commit([keyed("a", "k"), keyed("b", "other"), keyed("a", "k")]);
    expect(outcomes.map(({ kind }) => kind)).toEqual(["accepted", "accepted", "unavailable"]);
    expect(world.logged("commit_failed")).toMatchObject([{ entries: 1 }]);
    expect(await types()).toEqual(["a", "b"]);
  });

  test("that is taken costs a commit, a look-up with a read of the destinations, and the plans", async () => {
    await commit([keyed("a", "k")]);
    world.d1.used();
    expect(await commit([keyed("a", "k")])).toMatchObject([{ kind: "replayed" }]);
    expect(world.d1.used()).toMatchObject({ roundTrips: 4, rowsWritten: 0 });
  });

  test("whose events were partly removed says so only of those", async () => {
    const acceptedAt = world.clock.now();
    const later = acceptedAt + 3_600_000;
    const posted = [event("a"), { ...event("b"), deliverAt: later }, event("c")];
    const first = await accept(world.services, posted, "k");
    await execute("DELETE FROM bundles WHERE deliver_at IS NOT NULL");
    const [a, b, c] = idsOf(first).map((id) => ({ id, plan: [] }));
    expect(await accept(world.services, posted, "k")).toEqual({
      kind: "replayed",
      events: [
        { ...a, acceptedAt },
        { ...b, isRemoved: true },
        { ...c, acceptedAt },
      ],
    });
  });

  test("that is known does not give its neighbours of the same gathering another's event", async () => {
    const known = keyed("a", "one");
    const [first] = await commit([known]);
    const floor = 0;
    // The same entry comes again, because its answer got lost, and shares a bundle with another.
    const [again, other] = await commit([
      { ...known, floor },
      { ...keyed("b", "two"), floor },
    ]);
    expect(idsOf(again)).toEqual(idsOf(first));
    expect(other?.kind).toBe("accepted");
    expect(idsOf(other)).not.toEqual(idsOf(first));
    expect(await types()).toEqual(["a", "b"]);
  });

  test("shares no bundle with events without keys", async () => {
    await commit([entry(["a"]), keyed("b", "one"), entry(["c"]), keyed("d", "two")]);
    const { results } = await env.DB.prepare(
      "SELECT json_group_array(type) AS types FROM events WHERE type <> 'warm-up' GROUP BY bundle_id ORDER BY bundle_id",
    ).all();
    expect(results).toEqual([{ types: '["a","c"]' }, { types: '["b","d"]' }]);
  });

  test("that is taken delays no other of its gathering", async () => {
    await commit([keyed("a", "one")]);
    const outcomes = await commit([keyed("x", "one", "g"), keyed("b", "two"), entry(["c"])]);
    expect(outcomes.map(({ kind }) => kind)).toEqual(["conflict", "accepted", "accepted"]);
    expect((await types()).toSorted()).toEqual(["a", "b", "c"]);
  });

  test("names its events in the order posted, over several bundles and times of delivery", async () => {
    const later = world.clock.now() + 3_600_000;
    const posted = Array.from({ length: 230 }, (_, i) => ({
      ...event("a", { i }),
      ...(i % 2 === 0 && { deliverAt: later }),
    }));
    const first = await accept(world.services, posted, "k");
    const again = await accept(elsewhere(), posted, "k");
    expect(again).toEqual({ ...first, kind: "replayed" });
    expect(idsOf(first)).toHaveLength(230);
    expect(new Set(idsOf(first)).size).toBe(230);
  });

  test("is taken by one of thirty at once, in one isolate and in many", async () => {
    for (const services of [() => world.services, () => elsewhere()]) {
      const key = `race ${tokens++}`;
      const outcomes = await Promise.all(
        Array.from({ length: 30 }, () => accept(services(), [event("a", key)], key)),
      );
      expect(new Set(outcomes.flatMap(idsOf)).size).toBe(1);
      expect(outcomes.filter(({ kind }) => kind === "accepted")).toHaveLength(1);
    }
    expect(await types()).toEqual(["a", "a"]);
  });

  test("is taken by one of thirty that differ, and the others are in conflict", async () => {
    const outcomes = await Promise.all(
      Array.from({ length: 30 }, (_, i) => accept(elsewhere(), [event("a", i)], "k")),
    );
    const kinds = outcomes.map(({ kind }) => kind).toSorted();
    expect(kinds).toEqual(["accepted", ...Array(29).fill("conflict")]);
    expect(await types()).toEqual(["a"]);
  });
});

describe("a key and retention", () => {
  test("end together: the key is free when the bundle with its events is removed", async () => {
    const first = await accept(world.services, [event("a")], "k");
    for (let i = 0; i < 2; i++) await accept(world.services, [event("later")]);
    world.clock.pass(31 * 86_400_000);
    await accept(world.services, [event("now")]);
    for (let i = 0; i < 3; i++) await retention.run(world.services);
    expect(await types()).toEqual(["now"]);
    expect(await env.DB.prepare("SELECT count(*) AS n FROM idempotency_keys").first("n")).toBe(0);
    const again = await accept(world.services, [event("a")], "k");
    expect(again.kind).toBe("accepted");
    expect(idsOf(again)).not.toEqual(idsOf(first));
  });
});

describe("bundles", () => {
  test("contain the events of many tenants, each of which gets only its own", async () => {
    const [acme, other] = [await newDestination(), await newDestination({ tenant: "other" })];
    const outcomes = await commit([entry(["a"]), entry(["a"], {}, "other"), entry(["a"], {}, "nobody")]);
    expect(new Set(outcomes.flatMap(idsOf).map((id) => Math.floor(id / 128))).size).toBe(1);
    const plans = outcomes.map((outcome) => "events" in outcome && outcome.events[0]?.plan);
    expect(plans).toEqual([[acme], [other], []]);
  });

  test("have numbers that are never reused, also in a database that was restored to an earlier time", async () => {
    const before = idsOf(await accept(world.services, [event()]));
    await execute("DELETE FROM bundles");
    const [after] = idsOf(await accept(world.services, [event()]));
    expect(after).toBeGreaterThan(before[0] ?? Number.POSITIVE_INFINITY);
  });
});
