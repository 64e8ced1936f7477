/**
 * The destinations of one batch are processed separately: whatever one of them waits for before or after its attempts, the
 * others' outcomes are recorded and settled meanwhile.
 */
import type { SQLInputValue } from "node:sqlite";
import { beforeEach, describe, expect, test } from "vitest";
import { memoryD1 } from "../../bench/storm/breakwater/d1.ts";
import { parseConfig } from "../../src/config.ts";
import { beforeFirstBundleOf } from "../../src/core/placement.ts";
import type { FunctionCall } from "../../src/core/transform/code.ts";
import { sealedAuth } from "../../src/delivery/authorization.ts";
// Loaded here, because loading takes real time, for which virtual time does not wait.
import "../../src/delivery/transform.ts";
import type { Services } from "../../src/services.ts";
import { type ByHand, worldByHand } from "../support/by-hand.ts";
import { interceptedD1 } from "../support/intercept.ts";
import { MASTER_KEYS } from "../support/vault.ts";

const EVENTS = 6;
const ANSWER_MS = 20;
/** By then every destination that waits for nothing is recorded and settled. */
const SOON_MS = 600;
/** How long a gate's answer is awaited. */
const GATE_MS = 10_000;

let world: ByHand;
beforeEach(() => {
  world = worldByHand();
});

const delivered = Array(EVENTS).fill("delivered");
const stateOf = (destination: string) => world.rows(destination).map(({ state }) => state);
const isSettled = (destination: string) => world.asked("settle", destination).length > 0;

/** The record of each destination, and whether its lease is settled. */
const standing = (destinations: readonly string[]) =>
  destinations.map((id) => ({ states: stateOf(id), isSettled: isSettled(id) }));

const done = { states: delivered, isSettled: true };
const untouched = { states: [], isSettled: false };

/** Consumes the messages, and reads those destinations so long after the beginning. */
async function consumeAndLook(
  messages: readonly unknown[],
  destinations: readonly string[],
  {
    afterMs = SOON_MS,
    instead,
  }: { afterMs?: number; instead?: (services: Services) => Partial<Services> } = {},
) {
  let seen: ReturnType<typeof standing> = [];
  world.after(afterMs, () => {
    seen = standing(destinations);
  });
  const from = world.now();
  const results = await world.consume(messages, instead && { instead });
  return { results, seen, tookMs: world.now() - from };
}

const never = () => new Promise<never>(() => {});

/** A message for each destination. Each of them answers soon. */
async function posted(destinations: readonly string[], events = EVENTS) {
  for (const id of destinations) world.script(id, { status: 204, afterMs: ANSWER_MS });
  await world.post(events);
  return destinations.map((id) => ({ bundles: [{ bundle: 1, destinations: [id] }] }));
}

