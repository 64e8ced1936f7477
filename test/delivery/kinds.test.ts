/** Destinations besides https endpoints: queues of this Worker and of other accounts, and services. */
import { env } from "cloudflare:workers";
import { Webhook } from "standardwebhooks";
import { beforeEach, describe, expect, test } from "vitest";
import { Content } from "../../src/core/content.ts";
import { CONNECTIONS } from "../../src/core/lease.ts";
import type { QueueMessage } from "../../src/delivery/kinds/queue.ts";
import { sealToken } from "../../src/delivery/kinds/token.ts";
import { sendTestEvent } from "../../src/delivery/test-event.ts";
import { type DestinationBinding, destinationBindings } from "../../src/destination-bindings.ts";
import { replaying } from "../../src/features/replays/job.ts";
import { newDestinationId } from "../../src/ids.ts";
import { sweep } from "../../src/jobs/sweep.ts";
import { findDestination } from "../../src/store/destinations.ts";
import { beginReplay } from "../../src/store/replay-steps.ts";
import worker from "../../src/worker.ts";
import { queueBinding, serviceBinding } from "../support/bindings.ts";
import { type Call, type Script, silence } from "../support/receivers.ts";
import { vault } from "../support/vault.ts";
import {
  calm,
  execute,
  newDestination,
  newWorld,
  rowOf,
  SECRET,
  START,
  TENANT,
  type World,
} from "../support/world.ts";

const ACCOUNT = "023e105f4ecef8ad9ca31a8372d0c353";
const QUEUE = "f1e2d3c4b5a697887766554433221100";
const TOKEN = "cfut_0123456789abcdefghijKLMNOPQRSTUV";
const API = `https://api.cloudflare.com/client/v4/accounts/${ACCOUNT}/queues/${QUEUE}/messages`;

const stored = () => new Response(JSON.stringify({ success: true, errors: [], messages: [] }));

type Seen = Readonly<{ headers: Readonly<Record<string, string>>; body: string; attempt: number }>;

/** A kind in a test: its target, the script of its receiver, and the arrivals. */
type Setup = Readonly<{
  target: string;
  token?: string;
  address: string;
  ok: Script;
  seen: (call: Call) => Seen;
}>;

const ofMessage = ({ headers, attempt, ...rest }: QueueMessage): Seen => ({
  headers,
  attempt,
  body: "body" in rest ? rest.body : "",
});

const setups: Readonly<Record<string, Setup>> = {
  "a queue of this Worker": {
    target: "queue:ORDERS",
    address: "queue://ORDERS",
    ok: 200,
    seen: ({ body }) => ofMessage(JSON.parse(body)),
  },
  "a queue of another account": {
    target: `queue:${ACCOUNT}/${QUEUE}`,
    token: TOKEN,
    address: API,
    ok: stored,
    seen: ({ body }) => ofMessage(JSON.parse(body).body),
  },
  "a service": {
    target: "service:BILLING_2/hook?x=1",
    address: "https://billing-2.breakwater.internal/hook?x=1",
    ok: 204,
    seen: ({ headers, body }) => ({
      headers: Object.fromEntries(headers),
      body,
      attempt: Number(headers.get("webhook-attempt")),
    }),
  },
};

let world: World;
let bindings: Map<string, DestinationBinding>;
beforeEach(async () => {
  world = await newWorld();
  bindings = new Map([
    ["ORDERS", queueBinding(world.receiver, "ORDERS")],
    ["BILLING_2", serviceBinding(world.receiver, [TENANT])],
  ]);
  Object.assign(world.services, { destinationBindings: bindings });
});

async function created({ target, token }: Pick<Setup, "target" | "token">, columns: object = {}) {
  const id = newDestinationId();
  const targetToken = token === undefined ? null : await sealToken(vault, id, token);
  return newDestination({ id, url: target, targetToken, ...columns });
}

async function only<T>(items: Promise<readonly T[]>): Promise<T> {
  const [first] = await items;
  if (first === undefined) throw new Error("There is one");
  return first;
}

