/**
 * API keys. An admin key that is bound to a tenant manages the keys of that tenant only: those
 * without a tenant are the operator's, and it does not see them.
 */
import { createRoute, z } from "@hono/zod-openapi";
import { changesBetween } from "../../core/audit.ts";
import { scopes } from "../../core/scopes.ts";
import { newKey, refuseScopes, refuseTenant, requires } from "../../http/auth.ts";
import type { Api } from "../../http/context.ts";
import { jsonBody } from "../../http/json-body.ts";
import {
  cursorParam,
  idParam,
  jsonAnswer,
  jsonRequest,
  limitParam,
  pageFrom,
  pageOf,
  strict,
  tenantName,
} from "../../http/parameters.ts";
import { answerOf, type FieldError, invalid, notFound, problemResponses } from "../../http/problems.ts";
import { idPatterns } from "../../ids.ts";
import { isoTime } from "../../time.ts";
import { changed } from "../audit/routes.ts";
import { findKey, insertKey, listKeys, revokeKey, type StoredKey } from "./sql.ts";

export function registerKeys(api: Api): void {
  api.openapi(createKey, async (c) => {
    const [{ db, now }, principal, input] = [c.get("services"), c.get("principal"), c.req.valid("json")];
    const tenant = principal.tenant ?? input.tenant ?? null;
    const unbound = refuseTenant(principal, input.tenant);
    if (unbound) return answerOf(unbound);
    const refusal = refuseScopes(principal, input.scopes, "scopes");
    if (refusal) return refusal;
    const expiresAt = input.expires_at ? Date.parse(input.expires_at) : (principal.expiresAt ?? null);
    const errors = expiryErrors(expiresAt, principal.expiresAt, now());
    if (errors.length > 0) return invalid(errors);
    const { id, token, hash } = await newKey();
    const row = { id, name: input.name, tenant, scopes: input.scopes, hash, createdAt: now(), expiresAt };
    const view = keyView(await insertKey(db, row));
    changed(
      c,
      "api_key.created",
      view,
      changesBetween({}, { scopes: view.scopes, expires_at: view.expires_at }),
    );
    return c.json({ ...view, key: token }, 201);
  });

  api.openapi(getKeys, async (c) => {
    const { tenant: named, limit, cursor: after } = c.req.valid("query");
    const { tenant = named } = c.get("principal");
    const refusal = refuseTenant(c.get("principal"), named);
    if (refusal) return answerOf(refusal);
    const rows = await listKeys(c.get("services").db, { tenant, after, limit: limit + 1 });
    return c.json(
      pageFrom(rows.map(keyView), limit, ({ id }) => id),
      200,
    );
  });

  api.openapi(getKey, async (c) => {
    const { id } = c.req.valid("param");
    const row = await findKey(c.get("services").db, id, c.get("principal").tenant);
    return row ? c.json(keyView(row), 200) : notFound("API key", id);
  });

  api.openapi(deleteKey, async (c) => {
    const { id } = c.req.valid("param");
    const { db, now } = c.get("services");
    const revoked = await revokeKey(db, id, c.get("principal").tenant, now());
    if (revoked === undefined) return notFound("API key", id);
    changed(c, "api_key.revoked", revoked);
    return c.body(null, 204);
  });
}

const NAME_EXPECTED = "expected a string of at most 100 characters";
const SCOPES_EXPECTED = `expected a list of one or more of ${scopes.join(", ")}, each once`;
const FUTURE_TIME = "a time in the future, as in 2027-01-31T00:00:00Z";

const time = z.iso.datetime();

const scopeList = z
  .array(z.enum(scopes, { error: SCOPES_EXPECTED }), { error: SCOPES_EXPECTED })
  .min(1, { error: SCOPES_EXPECTED })
  .refine((given) => new Set(given).size === given.length, { error: SCOPES_EXPECTED })
  .openapi({
    example: ["events:write"],
    description:
      "What the key may do. `events:write`: post events; `read`: read everything but secrets; `admin`: everything else.",
  });

