/**
 * Visits everything that reads D1, once with a tenant's key and once as the operator, with D1 under a meter. Gates
 * answer at once with nothing, and queues accept everything.
 */

import { env } from "cloudflare:workers";
import { POLLED_TARGET } from "../../src/core/inbox.ts";
import { capabilities } from "../../src/core/portal-access.ts";
import type { Principal } from "../../src/core/principal.ts";
import { seededRandom } from "../../src/core/seeded-random.ts";
import { checkThresholds } from "../../src/features/notifications/thresholds.ts";
import { createApp } from "../../src/http/app.ts";
import { createMcp } from "../../src/http/mcp/app.ts";
import { readingTools } from "../../src/http/mcp/reading.ts";
import { createSvixApi } from "../../src/http/svix/app.ts";
import { deliveryId, eventId } from "../../src/ids.ts";
import { PlacementCache } from "../../src/ingest/placement-cache.ts";
import { RoutingCache } from "../../src/ingest/routing-cache.ts";
import { newMemory } from "../../src/memory.ts";
import { createDashboard } from "../../src/pages/dashboard/app.tsx";
import { createPortal } from "../../src/pages/portal/app.tsx";
import { newTokenId, signToken } from "../../src/secrets/tokens.ts";
import { type Services, servicesOf } from "../../src/services.ts";
import { runCron } from "../../src/upkeep.ts";
import { messageHeaders, messageOf } from "./agent.ts";
import { KEY, NOW } from "./api.ts";
import { withoutTailPauses } from "./clock.ts";
import { testConfig } from "./config.ts";
import { ORIGIN } from "./dashboard.ts";
import { CROWDED, foreignDestination, idOfOwn, WIDE_EVENT } from "./everyone-else.ts";
import { idleGates } from "./idle-gates.ts";
import { meteredD1 } from "./meter.ts";
import { bodyFor, operations, pathFor } from "./operations.ts";
import { fakeQueue } from "./queues.ts";
import { timeless } from "./timeless.ts";
import { inputFor } from "./tool-inputs.ts";
import { vault } from "./vault.ts";
import { SECRET } from "./world.ts";

export type Cost = Readonly<{ rowsRead: number; queries: number; status: string }>;

const OWN = 5;
const EVENT_TYPE = "a.crowd.0450";

export const things = {
  tenant: CROWDED,
  ids: {
    destinations: idOfOwn("dst", OWN),
    inboxes: idOfOwn("dst", OWN + 3),
    events: eventId(WIDE_EVENT),
    deliveries: deliveryId(WIDE_EVENT, idOfOwn("dst", 2)),
    attempts: new Date(NOW).toISOString(),
    keys: idOfOwn("key", OWN),
    actions: idOfOwn("act", OWN),
    replays: idOfOwn("rpl", OWN),
    erasures: idOfOwn("era", OWN),
    replay: idOfOwn("rpl", OWN),
    // For the portal, which deletes another destination.
    endpoints: idOfOwn("dst", OWN + 2),
    // For paths of the Svix API, which deletes another destination.
    app: CROWDED,
    endpoint: idOfOwn("dst", OWN + 1),
    msg: eventId(WIDE_EVENT),
    poller: idOfOwn("dst", OWN + 3),
    consumer: "loop",
    attempt: `atmpt_${deliveryId(WIDE_EVENT, idOfOwn("dst", 2)).slice(4)}_${NOW.toString(36)}`,
    "event-type": EVENT_TYPE,
    "background-task": idOfOwn("rpl", OWN),
    "app-portal-access": CROWDED,
    "dashboard-access": CROWDED,
  },
};

/** A body that suits every route of the Svix API. */
const svixBody = {
  name: EVENT_TYPE,
  description: "A type",
  url: "https://example.com/hook",
  eventType: EVENT_TYPE,
  eventTypes: [EVENT_TYPE],
  payload: { total: 1 },
  headers: { "x-shop": "1" },
  // A range of time and a document, for routes that take one.
  ...{ since: new Date(NOW - 86_400_000).toISOString(), status: 0 },
  after: new Date(NOW - 86_400_000).toISOString(),
  spec: { webhooks: { [EVENT_TYPE]: { post: { description: "Another" } } } },
  schemas: { 1: { type: "object", examples: [{ order: { total: 1, status: "a" } }] } },
};

const words: Readonly<Record<string, string>> = {
  "{own}": idOfOwn("dst", OWN),
  "{foreign}": foreignDestination(OWN),
  "{event}": eventId(WIDE_EVENT),
  "{day}": new Date(NOW - 86_400_000).toISOString(),
  "{hour}": new Date(NOW - 3_600_000).toISOString(),
};

export const visitors: readonly Principal[] = [
  { scopes: ["read"], tenant: CROWDED },
  { scopes: ["events:write", "read", "poll", "admin"], tenant: CROWDED },
  { scopes: ["events:write", "read", "poll", "admin"] },
];

const gates = idleGates(NOW);

