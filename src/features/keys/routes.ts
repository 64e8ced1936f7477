/** The routes of API keys. */
import { createRoute, z } from "@hono/zod-openapi";
import { type Api, callerIn } from "../../http/context.ts";
import { jsonBody } from "../../http/json-body.ts";
import { answers, emptied, jsonRequest, reply, replyEmpty, replyPage, routeTo } from "../../http/routes.ts";
import { idParam, limitParam, pageOf, strict, tenantName } from "../parameters.ts";
import { createdKeySchema, keyCursor, keySchema, newKeySchema } from "./schema.ts";
import { createKey, getKey, getKeys, removeKey } from "./service.ts";

export function registerKeys(api: Api): void {
  api.openapi(postKey, async (c) => reply(c, await createKey(callerIn(c), c.req.valid("json")), 201));

  api.openapi(listRoute, async (c) => {
    const { tenant, destination_id: destination, limit, cursor: after } = c.req.valid("query");
    return replyPage(
      c,
      await getKeys(callerIn(c), { tenant, destination, after, limit: limit + 1 }),
      limit,
      ({ id }) => id,
    );
  });

  api.openapi(showRoute, async (c) => reply(c, await getKey(callerIn(c), c.req.valid("param").id)));

  api.openapi(deleteRoute, async (c) => replyEmpty(c, await removeKey(callerIn(c), c.req.valid("param").id)));
}

const common = { tags: ["API keys"] };

const postKey = createRoute({
  ...common,
  ...routeTo("post", "/v1/keys", createKey, jsonBody()),
  summary: "Create an API key",
  description:
    "Only this answer shows the key: what is stored is its digest. It has no scope that the creating key lacks, and does " +
    "not outlive it.",
  request: { body: jsonRequest(newKeySchema) },
  responses: answers(201, createdKeySchema, "The key; it is shown only here.", "body", 409),
});

const listRoute = createRoute({
  ...common,
  ...routeTo("get", "/v1/keys", getKeys),
  summary: "List API keys",
  request: {
    query: strict({
      tenant: tenantName.optional().describe("Only keys that are bound to this tenant."),
      destination_id: z.string().optional().describe("Only keys that poll this destination alone."),
      limit: limitParam,
      cursor: keyCursor,
    }),
  },
  responses: answers(200, pageOf(keySchema), "A page of keys, ordered by id, without revoked ones.", 422),
});

const showRoute = createRoute({
  ...common,
  ...routeTo("get", "/v1/keys/{id}", getKey),
  summary: "Show an API key",
  request: { params: idParam },
  responses: answers(200, keySchema, "The key, without its secret.", 404),
});

const deleteRoute = createRoute({
  ...common,
  ...routeTo("delete", "/v1/keys/{id}", removeKey),
  summary: "Revoke an API key",
  request: { params: idParam },
  responses: emptied("The key is revoked: within a minute it is refused everywhere.", 404),
});
