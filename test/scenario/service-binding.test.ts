/**
 * Breakwater beside other Workers, all of them running: the example of a shop that sends events by service binding, and
 * one that puts them on a queue of its own.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ReceiverServer, startReceiver } from "../../tools/receiver.ts";
import { type ApiClient, apiClient } from "../../tools/stack.ts";
import { startBreakwater, workerIn } from "../support/breakwater-runtime.ts";
import type { Runtime } from "../support/runtime.ts";
import { until } from "./until.ts";

const KEY = "test-admin-key-0123456789";
const EXAMPLE = "examples/service-binding";
const QUEUE = "till-events";
const PATH = "/hooks/acme";

/** Puts what is posted on the queue, and keeps what comes out of the dead-letter queue. */
const TILL = `
  const dead = [];
  export default {
    async fetch(request, { EVENTS }) {
      if (request.method === "GET") return Response.json(dead);
      await EVENTS.sendBatch(await request.json());
      return new Response(null, { status: 202 });
    },
    queue(batch) {
      dead.push(...batch.messages.map(({ body }) => body));
    },
  };`;

const till = {
  name: "till",
  modules: true,
  script: TILL,
  compatibilityDate: "2026-08-15",
  queueProducers: { EVENTS: { queueName: QUEUE } },
  queueConsumers: { [`${QUEUE}-dead`]: { maxBatchTimeout: 0 } },
};

let receiver: ReceiverServer;
let runtime: Runtime;
let api: ApiClient;
beforeAll(async () => {
  receiver = await startReceiver(() => ({ status: 204 }));
  runtime = await startBreakwater({
    vars: { ADMIN_KEY: KEY, ALLOW_PRIVATE_DESTINATIONS: "true" },
    queueConsumers: {
      [QUEUE]: { maxBatchSize: 100, maxBatchTimeout: 0, maxRetries: 2, deadLetterQueue: `${QUEUE}-dead` },
    },
    others: async (place) => [
      {
        name: "shop",
        ...(await workerIn(`${place}/shop`, `${EXAMPLE}/wrangler.toml`, `${EXAMPLE}/src/worker.ts`)),
      },
      till,
    ],
  });
  api = apiClient(runtime.url, KEY);
  const { secret } = await api.post<{ secret: string }>("/v1/destinations", {
    url: `${receiver.url}${PATH}`,
    tenant: "acme",
  });
  receiver.secrets.set(PATH, secret);
}, 120_000);
afterAll(async () => {
  await runtime?.stop();
  receiver?.close();
});

/** The data of what the receiver has got with a signature that verifies. */
const received = () =>
  receiver.hits.filter(({ verified }) => verified).map(({ body }) => JSON.parse(body).data);

async function receivedAll(isWanted: (data: { order: { id: string } }) => boolean, count: number) {
  const found = () => received().filter(isWanted);
  await until(() => found().length >= count, {
    withinMs: 20_000,
    otherwise: () => `only ${found().length} of ${count} were received`,
  });
  return found();
}

async function shop(method: string, path: string, body?: unknown) {
  const response = await runtime.request("shop", `https://shop.example${path}`, {
    method,
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  return { status: response.status, json: await response.json() };
}

describe("the example of a shop", () => {
  test("has its event delivered, signed, and sees it delivered, without a key", async () => {
    const { status, json } = await shop("POST", "/orders", { id: "o-1", total: 12.5 });
    expect(status).toBe(201);
    const [accepted] = json as [{ id: string; deliveries: unknown[] }];
    expect(accepted.deliveries).toHaveLength(1);
    const [data] = await receivedAll(({ order }) => order.id === "o-1", 1);
    expect(data).toEqual({ order: { id: "o-1", total: 12.5 }, at: expect.stringMatching(/^20.*Z$/) });
    const seen = async () =>
      (await shop("GET", `/events/${accepted.id}`)).json as { deliveries: { state: string }[] };
    await until(async () => (await seen()).deliveries[0]?.state === "delivered", {
      withinMs: 20_000,
      otherwise: () => "it is not delivered",
    });
  });

  test("sends many orders as one batch", async () => {
    const orders = Array.from({ length: 150 }, (_, i) => ({ id: `many-${i}`, total: i }));
    expect((await shop("POST", "/orders", orders)).status).toBe(201);
    const all = await receivedAll(({ order }) => order.id.startsWith("many-"), 150);
    expect(new Set(all.map(({ order }) => order.id)).size).toBe(150);
  });

  test("gets a problem, not an exception without words, for what it may not see", async () => {
    const { id } = await api.post<{ id: string }>("/v1/events", { type: "a", tenant: "another", data: 1 });
    const { status, json } = await shop("GET", `/events/${id}`);
    expect([status, json]).toMatchObject([
      404,
      { type: "/problems/not-found", detail: `There is no event ${id}` },
    ]);
  });
});

describe("a queue of events", () => {
  test("has its messages delivered, whatever their form on the queue, and bad ones in its dead-letter queue", async () => {
    const message = (id: string, contentType: string) => ({
      body: { type: "order.created", tenant: "acme", data: { order: { id } } },
      contentType,
    });
    const bad = { body: { type: "order.created", tenant: "acme" }, contentType: "json" };
    const batch = [message("q-1", "json"), bad, message("q-2", "v8"), { body: "q-3", contentType: "text" }];
    const { status } = await runtime.request("till", "https://till.example/", {
      method: "POST",
      body: JSON.stringify(batch),
    });
    expect(status).toBe(202);
    const all = await receivedAll(({ order }) => order.id.startsWith("q-"), 2);
    expect(all.map(({ order }) => order.id).sort()).toEqual(["q-1", "q-2"]);
    const dead = async (): Promise<unknown[]> =>
      (await (await runtime.request("till", "https://till.example/")).json()) as unknown[];
    await until(async () => (await dead()).length >= 2, {
      withinMs: 30_000,
      otherwise: () => "the bad messages are not in the dead-letter queue",
    });
    expect(await dead()).toEqual(expect.arrayContaining([bad.body, "q-3"]));
    expect(await dead()).toHaveLength(2);
  });
});
