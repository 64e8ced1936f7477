/**
 * Sessions at the dashboard, and the context of every page: the services and the signed-in visitor. A session is opened
 * with an API key.
 */
import type { Context } from "hono";
import { deleteCookie, getCookie, setCookie } from "hono/cookie";
import type { MiddlewareHandler } from "hono/types";
import type { Principal } from "../api/context.ts";
import { closeSession, openSession, principalOf, SESSION_S, sessionOf } from "../api/sessions.ts";
import { newTokenId } from "../secrets/tokens.ts";
import type { Services } from "../services.ts";

type Visitor = Readonly<{ principal: Principal }>;

export type DashboardEnv = {
  Bindings: Env;
  Variables: {
    services: Services;
    /** Set on every page that requires a session. */
    visitor: Visitor;
  };
};

export type DashboardContext = Context<DashboardEnv>;

/** Opens a session and sets its cookie. */
export async function signIn(c: DashboardContext, principal: Principal): Promise<void> {
  const { key: keyId = null, tenant = null, scopes } = principal;
  const session = { id: newTokenId(), keyId, tenant, scopes, portal: null };
  const token = await openSession(c.get("services"), "session", session);
  if (token === undefined) throw new Error("A random id has opened a session before");
  setCookie(c, cookieName(c), token, { ...cookieOptions(c), maxAge: SESSION_S });
}

/** Ends the session on the server: copies of its cookie are worthless from then on. */
export async function signOut(c: DashboardContext): Promise<void> {
  await closeSession(c.get("services"), c.get("visitor").principal);
  deleteCookie(c, cookieName(c), cookieOptions(c));
}

/** Requires a session; requests without one are answered by `refuse`. */
export function signedIn(
  refuse: (c: DashboardContext) => Response | Promise<Response>,
): MiddlewareHandler<DashboardEnv> {
  return async (c, next) => {
    const token = getCookie(c, cookieName(c));
    const session = token && (await sessionOf(c.get("services"), "session", token));
    if (!session) return refuse(c);
    c.set("visitor", { principal: principalOf(session) });
    await next();
    return;
  };
}

/** `__Host-`: browsers accept the cookie over https only, and for this host alone (RFC 6265bis). */
function cookieName(c: DashboardContext): string {
  return isSecure(c) ? "__Host-breakwater" : "breakwater";
}

/** Lax, not Strict, because links to pages are followed from mails. Requests that change anything check the origin. */
function cookieOptions(c: DashboardContext) {
  return { path: "/", httpOnly: true, secure: isSecure(c), sameSite: "Lax" as const };
}

function isSecure(c: DashboardContext): boolean {
  return new URL(c.req.url).protocol === "https:";
}
