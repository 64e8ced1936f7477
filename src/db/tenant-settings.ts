/** What an operator has set for tenants. A tenant without a row has the deployment's settings. */
import { eq } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import { tenantSettings } from "./schema.ts";

export type TenantSettings = typeof tenantSettings.$inferSelect;

/** What a change may set; what is left out stays as it is. */
export type TenantSettingsChange = Partial<
  Omit<TenantSettings, "tenant" | "deletedAt" | "createdAt" | "updatedAt">
>;

export async function findTenantSettings(
  db: D1Database,
  tenant: string,
): Promise<TenantSettings | undefined> {
  return drizzle(db).select().from(tenantSettings).where(eq(tenantSettings.tenant, tenant)).get();
}

/** Sets the given fields, in one statement, so that two changes of different fields at the same moment both count. */
export async function changeTenantSettings(
  db: D1Database,
  tenant: string,
  change: TenantSettingsChange,
  now: number,
): Promise<TenantSettings> {
  return drizzle(db)
    .insert(tenantSettings)
    .values({ ...change, tenant, createdAt: now, updatedAt: now })
    .onConflictDoUpdate({ target: tenantSettings.tenant, set: { ...change, updatedAt: now } })
    .returning()
    .get();
}
