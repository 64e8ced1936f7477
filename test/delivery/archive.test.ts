/** The archive of exchanges in R2, which never delays a delivery. */
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { archiving, storeExchange } from "../../src/delivery/archiver.ts";
import { connections } from "../../src/delivery/connections.ts";
import { emptyExchange } from "../../src/store/archive.ts";
import type { LoadedDelivery } from "../../src/store/deliveries.ts";
import { destinationsById } from "../../src/store/destinations.ts";
import { strictServices } from "../../tools/strict/bindings.ts";
import { Invocation } from "../../tools/strict/invocation.ts";
import { exchangeOf, type TestBucket, testBucket } from "../support/bucket.ts";
import { rowsOfAll } from "../support/databases.ts";
import {
  execute,
  FIRST_EVENT,
  newDestination,
  newWorld,
  rowOf,
  START,
  storedRows,
  urlOf,
  type World,
} from "../support/world.ts";

let world: World;
let r2: TestBucket;
beforeEach(async () => {
  world = await newWorld();
  r2 = await testBucket();
  Object.assign(world.services, { bodies: r2.bucket });
});
afterEach(() => {
  vi.restoreAllMocks();
});

const keepAll = () =>
  Object.assign(world.services, { config: { ...world.services.config, bodiesOf: "all" } });

type Script = Parameters<World["receiver"]["script"]>[1];

/** Posts one event and makes one attempt, which the script answers. */
async function attempt(script: Script, columns = {}) {
  const destination = await newDestination(columns);
  world.receiver.script(urlOf(destination), script);
  const [message] = await world.post(1, { data: { number: 1 } });
  if (!message) throw new Error("The event is for the destination");
  const results = await world.consume([message]);
  await world.settledThroughPauses();
  return { destination, message, results, row: await rowOf(message) };
}

async function kept() {
  const objects = await r2.stored();
  return objects.map(exchangeOf);
}

const long =
  (text: string, status = 500) =>
  () =>
    new Response(text, { status });

