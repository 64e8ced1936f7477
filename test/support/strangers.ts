/**
 * Two tenants with one of everything, who are strangers to each other; every kind of caller; and all apps of the
 * Worker, with their registered routes.
 */

import { env } from "cloudflare:workers";
import { type Capability, capabilities } from "../../src/core/portal-access.ts";
import type { Principal } from "../../src/core/principal.ts";
import { scopes } from "../../src/core/scopes.ts";
import { createApp } from "../../src/http/app.ts";

import { createDocs } from "../../src/http/docs/app.tsx";
import { createMcp } from "../../src/http/mcp/app.ts";
import { documentOf } from "../../src/http/openapi/document.ts";
import { createSvixApi } from "../../src/http/svix/app.ts";
import { newDestinationId, subscriptionIdFor } from "../../src/ids.ts";
import { RoutingCache } from "../../src/ingest/routing-cache.ts";
import { createDashboard } from "../../src/pages/dashboard/app.tsx";
import { createPortal } from "../../src/pages/portal/app.tsx";
import { newTokenId, signToken } from "../../src/secrets/tokens.ts";
import { type Services, servicesOf } from "../../src/services.ts";
import { sleepByTimer } from "../../src/time.ts";
import { emptyDatabase, insertRow, NOW, testApi } from "./api.ts";
import { accessWith, assertionOf, payloadFor, publishedKeys, signingKey } from "./assertions.ts";
import { withoutTailPauses } from "./clock.ts";
import { testConfig } from "./config.ts";
import { ORIGIN } from "./dashboard.ts";
import { rowsOfAll, unlessWritten } from "./databases.ts";
import { idleGates } from "./idle-gates.ts";
import { bodyFor, operations, shared, type Things, thingsOf } from "./operations.ts";
import { fakeQueue } from "./queues.ts";
import { vault } from "./vault.ts";
import { SECRET } from "./world.ts";

const gates = idleGates(NOW);

const pending: Promise<unknown>[] = [];

const teamKey = await signingKey("first");
const published = publishedKeys([teamKey]);

const services = {
  ...servicesOf(env, { waitUntil: () => {} }),
  config: testConfig(),
  vault,
  intake: undefined,
  routing: new RoutingCache(),
  deliveries: fakeQueue().queue,
  drains: fakeQueue().queue,
  // The runtime's queue has a consumer, which would continue erasures at any time.
  upkeep: fakeQueue().queue,
  gates,
  ingestLimit: undefined,
  readLimit: undefined,
  anonymousLimit: undefined,
  fetch: async (url: string) =>
    String(url).includes(".cloudflareaccess.com/") ? published.fetch(url) : new Response(),
  now: () => NOW,
  // All other sleeps are timeouts.
  sleep: withoutTailPauses(sleepByTimer),
  log: () => {},
  background: (work: Promise<unknown>) => void pending.push(work),
} as unknown as Services;

/** The principal whose requests an app takes, by the bearer token or, at the dashboard's door, by the key. */
const principals = new Map<string, Principal>();
const options = {
  services: () => services,
  authenticate: async (_: Services, token: string) => principals.get(token),
};

const api = createApp(options);
const document = documentOf(api);

/** The apps by name, as in worker.ts. */
export const apps = {
  api,
  svix: createSvixApi(options),
  mcp: createMcp(options),
  dashboard: createDashboard(options),
  portal: createPortal({ services: () => services }),
  docs: createDocs(() => document),
};

export type AppName = keyof typeof apps;
export const appNames = Object.keys(apps) as AppName[];

export type Route = Readonly<{ app: AppName; method: string; path: string }>;

/** Every route that the app has registered, once. */
export function routesOf(app: AppName): Route[] {
  const names = apps[app].routes
    .filter(({ method, path }) => method !== "ALL" && !path.includes("*"))
    .map(({ method, path }) => `${method} ${path}`);
  return [...new Set(names)].map((name) => {
    const [method = "", path = ""] = name.split(" ");
    return { app, method, path };
  });
}

/** A caller: with a key, at the dashboard, in a visit, or without anything. */
export type Caller = Readonly<{
  name: string;
  /** Absent for a caller without a credential, and for visitors. */
  principal?: Principal;
  /** The rule of ACCESS_ROLES for a person, who comes through Cloudflare Access. */
  rule?: string;
  /** The rights that the link of a visitor denies. */
  denied?: readonly Capability[];
  isOperator?: boolean;
}>;

