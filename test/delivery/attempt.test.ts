/** One attempt: what it sends, and what it stores of the response. */
import { Webhook } from "standardwebhooks";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { SignatureForm } from "../../src/core/signature-forms.ts";
import { eventId } from "../../src/ids.ts";
import type { Call } from "../support/receivers.ts";
import {
  execute,
  newDestination,
  newWorld,
  rowOf,
  SECRET,
  storeBodies,
  urlOf,
  type World,
} from "../support/world.ts";

let world: World;
beforeEach(async () => {
  world = await newWorld();
});
afterEach(() => {
  vi.restoreAllMocks();
});

/** Posts one event and makes one attempt, which the script answers. */
async function attempt(script: Parameters<World["receiver"]["script"]>[1] = 204, columns = {}) {
  const destination = await newDestination(columns);
  world.receiver.script(urlOf(destination), script);
  const [message] = await world.post(1, { data: { number: 1 } });
  if (!message) throw new Error("The event is for the destination");
  const results = await world.consume([message]);
  const [call] = world.receiver.calls;
  const row = await rowOf(message);
  return { destination, message, results, call, row, entry: row?.log.at(-1) };
}

describe("a request", () => {
  test("is a POST of the event, in JSON, that follows no redirect", async () => {
    const { destination, call } = await attempt();
    expect(call?.url).toBe(urlOf(destination));
    expect(call?.init).toMatchObject({ method: "POST", redirect: "manual" });
    expect(JSON.parse(call?.body ?? "")).toEqual({
      type: "order.paid",
      timestamp: "2050-06-01T12:00:00.000Z",
      data: { number: 1 },
    });
    expect(call?.headers.get("content-type")).toBe("application/json");
    expect(call?.headers.get("user-agent")).toMatch(/^Breakwater\/\d/);
  });

  test("is named by the event's id and signed so that the specification's library accepts it", async () => {
    const { message, call } = await attempt();
    expect(call?.headers.get("webhook-id")).toBe(eventId(message.eventId));
    expect(verified(call)).toMatchObject({ type: "order.paid" });
  });

  test("repeats id and bytes on every attempt, with its own number, timestamp and signature", async () => {
    const { destination, message } = await attempt(500);
    world.clock.pass(60_000);
    await world.consume([message]);
    world.clock.pass(120_000);
    world.receiver.script(urlOf(destination), 200);
    await world.consume([message]);

    const calls = world.receiver.calls;
    expect(calls).toHaveLength(3);
    expect(new Set(calls.map(({ body }) => body)).size).toBe(1);
    expect(new Set(calls.map(({ headers }) => headers.get("webhook-id"))).size).toBe(1);
    const timestamps = calls.map(({ headers }) => Number(headers.get("webhook-timestamp")));
    expect(timestamps.map((at) => at - (timestamps[0] ?? 0))).toEqual([0, 60, 180]);
    expect(new Set(calls.map(({ headers }) => headers.get("webhook-signature"))).size).toBe(3);
    expect(calls.map(({ headers }) => headers.get("webhook-attempt"))).toEqual(["1", "2", "3"]);
    expect(verified(calls[2])).toMatchObject({ type: "order.paid" });
  });

  test("sends the bytes that were posted, whatever they contain", async () => {
    await newDestination();
    const data = { text: 'Grüße\u0000\u2028 "quoted" \\ 👋', nested: [null, 1e21, -0.5, { a: {} }] };
    await world.consume(await world.post(1, { data }));
    const [call] = world.receiver.calls;
    expect(JSON.parse(call?.body ?? "").data).toEqual(data);
    expect(verified(call)).toMatchObject({ data });
  });

  test("sends and signs the stored bytes as they are, without parsing them", async () => {
    await newDestination();
    const messages = await world.post();
    const body = '{ "type":"order.paid",\n"data":{"big":12345678901234567890,"exact":1.0,"big":2} }';
    await storeBodies(1, [body]);
    await world.consume(messages);
    const [call] = world.receiver.calls;
    expect(call?.body).toBe(body);
    expect(verified(call)).toMatchObject({ data: { exact: 1 } });
  });

  test("sends the destination's own headers", async () => {
    const { call } = await attempt(204, { headers: { "x-api-key": "k1", authorization: "Basic abc" } });
    expect(call?.headers.get("x-api-key")).toBe("k1");
    expect(call?.headers.get("authorization")).toBe("Basic abc");
  });

  test.each([
    ["in our spelling", (name: string) => name],
    ["in another", (name: string) => name.toUpperCase()],
  ])("keeps its headers when the destination's have the same names, %s", async (_, spelled) => {
    const names = ["content-type", "user-agent", "webhook-id", "webhook-timestamp", "webhook-signature"];
    const ours = [...names, "webhook-attempt"];
    const headers = Object.fromEntries(ours.map((name) => [spelled(name), "forged"]));
    const { call } = await attempt(204, { headers });
    for (const name of ours) expect(call?.headers.get(name), name).not.toContain("forged");
    expect(verified(call)).toMatchObject({ type: "order.paid" });
  });

  test("sends headers that are stored plain instead of the sealed ones, which are older", async () => {
    const destination = await newDestination({ headers: { "x-api-key": "sealed", "x-other": "sealed" } });
    const plain = JSON.stringify({ "x-api-key": "plain" });
    await execute("UPDATE destinations SET headers = ?2 WHERE id = ?1", destination, plain);
    await world.consume(await world.post());
    const [call] = world.receiver.to(urlOf(destination));
    expect([call?.headers.get("x-api-key"), call?.headers.get("x-other")]).toEqual(["plain", null]);
  });

  test("is sent with the sealed headers when plain ones were edited by hand into nonsense", async () => {
    const destination = await newDestination({ headers: { "x-api-key": "sealed" } });
    await execute("UPDATE destinations SET headers = '{not json' WHERE id = ?1", destination);
    const messages = await world.post();
    await world.consume(messages);
    const [call] = world.receiver.to(urlOf(destination));
    expect(call?.headers.get("x-api-key")).toBe("sealed");
  });
});

