/**
 * Sessions of pages. One is stored, and its signed token is in a cookie: every request looks up whether the session and
 * the key behind it are still valid. A token of the dashboard is not valid in the portal, and vice versa.
 */

import type { Principal } from "../../core/principal.ts";
import { HOUR_MS } from "../../core/rollups.ts";
import type { Scope } from "../../core/scopes.ts";
import { isOverLinkLimit } from "../../rate-limits.ts";
import { readToken, signToken } from "../../secrets/tokens.ts";
import type { Services } from "../../services.ts";
import { record } from "../audit/trail.ts";
import { endSession, findSession, forgetSessions, insertSession, type OpenSession } from "./sql.ts";

type SessionUse = "session" | "portal_session";
/** `confirming_agent`: its changes are approved in the portal. */
export type AgentUse = "agent" | "confirming_agent";

const SESSION_MS = 12 * HOUR_MS;
/** The life of a session's cookie, in seconds. */
export const SESSION_S = SESSION_MS / 1000;
/** How long a used portal link is remembered: longer than any link is valid. */
const RETENTION_MS = 30 * 24 * HOUR_MS;

type NewSession = Pick<OpenSession, "id" | "keyId" | "tenant" | "portal" | "keyExpiresAt"> &
  Readonly<{ scopes: readonly Scope[] }>;

/** Opens a session and makes its token; undefined when its id has opened a session before. */
export async function openSession(services: Services, use: SessionUse, session: NewSession) {
  const { db, config, now, background } = services;
  const createdAt = now();
  const { keyExpiresAt, ...stored } = session;
  const expiresAt = Math.min(createdAt + SESSION_MS, keyExpiresAt ?? Number.POSITIVE_INFINITY);
  if (!(await insertSession(db, { ...stored, createdAt, expiresAt }))) return undefined;
  background(forgetSessions(db, createdAt - RETENTION_MS));
  const { id, tenant, scopes } = session;
  await recordOf(services, principalOf(session), "session.started");
  return signToken(config, use, { id, keyId: null, tenant, scopes, expiresAt });
}

/** A session that has ended is not looked up again within this: its signed token costs no query for each request. */
const ENDED_MS = 10_000;

/** The session of a token, while it and its key are valid. */
export async function sessionOf(
  { db, config, now, memory: { endedSessions } }: Services,
  use: SessionUse | AgentUse,
  token: string,
): Promise<OpenSession | undefined> {
  const at = now();
  const claims = await readToken(config, use, token, at);
  if (claims === undefined || (endedSessions.get(claims.id) ?? 0) > at) return undefined;
  const session = await findSession(db, claims.id, at);
  if (session === undefined) endedSessions.set(claims.id, at + ENDED_MS);
  return session && (session.portal === null) === (use === "session") ? session : undefined;
}

/** Ends the principal's session on the server: copies of its token are worthless from then on. */
export async function closeSession(services: Services, principal: Principal): Promise<void> {
  await endSession(services.db, principal.session?.id ?? "", services.now());
  await recordOf(services, principal, "session.ended");
}

/**
 * Ends the session that a portal link has opened, by the link's token, or keeps it from opening one. False when the token is
 * not valid, "limited" when it is used too often.
 */
export async function endAccess(services: Services, token: string): Promise<boolean | "limited"> {
  const { config, db, now } = services;
  const claims = await readToken(config, "portal", token, now());
  if (claims === undefined) return false;
  if (await isOverLinkLimit(services, claims)) return "limited";
  const { id, keyId, tenant, scopes, expiresAt } = claims;
  // A link that has opened nothing yet finds its session there, and is refused as one that was used.
  const session = { id, keyId, tenant, scopes, expiresAt, portal: null, createdAt: now() };
  const isUnopened = await insertSession(db, session);
  if (!isUnopened && (await findSession(db, id, now())) === undefined) return true;
  const principal = principalOf({ ...session, keyExpiresAt: null });
  await closeSession(services, { ...principal, session: { at: "portal", id } });
  return true;
}

async function recordOf(
  services: Services,
  principal: Principal,
  action: "session.started" | "session.ended",
): Promise<void> {
  const { session, tenant = null } = principal;
  await record(services, principal, [{ action, subject: session?.id ?? "", tenant, changes: null }]);
}

type SessionRights = Pick<OpenSession, "id" | "keyId" | "keyExpiresAt" | "tenant" | "scopes" | "portal"> &
  Partial<Pick<OpenSession, "keyConfirm">>;

/** The principal of a session's requests: its key, with the key's end, so that nothing that it creates outlives the key. */
export function principalOf(session: SessionRights): Principal {
  const { id, keyId, keyExpiresAt, tenant, scopes, portal, keyConfirm = null } = session;
  return {
    session: { at: portal === null ? "dashboard" : "portal", id },
    scopes: scopes as readonly Scope[],
    ...(keyId !== null && { key: keyId }),
    ...(tenant !== null && { tenant }),
    ...(keyExpiresAt !== null && { expiresAt: keyExpiresAt }),
    ...(keyConfirm !== null && { confirm: true }),
  };
}
