/** One exchange with a receiver, as it is reported: what is read, what is left unread, and what is stored of it. */
import { describe, expect, test } from "vitest";
import { type Credentials, noCredentials, type Renewal } from "../../src/delivery/authorization.ts";
import {
  call,
  EXCERPT_BYTES,
  ExchangeFailure,
  excerptOf,
  type Outgoing,
  readable,
  requestHeadersOf,
  send,
  textOf,
} from "../../src/delivery/http.ts";
import { payloadOf } from "../../src/delivery/payload.ts";
import { markerOf } from "../../src/secrets/deployment-marker.ts";
import type { ArchivableResult, Services } from "../../src/services.ts";
import { testConfig } from "../support/config.ts";
import { listenersAt } from "../support/listeners.ts";
import { utf8 } from "../support/utf8.ts";

const SECRET = "s3cr3t-v4lu3";
const credentials: Credentials = { headers: () => ({ "x-key": SECRET }), secrets: () => [SECRET] };

type Answering = (outgoing: Outgoing, times: number) => Response | Promise<Response>;
type Options = Readonly<{
  credentials?: Credentials;
  timeoutMs?: number;
  archive?: (arrived: ArchivableResult) => boolean;
}>;

/** A call that starts at 1,000; each reading of the clock takes a millisecond. */
async function exchange(answer: Answering, options: Options = {}) {
  let now = 999;
  const services = { now: () => ++now } as unknown as Services;
  const sent: Outgoing[] = [];
  const order = {
    post: async (outgoing: Outgoing) => answer(outgoing, sent.push(outgoing)),
    type: "order.paid",
    headers: async (at: number) => ({ at: String(at) }),
    body: utf8("{}"),
    credentials,
    timeoutMs: 60_000,
    ...options,
  };
  return { made: await call(services, order), sent };
}

const times = { startedAt: 1_000, endedAt: 1_002 };

/** A body of so many pieces, or without an end, which counts what is taken of it. */
function body(piece: string, pieces = Number.POSITIVE_INFINITY) {
  const seen = { pulled: 0, isCancelled: false };
  const stream = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        seen.pulled += 1;
        if (seen.pulled > pieces) controller.close();
        else controller.enqueue(utf8(piece));
      },
      cancel() {
        seen.isCancelled = true;
      },
    },
    { highWaterMark: 0 },
  );
  return { stream, seen };
}