describe.each(Object.entries(setups))("%s", (_name, setup) => {
  const { address, ok, seen } = setup;

  test("gets what an HTTP receiver gets, signed the same, and the message is acknowledged", async () => {
    world.receiver.script(address, ok);
    await created(setup, { headers: { "X-Team": "a b" } });
    const message = await only(world.post(1, { data: { n: 1, text: 'é "quoted" \n' } }));
    expect(await world.consume([message])).toEqual(["acked"]);
    expect(world.receiver.calls.map(({ url }) => url)).toEqual([address]);
    const { headers, body, attempt } = await only(Promise.resolve(world.receiver.calls.map(seen)));
    expect(attempt).toBe(1);
    expect(headers).toMatchObject({
      "content-type": "application/json",
      "webhook-attempt": "1",
      "x-team": "a b",
    });
    expect(JSON.parse(body)).toMatchObject({ type: "order.paid", data: { n: 1, text: 'é "quoted" \n' } });
    // The library compares times with its own clock.
    const signed = new Webhook(SECRET).sign(headers["webhook-id"] ?? "", new Date(START), body);
    expect(headers["webhook-signature"]).toBe(signed);
    expect(await rowOf(message)).toMatchObject({ state: "delivered", attempts: 1 });
  });

  test("that refuses gets the event again by the policy, and then it is delivered", async () => {
    const refusal =
      setup.target === "queue:ORDERS" ? new Error("Queue send failed: internal error; 15000") : 503;
    world.receiver.script(address, refusal, ok);
    await created(setup);
    const message = await only(world.post());
    const [result] = await world.consume([message]);
    expect(result).toMatchObject({ retryIn: expect.any(Number) });
    const reason = setup.target === "queue:ORDERS" ? "network" : "http_503";
    expect(await rowOf(message)).toMatchObject({ state: "retrying", reason, attempts: 1 });
    world.clock.pass(120_000);
    expect(await world.consume([message])).toEqual(["acked"]);
    expect(await rowOf(message)).toMatchObject({ state: "delivered", attempts: 2 });
    expect(world.receiver.calls.map(seen).map(({ attempt }) => attempt)).toEqual([1, 2]);
    const ids = world.receiver.calls.map(seen).map(({ headers }) => headers["webhook-id"]);
    expect(new Set(ids).size).toBe(1);
  });

  test("that does not answer times out", async () => {
    world.receiver.script(address, silence().script);
    await created(setup, { timeoutMs: 100 });
    const message = await only(world.post());
    const consumed = world.consume([message]);
    await world.receiver.called(1);
    await consumed;
    await world.settled();
    expect(await rowOf(message)).toMatchObject({ state: "retrying", reason: "timeout", attempts: 1 });
  });

  test("that fails again and again opens its circuit, and the rest waits", async () => {
    world.receiver.script(address, new Error("boom"));
    await created(setup, { maxConcurrency: 1 });
    const messages = await world.post(12);
    await world.consume(messages);
    expect(world.receiver.calls.length).toBeLessThan(12);
    const states = await Promise.all(messages.map(async (message) => (await rowOf(message))?.reason));
    expect(states).toContain("circuit_open");
    expect(world.logged("attempt")[0]).toMatchObject({ error: "network" });
  });

  test("that is paused gets nothing until it is resumed, and then the waiting deliveries", async () => {
    world.receiver.script(address, ok);
    const id = await created(setup, { status: "paused" });
    const message = await only(world.post());
    await world.consume([message]);
    expect(await rowOf(message)).toMatchObject({ state: "waiting", reason: "paused", attempts: 0 });
    await execute("UPDATE destinations SET status = 'active' WHERE id = ?1", id);
    world.clock.pass(60_000);
    await sweep.run(world.services);
    await world.drain(id);
    await world.settled();
    expect(await rowOf(message)).toMatchObject({ state: "delivered", attempts: 1 });
  });

  test("gets a dead delivery once more in a replay", async () => {
    world.receiver.script(address, new Error("boom"), ok);
    const id = await created(setup, { retry: { max_attempts: 1 } });
    const message = await only(world.post());
    await world.consume([message]);
    expect(await rowOf(message)).toMatchObject({ state: "dead", reason: "exhausted" });
    await replayed(id);
    expect(await rowOf(message)).toMatchObject({ state: "delivered", generation: 1 });
    expect(world.receiver.calls.map(seen).map(({ attempt }) => attempt)).toEqual([1, 1]);
  });

  test("gets at most as many events at once as one invocation has connections", async () => {
    world.receiver.script(address, ok);
    await created(setup, { maxConcurrency: 50 });
    const id = (await world.post(1))[0]?.destinationId ?? "";
    await world.earnTrust(id, 40);
    world.receiver.pausing(calm);
    await world.consume(await world.post(40));
    await world.settled();
    expect(world.receiver.mostOpen()).toBe(CONNECTIONS);
  });

  test("gets a test event, which is shown", async () => {
    world.receiver.script(address, ok);
    const id = await created(setup);
    const row = await findDestination(env.DB, id, undefined);
    if (!row) throw new Error("It is there");
    const result = await sendTestEvent(world.services, row);
    expect(result).toMatchObject({ kind: "made", call: { exchange: { kind: "response" } } });
    expect(world.receiver.calls.map(seen).map(({ body }) => JSON.parse(body).type)).toEqual([
      "breakwater.test",
    ]);
    expect(JSON.stringify([result, world.log])).not.toContain(TOKEN);
  });

  test.each([
    "",
    "no target",
    "queue:",
    "queue:a b",
    "queue:x/y",
    "service:A",
    "service:A/../b",
    "service:A//x\\",
  ])("whose target was edited into %j gets nothing, and no other target does", async (edited) => {
    const id = await created(setup);
    const message = await only(world.post());
    await execute("UPDATE destinations SET url = ?1 WHERE id = ?2", edited, id);
    expect(await world.consume([message])).toEqual(["acked"]);
    expect(world.receiver.calls).toEqual([]);
    expect(await rowOf(message)).toMatchObject({ state: "dead", reason: "forbidden_target", attempts: 0 });
    expect(world.logged("target_forbidden")).toMatchObject([{ destination: id }]);
  });
});

