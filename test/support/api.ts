/**
 * The API over the real D1 of the test, with the rest of the world replaced: a clock that stands still,
 * queues and gates that remember what reached them. `emptyDatabase` goes before each test.
 */
import { env } from "cloudflare:workers";
import { createApp } from "../../src/http/app.ts";
import type { Authenticate } from "../../src/http/auth.ts";
import type { createMcp } from "../../src/http/mcp/app.ts";
import type { createSvixApi } from "../../src/http/svix/app.ts";
import { PlacementCache } from "../../src/ingest/placement-cache.ts";
import { RoutingCache } from "../../src/ingest/routing-cache.ts";
import type { LogLine } from "../../src/log.ts";
import { newMemory } from "../../src/memory.ts";
import type { DeliveryMessage } from "../../src/queue-messages.ts";
import { type Services, servicesOf } from "../../src/services.ts";
import { withoutTailPauses } from "./clock.ts";
import { KEY, testConfig } from "./config.ts";
import { emptyDatabase } from "./databases.ts";
import { captureText, learn, withLeakCheck } from "./secret-leaks.ts";
import { insertRows } from "./stored-deliveries.ts";
import { timeless } from "./timeless.ts";
import { bodyText } from "./utf8.ts";
import { named } from "./world.ts";

export { emptyDatabase, KEY };
export const NOW = Date.parse("2026-11-21T09:00:00.000Z");

/** A gate's answer to the question why a delivery waits; null: it would be admitted. */
type Look = { reason: string; until: number | null } | null;

type Options = Readonly<{
  services?: Partial<Services>;
  authenticate?: Authenticate;
  look?: (destination: string) => Look;
  /** The events whose deliveries a gate reports as in flight. */
  inFlight?: readonly number[];
  /** The app to test instead of the API. */
  create?: typeof createApp | typeof createMcp | typeof createSvixApi;
}>;

/** An API, and its effects on its surroundings. */
export function testApi({
  services = {},
  authenticate,
  look = () => null,
  inFlight = [],
  create = createApp,
}: Options = {}) {
  const messages: unknown[] = [];
  const steps: unknown[] = [];
  const gateCalls: string[] = [];
  const log: LogLine[] = [];
  const pending: Promise<unknown>[] = [];
  const gate = (name: string) => ({
    refusal: async () => {
      gateCalls.push(`refusal ${name}`);
      return look(name);
    },
    scheduleDrain: async () => void gateCalls.push(`scheduleDrain ${name}`),
    leaveGroup: async () => void gateCalls.push(`leaveGroup ${name}`),
    resume: async () => void gateCalls.push(`resume ${name}`),
    recheck: async (deliveries: readonly number[]) => {
      gateCalls.push(`recheck ${name}`);
      return deliveries.filter((event) => inFlight.includes(event));
    },
  });
  const queue = {
    send: async (body: unknown) => void steps.push(body),
    sendBatch: async (messages: Iterable<{ body: unknown }>) =>
      void steps.push(...[...messages].map(({ body }) => body)),
  };
  const world = {
    config: testConfig(),
    intake: undefined,
    routing: new RoutingCache(),
    memory: newMemory(),
    placement: new PlacementCache(),
    deliveries: {
      send: async (body: unknown) => void messages.push(body),
      sendBatch: async (batch: Iterable<{ body: unknown }>) =>
        void messages.push(...[...batch].map((m) => m.body)),
    },
    drains: queue,
    upkeep: queue,
    gates: { idFromName: (name: string) => name, get: gate },
    now: () => NOW,
    sleep: withoutTailPauses(timeless),
    log: (line: LogLine) => {
      captureText("A log line", JSON.stringify(line));
      log.push(line);
    },
    background: (work: Promise<unknown>) => void pending.push(work),
    ...services,
  } as unknown as Partial<Services>;
  const inWorld: typeof servicesOf = (bindings, ctx) => ({ ...servicesOf(bindings, ctx), ...world });
  const app = withLeakCheck(
    create({
      services: inWorld,
      ...(authenticate && { authenticate }),
    }),
  );

  /** Makes a request with a valid key. A `body` that is neither text nor bytes is sent as JSON. */
  async function call(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string | null> = {},
  ) {
    const all = {
      authorization: `Bearer ${KEY}`,
      ...(body !== undefined && { "content-type": "application/json" }),
      ...headers,
    };
    const sent = Object.entries(all).flatMap(([name, value]) =>
      value === null ? [] : [[name, value] as [string, string]],
    );
    const raw =
      body === undefined ||
      typeof body === "string" ||
      body instanceof ReadableStream ||
      body instanceof Uint8Array
        ? body
        : JSON.stringify(body);
    if (typeof raw === "string") learn(raw);
    const init = { method, headers: sent, ...(raw !== undefined && { body: raw }) };
    const response = await app.request(path, init, env, contextless);
    const text = await bodyText(response);
    await Promise.all(pending.splice(0));
    return {
      status: response.status,
      headers: response.headers,
      text,
      json: isJson(response) ? JSON.parse(text) : undefined,
    };
  }

  /** The deliveries that the sent messages name. */
  const deliveries = () => named(messages as DeliveryMessage[]);

  return { app, call, messages, deliveries, steps, gateCalls, log, services: inWorld(env, contextless) };
}

const contextless = {
  waitUntil: () => {},
  passThroughOnException: () => {},
  props: {},
} as unknown as ExecutionContext;

function isJson(response: Response): boolean {
  return /[/+]json/.test(response.headers.get("content-type") ?? "");
}

/** How many rows a table holds. */
export async function countRows(
  table: "events" | "deliveries" | "destinations" | "replays" | "agent_actions" | "api_keys",
): Promise<number> {
  return (await env.DB.prepare(`SELECT count(*) AS n FROM ${table}`).first<number>("n")) ?? -1;
}

/** Writes a row as the delivery path would. */
export async function insertRow(table: string, row: Readonly<Record<string, unknown>>): Promise<void> {
  await insertRows(env.DB, table, [row]);
}

/** Inserts a destination of `acme` to which nothing can be sent: no key opens its secret. */
export async function plainDestination(
  id: string,
  columns: Readonly<Record<string, unknown>> = {},
): Promise<void> {
  const url = `https://${id.slice(4)}.example`;
  await insertRow("destinations", {
    ...{ id, tenant: "acme", url, secret: "", created_at: 1, updated_at: 1 },
    ...columns,
  });
}
