/** Intake commits for all callers at once, and whatever happens to it, nothing is lost and nothing is stored twice. */

import { abortAllDurableObjects } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { CommitResult, PostedEvent } from "../../src/ingest/bundle.ts";
import { WAIT_MS } from "../../src/ingest/commit.ts";
import { GroupCommit, type Intake } from "../../src/ingest/intake.ts";
import { INTAKE_VERSION, type IntakeResult, type IntakeRpc } from "../../src/ingest/intake-protocol.ts";
import { RoutingCache } from "../../src/ingest/routing-cache.ts";
import { sweep } from "../../src/jobs/sweep.ts";
import type { DeliveryMessage } from "../../src/queue-messages.ts";
import type { Services } from "../../src/services.ts";
import { accept, type GivenEvent } from "../support/accept.ts";
import { playedD1 } from "../support/played-d1.ts";
import {
  calm,
  execute,
  GRACE_MS,
  newDestination,
  newWorld,
  TENANT,
  turn,
  type World,
} from "../support/world.ts";

/** The columns of a destination that gets every event. */
const TAKES_ALL = { types: null, channels: null, filter: null, body: "envelope" };

type IntakeRequest = Parameters<IntakeRpc["accept"]>;
type Accept = (...request: IntakeRequest) => Promise<IntakeResult>;

let world: World;
/** Before second calls, ms. */
let pauses: number[];
beforeEach(async () => {
  world = await newWorld();
  pauses = [];
});

afterEach(() => {
  vi.restoreAllMocks();
});

const event = (type = "a", tenant = TENANT, data: unknown = {}): GivenEvent => ({ tenant, type, data });

/** An object that has just started: it shares nothing with others but the database. */
const newIntake = (also: Partial<Services> = {}) =>
  new GroupCommit({ ...world.services, routing: new RoutingCache(), ...also });

/** The world with an intake that answers the first calls in these ways, one after the other, and later ones in the last. */
function withIntake(...ways: readonly Accept[]): Services {
  let call = 0;
  const stub = {
    accept: (...request: IntakeRequest) => (ways[Math.min(call++, ways.length - 1)] as Accept)(...request),
  };
  const intake = {
    idFromName: (name: string) => name,
    get: () => stub,
  } as unknown as DurableObjectNamespace<Intake>;
  return { ...world.services, sleep: shortPauses, intake };
}

const encoder = new TextEncoder();
let tokens = 0;

/** A request with a token of its own. */
function request(
  event: Partial<PostedEvent> = {},
  { version = INTAKE_VERSION, deadlineAt = world.clock.now() + WAIT_MS } = {},
): IntakeRequest {
  tokens += 1;
  const posted = { tenant: TENANT, type: "a", body: encoder.encode('{"data":{}}'), ...event };
  return [version, 0, { token: `token ${tokens}`, events: [posted], deadlineAt }];
}

/** Until it is released, all calls wait. Then it is overloaded. */
function heldDatabase() {
  const { promise: held, resolve: letGo } = Promise.withResolvers<void>();
  const db = playedD1(async (sql) => {
    if (sql.includes("max(id)")) return [{ id: 0 }];
    await held;
    throw new Error("D1_ERROR: D1 DB is overloaded.");
  });
  return { db, letGo };
}

/** Timeouts wait for the test's clock; the pause before a second call is over at once. */
const shortPauses: Services["sleep"] = (ms, signal) => {
  if (signal) return world.services.sleep(ms, signal);
  pauses.push(ms);
  return Promise.resolve();
};

const to =
  (intake: GroupCommit): Accept =>
  (...request) =>
    intake.accept(...request);

const fails = async (): Promise<never> => {
  throw new Error("Network connection lost.");
};

const overloaded = async (): Promise<never> => {
  throw Object.assign(new Error("Durable Object is overloaded."), { overloaded: true, retryable: true });
};

/** Commits, and the answer gets lost. */
const losesAnswer =
  (intake: GroupCommit): Accept =>
  async (...request) => {
    await intake.accept(...request);
    throw new Error("Network connection lost.");
  };

const idsOf = (outcomes: readonly CommitResult[]) =>
  outcomes.flatMap((outcome) => ("events" in outcome ? outcome.events.map(({ id }) => id) : []));

