/**
 * Every route that any app has registered, requested without a credential and with invalid credentials: beyond the
 * limits, no request costs a query, a gate call, a request or a message. And no route reads a body without a bound.
 */
import { env } from "cloudflare:workers";
import { beforeAll, describe, expect, test } from "vitest";
import { keyToken } from "../../src/core/credentials.ts";
import type { Principal } from "../../src/core/principal.ts";
import { scopes } from "../../src/core/scopes.ts";
import { createApp } from "../../src/http/app.ts";
import { createMcp } from "../../src/http/mcp/app.ts";
import { exampleIds } from "../../src/http/openapi/examples.ts";
import { createSvixApi } from "../../src/http/svix/app.ts";
import { newKeyId, randomText } from "../../src/ids.ts";
import { newMemory } from "../../src/memory.ts";
import { createDashboard } from "../../src/pages/dashboard/app.tsx";
import { createPortal } from "../../src/pages/portal/app.tsx";
import { newTokenId, signToken } from "../../src/secrets/tokens.ts";
import { type Services, servicesOf } from "../../src/services.ts";
import { emptyDatabase, NOW } from "../support/api.ts";
import { testConfig } from "../support/config.ts";
import { ORIGIN } from "../support/dashboard.ts";
import { meteredD1 } from "../support/meter.ts";
import type { Things } from "../support/operations.ts";
import { messageOf, pathWith, type Route, routesOf } from "../support/strangers.ts";
import { vault } from "../support/vault.ts";

const { db, used } = meteredD1(env.DB);
/** The calls of an answer, except queries. */
const taken: string[] = [];
const taking = (what: string): never =>
  new Proxy({}, { get: (_, name) => () => void taken.push(`${what} ${String(name)}`) }) as never;
const exhausted = { limit: async () => ({ success: false }) } as RateLimit;
const pending: Promise<unknown>[] = [];

const services = {
  ...servicesOf(env, { waitUntil: () => {} }),
  ...{ config: testConfig(), vault, db, memory: newMemory(), now: () => NOW },
  ...{ gates: taking("gate"), deliveries: taking("queue"), drains: taking("queue"), upkeep: taking("queue") },
  ...{ anonymousLimit: exhausted, readLimit: exhausted, writeLimit: exhausted, ingestLimit: exhausted },
  fetch: async (url: RequestInfo | URL) => {
    taken.push(`fetch ${url}`);
    return new Response();
  },
  log: () => {},
  background: (work: Promise<unknown>) => void pending.push(work),
} as unknown as Services;

type Sent = (request: Request) => Response | Promise<Response>;
type AppName = Exclude<Route["app"], "docs">;

/** @param authenticate replaces the lookup of a key */
function appsWith(options: Parameters<typeof createApp>[0]): Readonly<Record<AppName, Sent>> {
  const all = {
    api: createApp(options),
    svix: createSvixApi(options),
    mcp: createMcp(options),
    dashboard: createDashboard(options),
    portal: createPortal(options),
  };
  const context = { waitUntil: () => {}, passThroughOnException: () => {}, props: {} } as never;
  const sending = (name: AppName) => (request: Request) =>
    (all[name].fetch as (typeof all)["api"]["fetch"])(request, env, context);
  return Object.fromEntries(Object.keys(all).map((name) => [name, sending(name as AppName)])) as never;
}

const names = ["api", "svix", "mcp", "dashboard", "portal"] as const;
const strange = appsWith({ services: () => services });

/** Nothing that exists. */
const things: Things = {
  tenant: "acme",
  ids: {
    ...exampleIds,
    actions: "act_8m2x0f7q9a4r6t1v3w5y",
    inboxes: exampleIds.destinations ?? "",
    attempt: `atmpt_${exampleIds.deliveries?.slice(4)}_a`,
  },
};

const headers = { origin: ORIGIN, "sec-fetch-site": "same-origin", "cf-connecting-ip": "203.0.113.7" };

/** The request with the credential wherever one is read. */
function requestOf(route: Route, credential: string | undefined): Request {
  const { app, method } = route;
  const url = new URL(pathWith(route, things), ORIGIN);
  const isPage = app === "dashboard" || app === "portal";
  const given = new Headers(headers);
  if (credential !== undefined) {
    given.set("authorization", `Bearer ${credential}`);
    given.set("cookie", `__Host-breakwater=${credential}; __Host-breakwater-portal=${credential}`);
    url.searchParams.set("token", credential);
  }
  if (method === "GET") return new Request(url, { headers: given, redirect: "manual" });
  if (!isPage) given.set("content-type", "application/json");
  const form = new URLSearchParams({ key: credential ?? "", token: credential ?? "" });
  const body = isPage ? form : app === "mcp" ? messageOf("tools/list") : "{}";
  return new Request(url, { method, headers: given, body });
}

