/**
 * The dashboard: pages for people over the same functions that the API answers machines with. For the
 * operator, and for a customer, who sees one tenant and knows of no other.
 *
 * Rendered here, without a build step. Nothing inline and nothing from elsewhere: the policy below forbids
 * both, so that markup which slipped through the escaping could still do nothing.
 */
import { Hono } from "hono";
import { csrf } from "hono/csrf";
import { secureHeaders } from "hono/secure-headers";
import { type Authenticate, byKey } from "../api/auth.ts";
import { faultOf, logToConsole } from "../log.ts";
import { type Services, servicesOf } from "../services.ts";
import { registerAssets } from "./assets.ts";
import { internalClient } from "./internal-client.ts";
import { registerDestination } from "./pages/destination.tsx";
import { registerActions, registerLimits, registerTestEvent } from "./pages/destination-actions.tsx";
import { nothingHere, somethingBroke } from "./pages/error-pages.tsx";
import { registerEvent } from "./pages/event.tsx";
import { registerNewDestination } from "./pages/new-destination.tsx";
import { registerAllDestinations, registerOverview } from "./pages/overview.tsx";
import { askForKey, registerPortal, registerSignIn, registerSignOut } from "./pages/sign-in.tsx";
import { type DashboardEnv, signedIn } from "./session.ts";
import { registerSimulator } from "./simulator/page.tsx";

type Options = Readonly<{
  services?: (env: Env, ctx: Pick<ExecutionContext, "waitUntil">) => Services;
  authenticate?: Authenticate;
}>;

/** Everything under /dashboard. Tests hand in their own services. */
export function createDashboard({ services = servicesOf, authenticate = byKey() }: Options = {}) {
  const app = new Hono<DashboardEnv>();
  app.use(guarded);
  app.use(csrf());
  app.use(async (c, next) => {
    c.set("services", services(c.env, c.executionCtx));
    await next();
  });
  registerAssets(app);
  registerSignIn(app, authenticate);
  registerPortal(app);
  app.use(signedIn((c) => askForKey(c)));
  const callApi = internalClient(services);
  for (const register of [
    registerNewDestination,
    registerActions,
    registerTestEvent,
    registerLimits,
    registerSimulator,
  ])
    register(app, callApi);
  const pages = [
    registerSignOut,
    registerOverview,
    registerAllDestinations,
    registerDestination,
    registerEvent,
  ];
  for (const register of pages) register(app);
  app.notFound((c) => nothingHere(c));
  app.onError((error, c) => {
    const log = c.get("services")?.log ?? logToConsole;
    if ("getResponse" in error) return error.getResponse();
    log({ what: "page_failed", method: c.req.method, path: c.req.path, fault: faultOf(error) });
    return somethingBroke(c);
  });
  return app;
}

const guarded = secureHeaders({
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
  // Not `no-referrer`: forms would then be sent with the origin `null`, and be refused as another site's.
  referrerPolicy: "same-origin",
  xFrameOptions: "DENY",
});