const kindOf = (answer: IntakeResult) => (answer.kind === "done" ? answer.outcome.kind : answer.kind);

const stored = async () =>
  (await env.DB.prepare("SELECT id FROM events ORDER BY id").all<{ id: number }>()).results.map(
    ({ id }) => id,
  );

const bundles = async () =>
  (await env.DB.prepare("SELECT count(*) AS n FROM bundles").first<number>("n")) ?? -1;

describe("many concurrent posts", () => {
  test("share far fewer commits, and each gets its own event", async () => {
    const destination = await newDestination({ tenant: "tenant-3" });
    const services = withIntake(to(newIntake()));
    const tenants = Array.from({ length: 200 }, (_, i) => `tenant-${i % 20}`);
    world.d1.used();
    const outcomes = await Promise.all(
      tenants.map((tenant, i) => accept(services, [event(`type-${i}`, tenant, { i })])),
    );
    expect(outcomes.map(({ kind }) => kind)).toEqual(Array(200).fill("accepted"));
    const ids = idsOf(outcomes);
    expect(new Set(ids).size).toBe(200);
    expect(await bundles()).toBeLessThanOrEqual(5);
    expect(world.d1.used().roundTrips).toBeLessThanOrEqual(10);
    const { results } = await env.DB.prepare("SELECT id, tenant, type FROM events").all();
    const byId = new Map(results.map((row) => [row.id, `${row.tenant} ${row.type}`]));
    expect(ids.map((id) => byId.get(id))).toEqual(tenants.map((tenant, i) => `${tenant} type-${i}`));
    const plans = outcomes.map((outcome) => "events" in outcome && outcome.events[0]?.plan);
    expect(plans).toEqual(tenants.map((tenant) => (tenant === "tenant-3" ? [destination] : [])));
  });

  test("each get their own options, and only one that names an unknown object is refused", async () => {
    const [a, b] = [await newDestination(), await newDestination()];
    const services = withIntake(to(newIntake()));
    const outcomes = await Promise.all([
      accept(services, [event()]),
      accept(services, [{ ...event(), options: { destinationIds: [b], tags: ["t"] } }]),
      accept(services, [{ ...event(), options: { destinationIds: [a, "dst_unknown"] } }]),
      accept(services, [{ ...event(), options: { headers: { "x-a": "1" }, ttlSeconds: 60 } }]),
    ]);
    const plans = outcomes.map((one) => "events" in one && one.events[0]?.plan.toSorted());
    expect(plans).toEqual([[a, b].sort(), [b], false, [a, b].sort()]);
    expect(outcomes[2]).toMatchObject({
      kind: "invalid",
      faults: [{ place: 0, field: "destination_ids[1]" }],
    });
    expect(await bundles()).toBeLessThanOrEqual(2);
  });

  test("are not delayed by a tenant whose event D1 has refused, whose events are committed separately for a minute", async () => {
    let commits = 0;
    const { db } = world.services;
    const refusing = {
      prepare: (sql: string) => {
        const statement = db.prepare(sql);
        const bind = statement.bind.bind(statement);
        return Object.assign(statement, {
          bind: (...values: unknown[]) => Object.assign(bind(...values), { sql, values }),
        });
      },
      batch: async (statements: (D1PreparedStatement & { sql?: string; values?: unknown[] })[]) => {
        const inserts = statements.filter(({ sql }) => sql?.includes("INSERT INTO bundles"));
        if (inserts.length > 0) commits += 1;
        if (inserts.some(({ values = [] }) => values.join().includes("faulty-tenant")))
          throw new Error("D1_ERROR: string or blob too big: SQLITE_TOOBIG");
        return db.batch(statements);
      },
    } as unknown as D1Database;
    const services = withIntake(to(newIntake({ db: refusing })));
    const post = async () => {
      commits = 0;
      const tenants = Array.from({ length: 16 }, (_, i) => (i === 7 ? "faulty-tenant" : `tenant-${i}`));
      const outcomes = await Promise.all(tenants.map((tenant) => accept(services, [event("type", tenant)])));
      expect(outcomes.map(({ kind }) => kind)).toEqual(
        tenants.map((tenant) => (tenant === "faulty-tenant" ? "unavailable" : "accepted")),
      );
      return commits;
    };
    const searched = await post();
    expect(searched).toBeGreaterThan(5);
    // The ones before it, itself, and the ones after it.
    expect(await post()).toBeLessThanOrEqual(4);
    world.clock.pass(60_000);
    expect(await post()).toBeGreaterThan(5);
    expect(await stored()).toHaveLength(3 * 15);
  });

  test("are committed apart from a tenant whose event D1 has refused for exactly a minute, in order", async () => {
    const intake = newIntake();
    const post = (...tenants: string[]) =>
      Promise.all(tenants.map((tenant) => intake.accept(...request({ tenant }))));
    const tenantsByBundle = async () => {
      const { results } = await env.DB.prepare(
        "SELECT group_concat(tenant) AS tenants FROM events GROUP BY bundle_id ORDER BY bundle_id",
      ).all<{ tenants: string }>();
      return results.map(({ tenants }) => tenants);
    };
    await execute(
      "CREATE TRIGGER refuse BEFORE INSERT ON bundles WHEN new.header LIKE '%them%' BEGIN SELECT RAISE(ABORT, 'poison'); END",
    );
    const refused = await post("them");
    await execute("DROP TRIGGER refuse");
    expect(refused.map(kindOf)).toEqual(["unavailable"]);
    world.clock.pass(59_999);
    await post("a", "them", "b", "c");
    world.clock.pass(1);
    await post("d", "them", "e");
    expect(await tenantsByBundle()).toEqual(["a", "them", "b,c", "d,them,e"]);
  });

  test("have their messages put on the queue, however many were before them", async () => {
    await newDestination();
    const intake = newIntake();
    for (let i = 0; i < 4; i++) {
      await intake.accept(...request());
      await world.settled();
      expect(world.deliveryQueue.taken()).toHaveLength(1);
    }
  });

  test("put their messages on the queue by no more than two sends at once", async () => {
    await newDestination();
    let atOnce = 0;
    let most = 0;
    const answers: (() => void)[] = [];
    const deliveries = {
      sendBatch: () => {
        most = Math.max(most, ++atOnce);
        return new Promise<void>((resolve) => {
          answers.push(() => {
            atOnce -= 1;
            resolve();
          });
        });
      },
    } as unknown as Services["deliveries"];
    const services = withIntake(to(newIntake({ deliveries })));
    for (let i = 0; i < 6; i++) await accept(services, [event()]);
    expect(most).toBe(2);
    while (answers.length > 0) {
      answers.shift()?.();
      await calm();
    }
    // Two sends of one bundle each, and one for the four that gathered meanwhile.
    expect(most).toBe(2);
    expect(await stored()).toHaveLength(6);
  });

  test("are refused when there are too many, and refused ones are not stored", async () => {
    let letGo = () => {};
    const held = new Promise<void>((resolve) => {
      letGo = resolve;
    });
    const { db } = world.services;
    const slow = {
      prepare: db.prepare.bind(db),
      batch: async (statements: D1PreparedStatement[]) => {
        await held;
        return db.batch(statements);
      },
    } as unknown as D1Database;
    const services = withIntake(to(newIntake({ db: slow })));
    const big = "x".repeat(250_000);
    const posting = Array.from({ length: 100 }, () => accept(services, [event("a", TENANT, big)]));
    await calm();
    letGo();
    const outcomes = await Promise.all(posting);
    const accepted = outcomes.filter(({ kind }) => kind === "accepted").length;
    expect(accepted).toBeGreaterThan(50);
    expect(outcomes.filter(({ kind }) => kind === "unavailable")).toHaveLength(100 - accepted);
    expect(outcomes.some(({ kind }) => kind === "unavailable")).toBe(true);
    expect(await stored()).toHaveLength(accepted);
  });

  test("get no commit once they no longer wait", async () => {
    const now = world.clock.now();
    const intake = newIntake();
    const deadlines = [now - 1, now, now + 1_000];
    const answers = await Promise.all(
      deadlines.map((deadlineAt) => intake.accept(...request({}, { deadlineAt }))),
    );
    expect(answers.map(kindOf)).toEqual(["unavailable", "accepted", "accepted"]);
    expect(await stored()).toHaveLength(2);
  });
});