const newKeySchema = strict({
  name: z
    .string({ error: NAME_EXPECTED })
    .max(100, { error: NAME_EXPECTED })
    .nullish()
    .openapi({ example: "checkout service", description: "A name for people to recognise it by." }),
  scopes: scopeList,
  tenant: tenantName.optional().openapi({
    example: "default",
    description: "The only tenant that the key can access; all tenants when left out.",
  }),
  expires_at: z.iso
    .datetime({ error: `expected ${FUTURE_TIME}`, offset: true })
    .nullish()
    .openapi({
      description:
        "When the key expires. When left out, it expires with the key that creates it, or never if that does not expire.",
    }),
}).openapi("NewApiKey");

const keySchema = z
  .object({
    id: z.string().openapi({ example: "key_8m2x0f7q9a4r6t1v3w5y" }),
    name: z.string().nullable().openapi({ example: "checkout service" }),
    tenant: z.string().nullable().openapi({ example: "default" }),
    scopes: z.array(z.enum(scopes)).openapi({ example: ["events:write"] }),
    created_at: time,
    expires_at: time.nullable(),
    last_used_at: time.nullable().openapi({ description: "Accurate to the hour." }),
  })
  .openapi("ApiKey");

const createdKeySchema = keySchema
  .extend({
    key: z.string().openapi({
      example: "bw_8m2x0f7q9a4r6t1v3w5y_0123456789abcdefghjkmnpqrstvwxyz1hrexdl",
      description: "The key itself; it is shown only here, and not stored.",
    }),
  })
  .openapi("CreatedApiKey");

const common = { tags: ["API keys"] };

const createKey = createRoute({
  ...common,
  method: "post",
  path: "/v1/keys",
  summary: "Create an API key",
  description:
    "Only this answer shows the key: what is stored is its digest. It has no scope that the creating key lacks, and does " +
    "not outlive it.",
  middleware: [requires("admin"), jsonBody()],
  request: { body: jsonRequest(newKeySchema) },
  responses: {
    201: jsonAnswer(createdKeySchema, "The key; it is shown only here."),
    ...problemResponses(400, 401, 403, 413, 415, 422),
  },
});

const getKeys = createRoute({
  ...common,
  method: "get",
  path: "/v1/keys",
  summary: "List API keys",
  middleware: [requires("admin")],
  request: {
    query: strict({
      tenant: tenantName.optional().openapi({ description: "Only keys that are bound to this tenant." }),
      limit: limitParam,
      cursor: cursorParam(z.string().regex(idPatterns.key)),
    }),
  },
  responses: {
    200: jsonAnswer(pageOf(keySchema), "A page of keys, ordered by id, without revoked ones."),
    ...problemResponses(401, 403, 422, 429),
  },
});

const getKey = createRoute({
  ...common,
  method: "get",
  path: "/v1/keys/{id}",
  summary: "Show an API key",
  middleware: [requires("admin")],
  request: { params: idParam },
  responses: {
    200: jsonAnswer(keySchema, "The key, without its secret."),
    ...problemResponses(401, 403, 404, 429),
  },
});

const deleteKey = createRoute({
  ...common,
  method: "delete",
  path: "/v1/keys/{id}",
  summary: "Revoke an API key",
  middleware: [requires("admin")],
  request: { params: idParam },
  responses: {
    204: { description: "The key is revoked: within a minute it is refused everywhere." },
    ...problemResponses(401, 403, 404),
  },
});

/** A stored key as the API shows it. Scopes that were edited into something else are left out. */
function keyView(row: StoredKey): z.infer<typeof keySchema> {
  return {
    id: row.id,
    name: row.name,
    tenant: row.tenant,
    scopes: scopes.filter((scope) => Array.isArray(row.scopes) && row.scopes.includes(scope)),
    created_at: isoTime(row.createdAt),
    expires_at: isoTime(row.expiresAt),
    last_used_at: isoTime(row.lastUsedAt),
  };
}

/**
 * The error of an expiry that is in the past, or after that of the key that creates this one.
 * @param latest epoch ms at which the creating key expires; undefined: never
 */
function expiryErrors(expiresAt: number | null, latest: number | undefined, now: number): FieldError[] {
  if (expiresAt === null) return [];
  const at = isoTime(expiresAt);
  const field = "expires_at";
  if (expiresAt <= now) return [{ field, fault: `is ${at}, which has passed`, expected: FUTURE_TIME }];
  if (latest === undefined || expiresAt <= latest) return [];
  const fault = `is ${at}, after your own key expires`;
  return [{ field, fault, expected: `${isoTime(latest)} at the latest` }];
}
