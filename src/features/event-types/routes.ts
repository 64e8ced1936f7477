/** The routes of event types. */
import { createRoute, z } from "@hono/zod-openapi";
import { mapOk } from "../../core/result.ts";
import { type Api, callerIn } from "../../http/context.ts";
import { jsonBody } from "../../http/json-body.ts";
import { answerOf } from "../../http/problems.ts";
import {
  answers,
  emptied,
  jsonRequest,
  optionalJson,
  reply,
  replyEmpty,
  replyPage,
  routeTo,
} from "../../http/routes.ts";
import { MOST_TYPES, MOST_VALIDATED } from "../../store/event-types.ts";
import { cursorParam, eventType, limitParam, pageOf, strict } from "../parameters.ts";
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
    return replyPage(
      c,
      mapOk(await getEventTypes(callerIn(c), page), (rows) => rows.map(typeView)),
      limit,
      ({ name }) => name,
    );
  });

  api.openapi(getType, async (c) =>
    reply(c, mapOk(await getEventType(callerIn(c), c.req.valid("param").name), typeView)),
  );

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

  api.openapi(deleteType, async (c) =>
    replyEmpty(c, await deleteEventType(callerIn(c), c.req.valid("param").name)),
  );
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
  responses: answers(200, typeSchema, "The event type.", "body"),
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
  responses: answers(200, pageOf(typeSchema), "A page of event types, ordered by name.", 422),
});

const getType = createRoute({
  ...routeTo("get", "/v1/event-types/{name}", getEventType),
  summary: "Show an event type",
  tags,
  request: { params: nameParam },
  responses: answers(200, typeSchema, "The event type.", 404),
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
  responses: answers(200, importedTypesSchema, "What is done to each type, or would be.", "body", 409),
});

const deleteType = createRoute({
  ...routeTo("delete", "/v1/event-types/{name}", deleteEventType),
  summary: "Delete an event type",
  tags,
  description: "Its events are no longer validated. To keep its description, archive it instead.",
  request: { params: nameParam },
  responses: emptied("The event type is deleted.", 404),
});
