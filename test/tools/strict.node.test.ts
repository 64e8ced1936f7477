/** Each quota of an invocation: what is granted at the limit, and what happens one beyond it. */
import { describe, expect, test } from "vitest";
import { seededRandom } from "../../src/core/seeded-random.ts";
import type { Services } from "../../src/services.ts";
import {
  randomLatency,
  strictBatch,
  strictD1,
  strictEnv,
  strictFetch,
  strictGates,
  strictQueue,
  strictServices,
} from "../../tools/strict/bindings.ts";
import { type Breach, Invocation } from "../../tools/strict/invocation.ts";
import { LOG_LIMIT_LINE, type Quota, type Quotas } from "../../tools/strict/quotas.ts";
import { batchOf, fakeQueue } from "../support/queues.ts";

const KB = 1_000;

/** An invocation at a standing clock, and a D1 that answers every statement with the same rows. */
function world({ quotas, rows = [] }: { quotas?: Partial<Quotas>; rows?: unknown[] } = {}) {
  const clock = { at: 0 };
  const reported: Breach[] = [];
  const invocation = new Invocation({
    now: () => clock.at,
    onBreach: (breach) => reported.push(breach),
    ...(quotas && { quotas }),
  });
  const run: string[] = [];
  const answer = { results: rows, success: true, meta: {} };
  const statement = (sql: string): D1PreparedStatement =>
    ({
      bind: () => statement(sql),
      all: async () => {
        run.push(sql);
        return answer;
      },
    }) as unknown as D1PreparedStatement;
  const d1 = {
    prepare: statement,
    batch: async (statements: unknown[]) => {
      run.push("batch");
      return statements.map(() => answer);
    },
  } as unknown as D1Database;
  const queue = fakeQueue<unknown>();
  return {
    clock,
    reported,
    invocation,
    run,
    db: strictD1(d1, () => invocation),
    queue: strictQueue(queue.queue, () => invocation),
    taken: queue.taken,
    quotasBroken: (): Quota[] => invocation.breaches.map(({ quota }) => quota),
  };
}

/** A remote exchange, which ends when the test says so. */
function hanging() {
  const ends: (() => void)[] = [];
  const answer = () => new Promise<Response>((resolve) => ends.push(() => resolve(new Response())));
  return { ends, fetch: answer as unknown as typeof fetch };
}

/** Lets everything happen that waits for nothing but its turn. */
const turns = () => new Promise((resolve) => setImmediate(resolve));

