/**
 * API keys. A revoked one stays as a tombstone, so that its id is never given again; no list shows it.
 * `tenant`, where given, hides the keys of others and those bound to none.
 */
import { and, eq, gt, isNull, lte, or } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import { apiKeys } from "./schema.ts";

export type StoredKey = typeof apiKeys.$inferSelect;
export type NewKey = typeof apiKeys.$inferInsert;

type Tenant = string | undefined;

export async function insertKey(db: D1Database, row: NewKey): Promise<StoredKey> {
  return drizzle(db).insert(apiKeys).values(row).returning().get();
}

/** A key by its id, revoked or not: for whoever checks one. */
export async function lookUpKey(db: D1Database, id: string): Promise<StoredKey | undefined> {
  return drizzle(db).select().from(apiKeys).where(eq(apiKeys.id, id)).get();
}

export async function findKey(db: D1Database, id: string, tenant: Tenant): Promise<StoredKey | undefined> {
  return drizzle(db).select().from(apiKeys).where(standing(id, tenant)).get();
}

/** In order of id, without the revoked ones. */
export async function listKeys(
  db: D1Database,
  { tenant, after, limit }: { tenant: Tenant; after: string | undefined; limit: number },
): Promise<StoredKey[]> {
  return drizzle(db)
    .select()
    .from(apiKeys)
    .where(and(ofTenant(tenant), after === undefined ? undefined : gt(apiKeys.id, after)))
    .orderBy(apiKeys.id)
    .limit(limit);
}

/** Whether there was such a key to revoke. */
export async function revokeKey(db: D1Database, id: string, tenant: Tenant, now: number): Promise<boolean> {
  const revoked = await drizzle(db)
    .update(apiKeys)
    .set({ revokedAt: now })
    .where(standing(id, tenant))
    .returning({ id: apiKeys.id })
    .get();
  return revoked !== undefined;
}

/** Writes a use down, unless one was written since `unlessSince` (epoch ms): by another isolate, say. */
export async function writeKeyUse(
  db: D1Database,
  id: string,
  now: number,
  unlessSince: number,
): Promise<void> {
  const isOld = or(isNull(apiKeys.lastUsedAt), lte(apiKeys.lastUsedAt, unlessSince));
  await drizzle(db)
    .update(apiKeys)
    .set({ lastUsedAt: now })
    .where(and(eq(apiKeys.id, id), isOld));
}

function standing(id: string, tenant: Tenant) {
  return and(eq(apiKeys.id, id), ofTenant(tenant));
}

function ofTenant(tenant: Tenant) {
  return and(isNull(apiKeys.revokedAt), tenant === undefined ? undefined : eq(apiKeys.tenant, tenant));
}