describe("beside a gate that never answers", () => {
  const neighbours = () => Array.from({ length: 4 }, () => world.destination());

  test("others are recorded and settled, and their messages are acknowledged; its own comes again", async () => {
    const others = neighbours();
    const hung = world.destination();
    world.answering(({ destination }, real) => (destination === hung ? never() : real()));
    const messages = await posted([hung, ...others]);
    const { results, seen, tookMs } = await consumeAndLook(messages, [...others, hung]);
    expect(seen).toEqual([...Array(4).fill(done), untouched]);
    expect(tookMs).toBeGreaterThanOrEqual(GATE_MS);
    expect(results).toEqual([{ retryIn: expect.any(Number) }, ...Array(4).fill("acked")]);
    expect(world.requests).toHaveLength(4 * EVENTS);
  });

  test("others are not sent again when the invocation dies before that gate's time is over", async () => {
    const others = neighbours();
    const hung = world.destination();
    world.answering(({ destination }, real) => (destination === hung ? never() : real()));
    const messages = await posted([hung, ...others]);
    // The first one's decisions about its messages do not count, as if it had died.
    let again: Promise<unknown> | undefined;
    world.after(GATE_MS / 2, () => {
      again = world.consume(messages);
    });
    await world.consume(messages);
    expect(await again).toEqual([{ retryIn: expect.any(Number) }, ...Array(4).fill("acked")]);
    for (const id of others) expect(world.requestsTo(id)).toHaveLength(EVENTS);
  });

  test("others share their writes, also with refused deliveries", async () => {
    const others = neighbours();
    const refused = [world.destination({ status: "paused" }), world.destination({ status: "paused" })];
    const hung = world.destination();
    world.answering(({ destination }, real) => (destination === hung ? never() : real()));
    const messages = await posted([hung, ...others, ...refused], 1);
    let writes = 0;
    const instead = ({ db }: Services) => ({
      db: interceptedD1(db, (name, work) => {
        if (name.includes("INSERT INTO packs")) writes += 1;
        return work();
      }),
    });
    const { seen } = await consumeAndLook(messages, [...others, ...refused], { instead });
    const waiting = { states: ["waiting"], isSettled: false };
    expect(seen).toEqual([...Array(4).fill({ states: ["delivered"], isSettled: true }), waiting, waiting]);
    expect(writes).toBe(1);
  });

  test("refused deliveries are recorded before it answers, although nothing is attempted", async () => {
    const refused = world.destination({ status: "paused" });
    const hung = world.destination();
    world.answering(({ destination }, real) => (destination === hung ? never() : real()));
    const { seen } = await consumeAndLook(await posted([hung, refused]), [refused]);
    expect(seen).toEqual([{ states: Array(EVENTS).fill("waiting"), isSettled: false }]);
  });

  test("others are recorded and settled if it hangs during settlement", async () => {
    const others = neighbours();
    const hung = world.destination();
    world.answering((call, real) =>
      call.destination === hung && call.method === "settle" ? never() : real(),
    );
    const { results, seen } = await consumeAndLook(await posted([hung, ...others]), [...others, hung]);
    expect(seen).toEqual(Array(5).fill(done));
    expect(results).toEqual(Array(5).fill("acked"));
  });

  test("the pause and the alert of a destination that is gone are published", async () => {
    const gone = world.destination();
    const hung = world.destination();
    world.answering((call, real) =>
      call.destination === hung && call.method === "settle" ? never() : real(),
    );
    const messages = await posted([hung, gone], 1);
    // When the report to that gate is already under way.
    world.script(gone, { status: 410, afterMs: 5 * ANSWER_MS });
    let published: readonly unknown[] = [];
    world.after(GATE_MS / 2, () => {
      published = world.logged("destination_paused");
    });
    await world.consume(messages);
    expect(published).toMatchObject([{ destination: gone, reason: "gone" }]);
  });
});

test("beside a token endpoint that never answers, others are recorded and settled, and its own waits", async () => {
  const others = Array.from({ length: 8 }, () => world.destination());
  const hung = world.destination();
  const shown = {
    kind: "oauth2",
    token_url: "https://tokens.example/token",
    client_id: "c",
    scope: null,
    audience: null,
    params: {},
    client_auth: "basic",
  } as const;
  const auth = await world.handled("seal", ({ vault }) => sealedAuth(vault, hung, shown, "a client secret"));
  world.edit(hung, { auth });
  const messages = await posted([hung, ...others]);
  const instead = ({ fetch }: Services) => ({
    fetch: ((url: string, init: RequestInit) =>
      url === shown.token_url ? never() : fetch(url, init)) as typeof fetch,
  });
  const { results, seen, tookMs } = await consumeAndLook(messages, [...others, hung], { instead });
  expect(seen).toEqual([...Array(8).fill(done), untouched]);
  expect(tookMs).toBeGreaterThan(2 * SOON_MS);
  expect(results).toEqual(Array(9).fill("acked"));
  expect(world.rows(hung).map(({ reason }) => reason)).toEqual(Array(EVENTS).fill("token_unavailable"));
});

test("beside a target with a slow name look-up, others are recorded and settled, and its own waits", async () => {
  const LOOK_UP_MS = 3_000;
  const others = Array.from({ length: 4 }, () => world.destination());
  const hung = world.destination();
  const messages = await posted([hung, ...others]);
  const resolver = "https://resolver-of-the-apart-test.example/dns-query";
  const config = parseConfig({
    ADMIN_KEY: "an admin key that nobody uses",
    MASTER_KEYS,
    ALLOW_PRIVATE_DESTINATIONS: "true",
    DNS_RESOLVER: resolver,
  });
  const instead = ({ fetch, sleep }: Services) => ({
    config,
    fetch: (async (url: string, init: RequestInit) => {
      if (!url.startsWith(resolver)) return fetch(url, init);
      if (url.includes(hung.slice(4))) {
        await sleep(LOOK_UP_MS);
        throw new DOMException("No answer in time", "TimeoutError");
      }
      const name = new URL(url).searchParams.get("name");
      return Response.json({ Status: 0, Answer: [{ name, type: 1, TTL: 60, data: "192.0.2.1" }] });
    }) as typeof fetch,
  });
  const { results, seen, tookMs } = await consumeAndLook(messages, [...others, hung], { instead });
  expect(seen).toEqual([...Array(4).fill(done), untouched]);
  expect(tookMs).toBeGreaterThanOrEqual(LOOK_UP_MS);
  expect(results).toEqual(Array(5).fill("acked"));
  expect(world.rows(hung).map(({ reason }) => reason)).toEqual(Array(EVENTS).fill("unresolved"));
});