describe("D1", () => {
  test("runs 1,000 statements in an invocation, and fails the next as production does", async () => {
    const { db, run, quotasBroken } = world();
    const batch = Array.from({ length: 500 }, () => db.prepare("SELECT 1"));
    await db.batch(batch);
    await db.batch(batch.slice(1));
    await db.prepare("SELECT 2").all();
    expect(quotasBroken()).toEqual([]);
    await expect(db.prepare("SELECT 3").all()).rejects.toThrow(
      "D1_ERROR: Too many API requests by single worker invocation.",
    );
    expect(run).toEqual(["batch", "batch", "SELECT 2"]);
    expect(quotasBroken()).toEqual(["d1Queries"]);
  });

  test("counts a batch by its statements: one that exceeds the limit does not run at all", async () => {
    const { db, run } = world({ quotas: { d1Queries: 3 } });
    await db.batch([db.prepare("a"), db.prepare("b")]);
    await expect(db.batch([db.prepare("c"), db.prepare("d")])).rejects.toThrow("Too many API requests");
    expect(run).toEqual(["batch"]);
  });

  test("binds 100 parameters, and fails a statement with 101 at the position of the last one", async () => {
    const { db, run, quotasBroken } = world();
    const marks = (count: number) => Array.from({ length: count }, () => "?").join();
    await db
      .prepare(`IN (${marks(100)})`)
      .bind(...Array(100).fill(1))
      .all();
    const tooMany = db.prepare(`IN (${marks(101)})`).bind(...Array(101).fill(1));
    await expect(tooMany.all()).rejects.toThrow(
      "D1_ERROR: too many SQL variables at offset 204: SQLITE_ERROR",
    );
    await expect(db.batch([tooMany])).rejects.toThrow("too many SQL variables");
    expect(run).toHaveLength(1);
    expect(quotasBroken()).toEqual(["d1Parameters"]);
  });

  test("runs a statement of 100 KB, and fails one that is a byte longer, in UTF-8", async () => {
    const { db, quotasBroken } = world();
    await db.prepare("é".repeat(50 * KB)).all();
    expect(quotasBroken()).toEqual([]);
    await expect(db.prepare(`${"é".repeat(50 * KB)}x`).all()).rejects.toThrow(
      "D1_ERROR: statement too long: SQLITE_TOOBIG",
    );
    expect(quotasBroken()).toEqual(["d1StatementBytes"]);
  });

  test.each([
    ["text", (bytes: number) => "x".repeat(bytes)],
    ["bytes", (bytes: number) => new ArrayBuffer(bytes)],
  ])("takes a value of 2 MB of %s, and fails one that is a byte longer", async (_kind, ofSize) => {
    const { db, quotasBroken } = world();
    await db
      .prepare("INSERT")
      .bind(ofSize(2_000 * KB))
      .all();
    expect(quotasBroken()).toEqual([]);
    const tooBig = db.prepare("INSERT").bind(ofSize(2_000 * KB + 1));
    await expect(tooBig.all()).rejects.toThrow("D1_ERROR: string or blob too big: SQLITE_TOOBIG");
    expect(quotasBroken()).toEqual(["d1ValueBytes"]);
  });

  test("fails a query whose answer has a value over 2 MB, such as a long JSON list", async () => {
    const { db } = world({ rows: [{ list: "x".repeat(2_000 * KB + 1) }] });
    await expect(db.prepare("SELECT json_group_array(id)").all()).rejects.toThrow("SQLITE_TOOBIG");
  });
});

describe("queues", () => {
  const messages = (count: number, bytes = 2) =>
    Array.from({ length: count }, () => ({ body: "x".repeat(bytes - 2) }));

  test("take a batch of 100 messages, but not of 101", async () => {
    const { queue, taken, quotasBroken } = world();
    await queue.sendBatch(messages(100));
    expect(taken()).toHaveLength(100);
    await expect(queue.sendBatch(messages(101))).rejects.toThrow(
      "batch message count of 101 exceeds limit of 100 (10206)",
    );
    expect(taken()).toEqual([]);
    expect(quotasBroken()).toEqual(["queueBatchMessages"]);
  });

  test("refuse an empty batch", async () => {
    await expect(world().queue.sendBatch([])).rejects.toThrow("sendBatch() requires at least one message");
  });

  test("take a message of 128 KB, the platform's own 100 bytes included, but none a byte longer", async () => {
    const { queue, quotasBroken } = world();
    const [largest, tooLarge] = [127_900, 127_901].map((bytes) => messages(1, bytes)[0]?.body);
    await queue.send(largest);
    expect(quotasBroken()).toEqual([]);
    await expect(queue.send(tooLarge)).rejects.toThrow(
      "message length of 128001 bytes exceeds limit of 128000 (10204)",
    );
    expect(quotasBroken()).toEqual(["queueMessageBytes"]);
  });

  test("take a batch of 256 KB, but none a byte larger", async () => {
    const { queue, quotasBroken } = world();
    await queue.sendBatch(messages(4, 63_900));
    expect(quotasBroken()).toEqual([]);
    await expect(queue.sendBatch([...messages(3, 63_900), ...messages(1, 63_901)])).rejects.toThrow(
      "batch size of 256001 bytes exceeds limit of 256000 bytes (10205)",
    );
    expect(quotasBroken()).toEqual(["queueBatchBytes"]);
  });

  test.each([86_401, 1.5, -1, Number.NaN])("do not delay by %d seconds", async (delaySeconds) => {
    const { queue, invocation, taken } = world();
    for (const fine of [0, 86_400]) await queue.send("fine", { delaySeconds: fine });
    expect(taken()).toHaveLength(2);
    await expect(queue.send("late", { delaySeconds })).rejects.toThrow("(10203)");
    await expect(queue.sendBatch([{ body: "late", delaySeconds }])).rejects.toThrow("(10203)");
    await expect(queue.sendBatch([{ body: "late" }], { delaySeconds })).rejects.toThrow("(10203)");
    const { batch } = batchOf("orders", ["again"]);
    const strict = strictBatch(batch as MessageBatch<unknown>, invocation);
    expect(() => strict.messages[0]?.retry({ delaySeconds })).toThrow("(10203)");
    expect(() => strict.retryAll({ delaySeconds })).toThrow("(10203)");
    expect(taken()).toEqual([]);
  });
});

