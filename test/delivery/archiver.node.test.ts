/** The exchanges that an invocation archives, their limits, and when it writes them. */
import { beforeEach, describe, expect, test } from "vitest";
import { type ArchivedExchange, MOST_BODY_BYTES } from "../../src/core/archive.ts";
import { CONNECTIONS } from "../../src/core/lease.ts";
import { archiving } from "../../src/delivery/archiver.ts";
import { attempting } from "../../src/delivery/attempt-log.ts";
import { connections } from "../../src/delivery/connections.ts";
import { eventId } from "../../src/ids.ts";
import type { LogLine } from "../../src/log.ts";
import type { ArchivableResult, Services } from "../../src/services.ts";
import { START, standingClock } from "../support/clock.ts";
import { DESTINATION, loadedDelivery } from "../support/loaded-delivery.ts";

type Put = (name: string) => Promise<void>;
type Answer = NonNullable<ArchivableResult["answer"]>;

const READ_MS = 2_000;
const WRITE_MS = 15_000;
/** As many answers as 4 MB have room for, each counted with 65,536 bytes and 2,048 for what is beside it. */
const ANSWERS = 62;

let clock: ReturnType<typeof standingClock>;
let log: LogLine[];
let stored: Map<string, ArchivedExchange>;
let background: Promise<unknown>[];
let put: Put;
let shared: ReturnType<typeof connections>;
let archive: ReturnType<typeof archiving>;

beforeEach(() => {
  clock = standingClock();
  log = [];
  stored = new Map();
  background = [];
  put = async () => {};
  shared = connections();
  archive = archiverOf("all");
});

function archiverOf(bodiesOf: "all" | undefined) {
  const bucket = {
    put: async (name: string, text: string) => {
      await put(name);
      stored.set(name, JSON.parse(text));
    },
  };
  const services = {
    ...{ config: { bodiesOf }, now: clock.now, sleep: clock.sleep },
    log: (line: LogLine) => log.push(line),
    background: (work: Promise<unknown>) => background.push(work),
  };
  return archiving(services as unknown as Services, bucket as unknown as R2Bucket, shared);
}

const bytesOf = (text: string) => new TextEncoder().encode(text);
const decoded = (base64: string) => Uint8Array.from(atob(base64), (one) => one.charCodeAt(0));
/** Until nothing proceeds without the clock. */
const calm = () => new Promise((resolve) => setTimeout(resolve));

function answerOf(
  body: string | Uint8Array,
  own: Partial<Answer> & { status?: number; headers?: object } = {},
): Answer {
  const { status = 500, headers, ...rest } = own;
  const response = new Response(null, { status, headers: { ...headers } });
  return {
    response,
    excerpt: "x".repeat(600),
    chunks: [typeof body === "string" ? bytesOf(body) : body],
    ...rest,
  };
}

/** Hands over the exchange of an attempt at the nth event; returns whether it is accepted. */
function take(
  answer?: Answer,
  { nth = 0, secrets = [] as string[], given = {} as Parameters<typeof loadedDelivery>[0] } = {},
) {
  const delivery = loadedDelivery({ event: { id: 128 + nth }, ...given });
  const arrived = { startedAt: START + 5, secrets: () => secrets, ...(answer && { answer }) };
  return archive.services.archiveExchange?.(delivery, "text/plain", arrived);
}

/** Has everything written, and returns what is stored. */
async function released(): Promise<ArchivedExchange[]> {
  archive.release();
  await calm();
  return [...stored.values()];
}

async function responseTo(answer: Answer, secrets: string[] = []) {
  take(answer, { secrets });
  const [exchange] = await released();
  return exchange?.response;
}

