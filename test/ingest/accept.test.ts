/** A posted event is stored unchanged, once with its key, and its sender gets the result of each event. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { Content } from "../../src/core/content.ts";
import { shardsOf } from "../../src/core/placement.ts";
import { type CommitResult, type Entry, postedEvent } from "../../src/ingest/bundle.ts";
import { WAIT_MS } from "../../src/ingest/commit.ts";
import { INTAKE_VERSION } from "../../src/ingest/intake-protocol.ts";
import type { Services } from "../../src/services.ts";
import { readCounts } from "../../src/store/stats.ts";
import {
  accept,
  acceptEach,
  acceptOperational,
  type GivenEvent,
  type GivenKeyed,
  type GivenSingle,
} from "../support/accept.ts";
import { storedBodies, storedBytes } from "../support/stored-bodies.ts";
import { execute, newDestination, newWorld, START, TENANT, type World } from "../support/world.ts";

let world: World;
beforeEach(async () => {
  world = await newWorld();
});

const event = (also: Partial<GivenEvent> = {}): GivenEvent => ({
  ...{ tenant: TENANT, type: "order.paid", data: { n: 1 } },
  ...also,
});

const kindsOf = (results: readonly CommitResult[]) => results.map(({ kind }) => kind);
const idsOf = (result: CommitResult | undefined) =>
  result && "events" in result ? result.events.map(({ id }) => id) : [];

const storedTypes = async () =>
  (await env.DB.prepare("SELECT type FROM events ORDER BY id").all<{ type: string }>()).results.map(
    ({ type }) => type,
  );

/** The bundles that the background work has put on the queue. */
async function enqueued(): Promise<number[]> {
  await world.settled();
  return world.deliveryQueue.taken().flatMap(({ body }) => body.bundles.map(({ bundle }) => bundle));
}

/** How many commits are begun from now on. */
function countCommits(): () => number {
  let commits = 0;
  world.d1.failing((sql) => {
    if (sql.includes("INSERT INTO bundles")) commits += 1;
    return undefined;
  });
  return () => commits;
}

const repeatsCounted = async () => (await readCounts({ db: env.DB })).deduplicated;

describe("an event", () => {
  test("is stored in an envelope with its type and the time of its acceptance, content byte for byte", async () => {
    const csv = new TextEncoder().encode("a;b\n");
    const posted = [event(), event({ data: new Content("text/csv", csv) })];
    expect((await accept(world.services, posted)).kind).toBe("accepted");
    const [first] = await storedBodies();
    expect(first).toBe('{"type":"order.paid","timestamp":"2050-06-01T12:00:00.000Z","data":{"n":1}}');
    expect((await storedBytes())[1]).toEqual(csv);
    const header = await env.DB.prepare("SELECT header FROM bundles").first<string>("header");
    expect(JSON.parse(header ?? "").contentTypes).toEqual({ 1: "text/csv" });
  });

  test("that is content keeps its options", async () => {
    const [a] = [await newDestination({ body: "data" }), await newDestination({ body: "data" })];
    const data = new Content("text/csv", new Uint8Array([49]));
    const result = await accept(world.services, [
      event({ data, options: { destinationIds: [a], tags: ["t"] } }),
    ]);
    expect(result).toMatchObject({ events: [{ plan: [a] }] });
    expect(await env.DB.prepare("SELECT tag FROM tags").first("tag")).toBe("t");
  });

  test("that is content is not matched against filters", async () => {
    await newDestination({ body: "data", filter: { n: 1 } });
    const data = new Content("application/json", new TextEncoder().encode('{"n":1}'));
    expect(await accept(world.services, [event({ data })])).toMatchObject({ events: [{ plan: [] }] });
  });

  test("with a number stored digit by digit is compared with filters by its value", async () => {
    const exact = await newDestination({ filter: { n: 100 } });
    await newDestination({ filter: { n: { gt: 100 } } });
    const data = { n: JSON.rawJSON("100.00") };
    expect(await accept(world.services, [event({ data })])).toMatchObject({ events: [{ plan: [exact] }] });
  });

  test.each([
    ["now", 0, undefined],
    ["in the past", -1, undefined],
    ["in the future", 1, START + 1],
  ])("that is to be delivered %s is scheduled only for the future", async (_when, ms, deliverAt) => {
    const due = START + ms;
    const data = new Content("text/csv", new Uint8Array([49]));
    const result = await accept(world.services, [event({ deliverAt: due }), event({ deliverAt: due, data })]);
    expect("events" in result && result.events.map((one) => one.deliverAt)).toEqual([deliverAt, deliverAt]);
    const { results } = await env.DB.prepare("SELECT deliver_at AS at FROM bundles").all();
    expect(results).toEqual([{ at: deliverAt ?? null }]);
  });

  test("is put on the queue after the answer", async () => {
    await newDestination();
    const [id = 0] = idsOf(await accept(world.services, [event()]));
    expect(await enqueued()).toEqual([Math.floor(id / 128)]);
  });
});

