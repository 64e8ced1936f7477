/** The routes of groups, which only operators see. */
import { createRoute, z } from "@hono/zod-openapi";
import { GROUP_ID } from "../../core/group/name.ts";
import { type Api, callerIn } from "../../http/context.ts";
import { jsonBody } from "../../http/json-body.ts";
import { answers, emptied, optionalJson, reply, replyEmpty, replyPage, routeTo } from "../../http/routes.ts";
import { cursorParam, limitParam, pageOf, strict } from "../parameters.ts";
import { groupInput, groupSchema, groupWithState } from "./schema.ts";
import { deleteGroup, getGroup, getGroups, replaceGroup, restartGroup } from "./service.ts";

export function registerGroups(api: Api): void {
  api.openapi(list, async (c) => {
    const { limit, cursor: after } = c.req.valid("query");
    return replyPage(c, await getGroups(callerIn(c), { after, limit: limit + 1 }), limit, ({ name }) => name);
  });

  api.openapi(show, async (c) => reply(c, await getGroup(callerIn(c), c.req.valid("param").name)));

  api.openapi(put, async (c) => {
    const input = { name: c.req.valid("param").name, fields: c.req.valid("json") };
    return reply(c, await replaceGroup(callerIn(c), input));
  });

  api.openapi(remove, async (c) => replyEmpty(c, await deleteGroup(callerIn(c), c.req.valid("param").name)));

  api.openapi(restart, async (c) => reply(c, await restartGroup(callerIn(c), c.req.valid("param").name)));
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
  ...routeTo("get", "/v1/groups", getGroups),
  summary: "List groups",
  tags,
  description: `Groups that have limits of their own, and names that destinations have. A group of a host is listed where it has limits. ${NOT_BOUND}`,
  request: { query: strict({ limit: limitParam, cursor: cursorParam(cursor) }) },
  responses: answers(200, pageOf(groupSchema), "A page of groups, ordered by name.", 422),
});

const show = createRoute({
  ...routeTo("get", "/v1/groups/{name}", getGroup),
  summary: "Show a group",
  tags,
  description: `Its limits, which are the defaults where it has none of its own, and its state. ${NOT_BOUND}`,
  request: { params: nameParam },
  responses: answers(200, groupWithState, "The group.", 404),
});

const put = createRoute({
  ...routeTo("put", "/v1/groups/{name}", replaceGroup, jsonBody({ mayBeEmpty: true })),
  summary: "Set a group's limits",
  tags,
  description: `What is left out has its default. A change applies within ten seconds. ${NOT_BOUND}`,
  request: { params: nameParam, body: optionalJson(groupInput) },
  responses: answers(200, groupSchema, "The group.", "body"),
});

const remove = createRoute({
  ...routeTo("delete", "/v1/groups/{name}", deleteGroup),
  summary: "Remove a group's limits",
  tags,
  description: `It has the defaults then, and its members stay in it. ${NOT_BOUND}`,
  request: { params: nameParam },
  responses: emptied("The limits are removed.", 404),
});

const restart = createRoute({
  ...routeTo("post", "/v1/groups/{name}/reset", restartGroup),
  summary: "End a group's circuit and hold",
  tags,
  description: `Members are tried again, from one attempt at a time. ${NOT_BOUND}`,
  request: { params: nameParam },
  responses: answers(200, groupWithState, "The group.", 404),
});