describe("connections", () => {
  test("let six requests wait for their headers; the seventh waits, which is recorded", async () => {
    const { invocation, quotasBroken } = world();
    const { ends, fetch } = hanging();
    const strict = strictFetch(fetch, () => invocation);
    const six = Array.from({ length: 6 }, () => strict("https://example.com/"));
    await turns();
    expect([ends.length, invocation.waitedForConnection]).toEqual([6, 0]);
    const seventh = strict("https://example.com/");
    await turns();
    expect([ends.length, invocation.waitedForConnection]).toEqual([6, 1]);
    expect(quotasBroken()).toEqual(["connections"]);
    ends[0]?.();
    await turns();
    expect(ends).toHaveLength(7);
    for (const end of ends) end();
    await Promise.all([...six, seventh]);
    expect(invocation.used.connections).toBe(6);
  });

  test("are used by queue sends as well", async () => {
    const { invocation, queue, taken } = world();
    const { ends, fetch } = hanging();
    const strict = strictFetch(fetch, () => invocation);
    for (let i = 0; i < 6; i++) void strict("https://example.com/");
    const sent = queue.send("a message");
    await turns();
    expect([taken(), invocation.waitedForConnection]).toEqual([[], 1]);
    ends[0]?.();
    await sent;
    expect(taken()).toHaveLength(1);
  });

  test("are not given to a request that was aborted while it waited: it fails unsent", async () => {
    const { invocation } = world({ quotas: { connections: 1 } });
    const { ends, fetch } = hanging();
    const strict = strictFetch(fetch, () => invocation);
    const first = strict("https://example.com/");
    const controller = new AbortController();
    const impatient = strict("https://example.com/", { signal: controller.signal });
    const patient = strict("https://example.com/");
    await turns();
    controller.abort(new DOMException("too slow", "TimeoutError"));
    await expect(impatient).rejects.toThrow("too slow");
    ends[0]?.();
    await first;
    await turns();
    ends[1]?.();
    await patient;
    expect(ends).toHaveLength(2);
  });
});

test("10,000 timers may run at once; one more is an error, and finished ones do not count", async () => {
  const { invocation, quotasBroken } = world();
  const ends: (() => void)[] = [];
  const timer = () => invocation.timer(() => new Promise<void>((resolve) => ends.push(resolve)));
  const running = Array.from({ length: 10_000 }, timer);
  await expect(timer()).rejects.toThrow("You have exceeded the number of active timeouts you may set.");
  expect(quotasBroken()).toEqual(["timers"]);
  for (const end of ends.splice(0)) end();
  await Promise.all(running);
  const another = timer();
  ends[0]?.();
  await another;
});

test("10,000 calls to the outside are made, to any target; the next one fails", async () => {
  const { invocation, db, queue, run, quotasBroken } = world({ quotas: { subrequests: 3 } });
  await db.prepare("SELECT 1").all();
  await queue.send("a message");
  const answered = strictFetch((async () => new Response()) as typeof fetch, () => invocation);
  await answered("https://example.com/");
  await expect(db.prepare("SELECT 2").all()).rejects.toThrow("Too many subrequests by single Worker");
  await expect(answered("https://example.com/")).rejects.toThrow("Too many subrequests by single Worker");
  expect(run).toEqual(["SELECT 1"]);
  expect(quotasBroken()).toEqual(["subrequests"]);
  expect(new Invocation({ now: () => 0 }).quotas.subrequests).toBe(10_000);
});

