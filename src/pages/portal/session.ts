/**
 * The cookie of a visit, and the context of the portal's pages.
 *
 * In a frame on the sender's page the cookie is partitioned by that page's site (CHIPS): browsers that block third-party
 * cookies keep it, and it is worth nothing in a frame on another site.
 */
import type { Context, Hono } from "hono";
import { deleteCookie, getCookie, setCookie } from "hono/cookie";
import type { MiddlewareHandler } from "hono/types";
import type { PortalVisit } from "../../core/portal-access.ts";
import { findVisitor, type PortalVisitor } from "../../features/portal-links/visits.ts";
import type { Caller } from "../../features/service.ts";
import { closeSession, SESSION_S } from "../../features/sessions/sessions.ts";
import type { TenantSettings } from "../../features/tenants/settings.ts";
import type { Services } from "../../services.ts";
import { type PortalStyle, portalStyleOf } from "./look.ts";

export type PortalEnv = {
  Bindings: Env;
  Variables: {
    services: Services;
    look: PortalStyle;
    /** Set on every page that requires a visit. */
    visitor: PortalVisitor;
  };
};

/** The app, with which pages register their routes. */
export type Portal = Hono<PortalEnv>;
export type PortalContext = Context<PortalEnv>;

/** The visitor, for a service. */
export function callerInPortal(c: PortalContext): Caller {
  return { services: c.get("services"), principal: c.get("visitor").principal };
}

/**
 * Sets the cookie of a visit.
 * @param isFramed whether the page is in a frame on another site
 */
export function setVisitCookie(c: PortalContext, token: string, isFramed: boolean): void {
  setCookie(c, cookieName(c), token, { ...cookieOptions(c, isFramed), maxAge: SESSION_S });
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
    const token = getCookie(c, cookieName(c));
    const found = token ? await findVisitor(c.get("services"), token) : undefined;
    if (!found) return refuse(c);
    c.set("visitor", found.visitor);
    setLook(c, found.visitor.visit, found.settings);
    await next();
    return;
  };
}

/** Sets the view of the pages: at first without a visit, then for the visit. */
export function setLook(c: PortalContext, visit?: PortalVisit, settings?: TenantSettings): void {
  const asked = { config: c.get("services").config, acceptLanguage: c.req.header("accept-language") };
  c.set("look", portalStyleOf(asked, visit, settings));
}

/**
 * Whether the page is in a frame, according to the browser
 * (https://www.w3.org/TR/fetch-metadata/#sec-fetch-dest-header).
 */
export function isInFrame(c: PortalContext): boolean {
  return c.req.header("sec-fetch-dest") === "iframe";
}

/** `__Host-`: browsers accept the cookie over https only, and only for this host (RFC 6265bis). */
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