test("beside a transformation that takes its time, others are recorded and settled, and its own are sent later", async () => {
  const RUN_MS = 3_000;
  const others = Array.from({ length: 4 }, () => world.destination());
  const by = { kind: "admin_key", key: null, session: null } as const;
  const slow = world.destination({ transform: { version: 1, after: -1, at: 0, by, code: "code" } });
  const messages = await posted([slow, ...others]);
  const instead = ({ sleep }: Services) => {
    const run = async ({ events }: FunctionCall) => {
      await sleep(RUN_MS);
      return events.map(() => ({ kind: "made", made: { body: "made" } }));
    };
    const functions = { idFromName: (name: string) => name, get: () => ({ run }) };
    return { functions: functions as unknown as Services["functions"] };
  };
  const { results, seen, tookMs } = await consumeAndLook(messages, [...others, slow], { instead });
  expect(seen).toEqual([...Array(4).fill(done), untouched]);
  expect(tookMs).toBeGreaterThanOrEqual(RUN_MS);
  expect(results).toEqual(Array(5).fill("acked"));
  expect(standing([slow])).toEqual([done]);
});

describe("beside a further database", () => {
  const FAR = beforeFirstBundleOf(1) + 1;

  /** Messages of two destinations: the events of one are in the first database, those of the other in a further one. */
  async function twoDatabases(reading: (services: Services) => Promise<unknown>) {
    const [near, far] = [world.destination(), world.destination()];
    const [first] = await posted([near]);
    const { direct, bindingFor } = memoryD1();
    const [bundle = {}] = world.sql<Record<string, SQLInputValue>>("SELECT * FROM bundles");
    const columns = Object.keys(bundle);
    direct
      .prepare(`INSERT INTO bundles (${columns}) VALUES (${columns.map(() => "?")})`)
      .run(...Object.values({ ...bundle, id: FAR }));
    const instead = (services: Services) => ({
      further: [
        bindingFor(async (sql, work) => {
          if (!sql.includes("INSERT")) await reading(services);
          return work();
        }),
      ],
    });
    const stored = () => direct.prepare("SELECT 1 FROM packs WHERE destination_id = ?").all(far) as unknown[];
    const messages = [first, { bundles: [{ bundle: FAR, destinations: [far] }] }];
    return { near, far, messages, instead, stored };
  }

  test("that is away, the deliveries of the first are completed, and its own come again", async () => {
    const { near, far, messages, instead } = await twoDatabases(async () => {
      throw new Error("This database is away");
    });
    const { results } = await consumeAndLook(messages, [near, far], { instead });
    expect(standing([near, far])).toEqual([done, untouched]);
    expect(results).toEqual(["acked", { retryIn: 5 }]);
    expect(world.logged("batch_failed")).toMatchObject([
      { messages: 1, error: expect.stringContaining("is away") },
    ]);
  });

  test("that hangs, the deliveries of the first are recorded and settled, and its own come again when it fails", async () => {
    const { near, far, messages, instead } = await twoDatabases(async ({ sleep }) => {
      await sleep(30_000);
      throw new Error("This database is away");
    });
    const soon = { afterMs: 1_000 + SOON_MS, instead };
    const { results, seen, tookMs } = await consumeAndLook(messages, [near, far], soon);
    expect(seen).toEqual([done, untouched]);
    expect(results).toEqual(["acked", { retryIn: 5 }]);
    expect(tookMs).toBeGreaterThanOrEqual(30_000);
  });

  test("that is slow, the deliveries of the first are recorded and settled, and its own are delivered later", async () => {
    const { near, far, messages, instead, stored } = await twoDatabases(({ sleep }) => sleep(3_000));
    const soon = { afterMs: 1_000 + SOON_MS, instead };
    const { results, seen } = await consumeAndLook(messages, [near, far], soon);
    expect(seen).toEqual([done, untouched]);
    expect(results).toEqual(["acked", "acked"]);
    expect(world.requestsTo(far)).toHaveLength(EVENTS);
    expect(stored()).toHaveLength(1);
    expect(isSettled(far)).toBe(true);
  });
});
