/** The routes of tenants. */
import type { Api } from "../../http/context.ts";
import { answers, serve } from "../../http/routes.ts";
import { erasureSchema } from "../erasures/schema.ts";
import { erasureView } from "../erasures/service.ts";
import { flagParam, strict } from "../parameters.ts";
import { exportTenant, importResult, importTenant, MOST_IMPORT_BYTES, tenantDocument } from "./config.ts";
import { tenantChange, tenantParam, tenantSchema } from "./schema.ts";
import { changeTenant, getTenant, removeTenant } from "./service.ts";

const common = { tags: ["Tenants"], params: tenantParam };

export function registerTenants(api: Api): void {
  serve(api, "get", "/v1/tenants/{tenant}", getTenant, {
    ...common,
    summary: "Show a tenant's settings",
    responses: answers(200, tenantSchema, "The tenant's settings.", 404),
  });

  serve(api, "patch", "/v1/tenants/{tenant}", changeTenant, {
    ...common,
    summary: "Change a tenant's settings",
    description: "What is left out stays as it is. Not for keys that are bound to a tenant.",
    body: tenantChange,
    input: ({ param: { tenant }, json: change }) => ({ tenant, change }),
    responses: answers(200, tenantSchema, "The tenant's settings, as they are now.", "body", 404, 409),
  });
}

export function registerTenantDeletion(api: Api): void {
  serve(api, "delete", "/v1/tenants/{tenant}", removeTenant, {
    ...common,
    summary: "Delete a tenant with everything",
    description:
      "Its destinations, its application of the Svix API and its settings are deleted, its keys revoked, its sessions ended, " +
      "its portal links invalidated, and all of its events erased. The erasure is the receipt. May be repeated. Not for keys " +
      "that are bound to a tenant.",
    view: erasureView,
    responses: answers(
      202,
      erasureSchema,
      "The tenant is deleted; the erasure of its events begins at once.",
      404,
    ),
  });
}

const headers = { "cache-control": "no-store" };

export function registerTenantConfig(api: Api): void {
  serve(api, "get", "/v1/tenants/{tenant}/export", exportTenant, {
    summary: "Export a tenant's configuration",
    description:
      "Its settings and destinations, as the import takes them; where they are too many for one import, `parts` says how many it " +
      "takes. Secrets are left out, unless a key that is bound to no tenant asks " +
      "for them.",
    ...common,
    query: strict({
      secrets: flagParam.describe("With `true`, secrets are in the document, in plain text."),
    }),
    input: ({ param: { tenant }, query: { secrets } }) => ({ tenant, withSecrets: secrets === "true" }),
    headers,
    responses: answers(200, tenantDocument, "The configuration.", 404, 422),
  });

  serve(api, "post", "/v1/tenants/{tenant}/import", importTenant, {
    summary: "Import a tenant's configuration",
    description:
      "Creates the missing destinations, under their ids, and changes the existing ones; the secret of an existing one, " +
      "and whether it is paused, stay. Others of the tenant are left alone. A document with an error changes nothing. May be " +
      "repeated. Not for keys that are bound to a tenant.",
    ...common,
    query: strict({ dry_run: flagParam.describe("With `true`, nothing is changed.") }),
    body: tenantDocument,
    maxBytes: MOST_IMPORT_BYTES,
    input: ({ param: { tenant }, query, json: document, url: requestUrl }) => ({
      ...{ tenant, document, requestUrl },
      isDryRun: query.dry_run === "true",
    }),
    headers,
    responses: answers(200, importResult, "What was done, or would be.", "body", 404, 409),
  });
}
