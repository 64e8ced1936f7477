/** The routes of polled destinations. */
import { createRoute } from "@hono/zod-openapi";
import { type Api, callerIn } from "../../http/context.ts";
import { jsonBody } from "../../http/json-body.ts";
import { answers, emptied, jsonRequest, reply, replyEmpty, routeTo } from "../../http/routes.ts";
import { idParam } from "../parameters.ts";
import { commitInput, consumerList, pollPage, pollQuery, seekInput } from "./schema.ts";
import { commitPoll, getConsumers, pollDestination, seekPoll } from "./service.ts";

export function registerPolling(api: Api): void {
  api.openapi(pollRoute, async (c) =>
    reply(c, await pollDestination(callerIn(c), { ...c.req.valid("param"), ...c.req.valid("query") })),
  );

  api.openapi(commitRoute, async (c) =>
    replyEmpty(c, await commitPoll(callerIn(c), { ...c.req.valid("param"), ...c.req.valid("json") })),
  );

  api.openapi(consumersRoute, async (c) =>
    reply(c, await getConsumers(callerIn(c), c.req.valid("param").id)),
  );

  api.openapi(seekRoute, async (c) =>
    replyEmpty(c, await seekPoll(callerIn(c), { ...c.req.valid("param"), ...c.req.valid("json") })),
  );
}

const tags = ["Polling"];

const pollRoute = createRoute({
  ...routeTo("get", "/v1/destinations/{id}/poll", pollDestination),
  tags,
  summary: "Fetch the next events",
  description:
    "For destinations of the kind `poll`. The page is the consumer's until `visibility_s` is over: what is not committed by " +
    "then is handed out again, so an event may come twice, and none is skipped.",
  request: { params: idParam, query: pollQuery },
  responses: answers(200, pollPage, "The next page; it may be empty.", 404, 409, 422),
});

const commitRoute = createRoute({
  ...routeTo("post", "/v1/destinations/{id}/poll/commit", commitPoll, jsonBody()),
  tags,
  summary: "Acknowledge a page",
  description: "Also after its time, and in any order. A repeat changes nothing.",
  request: { params: idParam, body: jsonRequest(commitInput) },
  responses: emptied("Committed: the consumer does not get these events again.", "body", 404, 409),
});

const consumersRoute = createRoute({
  ...routeTo("get", "/v1/destinations/{id}/poll/consumers", getConsumers),
  tags,
  summary: "List consumers",
  description: "The consumers of a polled destination, by name, and how far each is behind.",
  request: { params: idParam },
  responses: answers(200, consumerList, "The consumers.", 404, 409),
});

const seekRoute = createRoute({
  ...routeTo("post", "/v1/destinations/{id}/poll/seek", seekPoll, jsonBody()),
  tags,
  summary: "Set a consumer's position",
  description: "Pages that are handed out, and events that were returned, count no longer.",
  request: { params: idParam, body: jsonRequest(seekInput) },
  responses: emptied("The consumer's next page begins there.", "body", 404, 409),
});
