/** A deployment whose secrets are wrong answers 503, says why, and loses nothing until they are corrected. */
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { sweep } from "../src/jobs/sweep.ts";
import worker from "../src/worker.ts";
import { batchOf, fakeQueue } from "./support/queues.ts";
import { MASTER_KEYS } from "./support/vault.ts";
import { calm, newDestination, newWorld, START, storedRows, type World } from "./support/world.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
/** A copy that has missed the end. */
const MISTYPED = MASTER_KEYS.slice(0, -2);

let world: World;
let lines: Record<string, unknown>[];
beforeEach(async () => {
  world = await newWorld();
  await newDestination();
  lines = [];
  vi.spyOn(console, "log").mockImplementation((line) => void lines.push(JSON.parse(line)));
});
afterEach(() => {
  vi.restoreAllMocks();
});

const background: Promise<unknown>[] = [];
const context = {
  waitUntil: (work: Promise<unknown>) => void background.push(work),
  passThroughOnException: () => {},
} as unknown as ExecutionContext;

async function settled(): Promise<void> {
  while (background.length > 0) await Promise.all(background.splice(0));
}

type QueueName = "breakwater-deliveries" | "breakwater-drains" | "breakwater-upkeep" | "breakwater-dead";
type Queued = { queue: QueueName; body: unknown; dueAt: number; attempts: number };

/** The platform's queues: retries and their limits, delays, and the queue of dead letters. */
function platform(bodies: Readonly<Partial<Record<QueueName, readonly unknown[]>>>) {
  const limits = {
    "breakwater-deliveries": 100,
    "breakwater-drains": 3,
    "breakwater-upkeep": 3,
    "breakwater-dead": 100,
  };
  const lost: unknown[] = [];
  let queued: Queued[] = Object.entries(bodies).flatMap(([queue, some]) =>
    some.map((body) => ({ queue: queue as QueueName, body, dueAt: START, attempts: 0 })),
  );
  const sentTo = (queue: QueueName) =>
    ({
      send: async (body: unknown, { delaySeconds = 0 }: QueueSendOptions = {}) =>
        void queued.push({ queue, body, dueAt: Date.now() + 1_000 * delaySeconds, attempts: 0 }),
      sendBatch: async (messages: Iterable<MessageSendRequest>) => {
        for (const { body, delaySeconds = 0 } of messages)
          queued.push({ queue, body, dueAt: Date.now() + 1_000 * delaySeconds, attempts: 0 });
      },
      metrics: async () => ({ backlogCount: 0, backlogBytes: 0 }),
    }) as unknown as Queue;

  const bound = { DELIVERIES: sentTo("breakwater-deliveries"), UPKEEP: sentTo("breakwater-upkeep") };

  /** Hands one due message to the Worker; if it throws or is retried too often, it goes where the platform puts it. */
  async function consume(message: Queued, secrets: object): Promise<void> {
    message.attempts += 1;
    const { batch, results } = batchOf(message.queue, [message.body], message.attempts);
    await worker.queue(batch, { ...env, ...bound, ...secrets }, context);
    await settled();
    const [result] = results;
    if (typeof result !== "object") return;
    if (message.attempts <= limits[message.queue])
      queued.push({ ...message, dueAt: Date.now() + 1_000 * (result.retryIn ?? 0) });
    else if (message.queue === "breakwater-deliveries")
      queued.push({ ...message, queue: "breakwater-dead", dueAt: Date.now(), attempts: 0 });
    else lost.push(message.body);
  }

  /** Delivers what is due until so much time has passed, in steps of ten seconds. */
  async function run(ms: number, secrets: object): Promise<void> {
    for (const until = Date.now() + ms; Date.now() < until; world.clock.pass(10_000)) {
      const due = queued.filter(({ dueAt }) => dueAt <= Date.now());
      queued = queued.filter((message) => !due.includes(message));
      for (const message of due) await consume(message, secrets);
    }
  }

  return { run, lost, bound, queued: () => queued };
}