describe("an exchange", () => {
  test("is archived with its request in the form that can be shown, under the name of the attempt", async () => {
    const given = {
      event: { id: 300, type: "a.b", headers: { "X-Own": "1" } },
      destination: { url: "https://a.example/in" },
      row: { attempts: 4 },
    };
    take(answerOf("no", { status: 503, headers: { "x-trace": "t" } }), { given });
    expect(await released()).toStrictEqual([
      {
        ...{ version: 1, tenant: "acme", destination: DESTINATION, at: START + 5 },
        request: {
          url: "https://a.example/in",
          headers: {
            ...{ "x-own": "***", "content-type": "text/plain", "webhook-attempt": "5" },
            "webhook-deployment": "***",
            ...{ "user-agent": expect.any(String), "webhook-id": eventId(300) },
            "webhook-timestamp": String(Math.floor(START / 1000)),
            "webhook-signature": "v1,***",
          },
          form: { body: "envelope", template: null },
        },
        response: { status: 503, headers: { "x-trace": "t" }, encoding: "utf-8", body: "no", cut: false },
      },
    ]);
    expect([...stored.keys()]).toEqual([`attempts/0000000000000300/${DESTINATION}/${START + 5}`]);
  });

  test("is archived with the content that the destination gets, and without an answer if there was none", async () => {
    const destination = { body: "data", template: "slack" } as const;
    take(undefined, { given: { destination } });
    const [exchange] = await released();
    expect(exchange?.request).toMatchObject({
      ...{ headers: { "webhook-attempt": "1" }, form: { body: "data", template: "slack" } },
    });
    expect(exchange).not.toHaveProperty("response");
    await Promise.all(background);
    expect(log).toEqual([]);
  });

  test.each<[string, Answer | undefined, boolean]>([
    ["a failure with an answer longer than the log keeps", answerOf("", { excerpt: "x".repeat(513) }), true],
    ["a failure with an answer that the log keeps", answerOf("", { excerpt: "x".repeat(512) }), false],
    ["a failure with an empty answer", answerOf("", { excerpt: undefined }), false],
    ["a success", answerOf("", { status: 200 }), false],
    ["an attempt without an answer", undefined, false],
  ])("of %s: archived only if all are: %#", (_, answer, isKept) => {
    expect(take(answer)).toBe(true);
    archive = archiverOf(undefined);
    expect(take(answer)).toBe(isKept);
  });

  test("is not archived without a bucket", async () => {
    const given = { now: clock.now, log: (line: LogLine) => log.push(line) } as unknown as Services;
    const { services, end } = await attempting(given, "queue", shared);
    expect(services.archiveExchange).toBeUndefined();
    end();
    expect(background).toEqual([]);
  });
});

describe("the headers of an answer", () => {
  test("are archived without cookies and secrets", async () => {
    const headers = { "set-cookie": "a=1", "x-echo": "key s3cr3t-value", "x-plain": "b" };
    expect((await responseTo(answerOf("no", { headers }), ["s3cr3t-value"]))?.headers).toEqual({
      ...{ "set-cookie": "***", "x-echo": "key ***", "x-plain": "b" },
    });
  });

  test.each([
    [16_384, ["a", "b"]],
    [16_385, ["a"]],
  ])("of %d characters are archived up to 16,384 in all, and none after that", async (characters, names) => {
    const headers = { a: "x".repeat(10_000), b: "x".repeat(characters - 10_002) };
    const kept = (await responseTo(answerOf("no", { headers })))?.headers;
    expect(Object.keys(kept ?? {})).toEqual(names);
  });

  test("that do not fit exclude those behind them", async () => {
    const headers = { a: "x".repeat(100), b: "x".repeat(20_000), c: "x" };
    expect(Object.keys((await responseTo(answerOf("no", { headers })))?.headers ?? {})).toEqual(["a"]);
  });
});

/** A reader of these chunks; of those that end nothing, or fail, the last one says so. */
function readerOf(chunks: readonly (Uint8Array | "hangs" | "fails")[], onCancel: () => void = () => {}) {
  const left = [...chunks];
  return new ReadableStream<Uint8Array>(
    {
      pull: (controller) => {
        const next = left.shift();
        if (next === undefined) controller.close();
        else if (next === "fails") controller.error(new Error("Network connection lost."));
        else if (next !== "hangs") controller.enqueue(next);
        return next === "hangs" ? new Promise(() => {}) : undefined;
      },
      cancel: onCancel,
    },
    { highWaterMark: 0 },
  ).getReader();
}

