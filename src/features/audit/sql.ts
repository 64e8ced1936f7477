/**
 * The audit trail. Its ids ascend in the order of time and contain it: milliseconds since 1970 times 1,024, or one more than
 * the last. So one index serves every list, and a range of time is a range of ids. A trigger refuses to change an entry.
 */
import { and, desc, eq, gte, lt } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import type { Actor, AuditAction, Changes } from "../../core/audit.ts";
import { auditEntries } from "../../store/schema.ts";

export type AuditEntry = typeof auditEntries.$inferSelect;

export type NewAuditEntry = Readonly<{
  /** Null: a change of the deployment, not of a tenant. */
  tenant: string | null;
  action: AuditAction;
  /** The id of the changed object. */
  subject: string;
  /** Null if the action says everything. */
  changes: Changes | null;
}>;

/** The number of ids in a millisecond. */
const PER_MS = 1_024;

/** Raw SQL, because each id follows from those before it, and one statement inserts all entries of a request. */
const INSERT = `
  INSERT INTO audit_entries (id, at, tenant, actor, action, subject, changes)
  SELECT max(?1 * ${PER_MS}, coalesce((SELECT max(id) FROM audit_entries), 0) + 1) + e.key, ?1,
    e.value ->> 'tenant', ?2, e.value ->> 'action', e.value ->> 'subject', e.value -> 'changes'
  FROM json_each(?3) e`;

/** @param now epoch ms */
export async function insertAuditEntries(
  db: D1Database,
  actor: Actor,
  entries: readonly NewAuditEntry[],
  now: number,
): Promise<void> {
  await db.prepare(INSERT).bind(now, JSON.stringify(actor), JSON.stringify(entries)).run();
}

export type AuditFilter = Readonly<{
  /** Hides the entries of other tenants, and of the deployment. */
  tenant?: string | undefined;
  subject?: string | undefined;
  /** Epoch ms: at this time or later, and before. */
  since?: number | undefined;
  until?: number | undefined;
  /** The id of the last entry of the page before. */
  before?: number | undefined;
  limit: number;
}>;

/** The newest first. */
export async function listAuditEntries(db: D1Database, filter: AuditFilter): Promise<AuditEntry[]> {
  const { tenant, subject, since, until, before, limit } = filter;
  const { id } = auditEntries;
  const below = [before, until && until * PER_MS].filter((bound) => bound !== undefined);
  return drizzle(db)
    .select()
    .from(auditEntries)
    .where(
      and(
        subject === undefined ? undefined : eq(auditEntries.subject, subject),
        tenant === undefined ? undefined : eq(auditEntries.tenant, tenant),
        since === undefined ? undefined : gte(id, since * PER_MS),
        below.length === 0 ? undefined : lt(id, Math.min(...below)),
      ),
    )
    .orderBy(desc(id))
    .limit(limit);
}

/** Entries removed at once: more than a minute adds. */
const FORGOTTEN = 1_000;

const FORGET = `
  DELETE FROM audit_entries WHERE id IN (SELECT id FROM audit_entries WHERE id < ?1 ORDER BY id LIMIT ${FORGOTTEN})`;

/** Removes the oldest entries of those from before this time, epoch ms. Reads one row if there are none. */
export async function forgetAuditEntries(db: D1Database, before: number): Promise<void> {
  await db
    .prepare(FORGET)
    .bind(before * PER_MS)
    .run();
}