describe("a mistyped secret", () => {
  test("for an hour leaves all messages on their queues, and delivers everything once it is corrected", async () => {
    const received: string[] = [];
    vi.spyOn(globalThis, "fetch").mockImplementation(async (input) => {
      received.push(String(input));
      return new Response(null, { status: 204 });
    });
    const posted = [...(await world.postBundles(3)), ...(await world.postBundles(2))];
    const queues = platform({ "breakwater-deliveries": posted });
    await queues.run(HOUR, { MASTER_KEYS: MISTYPED });
    expect(queues.queued().map(({ queue, body }) => [queue, body])).toEqual(
      posted.map((body) => ["breakwater-deliveries", body]),
    );
    expect([queues.lost, received, await storedRows()]).toEqual([[], [], []]);
    await queues.run(2 * MINUTE, { MASTER_KEYS });
    expect(received).toHaveLength(5);
    const rows = await storedRows();
    expect(rows.map(({ state, attempts }) => [state, attempts])).toEqual(Array(5).fill(["delivered", 1]));
    expect([queues.queued(), queues.lost]).toEqual([[], []]);
  });

  test("for six hours makes no message a dead letter, and loses no dead letters", async () => {
    const [message] = await world.postBundles();
    const [dead] = await world.postBundles();
    const queues = platform({ "breakwater-deliveries": [message], "breakwater-dead": [dead] });
    const most = { deliveries: 0 };
    for (let hour = 0; hour < 6; hour++) {
      await queues.run(HOUR, { MASTER_KEYS: MISTYPED });
      most.deliveries = Math.max(most.deliveries, ...queues.queued().map(({ attempts }) => attempts));
    }
    expect(queues.lost).toEqual([]);
    expect(queues.queued().map(({ body }) => body)).toEqual(expect.arrayContaining([message, dead]));
    expect(queues.queued()).toHaveLength(2);
    expect(most.deliveries).toBeLessThanOrEqual(90);
  });

  test("preserves replays and digests beyond the three retries of their queue, but drops drains", async () => {
    const kept = [{ replay: "rpl_1" }, { deadLetterDigest: "dst_1" }];
    const drain = { destination: "dst_1", drains: 1 };
    const queues = platform({ "breakwater-upkeep": kept, "breakwater-drains": [drain] });
    await queues.run(HOUR, { MASTER_KEYS: MISTYPED });
    expect(queues.queued().map(({ body }) => body)).toEqual(kept);
    expect(queues.lost).toEqual([drain]);
  });

  test("retries an operator's events after growing pauses, and takes none for a message of Breakwater", async () => {
    const { queue, taken } = fakeQueue();
    vi.spyOn(Math, "random").mockReturnValue(0);
    for (const [attempts, retryIn] of [
      [1, 30],
      [4, 240],
      [90, 86_400],
    ] as const) {
      const { batch, results } = batchOf("shop-events", [{ replay: "rpl_1" }, { type: "a" }], attempts);
      await worker.queue(batch, { ...env, MASTER_KEYS: MISTYPED, DELIVERIES: queue, UPKEEP: queue }, context);
      expect(results).toEqual([{ retryIn }, { retryIn }]);
    }
    expect(taken()).toEqual([]);
  });

  test("leaves a message to its last retries when no new one can replace it", async () => {
    const [message] = await world.postBundles();
    const { queue, break: breakQueue } = fakeQueue();
    breakQueue(true);
    const { batch, results } = batchOf("breakwater-deliveries", [message, message], 90);
    await worker.queue(batch, { ...env, MASTER_KEYS: MISTYPED, DELIVERIES: queue }, context);
    expect(results).toEqual([{ retryIn: 60 }, { retryIn: 60 }]);
    expect(lines.map(({ what }) => what)).toEqual(["replace_failed", "replace_failed", "misconfigured"]);
  });

  test("causes one log line for a batch, which names the variable and never its value", async () => {
    const messages = await world.postBundles();
    const { batch, results } = batchOf("breakwater-deliveries", [...messages, ...messages, null]);
    await worker.queue(batch, { ...env, MASTER_KEYS: MISTYPED, ADMIN_KEY: "s3cret" }, context);
    expect(results).toEqual(Array(3).fill({ retryIn: 60 }));
    expect(lines).toMatchObject([{ what: "misconfigured", handler: "breakwater-deliveries", messages: 3 }]);
    const text = JSON.stringify(lines);
    expect(text).toMatch(/ADMIN_KEY is too short.*MASTER_KEYS expected id:base64 of 32 bytes/);
    expect(text).not.toMatch(/s3cret|dGhl/);
  });

  test("causes one log line a minute of the cron, which does nothing else", async () => {
    await world.post();
    world.clock.pass(HOUR);
    const controller = {} as ScheduledController;
    await worker.scheduled(controller, { ...env, MASTER_KEYS: MISTYPED }, context);
    expect(lines).toMatchObject([
      { what: "misconfigured", handler: "cron", error: expect.stringContaining("MASTER_KEYS expected") },
    ]);
    expect(await storedRows()).toEqual([]);
    await sweep.run(world.services);
    expect(await storedRows()).toMatchObject([{ state: "waiting" }]);
  });
});

