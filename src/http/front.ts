/**
 * Who answers a request: the API, the Svix API, the pages or the documentation. An isolate loads this with its first
 * request, and each of them with the first request for it: evaluating all their schemas and pages takes longer than
 * any request. A post of events loads the routes of events alone.
 */
import { SERVICE_HOST } from "../delivery/kinds/service-binding.ts";
import { logToConsole } from "../log.ts";
import { misconfigurationOf } from "../services.ts";
import { type Authenticate, byKey } from "./auth.ts";
import { answerOf, misconfigured, problem } from "./problems.ts";

type Door = Readonly<{
  fetch(request: Request, env: Env, ctx: ExecutionContext): Response | Promise<Response>;
}>;

/** How each part is loaded and made. The parts of an isolate share one cache of keys. */
const parts = {
  events: async (authenticate: Authenticate) => {
    const [{ apiOf }, { registerEvents }] = await Promise.all([
      import("./api.ts"),
      import("../features/events/routes.ts"),
    ]);
    return apiOf({ keyed: [registerEvents] }, { authenticate });
  },
  app: async (authenticate: Authenticate) => (await import("./app.ts")).createApp({ authenticate }),
  svix: async (authenticate: Authenticate) => (await import("./svix/app.ts")).createSvixApi({ authenticate }),
  dashboard: async (authenticate: Authenticate) =>
    (await import("../pages/dashboard/app.tsx")).createDashboard({ authenticate }),
  portal: async () => (await import("../pages/portal/app.tsx")).createPortal(),
  docs: async () => {
    const [{ createDocs }, { createApp }, { documentOf }] = await Promise.all([
      import("./docs/app.tsx"),
      import("./app.ts"),
      import("./openapi/document.ts"),
    ]);
    return createDocs(() => documentOf(createApp()));
  },
} satisfies Record<string, (authenticate: Authenticate) => Promise<Door>>;

type Part = keyof typeof parts;

/** The part that answers a path, by the path's first step; the API answers all others. */
const partByFirstStep: ReadonlyMap<string | undefined, Part> = new Map([
  ["docs", "docs"],
  ["problems", "docs"],
  ["dashboard", "dashboard"],
  ["portal", "portal"],
  ["api", "svix"],
  ["ingest", "svix"],
]);

const EVENT_POSTS: ReadonlySet<string> = new Set(["/v1/events", "/v1/events/batch"]);

/** By `env`, as the other state of an isolate is (services.ts): a second one is another isolate's. */
const doorsByEnv = new WeakMap<Env, (part: Part) => Promise<Door>>();

function doorsOf(env: Env): (part: Part) => Promise<Door> {
  const known = doorsByEnv.get(env);
  if (known) return known;
  const authenticate = byKey();
  const made = new Map<Part, Promise<Door>>();
  const doors = (part: Part) => {
    const door = made.get(part) ?? parts[part](authenticate);
    made.set(part, door);
    return door;
  };
  doorsByEnv.set(env, doors);
  return doors;
}

const LOOP =
  "The request is a delivery to a service binding that leads back to Breakwater: it would go round in circles";

export async function answerTo(request: Request, env: Env, ctx: ExecutionContext): Promise<Response> {
  const { hostname, pathname } = new URL(request.url);
  const [, first] = pathname.split("/");
  if (hostname.endsWith(SERVICE_HOST)) return problem(403, LOOP);
  const isEventPost = request.method === "POST" && EVENT_POSTS.has(pathname);
  const part = isEventPost ? "events" : (partByFirstStep.get(first) ?? "app");
  // The documentation needs no configuration, and describes the problem of a missing one.
  const fault = part === "docs" ? undefined : misconfigurationOf(env);
  if (fault) return answerOf(misconfigured(fault, "fetch", logToConsole));
  return (await doorsOf(env)(part)).fetch(request, env, ctx);
}