/** Replays what is dead, step by step and drain by drain. */
async function replayed(destination: string): Promise<void> {
  const now = world.clock.now();
  const at = { createdAt: now, updatedAt: now, nextStepAt: now };
  const range = { since: 0, until: now + 1, ratePerMinute: 100, pace: 100 };
  const job = { id: "rpl_1", tenant: TENANT, destinationId: destination, include: "dead" as const };
  const all = { first: 1, last: Number.MAX_SAFE_INTEGER };
  await beginReplay(env.DB, { ...job, ...range, state: "running", ...at }, all, 10_000, {
    ms: 30 * 86_400_000,
    types: {},
  });
  await replaying.step(world.services, "rpl_1");
  await world.drain(destination);
  await world.settled();
}

describe("a binding", () => {
  test.each([
    "queue:ORDERS",
    "service:BILLING_2/",
  ])("that is gone, of another type or of another tenant makes deliveries to %s wait until it is back", async (target) => {
    const id = await created({ target });
    const name = target.startsWith("queue") ? "ORDERS" : "BILLING_2";
    const good = bindings.get(name);
    if (!good) throw new Error("It is bound");
    const wrong = [
      undefined,
      { ...good, tenants: ["globex"] },
      [...bindings.values()].find((one) => one !== good),
    ];
    for (const [i, other] of wrong.entries()) {
      if (other) bindings.set(name, other);
      else bindings.delete(name);
      const message = await only(world.post());
      expect(await world.consume([message])).toEqual(["acked"]);
      expect(await rowOf(message)).toMatchObject({
        state: "waiting",
        reason: "unbound",
        attempts: 0,
        nextAttemptAt: START + 60_000,
      });
      expect(world.logged("binding_unusable")).toHaveLength(i + 1);
    }
    expect(world.receiver.calls).toEqual([]);
    bindings.set(name, good);
    world.clock.pass(60_000);
    await sweep.run(world.services);
    for (let i = 0; i < 3; i++) await world.drain(id);
    await world.settled();
    expect(world.receiver.calls).toHaveLength(3);
  });

  test("is recognized by what the runtime has bound, whatever methods a service claims to have", () => {
    const { bindings: found, faults } = destinationBindings(env);
    expect(faults).toEqual([]);
    expect([...found].map(([name, { kind, tenants }]) => [name, kind, tenants])).toEqual([
      ["TEST_QUEUE", "queue", ["acme", "b:c"]],
      ["TEST_SERVICE", "service", "*"],
    ]);
    const wrong = destinationBindings({ ...env, DESTINATION_BINDINGS: "DB: *; GATES: *; INGEST_LIMIT: *" });
    expect(wrong.faults).toEqual(
      ["DB", "GATES", "INGEST_LIMIT"].map(
        (name) => `DESTINATION_BINDINGS names ${name}, which is bound to neither a queue nor a service`,
      ),
    );
  });

  test("of the runtime takes an event: a queue stores it, a service answers it", async () => {
    Object.assign(world.services, { destinationBindings: destinationBindings(env).bindings });
    await created({ target: "queue:TEST_QUEUE" });
    await created({ target: "service:TEST_SERVICE/echo" });
    const messages = await world.post();
    expect(await world.consume(messages)).toEqual(["acked", "acked"]);
    const rows = await Promise.all(messages.map(rowOf));
    expect(rows.map((row) => row?.state)).toEqual(["delivered", "delivered"]);
    expect(rows.map((row) => row?.lastStatus).toSorted()).toEqual([202, 299]);
  });

  test("that leads back to Breakwater is refused there, so that nothing circles", async () => {
    const back = {
      fetch: (url: string, init: RequestInit) =>
        worker.fetch(new Request(url, init) as never, env, {} as never),
    };
    bindings.set("SELF", { kind: "service", tenants: "*", service: back as unknown as Fetcher });
    await created({ target: "service:SELF/v1/events" });
    const message = await only(world.post());
    await world.consume([message]);
    expect(await rowOf(message)).toMatchObject({ state: "dead", reason: "permanent", lastStatus: 403 });
    expect((await rowOf(message))?.log[0]?.excerpt).toContain("would loop");
  });
});

