/** The routes of versions of event types. */
import { createRoute, z } from "@hono/zod-openapi";
import { type Api, callerIn } from "../../http/context.ts";
import { jsonBody } from "../../http/json-body.ts";
import { answerOf } from "../../http/problems.ts";
import { answers, jsonRequest, optionalJson, reply, routeTo } from "../../http/routes.ts";
import { cursorParam, encodeCursor, limitParam, pageOf, strict } from "../parameters.ts";
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

export function registerEventVersions(api: Api): void {
  api.openapi(listVersions, async (c) =>
    reply(c, await getEventVersions(callerIn(c), c.req.valid("param").name)),
  );

  api.openapi(putVersion, async (c) =>
    reply(
      c,
      await publishEventVersion(callerIn(c), {
        ...c.req.valid("param"),
        fields: c.req.valid("json"),
      }),
      201,
    ),
  );

  api.openapi(patchVersion, async (c) => {
    const input = { ...c.req.valid("param"), change: c.req.valid("json") };
    return reply(c, await changePublishedVersion(callerIn(c), input));
  });

  api.openapi(checkVersion, async (c) => {
    const input = { ...c.req.valid("param"), fields: c.req.valid("json") };
    return reply(c, await checkEventVersion(callerIn(c), input));
  });

  api.openapi(listEndpoints, async (c) => {
    const { limit, cursor: after } = c.req.valid("query");
    const listed = await getVersionEndpoints(callerIn(c), { ...c.req.valid("param"), after, limit });
    if (listed.kind !== "ok") return answerOf(listed);
    const { endpoints, last } = listed.value;
    const data = endpoints.map(({ id, tenant, version }) => ({ destination_id: id, tenant, version }));
    return c.json({ data, next_cursor: last === undefined ? null : encodeCursor(last) }, 200);
  });
}

const name = z.string().openapi({ description: "The type, as events name it.", example: "invoice.paid" });
const VERSION_EXPECTED = "expected the number of a version, such as 2";
const version = z.coerce
  .number({ error: VERSION_EXPECTED })
  .int({ error: VERSION_EXPECTED })
  .min(1, { error: VERSION_EXPECTED })
  .openapi({ type: "integer", description: "The version's number.", example: 2 });
const nameParam = z.object({ name });
const versionParam = z.object({ name, version });

const tags = ["Event types"];

const listVersions = createRoute({
  ...routeTo("get", "/v1/event-types/{name}/versions", getEventVersions),
  summary: "List the versions of an event type",
  tags,
  request: { params: nameParam },
  responses: answers(200, eventVersionsSchema, "The versions.", 404),
});

const putVersion = createRoute({
  ...routeTo("put", "/v1/event-types/{name}/versions/{version}", publishEventVersion, jsonBody()),
  summary: "Publish a version of an event type",
  tags,
  description:
    "The next version of `data`, which events have from then on. Destinations that there are keep the version that they get, " +
    "by the conversion. Not for keys that are bound to a tenant.",
  request: { params: versionParam, body: jsonRequest(newEventVersion) },
  responses: answers(201, eventVersionSchema, "The version.", "body", 404, 409),
});

const patchVersion = createRoute({
  ...routeTo(
    "patch",
    "/v1/event-types/{name}/versions/{version}",
    changePublishedVersion,
    jsonBody({ mayBeEmpty: true }),
  ),
  summary: "Change a version of an event type",
  tags,
  description:
    "A conversion is for events that are accepted from now on, and for those that wait because the former one fails. Not for " +
    "keys that are bound to a tenant.",
  request: { params: versionParam, body: optionalJson(eventVersionChange) },
  responses: answers(200, eventVersionSchema, "The version.", "body", 404),
});

const checkVersion = createRoute({
  ...routeTo("post", "/v1/event-types/{name}/check", checkEventVersion, jsonBody()),
  summary: "Check a version of an event type",
  tags,
  description:
    "Tries the next version on the last 50 recorded events of the type: what would be refused, and whose conversion would " +
    "break. Nothing is changed. Not for keys that are bound to a tenant.",
  request: { params: nameParam, body: jsonRequest(eventVersionDraft) },
  responses: answers(200, versionCheckSchema, "What would break, by tenant.", "body", 404),
});

const listEndpoints = createRoute({
  ...routeTo("get", "/v1/event-types/{name}/endpoints", getVersionEndpoints),
  summary: "List which destinations get which version",
  tags,
  description:
    "Of a page of destinations, those that take the type, with the version that they get of events accepted now. A page may " +
    "have fewer than `limit`.",
  request: { params: nameParam, query: strict({ limit: limitParam, cursor: cursorParam(z.string()) }) },
  responses: answers(200, pageOf(versionEndpointSchema), "A page of destinations, ordered by id.", 404, 422),
});
