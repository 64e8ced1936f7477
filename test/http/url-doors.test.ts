/**
 * Every input by which the deployment gets a URL that it calls: each refuses forbidden URLs, stores nothing of them and
 * calls none. The test fails for a field of a schema or form that may hold a URL and is not listed here.
 */
import { env } from "cloudflare:workers";
import type { RouterRoute } from "hono/types";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { subscribeParams, unsubscribeParams } from "../../src/features/subscriptions/schema.ts";
import { changingTools } from "../../src/http/mcp/changing.ts";
import { readingTools } from "../../src/http/mcp/reading.ts";
import { inputSchemas } from "../../src/http/mcp/schemas.ts";
import { resolved, type SchemaObject } from "../../src/http/openapi/examples.ts";
import { createSvixApi } from "../../src/http/svix/app.ts";
import { createDashboard } from "../../src/pages/dashboard/app.tsx";
import { createPortal } from "../../src/pages/portal/app.tsx";
import { agentWith, messageHeaders, messageOf } from "../support/agent.ts";
import { emptyDatabase, testApi } from "../support/api.ts";
import { testConfig } from "../support/config.ts";
import { ORIGIN, testDashboard } from "../support/dashboard.ts";
import { document, operations } from "../support/operations.ts";
import { type testPortal, visitor } from "../support/portal.ts";
import { accepted, refused } from "../support/targets.ts";
import { SECRET } from "../support/world.ts";

const TENANT = "acme";
const GOOD = "https://receiver.example/hook";
const OWN = "hooks.deployment.example";

const called: (readonly [url: string, redirect: unknown])[] = [];

const services = {
  config: testConfig({ ownHosts: [OWN] }),
  challengeLimit: undefined,
  // It consents to everything.
  fetch: async (url: RequestInfo | URL, { redirect, body, method }: RequestInit = {}) => {
    called.push([String(url), redirect]);
    const headers = { "webhook-allowed-origin": "*" };
    return new Response(method === "OPTIONS" ? null : (body ?? null), { headers });
  },
} as unknown as NonNullable<Parameters<typeof testApi>[0]>["services"] & object;

const api = testApi({ services });
const svix = testApi({ services, create: createSvixApi });
const agent = agentWith({ services, principal: { scopes: ["read", "admin"], tenant: TENANT, key: "key_a" } });
const operator = testDashboard({ services });
let customer: ReturnType<typeof testPortal>;
let id = "";
let app = "";
let endpoint = "";

const tokensFrom = (token_url: string) => ({
  ...{ kind: "oauth2", token_url, client_id: "a", client_secret: "b" },
});
const formOfTokens = (token_url: string) => ({
  ...{ auth_kind: "oauth2", auth_token_url: token_url, auth_client_id: "a", auth_client_secret: "b" },
});
const destinationWith = (fields: object) => ({ id: "dst_00000000000imported0", ...fields });

type Answer = Readonly<{ status: number; text?: string; html?: string; json?: { error?: unknown } }>;
type Door = Readonly<{
  /** The fields of schemas and forms that it fills in, as `urlFields` names them. */
  fields: readonly string[];
  give: (url: string) => Promise<Answer>;
}>;

const native = (method: string, path: string, body: (url: string) => object) => (url: string) =>
  api.call(method, `${ORIGIN}${path.replace("{id}", id).replace("{tenant}", TENANT)}`, body(url));
const asSvix = (method: string, path: string, more: object = {}) => ({
  fields: [],
  give: (url: string) =>
    svix.call(method, `${ORIGIN}/api/v1${path.replace(":app", app).replace(":endpoint", endpoint)}`, {
      url,
      ...more,
    }),
});

const hidden = new Map<string, Record<string, string>>();

/** Sends the form of the page as a test has first seen it: what is refused changes nothing. */
async function sent(browser: typeof customer, page: string, fields: Record<string, string>) {
  const path = page.replace(":id", id);
  if (!hidden.has(page)) {
    const { html } = await browser.get(path);
    const inputs = [...html.matchAll(/<input type="hidden" name="(\w+)" value="([^"]*)"/g)];
    hidden.set(page, Object.fromEntries(inputs.map(([, name = "", value = ""]) => [name, value])));
  }
  return browser.post(path, { ...hidden.get(page), ...fields });
}

/** A form of these pages, with fields beside those that name a URL. */
const formOn =
  (pages: string, browser: () => typeof customer, own: Record<string, string> = {}) =>
  (page: string, names: readonly string[], fields: (url: string) => Record<string, string>) => ({
    fields: names.map((name) => `${pages} ${page} ${name}`),
    give: (url: string) => sent(browser(), page, { ...own, ...fields(url) }),
  });
const onDashboard = formOn("dashboard", () => operator, { tenant: TENANT });
const inPortal = formOn("portal", () => customer);

const noticesAt = (target: string) => ({
  kind: "slack",
  target,
  on_dead: "on",
  open_after_minutes: "5",
  language: "en",
});
const configOf = (destination: object) => ({ version: 1, destinations: [destination] });
const IMPORT = "/v1/tenants/{tenant}/import";