describe("the events that wait for a commit", () => {
  /** How many entries each commit had that the database refused. */
  const commits = () => world.logged("commit_failed").map(({ entries }) => entries);
  const bodyOf = (bytes: number) => ({ body: new Uint8Array(bytes) });
  const MIB = 1024 * 1024;

  test("are at most five thousand, of which a thousand are committed at a time", async () => {
    const { db, letGo } = heldDatabase();
    const intake = newIntake({ db });
    const first = intake.accept(...request());
    await calm();
    const answers = Array.from({ length: 5_001 }, () => intake.accept(...request()));
    expect(await answers[5_000]).toEqual({ kind: "full" });
    letGo();
    const kinds = (await Promise.all([first, ...answers])).map(kindOf);
    expect(kinds).toEqual([...Array(5_001).fill("unavailable"), "full"]);
    expect(commits()).toEqual([1, 1_000, 1_000, 1_000, 1_000, 1_000]);
  });

  test("have at most sixteen mebibytes, with their headers, and make room once committed", async () => {
    const { db, letGo } = heldDatabase();
    const intake = newIntake({ db });
    const first = intake.accept(...request(bodyOf(16 * MIB)));
    await calm();
    const options = { headers: { "x-a": "1" } };
    const answers = [8 * MIB, 8 * MIB - 11].map((bytes) => intake.accept(...request(bodyOf(bytes))));
    expect(await intake.accept(...request({ ...bodyOf(1), options }))).toEqual({ kind: "full" });
    answers.push(intake.accept(...request({ ...bodyOf(0), options })));
    expect(await intake.accept(...request(bodyOf(1)))).toEqual({ kind: "full" });
    letGo();
    expect((await Promise.all([first, ...answers])).map(kindOf)).toEqual(Array(4).fill("unavailable"));
    const again = [intake.accept(...request(bodyOf(16 * MIB))), intake.accept(...request(bodyOf(1)))];
    expect((await Promise.all(again)).map(kindOf)).toEqual(["unavailable", "full"]);
  });

  test("are committed two mebibytes at a time, or as one larger event", async () => {
    const { db, letGo } = heldDatabase();
    const intake = newIntake({ db });
    const sizes = [0, MIB, MIB, 1, 3 * MIB, MIB, MIB + 1];
    const [first, ...others] = sizes.map((bytes) => request(bodyOf(bytes)));
    const answers = [intake.accept(...(first as IntakeRequest))];
    await calm();
    answers.push(...others.map((other) => intake.accept(...other)));
    letGo();
    await Promise.all(answers);
    // The first alone; two of a mebibyte; the next byte; the large one; the last two, which are too large together.
    expect(commits()).toEqual([1, 2, 1, 1, 1, 1]);
  });

  test("are not refused for ever by an object whose commits have failed", async () => {
    const { db, letGo } = heldDatabase();
    const intake = newIntake({ db });
    letGo();
    for (let i = 0; i < 3; i++) expect(kindOf(await intake.accept(...request()))).toBe("unavailable");
    expect(commits()).toEqual([1, 1, 1]);
  });

  /** Posts an event, and two more as soon as the first one's commit is under way. */
  function postBehind(intake: GroupCommit): Promise<IntakeResult>[] {
    const answers: Promise<IntakeResult>[] = [];
    world.d1.failing((sql) => {
      if (answers.length === 1 && sql.includes("INSERT INTO bundles"))
        answers.push(intake.accept(...request()), intake.accept(...request()));
      return undefined;
    });
    answers.push(intake.accept(...request()));
    return answers;
  }

  test("wait briefly for others if two have gathered", async () => {
    const intake = newIntake({ config: { ...world.services.config, intakeLingerMs: 7 } });
    const answers = postBehind(intake);
    await world.clock.asleep(7);
    answers.push(intake.accept(...request()));
    await calm();
    expect(await bundles()).toBe(1);
    world.clock.pass(7);
    expect((await Promise.all(answers)).map(kindOf)).toEqual(Array(4).fill("accepted"));
    expect(await bundles()).toBe(2);
  });

  test.each([
    ["one alone, whatever the linger", 7, (intake: GroupCommit) => [intake.accept(...request())]],
    ["any number, without a linger", 0, postBehind],
  ])("do not wait for others: %s", async (_which, intakeLingerMs, post) => {
    const slept: number[] = [];
    const sleep: Services["sleep"] = (ms, signal) => {
      if (!signal) slept.push(ms);
      return world.services.sleep(ms, signal);
    };
    const answers = post(newIntake({ sleep, config: { ...world.services.config, intakeLingerMs } }));
    await answers[0];
    expect((await Promise.all(answers)).map(kindOf)).toEqual(answers.map(() => "accepted"));
    expect(slept).toEqual([]);
  });
});