test("background work continues for 30 seconds after its handler, and then no call returns", async () => {
  const { clock, invocation, db, run, quotasBroken } = world();
  clock.at = 50_000;
  invocation.handlerReturned();
  clock.at = 80_000;
  await db.prepare("in time").all();
  clock.at = 80_001;
  let returned = false;
  const late = db.prepare("late").all();
  void late.then(() => {
    returned = true;
  });
  await turns();
  expect([run, returned]).toEqual([["in time"], false]);
  await invocation.untilCutOff(late);
  expect(quotasBroken()).toEqual(["waitUntilMs"]);
});

test("a background call that was made in time but is answered too late is cut off as well", async () => {
  const { clock, invocation } = world();
  const { ends, fetch } = hanging();
  invocation.handlerReturned();
  const answer = strictFetch(fetch, () => invocation)("https://example.com/");
  await turns();
  clock.at = 30_001;
  ends[0]?.();
  expect(await invocation.untilCutOff(answer)).toBeUndefined();
});

test("log lines are written up to 256 KB; the rest is dropped, and a note says so once", () => {
  const { invocation, quotasBroken } = world();
  const half = "x".repeat(128 * KB - 1);
  expect([half, half].map((line) => invocation.line(line) === line)).toEqual([true, true]);
  expect(quotasBroken()).toEqual([]);
  expect([invocation.line("y"), invocation.line("z")]).toEqual([LOG_LIMIT_LINE, undefined]);
  expect(invocation.linesDropped).toBe(2);
  expect(quotasBroken()).toEqual(["logBytes"]);
});

test("held bodies are the largest answer of D1 plus bytes being sent; 42 MB are a third of an isolate", async () => {
  const row = { body: "x".repeat(1_000 * KB) };
  const { invocation, db, quotasBroken } = world({ rows: Array(41).fill(row) });
  await db.prepare("SELECT body").all();
  await db.prepare("SELECT body again").all();
  expect(invocation.used.bodyBytes).toBe(41_000 * KB);
  const { ends, fetch } = hanging();
  const strict = strictFetch(fetch, () => invocation);
  const post = (bytes: number) =>
    strict("https://example.com/", { method: "POST", body: new Uint8Array(bytes) });
  void post(1_000 * KB);
  expect(quotasBroken()).toEqual([]);
  void post(1);
  expect(quotasBroken()).toEqual(["bodyBytes"]);
  expect(invocation.used.bodyBytes).toBe(42_000 * KB + 1);
  for (const end of ends) end();
});

test("a text with a character outside of Latin-1 takes two bytes for each character", async () => {
  const { invocation, db } = world({ rows: [{ body: "naïve" }, { body: "a→b" }] });
  await db.prepare("SELECT body").all();
  expect(invocation.used.bodyBytes).toBe(5 + 6);
});

test("a breach is reported once for each quota, with the call but without values", async () => {
  const { db, reported } = world({ quotas: { d1Queries: 0 } });
  for (let i = 0; i < 2; i++) {
    const late = db.prepare("SELECT *\n  FROM events WHERE id = ?").bind("secret").all();
    await expect(late).rejects.toThrow();
  }
  expect(reported).toEqual([
    { quota: "d1Queries", limit: 0, used: 1, where: "SELECT * FROM events WHERE id = ?" },
  ]);
});

