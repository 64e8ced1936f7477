/** The routes of event types and their versions. */
import { z } from "@hono/zod-openapi";
import type { Api } from "../../http/context.ts";
import { answers, emptied, serve } from "../../http/routes.ts";
import { MOST_TYPES, MOST_VALIDATED } from "../../store/event-types.ts";
import {
  cursorParam,
  eventType,
  flagParam,
  limitParam,
  pageFrom,
  pageOf,
  pageWithNext,
  strict,
} from "../parameters.ts";
import { importEventTypes } from "./import.ts";
import {
  eventTypeImport,
  eventVersionChange,
  eventVersionDraft,
  eventVersionSchema,
  eventVersionsSchema,
  importedTypesSchema,
  newEventType,
  newEventVersion,
  typeParam,
  typeSchema,
  versionCheckSchema,
  versionEndpointSchema,
} from "./schema.ts";
import { deleteEventType, getEventType, getEventTypes, replaceEventType, typeView } from "./service.ts";
import {
  changePublishedVersion,
  checkEventVersion,
  getEventVersions,
  getVersionEndpoints,
  publishEventVersion,
} from "./versions.ts";

const tags = ["Event types"];

const VERSION_EXPECTED = "expected the number of a version, such as 2";
const version = z
  .string()
  .regex(/^[1-9][0-9]{0,14}$/, VERSION_EXPECTED)
  .transform(Number)
  .openapi({ type: "integer", description: "The version's number.", example: 2 });
const versionParam = typeParam.extend({ version });

export function registerEventTypes(api: Api): void {
  serve(api, "put", "/v1/event-types/{name}", replaceEventType, {
    summary: "Create or replace an event type",
    tags,
    description:
      `The catalogue has at most ${MOST_TYPES} types, of which ${MOST_VALIDATED} are validated. A change applies to the next ` +
      "event posted. What is left out is removed. A schema of another shape is refused for a type with several versions: publish " +
      "it as the next one.",
    params: typeParam,
    optionalBody: newEventType,
    exactNumbers: ["schema", "example"],
    input: ({ param: { name }, json: fields }) => ({ name, fields }),
    view: typeView,
    responses: answers(200, typeSchema, "The event type.", "body", 409),
  });

  serve(api, "get", "/v1/event-types", getEventTypes, {
    summary: "List event types",
    tags,
    query: strict({
      archived: flagParam.describe("With true, archived types are listed too."),
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
      "changes nothing.",
    body: eventTypeImport,
    exactNumbers: ["document"],
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
  registerVersions(api);
}

function registerVersions(api: Api): void {
  serve(api, "get", "/v1/event-types/{name}/versions", getEventVersions, {
    summary: "List the versions of an event type",
    tags,
    params: typeParam,
    responses: answers(200, eventVersionsSchema, "The versions.", 404),
  });

  serve(api, "put", "/v1/event-types/{name}/versions/{version}", publishEventVersion, {
    summary: "Publish a version of an event type",
    tags,
    description:
      "The next version of `data`, which events have from then on. Existing destinations still get their version, " +
      "by the conversion.",
    params: versionParam,
    body: newEventVersion,
    exactNumbers: ["schema", "example"],
    input: ({ param, json: fields }) => ({ ...param, fields }),
    responses: answers(201, eventVersionSchema, "The version.", "body", 404, 409),
  });

  serve(api, "patch", "/v1/event-types/{name}/versions/{version}", changePublishedVersion, {
    summary: "Change a version of an event type",
    tags,
    description:
      "A conversion is for events that are accepted from now on, and for those that wait because the former one fails.",
    params: versionParam,
    optionalBody: eventVersionChange,
    input: ({ param, json: change }) => ({ ...param, change }),
    responses: answers(200, eventVersionSchema, "The version.", "body", 404),
  });

  serve(api, "post", "/v1/event-types/{name}/check", checkEventVersion, {
    summary: "Check a version of an event type",
    tags,
    description:
      "Tries the next version on the last 50 recorded events of the type: what would be refused, and whose conversion would " +
      "break. Nothing is changed.",
    params: typeParam,
    body: eventVersionDraft,
    input: ({ param, json: fields }) => ({ ...param, fields }),
    responses: answers(200, versionCheckSchema, "What would break, by tenant.", "body", 404),
  });

  serve(api, "get", "/v1/event-types/{name}/endpoints", getVersionEndpoints, {
    summary: "List which destinations get which version",
    tags,
    description:
      "The destinations of a page that take the type, with the version that they get for events accepted now. A page may " +
      "have fewer than `limit`.",
    params: typeParam,
    query: strict({ limit: limitParam, cursor: cursorParam(z.string()) }),
    input: ({ param, query: { limit, cursor: after } }) => ({ ...param, after, limit }),
    view: ({ endpoints, last }) =>
      pageWithNext(
        endpoints.map(({ id, tenant, version }) => ({ destination_id: id, tenant, version })),
        last,
      ),
    responses: answers(
      200,
      pageOf(versionEndpointSchema),
      "A page of destinations, ordered by id.",
      404,
      422,
    ),
  });
}
