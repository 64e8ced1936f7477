/**
 * Sessions, and the context of every page: the services and the signed-in visitor. A session is opened with an API key
 * or by a portal link that the holder of a key has made. Its cookie is signed, and every request looks up whether the
 * session and the key behind it are still valid.
 */
import type { Context } from "hono";
import { deleteCookie, getCookie, setCookie } from "hono/cookie";
import type { MiddlewareHandler } from "hono/types";
import { type Authenticate, newTokenId, readToken, signToken } from "../api/auth.ts";
import type { Principal, Scope } from "../api/context.ts";
import { endSession, findSession, forgetSessions, insertSession, type Session } from "../db/auth.ts";
import type { Services } from "../services.ts";

type Visitor = Readonly<{
  principal: Principal;
  /** The signed session token of the cookie. */
  token: string;
  sessionId: string;
}>;

export type DashboardEnv = {
  Bindings: Env;
  Variables: {
    services: Services;
    /** Set on every page that requires a session. */
    visitor: Visitor;
  };
};

export type DashboardContext = Context<DashboardEnv>;

const HOUR_MS = 60 * 60_000;
const SESSION_MS = 12 * HOUR_MS;
/** How long a used portal link is remembered: longer than any link is valid. */
const RETENTION_MS = 30 * 24 * HOUR_MS;

/**
 * Opens a session and sets its cookie. False when the id has opened a session before.
 * @param id the portal link's; by default a new one
 */
export async function openSession(
  c: DashboardContext,
  principal: Principal,
  id = newTokenId(),
): Promise<boolean> {
  const { db, config, now, background } = c.get("services");
  const createdAt = now();
  const { key: keyId = null, tenant = null, scopes } = principal;
  const session = { id, keyId, tenant, scopes, expiresAt: createdAt + SESSION_MS };
  if (!(await insertSession(db, { ...session, createdAt }))) return false;
  background(forgetSessions(db, createdAt - RETENTION_MS));
  const token = await signToken(config, "session", session);
  setCookie(c, cookieName(c), token, { ...cookieOptions(c), maxAge: SESSION_MS / 1000 });
  return true;
}

/** Ends the session on the server: copies of its cookie are worthless from then on. */
export async function closeSession(c: DashboardContext): Promise<void> {
  const { db, now } = c.get("services");
  await endSession(db, c.get("visitor").sessionId, now());
  deleteCookie(c, cookieName(c), cookieOptions(c));
}

/** Requires a session; requests without one are answered by `refuse`. */
export function signedIn(
  refuse: (c: DashboardContext) => Response | Promise<Response>,
): MiddlewareHandler<DashboardEnv> {
  return async (c, next) => {
    const token = getCookie(c, cookieName(c));
    const visitor = token && (await visitorOf(c.get("services"), token));
    if (!visitor) return refuse(c);
    c.set("visitor", visitor);
    await next();
    return;
  };
}

/** A session in place of an API key, for the dashboard's calls of the API inside this Worker. */
export const bySession: Authenticate = async (services, token) =>
  (await visitorOf(services, token))?.principal;

async function visitorOf(services: Services, token: string): Promise<Visitor | undefined> {
  const now = services.now();
  const claims = await readToken(services.config, "session", token, now);
  const session = claims && (await findSession(services.db, claims.id, now));
  if (!session) return undefined;
  return { token, sessionId: session.id, principal: principalOf(session) };
}

function principalOf({ id, keyId, tenant, scopes }: Session): Principal {
  return {
    session: { at: "dashboard", id },
    scopes: scopes as readonly Scope[],
    ...(keyId !== null && { key: keyId }),
    ...(tenant !== null && { tenant }),
  };
}

/** `__Host-`: browsers accept the cookie over https only, and for this host alone (RFC 6265bis). */
function cookieName(c: DashboardContext): string {
  return isSecure(c) ? "__Host-breakwater" : "breakwater";
}

/** Lax, not Strict, because portal links are followed from other sites. Requests that change anything check the origin. */
function cookieOptions(c: DashboardContext) {
  return { path: "/", httpOnly: true, secure: isSecure(c), sameSite: "Lax" as const };
}

function isSecure(c: DashboardContext): boolean {
  return new URL(c.req.url).protocol === "https:";
}