describe("a response", () => {
  test("that is a success is not read", async () => {
    const { stream, pulled, cancelled } = endless("x");
    const { row } = await attempt(() => new Response(stream));
    expect(row).toMatchObject({ state: "delivered", attempts: 1, lastStatus: 200, lastError: null });
    expect(cancelled()).toBe(true);
    expect(pulled()).toBeLessThanOrEqual(1);
  });

  test.each([
    "x",
    "ü",
    "世",
    "👋",
  ])("that never ends is read for 4,096 bytes and abandoned (%s)", async (letter) => {
    const { stream, cancelled } = endless(letter);
    const { row, entry } = await attempt(() => new Response(stream, { status: 500 }));
    expect(row).toMatchObject({ state: "retrying", reason: "http_500" });
    const bytes = new TextEncoder().encode(entry?.excerpt).byteLength;
    expect(bytes).toBeLessThanOrEqual(4096);
    expect(bytes).toBeGreaterThan(4080);
    expect(entry?.excerpt).toMatch(new RegExp(`^${letter}+$`, "u"));
    expect(cancelled()).toBe(true);
  });

  test.each<[string, readonly SignatureForm[] | null, string]>([
    ["the default form", null, "webhook-signature"],
    ["the form of Stripe", [{ form: "stripe" }], "stripe-signature"],
    ["the form of GitHub", [{ form: "github" }], "x-hub-signature-256"],
    [
      "a template",
      [{ form: "template", content: "{id}{body}", signature_header: "X-Sig", prefix: "{id} " }],
      "x-sig",
    ],
  ])("is recorded without the event's own headers and the signatures that it repeats: %s", async (_, signatureForms, header) => {
    const destination = await newDestination({ signatureForms });
    let sent = new Headers();
    world.receiver.script(urlOf(destination), ({ headers }) => {
      sent = headers;
      const signature = headers.get(header) ?? "";
      const [alone = ""] = signature.match(/[\w+/]{40,}=?$/) ?? [];
      const lines = [...headers].map(([name, value]) => `${name}: ${value}`);
      return new Response(`${lines.join("\n")}\nexpected ${alone}.`, { status: 400 });
    });
    const options = { headers: { "X-Trace": "customer-trace-value" } };
    const [message] = await world.post(1, { data: { number: 1 }, options });
    if (!message) throw new Error("The event is for the destination");
    await world.consume([message]);
    const excerpt = (await rowOf(message))?.log.at(-1)?.excerpt ?? "";
    expect(sent.get("x-trace")).toBe("customer-trace-value");
    expect(excerpt).toContain("x-trace: ***\n");
    expect(excerpt).toContain(`${header}: ***\n`);
    expect(excerpt).toContain("expected ***.");
    expect(excerpt).toContain(`webhook-id: ${eventId(message.eventId)}\n`);
  });

  test("in one chunk is cut at 4,096 bytes", async () => {
    const { entry } = await attempt(() => new Response("y".repeat(100_000), { status: 500 }));
    expect(entry?.excerpt).toBe("y".repeat(4096));
  });

  test("in small chunks is put together, including characters that were split", async () => {
    const bytes = new TextEncoder().encode("Fehler: größer als 世界");
    const stream = new ReadableStream({
      start(controller) {
        for (const byte of bytes) controller.enqueue(Uint8Array.of(byte));
        controller.close();
      },
    });
    const { entry } = await attempt(() => new Response(stream, { status: 422 }));
    expect(entry?.excerpt).toBe("Fehler: größer als 世界");
  });

  test("whose body breaks off counts by its status", async () => {
    const stream = new ReadableStream({
      pull(controller) {
        controller.error(new Error("Network connection lost."));
      },
    });
    const { row, entry } = await attempt(() => new Response(stream, { status: 503 }));
    expect(row).toMatchObject({ state: "retrying", reason: "http_503", attempts: 1 });
    expect(entry?.excerpt).toBeUndefined();
  });

  test("whose body stalls is given up at the attempt's timeout", async () => {
    const { row } = await attempt(
      ({ signal }: Call) => {
        const stream = new ReadableStream({
          start(controller) {
            signal.addEventListener("abort", () => controller.error(signal.reason));
          },
        });
        return new Response(stream, { status: 500 });
      },
      { timeoutMs: 100 },
    );
    expect(row).toMatchObject({ state: "retrying", reason: "http_500" });
  });

  test("that redirects is not followed, and its target is noted", async () => {
    const { row, entry } = await attempt(
      () => new Response(null, { status: 302, headers: { location: "https://elsewhere.example/" } }),
    );
    expect(world.receiver.calls).toHaveLength(1);
    expect(row).toMatchObject({
      state: "dead",
      reason: "permanent",
      lastStatus: 302,
      lastError: "http_302",
    });
    expect(entry).toMatchObject({ status: 302, note: "Location: https://elsewhere.example/" });
  });

  test("is recorded for each attempt: everything that was read of the last, and the beginnings of earlier ones", async () => {
    const { destination, message } = await attempt(() => new Response("a".repeat(5_000), { status: 500 }));
    for (const letter of ["b", "c", "d", "e", "f", "g"]) {
      world.receiver.script(urlOf(destination), () => new Response(letter.repeat(5_000), { status: 500 }));
      world.clock.pass(3_600_000);
      await world.consume([message]);
    }
    const log = (await rowOf(message))?.log ?? [];
    const kept = log.map(({ excerpt = "" }) => `${excerpt.slice(0, 1)}${excerpt.length}`);
    expect(kept).toEqual(["0", "0", "c512", "d512", "e512", "f512", "g4096"].slice(-log.length));
    expect(log.length).toBeGreaterThan(5);
  });

  test("is recorded with its latency", async () => {
    const { entry } = await attempt(() => {
      world.clock.pass(321);
      return new Response(null, { status: 200 });
    });
    expect(entry).toMatchObject({ at: world.clock.now() - 321, latencyMs: 321, status: 200 });
  });
});

