/**
 * API keys: made, listed, read and revoked. An admin key that is bound to a tenant manages the keys of that
 * tenant; keys bound to none are the operator's, and it does not see them.
 */
import { createRoute, z } from "@hono/zod-openapi";
import { findKey, insertKey, listKeys, revokeKey } from "../store/keys.ts";
import { refuseScopes, requires } from "./auth.ts";
import type { Api } from "./context.ts";
import { jsonBody } from "./json-body.ts";
import { createdKeySchema, expiryErrors, keySchema, keyView, newKeySchema } from "./key-schema.ts";
import { newKey } from "./key-token.ts";
import { cursorParam, limitParam, pageFrom, pageOf } from "./paging.ts";
import { invalid, noSuch, problem, problemResponses } from "./problems.ts";
import { idParam, jsonAnswer, jsonRequest } from "./route-parts.ts";
import { strict } from "./strict.ts";

const common = { tags: ["API keys"] };

const createKey = createRoute({
  ...common,
  method: "post",
  path: "/v1/keys",
  summary: "Make an API key",
  description:
    "The key is in this answer and nowhere else: what is stored is its digest. It can do no more than the key that asks, and for no longer.",
  middleware: [requires("admin"), jsonBody()],
  request: { body: jsonRequest(newKeySchema) },
  responses: {
    201: jsonAnswer(createdKeySchema, "The key, shown this once."),
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
    query: strict({ limit: limitParam, cursor: cursorParam(z.string().regex(/^key_[0-9a-z]{20}$/)) }),
  },
  responses: {
    200: jsonAnswer(pageOf(keySchema), "Keys in order of their ids, without the revoked ones."),
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
    204: { description: "It is revoked, and refused everywhere within a minute." },
    ...problemResponses(401, 403, 404),
  },
});

export function registerKeys(api: Api): void {
  api.openapi(createKey, async (c) => {
    const [{ db, now }, principal, input] = [c.get("services"), c.get("principal"), c.req.valid("json")];
    const tenant = principal.tenant ?? input.tenant ?? null;
    if ((input.tenant ?? tenant) !== tenant) return problem(403, "The key belongs to another tenant");
    const refusal = refuseScopes(principal, input.scopes, "scopes");
    if (refusal) return refusal;
    const expiresAt = input.expires_at ? Date.parse(input.expires_at) : (principal.expiresAt ?? null);
    const errors = expiryErrors(expiresAt, principal.expiresAt, now());
    if (errors.length > 0) return invalid(errors);
    const { id, token, hash } = await newKey();
    const row = { id, name: input.name, tenant, scopes: input.scopes, hash, createdAt: now(), expiresAt };
    return c.json({ ...keyView(await insertKey(db, row)), key: token }, 201);
  });

  api.openapi(getKeys, async (c) => {
    const { limit, cursor: after } = c.req.valid("query");
    const { tenant } = c.get("principal");
    const rows = await listKeys(c.get("services").db, { tenant, after, limit: limit + 1 });
    return c.json(
      pageFrom(rows.map(keyView), limit, ({ id }) => id),
      200,
    );
  });

  api.openapi(getKey, async (c) => {
    const { id } = c.req.valid("param");
    const row = await findKey(c.get("services").db, id, c.get("principal").tenant);
    return row ? c.json(keyView(row), 200) : noSuch("API key", id);
  });

  api.openapi(deleteKey, async (c) => {
    const { id } = c.req.valid("param");
    const { db, now } = c.get("services");
    const isRevoked = await revokeKey(db, id, c.get("principal").tenant, now());
    return isRevoked ? c.body(null, 204) : noSuch("API key", id);
  });
}