describe("an exchange is archived", () => {
  test("with the answer up to 64 KB, its headers, and the request as it was sent", async () => {
    const text = "ü".repeat(20_000);
    const { destination, row, message } = await attempt(
      () => new Response(text, { status: 500, headers: { "x-trace": "t1", "set-cookie": "a=1" } }),
      { headers: { "x-api-key": "k-e-y-123" } },
    );
    const [exchange] = await kept();
    expect(exchange).toMatchObject({
      destination,
      at: row?.log[0]?.at,
      request: { url: urlOf(destination), headers: { "x-api-key": "***", "webhook-attempt": "1" } },
      response: { status: 500, encoding: "utf-8", body: text, cut: false },
    });
    expect(exchange?.response?.headers).toMatchObject({ "x-trace": "t1", "set-cookie": "***" });
    expect(row?.log[0]).toMatchObject({ archived: true, excerpt: "ü".repeat(2_048) });
    expect((await r2.stored())[0]?.name).toBe(
      `attempts/${String(message.eventId).padStart(16, "0")}/${destination}/${row?.log[0]?.at}`,
    );
  });

  test("with the first 65,536 bytes of an endless answer, without a cut character", async () => {
    let cancelled = false;
    const stream = new ReadableStream({
      pull: (controller) => controller.enqueue(new TextEncoder().encode("世世世世世世世世世世x")),
      cancel: () => {
        cancelled = true;
      },
    });
    await attempt(() => new Response(stream, { status: 502 }));
    const [exchange] = await kept();
    expect(exchange?.response?.cut).toBe(true);
    const { byteLength } = new TextEncoder().encode(exchange?.response?.body);
    expect(byteLength).toBeGreaterThan(65_532);
    expect(byteLength).toBeLessThanOrEqual(65_536);
    expect(exchange?.response?.body).toMatch(/^[世x]+$/u);
    expect(cancelled).toBe(true);
  });

  test("byte for byte, if the answer is not text", async () => {
    const bytes = Uint8Array.from({ length: 5_000 }, (_, i) => i % 256);
    await attempt(() => new Response(bytes, { status: 500 }));
    const [exchange] = await kept();
    expect(exchange?.response).toMatchObject({ encoding: "base64", cut: false });
    expect(Uint8Array.fromBase64(exchange?.response?.body ?? "")).toEqual(bytes);
  });

  test("without a signature that the receiver repeats", async () => {
    let signature = "";
    await attempt(({ headers }) => {
      signature = headers.get("webhook-signature") ?? "";
      return new Response(`${"-".repeat(5_000)} ${signature}`, {
        status: 500,
        headers: { "x-echo": signature },
      });
    });
    const [exchange] = await kept();
    expect(signature).toMatch(/^v1,/);
    expect(exchange?.response?.body).toBe(`${"-".repeat(5_000)} ***`);
    expect(exchange?.response?.headers["x-echo"]).toBe("***");
  });

  test.each([
    "text",
    "bytes",
  ])("without secrets that the receiver repeats, in %s and in headers", async (form) => {
    const sent = "s3cr3t-header-value";
    const tail = form === "bytes" ? new Uint8Array([0, 255, 0]) : new Uint8Array();
    const text = new TextEncoder().encode(`${"-".repeat(5_000)} ${sent} and more`);
    await attempt(() => new Response(new Blob([text, tail]), { status: 500, headers: { "x-echo": sent } }), {
      headers: { "x-api-key": sent },
    });
    const [exchange] = await kept();
    const { body = "", encoding } = exchange?.response ?? {};
    expect(encoding).toBe(form === "bytes" ? "base64" : "utf-8");
    const shown = encoding === "base64" ? atob(body) : body;
    expect(shown).toContain("*** and more");
    expect(shown).not.toContain(sent);
    expect(exchange?.response?.headers["x-echo"]).toBe("***");
  });

  test("but not of a success or of a failure whose whole answer is in the log, unless all are archived", async () => {
    const scripts = [
      long("x".repeat(512)),
      long("y".repeat(600), 200),
      new Error("Network connection lost."),
    ];
    const attemptAll = async () => {
      await execute("UPDATE destinations SET deleted_at = 1");
      const destination = await newDestination();
      world.receiver.script(urlOf(destination), ...scripts);
      for (const _ of scripts) await world.consume(await world.post());
      await world.settledThroughPauses();
    };
    await attemptAll();
    expect(r2.called("put")).toBe(0);
    expect((await storedRows()).some(({ log }) => log.some((entry) => "archived" in entry))).toBe(false);
    keepAll();
    await attemptAll();
    expect((await kept()).map(({ response }) => response?.body?.length)).toEqual([512, 600, undefined]);
    const flags = (await storedRows()).filter(({ log }) => log[0]?.archived);
    expect(flags.map(({ lastStatus }) => lastStatus).toSorted()).toEqual([500, null]);
  });

  test("and an archived success still needs no row", async () => {
    keepAll();
    const { row } = await attempt(() => new Response("ok"));
    expect(row).toMatchObject({ state: "delivered", attempts: 1 });
    expect(await rowsOfAll("SELECT * FROM deliveries")).toEqual([]);
    expect((await kept())[0]?.at).toBe(row?.log[0]?.at);
  });

  test("by a drain too", async () => {
    const destination = await newDestination({ status: "paused" });
    world.receiver.script(urlOf(destination), long("z".repeat(700)));
    await world.consume(await world.post());
    await execute("UPDATE destinations SET status = 'active'");
    await world.answer([{ destination, drains: 1 }]);
    await world.settledThroughPauses();
    expect((await storedRows()).map(({ attempts }) => attempts)).toEqual([1]);
    expect(await kept()).toHaveLength(1);
  });
});