describe("an event that intake commits", () => {
  test("is routed by its data, or as content only by its type and channels", async () => {
    const one = await newDestination({ filter: { n: 1 }, body: "data" });
    const all = await newDestination({ body: "data" });
    const intake = newIntake();
    const csv = { body: encoder.encode("n;1"), options: { contentType: "text/csv" } };
    const answers = await Promise.all([
      intake.accept(...request({ body: encoder.encode('{"data":{"n":1}}') })),
      intake.accept(...request({ body: encoder.encode('{"data":{"n":2}}') })),
      intake.accept(...request(csv)),
    ]);
    const plans = answers.map(
      (answer) => answer.kind === "done" && "events" in answer.outcome && answer.outcome.events[0]?.plan,
    );
    expect(plans).toEqual([[one, all].sort(), [all], [all]]);
  });

  test("reads no earlier bundles, in an object that has just started", async () => {
    for (let i = 0; i < 20; i++) await accept(world.services, [event()]);
    await newIntake().accept(...request());
    world.d1.used();
    expect(kindOf(await newIntake().accept(...request()))).toBe("accepted");
    expect(world.d1.used().rowsRead).toBeLessThan(20);
  });
});

describe("intake's answer", () => {
  test.each([
    ["was lost before it did anything", () => fails],
    ["was lost after its commit", () => losesAnswer(newIntake())],
  ])("that %s is requested again, and the event is stored once", async (_what, first) => {
    const outcome = await accept(withIntake(first(), to(newIntake())), [event()]);
    expect(outcome.kind).toBe("accepted");
    expect(await stored()).toEqual(idsOf([outcome]));
    expect(pauses).toEqual([150]);
  });

  test("lost by an object that has continued to commit, is found by the same object", async () => {
    const intake = newIntake();
    const busy: Accept = async (...request) => {
      await intake.accept(...request);
      for (let i = 0; i < 5; i++) await accept(withIntake(to(intake)), [event("neighbour")]);
      throw new Error("Network connection lost.");
    };
    const outcome = await accept(withIntake(busy, to(intake)), [event()]);
    expect(outcome.kind).toBe("accepted");
    expect(await stored()).toHaveLength(6);
  });

  test("permanently lost is unavailable, because the object may still commit the event", async () => {
    const outcome = await accept(withIntake(fails), [event()]);
    expect(outcome).toEqual({ kind: "unavailable" });
    expect(await stored()).toEqual([]);
  });

  test("permanently lost after its commit is unavailable, and a repeat with the key finds the event", async () => {
    const intake = newIntake();
    expect(await accept(withIntake(losesAnswer(intake)), [event()], "k")).toEqual({ kind: "unavailable" });
    const again = await accept(withIntake(to(intake)), [event()], "k");
    expect(again.kind).toBe("replayed");
    expect(await stored()).toEqual(idsOf([again]));
  });

  test("that it is overloaded, or does not know the version, leads to a direct commit", async () => {
    const unknown: Accept = async () => ({ kind: "unknown" });
    for (const way of [overloaded, unknown])
      expect((await accept(withIntake(way), [event()])).kind).toBe("accepted");
    expect(await stored()).toHaveLength(2);
  });

  test.each([
    ["overloaded", overloaded],
    ["of another version", (async () => ({ kind: "unknown" })) as Accept],
  ])("that it is %s, after a lost one, leads to no direct commit", async (_what, second) => {
    expect(await accept(withIntake(fails, second), [event()])).toEqual({ kind: "unavailable" });
    expect(await stored()).toEqual([]);
  });

  test("that it is full is unavailable, and leads to no direct commit", async () => {
    const full: Accept = async () => ({ kind: "full" });
    expect(await accept(withIntake(full), [event()])).toEqual({ kind: "unavailable" });
    expect(await stored()).toEqual([]);
  });

  test("is awaited until the deadline and no longer", async () => {
    const posting = accept(
      withIntake(() => new Promise(() => {})),
      [event()],
    );
    await calm();
    await world.clock.asleep(WAIT_MS);
    world.clock.pass(WAIT_MS);
    expect(await posting).toEqual({ kind: "unavailable" });
  });

  test("of an unknown version does not count as a commit", async () => {
    const versions = [INTAKE_VERSION, INTAKE_VERSION - 1, INTAKE_VERSION + 1, Number.NaN];
    const answers = await Promise.all(
      versions.map((version) => newIntake().accept(...request({}, { version }))),
    );
    expect(answers.map(kindOf)).toEqual(["accepted", "unknown", "unknown", "unknown"]);
  });

  test("to a Worker with the former code, whose request is one argument, does not count as a commit", async () => {
    const former = { version: 2, database: 0, token: "t", tenant: TENANT, type: "a", deadlineAt: Infinity };
    const accept = newIntake().accept as (...request: unknown[]) => Promise<IntakeResult>;
    expect(await accept.call(newIntake(), former)).toEqual({ kind: "unknown" });
    expect(await stored()).toEqual([]);
  });

  test("of an object with the former code, which reads one argument, does not count as a commit, and nothing is lost", async () => {
    const destination = await newDestination();
    await newDestination();
    const former = async (request: { version: number }) =>
      request.version <= 2 ? { kind: "done", outcome: { kind: "conflict" } } : { kind: "unknown" };
    const services = withIntake(former as unknown as Accept);
    const outcome = await accept(services, [{ ...event(), options: { destinationIds: [destination] } }]);
    expect(outcome).toMatchObject({ kind: "accepted", events: [{ plan: [destination] }] });
  });
});