const ofTenant = (tenant: string): readonly Caller[] => [
  { name: "the operator", principal: { scopes }, isOperator: true },
  { name: "a tenant's administrator", principal: { scopes, tenant } },
  ...scopes.map((scope) => ({
    name: `a tenant's key of the scope ${scope} alone`,
    principal: { scopes: [scope], tenant },
  })),
  { name: "nobody" },
];

/** Persons at the dashboard, of a tenant. */
const persons = (tenant: string): readonly Caller[] => [
  { name: "a person who owns two tenants", rule: `ann@example.com: own in ${tenant}, another` },
  { name: "a person who configures a tenant", rule: `ann@example.com: configure in ${tenant}` },
  { name: "a person who looks at a tenant", rule: `ann@example.com: look in ${tenant}` },
  { name: "a person without a role", rule: `bob@example.com: own` },
];

const visitors: readonly Caller[] = [
  { name: "a visitor who may do everything", denied: [] },
  ...capabilities.map((denied) => ({ name: `a visitor denied ${denied}`, denied: [denied] })),
  { name: "nobody" },
];

/** All callers of the app. */
export function callersOf(app: AppName, tenant: string): readonly Caller[] {
  if (app === "docs") return [{ name: "nobody" }];
  if (app === "portal") return visitors;
  return app === "dashboard" ? [...ofTenant(tenant), ...persons(tenant)] : ofTenant(tenant);
}

/** The names of `callersOf`, before there is a tenant. */
export const callerNames = (app: AppName) => callersOf(app, "").map(({ name }) => name);

export type Answer = Readonly<{ status: number; text: string }>;

const context = {
  waitUntil: () => {},
  passThroughOnException: () => {},
  props: {},
} as unknown as ExecutionContext;

async function fetchFrom(app: AppName, request: Request): Promise<Response> {
  return (apps[app].fetch as typeof api.fetch)(request, env, context);
}

/** The headers by which an app knows the caller: those of a new session, where it has sessions. */
export async function headersOf(
  app: AppName,
  caller: Caller,
  tenant: string,
): Promise<Record<string, string>> {
  const isPage = app === "dashboard" || app === "portal";
  const own: Record<string, string> = isPage ? { origin: ORIGIN, "sec-fetch-site": "same-origin" } : {};
  const { principal, denied, name, rule } = caller;
  if (rule !== undefined) {
    // The configuration assigns roles: it is that of one caller at a time.
    Object.assign(services, { config: testConfig({ access: accessWith(rule) }) });
    return { ...own, "cf-access-jwt-assertion": await assertionOf(teamKey, payloadFor("ann@example.com")) };
  }
  if (principal !== undefined) principals.set(name.replaceAll(" ", "-"), principal);
  if (app === "portal" && denied) {
    const rules = Object.fromEntries(denied.map((one) => [one, false]));
    const visit = { rules, language: null, theme: null, return_url: null };
    const [id, expiresAt] = [newTokenId(), NOW + 3_600_000];
    const link = { id, keyId: null, tenant, scopes: ["read", "admin"] as const, expiresAt, visit };
    const token = await signToken(services.config, "portal", link);
    return { ...own, cookie: await cookieAfter(app, "/portal/enter", { token }, own) };
  }
  if (principal === undefined) return own;
  const key = name.replaceAll(" ", "-");
  if (app === "dashboard")
    return { ...own, cookie: await cookieAfter(app, "/dashboard/sign-in", { key }, own) };
  const revision = app === "mcp" && { "mcp-protocol-version": "2025-11-25" };
  return { authorization: `Bearer ${key}`, ...revision };
}

async function cookieAfter(
  app: AppName,
  path: string,
  form: Record<string, string>,
  headers: Record<string, string>,
): Promise<string> {
  const init = { method: "POST", headers, body: new URLSearchParams(form) };
  const response = await fetchFrom(app, new Request(`${ORIGIN}${path}`, init));
  // A key without the scope `read` has no session.
  return response.headers.get("set-cookie")?.split(";")[0] ?? "";
}