describe("a queue of another account", () => {
  const setup = setups["a queue of another account"] as Setup;

  test("is called with the token, and the API's answer is read", async () => {
    world.receiver.script(API, stored);
    await created(setup);
    await world.consume(await world.post());
    const [call] = world.receiver.calls;
    expect(call?.headers.get("authorization")).toBe(`Bearer ${TOKEN}`);
    expect(call?.init.redirect).toBe("manual");
    expect(JSON.parse(call?.body ?? "")).toEqual({
      content_type: "json",
      body: {
        type: "order.paid",
        attempt: 1,
        headers: expect.objectContaining({ "webhook-id": expect.any(String) }),
        body: expect.any(String),
      },
    });
    expect(call?.body).not.toContain(TOKEN);
  });

  test.each([
    ["without success", () => new Response('{"success":false,"errors":[{"code":10204}]}'), "network"],
    ["with something else", () => new Response("<html>"), "network"],
    ["403 for a token that is not valid", 403, "permanent"],
    ["404 for a queue that is gone", 404, "http_404"],
  ])("that answers %s has not stored the message", async (_, script, reason) => {
    world.receiver.script(API, script);
    await created(setup);
    const message = await only(world.post());
    await world.consume([message]);
    expect(await rowOf(message)).toMatchObject({ reason, attempts: 1 });
    expect(JSON.stringify([world.log, await rowOf(message)])).not.toContain(TOKEN);
  });

  test("that answers 429 with Retry-After holds the destination", async () => {
    world.receiver.script(API, () => new Response("{}", { status: 429, headers: { "retry-after": "300" } }));
    await created(setup);
    const messages = await world.post(2);
    await world.consume([messages[0]]);
    await world.settled();
    expect(await rowOf(messages[0] as never)).toMatchObject({ state: "retrying", reason: "http_429" });
    await world.consume([messages[1]]);
    expect(await rowOf(messages[1] as never)).toMatchObject({ state: "waiting", reason: "hold" });
    expect(world.receiver.calls).toHaveLength(1);
  });

  test.each([
    ["is not sealed", async () => TOKEN],
    ["is sealed for another destination", () => sealToken(vault, "dst_00000000000000000000", TOKEN)],
    ["is a signing secret that was moved there", (id: string) => vault.seal(id, SECRET)],
    ["is missing", async () => null],
  ])("with a token that %s makes deliveries wait, without a call", async (_, token) => {
    const id = await created(setup);
    await execute("UPDATE destinations SET target_token = ?1 WHERE id = ?2", await token(id), id);
    const message = await only(world.post());
    expect(await world.consume([message])).toEqual(["acked"]);
    expect(await rowOf(message)).toMatchObject({ state: "waiting", reason: "sealed", attempts: 0 });
    expect(world.receiver.calls).toEqual([]);
  });
});

test("whatever a service throws is its own failure, not one of DNS, TLS or the connection", async () => {
  const address = "https://billing-2.breakwater.internal/";
  const texts = ["the certificate of the DNS expired", "connection refused", "Network connection lost."];
  world.receiver.script(address, ...texts.map((text) => new Error(text)));
  await created({ target: "service:BILLING_2/" });
  const messages = await world.post(3);
  for (const message of messages) await world.consume([message]);
  const rows = await Promise.all(messages.map(rowOf));
  expect(rows.map((row) => row?.lastError)).toEqual(["network", "network", "network"]);
  expect(world.logged("attempt").map(({ fault }) => fault)).toEqual(
    texts.map((text) => `ExchangeFailure: Error: ${text}`),
  );
});

