/**
 * Tenants. One comes into being when something names it, so every valid name is a tenant. Settings of a tenant are read
 * by principals of that tenant too, and changed only by the operator's.
 */
import { changesBetween } from "../../core/audit.ts";
import { tenantPortalShape } from "../../core/portal-access.ts";
import { brandingIn } from "../../core/portal-branding.ts";
import { type Principal, refuseBound, tenantFor } from "../../core/principal.ts";
import { type FieldError, invalidFields, missing, ok } from "../../core/result.ts";
import { wholeDays } from "../../core/retention.ts";
import { readAs } from "../../core/shape.ts";
import type { Services } from "../../services.ts";
import { isoTime } from "../../time.ts";
import { refuseApplicationsName } from "../applications/service.ts";
import { deleteTenant } from "../erasures/job.ts";
import { tenantName } from "../parameters.ts";
import { retentionErrors } from "../retention/field.ts";
import { service } from "../service.ts";
import { contactEmail, type TenantChange, type TenantView } from "./schema.ts";
import { changeTenantSettings, findTenantSettings, listTenants, type TenantSettings } from "./settings.ts";

const operators = "what is set for a tenant belongs to the operator";

/** The names of the tenants that have, or have had, a destination; in order, after a name. */
export const getTenants = service(
  { scope: "read", operators },
  async ({ services }, page: Parameters<typeof listTenants>[1]) => ok(await listTenants(services.db, page)),
);

/** A tenant's settings. */
export const getTenant = service({ scope: "read" }, async ({ services, principal }, tenant: string) => {
  if (!isVisible(principal, tenant)) return missing("tenant", tenant);
  return ok(settingsView(tenant, await findTenantSettings(services.db, tenant)));
});

/** Changes the fields of the input; the others stay. */
export const changeTenant = service(
  { scope: "admin", role: "configure" },
  async (
    { services, principal, changed },
    { tenant, change }: Readonly<{ tenant: string; change: TenantChange }>,
  ) => {
    const refusal = refuseOthers(principal, tenant);
    if (refusal) return refusal;
    const errors = settingsErrors(services, change);
    if (errors.length > 0) return invalidFields(errors);
    const namesake = await refuseApplicationsName(services, principal, tenant);
    if (namesake) return namesake;
    const before = settingsView(tenant, await findTenantSettings(services.db, tenant));
    const view = await setSettings(services, tenant, change);
    changed("tenant.changed", { id: tenant, tenant }, changesBetween(before, view));
    return ok(view);
  },
);

/** Deletes a tenant with everything. Returns the erasure of its events, the receipt; may be repeated. */
export const removeTenant = service(
  { scope: "admin" },
  async ({ services, principal, changed }, tenant: string) => {
    const refusal = refuseOthers(principal, tenant);
    if (refusal) return refusal;
    const erasure = await deleteTenant(services, tenant);
    changed("tenant.deleted", { id: tenant, tenant });
    return ok(erasure);
  },
);

/** Refused where the tenant is not visible, or the principal is not the operator's. */
export function refuseOthers(principal: Principal, tenant: string) {
  if (!isVisible(principal, tenant)) return missing("tenant", tenant);
  return refuseTenantsOwn(principal);
}

export function refuseTenantsOwn(principal: Principal) {
  return refuseBound(principal, operators);
}

/** The errors of settings that the deployment does not allow. */
export function settingsErrors({ config }: Services, { retention_days: days }: TenantChange): FieldError[] {
  return retentionErrors(days, config);
}

/** Sets the fields of the input, and shows the settings afterwards. */
export async function setSettings(
  { db, now }: Services,
  tenant: string,
  { contact_email, retention_days, payload_free, functions, portal, branding }: TenantChange,
) {
  const change = {
    ...(contact_email !== undefined && { contactEmail: contact_email }),
    ...(retention_days !== undefined && { retentionDays: retention_days }),
    ...(payload_free !== undefined && { payloadFree: payload_free ? 1 : 0 }),
    ...(functions !== undefined && { functionsOff: functions ? 0 : 1 }),
    ...(portal !== undefined && { portal }),
    ...(branding !== undefined && { branding }),
  };
  return settingsView(tenant, await changeTenantSettings(db, tenant, change, now()));
}

/** Whether the caller may see the tenant; an invalid name is visible to none. */
export function isVisible(principal: Principal, tenant: string): boolean {
  return tenantName.safeParse(tenant).success && tenantFor(principal, tenant) !== undefined;
}

export function settingsView(tenant: string, row: TenantSettings | undefined): TenantView {
  return {
    tenant,
    contact_email: contactEmail.safeParse(row?.contactEmail).data ?? null,
    retention_days: wholeDays(row?.retentionDays),
    payload_free: row?.payloadFree === 1,
    functions: row?.functionsOff !== 1,
    portal: readAs(tenantPortalShape, row?.portal) ?? null,
    branding: brandingIn(row?.branding),
    updated_at: isoTime(row?.updatedAt ?? null),
  };
}