/** Makes a request, and returns status, headers and body when all work that it began has been done. */
export async function send(
  app: AppName,
  method: string,
  path: string,
  headers: Record<string, string>,
  body?: string | URLSearchParams,
): Promise<Answer> {
  const isJson = typeof body === "string";
  const init = {
    method,
    redirect: "manual" as const,
    headers: { ...headers, ...(isJson && { "content-type": "application/json" }) },
    ...(method !== "GET" && body !== undefined && { body }),
  };
  const response = await fetchFrom(app, new Request(`${ORIGIN}${path}`, init));
  const text = `${JSON.stringify([...response.headers])}\n${await response.text()}`;
  while (pending.length > 0) await Promise.all(pending.splice(0));
  return { status: response.status, text };
}

/** A text that must be in no answer to another tenant, whatever was requested. */
export const CANARY = "kanarienvogel";

/** The group of each destination: only the operator sees it. */
const OPERATORS = "betreiberwort";

export type World = Readonly<{ own: Things; rival: Things }>;

/** The parameters of the subscription that the operator has created for the holder of this word. */
export function subscriptionTo(word: string) {
  const delivery = { mode: "webhook", url: `https://${word}.example/agent`, secret: SECRET };
  return { name: shared["event-types"] ?? "", arguments: {}, delivery };
}

/** Two applications with one of everything. The rival's objects contain its word wherever possible. */
export async function newWorld(): Promise<World> {
  await emptyDatabase();
  return { own: await everythingOf("own"), rival: await everythingOf(CANARY) };
}

async function everythingOf(word: string): Promise<Things> {
  const [native, svix] = [testApi(), testApi({ create: createSvixApi })];
  const { json: application } = await svix.call("POST", "/api/v1/app", { name: word, uid: `${word}-uid` });
  const things = await thingsOf(native.call, application.id);
  const { ids, tenant } = things;
  await native.call("PATCH", `/v1/destinations/${ids.destinations}`, {
    url: `https://${word}.example/hook`,
    description: word,
    uid: `${word}-endpoint`,
    metadata: { of: word },
    headers: { [`x-${word}`]: word },
    group: OPERATORS,
  });
  await native.call("POST", "/v1/events", {
    type: `order.${word}`,
    data: { of: word },
    tags: [word],
    tenant,
  });
  await native.call("POST", "/v1/keys", { scopes: ["read"], tenant, name: word });
  await native.call("PATCH", `/v1/tenants/${tenant}`, { contact_email: `${word}@example.com` });
  await env.DB.prepare(
    "UPDATE deliveries SET log = json_set(log, '$[0].response', ?1) WHERE destination_id = ?2",
  )
    .bind(word, ids.destinations)
    .run();
  const { delivery, name } = subscriptionTo(word);
  const uid = await subscriptionIdFor([tenant, "admin", delivery.url, name, "{}"]);
  const subscription = {
    tenant,
    uid,
    url: delivery.url,
    event_types: [name],
    subscriber: "admin",
    secret: "",
  };
  const times = { created_at: NOW, updated_at: NOW, expires_at: NOW + 3_600_000 };
  await insertRow("destinations", { id: newDestinationId(), ...subscription, ...times });
  const at = Date.parse(ids.attempts ?? "").toString(36);
  const attempt = `atmpt_${ids.deliveries?.slice(4)}_${at}`;
  return { tenant, ids: { ...ids, attempt } };
}

/** The names of objects in paths, by the segment before the parameter; undefined for objects that belong to no tenant. */
export function nameAt(step: string, { tenant, ids }: Things): string | undefined {
  const kinds = { endpoints: "destinations", endpoint: "destinations", msg: "events", poller: "inboxes" };
  const kind = kinds[step as keyof typeof kinds] ?? step;
  if (["tenants", "app", "app-portal-access", "dashboard-access"].includes(kind)) return tenant;
  if (kind === "background-task") return ids.replays;
  return ids[kind];
}

/** The names in paths of objects that belong to no tenant: event types, versions of assets, kinds of problems. */
const nobodys: Readonly<Record<string, string>> = {
  ...shared,
  "event-type": shared["event-types"] ?? "",
  consumer: "default",
  versions: "1",
  dashboard: "0",
  portal: "0",
  docs: "0",
  accents: "0b6a72.css",
  problems: "not-found",
};

type Step = Readonly<{ text: string } | { parameter: string; before: string }>;

/** The segments of a route's path; parameters are `:name` or `{name}`, perhaps with a pattern. */
function stepsOf(path: string): Step[] {
  const steps = path.split("/");
  return steps.map((text, i) => {
    const parameter = /^:(\w+)|^\{(\w+)\}$/.exec(text);
    return parameter ? { parameter: text, before: steps[i - 1] ?? "" } : { text };
  });
}