describe("a key", () => {
  const under = (key: string, ...posted: GivenEvent[]) => accept(world.services, posted, key);

  test("belongs to the tenant of the last event", async () => {
    const [a, b] = [event({ tenant: "a" }), event({ tenant: "b" })];
    expect((await under("k", a, b)).kind).toBe("accepted");
    expect((await under("k", b)).kind).toBe("conflict");
    expect((await under("k", b, a)).kind).toBe("accepted");
    expect((await under("k", a, b)).kind).toBe("replayed");
  });

  test("is stored with a digest that former versions also compute", async () => {
    const given = [
      event({ data: { n: JSON.rawJSON("1.0") }, deliverAt: START + 5_000, options: { tags: ["t"] } }),
      event({ tenant: 'a"b', data: new Content("text/csv", new Uint8Array([49])) }),
      event({ data: new Content("text/csv", new Uint8Array()), options: { channels: ["x"] } }),
    ];
    await under("k", ...given);
    const content = given.map(({ tenant, type, data, deliverAt, options }) => {
      return [tenant, type, data, deliverAt, ...(options ? [options] : [])];
    });
    const text = new TextEncoder().encode(JSON.stringify(content));
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", text)).toHex();
    expect(await env.DB.prepare("SELECT fingerprint FROM idempotency_keys").first("fingerprint")).toBe(
      digest,
    );
  });

  const base = event({ deliverAt: START + 5_000, options: { tags: ["t"] } });
  test.each<[string, GivenEvent[], GivenEvent[], CommitResult["kind"]]>([
    ["the same content", [base], [{ ...base }], "replayed"],
    [
      "the same number",
      [event({ data: JSON.rawJSON("1.0") })],
      [event({ data: JSON.rawJSON("1.0") })],
      "replayed",
    ],
    ["a number written otherwise", [event({ data: JSON.rawJSON("1.0") })], [event({ data: 1 })], "conflict"],
    ["another type", [base], [{ ...base, type: "b" }], "conflict"],
    ["other data", [base], [{ ...base, data: { n: 2 } }], "conflict"],
    ["another time", [base], [{ ...base, deliverAt: START + 6_000 }], "conflict"],
    ["other options", [base], [{ ...base, options: { tags: ["u"] } }], "conflict"],
    ["no options", [base], [{ ...base, options: undefined }], "conflict"],
    [
      "another tenant before the last",
      [event({ tenant: "a" }), base],
      [event({ tenant: "b" }), base],
      "conflict",
    ],
    ["one event more", [base], [base, base], "conflict"],
    ["another order", [base, event()], [event(), base], "conflict"],
  ])("that comes again with %s counts as a repeat: %#", async (_what, first, again, kind) => {
    expect((await under("k", ...first)).kind).toBe("accepted");
    expect((await under("k", ...again)).kind).toBe(kind);
    expect(await storedTypes()).toHaveLength(first.length);
  });

  test.each([
    ["nothing but content", event(), "a578e91e7d22e23806e5368fbc09f291e55ef54b38298996d5073248a35445b8"],
    ["a time and options", base, "9c17d90adabaa8d32d0694c95557848b11690fe4c7b2495260ba6280fe6f6f5d"],
  ])("with %s has the fingerprint that former versions have stored", async (_what, posted, fingerprint) => {
    await under("k", posted);
    expect(await env.DB.prepare("SELECT fingerprint FROM idempotency_keys").first("fingerprint")).toBe(
      fingerprint,
    );
  });

  test("costs no more round trips with one database", async () => {
    await accept(world.services, [event()]);
    world.d1.used();
    await under("k", event());
    expect(world.d1.used().roundTrips).toBe(1);
  });

  test("that comes again is counted and logged as one request, with its tenant", async () => {
    const posted = [event({ tenant: "a" }), event(), event()];
    await under("k", ...posted);
    expect(world.logged("deduplicated")).toEqual([]);
    await under("k", ...posted);
    await world.settled();
    expect(world.logged("deduplicated")).toEqual([{ what: "deduplicated", tenant: TENANT, events: 3 }]);
    expect(await repeatsCounted()).toBe(1);
  });

  test("that comes again is answered although it cannot be counted", async () => {
    await under("k", event());
    world.d1.failing((sql) => (/INSERT INTO counts/i.test(sql) ? "before" : undefined));
    expect((await under("k", event())).kind).toBe("replayed");
    await world.settled();
    expect(world.logged("count_failed")).toHaveLength(1);
  });
});

