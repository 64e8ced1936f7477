/** The routes of groups, which only operators see. */
import { z } from "@hono/zod-openapi";
import { GROUP_ID } from "../../core/group/name.ts";
import type { Api } from "../../http/context.ts";
import { answers, emptied, serve } from "../../http/routes.ts";
import { cursorParam, limitParam, pageFrom, pageOf, strict } from "../parameters.ts";
import { groupInput, groupSchema, groupWithState } from "./schema.ts";
import { deleteGroup, getGroup, getGroups, replaceGroup, restartGroup } from "./service.ts";

const tags = ["Groups"];

const params = z.object({
  name: z.string().openapi({
    description: "The name that destinations have in `group`, or `host:` and a host.",
    example: "host:hooks.example.com",
  }),
});

export function registerGroups(api: Api): void {
  serve(api, "get", "/v1/groups", getGroups, {
    summary: "List groups",
    tags,
    description:
      "Groups that have limits of their own, and names that destinations have. A group of a host is listed where it has " +
      "limits.",
    query: strict({ limit: limitParam, cursor: cursorParam(z.string().regex(GROUP_ID)) }),
    input: ({ query: { limit, cursor: after } }) => ({ after, limit: limit + 1 }),
    view: (groups, _, { query }) => pageFrom(groups, query.limit, ({ name }) => name),
    responses: answers(200, pageOf(groupSchema), "A page of groups, ordered by name.", 422),
  });

  serve(api, "get", "/v1/groups/{name}", getGroup, {
    summary: "Show a group",
    tags,
    description: "Its limits, which are the defaults where it has none of its own, and its state.",
    params,
    responses: answers(200, groupWithState, "The group.", 404),
  });

  serve(api, "put", "/v1/groups/{name}", replaceGroup, {
    summary: "Set a group's limits",
    tags,
    description: "What is left out has its default. A change applies within ten seconds.",
    params,
    optionalBody: groupInput,
    input: ({ param: { name }, json: fields }) => ({ name, fields }),
    responses: answers(200, groupSchema, "The group.", "body"),
  });

  serve(api, "delete", "/v1/groups/{name}", deleteGroup, {
    summary: "Remove a group's limits",
    tags,
    description: "It has the defaults then, and its members stay in it.",
    params,
    responses: emptied("The limits are removed.", 404),
  });

  serve(api, "post", "/v1/groups/{name}/reset", restartGroup, {
    summary: "End a group's circuit and hold",
    tags,
    description: "Members are tried again, from one attempt at a time.",
    params,
    responses: answers(200, groupWithState, "The group.", 404),
  });
}
