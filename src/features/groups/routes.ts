/** The routes of groups, which only operators see. */
import { createRoute, z } from "@hono/zod-openapi";
import { GROUP_ID } from "../../core/group/name.ts";
import { permitting } from "../../http/auth.ts";
import { type Api, callerIn } from "../../http/context.ts";
import { jsonBody } from "../../http/json-body.ts";
import {
  cursorParam,
  jsonAnswer,
  limitParam,
  optionalJson,
  pageFrom,
  pageOf,
  strict,
} from "../../http/parameters.ts";
import { answerOf, problemResponses } from "../../http/problems.ts";
import { groupInput, groupSchema, groupWithState } from "./schema.ts";
import { deleteGroup, getGroup, getGroups, replaceGroup, restartGroup } from "./service.ts";

export function registerGroups(api: Api): void {
  api.openapi(list, async (c) => {
    const { limit, cursor: after } = c.req.valid("query");
    const listed = await getGroups(callerIn(c), { after, limit: limit + 1 });
    if (listed.kind !== "ok") return answerOf(listed);
    return c.json(
      pageFrom(listed.value, limit, ({ name }) => name),
      200,
    );
  });

  api.openapi(show, async (c) => {
    const found = await getGroup(callerIn(c), c.req.valid("param").name);
    return found.kind === "ok" ? c.json(found.value, 200) : answerOf(found);
  });

  api.openapi(put, async (c) => {
    const input = { name: c.req.valid("param").name, fields: c.req.valid("json") };
    const made = await replaceGroup(callerIn(c), input);
    return made.kind === "ok" ? c.json(made.value, 200) : answerOf(made);
  });

  api.openapi(remove, async (c) => {
    const removed = await deleteGroup(callerIn(c), c.req.valid("param").name);
    return removed.kind === "ok" ? c.body(null, 204) : answerOf(removed);
  });

  api.openapi(restart, async (c) => {
    const done = await restartGroup(callerIn(c), c.req.valid("param").name);
    return done.kind === "ok" ? c.json(done.value, 200) : answerOf(done);
  });
}

const tags = ["Groups"];
const NOT_BOUND = "Not for keys that are bound to a tenant.";

const nameParam = z.object({
  name: z.string().openapi({
    description: "The name that destinations have in `group`, or `host:` and a host.",
    example: "host:hooks.example.com",
  }),
});

const cursor = z.string().regex(GROUP_ID, { error: "expected the next_cursor of a page" });

const list = createRoute({
  method: "get",
  path: "/v1/groups",
  summary: "List groups",
  tags,
  description: `Groups that have limits of their own, and names that destinations have. A group of a host is listed where it has limits. ${NOT_BOUND}`,
  middleware: [permitting(getGroups.permission)],
  request: { query: strict({ limit: limitParam, cursor: cursorParam(cursor) }) },
  responses: {
    200: jsonAnswer(pageOf(groupSchema), "A page of groups, ordered by name."),
    ...problemResponses(401, 403, 422, 429),
  },
});

const show = createRoute({
  method: "get",
  path: "/v1/groups/{name}",
  summary: "Show a group",
  tags,
  description: `Its limits, which are the defaults where it has none of its own, and its state. ${NOT_BOUND}`,
  middleware: [permitting(getGroup.permission)],
  request: { params: nameParam },
  responses: { 200: jsonAnswer(groupWithState, "The group."), ...problemResponses(401, 403, 404, 429) },
});

const put = createRoute({
  method: "put",
  path: "/v1/groups/{name}",
  summary: "Set a group's limits",
  tags,
  description: `What is left out has its default. A change applies within ten seconds. ${NOT_BOUND}`,
  middleware: [permitting(replaceGroup.permission), jsonBody({ mayBeEmpty: true })],
  request: { params: nameParam, body: optionalJson(groupInput) },
  responses: {
    200: jsonAnswer(groupSchema, "The group."),
    ...problemResponses(400, 401, 403, 413, 415, 422),
  },
});

const remove = createRoute({
  method: "delete",
  path: "/v1/groups/{name}",
  summary: "Remove a group's limits",
  tags,
  description: `It has the defaults then, and its members stay in it. ${NOT_BOUND}`,
  middleware: [permitting(deleteGroup.permission)],
  request: { params: nameParam },
  responses: { 204: { description: "The limits are removed." }, ...problemResponses(401, 403, 404) },
});

const restart = createRoute({
  method: "post",
  path: "/v1/groups/{name}/reset",
  summary: "End a group's circuit and hold",
  tags,
  description: `Members are tried again, from one attempt at a time. ${NOT_BOUND}`,
  middleware: [permitting(restartGroup.permission)],
  request: { params: nameParam },
  responses: { 200: jsonAnswer(groupWithState, "The group."), ...problemResponses(401, 403, 404, 503) },
});
