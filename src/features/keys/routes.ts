/** The routes of API keys. */
import { createRoute, z } from "@hono/zod-openapi";
import { type Api, callerIn } from "../../http/context.ts";
import { jsonBody } from "../../http/json-body.ts";
import {
  idParam,
  jsonAnswer,
  jsonRequest,
  limitParam,
  pageFrom,
  pageOf,
  strict,
  tenantName,
} from "../../http/parameters.ts";
import { answerOf, problemResponses } from "../../http/problems.ts";
import { answers, routeTo } from "../../http/routes.ts";
import { createdKeySchema, keyCursor, keySchema, newKeySchema } from "./schema.ts";
import { createKey, getKey, getKeys, removeKey } from "./service.ts";

export function registerKeys(api: Api): void {
  api.openapi(postKey, async (c) => {
    const created = await createKey(callerIn(c), c.req.valid("json"));
    return created.kind === "ok" ? c.json(created.value, 201) : answerOf(created);
  });

  api.openapi(listRoute, async (c) => {
    const { tenant, destination_id: destination, limit, cursor: after } = c.req.valid("query");
    const listed = await getKeys(callerIn(c), { tenant, destination, after, limit: limit + 1 });
    if (listed.kind !== "ok") return answerOf(listed);
    return c.json(
      pageFrom(listed.value, limit, ({ id }) => id),
      200,
    );
  });

  api.openapi(showRoute, async (c) => {
    const found = await getKey(callerIn(c), c.req.valid("param").id);
    return found.kind === "ok" ? c.json(found.value, 200) : answerOf(found);
  });

  api.openapi(deleteRoute, async (c) => {
    const removed = await removeKey(callerIn(c), c.req.valid("param").id);
    return removed.kind === "ok" ? c.body(null, 204) : answerOf(removed);
  });
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
  responses: {
    201: jsonAnswer(createdKeySchema, "The key; it is shown only here."),
    ...problemResponses(400, 401, 403, 409, 413, 415, 422),
  },
});

const listRoute = createRoute({
  ...common,
  ...routeTo("get", "/v1/keys", getKeys),
  summary: "List API keys",
  request: {
    query: strict({
      tenant: tenantName.optional().openapi({ description: "Only keys that are bound to this tenant." }),
      destination_id: z
        .string()
        .optional()
        .openapi({ description: "Only keys that poll this destination alone." }),
      limit: limitParam,
      cursor: keyCursor,
    }),
  },
  responses: {
    200: jsonAnswer(pageOf(keySchema), "A page of keys, ordered by id, without revoked ones."),
    ...problemResponses(401, 403, 422, 429),
  },
});

const showRoute = createRoute({
  ...common,
  ...routeTo("get", "/v1/keys/{id}", getKey),
  summary: "Show an API key",
  request: { params: idParam },
  responses: answers(200, keySchema, "The key, without its secret.", [401, 403, 404, 429]),
});

const deleteRoute = createRoute({
  ...common,
  ...routeTo("delete", "/v1/keys/{id}", removeKey),
  summary: "Revoke an API key",
  request: { params: idParam },
  responses: {
    204: { description: "The key is revoked: within a minute it is refused everywhere." },
    ...problemResponses(401, 403, 404),
  },
});
