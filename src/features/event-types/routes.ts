/** The routes of event types. */
import { z } from "@hono/zod-openapi";
import type { Api } from "../../http/context.ts";
import { answers, emptied, serve } from "../../http/routes.ts";
import { MOST_TYPES, MOST_VALIDATED } from "../../store/event-types.ts";
import { cursorParam, eventType, limitParam, pageFrom, pageOf, strict } from "../parameters.ts";
import { importEventTypes } from "./import.ts";
import { eventTypeImport, importedTypesSchema, newEventType, typeParam, typeSchema } from "./schema.ts";
import { deleteEventType, getEventType, getEventTypes, replaceEventType, typeView } from "./service.ts";

const tags = ["Event types"];

export function registerEventTypes(api: Api): void {
  serve(api, "put", "/v1/event-types/{name}", replaceEventType, {
    summary: "Create or replace an event type",
    tags,
    description:
      `The catalogue has at most ${MOST_TYPES} types, of which ${MOST_VALIDATED} are validated. A change applies to the next ` +
      "event posted. What is left out is removed. A schema of another shape is refused for a type with several versions: publish " +
      "it as the next one. Not for keys that are bound to a tenant.",
    params: typeParam,
    optionalBody: newEventType,
    input: ({ param: { name }, json: fields }) => ({ name, fields }),
    view: typeView,
    responses: answers(200, typeSchema, "The event type.", "body", 409),
  });

  serve(api, "get", "/v1/event-types", getEventTypes, {
    summary: "List event types",
    tags,
    query: strict({
      archived: z
        .enum(["true", "false"], { error: "expected true or false" })
        .optional()
        .describe("With true, archived types are listed too."),
      limit: limitParam,
      cursor: cursorParam(eventType),
    }),
    input: ({ query: { archived, limit, cursor: after } }) => ({
      ...{ archived: archived === "true", after, limit: limit + 1 },
    }),
    view: (rows, _, { query }) => pageFrom(rows.map(typeView), query.limit, ({ name }) => name),
    responses: answers(200, pageOf(typeSchema), "A page of event types, ordered by name.", 422),
  });

  serve(api, "get", "/v1/event-types/{name}", getEventType, {
    summary: "Show an event type",
    tags,
    params: typeParam,
    view: typeView,
    responses: answers(200, typeSchema, "The event type.", 404),
  });

  serve(api, "post", "/v1/event-types/import", importEventTypes, {
    summary: "Import event types from an OpenAPI document",
    tags,
    description:
      "All webhooks of the document, or none. A schema that has changed is published as the next version where there is a " +
      "conversion; without one it replaces the schema of a type that has one version, and is refused for others. Repeating it " +
      "changes nothing. Not for keys that are bound to a tenant.",
    body: eventTypeImport,
    maxBytes: 1024 * 1024,
    input: ({ json: { document, dry_run: isDryRun = false, archive_others: replaces = false } }) => ({
      ...{ document, field: "document", isDryRun, replaces },
    }),
    view: (imported) => ({
      types: imported.map(({ webhook: _, errors, ...type }) => ({
        ...type,
        errors: errors.map(({ fault, expected }) => `${fault}; expected ${expected}`),
      })),
    }),
    responses: answers(200, importedTypesSchema, "What is done to each type, or would be.", "body", 409),
  });

  serve(api, "delete", "/v1/event-types/{name}", deleteEventType, {
    summary: "Delete an event type",
    tags,
    description: "Its events are no longer validated. To keep its description, archive it instead.",
    params: typeParam,
    responses: emptied("The event type is deleted.", 404, 409),
  });
}
