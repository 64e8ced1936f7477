/**
 * Tenants. One comes into being when something names it, so every valid name is a tenant. What an operator has set for one
 * is read by the keys of that tenant too, and changed by the operator's alone.
 */

import { createRoute, z } from "@hono/zod-openapi";
import { changesBetween } from "../../core/audit.ts";
import { tenantPortal } from "../../core/portal-access.ts";
import { portalBranding } from "../../core/portal-branding.ts";
import { type Principal, tenantFor } from "../../core/principal.ts";
import type { FieldError } from "../../core/result.ts";
import { wholeDays } from "../../core/retention.ts";
import { requires } from "../../http/auth.ts";
import type { Api } from "../../http/context.ts";
import { jsonBody } from "../../http/json-body.ts";
import { jsonAnswer, jsonRequest, strict, tenantName } from "../../http/parameters.ts";
import { invalid, notFound, problem, problemResponses } from "../../http/problems.ts";
import type { Services } from "../../services.ts";
import { isoTime } from "../../time.ts";
import { changed } from "../audit/routes.ts";
import { deleteTenant } from "../erasures/job.ts";
import { erasureSchema, erasureView } from "../erasures/routes.ts";
import { retentionDaysField, retentionErrors } from "../retention/field.ts";
import { changeTenantSettings, findTenantSettings, type TenantSettings } from "./settings.ts";

export function registerTenants(api: Api): void {
  api.openapi(getTenant, async (c) => {
    const { tenant } = c.req.valid("param");
    if (!isVisible(c.get("principal"), tenant)) return notFound("tenant", tenant);
    return c.json(settingsView(tenant, await findTenantSettings(c.get("services").db, tenant)), 200);
  });

  api.openapi(patchTenant, async (c) => {
    const { tenant } = c.req.valid("param");
    const principal = c.get("principal");
    if (!isVisible(principal, tenant)) return notFound("tenant", tenant);
    if (principal.tenant !== undefined) return problem(403, NOT_THE_OPERATOR);
    const input = c.req.valid("json");
    const services = c.get("services");
    const errors = settingsErrors(services, input);
    if (errors.length > 0) return invalid(errors);
    const before = settingsView(tenant, await findTenantSettings(services.db, tenant));
    const view = await setSettings(services, tenant, input);
    changed(c, "tenant.changed", { id: tenant, tenant }, changesBetween(before, view));
    return c.json(view, 200);
  });
}

export function registerTenantDeletion(api: Api): void {
  api.openapi(removeTenant, async (c) => {
    const { tenant } = c.req.valid("param");
    const principal = c.get("principal");
    if (!isVisible(principal, tenant)) return notFound("tenant", tenant);
    if (principal.tenant !== undefined) return problem(403, NOT_THE_OPERATOR);
    const erasure = await deleteTenant(c.get("services"), tenant);
    changed(c, "tenant.deleted", { id: tenant, tenant });
    return c.json(erasureView(erasure), 202);
  });
}

export const NOT_THE_OPERATOR =
  "The key is bound to a tenant, and what is set for a tenant belongs to the operator";

const EMAIL_EXPECTED = "expected a mail address of at most 254 characters, such as ops@example.com, or null";