/** Services over the crowded database, and a meter of the cost of a piece of work there, including its background work. */
export async function crowdedServices() {
  const { inboxes } = things.ids;
  await env.DB.prepare("UPDATE destinations SET url = ?1, secret = ?2 WHERE id = ?3")
    .bind(POLLED_TARGET, await vault.seal(inboxes, SECRET), inboxes)
    .run();
  const metered = meteredD1(env.DB);
  const statements = new Set<string>();
  const db = {
    prepare: (sql: string) => {
      statements.add(sql);
      return metered.db.prepare(sql);
    },
    batch: metered.db.batch,
  } as unknown as D1Database;
  const pending: Promise<unknown>[] = [];
  const services = {
    ...servicesOf(env, { waitUntil: () => {} }),
    config: testConfig({ alertEmail: { from: "a@example.com", to: "b@example.com" } }),
    vault,
    db,
    intake: undefined,
    routing: new RoutingCache(),
    memory: newMemory(),
    placement: new PlacementCache(),
    gates,
    deliveries: fakeQueue().queue,
    drains: fakeQueue().queue,
    upkeep: fakeQueue().queue,
    ingestLimit: undefined,
    readLimit: undefined,
    anonymousLimit: undefined,
    mailer: { send: async () => {} },
    // Every request is answered with its own body, which answers challenges.
    fetch: async (_: unknown, { body }: RequestInit = {}) => new Response(body ?? null),
    now: () => NOW,
    random: seededRandom(1),
    sleep: withoutTailPauses(timeless),
    log: () => {},
    background: (work: Promise<unknown>) => void pending.push(work),
  } as unknown as Services;

  async function measured(work: () => Promise<number | string>): Promise<Cost> {
    metered.used();
    const status = String(await work());
    while (pending.length > 0) await Promise.all(pending.splice(0));
    const { rowsRead, queries } = metered.used();
    return { rowsRead, queries, status };
  }

  return { services, measured, statements };
}

/**
 * Visits the routes, named by method and path, with and without a query; `/mcp` is followed by the name of a tool. Then
 * the cron runs.
 */
export async function tour(routes: readonly string[]) {
  const { services, measured, statements } = await crowdedServices();
  const costs = new Map<string, Cost>();
  const add = (route: string, cost: Cost) => {
    const other = costs.get(route);
    costs.set(route, {
      rowsRead: Math.max(cost.rowsRead, other?.rowsRead ?? 0),
      queries: Math.max(cost.queries, other?.queries ?? 0),
      status: other ? `${other.status} ${cost.status}` : cost.status,
    });
  };
  const visits = visitors.map((principal) => visitorOf(services, principal));
  for (const visit of visits) await measured(() => visit("POST /dashboard/sign-in"));
  for (const visit of visits) await measured(() => visit("POST /portal/enter"));
  // Posts once before, because a tenant's destinations are read at first and then cached by revision.
  for (const visit of visits) await measured(() => visit("POST /v1/events"));
  for (const route of routes.toSorted((a, b) => lateness(a) - lateness(b)))
    for (const visit of visits) add(route, await measured(() => visit(route)));
  // If chance decides where the sweep begins, it begins at the start.
  add("tick", await measured(() => runCron({ ...services, random: () => 0 }).then(() => 0)));
  add("watch", await measured(() => checkThresholds(services).then(() => 0)));
  return { costs, statements: [...statements] };
}

/** Orders visits: those that only read come first, those that delete last, and the session's end after everything. */
function lateness(route: string): number {
  if (route.endsWith("events/unsubscribe")) return 2;
  if (route.startsWith("GET") || readingTools.some(({ name }) => route.endsWith(` ${name}`))) return 0;
  if (route.endsWith("/sign-out")) return 3;
  return route.startsWith("DELETE") || /\/(leave|delete|revoke)$/.test(route) ? 2 : 1;
}

const context = {
  waitUntil: () => {},
  passThroughOnException: () => {},
  props: {},
} as unknown as ExecutionContext;

