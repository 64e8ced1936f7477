/**
 * Two independent clients subscribe to events over MCP: one that knows the extension, and one that is given each
 * message.
 */
import { env } from "cloudflare:workers";
import { createMCPClient, experimental_createMCPEventWebhook } from "@ai-sdk/mcp";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { Webhook } from "standardwebhooks";
import { expect, test } from "vitest";
import { z } from "zod";
import { destinationByUid } from "../../../src/store/destinations.ts";
import { KEY } from "../../support/api.ts";
import { type EventsWorld, HOOKS, newEventsWorld } from "../../support/mcp-events.ts";
import type { Call } from "../../support/receivers.ts";
import { TENANT } from "../../support/world.ts";

const context = {
  waitUntil: () => {},
  passThroughOnException: () => {},
  props: {},
} as unknown as ExecutionContext;
const url = new URL("http://localhost/mcp");
const headers = { authorization: `Bearer ${KEY}` };

const secretOf = (byte: number) => `whsec_${new Uint8Array(32).fill(byte).toBase64()}`;
const asRequest = (call: Call) =>
  new Request(call.url, { method: "POST", headers: call.headers, body: call.body });

type Occurrence = Readonly<{ eventId: string; data: unknown; cursor?: string }>;

/** A client's actions on one subscription, and its verified arrivals. */
type Subscriber = Readonly<{
  names: () => Promise<unknown[]>;
  subscribe: (filter: object) => Promise<Record<string, unknown>>;
  renew: (secret?: string) => Promise<Record<string, unknown>>;
  unsubscribe: () => Promise<unknown>;
  received: Occurrence[];
  hook: string;
}>;

function fetchOf({ agent }: EventsWorld) {
  return async (input: string | URL | Request, init?: RequestInit): Promise<Response> =>
    agent.app.fetch(new Request(input, { ...init, redirect: "manual" }), env, context);
}

async function ofAiSdk(events: EventsWorld): Promise<Subscriber> {
  const kept = new Map<string, Record<string, unknown> & { key: string }>();
  const store = {
    get: async (key: string) => kept.get(key),
    getById: async (id: string) => [...kept.values()].find((one) => one.id === id),
    set: async (one: Record<string, unknown> & { key: string }) => void kept.set(one.key, one),
    update: async (key: string, patch: object) => void Object.assign(kept.get(key) ?? {}, patch),
    delete: async (key: string) => void kept.delete(key),
  };
  const client = await createMCPClient({
    transport: { type: "http", url: url.href, headers, fetch: fetchOf(events) },
    protocolVersionDiscovery: true,
    experimental_events: { store },
  });
  const received: Occurrence[] = [];
  const hook = `${HOOKS}ai`;
  const handle = experimental_createMCPEventWebhook({
    store,
    onEvent: ({ event }) => void received.push(event as Occurrence),
  });
  events.on(hook, (call) => handle(asRequest(call)));
  const { experimental_events: methods } = client;
  const own = () => [...kept.values()][0] as Record<string, unknown> & { key: string; id: string };
  return {
    names: async () => (await methods.list()).events.map(({ name }) => name),
    subscribe: (filter) =>
      methods.subscribe({
        name: "order.paid",
        arguments: filter,
        delivery: { mode: "webhook", url: hook, secret: secretOf(1) },
      }),
    renew: (secret) => {
      if (secret) Object.assign(own(), { delivery: { ...(own().delivery as object), secret } });
      return methods.refresh({ id: own().id });
    },
    unsubscribe: () => methods.unsubscribe({ id: own().id }),
    received,
    hook,
  };
}

