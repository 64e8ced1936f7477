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
import type { Authenticate } from "../api/auth.ts";
import { byKey } from "../api/key-lookup.ts";
import { faultOf, logToConsole } from "../log.ts";
import { type Services, servicesOf } from "../services.ts";
import { registerActions } from "./actions.ts";
import { registerAllDestinations } from "./all-destinations.tsx";
import { registerAssets } from "./assets.ts";
import type { DashboardEnv } from "./context.ts";
import { registerDestination } from "./destination.tsx";
import { registerEvent } from "./event.tsx";
import { internalClient } from "./inside.ts";
import { registerSimulator } from "./lab/lab.tsx";
import { registerLimits } from "./limits.ts";
import { registerNewDestination } from "./new-destination.tsx";
import { nothingHere, somethingBroke } from "./nothing.tsx";
import { registerOverview } from "./overview.tsx";
import { registerPortal } from "./portal.tsx";
import { signedIn } from "./session.ts";
import { askForKey, registerSignIn, registerSignOut } from "./sign-in.tsx";
import { registerTestEvent } from "./trial.tsx";

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