/** Makes a request as this principal, and returns its status. */
function visitorOf(services: Services, principal: Principal) {
  const authenticate = async () => principal;
  const api = createApp({ services: () => services, authenticate });
  const dashboard = createDashboard({ services: () => services, authenticate });
  const svix = createSvixApi({ services: () => services, authenticate });
  const portal = createPortal({ services: () => services });
  const mcp = createMcp({ services: () => services, authenticate });
  const cookies = new Map<string, string>();

  return async (route: string): Promise<number> => {
    const [method = "", target = "", tool] = route.split(" ");
    const named = target.replaceAll(/\{(own|foreign|event|day|hour)\}/g, (word) => words[word] ?? "");
    const [path = "", query] = named.split("?");
    const url = `${ORIGIN}${filled(path)}${query ? `?${query}` : ""}`;
    const [, first = ""] = path.split("/");
    const pages = { dashboard, portal }[first];
    const isPage = pages !== undefined;
    const app = pages ?? { api: svix, mcp }[first] ?? api;
    const isEvents = tool?.startsWith("events/") ?? false;
    const call = tool === undefined ? undefined : isEvents ? eventParams : toolCall(tool);
    const rpc = isEvents ? (tool ?? "") : "tools/call";
    const body = isPage
      ? await pageBody(filled(path), principal)
      : call
        ? callBody(rpc, call)
        : apiBody(method, path);
    const headers = {
      ...(isPage
        ? { cookie: cookies.get(first) ?? "", origin: ORIGIN, "sec-fetch-site": "same-origin" }
        : { authorization: "Bearer x" }),
      ...(!isPage && body !== undefined && { "content-type": "application/json" }),
      ...(call && messageHeaders(rpc, call)),
    };
    const init = { method, headers, ...(method !== "GET" && body !== undefined && { body }) };
    const response = await app.fetch(new Request(url, init), env, context);
    await response.arrayBuffer();
    const set = response.headers.get("set-cookie");
    if (set !== null) cookies.set(first, set.split(";")[0] ?? "");
    return response.status;
  };

  /** A body with the token of a new link, for the beginning of a visit to the portal. */
  async function pageBody(path: string, { tenant = CROWDED, scopes }: Principal): Promise<URLSearchParams> {
    const fields = await formFields();
    fields.set("read_at", await changedAt(path, fields));
    if (path !== "/portal/enter") return fields;
    const visit = { rules: {}, language: null, theme: null, return_url: null };
    const [id, expiresAt] = [newTokenId(), NOW + 3_600_000];
    const token = await signToken(services.config, "portal", {
      ...{ id, keyId: null, tenant, expiresAt, visit },
      scopes: scopes.filter((scope) => scope !== "events:write"),
    });
    fields.set("token", token);
    return fields;
  }
}

/** The path with ids of the tenant's objects, for parameters spelled `{id}` or `:id`. */
function filled(path: string): string {
  return pathFor(path.replaceAll(/:(\w+)/g, "{$1}"), things);
}

/** Where the settings of forms are that say when they were read, by the paths of the forms. */
const changedByForms = [
  [
    /^\/(?:dashboard\/destinations|portal\/endpoints)\/([^/]+)\/(?:edit|limits|change)$/,
    "destinations",
    "id",
  ],
  [/^\/dashboard\/event-types\/([^/]+)\/edit$/, "event_types", "name"],
  [/^\/dashboard\/settings$/, "tenant_settings", "tenant"],
  [/^\/dashboard\/groups\/limits$/, "groups", "name"],
] as const;

/** When the settings of the form were changed last, as its page says. */
async function changedAt(path: string, fields: URLSearchParams): Promise<string> {
  const found = changedByForms.find(([form]) => form.test(path));
  if (found === undefined) return "";
  const [form, table, column] = found;
  const row = env.DB.prepare(`SELECT updated_at FROM ${table} WHERE ${column} = ?1`);
  const name = form.exec(path)?.[1] ?? fields.get(column);
  const at = await row.bind(name).first<number>("updated_at");
  return at === null ? "null" : new Date(at).toISOString();
}

function toolCall(tool: string) {
  return { name: tool, arguments: inputFor(tool, things) };
}

/** Parameters that suit every method of MCP Events. */
const eventParams = {
  name: EVENT_TYPE,
  arguments: { total: { gte: 1 } },
  delivery: { mode: "webhook", url: "https://example.com/agent", secret: SECRET },
};

function callBody(method: string, params: object): string {
  return JSON.stringify(messageOf(method, params));
}

function apiBody(method: string, path: string): string | undefined {
  // The endpoints of operational webhooks take other types.
  if (path.startsWith("/api/v1/operational-webhook/"))
    return JSON.stringify({ ...svixBody, eventTypes: null });
  if (path.startsWith("/api/")) return JSON.stringify(svixBody);
  const operation = operations.find((one) => one.method === method && one.path === path);
  const body = operation && bodyFor(operation, things);
  return body === undefined ? undefined : JSON.stringify(body);
}

/** All fields that forms have; a form ignores unknown ones. */
async function formFields(): Promise<URLSearchParams> {
  const version = await env.DB.prepare(
    "SELECT CAST(secret_version AS text) AS v FROM destinations WHERE id = ?1",
  )
    .bind(things.ids.destinations)
    .first<string>("v");
  const fields = {
    key: KEY,
    url: "https://example.com/hook",
    days: "7",
    rate_per_minute: "100",
    overlap_hours: "1",
    secret_version: version ?? "",
    read_version: "0",
    tenant: CROWDED,
    name: "page.made",
    scope_read: "on",
    retention_days: "1",
    which: "all",
    since: new Date(NOW - 3_600_000).toISOString().slice(0, 16),
    delivery: things.ids.deliveries,
    // Everything that a filter finds.
    ...{ action: "retry", all: "1" },
    document: JSON.stringify({ version: 1, destinations: [] }),
    confirm: CROWDED,
    // A caller without the permission is refused before anything is read.
    ...Object.fromEntries(capabilities.map((name) => [name, "on"])),
  };
  return new URLSearchParams(fields);
}