async function ofOfficial(events: EventsWorld): Promise<Subscriber> {
  const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode: "auto" } });
  await client.connect(
    new StreamableHTTPClientTransport(url, { fetch: fetchOf(events), requestInit: { headers } }),
  );
  const capabilities = client.getServerCapabilities();
  expect(capabilities?.extensions).toMatchObject({ "io.modelcontextprotocol/events": {} });
  const hook = `${HOOKS}official`;
  const received: Occurrence[] = [];
  let secret = secretOf(2);
  let asked: object = {};
  let last: string | null = null;
  events.on(hook, (call) => {
    const body = new Webhook(secret).verify(call.body, Object.fromEntries(call.headers)) as Occurrence &
      Readonly<{ type?: string; challenge?: string }>;
    if (body.type === "verification") return Response.json({ challenge: body.challenge });
    received.push(body);
    last = body.cursor ?? last;
    return new Response(null, { status: 204 });
  });
  const send = (method: string, params: object) => client.request({ method, params }, z.looseObject({}));
  const delivery = () => ({ mode: "webhook", url: hook, secret });
  const subscribe = async () => {
    const params = { name: "order.paid", arguments: asked, delivery: delivery(), cursor: last };
    const result = await send("events/subscribe", params);
    last = String(result.cursor);
    return result;
  };
  return {
    names: async () => ((await send("events/list", {})).events as { name: string }[]).map(({ name }) => name),
    subscribe: (filter) => {
      asked = filter;
      return subscribe();
    },
    renew: (other) => {
      secret = other ?? secret;
      return subscribe();
    },
    unsubscribe: () =>
      send("events/unsubscribe", { name: "order.paid", arguments: asked, delivery: { url: hook } }),
    received,
    hook,
  };
}

test.each<[string, (events: EventsWorld) => Promise<Subscriber>]>([
  ["the AI SDK's client", ofAiSdk],
  ["the official client", ofOfficial],
])("%s subscribes, verifies, renews, rotates its secret, and recovers missed events", async (_, connect) => {
  const events = await newEventsWorld();
  const { world, happen, to } = events;
  const client = await connect(events);
  const data = () => client.received.map((one) => one.data);
  expect(await client.names()).toEqual(["order.noted", "order.paid"]);

  const first = await client.subscribe({ amount: { gte: 10 } });
  expect(first).toMatchObject({ truncated: false, id: expect.stringMatching(/^sub_[0-9a-z]{20}$/) });
  expect(Date.parse(String(first.refreshBefore))).toBe(world.clock.now() + 3_600_000);
  const [challenge] = to(client.hook);
  expect(JSON.parse(challenge?.body ?? "").type).toBe("verification");
  expect(challenge?.headers.get("x-mcp-subscription-id")).toBe(first.id);

  await happen({ amount: 12.5 });
  await happen({ amount: 3 });
  expect(data()).toEqual([{ amount: 12.5 }]);
  const [sent] = to(client.hook).slice(1);
  expect(sent?.headers.get("x-mcp-subscription-id")).toBe(first.id);
  expect(JSON.parse(sent?.body ?? "")).toMatchObject({
    name: "order.paid",
    eventId: sent?.headers.get("webhook-id"),
    timestamp: new Date(world.clock.now()).toISOString(),
    cursor: first.cursor,
    _meta: { "breakwater/data_not_instructions": ["data"] },
  });

  world.clock.pass(1_800_000);
  const again = await client.renew();
  expect(again.id).toBe(first.id);
  await client.renew(secretOf(7));
  await happen({ amount: 20 });
  expect(data()).toEqual([{ amount: 12.5 }, { amount: 20 }]);
  expect(to(client.hook).map(({ body }) => JSON.parse(body).type)).toEqual([
    "verification",
    undefined,
    undefined,
  ]);

  // It has expired: what happens now is missed, and comes with the cursor.
  world.clock.pass(3_600_000);
  await happen({ amount: 30 });
  expect(data()).toHaveLength(2);
  const recovered = await client.renew();
  expect(recovered).toMatchObject({ id: first.id, truncated: false });
  const row = await destinationByUid(env.DB, TENANT, String(first.id));
  await events.caughtUp(row?.id ?? "");
  const distinct = new Map(client.received.map(({ eventId, data }) => [eventId, data]));
  expect([...distinct.values()]).toEqual([{ amount: 12.5 }, { amount: 20 }, { amount: 30 }]);

  await client.unsubscribe();
  const before = client.received.length;
  await happen({ amount: 40 });
  expect(client.received).toHaveLength(before);
});