const contactEmail = z
  .string({ error: EMAIL_EXPECTED })
  .max(254, { error: EMAIL_EXPECTED, abort: true })
  .regex(/^[\w.!#$%&'*+/=?^`{|}~-]{1,64}@[A-Za-z0-9.-]{1,189}$/, { error: EMAIL_EXPECTED })
  .nullable()
  .openapi({
    example: "ops@acme.example",
    description: "Who is told about the tenant's own destinations by mail; null: nobody.",
  });

const payloadFree = z.boolean({ error: "expected true or false" }).openapi({
  description: "With true, the content of an event is erased once all of its deliveries have been delivered.",
});

// Clones have `.openapi`: the schemas of core are made before the library that adds it is loaded.
const portal = tenantPortal
  .clone()
  .openapi("TenantPortal")
  .nullable()
  .openapi({
    description:
      "What visitors of its portal may do and up to which limits, and its language and theme; replaced as a whole. Null: " +
      "nothing is restricted.",
  });

const branding = portalBranding.clone().openapi("PortalBranding").nullable().openapi({
  description: "The name, logo and colour of its portal; replaced as a whole. Null: those of the deployment.",
});

export const tenantChange = strict({
  contact_email: contactEmail.optional(),
  retention_days: retentionDaysField.optional(),
  payload_free: payloadFree.optional(),
  portal: portal.optional(),
  branding: branding.optional(),
}).openapi("TenantChange");

const tenantSchema = z
  .object({
    tenant: z.string().openapi({ example: "acme" }),
    contact_email: contactEmail,
    retention_days: retentionDaysField,
    payload_free: payloadFree,
    portal,
    branding,
    updated_at: z.iso
      .datetime()
      .nullable()
      .openapi({ description: "Null while nothing has been set for the tenant." }),
  })
  .openapi("Tenant");

/** A name that no tenant can have is the handlers' 404. */
export const tenantParam = z.object({
  tenant: z.string().openapi({ description: "The tenant's name.", example: "acme" }),
});

const common = { tags: ["Tenants"], path: "/v1/tenants/{tenant}" as const };

const getTenant = createRoute({
  ...common,
  method: "get",
  summary: "Show what is set for a tenant",
  middleware: [requires("read")],
  request: { params: tenantParam },
  responses: {
    200: jsonAnswer(tenantSchema, "The tenant's settings."),
    ...problemResponses(401, 403, 404, 429),
  },
});

const patchTenant = createRoute({
  ...common,
  method: "patch",
  summary: "Change what is set for a tenant",
  description: "What is left out stays as it is. Not for keys that are bound to a tenant.",
  middleware: [requires("admin"), jsonBody()],
  request: { params: tenantParam, body: jsonRequest(tenantChange) },
  responses: {
    200: jsonAnswer(tenantSchema, "The tenant's settings, as they are now."),
    ...problemResponses(400, 401, 403, 404, 413, 415, 422),
  },
});

const removeTenant = createRoute({
  ...common,
  method: "delete",
  summary: "Delete a tenant with everything",
  description:
    "Its destinations, its application of the Svix API and its settings are deleted, its keys revoked, its sessions ended, " +
    "its portal links worthless, and all of its events erased. The erasure is the receipt. May be repeated. Not for keys " +
    "that are bound to a tenant.",
  middleware: [requires("admin")],
  request: { params: tenantParam },
  responses: {
    202: jsonAnswer(erasureSchema, "The tenant is deleted; the erasure of its events begins at once."),
    ...problemResponses(401, 403, 404),
  },
});

type TenantChange = z.infer<typeof tenantChange>;

/** The errors of settings that the deployment does not allow. */
export function settingsErrors({ config }: Services, { retention_days: days }: TenantChange): FieldError[] {
  return retentionErrors(days, config);
}

/** Sets what the input has, and shows the settings as they are then. */
export async function setSettings(
  { db, now }: Services,
  tenant: string,
  { contact_email, retention_days, payload_free, portal, branding }: TenantChange,
) {
  const change = {
    ...(contact_email !== undefined && { contactEmail: contact_email }),
    ...(retention_days !== undefined && { retentionDays: retention_days }),
    ...(payload_free !== undefined && { payloadFree: payload_free ? 1 : 0 }),
    ...(portal !== undefined && { portal }),
    ...(branding !== undefined && { branding }),
  };
  return settingsView(tenant, await changeTenantSettings(db, tenant, change, now()));
}

/** Whether the caller may see the tenant; what is no name of a tenant nobody sees. */
export function isVisible(principal: Principal, tenant: string): boolean {
  return tenantName.safeParse(tenant).success && tenantFor(principal, tenant) !== undefined;
}

export function settingsView(tenant: string, row: TenantSettings | undefined): z.infer<typeof tenantSchema> {
  return {
    tenant,
    contact_email: contactEmail.safeParse(row?.contactEmail).data ?? null,
    retention_days: wholeDays(row?.retentionDays),
    payload_free: row?.payloadFree === 1,
    portal: tenantPortal.safeParse(row?.portal).data ?? null,
    branding: portalBranding.safeParse(row?.branding).data ?? null,
    updated_at: isoTime(row?.updatedAt ?? null),
  };
}
