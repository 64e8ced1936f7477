/** Agents' requests: stored, found, decided once, and removed a month later. */
import { and, desc, eq, gt, inArray, isNull, lt, type SQL, sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import type { Principal } from "../../core/principal.ts";
import { agentActions } from "../../store/schema.ts";

export type AgentAction = typeof agentActions.$inferSelect;

type Seen = Pick<Principal, "tenant" | "visit" | "session">;

/**
 * The actions that the principal sees: for visitors of the portal those that their visit's agents have requested, for others
 * all of their tenant.
 */
function seenBy({ tenant, visit, session }: Seen): SQL | undefined {
  return and(
    tenant === undefined ? undefined : eq(agentActions.tenant, tenant),
    visit && eq(agentActions.sessionId, session?.id ?? ""),
  );
}

/** Whether a person can still decide. @param now epoch ms */
function isPending(now: number): SQL | undefined {
  // Literally as in the index: with a parameter the index would not be used.
  return and(sql`state = 'pending'`, gt(agentActions.expiresAt, now));
}

/** The undecided actions of a tenant, or of agents that are bound to none; at most `limit`. */
export async function pendingActions(db: D1Database, tenant: string | null, now: number, limit: number) {
  const of = tenant === null ? isNull(agentActions.tenant) : eq(agentActions.tenant, tenant);
  return drizzle(db)
    .select()
    .from(agentActions)
    .where(and(of, isPending(now)))
    .limit(limit);
}

export async function insertAction(db: D1Database, row: typeof agentActions.$inferInsert) {
  return drizzle(db).insert(agentActions).values(row).returning().get();
}

export async function findAction(db: D1Database, id: string, seen: Seen): Promise<AgentAction | undefined> {
  return drizzle(db)
    .select()
    .from(agentActions)
    .where(and(eq(agentActions.id, id), seenBy(seen)))
    .get();
}

/** The newest first. */
export async function listActions(db: D1Database, seen: Seen, limit: number): Promise<AgentAction[]> {
  return drizzle(db)
    .select()
    .from(agentActions)
    .where(seenBy(seen))
    .orderBy(desc(agentActions.createdAt))
    .limit(limit);
}

/** Decides a pending action, once; undefined if it is decided or has expired. */
export async function decideOnce(db: D1Database, id: string, state: "approved" | "refused", now: number) {
  return drizzle(db)
    .update(agentActions)
    .set({ state, decidedAt: now })
    .where(and(eq(agentActions.id, id), isPending(now)))
    .returning()
    .get();
}

/** Stores the answer of an approved action's tool. */
export async function storeOutcome(db: D1Database, id: string, state: "done" | "failed", outcome: string) {
  await drizzle(db).update(agentActions).set({ state, outcome }).where(eq(agentActions.id, id));
}

/** Actions removed at once: more than a request adds. */
const FORGOTTEN = 20;

export async function forgetActions(db: D1Database, before: number): Promise<void> {
  const { id, createdAt } = agentActions;
  const old = drizzle(db).select({ id }).from(agentActions).where(lt(createdAt, before)).limit(FORGOTTEN);
  await drizzle(db).delete(agentActions).where(inArray(id, old));
}
