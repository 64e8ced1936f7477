/** The routes of API keys. */
import { z } from "@hono/zod-openapi";
import type { Api } from "../../http/context.ts";
import { answers, emptied, serve } from "../../http/routes.ts";
import { limitParam, pageFrom, pageOf, strict, tenantName } from "../parameters.ts";
import { createdKeySchema, keyCursor, keySchema, newKeySchema } from "./schema.ts";
import { createKey, getKey, getKeys, removeKey } from "./service.ts";

const tags = ["API keys"];

export function registerKeys(api: Api): void {
  serve(api, "post", "/v1/keys", createKey, {
    tags,
    summary: "Create an API key",
    description:
      "Only this answer shows the key: what is stored is its digest. It has no scope that the creating key lacks, and does " +
      "not outlive it.",
    body: newKeySchema,
    responses: answers(201, createdKeySchema, "The key; it is shown only here.", "body", 409),
  });

  serve(api, "get", "/v1/keys", getKeys, {
    tags,
    summary: "List API keys",
    query: strict({
      tenant: tenantName.optional().describe("Only keys that are bound to this tenant."),
      destination_id: z.string().optional().describe("Only keys that poll just this destination."),
      limit: limitParam,
      cursor: keyCursor,
    }),
    input: ({ query: { tenant, destination_id: destination, limit, cursor: after } }) => ({
      ...{ tenant, destination, after },
      limit: limit + 1,
    }),
    view: (keys, _, { query }) => pageFrom(keys, query.limit, ({ id }) => id),
    responses: answers(200, pageOf(keySchema), "A page of keys, ordered by id, without revoked ones.", 422),
  });

  serve(api, "get", "/v1/keys/{id}", getKey, {
    tags,
    summary: "Show an API key",
    responses: answers(200, keySchema, "The key, without its secret.", 404),
  });

  serve(api, "delete", "/v1/keys/{id}", removeKey, {
    tags,
    summary: "Revoke an API key",
    responses: emptied("The key is revoked: within a minute it is refused everywhere.", 404),
  });
}
