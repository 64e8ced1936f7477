/**
 * API keys. A revoked key stays as a tombstone, so that its id is never reused; no list shows it. `tenant`, if given,
 * hides the keys of other tenants and those bound to none.
 */
import { and, eq, getTableColumns, gt, isNull, lte, or, sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import { apiKeys } from "../../store/schema.ts";

export type StoredApiKey = typeof apiKeys.$inferSelect;
export type ApiKeyInsert = typeof apiKeys.$inferInsert;

type Tenant = string | undefined;

export async function insertKey(db: D1Database, row: ApiKeyInsert): Promise<StoredApiKey> {
  return drizzle(db).insert(apiKeys).values(row).returning().get();
}

const { name: _, createdAt: __, ...credentialColumns } = getTableColumns(apiKeys);

/** The columns that authenticate requests with a key. */
export type KeyCredentials = Omit<StoredApiKey, "name" | "createdAt">;

/** The revision of all keys at the time of the query: every change of a key gives a higher one. */
const LATEST = sql<number>`(SELECT coalesce(max(revision), 0) FROM key_changes)`;

/** A key by its id, revoked or not, to authenticate a request; and the revision of all keys. */
export async function lookUpKey(db: D1Database, id: string) {
  const found = await drizzle(db)
    .select({ revision: LATEST, key: credentialColumns })
    .from(sql`(SELECT 1)`)
    .leftJoin(apiKeys, eq(apiKeys.id, id))
    .get();
  return found ?? { key: null, revision: 0 };
}

/** Keys in order of id, the revoked ones among them, each with the revision of all keys. */
export async function keysAfter(db: D1Database, after: string, limit: number) {
  return drizzle(db)
    .select({ revision: LATEST, key: credentialColumns })
    .from(apiKeys)
    .where(gt(apiKeys.id, after))
    .orderBy(apiKeys.id)
    .limit(limit);
}

/** The changes of keys after a revision, by any hand, up to `limit` of them; and the revision of all keys. */
export async function keyChangesSince(db: D1Database, revision: number, limit: number) {
  const { results } = await db
    .prepare(KEY_CHANGES)
    .bind(revision, limit)
    .all<{ latest: number; id: string | null; revision: number }>();
  const changes = results.flatMap(({ id, revision: at }) => (id === null ? [] : [{ id, revision: at }]));
  return { latest: results[0]?.latest ?? 0, changes };
}

/** One row without an id where there are none. */
const KEY_CHANGES = `
  SELECT l.latest, c.revision, c.key_id AS id
  FROM (SELECT coalesce(max(revision), 0) AS latest FROM key_changes) l
  LEFT JOIN key_changes c ON c.revision > ?1 ORDER BY c.revision LIMIT ?2`;

export async function findKey(db: D1Database, id: string, tenant: Tenant): Promise<StoredApiKey | undefined> {
  return drizzle(db).select().from(apiKeys).where(unrevoked(id, tenant)).get();
}

type KeyPage = Readonly<{
  tenant: Tenant;
  destination?: string | undefined;
  after: string | undefined;
  limit: number;
}>;

/** In order of id, without the revoked ones. */
export async function listKeys(db: D1Database, { tenant, destination, after, limit }: KeyPage) {
  return drizzle(db)
    .select()
    .from(apiKeys)
    .where(
      and(
        ofTenant(tenant),
        destination === undefined ? undefined : eq(apiKeys.destination, destination),
        after === undefined ? undefined : gt(apiKeys.id, after),
      ),
    )
    .orderBy(apiKeys.id)
    .limit(limit);
}

/**
 * The revoked key; undefined when there was no such key to revoke.
 * @param only where given, a key of this destination that was made there
 */
export async function revokeKey(
  db: D1Database,
  id: string,
  tenant: Tenant,
  now: number,
  only?: Readonly<{ destination: string; madeIn: string }>,
): Promise<StoredApiKey | undefined> {
  const isMeant = only && and(eq(apiKeys.destination, only.destination), eq(apiKeys.madeIn, only.madeIn));
  return drizzle(db)
    .update(apiKeys)
    .set({ revokedAt: now })
    .where(and(unrevoked(id, tenant), isMeant))
    .returning()
    .get();
}

/** Records a use of the keys, of each unless one was recorded after `unlessSince` (epoch ms), perhaps by another isolate. */
export async function writeKeyUses(db: D1Database, ids: readonly string[], now: number, unlessSince: number) {
  const isOld = or(isNull(apiKeys.lastUsedAt), lte(apiKeys.lastUsedAt, unlessSince));
  await drizzle(db)
    .update(apiKeys)
    .set({ lastUsedAt: now })
    .where(and(sql`${apiKeys.id} IN (SELECT value FROM json_each(${JSON.stringify(ids)}))`, isOld));
}

function unrevoked(id: string, tenant: Tenant) {
  return and(eq(apiKeys.id, id), ofTenant(tenant));
}

function ofTenant(tenant: Tenant) {
  return and(isNull(apiKeys.revokedAt), tenant === undefined ? undefined : eq(apiKeys.tenant, tenant));
}