const get = async (url: string, variables: object) => {
  const given = { ...env, ...variables } as Env;
  const response = await worker.fetch(new Request(url) as never, given, context);
  await calm();
  return { status: response.status, headers: response.headers, text: await response.text() };
};

describe("a request to a misconfigured Worker", () => {
  test.each([
    ["no master keys", { MASTER_KEYS: undefined }, "MASTER_KEYS is missing"],
    [
      "the empty master keys of the example",
      { MASTER_KEYS: "" },
      "MASTER_KEYS expected at least one id:base64",
    ],
    ["the empty admin key of the example", { ADMIN_KEY: "" }, "ADMIN_KEY is too short"],
    ["a mistyped master key", { MASTER_KEYS: MISTYPED }, "MASTER_KEYS expected id:base64 of 32 bytes"],
    ["a short admin key", { ADMIN_KEY: "s3cret" }, "ADMIN_KEY is too short"],
    ["a gap in the databases", { DB_7: {} }, "DB_7 is bound out of order"],
  ])("of %s is answered 503 with the variable's name and Retry-After", async (_what, wrong, fault) => {
    for (const path of ["/v1/health", "/v1/events", "/dashboard", "/"]) {
      const { status, headers, text } = await get(`https://breakwater.example${path}`, wrong);
      expect([status, headers.get("retry-after")]).toEqual([503, "60"]);
      expect(JSON.parse(text)).toMatchObject({
        type: "/problems/unavailable",
        status: 503,
        detail: expect.stringContaining(fault),
      });
      expect(text).not.toMatch(/s3cret|dGhl/);
    }
  });

  test("is answered in the form of the API that it is for", async () => {
    const detail = expect.stringContaining("MASTER_KEYS is missing");
    for (const [path, body] of [
      ["/api/v1/app", { code: "unavailable", detail }],
      ["/ingest/api/v1/source", { code: "unavailable", detail }],
      ["/mcp", { jsonrpc: "2.0", error: { code: -32603, message: detail } }],
    ] as const) {
      const { status, headers, text } = await get(`https://breakwater.example${path}`, {
        MASTER_KEYS: undefined,
      });
      const type = headers.get("content-type");
      expect([status, headers.get("retry-after"), type]).toEqual([503, "60", "application/json"]);
      expect(JSON.parse(text)).toEqual(body);
    }
  });

  test("can still read the documentation of the problem", async () => {
    const { status } = await get("https://breakwater.example/docs", { MASTER_KEYS: MISTYPED });
    expect(status).toBe(200);
  });

  test("is logged once a minute, however many requests come", async () => {
    world.clock.pass(10 * HOUR);
    const twice = async () => {
      for (let i = 0; i < 2; i++) await get("https://breakwater.example/", { MASTER_KEYS: MISTYPED });
    };
    await twice();
    expect(lines).toMatchObject([{ what: "misconfigured", handler: "fetch" }]);
    world.clock.pass(MINUTE);
    await twice();
    expect(lines).toHaveLength(2);
  });
});
