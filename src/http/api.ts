/**
 * The parts that all routes of the API share: the services of a request, authentication, limits, checked names, and the
 * answers of other paths and methods.
 */
import { OpenAPIHono } from "@hono/zod-openapi";
import { errorsOf } from "../core/field-errors.ts";
import { servicesOf } from "../services.ts";
import { type Authenticate, authenticated, byKey } from "./auth.ts";
import { type Api, type ApiContext, type ApiEnv, type ServicesFor, withServices } from "./context.ts";
import { namesChecked } from "./path-names.ts";
import { invalid, notFound, onError, problem } from "./problems.ts";
import { withinLimits } from "./rate-limit.ts";

/** The sources of services and principals; by default the platform and API keys. */
export type ApiOptions = Readonly<{
  services?: ServicesFor;
  authenticate?: Authenticate;
}>;

/** A feature's routes, to be registered with an API. */
type Register = (api: Api) => void;

/**
 * An API of some routes.
 * @param open routes that need no key
 * @param keyed routes below /v1 and /metrics, which do
 */
export function apiOf(
  { open = [], keyed }: Readonly<{ open?: readonly Register[]; keyed: readonly Register[] }>,
  { services = servicesOf, authenticate = byKey() }: ApiOptions = {},
): Api {
  const api = new OpenAPIHono<ApiEnv>({
    defaultHook: (result) => (result.success ? undefined : invalid(errorsOf(result))),
  });
  api.use(withServices(services));
  const door = namesChecked<ApiEnv>((_, { what, value, isChosen }) =>
    // The schemas of routes say what is wrong with a name that callers choose.
    isChosen ? undefined : notFound(what, value),
  );
  api.use(KEY_SET, door);
  for (const register of open) register(api);
  for (const path of ["/v1/*", "/metrics"]) {
    api.use(path, authenticated(authenticate));
    api.use(path, withinLimits);
  }
  api.use("/v1/*", door);
  for (const register of keyed) register(api);
  api.notFound((c) => unmatched(api, c));
  api.onError(onError);
  return api;
}

const KEY_SET = "/v1/destinations/:id/jwks.json";

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
