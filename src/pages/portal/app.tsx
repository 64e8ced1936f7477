/**
 * The portal that senders give to their customers: endpoints, deliveries and event types of one tenant, opened by a
 * link, on a page of its own or in a frame on a page of the sender.
 *
 * Pages are rendered in the Worker, as those of the dashboard: nothing is inline, and only the sender's logo comes from
 * another host. core/portal-access.ts decides on a visitor's rights, for every request.
 */

import { Hono } from "hono";
import { csrf } from "hono/csrf";
import { secureHeaders } from "hono/secure-headers";
import type { MiddlewareHandler } from "hono/types";
import { namesChecked } from "../../http/path-names.ts";
import { type Services, servicesOf } from "../../services.ts";
import { onPageError, readableForm, withinPageLimit } from "../ui/page-limits.ts";
import { registerSharedPages } from "../ui/shared-pages.ts";
import { registerAssets } from "./assets.ts";
import {
  showPortalNotFound,
  showPortalServerError,
  showPortalTooMany,
  showPortalUnreadableForm,
} from "./layout.tsx";
import type { PortalStyle } from "./look.ts";
import { registerAgentPage } from "./pages/agent.tsx";
import { registerPortalDelivery } from "./pages/delivery.tsx";
import { registerEndpoint } from "./pages/endpoint.tsx";
import { registerEndpointActions } from "./pages/endpoint-actions.tsx";
import { registerEndpointForms } from "./pages/endpoint-form.tsx";
import { registerEndpointPages } from "./pages/endpoints.tsx";
import { registerEnter, registerVisit, showEnded } from "./pages/enter.tsx";
import { registerPortalEventTypes } from "./pages/event-types.tsx";
import { registerPortalPolling } from "./pages/polling.tsx";
import { registerVerify } from "./pages/verify.tsx";
import { type PortalEnv, setLook, visiting } from "./session.ts";
import { portalSurface } from "./surface.ts";

type Options = Readonly<{ services?: (env: Env, ctx: Pick<ExecutionContext, "waitUntil">) => Services }>;

/** Serves everything under /portal. Tests pass their own services. */
export function createPortal({ services = servicesOf }: Options = {}) {
  const app = new Hono<PortalEnv>();
  app.use(pageHeaders);
  app.use(csrf());
  app.use(async (c, next) => {
    c.set("services", services(c.env, c.executionCtx));
    setLook(c);
    await next();
  });
  registerAssets(app);
  app.use(readableForm({ unreadable: showPortalUnreadableForm, tooMany: showPortalTooMany }));
  registerEnter(app);
  app.use(visiting(showEnded));
  app.use(withinPageLimit(showPortalTooMany));
  app.use(namesChecked<PortalEnv>((c) => showPortalNotFound(c)));
  registerVisit(app);
  registerSharedPages(app, portalSurface);
  for (const register of [
    registerEndpointPages,
    // Before registerEndpoint: /portal/endpoints/:id would match its path.
    registerEndpointForms,
    registerEndpointActions,
    registerPortalPolling,
    registerEndpoint,
    registerVerify,
    registerAgentPage,
    registerPortalDelivery,
    registerPortalEventTypes,
  ])
    register(app);
  app.notFound((c) => showPortalNotFound(c));
  app.onError(onPageError(showPortalServerError));
  return app;
}

const commonHeaders = secureHeaders({
  // Not `no-referrer`: browsers would then send forms with the origin `null`, which is refused as cross-site.
  referrerPolicy: "same-origin",
  // The same as frame-ancestors, but without origins.
  xFrameOptions: false,
  // The page around a frame may be of another site.
  crossOriginResourcePolicy: "same-origin",
});

/** The policy depends on the page: which images it has, and who may show it in a frame. */
const pageHeaders: MiddlewareHandler<PortalEnv> = async (c, next) => {
  await commonHeaders(c, next);
  c.res.headers.set("content-security-policy", policyOf(c.get("look")));
};

function policyOf(look: Pick<PortalStyle, "brand" | "origins"> | undefined): string {
  const { brand, origins = [] } = look ?? {};
  return [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    `img-src 'self'${imageSource(brand?.logo)}`,
    "connect-src 'self'",
    "form-action 'self'",
    "base-uri 'none'",
    `frame-ancestors ${origins.length > 0 ? origins.join(" ") : "'none'"}`,
  ].join("; ");
}

/** The source of the logo. A data: image is a checked one, or it would not be shown. */
function imageSource(logo: string | null | undefined): string {
  if (!logo) return "";
  return logo.startsWith("data:") ? " data:" : ` ${new URL(logo).origin}`;
}