describe("the body of an answer", () => {
  const filled = (bytes: number) => new Uint8Array(bytes).fill(120);

  test("is the part that was read before, and the part that is read then", async () => {
    const rest = readerOf([bytesOf("b"), bytesOf("c")]);
    expect(await responseTo(answerOf("a", { rest }))).toMatchObject({ body: "abc", cut: false });
  });

  test("does not change with the memory that it was read into", async () => {
    const chunk = bytesOf("kept");
    take(answerOf(chunk));
    chunk.fill(120);
    expect((await released())[0]?.response?.body).toBe("kept");
  });

  test.each([
    [MOST_BODY_BYTES, 0, false],
    [MOST_BODY_BYTES - 1, 1, false],
    [MOST_BODY_BYTES, 1, true],
    [MOST_BODY_BYTES - 1, 2, true],
    [MOST_BODY_BYTES + 1, 0, true],
  ])("of %d bytes and %d more is cut after 65,536", async (first, second, cut) => {
    let cancelled = 0;
    const rest = readerOf(second > 0 ? [filled(second), "hangs"] : ["hangs"], () => cancelled++);
    const { chunks } = answerOf(filled(first));
    take(
      answerOf("", {
        chunks: [...chunks],
        ...(cut ? { rest } : second > 0 && { rest: readerOf([filled(second)]) }),
      }),
    );
    const [exchange] = await released();
    expect(exchange?.response?.body).toHaveLength(MOST_BODY_BYTES);
    expect(exchange?.response?.cut).toBe(cut);
    expect(cancelled).toBe(cut ? 1 : 0);
  });

  test("that breaks off is archived as far as it has arrived", async () => {
    const rest = readerOf([bytesOf("b"), "fails"]);
    expect(await responseTo(answerOf("a", { rest }))).toMatchObject({ body: "ab", cut: true });
  });

  test("that does not end is awaited for two seconds once the batch is done, and read no further", async () => {
    let cancelled = 0;
    const rest = readerOf([bytesOf("b"), "hangs"], () => {
      cancelled += 1;
      throw new Error("Cannot be cancelled");
    });
    take(answerOf("a", { rest }));
    clock.pass(60_000);
    expect(await released()).toEqual([]);
    clock.pass(READ_MS - 1);
    await calm();
    expect([stored.size, cancelled]).toEqual([0, 0]);
    clock.pass(1);
    await calm();
    expect([...stored.values()].map(({ response }) => response)).toMatchObject([{ body: "ab", cut: true }]);
    expect(cancelled).toBe(1);
    expect(log).toEqual([]);
  });

  test.each([
    ["text", bytesOf("a s3cr3t-value ü"), "utf-8", bytesOf("a *** ü")],
    ["text with a NUL", bytesOf("a s3cr3t-value\0"), "base64", bytesOf("a ***\0")],
    [
      "bytes that are no text",
      Uint8Array.of(255, ...bytesOf("s3cr3t-value")),
      "base64",
      Uint8Array.of(255, ...bytesOf("***")),
    ],
    ["text that ends within a character", bytesOf("aü").slice(0, -1), "base64", bytesOf("aü").slice(0, -1)],
  ])("is archived in its kind, without secrets: %s", async (_, bytes, encoding, shown) => {
    const { body = "", ...response } = (await responseTo(answerOf(bytes), ["s3cr3t-value"])) ?? {};
    expect(response).toMatchObject({ encoding });
    expect(encoding === "base64" ? decoded(body) : bytesOf(body)).toEqual(shown);
  });

  test("has no secret of non-ASCII characters either, if it is not text", async () => {
    const bytes = Uint8Array.of(255, ...bytesOf("schlüssel-😀"), 0);
    const { body = "" } = (await responseTo(answerOf(bytes), ["schlüssel-😀"])) ?? {};
    expect(decoded(body)).toEqual(Uint8Array.of(255, ...bytesOf("***"), 0));
  });

  test.each([
    0, 1, 2, 3,
  ])("that is cut %d bytes into a character is text without that character", async (bytes) => {
    const text = "x".repeat(MOST_BODY_BYTES - bytes);
    const response = await responseTo(answerOf(`${text}😀 and more`));
    expect(response).toMatchObject({ encoding: "utf-8", body: text, cut: true });
  });

  test("that is cut is not text if more than its last character is invalid", async () => {
    const bytes = bytesOf("x".repeat(MOST_BODY_BYTES + 1));
    bytes[MOST_BODY_BYTES - 4] = 255;
    expect(await responseTo(answerOf(bytes))).toMatchObject({ encoding: "base64", cut: true });
  });
});

