/**
 * Who answers a request: the API, the Svix API, the pages or the documentation. An isolate loads this with its first request,
 * because gates and queue consumers run the same script and need none of it.
 */
import { SERVICE_HOST } from "../delivery/kinds/service-binding.ts";
import { logToConsole } from "../log.ts";
import { createDashboard } from "../pages/dashboard/app.tsx";
import { createPortal } from "../pages/portal/app.tsx";
import { misconfigurationOf } from "../services.ts";
import { createApp } from "./app.ts";
import { byKey } from "./auth.ts";
import { createDocs } from "./docs/app.tsx";
import { documentOf } from "./openapi/document.ts";
import { answerOf, misconfigured, problem } from "./problems.ts";
import { createSvixApi } from "./svix/app.ts";

/** What answers in one isolate. Its parts share one cache of keys. */
function newDoors() {
  const authenticate = byKey();
  const app = createApp({ authenticate });
  const svix = createSvixApi({ authenticate });
  const byFirstStep = new Map<string | undefined, Pick<typeof app, "fetch">>([
    ["dashboard", createDashboard({ authenticate })],
    ["portal", createPortal()],
    ["api", svix],
    ["ingest", svix],
  ]);
  return { app, byFirstStep };
}

const doors = newDoors();
let doorsAreFree = true;
/** By `env`, as the other state of an isolate is (services.ts): a second one is another isolate's. */
const doorsByEnv = new WeakMap<Env, typeof doors>();

function doorsOf(env: Env): typeof doors {
  const known = doorsByEnv.get(env) ?? (doorsAreFree ? doors : newDoors());
  doorsAreFree = false;
  doorsByEnv.set(env, known);
  return known;
}

const docs = createDocs(() => documentOf(doors.app));

/** By the first step of a path. The documentation needs no configuration, and describes the problem of a missing one. */
const documentation = new Map<string | undefined, Pick<typeof docs, "fetch">>([
  ["docs", docs],
  ["problems", docs],
]);

const LOOP =
  "The request is a delivery to a service binding that leads back to Breakwater: it would go round in circles";

export function answerTo(request: Request, env: Env, ctx: ExecutionContext): Response | Promise<Response> {
  const { hostname, pathname } = new URL(request.url);
  const [, first] = pathname.split("/");
  if (hostname.endsWith(SERVICE_HOST)) return problem(403, LOOP);
  const page = documentation.get(first);
  if (page) return page.fetch(request, env, ctx);
  const fault = misconfigurationOf(env);
  if (fault) return answerOf(misconfigured(fault, "fetch", logToConsole));
  const { app, byFirstStep } = doorsOf(env);
  return (byFirstStep.get(first) ?? app).fetch(request, env, ctx);
}