describe("two objects after a deployment", () => {
  test("store an event once that one is committing while the other gets it again", async () => {
    await accept(world.services, [event("warm-up")]);
    let letGo = () => {};
    const held = new Promise<void>((resolve) => {
      letGo = resolve;
    });
    const { db } = world.services;
    let isHeld = false;
    const slow = {
      prepare: db.prepare.bind(db),
      batch: async (statements: D1PreparedStatement[]) => {
        if (isHeld) await held;
        return db.batch(statements);
      },
    } as unknown as D1Database;
    const [old, next] = [newIntake({ db: slow }), newIntake()];
    await accept(withIntake(to(old)), [event("warm-up")]);
    isHeld = true;
    const underWay = accept(withIntake(to(old)), [event("under way")]);
    await calm();
    // It gathers behind the commit under way, the connection breaks, and the new object gets it again.
    let pending: Promise<unknown> | undefined;
    const breaks: Accept = (...request) => {
      pending = old.accept(...request);
      return fails();
    };
    const outcome = await accept(withIntake(breaks, to(next)), [event("twice")]);
    letGo();
    await Promise.all([underWay, pending]);
    expect(outcome.kind).toBe("accepted");
    const { results } = await env.DB.prepare("SELECT id FROM events WHERE type = 'twice'").all<{
      id: number;
    }>();
    expect(results.map(({ id }) => id)).toEqual(idsOf([outcome]));
  });

  test("store one event with one key, whichever is called", async () => {
    const objects = [newIntake(), newIntake()];
    const outcomes = await Promise.all(
      Array.from({ length: 30 }, (_, i) => {
        const object = objects[i % 2] as GroupCommit;
        return accept(withIntake(to(object)), [event()], "k");
      }),
    );
    expect(new Set(idsOf(outcomes)).size).toBe(1);
    expect(outcomes.filter(({ kind }) => kind === "accepted")).toHaveLength(1);
    expect(await stored()).toHaveLength(1);
  });
});