/** The steps before the path's parameters. */
function stepsBefore({ path }: Route): string[] {
  return stepsOf(path).flatMap((step) => ("parameter" in step ? [step.before] : []));
}

/** How many parameters the path has. */
export function parametersOf(route: Route): number {
  return stepsBefore(route).length;
}

/** The step before one of the path's parameters. */
export function stepBefore(route: Route, place: number): string {
  return stepsBefore(route)[place] ?? "";
}

/**
 * The path with the tenant's own names, except for one parameter.
 * @param name the encoded value of this parameter; nothing for the tenant's own
 */
export function pathWith(
  { path }: Route,
  own: Things,
  place = -1,
  nameOf?: (before: string) => string,
): string {
  let parameters = 0;
  return stepsOf(path)
    .map((step) => {
      if ("text" in step) return step.text;
      if (parameters++ === place) return nameOf?.(step.before) ?? "";
      const name = nameAt(step.before, own) ?? nobodys[step.before];
      if (name === undefined)
        throw new Error(`Teach strangers.ts what ${step.before}/${step.parameter} names`);
      return name;
    })
    .join("/");
}

/** A body that suits every route of the Svix API. */
const svixBody = {
  name: "order.made",
  description: "A type",
  url: "https://example.com/hook",
  eventType: "order.made",
  eventTypes: ["order.made"],
  payload: { total: 1 },
  headers: { "x-shop": "1" },
  since: new Date(NOW - 86_400_000).toISOString(),
  status: 0,
};

/** A body that the route takes, about the tenant's own objects. */
export function bodyOf({ app, method, path }: Route, own: Things): string | URLSearchParams | undefined {
  if (method === "GET" || app === "docs") return undefined;
  if (app === "dashboard" || app === "portal") return new URLSearchParams(formOf(own));
  if (app === "mcp") return messageOf("tools/list");
  if (app === "svix") return JSON.stringify(svixBody);
  const documented = path.replaceAll(/:(\w+)/g, "{$1}");
  const operation = operations.find((one) => one.method === method && one.path === documented);
  const body = operation && bodyFor(operation, own);
  return body === undefined ? undefined : JSON.stringify(body);
}

/** The message of a client that has shaken hands. */
export function messageOf(method: string, params: object = {}): string {
  return JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
}

/** All fields that forms of pages have; a form ignores unknown ones. */
export function formOf({ tenant, ids }: Things): Record<string, string> {
  return {
    url: "https://example.com/hook",
    days: "7",
    rate_per_minute: "100",
    overlap_hours: "1",
    secret_version: "1",
    tenant,
    name: "page.made",
    which: "all",
    since: new Date(NOW - 3_600_000).toISOString().slice(0, 16),
    delivery: ids.deliveries ?? "",
    document: JSON.stringify({ version: 1, destinations: [] }),
  };
}

/** Every row as text. */
export const stored = unlessWritten(async (): Promise<ReadonlySet<string>> => {
  const tables = await rowsOfAll<{ name: string }>(
    "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB 'sqlite_*' AND name NOT GLOB '_cf_*' AND name NOT GLOB 'd1_*'",
  );
  const rows = await env.DB.batch(tables.map(({ name }) => env.DB.prepare(`SELECT * FROM "${name}"`)));
  return new Set(
    rows.flatMap(({ results }, i) => results.map((row) => `${tables[i]?.name} ${JSON.stringify(row)}`)),
  );
});

/** Whether the row is the rival's, and does not only repeat a text from a request. */
export function isRivals({ rival: { tenant, ids } }: World, row: string): boolean {
  const owners = [`"id":"${tenant}"`, `"tenant":"${tenant}"`, `"destination_id":"${ids.destinations}"`];
  return [...owners, `tenants\\":[\\"${tenant}`, CANARY].some((mark) => row.includes(mark));
}

/**
 * The rival's or the operator's texts in an answer that do not come from the request: the id of a delivery has those of
 * two other things.
 */
export function seenOf({ rival }: World, { text }: Answer, request: string): string[] {
  const marks = [rival.tenant, ...Object.values(rival.ids), CANARY, OPERATORS];
  return marks.filter((mark) => text.includes(mark) && !request.includes(mark.replace(/^[a-z]{3}_/, "")));
}
