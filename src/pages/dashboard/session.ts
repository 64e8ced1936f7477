/**
 * Sessions at the dashboard, and the context of every page: the services and the signed-in visitor. A session is opened with
 * an API key. A person who comes through Cloudflare Access needs none: each request is verified separately.
 */

import type { Context, Hono } from "hono";
import { deleteCookie, getCookie, setCookie } from "hono/cookie";
import type { MiddlewareHandler } from "hono/types";
import type { z } from "zod";
import { type Permission, type Principal, principalWithin, refuseWithout } from "../../core/principal.ts";
import type { RefusalKind } from "../../core/result.ts";
import { tenantName } from "../../features/parameters.ts";
import type { Caller } from "../../features/service.ts";
import {
  closeSession,
  openSession,
  principalOf,
  SESSION_S,
  sessionOf,
} from "../../features/sessions/sessions.ts";
import type { Identified, Identify } from "../../http/access.ts";
import { newTokenId } from "../../secrets/tokens.ts";
import type { Services } from "../../services.ts";
import { PART } from "../ui/page-answer.ts";
import { attempt, attemptWith, type Work } from "../ui/services.ts";

type Visitor = Readonly<{
  principal: Principal;
  /**
   * The one tenant that pages show: that of the session, or the one that the visitor of a session without a tenant has
   * chosen. It narrows what is listed and found, and gives no right. Undefined: all tenants.
   */
  tenant: string | undefined;
  /** The tenants that a person who is bound to several of them may choose. The principal is bound to the chosen one. */
  tenants?: readonly string[];
}>;

export type DashboardEnv = {
  Bindings: Env;
  Variables: {
    services: Services;
    /** Set on every page that requires a session. */
    visitor: Visitor;
  };
};

/** The app, with which pages register their routes. */
export type Dashboard = Hono<DashboardEnv>;
export type DashboardContext = Context<DashboardEnv>;

/** Opens a session and sets its cookie. */
export async function signIn(c: DashboardContext, principal: Principal): Promise<void> {
  const { key: keyId = null, expiresAt: keyExpiresAt = null, tenant = null, scopes } = principal;
  const session = { id: newTokenId(), keyId, keyExpiresAt, tenant, scopes, portal: null };
  const token = await openSession(c.get("services"), "session", session);
  if (token === undefined) throw new Error("A random id has opened a session before");
  setCookie(c, cookieName(c), token, { ...cookieOptions(c), maxAge: SESSION_S });
}

/** Ends the session on the server: copies of its cookie are worthless from then on. */
export async function signOut(c: DashboardContext): Promise<void> {
  await closeSession(c.get("services"), c.get("visitor").principal);
  deleteCookie(c, cookieName(c), cookieOptions(c));
  deleteCookie(c, tenantCookie(c), cookieOptions(c));
}

/** Why Cloudflare Access does not sign the visitor in; undefined if a request does not come through it. */
export type NotIdentified = Exclude<Identified, Readonly<{ kind: "person" }>> | undefined;

/** Requires a person of Cloudflare Access, or else a session; other requests are answered by `refuse`. */
export function signedIn(
  identify: Identify,
  refuse: (c: DashboardContext, why: NotIdentified) => Response | Promise<Response>,
): MiddlewareHandler<DashboardEnv> {
  return async (c, next) => {
    const assertion = c.req.header("cf-access-jwt-assertion") || getCookie(c, "CF_Authorization");
    const found = assertion ? await identify(c.get("services"), assertion) : undefined;
    const visitor = found?.kind === "person" ? await visitorOf(c, found) : await sessionVisitor(c);
    if (visitor === undefined) return refuse(c, found?.kind === "person" ? undefined : found);
    c.set("visitor", visitor);
    await next();
    return;
  };
}

async function sessionVisitor(c: DashboardContext): Promise<Visitor | undefined> {
  const token = getCookie(c, cookieName(c));
  const session = token && (await sessionOf(c.get("services"), "session", token));
  if (!session) return undefined;
  const principal = principalOf(session);
  return { principal, tenant: principal.tenant ?? chosenTenant(c) };
}

/** A form of a person with several tenants acts on the one that it names. */
async function visitorOf(
  c: DashboardContext,
  { principal, tenants = [] }: Extract<Identified, { kind: "person" }>,
): Promise<Visitor> {
  if (tenants.length < 2) return { principal, tenant: principal.tenant ?? chosenTenant(c) };
  const isForm = c.req.method === "POST";
  const chosen = isForm ? (await c.req.parseBody()).tenant : chosenTenant(c);
  const wanted = [chosen, isForm && getCookie(c, tenantCookie(c))];
  const [tenant = tenants[0] ?? ""] = wanted.flatMap((name) => tenants.filter((own) => own === name));
  return { principal: { ...principal, tenant }, tenant, tenants };
}

/**
 * The tenant that is chosen in the address, which is then stored, or the one chosen before; an empty one in the address
 * chooses all. An invalid name is not stored, nor is that of an automatic refresh: another tab may have chosen another
 * since.
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

/** Middleware: `refuse` answers a visitor whose choice is not a tenant's name. */
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

/** The visitor, for a service. */
export function callerOnPage(c: DashboardContext): Caller {
  return { services: c.get("services"), principal: c.get("visitor").principal };
}

/** The visitor within the tenant that pages show, for a service that finds an object by its id. */
export function callerWithinTenant(c: DashboardContext): Caller {
  const { principal, tenant } = c.get("visitor");
  return { services: c.get("services"), principal: principalWithin(principal, tenant) };
}

/** Whether the visitor has the permission of the service, which refuses the call otherwise. */
export function mayCall(c: DashboardContext, { permission }: Readonly<{ permission: Permission }>): boolean {
  return refuseWithout(permission, c.get("visitor").principal) === undefined;
}

/** Whether forms have a field for the tenant, because the visitor has more than one. */
export function mayNameTenant(c: DashboardContext): boolean {
  const { principal, tenants } = c.get("visitor");
  return principal.tenant === undefined || tenants !== undefined;
}

/** `__Host-`: browsers accept the cookie over https only, and only for this host (RFC 6265bis). */
function cookieName(c: DashboardContext): string {
  return isSecure(c) ? "__Host-breakwater" : "breakwater";
}

function tenantCookie(c: DashboardContext): string {
  return `${cookieName(c)}-tenant`;
}

/** Lax, not Strict, because links to pages are followed from mails. Requests that change anything check the origin. */
function cookieOptions(c: DashboardContext) {
  return { path: "/", httpOnly: true, secure: isSecure(c), sameSite: "Lax" as const };
}

function isSecure(c: DashboardContext): boolean {
  return new URL(c.req.url).protocol === "https:";
}

/** Calls a service as the visitor, with a refusal if it fails. */
export function callService<I, T, K extends RefusalKind>(c: DashboardContext, work: Work<I, T, K>, input: I) {
  return attempt(callerOnPage(c), work, input);
}

/** With the input of a form, once the schema accepts it. */
export function callWith<I, T, K extends RefusalKind>(
  c: DashboardContext,
  schema: z.ZodType<I>,
  typed: unknown,
  work: Work<I, T, K>,
) {
  return attemptWith(callerOnPage(c), schema, typed, work);
}