describe("a request that comes twice to one object", () => {
  test("while the first is still gathering is one event", async () => {
    const intake = newIntake();
    const twice = request();
    const [first, again] = await Promise.all([intake.accept(...twice), intake.accept(...twice)]);
    expect(first).toEqual(again);
    expect(await stored()).toHaveLength(1);
  });
});

describe("bundles that were committed and not sent", () => {
  test("are found by the sweep, and delivered", async () => {
    const destination = await newDestination();
    world.deliveryQueue.break(true);
    const outcome = await accept(withIntake(to(newIntake())), [event()]);
    await world.settledThroughPauses();
    expect(outcome.kind).toBe("accepted");
    expect(world.logged("enqueue_failed")).toHaveLength(1);
    world.deliveryQueue.break(false);
    world.clock.pass(GRACE_MS);
    await sweep.run(world.services);
    world.clock.pass(1_000);
    await world.drain(destination);
    await world.settled();
    expect(world.receiver.calls).toHaveLength(1);
  });
});

test("while the queue hangs, ten thousand bundles wait for it, and those beyond are left to the sweep", async () => {
  let last = 0;
  const db = playedD1((sql) => {
    if (sql.includes("INSERT INTO bundles")) return [{ id: ++last }];
    if (sql.includes("JOIN destinations")) return [{ tenant: TENANT, id: "dst_1", ...TAKES_ALL }];
    return sql.includes("revision") ? [{ tenant: TENANT, revision: 1 }] : [];
  });
  const answers: (() => void)[] = [];
  const sent: number[] = [];
  const deliveries = {
    sendBatch: (messages: readonly { body: DeliveryMessage }[]) => {
      sent.push(...messages.flatMap(({ body }) => body.bundles.map(({ bundle }) => bundle)));
      return new Promise<void>((resolve) => answers.push(resolve));
    },
  } as unknown as Services["deliveries"];
  const intake = newIntake({ db, deliveries });
  /** Each in a bundle of its own, because each is due at another time. */
  const post = async (count: number) => {
    const due = Array.from({ length: count }, (_, i) => world.clock.now() + i + 1);
    await Promise.all(due.map((deliverAt) => intake.accept(...request({ deliverAt }))));
  };
  for (let i = 0; i < 2; i++) await post(1);
  for (let i = 0; i < 9; i++) await post(1_000);
  await post(999);
  expect(last).toBe(10_001);
  expect(world.logged("bundles_not_enqueued")).toEqual([]);
  await post(4);
  expect(world.logged("bundles_not_enqueued")).toMatchObject([{ bundles: 3 }]);
  for (const answer of answers) {
    answer();
    await calm();
  }
  expect(sent.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 10_002 }, (_, i) => i + 1));
});