describe("an exchange reports", () => {
  test("only the status of a success, and leaves its body unread", async () => {
    const { stream, seen } = body("a");
    const { made, sent } = await exchange(() => new Response(stream, { headers: { location: "/x" } }));
    expect(made).toStrictEqual({ ...times, exchange: { kind: "response", status: 200 } });
    expect(seen).toEqual({ pulled: 0, isCancelled: true });
    expect(sent).toMatchObject([{ type: "order.paid", headers: { at: "1000" }, body: utf8("{}") }]);
  });

  test("no excerpt of a refusal without a body", async () => {
    const { made } = await exchange(() => new Response("", { status: 500 }));
    expect(made).toStrictEqual({ ...times, exchange: { kind: "response", status: 500 } });
  });

  test.each([
    ["of one piece", "é".repeat(5_000), 1, 1],
    ["of many", "0123456789", 1_000, 410],
    ["that ends there", "01234567", 512, 512],
  ])("the first 4,096 bytes of a refusal %s, and reads no further", async (_, piece, pieces, pulled) => {
    const { stream, seen } = body(piece, pieces);
    const { made } = await exchange(() => new Response(stream, { status: 422 }));
    const whole = utf8(piece.repeat(pieces)).subarray(0, EXCERPT_BYTES);
    expect(made.excerpt).toBe(new TextDecoder().decode(whole));
    expect(seen).toEqual({ pulled, isCancelled: true });
  });

  test("what has arrived of a refusal that breaks off, with split characters joined", async () => {
    const bytes = utf8("größer als 世界");
    let at = 0;
    const stream = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (at === bytes.length) controller.error(new Error("Network connection lost."));
        else controller.enqueue(bytes.subarray(at, ++at));
      },
    });
    const { made } = await exchange(() => new Response(stream, { status: 500 }));
    expect(made).toStrictEqual({
      ...times,
      exchange: { kind: "response", status: 500 },
      excerpt: "größer als 世界",
    });
  });

  test.each([
    [299, undefined],
    [300, "/there?key=***"],
    [399, "/there?key=***"],
    [400, undefined],
  ])("where a %i leads: %s, without the credentials that were sent", async (status, location) => {
    const headers = { location: `/there?key=${SECRET}` };
    const { made } = await exchange(() => new Response(null, { status, headers }));
    expect(made).toStrictEqual({
      ...times,
      exchange: { kind: "response", status },
      ...(location && { location }),
    });
  });

  test("no location of a redirect without one", async () => {
    const { made } = await exchange(() => new Response(null, { status: 302 }));
    expect(made).toStrictEqual({ ...times, exchange: { kind: "response", status: 302 } });
  });

  test("credentials that the receiver repeats masked, and its remaining requests", async () => {
    const headers = { "x-ratelimit-remaining": "3", "x-ratelimit-reset": "60" };
    const { made } = await exchange(() => new Response(`no: ${SECRET}`, { status: 429, headers }));
    expect(made).toStrictEqual({
      ...times,
      exchange: { kind: "response", status: 429 },
      excerpt: "no: ***",
      limits: { remaining: 3, resetAt: 61_001 },
    });
  });

  const named = (name: string, message: string) => Object.assign(new Error(message), { name });

  test.each<[string, unknown, string]>([
    ["timeout", named("TimeoutError", "too long"), "TimeoutError: too long"],
    ["timeout", named("AbortError", "aborted"), "AbortError: aborted"],
    ["connection_lost", new Error("Network connection lost."), "Error: Network connection lost."],
    ["refused", new Error("connection refused"), "Error: connection refused"],
    ["refused", "Connection refused", "Connection refused"],
    ["tls", new Error("The certificate has expired"), "Error: The certificate has expired"],
    ["tls", new Error("bad SSL record"), "Error: bad SSL record"],
    ["network", new Error("titles"), "Error: titles"],
    ["dns", new Error("DNS lookup failed"), "Error: DNS lookup failed"],
    ["dns", new Error("name not resolved"), "Error: name not resolved"],
    ["dns", new Error("getaddrinfo ENOTFOUND x"), "Error: getaddrinfo ENOTFOUND x"],
    ["network", new Error(`no: ${SECRET}`), "Error: no: ***"],
    ["network", undefined, "undefined"],
  ])("%s for a thrown error: %s", async (kind, thrown, fault) => {
    const { made } = await exchange(() => Promise.reject(thrown));
    expect(made).toStrictEqual({ startedAt: 1_000, endedAt: 1_001, exchange: { kind }, fault });
  });

  test("a kind's own reason for a failure, whatever the error says", async () => {
    const { made } = await exchange(() => Promise.reject(new ExchangeFailure("refused", "dns")));
    expect(made).toMatchObject({ exchange: { kind: "refused" }, fault: "ExchangeFailure: dns" });
  });
});

describe("an exchange is passed to the archive if that takes it", () => {
  const taking = (arrived: ArchivableResult[]) => (one: ArchivableResult) => arrived.push(one) > 0;

  test("with the part of the answer that was read, and the rest for the archive to read", async () => {
    const { stream, seen } = body("a".repeat(EXCERPT_BYTES), 2);
    const arrived: ArchivableResult[] = [];
    const response = new Response(stream, { status: 500 });
    const { made } = await exchange(() => response, { archive: taking(arrived) });
    const [kept] = arrived;
    expect(made.isArchived).toBe(true);
    expect(kept).toMatchObject({ startedAt: 1_000, answer: { response, excerpt: made.excerpt } });
    expect(kept?.secrets()).toEqual([SECRET]);
    expect(kept?.answer?.chunks).toHaveLength(1);
    expect(await kept?.answer?.rest?.read()).toMatchObject({ done: false });
    expect(seen.isCancelled).toBe(false);
  });

  test("with a success's answer, which only the archive reads", async () => {
    const { stream } = body("done", 1);
    const arrived: ArchivableResult[] = [];
    const { made } = await exchange(() => new Response(stream), { archive: taking(arrived) });
    expect(made).toStrictEqual({
      ...times,
      exchange: { kind: "response", status: 200 },
      isArchived: true,
    });
    expect(arrived[0]?.answer).toMatchObject({ excerpt: undefined, chunks: [] });
    expect(await arrived[0]?.answer?.rest?.read()).toEqual({ done: false, value: utf8("done") });
  });

  test("without an answer if there was none", async () => {
    const arrived: ArchivableResult[] = [];
    const { made } = await exchange(() => Promise.reject(new Error("x")), { archive: taking(arrived) });
    expect(made).toMatchObject({ isArchived: true, fault: "Error: x" });
    expect(Object.keys(arrived[0] ?? {})).toEqual(["startedAt", "secrets"]);
  });

  test("and otherwise its body is cancelled", async () => {
    const { stream, seen } = body("a");
    const { made } = await exchange(() => new Response(stream, { status: 500 }), { archive: () => false });
    expect(made).not.toHaveProperty("isArchived");
    expect(seen.isCancelled).toBe(true);
  });
});

