/**
 * The API of Svix under /api/v1, over Breakwater's functions and routes: an SDK of Svix works against Breakwater when
 * its server URL is changed. Parts that are the same, different and missing are listed in docs/from-svix.md. A route
 * that is missing answers 501 and names itself.
 */
import { Hono } from "hono";
import { servicesOf } from "../../services.ts";
import type { ApiOptions } from "../api.ts";
import { authenticated, byKey } from "../auth.ts";
import { type ApiEnv, withServices } from "../context.ts";
import { refusedEncoding } from "../json-body.ts";
import { namesChecked } from "../path-names.ts";
import { onError } from "../problems.ts";
import { withinLimits } from "../rate-limit.ts";
import { registerApplications } from "./applications.ts";
import { registerAttempts } from "./attempts.ts";
import { registerBackgroundTasks } from "./background-tasks.ts";
import { registerContent } from "./content.ts";
import { registerEndpointMessages } from "./endpoint-messages.ts";
import { registerEndpoints } from "./endpoints.ts";
import { registerSvixEventTypes } from "./event-types.ts";
import { registerImport } from "./import-openapi.ts";
import { registerMessages } from "./messages.ts";
import { registerOperationalWebhooks } from "./operational-webhooks.ts";
import { preflight, readableByPages } from "./pages.ts";
import { registerPoller } from "./poller.ts";
import { registerLogout, registerPortalAccess } from "./portal.ts";
import { errorOf, inTheirShape, notFoundProblem } from "./shapes.ts";
import { registerTransformation } from "./transformation.ts";

const namedWell = namesChecked<ApiEnv>((_, { what, value }) => notFoundProblem(what, value));

/** Serves everything under /api and /ingest. Tests pass their own services. */
export function createSvixApi({ services = servicesOf, authenticate = byKey() }: ApiOptions = {}) {
  const app = new Hono<ApiEnv>();
  app.use(readableByPages);
  app.use(inTheirShape);
  app.use(async (c, next) => refusedEncoding(c.req.raw) ?? next());
  app.use(withServices(services));
  // Before authentication: none of them takes a key.
  app.options("/api/*", preflight);
  app.get("/api/v1/health", (c) => c.body(null, 204));
  registerLogout(app);
  for (const path of ["/api/*", "/ingest/*"])
    app.use(path, authenticated(authenticate), withinLimits, namedWell);
  registerApplications(app);
  registerEndpoints(app);
  registerTransformation(app);
  registerMessages(app);
  registerAttempts(app);
  registerEndpointMessages(app);
  registerContent(app);
  registerPoller(app);
  registerBackgroundTasks(app);
  registerSvixEventTypes(app);
  registerImport(app);
  registerOperationalWebhooks(app);
  registerPortalAccess(app);
  app.notFound((c) =>
    errorOf(501, `${c.req.method} ${c.req.path.slice(0, 500)} is not supported by Breakwater`),
  );
  app.onError(onError);
  return app;
}
