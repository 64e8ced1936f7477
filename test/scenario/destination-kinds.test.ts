/** Breakwater and another Worker in one runtime, with a real queue and a real service binding between them. */
import { get } from "node:http";
import { Webhook } from "standardwebhooks";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startBreakwater } from "../support/breakwater-runtime.ts";
import type { Runtime } from "../support/runtime.ts";
import { until } from "./until.ts";

const KEY = "an-admin-key-of-this-test-alone";
const MASTER_KEYS = `k1:${btoa("1".repeat(32))}`;
const HOST = "other.example";

/** Records what it gets, by its service and by its queue, and shows it. */
const script = `
const seen = [];
export default {
  async fetch(request) {
    const { hostname } = new URL(request.url);
    if (hostname === "${HOST}") return Response.json(seen);
    const headers = Object.fromEntries(request.headers);
    seen.push({ by: "service", url: request.url, headers, body: await request.text() });
    return new Response(null, { status: 204 });
  },
  async queue(batch) {
    for (const { body } of batch.messages) seen.push({ by: "queue", ...body });
  },
};`;

type Seen = Readonly<{
  by: string;
  url?: string;
  type?: string;
  headers: Record<string, string>;
  body: string;
}>;

let runtime: Runtime;
beforeAll(async () => {
  runtime = await startBreakwater({
    vars: { ADMIN_KEY: KEY, MASTER_KEYS, DESTINATION_BINDINGS: "ORDERS: acme; BILLING: acme" },
    queueProducers: { ORDERS: { queueName: "orders" } },
    serviceBindings: { BILLING: "other" },
    others: async () => [
      {
        name: "other",
        modules: true,
        script,
        routes: [`${HOST}/*`],
        queueConsumers: { orders: { maxBatchTimeout: 0 } },
        compatibilityDate: "2026-08-15",
      },
    ],
  });
});

afterAll(() => runtime?.stop());

async function created(path: string, body: object) {
  const headers = { authorization: `Bearer ${KEY}`, "content-type": "application/json" };
  const response = await fetch(`${runtime.url}${path}`, {
    method: "POST",
    headers,
    body: JSON.stringify(body),
  });
  expect(response.ok).toBe(true);
  return (await response.json()) as { id: string; secret: string };
}

/** What the other Worker has got. Node's `fetch` sends no Host of one's choice. */
function seen(): Promise<Seen[]> {
  return new Promise((resolve, reject) => {
    const request = get(runtime.url, { headers: { host: HOST } }, async (response) => {
      const chunks = await response.toArray();
      resolve(JSON.parse(Buffer.concat(chunks).toString()));
    });
    request.on("error", reject);
  });
}

test("another Worker gets each event over its queue and its service, and verifies both with the public library", async () => {
  const queue = await created("/v1/destinations", { kind: "queue", binding: "ORDERS", tenant: "acme" });
  const target = { kind: "service", binding: "BILLING", path: "/hook", tenant: "acme" };
  const service = await created("/v1/destinations", target);
  const event = await created("/v1/events", { type: "order.paid", data: { total: 100 }, tenant: "acme" });
  const otherwise = () => "the other Worker has not got both";
  await until(async () => (await seen()).length >= 2, { otherwise });
  const got = await seen();
  expect(got.map(({ by }) => by).toSorted()).toEqual(["queue", "service"]);
  for (const { by, headers, body } of got) {
    const { secret } = by === "queue" ? queue : service;
    expect(new Webhook(secret).verify(body, headers)).toMatchObject({
      type: "order.paid",
      data: { total: 100 },
    });
    expect(headers["webhook-id"]).toBe(event.id);
  }
  expect(got.find(({ by }) => by === "service")?.url).toBe("https://billing.breakwater.internal/hook");
  expect(got.find(({ by }) => by === "queue")).toMatchObject({ type: "order.paid", attempt: 1 });
});
