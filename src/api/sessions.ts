/**
 * Sessions of pages. One is stored, and its signed token is in a cookie: every request looks up whether the session and
 * the key behind it are still valid. A token of the dashboard is none of the portal, and the other way round.
 */
import { findSession, forgetSessions, insertSession, type Session } from "../db/auth.ts";
import type { Services } from "../services.ts";
import { readToken, signToken } from "./auth.ts";
import type { Principal, Scope } from "./context.ts";

type SessionUse = "session" | "portal_session";

const HOUR_MS = 60 * 60_000;
const SESSION_MS = 12 * HOUR_MS;
/** The life of a session's cookie, in seconds. */
export const SESSION_S = SESSION_MS / 1000;
/** How long a used portal link is remembered: longer than any link is valid. */
const RETENTION_MS = 30 * 24 * HOUR_MS;

type NewSession = Pick<Session, "id" | "keyId" | "tenant" | "portal"> &
  Readonly<{ scopes: readonly Scope[] }>;

/** Opens a session and makes its token; undefined when its id has opened a session before. */
export async function openSession(
  { db, config, now, background }: Services,
  use: SessionUse,
  session: NewSession,
): Promise<string | undefined> {
  const createdAt = now();
  const expiresAt = createdAt + SESSION_MS;
  if (!(await insertSession(db, { ...session, createdAt, expiresAt }))) return undefined;
  background(forgetSessions(db, createdAt - RETENTION_MS));
  const { id, keyId, tenant, scopes } = session;
  return signToken(config, use, { id, keyId, tenant, scopes, expiresAt });
}

/** The session of a token, while it and its key are valid. */
export async function sessionOf(
  { db, config, now }: Services,
  use: SessionUse,
  token: string,
): Promise<Session | undefined> {
  const at = now();
  const claims = await readToken(config, use, token, at);
  const session = claims && (await findSession(db, claims.id, at));
  return session && (session.portal === null) === (use === "session") ? session : undefined;
}

export function principalOf({ keyId, tenant, scopes }: Session): Principal {
  return {
    scopes: scopes as readonly Scope[],
    ...(keyId !== null && { key: keyId }),
    ...(tenant !== null && { tenant }),
  };
}