describe("after a 401", () => {
  /** Credentials that change, or do not, after some time. */
  function renewing(renewal: Renewal) {
    const refused: unknown[] = [];
    const renew = async (sent: object) => {
      refused.push(sent);
      await new Promise((resolve) => setImmediate(resolve));
      return renewal;
    };
    return { refused, credentials: { ...credentials, renew } };
  }

  test("with other credentials the request is made once more, and the first answer is left unread", async () => {
    const { stream, seen } = body("a");
    const { refused, credentials } = renewing({ kind: "renewed" });
    const { made, sent } = await exchange(
      (_, times) => (times === 1 ? new Response(stream, { status: 401 }) : new Response(null)),
      { credentials },
    );
    expect(made.exchange).toEqual({ kind: "response", status: 200 });
    expect(sent.map(({ headers }) => headers)).toEqual([{ at: "1000" }, { at: "1001" }]);
    expect(refused).toEqual([{ at: "1000" }]);
    expect(seen).toEqual({ pulled: 0, isCancelled: true });
  });

  test("to the renewed credentials too, the 401 is the result", async () => {
    const { refused, credentials } = renewing({ kind: "renewed" });
    const { made, sent } = await exchange(() => new Response("no", { status: 401 }), { credentials });
    expect(made).toMatchObject({ exchange: { kind: "response", status: 401 }, excerpt: "no" });
    expect([sent.length, refused.length]).toEqual([2, 1]);
  });

  test.each<[Renewal, object]>([
    [{ kind: "same" }, { kind: "response", status: 401 }],
    [
      { kind: "failed", reason: "token_refused" },
      { kind: "token_refused", status: 401 },
    ],
  ])("with %j the answer is read, and the exchange is %j", async (renewal, outcome) => {
    const { made, sent } = await exchange(() => new Response("no", { status: 401 }), renewing(renewal));
    expect(made).toStrictEqual({ ...times, exchange: outcome, excerpt: "no" });
    expect(sent).toHaveLength(1);
  });

  test("no listener stays at the attempt's signal once it is known whether there are other credentials", async () => {
    let listeners: ReadonlySet<string> | undefined;
    const { credentials } = renewing({ kind: "same" });
    await exchange(
      ({ signal }) => {
        listeners = listenersAt(signal);
        return new Response(null, { status: 401 });
      },
      { credentials },
    );
    expect(listeners).toEqual(new Set());
  });

  test("without renewable credentials, the 401 is the result", async () => {
    const { made, sent } = await exchange(() => new Response(null, { status: 401 }));
    expect(made.exchange).toEqual({ kind: "response", status: 401 });
    expect(sent).toHaveLength(1);
  });

  test.each([200, 400, 403])("nothing is renewed after a %i", async (status) => {
    const { refused, credentials } = renewing({ kind: "renewed" });
    const { sent } = await exchange(() => new Response(null, { status }), { credentials });
    expect([sent.length, refused]).toEqual([1, []]);
  });

  test.each([
    ["ends while other credentials are awaited", false],
    ["has ended before the answer came", true],
  ])("there is no token if the attempt's time %s", async (_, isOver) => {
    const renew = () => new Promise<never>(() => {});
    const { made } = await exchange(
      async ({ signal }) => {
        if (isOver) await new Promise((resolve) => signal.addEventListener("abort", resolve));
        return new Response(null, { status: 401 });
      },
      { credentials: { ...credentials, renew }, timeoutMs: 1 },
    );
    expect(made.exchange).toEqual({ kind: "token_unavailable", status: 401 });
  });
});

test("the beginning of a body is read, and the rest cancelled", async () => {
  const { stream, seen } = body("abcd".repeat(1_024));
  expect(await excerptOf(new Response(stream))).toBe("abcd".repeat(1_024));
  expect(seen).toEqual({ pulled: 1, isCancelled: true });
  expect(await excerptOf(new Response(null))).toBe("");
});

describe("bytes are text", () => {
  test.each([
    ["UTF-8", utf8("größer 世界"), "größer 世界"],
    ["UTF-8 with a byte order mark, which stays", utf8("\uFEFF{}"), "\uFEFF{}"],
    ["no UTF-8", Uint8Array.of(0xff, 0x41), undefined],
  ])("if they are %s", (_, bytes, text) => {
    expect(textOf(bytes)).toBe(text);
  });

  test("that people can read, unless they contain a NUL", () => {
    expect([readable("a b"), readable(""), readable("a\0b"), readable(undefined)]).toEqual([
      "a b",
      "",
      undefined,
      undefined,
    ]);
  });
});