describe("calls that take time", () => {
  const waited = async (kind: "d1" | "gate" | "queue", seed: number) => {
    const order: (number | "work")[] = [];
    const latency = randomLatency(seededRandom(seed), async (ms) => void order.push(ms));
    for (let i = 0; i < 2_000; i++) await latency(kind, async () => void order.push("work"));
    const trips = Array.from({ length: 2_000 }, (_, i) => order.slice(3 * i, 3 * i + 3));
    expect(trips.every(([, work]) => work === "work")).toBe(true);
    return trips.map(([there, , back]) => Number(there) + Number(back));
  };

  test.each([
    ["d1", 80],
    ["gate", 60],
    ["queue", 60],
  ] as const)("to %s take 5 to %d ms, and now and then a second", async (kind, most) => {
    const all = await waited(kind, 1);
    const usual = all.filter((ms) => ms < 500);
    expect(Math.min(...usual)).toBeGreaterThanOrEqual(5);
    expect(Math.max(...usual)).toBeLessThanOrEqual(most);
    expect(all.length - usual.length).toBeGreaterThan(2);
    expect(all.length - usual.length).toBeLessThan(30);
  });

  test("take the same time for the same seed", async () => {
    expect(await waited("d1", 7)).toEqual(await waited("d1", 7));
    expect(await waited("d1", 7)).not.toEqual(await waited("d1", 8));
  });

  test("are slow when they fail as well", async () => {
    const waits: number[] = [];
    const latency = randomLatency(seededRandom(1), async (ms) => void waits.push(ms));
    await expect(latency("d1", () => Promise.reject(new Error("gone")))).rejects.toThrow("gone");
    expect(waits).toHaveLength(2);
  });
});

describe("of an invocation", () => {
  /** Gates that answer with what they were called by. */
  const gates = {
    idFromName: (name: string) => ({ name }),
    get: ({ name }: { name: string }) => ({ admit: async (ask: string) => `${name}: ${ask}` }),
  } as unknown as DurableObjectNamespace;

  test("the services are all under its quotas, and otherwise work as before", async () => {
    const { invocation, quotasBroken } = world({ quotas: { subrequests: 3, logBytes: 14 } });
    const lines: unknown[] = [];
    const waits: Promise<unknown>[] = [];
    const queue = fakeQueue<unknown>();
    const services = strictServices(
      {
        db: { prepare: () => ({ all: async () => "rows" }) },
        further: [{ prepare: () => ({ all: async () => "more rows" }) }],
        deliveries: queue.queue,
        drains: queue.queue,
        gates,
        groups: gates,
        sleep: async () => {},
        log: (line: unknown) => lines.push(line),
        background: (work: Promise<unknown>) => waits.push(work),
      } as unknown as Services,
      invocation,
    );
    expect(await services.db.prepare("").all()).toBe("rows");
    expect(await services.further?.[0]?.prepare("").all()).toBe("more rows");
    const gate = services.gates.get(services.gates.idFromName("shop"));
    expect(await (gate as unknown as { admit: (ask: string) => Promise<string> }).admit("one")).toBe(
      "shop: one",
    );
    await expect(services.drains.send({ destination: "x", drains: 1 })).rejects.toThrow("Too many");
    services.background(services.sleep(1));
    await Promise.all(waits);
    for (const what of ["a", "b", "c"]) services.log({ what });
    expect(lines).toEqual([{ what: "a" }, { what: "log_limit_exceeded" }]);
    expect(quotasBroken()).toEqual(["subrequests", "logBytes"]);
  });

  test("the bindings of an environment count for the calling invocation, and everything else is passed on", async () => {
    const [one, other] = [world().invocation, world().invocation];
    let current = one;
    const { queue } = fakeQueue<unknown>();
    const calls: string[] = [];
    const env = strictEnv(
      { QUEUE: queue, GATES: gates, KEY: "a key", LIMIT: { limit: 1 } },
      () => current,
      (kind, work) => {
        calls.push(kind);
        return work();
      },
    );
    await env.QUEUE.send("of one");
    current = other;
    const gate = env.GATES.get(env.GATES.idFromName("shop")) as unknown as {
      admit: (ask: string) => unknown;
    };
    await gate.admit("of another");
    await env.QUEUE.send("of another");
    expect([one, other].map(({ used }) => used.subrequests)).toEqual([1, 2]);
    expect(calls).toEqual(["queue", "gate", "queue"]);
    expect([env.KEY, env.LIMIT]).toEqual(["a key", { limit: 1 }]);
  });

  test("gates keep members that are not calls", () => {
    const { invocation } = world();
    const id = strictGates(gates, () => invocation).idFromName("shop");
    expect(id.name).toBe("shop");
  });
});
