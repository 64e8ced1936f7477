/** The HTTP API: all its routes, and the OpenAPI document, which comes from the schemas that validate. */
import { etag } from "hono/etag";
import { registerAudit } from "../features/audit/routes.ts";
import { registerDeliveries } from "../features/deliveries/routes.ts";
import { registerDestinationKeys, registerDestinations } from "../features/destinations/routes.ts";
import { registerErasures } from "../features/erasures/routes.ts";
import { registerEventTypes } from "../features/event-types/routes.ts";
import { registerEvents } from "../features/events/routes.ts";
import { registerGroups } from "../features/groups/routes.ts";
import { registerHealth, registerMetrics } from "../features/health/routes.ts";
import { registerKeys } from "../features/keys/routes.ts";
import { registerNotices } from "../features/notices/routes.ts";
import { registerOperationalEvents } from "../features/notifications/routes.ts";
import { registerPolling } from "../features/polling/routes.ts";
import { registerPortalLinks } from "../features/portal-links/routes.ts";
import { registerReplays } from "../features/replays/routes.ts";
import { registerSearch } from "../features/search/routes.ts";
import { registerStats } from "../features/stats/routes.ts";
import { registerTenantConfig, registerTenantDeletion, registerTenants } from "../features/tenants/routes.ts";
import { type ApiOptions, apiOf } from "./api.ts";
import type { Api, ApiContext } from "./context.ts";
import { type Document, documentOf } from "./openapi/document.ts";
import { typesOf } from "./openapi/typescript.ts";

export function createApp(options?: ApiOptions): Api {
  return apiOf(
    {
      open: [registerHealth, registerDestinationKeys, registerDocument, (app) => app.get("/", root)],
      keyed: [
        registerEvents,
        registerEventTypes,
        registerDestinations,
        registerNotices,
        registerDeliveries,
        registerGroups,
        registerPolling,
        registerKeys,
        registerPortalLinks,
        registerTenants,
        registerTenantDeletion,
        registerErasures,
        registerTenantConfig,
        registerReplays,
        registerAudit,
        registerSearch,
        registerStats,
        registerMetrics,
        registerOperationalEvents,
      ],
    },
    options,
  );
}

/** The document and each of its texts are generated once, on the first request, because anyone may request them. */
function registerDocument(app: Api): void {
  let document: Document | undefined;
  let json: string | undefined;
  let types: string | undefined;
  const made = () => {
    document ??= documentOf(app);
    return document;
  };
  const headers = { "cache-control": "public, no-cache" };
  app.get("/openapi.json", etag(), (c) => {
    json ??= JSON.stringify(made());
    return c.body(json, 200, { ...headers, "content-type": "application/json" });
  });
  app.get("/openapi.d.ts", etag(), (c) => {
    types ??= typesOf(made());
    return c.text(types, 200, headers);
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
    mcp: at("/mcp"),
    health: at("/v1/health"),
  };
  return c.json(addresses, 200, vary);
}
