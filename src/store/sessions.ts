/**
 * Who is signed in at the dashboard. Kept, and not only signed into a cookie, so that signing out ends a
 * session wherever its cookie has got to, a revoked key ends all of its sessions at once, and a portal link
 * opens one session and no second one.
 */
import { and, eq, gt, inArray, isNull, lt, or } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import { apiKeys, sessions } from "./schema.ts";

export type Session = typeof sessions.$inferSelect;

/** False when a session of that id has been there before. */
export async function insertSession(db: D1Database, session: Omit<Session, "endedAt">): Promise<boolean> {
  const row = await drizzle(db).insert(sessions).values(session).onConflictDoNothing().returning().get();
  return row !== undefined;
}

/** The session, unless it is over, or the key behind it is. */
export async function findSession(db: D1Database, id: string, now: number): Promise<Session | undefined> {
  const hasLivingKey = or(
    isNull(sessions.keyId),
    and(isNull(apiKeys.revokedAt), or(isNull(apiKeys.expiresAt), gt(apiKeys.expiresAt, now))),
  );
  const isOpen = and(eq(sessions.id, id), isNull(sessions.endedAt), gt(sessions.expiresAt, now));
  const found = await drizzle(db)
    .select({ session: sessions, keyId: apiKeys.id })
    .from(sessions)
    .leftJoin(apiKeys, eq(apiKeys.id, sessions.keyId))
    .where(and(isOpen, hasLivingKey))
    .get();
  const lostItsKey = found?.session.keyId !== found?.keyId;
  return lostItsKey ? undefined : found?.session;
}

export async function endSession(db: D1Database, id: string, now: number): Promise<void> {
  await drizzle(db).update(sessions).set({ endedAt: now }).where(eq(sessions.id, id));
}

/** Sessions forgotten at once: more than a sign-in adds, so that none stay for good. */
const FORGOTTEN = 100;

/** Forgets some of what was over before `before`. No link that opened one of them may still be valid then. */
export async function forgetSessions(db: D1Database, before: number): Promise<void> {
  const { id, expiresAt } = sessions;
  const over = drizzle(db).select({ id }).from(sessions).where(lt(expiresAt, before)).limit(FORGOTTEN);
  await drizzle(db).delete(sessions).where(inArray(id, over));
}
