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
import { tenantName } from "../api/parameters.ts";
import { endSession, findSession, forgetSessions, insertSession, type Session } from "../db/auth.ts";
import type { Services } from "../services.ts";

type Visitor = Readonly<{
  principal: Principal;
  /** The signed session token of the cookie. */
  token: string;
  sessionId: string;
  /**
   * The one tenant whose things pages show: that of the session, or the one that the visitor of a session without a
   * tenant has chosen. It narrows what is listed and found, and gives no right. All tenants where it is undefined.
   */
  tenant: string | undefined;
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

/** The header of a request for a page's `main` alone. */
export const PART = "x-part";

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
  deleteCookie(c, tenantCookie(c), cookieOptions(c));
}

/** Requires a session; requests without one are answered by `refuse`. */
export function signedIn(
  refuse: (c: DashboardContext) => Response | Promise<Response>,
): MiddlewareHandler<DashboardEnv> {
  return async (c, next) => {
    const token = getCookie(c, cookieName(c));
    const visitor = token && (await visitorOf(c.get("services"), token));
    if (!visitor) return refuse(c);
    c.set("visitor", { ...visitor, tenant: visitor.principal.tenant ?? chosenTenant(c) });
    await next();
    return;
  };
}

/**
 * The tenant that is chosen in the address, from where it is remembered, or that was chosen before; an empty one in the
 * address chooses all. What is no name of a tenant is not remembered. What a page refreshes by itself is not remembered: another tab may have chosen another since.
 */
function chosenTenant(c: DashboardContext): string | undefined {
  // A form acts on what it names, whatever another tab has chosen meanwhile.
  if (c.req.method !== "GET") return undefined;
  const named = c.req.query("tenant")?.trim();
  if (named === undefined) return getCookie(c, tenantCookie(c));
  if (c.req.header(PART) === undefined) {
    if (named === "") deleteCookie(c, tenantCookie(c), cookieOptions(c));
    else if (tenantName.safeParse(named).success) setCookie(c, tenantCookie(c), named, cookieOptions(c));
  }
  return named === "" ? undefined : named;
}

/** Middleware: a visitor who has chosen what is no name of a tenant is told so by `refuse`. */
export function ofTenant(
  refuse: (c: DashboardContext) => Response | Promise<Response>,
): MiddlewareHandler<DashboardEnv> {
  return async (c, next) => {
    const { tenant, principal } = c.get("visitor");
    const isChosen = tenant !== undefined && principal.tenant === undefined;
    if (isChosen && !tenantName.safeParse(tenant).success) return refuse(c);
    await next();
    return;
  };
}

/** Whether the visitor's session may change things; the API refuses it otherwise. */
export function mayChange(c: DashboardContext): boolean {
  return c.get("visitor").principal.scopes.includes("admin");
}

/** A session in place of an API key, for the dashboard's calls of the API inside this Worker. */
export const bySession: Authenticate = async (services, token) =>
  (await visitorOf(services, token))?.principal;

async function visitorOf(services: Services, token: string): Promise<Omit<Visitor, "tenant"> | undefined> {
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

function tenantCookie(c: DashboardContext): string {
  return `${cookieName(c)}-tenant`;
}

/** Lax, not Strict, because portal links are followed from other sites. Requests that change anything check the origin. */
function cookieOptions(c: DashboardContext) {
  return { path: "/", httpOnly: true, secure: isSecure(c), sameSite: "Lax" as const };
}

function isSecure(c: DashboardContext): boolean {
  return new URL(c.req.url).protocol === "https:";
}