const doors: Readonly<Record<string, Door>> = {
  "a new destination": {
    fields: ["POST /v1/destinations url"],
    give: native("POST", "/v1/destinations", (url) => ({ url, tenant: TENANT })),
  },
  "a changed destination": {
    fields: ["PATCH /v1/destinations/{id} url"],
    give: native("PATCH", "/v1/destinations/{id}", (url) => ({ url })),
  },
  "a new destination with a handshake": {
    fields: [],
    give: native("POST", "/v1/destinations", (url) => ({ url, handshake: true })),
  },
  "the token endpoint of a new destination": {
    fields: ["POST /v1/destinations auth.token_url"],
    give: native("POST", "/v1/destinations", (url) => ({ url: GOOD, auth: tokensFrom(url) })),
  },
  "the token endpoint of a changed destination": {
    fields: ["PATCH /v1/destinations/{id} auth.token_url"],
    give: native("PATCH", "/v1/destinations/{id}", (url) => ({ auth: tokensFrom(url) })),
  },
  "a notice channel": {
    fields: ["PUT /v1/destinations/{id}/notices url"],
    give: native("PUT", "/v1/destinations/{id}/notices", (url) => ({ kind: "webhook", url })),
  },
  "an import of a tenant": {
    fields: ["POST /v1/tenants/{tenant}/import destinations[].url"],
    give: native("POST", IMPORT, (url) => configOf(destinationWith({ url }))),
  },
  "an import over a destination": {
    fields: [],
    give: native("POST", IMPORT, (url) => configOf({ id, url })),
  },
  "the token endpoint of an import": {
    fields: ["POST /v1/tenants/{tenant}/import destinations[].auth.token_url"],
    give: native("POST", IMPORT, (url) => configOf(destinationWith({ url: GOOD, auth: tokensFrom(url) }))),
  },
  "a new endpoint of Svix's API": asSvix("POST", "/app/:app/endpoint"),
  "a replaced endpoint of Svix's API": asSvix("PUT", "/app/:app/endpoint/:endpoint"),
  "a changed endpoint of Svix's API": asSvix("PATCH", "/app/:app/endpoint/:endpoint"),
  "an endpoint of Svix's API made by its uid": asSvix("PUT", "/app/:app/endpoint/by-uid"),
  "an operational webhook of Svix's API": asSvix("POST", "/operational-webhook/endpoint"),
  "an operational webhook made by its uid": asSvix("PUT", "/operational-webhook/endpoint/by-uid"),
  "a subscription of MCP Events": {
    fields: ["events/subscribe delivery.url"],
    give: async (url) => {
      const delivery = { mode: "webhook", url, secret: SECRET };
      const params = { name: "order.paid", arguments: {}, delivery };
      const message = messageOf("events/subscribe", params);
      const headers = messageHeaders("events/subscribe", params);
      const { status, json, text } = await agent.call("POST", `${ORIGIN}/mcp`, message, headers);
      return { status: json.error ? 422 : status, text };
    },
  },
  "the dashboard's new destination": onDashboard("/dashboard/destinations/new", ["url"], (url) => ({ url })),
  "the token endpoint of the dashboard's new destination": onDashboard(
    "/dashboard/destinations/new",
    ["auth_token_url"],
    (url) => ({ url: GOOD, ...formOfTokens(url) }),
  ),
  "the dashboard's form of a destination": onDashboard(
    "/dashboard/destinations/:id/edit",
    ["url"],
    (url) => ({
      url,
    }),
  ),
  "the token endpoint of the dashboard's form": onDashboard(
    "/dashboard/destinations/:id/edit",
    ["auth_token_url"],
    (url) => ({ url: GOOD, ...formOfTokens(url) }),
  ),
  "the dashboard's notice channel": onDashboard("/dashboard/destinations/:id/notices", ["target"], noticesAt),
  "the dashboard's import": onDashboard("/dashboard/settings/import", [], (url) => ({
    action: "import",
    document: JSON.stringify(configOf(destinationWith({ url }))),
  })),
  "the portal's new endpoint": inPortal("/portal/endpoints/new", ["url"], (url) => ({ url, which: "all" })),
  "the portal's form of an endpoint": inPortal("/portal/endpoints/:id/change", ["url"], (url) => ({
    url,
    which: "all",
  })),
  "the portal's notice channel": inPortal("/portal/endpoints/:id/notices", ["target"], noticesAt),
};

/** URLs that only browsers of visitors follow: https alone, and never called by the deployment. */
const links: readonly string[] = [
  "POST /v1/portal-links return_url",
  "PATCH /v1/tenants/{tenant} branding.logo",
  "POST /v1/tenants/{tenant}/import settings.branding.logo",
  "dashboard /dashboard/portal-links return_url",
  "dashboard /dashboard/settings brand_logo",
];

/** The URL is the name of an existing subscription. */
const named: readonly string[] = ["events/unsubscribe delivery.url"];

