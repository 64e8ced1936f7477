/**
 * Dispatches requests: to the API, the Svix API, the MCP server, the pages or the documentation. An isolate loads this
 * with its first request, and each part with the first request for it: evaluating all their schemas and pages takes
 * longer than any request. A post of events loads only the routes of events.
 */
import type { Refused } from "../core/result.ts";
import { SERVICE_HOST } from "../delivery/kinds/service-binding.ts";
import { logToConsole } from "../log.ts";
import { misconfigurationOf } from "../services.ts";
import { type Authenticate, byKey } from "./auth.ts";
import type { Api } from "./context.ts";
import { refusedEncoding } from "./json-body.ts";
import { answerOf, misconfigured, problem } from "./problems.ts";

type Door = Readonly<{
  fetch(request: Request, env: Env, ctx: ExecutionContext): Response | Promise<Response>;
}>;

/** Shared by the parts of an isolate: one cache of keys, and the API that its documentation describes. */
type Shared = Readonly<{ authenticate: Authenticate; app: () => Promise<Api> }>;

const parts = {
  events: async ({ authenticate }) => {
    const [{ apiOf }, { registerEvents }] = await Promise.all([
      import("./api.ts"),
      import("../features/events/routes.ts"),
    ]);
    return apiOf({ keyed: [registerEvents] }, { authenticate });
  },
  app: ({ app }) => app(),
  svix: async ({ authenticate }) => (await import("./svix/app.ts")).createSvixApi({ authenticate }),
  mcp: async ({ authenticate }) => (await import("./mcp/app.ts")).createMcp({ authenticate }),
  dashboard: async ({ authenticate }) =>
    (await import("../pages/dashboard/app.tsx")).createDashboard({ authenticate }),
  portal: async () => (await import("../pages/portal/app.tsx")).createPortal(),
  docs: async ({ app }) => {
    const [{ createDocs }, { documentOf }, api] = await Promise.all([
      import("./docs/app.tsx"),
      import("./openapi/document.ts"),
      app(),
    ]);
    return createDocs(() => documentOf(api));
  },
} satisfies Record<string, (shared: Shared) => Promise<Door>>;

type Part = keyof typeof parts;

/** The part that answers a path, by the path's first step; the API answers all others. */
const partByFirstStep: ReadonlyMap<string | undefined, Part> = new Map([
  ["docs", "docs"],
  ["problems", "docs"],
  ["llms.txt", "docs"],
  ["openapi.md", "docs"],
  ["dashboard", "dashboard"],
  ["mcp", "mcp"],
  ["portal", "portal"],
  ["api", "svix"],
  ["ingest", "svix"],
]);

const EVENT_POSTS: ReadonlySet<string> = new Set(["/v1/events", "/v1/events/batch"]);

/** By `env`, like the other state of an isolate (services.ts): another `env` belongs to another isolate. */
const doorsByEnv = new WeakMap<Env, (part: Part) => Promise<Door>>();

function doorsOf(env: Env): (part: Part) => Promise<Door> {
  const known = doorsByEnv.get(env);
  if (known) return known;
  const authenticate = byKey();
  let api: Promise<Api> | undefined;
  const app = () => {
    api ??= import("./app.ts").then(({ createApp }) => createApp({ authenticate }));
    return api;
  };
  const made = new Map<Part, Promise<Door>>();
  const doors = (part: Part) => {
    const door = made.get(part) ?? parts[part]({ authenticate, app });
    made.set(part, door);
    return door;
  };
  doorsByEnv.set(env, doors);
  return doors;
}

/** The answer of a part that cannot work, in the form that its clients understand. */
async function refusalFrom(part: Part, refused: Refused<"unavailable">): Promise<Response> {
  const answer = answerOf(refused);
  if (part === "svix")
    return (await import("./svix/shapes.ts")).errorOf(answer.status, refused.detail, answer.headers);
  if (part === "mcp") return (await import("./mcp/app.ts")).refusedAnswer(answer.status, refused);
  return answer;
}

const LOOP = "The request is a delivery to a service binding that leads back to Breakwater: it would loop";

export async function answerTo(request: Request, env: Env, ctx: ExecutionContext): Promise<Response> {
  const { hostname, pathname } = new URL(request.url);
  const [, first] = pathname.split("/");
  if (hostname.endsWith(SERVICE_HOST)) return problem(403, LOOP);
  const isEventPost = request.method === "POST" && EVENT_POSTS.has(pathname);
  const part = isEventPost ? "events" : (partByFirstStep.get(first) ?? "app");
  // The Svix API and agents have errors of other forms, and refuse it themselves.
  const refused = part === "svix" || part === "mcp" ? undefined : refusedEncoding(request);
  if (refused) return refused;
  // The documentation needs no configuration, and describes the problem of a missing one.
  const fault = part === "docs" ? undefined : misconfigurationOf(env);
  if (fault) return refusalFrom(part, misconfigured(fault, "fetch", logToConsole));
  return (await doorsOf(env)(part)).fetch(request, env, ctx);
}
