/** The routes of event types. */
import { createRoute, z } from "@hono/zod-openapi";
import { type Api, callerIn } from "../../http/context.ts";
import { jsonBody } from "../../http/json-body.ts";
import {
  cursorParam,
  eventType,
  jsonAnswer,
  jsonRequest,
  limitParam,
  optionalJson,
  pageFrom,
  pageOf,
  strict,
} from "../../http/parameters.ts";
import { answerOf, problemResponses } from "../../http/problems.ts";
import { answers, routeTo } from "../../http/routes.ts";
import { MOST_TYPES, MOST_VALIDATED } from "../../store/event-types.ts";
import { importEventTypes } from "./import.ts";
import { eventTypeImport, importedTypesSchema, newEventType, typeSchema } from "./schema.ts";
import { deleteEventType, getEventType, getEventTypes, replaceEventType, typeView } from "./service.ts";

export function registerEventTypes(api: Api): void {
  api.openapi(putType, async (c) => {
    const { name } = c.req.valid("param");
    const made = await replaceEventType(callerIn(c), { name, fields: c.req.valid("json") });
    if (made.kind === "ok") return c.json(typeView(made.value), 200);
    const { kind } = made;
    if (kind === "conflict") throw new Error("Whatever there is, is replaced");
    return answerOf({ ...made, kind });
  });

  api.openapi(getTypes, async (c) => {
    const { archived, limit, cursor: after } = c.req.valid("query");
    const page = { archived: archived === "true", after, limit: limit + 1 };
    const listed = await getEventTypes(callerIn(c), page);
    if (listed.kind !== "ok") return answerOf(listed);
    return c.json(
      pageFrom(listed.value.map(typeView), limit, ({ name }) => name),
      200,
    );
  });

  api.openapi(getType, async (c) => {
    const found = await getEventType(callerIn(c), c.req.valid("param").name);
    return found.kind === "ok" ? c.json(typeView(found.value), 200) : answerOf(found);
  });

  api.openapi(importTypes, async (c) => {
    const { document, dry_run: isDryRun = false, archive_others: replaces = false } = c.req.valid("json");
    const imported = await importEventTypes(callerIn(c), { document, field: "document", isDryRun, replaces });
    if (imported.kind !== "ok") return answerOf(imported);
    const types = imported.value.map(({ webhook: _, errors, ...type }) => ({
      ...type,
      errors: errors.map(({ fault, expected }) => `${fault}; expected ${expected}`),
    }));
    return c.json({ types }, 200);
  });

  api.openapi(deleteType, async (c) => {
    const removed = await deleteEventType(callerIn(c), c.req.valid("param").name);
    return removed.kind === "ok" ? c.body(null, 204) : answerOf(removed);
  });
}

const nameParam = z.object({
  name: z.string().openapi({ description: "The type, as events name it.", example: "invoice.paid" }),
});

const tags = ["Event types"];

const putType = createRoute({
  ...routeTo("put", "/v1/event-types/{name}", replaceEventType, jsonBody({ mayBeEmpty: true })),
  summary: "Create or replace an event type",
  tags,
  description:
    `The catalogue has at most ${MOST_TYPES} types, of which ${MOST_VALIDATED} are validated. A change applies to the next ` +
    "event posted. What is left out is removed. Not for keys that are bound to a tenant.",
  request: { params: nameParam, body: optionalJson(newEventType) },
  responses: answers(200, typeSchema, "The event type.", [400, 401, 403, 413, 415, 422]),
});

const getTypes = createRoute({
  ...routeTo("get", "/v1/event-types", getEventTypes),
  summary: "List event types",
  tags,
  request: {
    query: strict({
      archived: z
        .enum(["true", "false"], { error: "expected true or false" })
        .optional()
        .openapi({ description: "With true, archived types are listed too." }),
      limit: limitParam,
      cursor: cursorParam(eventType),
    }),
  },
  responses: {
    200: jsonAnswer(pageOf(typeSchema), "A page of event types, ordered by name."),
    ...problemResponses(401, 403, 422, 429),
  },
});

const getType = createRoute({
  ...routeTo("get", "/v1/event-types/{name}", getEventType),
  summary: "Show an event type",
  tags,
  request: { params: nameParam },
  responses: answers(200, typeSchema, "The event type.", [401, 403, 404, 429]),
});

const importTypes = createRoute({
  ...routeTo("post", "/v1/event-types/import", importEventTypes, jsonBody({ maxBytes: 1024 * 1024 })),
  summary: "Import event types from an OpenAPI document",
  tags,
  description:
    "All webhooks of the document, or none. A schema that has changed is published as the next version where there is a " +
    "conversion; without one it replaces the schema of a type that has one version, and is refused for others. Repeating it " +
    "changes nothing. Not for keys that are bound to a tenant.",
  request: { body: jsonRequest(eventTypeImport) },
  responses: answers(
    200,
    importedTypesSchema,
    "What is done to each type, or would be.",
    [400, 401, 403, 409, 413, 415, 422],
  ),
});

const deleteType = createRoute({
  ...routeTo("delete", "/v1/event-types/{name}", deleteEventType),
  summary: "Delete an event type",
  tags,
  description: "Its events are no longer validated. To keep its description, archive it instead.",
  request: { params: nameParam },
  responses: { 204: { description: "The event type is deleted." }, ...problemResponses(401, 403, 404) },
});