describe("a destination gets as the content of an event", () => {
  const type = "operational.destination_paused";
  const data = { destination: "dst_1", tenant: "acme" };
  const event = {
    id: 1,
    type,
    body: utf8(JSON.stringify({ type, timestamp: "2050-06-01T12:00:00.000Z", data })),
  };
  const payload = (destination: object, contentType?: string) => {
    const { body, contentType: sentAs } = payloadOf({ ...event, ...(contentType && { contentType }) }, {
      body: null,
      template: null,
      ...destination,
    } as never);
    return { text: new TextDecoder().decode(body), sentAs };
  };

  test("the envelope as it is stored", () => {
    expect(payload({})).toEqual({ text: new TextDecoder().decode(event.body), sentAs: "application/json" });
    expect(payload({ body: "envelope" })).toEqual(payload({}));
  });

  test("only the data if it wants that", () => {
    expect(payload({ body: "data" })).toEqual({ text: JSON.stringify(data), sentAs: "application/json" });
  });

  test("the message of its template", () => {
    const { text, sentAs } = payload({ template: "slack", body: "data" });
    expect([sentAs, JSON.parse(text)]).toEqual([
      "application/json",
      expect.objectContaining({ text: expect.any(String) }),
    ]);
  });

  test("content as it was posted, whatever its settings", () => {
    const { text, sentAs } = payload({ template: "slack", body: "data" }, "image/png");
    expect([text, sentAs]).toEqual([new TextDecoder().decode(event.body), "image/png"]);
  });
});

const signer = async ({ id }: { id: string }, at: number) => ({ "webhook-id": id, "x-signed": String(at) });

test("Breakwater's headers override the destination's, and these the event's, in any spelling", async () => {
  const posted = { "X-A": "event", "X-B": "event", "X-C": "event", "User-Agent": "event" };
  const own = { "x-b": "own", "X-Key": "own", "WEBHOOK-ID": "own", "Content-Type": "own", "X-C": "own" };
  const message = {
    id: "evt_1",
    type: "t",
    attempt: 3,
    body: utf8(""),
    contentType: "text/plain",
    headers: posted,
  };
  const sender = { signer, credentials: { ...noCredentials, headers: () => own } };
  expect(await requestHeadersOf({ config: testConfig() }, message, sender, 7)).toEqual({
    "x-a": "event",
    "x-b": "own",
    "x-c": "own",
    "x-key": "own",
    "content-type": "text/plain",
    "user-agent": expect.stringMatching(/^Breakwater\//),
    "webhook-attempt": "3",
    "webhook-deployment": await markerOf(testConfig()),
    "webhook-id": "evt_1",
    "x-signed": "7",
  });
});

describe("an attempt", () => {
  const destination = { body: null, template: null };
  const delivery = (row: object | undefined, body: Uint8Array | null = utf8("{}")) =>
    ({ event: { id: 128, type: "t", body, headers: { "x-trace": "1" } }, destination, row }) as never;

  async function attempted(row: object | undefined, services: object = {}) {
    const sent: Outgoing[] = [];
    const post = async (outgoing: Outgoing) => {
      sent.push(outgoing);
      return new Response(null);
    };
    const how = { sender: { signer, credentials: noCredentials, post }, timeoutMs: 60_000 };
    const attempt = await send(
      { config: testConfig(), now: () => 5, ...services } as never,
      delivery(row),
      how,
    );
    return { attempt, headers: sent[0]?.headers };
  }

  test.each([
    [undefined, "1"],
    [{ attempts: 0 }, "1"],
    [{ attempts: 6 }, "7"],
  ])("after %j has the number %s", async (row, number) => {
    expect((await attempted(row)).headers).toMatchObject({ "webhook-attempt": number, "x-trace": "1" });
  });

  test("is archived by the invocation's archive, with the content type that was sent", async () => {
    expect((await attempted(undefined)).attempt).not.toHaveProperty("isArchived");
    const kept: unknown[] = [];
    const archiveExchange = (_delivery: unknown, type: string) => kept.push(type) > 0;
    expect((await attempted(undefined, { archiveExchange })).attempt.isArchived).toBe(true);
    expect(kept).toEqual(["application/json"]);
  });

  test("is not made of an event whose body is damaged", async () => {
    const how = { sender: {} as never, timeoutMs: 60_000 };
    await expect(send({} as never, delivery(undefined, null), how)).rejects.toThrow(
      "A delivery without a body to send must not be attempted",
    );
  });
});
