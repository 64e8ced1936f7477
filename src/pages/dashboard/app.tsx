/**
 * The dashboard: pages over the same functions as the API, for operators, and for keys of one tenant, which see only
 * that. Customers have the portal (portal/).
 *
 * Pages are rendered in the Worker, without a build step. Nothing is inline and nothing comes from other hosts: the
 * Content-Security-Policy below forbids both, so that markup which slipped through the escaping could do nothing.
 */

import { Hono, type MiddlewareHandler } from "hono";
import { secureHeaders } from "hono/secure-headers";
import { byAccess } from "../../http/access.ts";
import { type Authenticate, byKey } from "../../http/auth.ts";
import { namesChecked } from "../../http/path-names.ts";
import { type Services, servicesOf } from "../../services.ts";
import { registerAssets } from "../ui/assets.ts";
import { onPageError, readableForm, withinPageLimit } from "../ui/page-limits.ts";
import { registerSharedPages } from "../ui/shared-pages.ts";
import {
  dashboardSurface,
  showNoTenant,
  showNotFound,
  showServerError,
  showTooMany,
  showUnreadableForm,
} from "./components/layout.tsx";
import { registerApprovals } from "./pages/approvals.tsx";
import { registerAuditPages } from "./pages/audit.tsx";
import { registerDeliveriesPage } from "./pages/deliveries.tsx";
import { registerDestination } from "./pages/destination.tsx";
import { registerActions } from "./pages/destination-actions.tsx";
import { registerDestinationForms } from "./pages/edit-destination.tsx";
import { registerErasurePages } from "./pages/erasures.tsx";
import { registerEventPage } from "./pages/event.tsx";
import { registerEventTypeVersions } from "./pages/event-type-versions.tsx";
import { LARGEST_IMPORT, registerCatalogue } from "./pages/event-types.tsx";
import { registerGroupPages } from "./pages/groups.tsx";
import { registerKeyPages } from "./pages/keys.tsx";
import { registerOverview } from "./pages/overview.tsx";
import { registerPortalLinkPage } from "./pages/portal-links.tsx";
import { registerRepairPage } from "./pages/repair.tsx";
import { registerReplaysPage } from "./pages/replays.tsx";
import { registerSearchPage } from "./pages/search.tsx";
import { registerSettings } from "./pages/settings.tsx";
import { refuseVisitor, registerSignIn, registerSignOut } from "./pages/sign-in.tsx";
import { LARGEST_FORM, registerTenantConfigPages } from "./pages/tenant-config.tsx";
import { registerTenantPage } from "./pages/tenants.tsx";
import { type DashboardEnv, ofTenant, signedIn } from "./session.ts";
import { registerSimulator } from "./simulator/page.tsx";

type Options = Readonly<{
  services?: (env: Env, ctx: Pick<ExecutionContext, "waitUntil">) => Services;
  authenticate?: Authenticate;
}>;

/** Serves everything under /dashboard. Tests pass their own services. */
export function createDashboard({ services = servicesOf, authenticate = byKey() }: Options = {}) {
  const app = new Hono<DashboardEnv>();
  app.use(securityHeaders);
  app.use(ownOrigin);
  app.use(async (c, next) => {
    c.set("services", services(c.env, c.executionCtx));
    await next();
  });
  registerAssets(app);
  app.use(
    readableForm({ unreadable: showUnreadableForm, tooMany: showTooMany }, [LARGEST_FORM, LARGEST_IMPORT]),
  );
  registerSignIn(app, authenticate);
  app.use(signedIn(byAccess(), refuseVisitor));
  app.use(withinPageLimit(showTooMany));
  app.use(ofTenant(showNoTenant));
  // The API reports what is wrong with a name that callers choose.
  app.use(namesChecked<DashboardEnv>((c, { isChosen }) => (isChosen ? undefined : showNotFound(c))));
  const pages = [
    registerDestinationForms,
    registerSimulator,
    registerKeyPages,
    registerPortalLinkPage,
    registerCatalogue,
    registerSettings,
    registerTenantConfigPages,
    registerSignOut,
    registerOverview,
    registerDestination,
    registerDeliveriesPage,
    registerRepairPage,
    registerReplaysPage,
    registerActions,
    registerSearchPage,
    registerEventPage,
    registerEventTypeVersions,
    registerGroupPages,
    registerErasurePages,
    registerTenantPage,
    registerApprovals,
    registerAuditPages,
  ];
  for (const register of pages) register(app);
  registerSharedPages(app, dashboardSurface);
  app.notFound((c) => showNotFound(c));
  app.onError(onPageError(showServerError));
  return app;
}

/**
 * Middleware: 403 for requests that may change something and do not come from a page of this origin, with any type of
 * content: Cloudflare Access sends its cookie, and adds its assertion, from other sites too, unless it is configured
 * not to.
 */
const ownOrigin: MiddlewareHandler<DashboardEnv> = async ({ req }, next) => {
  const isOwn =
    req.header("sec-fetch-site") === "same-origin" || req.header("origin") === new URL(req.url).origin;
  if (!isOwn && !/^(GET|HEAD|OPTIONS)$/.test(req.method)) return new Response("Forbidden", { status: 403 });
  await next();
  return;
};

const securityHeaders = secureHeaders({
  contentSecurityPolicy: {
    defaultSrc: ["'none'"],
    scriptSrc: ["'self'"],
    styleSrc: ["'self'"],
    imgSrc: ["'self'"],
    connectSrc: ["'self'"],
    formAction: ["'self'"],
    baseUri: ["'none'"],
    frameAncestors: ["'none'"],
  },
  // Not `no-referrer`: browsers would then send forms with the origin `null`, which is refused as cross-site.
  referrerPolicy: "same-origin",
  xFrameOptions: "DENY",
});