describe("the object itself", () => {
  const services = () => ({ ...world.services, sleep: shortPauses, intake: env.INTAKE });

  /** Holds every commit of the object until `letGo`; its timeouts, which are in real time, never end meanwhile. */
  function heldCommits() {
    const { promise: held, resolve: letGo } = Promise.withResolvers<void>();
    const prototype = Object.getPrototypeOf(env.DB);
    const { batch } = prototype;
    vi.spyOn(prototype, "batch").mockImplementation(async function (this: D1Database, ...args) {
      await held;
      return batch.apply(this, args);
    });
    vi.spyOn(scheduler, "wait").mockImplementation(() => new Promise(() => {}));
    const posted = vi.spyOn(GroupCommit.prototype, "accept");
    const called = async (calls: number) => {
      while (posted.mock.calls.length < calls) await turn();
    };
    return { letGo, called };
  }

  test("commits events posted during a commit in one bundle", async () => {
    const { letGo, called } = heldCommits();
    const posting = Array.from({ length: 50 }, () => accept(services(), [event()]));
    await called(50);
    letGo();
    expect(new Set(idsOf(await Promise.all(posting))).size).toBe(50);
    expect(await bundles()).toBeLessThanOrEqual(2);
  });

  test("killed at any moment loses nothing that was accepted and stores nothing twice", async () => {
    await accept(services(), [event()]);
    const accepted: CommitResult[] = [];
    for (let round = 0; round < 5; round++) {
      const posting = Array.from({ length: 20 }, () => accept(services(), [event()]));
      for (let turns = 0; turns < round; turns++) await turn();
      await abortAllDurableObjects();
      accepted.push(...(await Promise.all(posting)).filter(({ kind }) => kind === "accepted"));
    }
    const ids = await stored();
    expect(idsOf(accepted).filter((id) => !ids.includes(id))).toEqual([]);
    expect(new Set(idsOf(accepted)).size).toBe(accepted.length);
    // The first one, all accepted ones, and at most those whose outcome is unknown.
    expect(ids.length).toBeGreaterThan(accepted.length);
    expect(ids.length).toBeLessThanOrEqual(101);
  });
});
