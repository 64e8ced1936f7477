/**
 * Visits of the portal, and the context of its pages. A visit is a session that a portal link has opened. What its visitor
 * may do is worked out for each request, from the tenant's settings as they are now and from what the link said.
 *
 * In a frame on the sender's page the cookie is partitioned by that page's site (CHIPS): browsers that block third-party
 * cookies keep it, and it is worth nothing in a frame on another site.
 */

import type { Context } from "hono";
import { deleteCookie, getCookie, setCookie } from "hono/cookie";
import type { MiddlewareHandler } from "hono/types";
import {
  accessUnder,
  type PortalAccess,
  type PortalVisit,
  portalVisit,
  scopesUnder,
  type TenantPortal,
  tenantPortalOf,
} from "../../core/portal-access.ts";
import type { Principal } from "../../core/principal.ts";
import type { OpenSession } from "../../features/keys/sql.ts";
import type { Caller } from "../../features/service.ts";
import { isLinkVoid } from "../../features/tenants/removal.ts";
import { findTenantSettings, type TenantSettings } from "../../features/tenants/settings.ts";

import { closeSession, openSession, principalOf, SESSION_S, sessionOf } from "../../http/sessions.ts";
import { readToken } from "../../secrets/tokens.ts";
import type { Services } from "../../services.ts";
import { type Look, lookOf } from "./look.ts";

export type Visitor = Readonly<{
  principal: Principal;
  tenant: string;
  sessionId: string;
  access: PortalAccess;
  visit: PortalVisit;
}>;

export type PortalEnv = {
  Bindings: Env;
  Variables: {
    services: Services;
    look: Look;
    /** Set on every page that requires a visit. */
    visitor: Visitor;
  };
};

export type PortalContext = Context<PortalEnv>;

/** The visitor, for a service. */
export function callerInPortal(c: PortalContext): Caller {
  return { services: c.get("services"), principal: c.get("visitor").principal };
}

type Link = NonNullable<Awaited<ReturnType<typeof linkOf>>>;

/**
 * A link's content, with its tenant's settings; undefined when it is not valid. One without a tenant never is: it would
 * open all tenants.
 */
export async function linkOf(c: PortalContext, token: string) {
  const { config, db, now } = c.get("services");
  const claims = await readToken(config, "portal", token, now());
  const visit = portalVisit.safeParse(claims?.visit);
  if (claims === undefined || claims.tenant === null || !visit.success) return undefined;
  const settings = await findTenantSettings(db, claims.tenant);
  if (isLinkVoid(claims.issuedAt, settings?.deletedAt)) return undefined;
  return { ...claims, tenant: claims.tenant, visit: visit.data, settings };
}

/**
 * Opens the visit of a link and sets its cookie; false when the link has opened one before, or its tenant has just been
 * deleted: a deletion ends the sessions that there are, so it is looked for once more when there is this one.
 * @param isFramed whether the page is in a frame on another site
 */
export async function openVisit(c: PortalContext, link: Link, isFramed: boolean): Promise<boolean> {
  const { id, keyId, tenant, scopes, visit: portal } = link;
  const services = c.get("services");
  // Every request of the visit looks up its key, and when that ends.
  const visit = { id, keyId, keyExpiresAt: null, tenant, scopes, portal };
  const token = await openSession(services, "portal_session", visit);
  if (token === undefined) return false;
  const settings = await findTenantSettings(services.db, tenant);
  if (isLinkVoid(link.issuedAt, settings?.deletedAt)) return false;
  setCookie(c, cookieName(c), token, { ...cookieOptions(c, isFramed), maxAge: SESSION_S });
  return true;
}

/** Ends the visit on the server: copies of its cookie are worthless from then on. */
export async function closeVisit(c: PortalContext): Promise<void> {
  await closeSession(c.get("services"), c.get("visitor").principal);
  deleteCookie(c, cookieName(c), cookieOptions(c, isInFrame(c)));
}

/** Requires a visit; requests without one are answered by `refuse`. */
export function visiting(
  refuse: (c: PortalContext) => Response | Promise<Response>,
): MiddlewareHandler<PortalEnv> {
  return async (c, next) => {
    const found = await visitorOf(c);
    if (!found) return refuse(c);
    c.set("visitor", found.visitor);
    setLook(c, found.visitor.visit, found.settings);
    await next();
    return;
  };
}

/** Sets how the pages look: at first for nobody in particular, then for the visit. */
export function setLook(c: PortalContext, visit?: PortalVisit, settings?: TenantSettings): void {
  const asked = { config: c.get("services").config, acceptLanguage: c.req.header("accept-language") };
  c.set("look", lookOf(asked, visit, settings));
}

async function visitorOf(c: PortalContext) {
  const services = c.get("services");
  const token = getCookie(c, cookieName(c));
  const session = token ? await sessionOf(services, "portal_session", token) : undefined;
  const visit = portalVisit.safeParse(session?.portal);
  if (!session || session.tenant === null || !visit.success) return undefined;
  const { tenant } = session;
  const settings = await findTenantSettings(services.db, tenant);
  const access = accessUnder(rulesOf(tenantPortalOf(settings?.portal)), visit.data.rules);
  const principal = principalOfVisit(session, access);
  const visitor: Visitor = { principal, tenant, sessionId: session.id, access, visit: visit.data };
  return { visitor, settings };
}

/** The session's principal with what the visit may do now: its scopes were granted when the link was made. */
function principalOfVisit(session: OpenSession, access: PortalAccess): Principal {
  const principal = principalOf(session);
  const needed = scopesUnder(access);
  return { ...principal, visit: access, scopes: principal.scopes.filter((scope) => needed.includes(scope)) };
}

function rulesOf({ language: _, theme: __, ...rules }: TenantPortal) {
  return rules;
}

/** Whether the browser says that the page is in a frame (https://www.w3.org/TR/fetch-metadata/#sec-fetch-dest-header). */
export function isInFrame(c: PortalContext): boolean {
  return c.req.header("sec-fetch-dest") === "iframe";
}

/** `__Host-`: browsers accept the cookie over https only, and for this host alone (RFC 6265bis). */
function cookieName(c: PortalContext): string {
  return isSecure(c) ? "__Host-breakwater-portal" : "breakwater-portal";
}

/**
 * In a frame another site's page is the top: only a cookie with SameSite=None is sent there, which has to be secure. So
 * the origin distinguishes requests that change anything, as everywhere.
 */
function cookieOptions(c: PortalContext, isFramed: boolean) {
  const common = { path: "/", httpOnly: true };
  return isFramed
    ? { ...common, secure: true, sameSite: "None" as const, partitioned: true }
    : { ...common, secure: isSecure(c), sameSite: "Lax" as const };
}

function isSecure(c: PortalContext): boolean {
  return new URL(c.req.url).protocol === "https:";
}
