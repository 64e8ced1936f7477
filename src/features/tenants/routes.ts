/** The routes of tenants. */
import { createRoute, z } from "@hono/zod-openapi";
import { mapOk } from "../../core/result.ts";
import { permitting } from "../../http/auth.ts";
import { type Api, callerIn } from "../../http/context.ts";
import { jsonBody } from "../../http/json-body.ts";
import { answerOf } from "../../http/problems.ts";
import { answers, jsonRequest, reply, routeTo } from "../../http/routes.ts";
import { erasureSchema } from "../erasures/schema.ts";
import { erasureView } from "../erasures/service.ts";
import { strict } from "../parameters.ts";
import { exportTenant, importResult, importTenant, MOST_IMPORT_BYTES, tenantDocument } from "./config.ts";
import { tenantChange, tenantParam, tenantSchema } from "./schema.ts";
import { changeTenant, getTenant, removeTenant } from "./service.ts";

export function registerTenants(api: Api): void {
  api.openapi(showTenant, async (c) => reply(c, await getTenant(callerIn(c), c.req.valid("param").tenant)));

  api.openapi(patchTenant, async (c) => {
    const input = { tenant: c.req.valid("param").tenant, change: c.req.valid("json") };
    return reply(c, await changeTenant(callerIn(c), input));
  });
}

export function registerTenantDeletion(api: Api): void {
  api.openapi(deleteRoute, async (c) =>
    reply(c, mapOk(await removeTenant(callerIn(c), c.req.valid("param").tenant), erasureView), 202),
  );
}

const common = { tags: ["Tenants"], path: "/v1/tenants/{tenant}" as const };

const showTenant = createRoute({
  ...common,
  method: "get",
  summary: "Show what is set for a tenant",
  middleware: [permitting(getTenant.permission)],
  request: { params: tenantParam },
  responses: answers(200, tenantSchema, "The tenant's settings.", 404),
});

const patchTenant = createRoute({
  ...common,
  method: "patch",
  summary: "Change what is set for a tenant",
  description: "What is left out stays as it is. Not for keys that are bound to a tenant.",
  middleware: [permitting(changeTenant.permission), jsonBody()],
  request: { params: tenantParam, body: jsonRequest(tenantChange) },
  responses: answers(200, tenantSchema, "The tenant's settings, as they are now.", "body", 404, 409),
});

const deleteRoute = createRoute({
  ...common,
  method: "delete",
  summary: "Delete a tenant with everything",
  description:
    "Its destinations, its application of the Svix API and its settings are deleted, its keys revoked, its sessions ended, " +
    "its portal links worthless, and all of its events erased. The erasure is the receipt. May be repeated. Not for keys " +
    "that are bound to a tenant.",
  middleware: [permitting(removeTenant.permission)],
  request: { params: tenantParam },
  responses: answers(
    202,
    erasureSchema,
    "The tenant is deleted; the erasure of its events begins at once.",
    404,
  ),
});

export function registerTenantConfig(api: Api): void {
  api.openapi(exportRoute, async (c) => {
    const input = {
      tenant: c.req.valid("param").tenant,
      withSecrets: c.req.valid("query").secrets === "true",
    };
    const exported = await exportTenant(callerIn(c), input);
    if (exported.kind !== "ok") return answerOf(exported);
    return c.json(exported.value, 200, { "cache-control": "no-store" });
  });

  api.openapi(importRoute, async (c) => {
    const imported = await importTenant(callerIn(c), {
      tenant: c.req.valid("param").tenant,
      document: c.req.valid("json"),
      isDryRun: c.req.valid("query").dry_run === "true",
      requestUrl: c.req.url,
    });
    if (imported.kind !== "ok") return answerOf(imported);
    return c.json(imported.value, 200, { "cache-control": "no-store" });
  });
}

const flag = z.enum(["true", "false"], { error: "expected true or false" }).optional();

const exportRoute = createRoute({
  ...routeTo("get", "/v1/tenants/{tenant}/export", exportTenant),
  summary: "Export a tenant's configuration",
  description:
    "Its settings and destinations, as the import takes them; where they are too many for one import, `parts` says how many it " +
    "takes. Secrets are left out, unless a key that is bound to no tenant asks " +
    "for them.",
  tags: ["Tenants"],
  request: {
    params: tenantParam,
    query: strict({
      secrets: flag.describe("With `true`, secrets are in the document, in plain text."),
    }),
  },
  responses: answers(200, tenantDocument, "The configuration.", 404, 422),
});

const importRoute = createRoute({
  ...routeTo("post", "/v1/tenants/{tenant}/import", importTenant, jsonBody({ maxBytes: MOST_IMPORT_BYTES })),
  summary: "Import a tenant's configuration",
  description:
    "Creates the destinations that there are not, under their ids, and changes those that there are; the secret of an existing one, " +
    "and whether it is paused, stay. Others of the tenant are left alone. A document with an error changes nothing. May be " +
    "repeated.",
  tags: ["Tenants"],
  request: {
    params: tenantParam,
    query: strict({ dry_run: flag.describe("With `true`, nothing is changed.") }),
    body: jsonRequest(tenantDocument),
  },
  responses: answers(200, importResult, "What was done, or would be.", "body", 404, 409),
});