describe("intake", () => {
  /** An intake that answers as given, and its calls. */
  function intakeOf(answer: () => unknown) {
    const asked: { name: string; options: unknown; version: number; database: number; entry: Entry }[] = [];
    const intake = {
      idFromName: (name: string) => name,
      get: (name: string, options: unknown) => ({
        accept: async (version: number, database: number, entry: Entry) => {
          asked.push({ name, options, version, database, entry });
          return answer();
        },
      }),
    } as unknown as Services["intake"];
    return { services: { ...world.services, intake } satisfies Services, asked };
  }
  const outcome: CommitResult = { kind: "accepted", events: [{ id: 7, plan: [] }] };
  const done = { kind: "done", outcome };
  const lost = () => {
    throw new Error("Network connection lost.");
  };
  const configured = (services: Services, also: Partial<Services["config"]>): Services => ({
    ...services,
    config: { ...services.config, ...also },
  });

  test("gets a single event complete, and its answer is the result", async () => {
    const { services, asked } = intakeOf(() => done);
    const options = { tags: ["t"], headers: { "x-a": "1" } };
    const posted = event({ tenant: "other", deliverAt: START + 5_000, options });
    expect(await accept(services, [posted], "k")).toEqual(outcome);
    expect(asked).toEqual([
      {
        ...{ name: "0.0", options: undefined, version: INTAKE_VERSION, database: 0 },
        entry: {
          token: expect.stringMatching(/^[0-9a-z]{16}$/),
          events: [postedEvent(posted)],
          key: { key: "k", fingerprint: expect.stringMatching(/^[0-9a-f]{64}$/) },
          deadlineAt: START + WAIT_MS,
          triedAt: undefined,
        },
      },
    ]);
    expect(await storedTypes()).toEqual([]);
  });

  test("is not called for a request of several events", async () => {
    const { services, asked } = intakeOf(() => done);
    expect(await accept(services, [event(), event()])).toMatchObject({ events: [{}, {}] });
    expect(asked).toEqual([]);
    expect(await storedTypes()).toHaveLength(2);
  });

  test.each([
    [0, 0],
    [0.49, 0],
    [0.5, 1],
    [0.999, 1],
  ])("is one of the tenant's two objects, at random (%d), in the configured place", async (chance, which) => {
    const { services, asked } = intakeOf(() => done);
    world.chance(chance);
    await accept(configured(services, { intakeShards: 4, intakeLocation: "weur" }), [event()]);
    const name = `0.${shardsOf(TENANT, 4)[which]}`;
    expect(asked).toMatchObject([{ name, options: { locationHint: "weur" }, version: INTAKE_VERSION }]);
  });

  test("is called once more after a pause, with the time of the first call", async () => {
    const { services, asked } = intakeOf(lost);
    for (const [chance, pause] of [
      [0, 200],
      [0.5, 150],
    ] as const) {
      world.chance(chance);
      const begunAt = world.clock.now();
      const accepting = accept(services, [event()], "k");
      await world.clock.asleep(pause);
      world.clock.pass(pause);
      expect(await accepting).toEqual({ kind: "unavailable" });
      expect(asked.splice(0).map(({ entry }) => entry.triedAt)).toEqual([undefined, begunAt]);
    }
    expect(world.logged("intake_unreachable").map(({ attempt }) => attempt)).toEqual([1, 2, 1, 2]);
    expect(await storedTypes()).toEqual([]);
  });

  test("is not called again once nothing waits for its answer", async () => {
    const { services, asked } = intakeOf(() => {
      world.clock.pass(WAIT_MS - 150);
      return lost();
    });
    const accepting = accept(services, [event()]);
    await world.clock.asleep(150);
    world.clock.pass(150);
    expect(await accepting).toEqual({ kind: "unavailable" });
    expect(asked).toHaveLength(1);
    expect(await storedTypes()).toEqual([]);
  });

  test("that is full after a lost answer causes no direct commit", async () => {
    const answers: (() => unknown)[] = [lost, () => ({ kind: "full" })];
    const { services } = intakeOf(() => answers.shift()?.());
    const accepting = accept(services, [event()]);
    await world.clock.asleep(150);
    world.clock.pass(150);
    expect(await accepting).toEqual({ kind: "unavailable" });
    expect(await storedTypes()).toEqual([]);
  });
});

