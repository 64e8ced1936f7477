/**
 * The HTTP API: registers every route, the OpenAPI document, and the answers of all other paths and methods.
 * Validation and /openapi.json come from the same schemas.
 */
import { OpenAPIHono } from "@hono/zod-openapi";
import { etag } from "hono/etag";
import { registerAudit } from "../features/audit/routes.ts";
import { registerDeliveries } from "../features/deliveries/routes.ts";
import {
  registerDestinationHealth,
  registerDestinationKeys,
  registerDestinationPreview,
  registerDestinationRotation,
  registerDestinationStatus,
  registerDestinations,
  registerDestinationTest,
  registerMasterKeyRotation,
} from "../features/destinations/routes.ts";
import { registerErasures } from "../features/erasures/routes.ts";
import { registerEventTypes } from "../features/event-types/routes.ts";
import { registerEvents } from "../features/events/routes.ts";
import { registerHealth, registerMetrics } from "../features/health/routes.ts";
import { registerKeys } from "../features/keys/routes.ts";
import { registerOperationalEvents } from "../features/notifications/webhooks.ts";
import { registerPortalLinks } from "../features/portal-links/routes.ts";
import { registerReplayStatus, registerReplays } from "../features/replays/routes.ts";
import { registerSearch } from "../features/search/routes.ts";
import { registerStats } from "../features/stats/routes.ts";
import { registerTenantConfig, registerTenantDeletion, registerTenants } from "../features/tenants/routes.ts";
import { type Services, servicesOf } from "../services.ts";
import { type Authenticate, authenticated, byKey } from "./auth.ts";
import type { Api, ApiContext, ApiEnv } from "./context.ts";
import { type Document, documentOf } from "./openapi/document.ts";
import { typesOf } from "./openapi/typescript.ts";
import { namesChecked } from "./path-names.ts";
import { errorsOf, invalid, notFound, onError, problem } from "./problems.ts";
import { withinLimits } from "./rate-limit.ts";

type Options = Readonly<{
  services?: (env: Env, ctx: Pick<ExecutionContext, "waitUntil">) => Services;
  authenticate?: Authenticate;
}>;

/** The API over the platform's services; tests pass their own. */
export function createApp({ services = servicesOf, authenticate = byKey() }: Options = {}): Api {
  const app = new OpenAPIHono<ApiEnv>({
    defaultHook: (result) => (result.success ? undefined : invalid(errorsOf(result))),
  });
  app.use(async (c, next) => {
    c.set("services", services(c.env, c.executionCtx));
    await next();
  });
  const door = namesChecked<ApiEnv>((_, { what, value, isChosen }) =>
    // The schemas of routes say what is wrong with a name that callers choose.
    isChosen ? undefined : notFound(what, value),
  );
  // Before authentication: these need no key.
  registerHealth(app);
  app.use(KEY_SET, door);
  registerDestinationKeys(app);
  for (const path of ["/v1/*", "/metrics"]) {
    app.use(path, authenticated(authenticate));
    app.use(path, withinLimits);
  }
  app.use("/v1/*", door);
  for (const register of [
    registerEvents,
    registerEventTypes,
    registerDestinations,
    registerDestinationStatus,
    registerDestinationTest,
    registerDestinationPreview,
    registerDestinationRotation,
    registerMasterKeyRotation,
    registerDestinationHealth,
    registerDeliveries,
    registerKeys,
    registerPortalLinks,
    registerTenants,
    registerTenantDeletion,
    registerErasures,
    registerTenantConfig,
    registerReplays,
    registerReplayStatus,
    registerAudit,
    registerSearch,
    registerStats,
    registerMetrics,
    registerOperationalEvents,
  ]) {
    register(app);
  }
  registerDocument(app);
  app.get("/", root);
  app.notFound((c) => unmatched(app, c));
  app.onError(onError);
  return app;
}

const KEY_SET = "/v1/destinations/:id/jwks.json";

/** The document is made once, when it is first requested. */
function registerDocument(app: Api): void {
  let document: Document | undefined;
  app.get("/openapi.json", etag(), (c) => {
    document ??= documentOf(app);
    return c.json(document, 200, { "cache-control": "public, no-cache" });
  });
  app.get("/openapi.d.ts", etag(), (c) => {
    document ??= documentOf(app);
    return c.text(typesOf(document), 200, { "cache-control": "public, no-cache" });
  });
}

/** Redirects a browser to the dashboard; answers a program with the addresses of everything. */
function root(c: ApiContext): Response {
  const vary = { vary: "Accept" };
  if (c.req.header("accept")?.includes("text/html"))
    return c.body(null, 302, { ...vary, location: "/dashboard" });
  const at = (path: string) => new URL(path, c.req.url).href;
  const addresses = {
    name: "Breakwater",
    dashboard: at("/dashboard"),
    docs: at("/docs"),
    openapi: at("/openapi.json"),
    health: at("/v1/health"),
  };
  return c.json(addresses, 200, vary);
}

/** For a known path: its methods, for OPTIONS and with 405 (RFC 9110 §9.3.7, §15.5.6); else 404. */
function unmatched(app: Api, c: ApiContext): Response {
  const methods = methodsOf(app, c.req.path);
  if (methods.length === 0) return problem(404, `There is nothing at ${c.req.path}`);
  const allow = methods.join(", ");
  if (c.req.method === "OPTIONS") return c.body(null, 204, { allow });
  return problem(405, `${c.req.path} takes ${allow}, not ${c.req.method}`, undefined, { allow });
}

function methodsOf(app: Api, path: string): string[] {
  const matching = app.routes.filter(
    ({ method, path: pattern }) => method !== "ALL" && matches(pattern, path),
  );
  // A literal path takes precedence over a pattern that matches it: `/v1/events/batch` is not an event's id.
  const literal = matching.filter(({ path: pattern }) => pattern === path);
  const methods = (literal.length > 0 ? literal : matching).flatMap(({ method }) =>
    method === "GET" ? ["GET", "HEAD"] : [method],
  );
  return [...new Set(methods)].sort();
}

function matches(pattern: string, path: string): boolean {
  const [expected, given] = [pattern.split("/"), path.split("/")];
  return (
    expected.length === given.length &&
    expected.every((part, i) => part === given[i] || (part.startsWith(":") && given[i] !== ""))
  );
}