const token = (use: Parameters<typeof signToken>[1], visit?: object) => {
  const claims = { id: newTokenId(), keyId: null, tenant: "acme", scopes, expiresAt: NOW + 3_600_000 };
  return signToken(services.config, use, { ...claims, ...(visit && { visit }) });
};

const credentials: Readonly<Record<string, () => Promise<string | undefined>>> = {
  "no credential": async () => undefined,
  "an unknown key": async () => keyToken(newKeyId(), randomText(32)),
  "a token of nobody": async () => `eyJ${randomText(40)}.${randomText(40)}.${randomText(40)}`,
  "the token of a dashboard's session that has ended": () => token("session"),
  "the token of a visit that has ended": () => token("portal_session"),
  "the token of an agent whose visit has ended": () => token("agent"),
  "the token of a portal link": () =>
    token("portal", { rules: {}, language: null, theme: null, return_url: null }),
};

/**
 * The reads by which an isolate learns that a client is over its limit, or that a session has ended. It has read the
 * health before.
 */
const LEARNT_BY = 2;

describe("beyond the limits no route costs anything", () => {
  beforeAll(emptyDatabase);

  test.each(Object.entries(credentials))("with %s", async (_, credentialOf) => {
    const credential = await credentialOf();
    const faults: string[] = [];
    await (await strange.api(new Request(`${ORIGIN}/v1/health`))).text();
    for (const name of names) {
      used();
      taken.length = 0;
      for (const route of routesOf(name)) {
        const answer = await strange[name](requestOf(route, credential));
        await answer.text();
        await Promise.all(pending.splice(0));
        if (answer.status >= 500) faults.push(`${route.method} ${route.path}: ${answer.status}`);
      }
      const { queries } = used();
      if (queries > LEARNT_BY || taken.length > 0) faults.push(`${name}: ${queries} queries ${taken}`);
    }
    expect(faults).toEqual([]);
  });
});

/** The routes with a larger limit than others, by the largest body that they take. */
const larger: Readonly<Record<string, number>> = {
  "POST /v1/events/batch": 1024 * 1024,
  "POST /v1/event-types/import": 1024 * 1024,
  "POST /v1/tenants/:tenant/import": 2 * 1024 * 1024,
  "POST /api/v1/event-type/import/openapi": 1024 * 1024,
  "POST /dashboard/settings/import": 6 * 1024 * 1024,
  "POST /dashboard/event-types/import": 3 * 1024 * 1024,
};

/** As most take. */
const LARGEST = 512 * 1024;

describe("no route reads a body without a bound", () => {
  const operator: Principal = { scopes };
  const without = {
    anonymousLimit: undefined,
    readLimit: undefined,
    writeLimit: undefined,
    ingestLimit: undefined,
  };
  const known = appsWith({
    services: () => ({ ...services, ...without }),
    authenticate: async () => operator,
  });

  test.each(names)("in %s", async (name) => {
    const isPage = name === "dashboard" || name === "portal";
    const type = isPage ? "application/x-www-form-urlencoded" : "application/json";
    let read = 0;
    const faults: string[] = [];
    for (const route of routesOf(name)) {
      if (route.method === "GET" || route.method === "OPTIONS") continue;
      const size = (larger[`${route.method} ${route.path}`] ?? LARGEST) + 1;
      const init = {
        method: route.method,
        body: new Uint8Array(size).fill(0x61),
        redirect: "manual" as const,
      };
      const given = { ...headers, authorization: "Bearer x", "content-type": type };
      const request = new Request(`${ORIGIN}${pathWith(route, things)}`, { ...init, headers: given });
      const answer = await known[name](request);
      await answer.text();
      await Promise.all(pending.splice(0));
      if (request.bodyUsed) read++;
      if (request.bodyUsed && answer.status !== 413)
        faults.push(`${route.method} ${route.path} read ${size} bytes: ${answer.status}`);
    }
    expect(faults).toEqual([]);
    expect(read).toBeGreaterThan(name === "mcp" ? 0 : 10);
  });

  test("and the parts of a form count like any other body", async () => {
    const body = new FormData();
    body.set("key", new Blob([new Uint8Array(LARGEST)]));
    const request = new Request(`${ORIGIN}/dashboard/sign-in`, { method: "POST", headers, body });
    expect((await known.dashboard(request)).status).toBe(413);
  });
});