test("an error of a service is logged without the credentials that it got", async () => {
  const key = "sk_live_0123456789";
  world.receiver.script("https://billing-2.breakwater.internal/", new Error(`No such key: ${key}`));
  await created({ target: "service:BILLING_2/" }, { headers: { "x-api-key": key } });
  await world.consume([await only(world.post())]);
  expect(world.logged("attempt").map(({ fault }) => fault)).toEqual([
    "ExchangeFailure: Error: No such key: ***",
  ]);
});

describe("a queue of this Worker", () => {
  test.each([
    ["Queue send failed: Too Many Requests", "http_429", "retrying"],
    ["Queue send failed: Queue is overloaded. Please back off.", "http_429", "retrying"],
    ["Queue send failed: Storage Limit Exceeded; 10251", "http_429", "retrying"],
    ["Queue send failed: message size out of bounds; 10204", "permanent", "dead"],
    ["the certificate of the DNS expired", "network", "retrying"],
  ])("that throws %j fails the attempt with that reason", async (message, reason, state) => {
    world.receiver.script("queue://ORDERS", new Error(message));
    await created({ target: "queue:ORDERS" });
    const delivery = await only(world.post());
    await world.consume([delivery]);
    expect(await rowOf(delivery)).toMatchObject({ state, reason, attempts: 1 });
  });

  test("gets messages as JSON", async () => {
    await created({ target: "queue:ORDERS" });
    await world.consume(await world.post());
    expect(world.receiver.calls[0]?.headers.get("options")).toBe('{"contentType":"json"}');
  });
});

describe.each(["queue:ORDERS", `queue:${ACCOUNT}/${QUEUE}`])("an event for %s", (target) => {
  const token = target.includes("/") ? { token: TOKEN } : {};

  /** The delivery of an event with so much text. */
  async function delivered(text: string, headers: Record<string, string> | null = null) {
    world.receiver.script(API, stored);
    await created({ target, ...token }, { headers });
    const message = await only(world.post(1, { data: text }));
    expect(await world.consume([message])).toEqual(["acked"]);
    return rowOf(message);
  }

  const frame = JSON.stringify(
    JSON.stringify({ type: "order.paid", timestamp: "2026-11-21T09:00:00.000Z", data: "" }),
  ).length;

  test("that just fits into a message is delivered, in less than the platform's 128,000 bytes", async () => {
    expect(await delivered("a".repeat(120_000 - frame))).toMatchObject({ state: "delivered" });
    expect(world.receiver.calls[0]?.body.length).toBeLessThan(128_000 - 100);
  });

  test("whose content is not text is sent in base64, and signed to the byte", async () => {
    const content = Uint8Array.from({ length: 256 }, (_, byte) => 255 - byte);
    await created({ target, ...token }, { body: "data" });
    world.receiver.script(API, stored);
    const message = await only(world.post(1, { data: new Content("image/png", content) }));
    expect(await world.consume([message])).toEqual(["acked"]);
    const sent = JSON.parse(world.receiver.calls[0]?.body ?? "");
    const { headers, body, body_base64 } = sent.body?.headers ? sent.body : sent;
    expect([headers["content-type"], body, body_base64]).toEqual([
      "image/png",
      undefined,
      content.toBase64(),
    ]);
  });

  test.each([
    ["is a byte too large", "a".repeat(120_001 - frame)],
    ["is too large as a JSON string alone", '"'.repeat(40_000)],
    ["has too many bytes for its characters", "€".repeat(50_000)],
  ])("that %s is dead at once, for that reason and without an attempt", async (_, text) => {
    expect(await delivered(text)).toMatchObject({ state: "dead", reason: "too_large", attempts: 0 });
    expect(world.receiver.calls).toEqual([]);
    expect(world.gates.called()).toEqual(["countDead"]);
    const [line] = world.logged("message_too_large");
    expect(line).toMatchObject({ fault: expect.stringMatching(/^The body is \d+ bytes as a JSON string/) });
  });

  test("shares the message with the destination's own headers", async () => {
    const headers = { "x-long": "h".repeat(1_000) };
    expect(await delivered("a".repeat(119_500 - frame), headers)).toMatchObject({ reason: "too_large" });
  });
});
