/** Tenants' settings, made by an operator. A tenant without a row has the deployment's settings. */
import { eq, gt } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import { tenantSettings, tenants } from "../../store/schema.ts";

export type TenantSettings = typeof tenantSettings.$inferSelect;

export async function findTenantSettings(db: D1Database, tenant: string) {
  return drizzle(db).select().from(tenantSettings).where(eq(tenantSettings.tenant, tenant)).get();
}

/** Sets the given fields, in one statement, so that two changes of different fields at the same moment both count. */
export async function changeTenantSettings(
  db: D1Database,
  tenant: string,
  change: Partial<Omit<TenantSettings, "tenant" | "deletedAt" | "createdAt" | "updatedAt">>,
  now: number,
): Promise<TenantSettings> {
  return drizzle(db)
    .insert(tenantSettings)
    .values({ ...change, tenant, createdAt: now, updatedAt: now })
    .onConflictDoUpdate({ target: tenantSettings.tenant, set: { ...change, updatedAt: now } })
    .returning()
    .get();
}

/** The names of the tenants that have, or have had, a destination; in order, after a name. */
export async function listTenants(
  db: D1Database,
  { after = "", limit }: Readonly<{ after: string | undefined; limit: number }>,
): Promise<string[]> {
  const rows = await drizzle(db)
    .select({ id: tenants.id })
    .from(tenants)
    .where(gt(tenants.id, after))
    .orderBy(tenants.id)
    .limit(limit);
  return rows.map(({ id }) => id);
}