describe("the memory of an invocation for exchanges", () => {
  const takeMany = (count: number, answer?: () => Answer) =>
    Array.from({ length: count }, (_, nth) => take(answer?.(), { nth })).filter(Boolean).length;

  test("is at most 4 MB: exchanges beyond are not archived, and one line says how much that was", async () => {
    expect(takeMany(70, () => answerOf("no", { rest: readerOf(["hangs"]) }))).toBe(ANSWERS);
    await released();
    clock.pass(READ_MS);
    await calm();
    expect(stored.size).toBe(ANSWERS);
    expect(log).toEqual([{ what: "exchanges_not_kept", attempts: 70 - ANSWERS, error: "too much at once" }]);
  });

  test("counts little for an attempt without an answer, and the size of an answer once it is read", async () => {
    expect(takeMany(3_000)).toBe(2_016);
    archive = archiverOf("all");
    const half = () => answerOf(new Uint8Array(MOST_BODY_BYTES / 2 - 2_048).fill(120));
    expect(takeMany(40, half)).toBe(40);
    await calm();
    // Forty take up 1,310,720 bytes: 42 more fit beside them.
    expect(takeMany(100, half)).toBe(42);
  });

  test("is free again when it is written, to the last byte", async () => {
    for (let round = 1; round <= 3; round++) {
      expect(takeMany(100, () => answerOf("x".repeat(60_000), { rest: readerOf(["hangs"]) }))).toBe(ANSWERS);
      await released();
      clock.pass(READ_MS);
      await calm();
      expect(stored.size).toBe(ANSWERS);
      stored.clear();
    }
  });

  test("is free again when it could not be written", async () => {
    put = () => Promise.reject(new Error("put: 10001"));
    for (let round = 1; round <= 3; round++) {
      expect(takeMany(ANSWERS, () => answerOf("no", { rest: readerOf([]) }))).toBe(ANSWERS);
      await released();
    }
    expect(
      log.every(({ what, error }) => what === "exchanges_not_kept" && `${error}`.includes("10001")),
    ).toBe(true);
    expect(log.reduce((sum, { attempts }) => sum + Number(attempts), 0)).toBe(3 * ANSWERS);
  });
});

describe("writing", () => {
  test("begins when the batch is done, and then continues with each exchange as it comes", async () => {
    take(answerOf("a"));
    await calm();
    expect(stored.size).toBe(0);
    expect(await released()).toHaveLength(1);
    take(answerOf("b"), { nth: 1 });
    await calm();
    expect([...stored.values()].map(({ response }) => response?.body)).toEqual(["a", "b"]);
    expect(background).toHaveLength(2);
  });

  test("does not begin without an exchange", async () => {
    await released();
    expect(background).toEqual([]);
  });

  test("that fails never rejects, and one line says how many exchanges are lost, and why the first is", async () => {
    put = async (name) => {
      if (name.includes("128")) throw new Error("first");
      if (name.includes("129")) throw new Error("second");
    };
    for (let nth = 0; nth < 4; nth++) take(answerOf("a"), { nth });
    expect(await released()).toHaveLength(2);
    await Promise.all(background);
    expect(log).toEqual([{ what: "exchanges_not_kept", attempts: 2, error: "Error: first" }]);
    await released();
    expect(log).toHaveLength(1);
  });

  test("ends after 15 seconds: exchanges that are not stored by then count as lost", async () => {
    put = (name) => (name.includes("129") ? new Promise(() => {}) : Promise.resolve());
    for (let nth = 0; nth < 4; nth++) take(answerOf("a"), { nth });
    expect(await released()).toHaveLength(3);
    clock.pass(WRITE_MS - 1);
    await calm();
    expect(log).toEqual([]);
    clock.pass(1);
    await Promise.all(background);
    expect(log).toEqual([
      {
        what: "exchanges_not_kept",
        attempts: 1,
        error: expect.stringContaining("R2 did not answer in time"),
      },
    ]);
  });

  test("does not begin with an exchange that gets its connection only when the time is over", async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    for (let i = 0; i < CONNECTIONS; i++) void shared.run("dst_a", () => promise);
    take(answerOf("a"));
    await released();
    clock.pass(WRITE_MS);
    resolve();
    await calm();
    expect(stored.size).toBe(0);
    expect(log).toMatchObject([{ what: "exchanges_not_kept", attempts: 1 }]);
  });

  test("begins with an exchange that gets its connection just before", async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    for (let i = 0; i < CONNECTIONS; i++) void shared.run("dst_a", () => promise);
    take(answerOf("a"));
    await released();
    clock.pass(WRITE_MS - 1);
    resolve();
    await calm();
    expect(stored.size).toBe(1);
    expect(log).toEqual([]);
  });
});