describe("archiving an exchange", () => {
  test("begins when the batch is recorded and its messages are acknowledged", async () => {
    const destination = await newDestination();
    world.receiver.script(urlOf(destination), long("x".repeat(1_000)));
    const seen: (number | undefined)[] = [];
    r2.before(async (method) => {
      if (method === "put") seen.push((await storedRows())[0]?.attempts);
    });
    const [message] = await world.post();
    const [result] = await world.consume([message]);
    expect(result).toBeDefined();
    await world.settledThroughPauses();
    expect(seen).toEqual([1]);
  });

  test.each([
    ["fails", () => Promise.reject(new Error("put: We encountered an internal error (10001)"))],
    ["hangs", () => new Promise<void>(() => {})],
  ])("that %s changes nothing except one line of the log", async (_, fault) => {
    r2.before(fault);
    const { row, results } = await attempt(long("x".repeat(9_000)));
    expect(row).toMatchObject({ state: "retrying", attempts: 1 });
    expect(row?.log[0]?.excerpt).toBe("x".repeat(4_096));
    expect(results).toHaveLength(1);
    expect(world.logged("exchanges_not_kept")).toMatchObject([{ attempts: 1 }]);
    expect(world.logged("record_failed").concat(world.logged("batch_failed"))).toEqual([]);
  });

  test("never uses more connections than attempts may, and does not reuse a hanging one", async () => {
    r2.before(() => new Promise<void>(() => {}));
    const destination = await newDestination({ maxConcurrency: 50 });
    await world.earnTrust(destination, 30);
    world.receiver.script(urlOf(destination), long("x".repeat(1_000), 400));
    await world.consume(await world.postBundles(20));
    await world.settledThroughPauses();
    expect(r2.called("put")).toBeLessThanOrEqual(5);
    expect(r2.mostOpen()).toBeLessThanOrEqual(5);
    const [line, ...others] = world.logged("exchanges_not_kept");
    expect(others).toEqual([]);
    expect(Number(line?.attempts)).toBeGreaterThanOrEqual(5);
  });

  test("stays within the quotas of an invocation", async () => {
    const invocation = new Invocation({ now: world.clock.now });
    Object.assign(world.services, strictServices({ ...world.services }, invocation));
    const destination = await newDestination({ maxConcurrency: 50 });
    await world.earnTrust(destination, 30);
    world.receiver.script(urlOf(destination), long("x".repeat(1_000), 400));
    await world.consume(await world.postBundles(20));
    await world.settledThroughPauses();
    expect((await kept()).length).toBeGreaterThan(5);
    expect(invocation.breaches).toEqual([]);
  });

  test("does not await a slow answer: what has arrived is archived", async () => {
    const stream = new ReadableStream({
      start: (controller) => controller.enqueue(new TextEncoder().encode("x".repeat(5_000))),
    });
    const { row } = await attempt(() => new Response(stream, { status: 500 }));
    expect(row?.log[0]?.latencyMs).toBe(0);
    expect((await kept())[0]?.response).toMatchObject({ body: "x".repeat(5_000), cut: true });
  });

  test("holds at most 4 MB: the rest of a flood is not archived, and the log says how much", async () => {
    const { services, release } = archiving(world.services, r2.bucket, connections());
    const destination = await newDestination();
    const [row] = (await destinationsById(world.services.db, [destination])).values();
    if (!row) throw new Error("The destination is there");
    const taken = Array.from({ length: 100 }, (_, i) => {
      const chunks = [new Uint8Array(70_000).fill(120)];
      const answer = { response: new Response(null, { status: 500 }), excerpt: "x".repeat(4_096), chunks };
      const event = { id: FIRST_EVENT + i, type: "a" } as LoadedDelivery["event"];
      const arrived = { startedAt: world.clock.now(), secrets: () => [], answer };
      return services.archiveExchange?.({ event, destination: row, row: undefined }, "text/plain", arrived);
    });
    expect(taken.filter(Boolean)).toHaveLength(62);
    release();
    await world.settledThroughPauses();
    expect(await kept()).toHaveLength(62);
    expect(world.logged("exchanges_not_kept")).toMatchObject([{ attempts: 38, error: "too much at once" }]);
  });

  test("whose content was removed meanwhile stores nothing", async () => {
    const key = { event: FIRST_EVENT, destination: "dst_1", at: START };
    const exchange = {
      ...{ version: 1 as const, tenant: "acme", destination: key.destination, at: key.at },
      request: {
        url: "https://a.example/",
        headers: {},
        form: { body: "envelope" as const, template: null },
      },
    };
    await storeExchange(r2.bucket, { ...key, at: START + 1 }, exchange);
    await emptyExchange({ bucket: r2.bucket, sleep: world.services.sleep }, key);
    await storeExchange(r2.bucket, key, exchange);
    expect((await r2.stored()).map(({ text }) => text.length > 0)).toEqual([false, true]);
  });
});

test("without a bucket nothing is archived, and nothing claims that it was", async () => {
  Object.assign(world.services, { bodies: undefined });
  keepAll();
  const { row } = await attempt(long("x".repeat(9_000)));
  expect(row?.log[0]).not.toHaveProperty("archived");
  expect(world.logged("exchanges_not_kept")).toEqual([]);
});