describe("events that are accepted together", () => {
  let tokens = 0;
  const single = (also: Partial<GivenSingle> = {}): GivenSingle => ({
    ...{ ...event(), token: `token-${tokens++}`, sentAt: START, isRepeated: false },
    ...also,
  });
  const handOver = (...posted: GivenSingle[]) => acceptEach(world.services, posted);
  const contentOf = (bytes: number) => new Content("text/csv", new Uint8Array(bytes));
  const HALF_MIB = 512 * 1024;

  test("each have their own result, in order, and are put on the queue", async () => {
    const id = await newDestination();
    const wrong = single({ type: "c", options: { destinationIds: ["dst_unknown"] } });
    const results = await handOver(
      single({ type: "a" }),
      single({ type: "b", key: "k" }),
      wrong,
      single({ type: "d" }),
    );
    expect(kindsOf(results)).toEqual(["accepted", "accepted", "invalid", "accepted"]);
    const { results: rows } = await env.DB.prepare("SELECT id, type FROM events").all();
    const types = new Map(rows.map((row) => [row.id, row.type]));
    expect(results.map((result) => idsOf(result).map((number) => types.get(number)))).toEqual([
      ["a"],
      ["b"],
      [],
      ["d"],
    ]);
    expect(results[0]).toMatchObject({ events: [{ plan: [id] }] });
    expect(await enqueued()).toEqual([...new Set(rows.map((row) => Math.floor(Number(row.id) / 128)))]);
  });

  test.each<[string, number[], number]>([
    ["of a mebibyte", [HALF_MIB, HALF_MIB], 1],
    ["of a byte more", [HALF_MIB, HALF_MIB, 1], 2],
    ["that each are larger", [HALF_MIB + 1, HALF_MIB + 1, 2 * HALF_MIB + 1], 3],
    ["that fill up what is left", [HALF_MIB + 1, HALF_MIB - 2, 1, HALF_MIB, 1], 2],
  ])("%s are committed in portions of a mebibyte (%j)", async (_what, sizes, expected) => {
    const commits = countCommits();
    const results = await handOver(...sizes.map((bytes) => single({ data: contentOf(bytes) })));
    expect(kindsOf(results)).toEqual(sizes.map(() => "accepted"));
    expect(commits()).toBe(expected);
  });

  test("are unavailable if their commit fails, unlike those of other commits", async () => {
    let commits = 0;
    world.d1.failing((sql) => {
      if (!sql.includes("INSERT INTO bundles")) return undefined;
      commits += 1;
      if (commits === 1) throw new Error("D1_ERROR: D1 DB is overloaded.");
      return undefined;
    });
    const [large, small] = [single({ data: contentOf(2 * HALF_MIB) }), single()];
    expect(kindsOf(await handOver(large, small))).toEqual(["unavailable", "accepted"]);
  });

  test("are found when they are accepted again, whatever has changed since", async () => {
    const id = await newDestination();
    const posted = ["a", "b"].map((type) => single({ type, options: { destinationIds: [id] } }));
    const first = await handOver(...posted);
    await enqueued();
    await execute("UPDATE destinations SET deleted_at = 1");
    const again = await handOver(...posted.map((one) => ({ ...one, isRepeated: true })));
    expect(kindsOf(again)).toEqual(["accepted", "accepted"]);
    expect(again.map(idsOf)).toEqual(first.map(idsOf));
    expect(kindsOf(await handOver(...posted.map((one) => ({ ...one, token: `${one.token} new` }))))).toEqual([
      "invalid",
      "invalid",
    ]);
    expect(await storedTypes()).toEqual(["a", "b"]);
  });

  test("cost one round trip if they come for the first time", async () => {
    await handOver(single());
    world.d1.used();
    await handOver(single({ key: "k" }), single());
    expect(world.d1.used().roundTrips).toBe(1);
  });

  test("are counted individually, if they repeat a key", async () => {
    await accept(world.services, [event()], "k");
    const keyed = [
      single({ key: "k" }),
      single({ key: "new" }),
      single(),
      single({ key: "k", tenant: "other" }),
    ];
    const conflict = single({ key: "k", data: 2 });
    const kinds = kindsOf(await handOver(...keyed, conflict, single({ key: "k" })));
    expect(kinds).toEqual(["replayed", "accepted", "accepted", "accepted", "conflict", "replayed"]);
    await world.settled();
    expect(world.logged("deduplicated")).toEqual(
      Array(2).fill({ what: "deduplicated", tenant: TENANT, events: 1 }),
    );
    expect(await repeatsCounted()).toBe(2);
  });

  test.each([
    ["places", "oops"],
    ["places", "{}"],
    ["places", "[7]"],
    ["bundles", "[null]"],
  ])("are stored beside one whose key has %s that were edited into %s, which is a conflict", async (column, value) => {
    await handOver(single({ key: "k" }));
    await execute(`UPDATE idempotency_keys SET ${column} = ?1`, value);
    expect(kindsOf(await handOver(single({ key: "k" }), single({ key: "new" })))).toEqual([
      "conflict",
      "accepted",
    ]);
  });
});

