/** The routes of versions of event types. */
import { z } from "@hono/zod-openapi";
import type { Api } from "../../http/context.ts";
import { answers, serve } from "../../http/routes.ts";
import { cursorParam, limitParam, pageOf, pageWithNext, strict } from "../parameters.ts";
import { typeParam } from "./schema.ts";
import {
  eventVersionChange,
  eventVersionDraft,
  eventVersionSchema,
  eventVersionsSchema,
  newEventVersion,
  versionCheckSchema,
  versionEndpointSchema,
} from "./version-schema.ts";
import {
  changePublishedVersion,
  checkEventVersion,
  getEventVersions,
  getVersionEndpoints,
  publishEventVersion,
} from "./versions.ts";

const tags = ["Event types"];

const VERSION_EXPECTED = "expected the number of a version, such as 2";
const version = z.coerce
  .number({ error: VERSION_EXPECTED })
  .int({ error: VERSION_EXPECTED })
  .min(1, { error: VERSION_EXPECTED })
  .openapi({ type: "integer", description: "The version's number.", example: 2 });
const versionParam = typeParam.extend({ version });

export function registerEventVersions(api: Api): void {
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
      "The next version of `data`, which events have from then on. Destinations that there are keep the version that they get, " +
      "by the conversion. Not for keys that are bound to a tenant.",
    params: versionParam,
    body: newEventVersion,
    input: ({ param, json: fields }) => ({ ...param, fields }),
    responses: answers(201, eventVersionSchema, "The version.", "body", 404, 409),
  });

  serve(api, "patch", "/v1/event-types/{name}/versions/{version}", changePublishedVersion, {
    summary: "Change a version of an event type",
    tags,
    description:
      "A conversion is for events that are accepted from now on, and for those that wait because the former one fails. Not for " +
      "keys that are bound to a tenant.",
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
      "break. Nothing is changed. Not for keys that are bound to a tenant.",
    params: typeParam,
    body: eventVersionDraft,
    input: ({ param, json: fields }) => ({ ...param, fields }),
    responses: answers(200, versionCheckSchema, "What would break, by tenant.", "body", 404),
  });

  serve(api, "get", "/v1/event-types/{name}/endpoints", getVersionEndpoints, {
    summary: "List which destinations get which version",
    tags,
    description:
      "Of a page of destinations, those that take the type, with the version that they get of events accepted now. A page may " +
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
