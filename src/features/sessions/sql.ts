/**
 * Sessions at the dashboard and the portal. They are stored, and not only signed into a cookie, so that signing out
 * also ends copies of the session's cookie, revoking a key ends all of its sessions at once, and a portal link opens
 * one session and no second one.
 */
import { and, eq, gt, inArray, isNull, lt, or } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import { apiKeys, sessions } from "../../store/schema.ts";

export type Session = typeof sessions.$inferSelect;

/** False when there was a session of that id before. */
export async function insertSession(db: D1Database, session: Omit<Session, "endedAt">): Promise<boolean> {
  const row = await drizzle(db).insert(sessions).values(session).onConflictDoNothing().returning().get();
  return row !== undefined;
}

/**
 * A session that has not ended, with when its key does: epoch ms, or null where it has none or the key does not expire. And
 * `confirm` of its key.
 */
export type OpenSession = Session & Readonly<{ keyExpiresAt: number | null; keyConfirm: string | null }>;

/** The session, unless it or its key has ended. */
export async function findSession(db: D1Database, id: string, now: number): Promise<OpenSession | undefined> {
  const hasValidKey = or(
    isNull(sessions.keyId),
    and(isNull(apiKeys.revokedAt), or(isNull(apiKeys.expiresAt), gt(apiKeys.expiresAt, now))),
  );
  const isOpen = and(eq(sessions.id, id), isNull(sessions.endedAt), gt(sessions.expiresAt, now));
  const found = await drizzle(db)
    .select({
      session: sessions,
      keyId: apiKeys.id,
      keyExpiresAt: apiKeys.expiresAt,
      keyConfirm: apiKeys.confirm,
    })
    .from(sessions)
    .leftJoin(apiKeys, eq(apiKeys.id, sessions.keyId))
    .where(and(isOpen, hasValidKey))
    .get();
  if (found === undefined || found.session.keyId !== found.keyId) return undefined;
  const { session, keyExpiresAt, keyConfirm } = found;
  return { ...session, keyExpiresAt, keyConfirm };
}

export async function endSession(db: D1Database, id: string, now: number): Promise<void> {
  await drizzle(db).update(sessions).set({ endedAt: now }).where(eq(sessions.id, id));
}

/** Replaces what a session of the portal says about its visit. */
export async function replacePortalVisit(db: D1Database, id: string, portal: Session["portal"]) {
  await drizzle(db).update(sessions).set({ portal }).where(eq(sessions.id, id));
}

/** Sessions removed at once: more than a sign-in adds, so that all are removed in the end. */
const FORGOTTEN = 100;

/**
 * Removes some of the sessions that expired before `before`. No link that opened one of them may be valid any more: it
 * could be used again.
 */
export async function forgetSessions(db: D1Database, before: number): Promise<void> {
  const { id, expiresAt } = sessions;
  const over = drizzle(db).select({ id }).from(sessions).where(lt(expiresAt, before)).limit(FORGOTTEN);
  await drizzle(db).delete(sessions).where(inArray(id, over));
}
