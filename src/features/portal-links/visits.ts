/**
 * Visits of the portal. A visit is a session that a portal link has opened. The visitor's rights are computed for each
 * request, from the tenant's present settings and from the link.
 */
import {
  accessUnder,
  type PortalAccess,
  type PortalVisit,
  scopesUnder,
  tenantPortalOf,
  visitIn,
} from "../../core/portal-access.ts";
import type { Principal } from "../../core/principal.ts";
import { isOverLinkLimit } from "../../rate-limits.ts";
import { readToken, signToken } from "../../secrets/tokens.ts";
import type { Services } from "../../services.ts";
import { type AgentUse, openSession, principalOf, sessionOf } from "../sessions/sessions.ts";
import { findSession, type OpenSession, replacePortalVisit } from "../sessions/sql.ts";
import { isLinkVoid } from "../tenants/removal.ts";
import { findTenantSettings } from "../tenants/settings.ts";

/** The content of a link that may open a visit, with its tenant's settings. */
type PortalInvitation = Exclude<Awaited<ReturnType<typeof findInvitation>>, "limited" | undefined>;

/**
 * Reads a link's token; undefined when it is not valid, "limited" when it is used too often. A link without a tenant never is
 * valid: it would open all tenants. A valid link may have been used before: `openVisit` finds out.
 */
export async function findInvitation(services: Services, token: string) {
  const { config, db, now } = services;
  const claims = await readToken(config, "portal", token, now());
  const visit = visitIn(claims?.visit);
  if (claims === undefined || claims.tenant === null || visit === undefined) return undefined;
  if (await isOverLinkLimit(services, claims)) return "limited";
  const settings = await findTenantSettings(db, claims.tenant);
  if (isLinkVoid(claims.issuedAt, settings?.deletedAt)) return undefined;
  return { ...claims, tenant: claims.tenant, visit, settings };
}

/**
 * Opens the visit of a link and returns its session's token; undefined when the link has opened one before, or its tenant
 * has just been deleted. A deletion ends the sessions that exist, so the settings are read again once this one does.
 */
export async function openVisit(
  services: Services,
  { id, keyId, tenant, scopes, issuedAt, visit: portal }: PortalInvitation,
): Promise<string | undefined> {
  // Every request of the visit looks up its key, and when that ends.
  const session = { id, keyId, keyExpiresAt: null, tenant, scopes, portal };
  const token = await openSession(services, "portal_session", session);
  if (token === undefined) return undefined;
  const settings = await findTenantSettings(services.db, tenant);
  return isLinkVoid(issuedAt, settings?.deletedAt) ? undefined : token;
}

export type PortalVisitor = Readonly<{
  /** With the scopes that the visit needs now, of those that were granted when its link was made. */
  principal: Principal;
  tenant: string;
  sessionId: string;
  /** When the visit ends at the latest, epoch ms. */
  expiresAt: number;
  access: PortalAccess;
  visit: PortalVisit;
}>;

/** The visitor of a session's token, with the tenant's settings; undefined where the visit has ended. */
export async function findVisitor(services: Services, token: string) {
  return visitorIn(services, await sessionOf(services, "portal_session", token));
}

/** The principal of an agent's token: the visitor in whose visit it was made. Undefined if that has ended. */
export async function findVisitorsAgent(services: Services, token: string): Promise<Principal | undefined> {
  const free = await visitorIn(services, await sessionOf(services, "agent", token));
  if (free) return agentIn(free.visitor);
  const bound = await visitorIn(services, await sessionOf(services, "confirming_agent", token));
  return bound && { ...agentIn(bound.visitor), confirm: true };
}

/** The agent ends with the visit, and so does what it subscribes to. */
function agentIn({ principal, expiresAt }: PortalVisitor): Principal {
  return { ...principal, expiresAt: Math.min(expiresAt, principal.expiresAt ?? expiresAt) };
}

/** The visitor of a visit, by the id of its session; undefined where it has ended. */
export async function visitorOfSession(services: Services, id: string): Promise<Principal | undefined> {
  const found = await visitorIn(services, await findSession(services.db, id, services.now()));
  return found?.visitor.principal;
}

async function visitorIn(services: Services, session: OpenSession | undefined) {
  const visit = visitIn(session?.portal);
  if (!session || session.tenant === null || visit === undefined) return undefined;
  const { tenant, id: sessionId, expiresAt } = session;
  const settings = await findTenantSettings(services.db, tenant);
  const { language: _, theme: __, ...rules } = tenantPortalOf(settings?.portal);
  const access = accessUnder({ ...rules, may_write_code: rules.may_write_code === true }, visit.rules);
  const needed = scopesUnder(access);
  const granted = principalOf(session);
  const scopes = granted.scopes.filter((scope) => needed.includes(scope));
  const principal: Principal = { ...granted, visit: access, scopes };
  const visitor: PortalVisitor = { principal, tenant, sessionId, expiresAt, access, visit };
  return { visitor, settings };
}

/** Stores the language and theme that the visitor has chosen. They last as long as the visit. */
export async function chooseAppearance(
  { db }: Services,
  { sessionId, visit }: PortalVisitor,
  chosen: Partial<Pick<PortalVisit, "language" | "theme">>,
): Promise<void> {
  await replacePortalVisit(db, sessionId, { ...visit, ...chosen });
}

/** @param expiresAt epoch ms, at the latest */
export type AgentToken = Readonly<{ token: string; expiresAt: number }>;

/** A token for an agent, which may do in the visit what its visitor may. It ends with the visit, and is not stored. */
export async function agentTokenOf(
  { config }: Services,
  { sessionId: id, tenant, principal: { scopes }, expiresAt }: PortalVisitor,
  use: AgentUse,
): Promise<AgentToken> {
  return {
    token: await signToken(config, use, { id, keyId: null, tenant, scopes, expiresAt }),
    expiresAt,
  };
}