/** One of each way to be refused. The refusals of the guard are tested in delivery/url-guard.node.test.ts. */
const few = [
  "https://127.0.0.1/",
  "https://１２７。0.0.1/",
  "https://[::ffff:169.254.169.254]/",
  "https://localhost./",
  "https://metadata.google.internal/",
  "http://example.com/",
  `https://${OWN.toUpperCase()}.:8443/v1/events`,
  `${ORIGIN.replaceAll(".", "。")}/v1/events`,
];

async function storedTargets(): Promise<unknown> {
  const sql = "SELECT id, url, auth, notice_channel, notice_target FROM destinations ORDER BY id";
  return (await env.DB.prepare(sql).all()).results;
}

beforeAll(async () => {
  await emptyDatabase();
  const made = await api.call("POST", "/v1/destinations", { url: GOOD, tenant: TENANT });
  const application = await svix.call("POST", "/api/v1/app", { name: "An application" });
  const inSvix = await svix.call("POST", `/api/v1/app/${application.json.id}/endpoint`, { url: GOOD });
  [id, app, endpoint] = [made.json.id, application.json.id, inSvix.json.id];
  await api.call("PUT", "/v1/event-types/order.paid", {});
  await operator.signIn();
  customer = await visitor(TENANT, {}, { services });
});

beforeEach(() => {
  called.length = 0;
  hidden.clear();
});

describe.each(Object.entries(doors))("%s", (name, { give }) => {
  const all = [...Object.values(refused).flat(), ...few];

  test("refuses every forbidden URL, stores none, and calls none", async () => {
    const before = await storedTargets();
    for (const url of name === "a new destination" ? all : few) {
      const { status, text } = await give(url);
      expect([url, status, text]).toEqual([
        url,
        expect.toSatisfy((given) => given >= 400 && given < 500),
        text,
      ]);
    }
    expect(await storedTargets()).toEqual(before);
    expect(called).toEqual([]);
  });

  test("takes a URL that may be called, and follows none of its redirects", async () => {
    const { status, text, html } = await give(`${GOOD}/${name.replaceAll(/\W/g, "-")}`);
    expect(status, text ?? html).toBeLessThan(400);
    expect(called.filter(([, redirect]) => redirect !== "manual")).toEqual([]);
  });
});

test("every public URL is accepted", async () => {
  for (const url of accepted)
    expect((await api.call("POST", "/v1/destinations", { url })).json, url).toMatchObject({ url });
});

const MAY_BE_URL = /(^|_)(url|uri|href|logo|endpoint|callback|webhook|target|host)$/i;

/** The fields of the schema, at any depth, that may have a URL in them. */
function urlsIn(schema: SchemaObject, at = ""): string[] {
  const {
    properties = {},
    items,
    anyOf = [],
    oneOf = [],
    allOf = [],
  } = resolved(schema, document.components.schemas);
  return [
    ...Object.entries(properties).flatMap(([field, inner]) => [
      ...(MAY_BE_URL.test(field) ? [`${at}${field}`] : []),
      ...urlsIn(inner, `${at}${field}.`),
    ]),
    ...(items ? urlsIn(items, at.replace(/\.$/, "[].")) : []),
    ...[...anyOf, ...oneOf, ...allOf].flatMap((way) => urlsIn(way, at)),
  ];
}

/** The fields of the forms on every page that one id or name leads to. */
async function urlsOnPages(name: string, pages: typeof customer, routes: readonly RouterRoute[]) {
  const found: string[] = [];
  for (const { method, path } of routes) {
    if (method !== "GET" || /:(?!id|name)|[*{]|tail$/.test(path)) continue;
    const { html } = await pages.get(
      path.replace(":id", id).replace(":name", "order.paid").concat(`?tenant=${TENANT}`),
    );
    const fields = html.matchAll(/<(?:input|select|textarea)\b[^>]*\bname="([^"]+)"/g);
    for (const [, field = ""] of fields) if (MAY_BE_URL.test(field)) found.push(`${name} ${path} ${field}`);
  }
  return found;
}

test("every field of a schema or a form that may contain a URL is tested", async () => {
  const ofApi = operations.flatMap(({ method, path, operation }) => {
    const { schema } = operation.requestBody?.content["application/json"] ?? {};
    return schema ? urlsIn(schema).map((field) => `${method} ${path} ${field}`) : [];
  });
  const schemas = { "events/subscribe": subscribeParams, "events/unsubscribe": unsubscribeParams };
  const ofEvents = Object.entries(schemas).map(
    ([method, schema]) => [method, z.toJSONSchema(schema, { io: "input", unrepresentable: "any" })] as const,
  );
  const ofAgents = [...inputSchemas([...readingTools, ...changingTools]), ...ofEvents].flatMap(
    ([tool, schema]) => urlsIn(schema as SchemaObject).map((field) => `${tool} ${field}`),
  );
  const onPages = [
    ...(await urlsOnPages("dashboard", operator, createDashboard().routes)),
    ...(await urlsOnPages("portal", customer, createPortal().routes)),
  ];
  const known = [...Object.values(doors).flatMap(({ fields }) => fields), ...links, ...named];
  expect([...new Set([...ofApi, ...ofAgents, ...onPages])].sort()).toEqual(known.toSorted());
});
