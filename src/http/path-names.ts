/**
 * Checks the names in paths before a handler of the API, of the Svix layer, the dashboard or the portal sees them: an
 * id has the form of its kind. The parameters that a path may have are listed here; a route with another one fails, so
 * that a new one is added to the list.
 */
import type { Context, Env as HonoEnv, MiddlewareHandler } from "hono";
import { matchedRoutes } from "hono/route";
import { EVENT_TYPE, MAX_EVENT_TYPE, TENANT_NAME, UID } from "../core/destination-fields.ts";
import { GROUP_ID } from "../core/group/name.ts";
import { CONSUMER } from "../core/inbox.ts";
import { idPatterns } from "../ids.ts";

/** A name that is not of its kind. */
type Misnamed = Readonly<{
  /** The kind of object that it should name: "destination". */
  what: string;
  value: string;
  /** Whether callers choose such names themselves, so that an answer may say what is wrong with one. */
  isChosen: boolean;
}>;

type Kind = Omit<Misnamed, "value"> & Readonly<{ isOne: (value: string) => boolean }>;

const generated = (what: string, ...patterns: readonly RegExp[]): Kind => ({
  what,
  isChosen: false,
  isOne: (value) => patterns.some((pattern) => pattern.test(value)),
});
const chosen = (what: string, pattern: RegExp, most = 256): Kind => ({
  what,
  isChosen: true,
  isOne: (value) => value.length <= most && pattern.test(value),
});

const application = chosen("application", UID);
const replay = generated("replay", idPatterns.replay);

/** By the step before a parameter, and its name. */
const kinds: ReadonlyMap<string, Kind> = new Map([
  ["destinations/:id", generated("destination", idPatterns.destination)],
  ["endpoints/:id", generated("destination", idPatterns.destination)],
  ["events/:id", generated("event", idPatterns.event)],
  ["deliveries/:id", generated("delivery", idPatterns.delivery)],
  ["attempts/:at", generated("attempt", /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)],
  ["actions/:id", generated("action", idPatterns.agentAction)],
  ["keys/:id", generated("API key", idPatterns.key)],
  ["keys/:key", generated("API key", idPatterns.key)],
  ["replays/:id", replay],
  ["replays/:replay", replay],
  ["erasures/:id", generated("erasure", idPatterns.erasure)],
  ["tenants/:tenant", chosen("tenant", TENANT_NAME)],
  ["event-types/:name", chosen("event type", EVENT_TYPE, MAX_EVENT_TYPE)],
  ["versions/:version", chosen("version", /^[1-9][0-9]{0,3}$/)],
  ["groups/:name", chosen("group", GROUP_ID, 260)],
  ["app/:app", application],
  ["app-portal-access/:app", application],
  ["dashboard-access/:app", application],
  ["endpoint/:endpoint", chosen("endpoint", UID)],
  ["poller/:sink", chosen("polling endpoint", UID)],
  ["consumer/:consumer", chosen("consumer", CONSUMER)],
  ["msg/:msg", chosen("message", UID)],
  ["attempt/:attempt", generated("attempt", /^atmpt_[0-9a-z]{13}_[0-9a-z]{20}_[0-9a-z]{1,12}$/)],
  ["background-task/:task", generated("background task", idPatterns.replay, idPatterns.erasure)],
  ["event-type/:name", chosen("event type", EVENT_TYPE, MAX_EVENT_TYPE)],
]);

/**
 * Middleware: a request whose path has a name of another form than its kind is answered by `refuse`, or continues if
 * that returns nothing.
 */
export function namesChecked<E extends HonoEnv>(
  refuse: (c: Context<E>, misnamed: Misnamed) => Response | Promise<Response> | undefined,
): MiddlewareHandler<E> {
  return async (c, next) => {
    const misnamed = misnamedIn(c);
    return (misnamed && (await refuse(c, misnamed))) ?? next();
  };
}

/** The first name that is not of its kind, in the path of the route that answers. */
function misnamedIn<E extends HonoEnv>(c: Context<E>): Misnamed | undefined {
  const routes = matchedRoutes(c);
  // A literal path takes precedence over a pattern that matches it: `/v1/events/batch` is not an event's id.
  if (routes.some(({ path }) => path === c.req.path)) return undefined;
  const steps = routes.find(({ method }) => method !== "ALL")?.path.split("/") ?? [];
  const given = c.req.path.split("/");
  for (const [i, step] of steps.entries()) {
    // If the route has its own pattern, as `:version{[0-9a-f]+}`, it has been checked.
    if (!step.startsWith(":") || step.endsWith("}")) continue;
    const name = `${steps[i - 1]}/${step}`;
    const kind = kinds.get(name);
    if (kind === undefined) throw new Error(`Say in path-names.ts what ${name} names`);
    const value = decoded(given[i] ?? "");
    const { what, isChosen, isOne } = kind;
    if (!isOne(value)) return { what, isChosen, value };
  }
  return undefined;
}

/** The parameter as handlers get it. */
function decoded(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}
