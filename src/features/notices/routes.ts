/** The routes of notice channels. */
import { createRoute } from "@hono/zod-openapi";
import { permitting } from "../../http/auth.ts";
import { type Api, callerIn } from "../../http/context.ts";
import { jsonBody } from "../../http/json-body.ts";
import { idParam, jsonAnswer, jsonRequest } from "../../http/parameters.ts";
import { answerOf, problemResponses } from "../../http/problems.ts";
import { newNoticeChannel, noticeChannel, noticeTest } from "./schema.ts";
import { getNoticeChannel, removeNoticeChannel, setNoticeChannel, testNoticeChannel } from "./service.ts";

export function registerNotices(api: Api): void {
  api.openapi(show, async (c) => {
    const found = await getNoticeChannel(callerIn(c), c.req.valid("param").id);
    return found.kind === "ok" ? c.json(found.value, 200) : answerOf(found);
  });

  api.openapi(setting, async (c) => {
    const { id } = c.req.valid("param");
    const input = { id, channel: c.req.valid("json"), requestUrl: c.req.url };
    const set = await setNoticeChannel(callerIn(c), input);
    return set.kind === "ok" ? c.json(set.value, 200) : answerOf(set);
  });

  api.openapi(removal, async (c) => {
    const removed = await removeNoticeChannel(callerIn(c), c.req.valid("param").id);
    return removed.kind === "ok" ? c.body(null, 204) : answerOf(removed);
  });

  api.openapi(test, async (c) => {
    const tested = await testNoticeChannel(callerIn(c), c.req.valid("param").id);
    return tested.kind === "ok" ? c.json(tested.value, 200) : answerOf(tested);
  });
}

const tags = ["Destinations"];
const common = { path: "/v1/destinations/{id}/notices" as const, tags };

const show = createRoute({
  ...common,
  method: "get",
  summary: "Show a destination's notice channel",
  middleware: [permitting(getNoticeChannel.permission)],
  request: { params: idParam },
  responses: {
    200: jsonAnswer(noticeChannel, "The channel."),
    ...problemResponses(401, 403, 404, 429),
  },
});

const setting = createRoute({
  ...common,
  method: "put",
  summary: "Set a destination's notice channel",
  description:
    "From now on the channel is notified of trouble at the destination: at most one notice an hour. It replaces another channel. " +
    "Without `url` or `email`, a channel of the same kind keeps its own.",
  middleware: [permitting(setNoticeChannel.permission), jsonBody()],
  request: { params: idParam, body: jsonRequest(newNoticeChannel) },
  responses: {
    200: jsonAnswer(noticeChannel, "The channel."),
    ...problemResponses(400, 401, 403, 404, 409, 413, 415, 422),
  },
});

const removal = createRoute({
  ...common,
  method: "delete",
  summary: "Remove a destination's notice channel",
  description: "May be repeated.",
  middleware: [permitting(removeNoticeChannel.permission)],
  request: { params: idParam },
  responses: { 204: { description: "There is no channel." }, ...problemResponses(401, 403, 404, 409) },
});

const test = createRoute({
  tags,
  method: "post",
  path: "/v1/destinations/{id}/notices/test",
  summary: "Send a test notice",
  description: "At most one in five seconds, together with test events; by mail at most one an hour.",
  middleware: [permitting(testNoticeChannel.permission)],
  request: { params: idParam },
  responses: {
    200: jsonAnswer(noticeTest, "Whether the channel has taken it."),
    ...problemResponses(401, 403, 404, 429, 503),
  },
});