describe("operational events", () => {
  const keyed = (key: string, also: Partial<GivenEvent> = {}): GivenKeyed => ({ ...event(also), key });
  const report = (...events: GivenKeyed[]) => acceptOperational(world.services, events);

  test("are stored if a destination takes them, once with their keys, and put on the queue", async () => {
    await newDestination({ tenant: "op", eventTypes: ["a"], filter: { n: 1 } });
    await newDestination({ tenant: "other", eventTypes: ["b"] });
    const events = [
      keyed("1", { tenant: "op", type: "a" }),
      keyed("2", { tenant: "op", type: "b" }),
      keyed("3", { tenant: "op", type: "a", data: { n: 2 } }),
      keyed("4", { tenant: "other", type: "b" }),
      keyed("5", { tenant: "nobody", type: "a" }),
    ];
    await report(...events);
    expect((await storedTypes()).sort()).toEqual(["a", "b"]);
    const { results } = await env.DB.prepare("SELECT tenant, key FROM idempotency_keys ORDER BY key").all();
    expect(results).toEqual([
      { tenant: "op", key: "1" },
      { tenant: "other", key: "4" },
    ]);
    expect((await enqueued()).length).toBeGreaterThan(0);
    await report(...events);
    await report(keyed("1", { tenant: "op", type: "a", data: { n: 1, seen: "later" } }));
    expect(await storedTypes()).toHaveLength(2);
  });

  test("go to the current destinations, whatever an isolate has cached", async () => {
    await report(keyed("1", { type: "a" }));
    await newDestination();
    await report(keyed("2", { type: "b" }));
    expect(await storedTypes()).toEqual(["b"]);
  });

  test("are not validated against a schema of their type", async () => {
    await newDestination();
    await execute(
      "REPLACE INTO event_types (name, schema, validates, created_at, updated_at) VALUES ('order.paid', 'false', 1, 0, 0)",
    );
    await report(keyed("1"));
    expect(await storedTypes()).toEqual(["order.paid"]);
    await execute("DELETE FROM event_types");
  });

  test("that cannot be stored fail, even if others can", async () => {
    await newDestination();
    await execute(
      "CREATE TRIGGER refuse BEFORE INSERT ON bundles WHEN new.header LIKE '%poison%' BEGIN SELECT RAISE(ABORT, 'poison'); END",
    );
    try {
      await expect(report(keyed("1"), keyed("2", { type: "poison" }))).rejects.toThrow("cannot be reached");
      expect(await storedTypes()).toEqual(["order.paid"]);
    } finally {
      await execute("DROP TRIGGER refuse");
    }
  });
});
