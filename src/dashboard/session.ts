/** What a request for a page carries: the services, and the session of the person who asks. */
import type { Context } from "hono";
import { deleteCookie, getCookie, setCookie } from "hono/cookie";
import type { MiddlewareHandler } from "hono/types";
import { type Authenticate, newTokenId, readToken, signToken } from "../api/auth.ts";
import type { Principal, Scope } from "../api/context.ts";
import { endSession, findSession, forgetSessions, insertSession, type Session } from "../db/auth.ts";
import type { Services } from "../services.ts";

type Visitor = Readonly<{
  principal: Principal;
  /** The signed session, as the cookie carries it. */
  token: string;
  sessionId: string;
}>;

export type DashboardEnv = {
  Bindings: Env;
  Variables: {
    services: Services;
    /** Set on every page behind the door. */
    visitor: Visitor;
  };
};

export type DashboardContext = Context<DashboardEnv>;

// §§ Who sits before the screen. A session is opened with an API key, or by a portal link that the holder of
// one has made; its cookie is signed, and every request looks up whether the session and the key behind it
// still stand.

const HOUR_MS = 60 * 60_000;
const LASTS_MS = 12 * HOUR_MS;
/** Longer than any portal link is valid, so that none is forgotten to have been used. */
const REMEMBERED_MS = 30 * 24 * HOUR_MS;

/**
 * Opens a session and hands its cookie out. False when its id has opened one before.
 * @param id that of the portal link; a new one where there is none
 */
export async function openSession(
  c: DashboardContext,
  principal: Principal,
  id = newTokenId(),
): Promise<boolean> {
  const { db, config, now, background } = c.get("services");
  const createdAt = now();
  const { key: keyId = null, tenant = null, scopes } = principal;
  const session = { id, keyId, tenant, scopes, expiresAt: createdAt + LASTS_MS };
  if (!(await insertSession(db, { ...session, createdAt }))) return false;
  background(forgetSessions(db, createdAt - REMEMBERED_MS));
  const token = await signToken(config, "session", session);
  setCookie(c, cookieName(c), token, { ...cookieOptions(c), maxAge: LASTS_MS / 1000 });
  return true;
}

/** Ends the session for good: a copy of its cookie opens nothing any more. */
export async function closeSession(c: DashboardContext): Promise<void> {
  const { db, now } = c.get("services");
  await endSession(db, c.get("visitor").sessionId, now());
  deleteCookie(c, cookieName(c), cookieOptions(c));
}

/** Lets in whoever has a session, and nobody else: `refuse` answers those. */
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

/** A session as a key of the API, for the calls that the dashboard makes of it inside this Worker. */
export const bySession: Authenticate = async (services, token) =>
  (await visitorOf(services, token))?.principal;

async function visitorOf(services: Services, token: string): Promise<Visitor | undefined> {
  const now = services.now();
  const claims = await readToken(services.config, "session", token, now);
  const session = claims && (await findSession(services.db, claims.id, now));
  if (!session) return undefined;
  return { token, sessionId: session.id, principal: principalOf(session) };
}

function principalOf({ keyId, tenant, scopes }: Session): Principal {
  return {
    scopes: scopes as readonly Scope[],
    ...(keyId !== null && { key: keyId }),
    ...(tenant !== null && { tenant }),
  };
}

/** `__Host-`: browsers take it over https only, for this host alone (RFC 6265bis). */
function cookieName(c: DashboardContext): string {
  return isSecure(c) ? "__Host-breakwater" : "breakwater";
}

/** Lax, not Strict: a portal link is followed from somebody else's page. What changes anything checks its origin. */
function cookieOptions(c: DashboardContext) {
  return { path: "/", httpOnly: true, secure: isSecure(c), sameSite: "Lax" as const };
}

function isSecure(c: DashboardContext): boolean {
  return new URL(c.req.url).protocol === "https:";
}