describe("an attempt without a response", () => {
  test("is a timeout when the destination's timeout has passed", async () => {
    const { row, entry } = await attempt(
      ({ signal }: Call) =>
        new Promise((_, fail) => {
          signal.addEventListener("abort", () => fail(signal.reason));
        }),
      { timeoutMs: 100 },
    );
    expect(row).toMatchObject({ state: "retrying", reason: "timeout", attempts: 1, lastStatus: null });
    expect(entry).toMatchObject({ error: "timeout" });
  });

  test.each([
    ["connection_lost", "Network connection lost."],
    ["refused", "connection refused"],
    ["dns", "dns lookup failed"],
    ["tls", "TLS peer's certificate is not trusted; reason = self signed certificate"],
    ["network", "internal error; reference = abc"],
  ])("is %s when the error is %j", async (reason, message) => {
    const { row, results } = await attempt(new Error(message));
    expect(row).toMatchObject({ state: "retrying", reason, lastError: reason, attempts: 1 });
    expect(results).toEqual([{ retryIn: 23 }]);
    expect(world.logged("attempt")).toMatchObject([{ error: reason, fault: `Error: ${message}` }]);
  });
});

describe("an attempt that Cloudflare's edge answers in the receiver's place", () => {
  const answered =
    (status: number, body: string, headers: Record<string, string> = {}) =>
    () =>
      new Response(body, {
        status,
        headers: { server: "cloudflare", "content-type": "text/plain; charset=UTF-8", ...headers },
      });

  test.each([
    ["dns", 530, "error code: 1016"],
    ["refused", 521, "error code: 521"],
    ["timeout", 522, "error code: 522"],
    ["tls", 526, "error code: 526"],
  ])("is %s when it answers %i with %j, and its status is recorded", async (reason, status, body) => {
    const { row, entry, results } = await attempt(answered(status, body));
    expect(row).toMatchObject({ state: "retrying", reason, lastError: reason, lastStatus: status });
    expect(entry).toMatchObject({ error: reason, status, excerpt: body });
    expect(results).toEqual([{ retryIn: 23 }]);
    expect(world.logged("attempt")).toMatchObject([{ error: reason, status }]);
  });

  test("is challenged, and retried although the receiver's 403 would end the delivery", async () => {
    const { row, entry } = await attempt(
      answered(403, "<title>Just a moment...</title>", {
        "content-type": "text/html",
        "cf-mitigated": "challenge",
      }),
    );
    expect(row).toMatchObject({ state: "retrying", reason: "challenged", lastError: "challenged" });
    expect(entry).toMatchObject({ error: "challenged", status: 403 });
  });

  test("has the receiver's own 530 as a status, and no error", async () => {
    const { row, entry } = await attempt(answered(530, "error code: 1016", { server: "nginx" }));
    expect(row).toMatchObject({ state: "retrying", reason: "http_530", lastError: "http_530" });
    expect(entry).not.toHaveProperty("error");
  });

  test("counts against a limit on its cause like the same error when it is thrown", async () => {
    const retry = { preset: "gethook" } as const;
    const { destination, message } = await attempt(answered(530, "error code: 1016"), { retry });
    world.clock.pass(3_600_000);
    world.receiver.script(urlOf(destination), new Error("dns lookup failed"));
    await world.consume([message]);
    expect(await rowOf(message)).toMatchObject({ state: "retrying", attempts: 2 });
    world.clock.pass(3_600_000);
    world.receiver.script(urlOf(destination), answered(530, "error code: 1016"));
    await world.consume([message]);
    expect(await rowOf(message)).toMatchObject({ state: "dead", reason: "exhausted", attempts: 3 });
  });
});

test("an attempt writes one log line, without payload or secret", async () => {
  await attempt(503);
  const [line, ...others] = world.logged("attempt");
  expect(others).toEqual([]);
  expect(line).toMatchObject({
    attempt: 1,
    status: 503,
    state: "retrying",
    reason: "http_503",
    type: "order.paid",
  });
  expect(JSON.stringify(world.log)).not.toMatch(/"number"|whsec_|MfKQ9r8/);
});

function verified(call: Call | undefined): unknown {
  if (!call) throw new Error("There was no call");
  return new Webhook(SECRET).verify(call.body, Object.fromEntries(call.headers));
}

/** A body that never ends. */
function endless(letter: string) {
  const piece = new TextEncoder().encode(letter.repeat(60));
  let pulled = 0;
  let cancelled = false;
  const stream = new ReadableStream(
    {
      pull(controller) {
        pulled += 1;
        controller.enqueue(piece);
      },
      cancel() {
        cancelled = true;
      },
    },
    { highWaterMark: 0 },
  );
  return { stream, pulled: () => pulled, cancelled: () => cancelled };
}
