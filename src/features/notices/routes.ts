/** The routes of notice channels. */
import { createRoute } from "@hono/zod-openapi";
import { permitting } from "../../http/auth.ts";
import { type Api, callerIn } from "../../http/context.ts";
import { jsonBody } from "../../http/json-body.ts";
import { answers, emptied, jsonRequest, reply, replyEmpty, routeTo } from "../../http/routes.ts";
import { idParam } from "../parameters.ts";
import { newNoticeChannel, noticeChannel, noticeTest } from "./schema.ts";
import { getNoticeChannel, removeNoticeChannel, setNoticeChannel, testNoticeChannel } from "./service.ts";

export function registerNotices(api: Api): void {
  api.openapi(show, async (c) => reply(c, await getNoticeChannel(callerIn(c), c.req.valid("param").id)));

  api.openapi(setting, async (c) => {
    const { id } = c.req.valid("param");
    const input = { id, channel: c.req.valid("json"), requestUrl: c.req.url };
    return reply(c, await setNoticeChannel(callerIn(c), input));
  });

  api.openapi(removal, async (c) =>
    replyEmpty(c, await removeNoticeChannel(callerIn(c), c.req.valid("param").id)),
  );

  api.openapi(test, async (c) => reply(c, await testNoticeChannel(callerIn(c), c.req.valid("param").id)));
}

const tags = ["Destinations"];
const common = { path: "/v1/destinations/{id}/notices" as const, tags };

const show = createRoute({
  ...common,
  method: "get",
  summary: "Show a destination's notice channel",
  middleware: [permitting(getNoticeChannel.permission)],
  request: { params: idParam },
  responses: answers(200, noticeChannel, "The channel.", 404),
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
  responses: answers(200, noticeChannel, "The channel.", "body", 404, 409),
});

const removal = createRoute({
  ...common,
  method: "delete",
  summary: "Remove a destination's notice channel",
  description: "May be repeated.",
  middleware: [permitting(removeNoticeChannel.permission)],
  request: { params: idParam },
  responses: emptied("There is no channel.", 404, 409),
});

const test = createRoute({
  tags,
  ...routeTo("post", "/v1/destinations/{id}/notices/test", testNoticeChannel),
  summary: "Send a test notice",
  description: "At most one in five seconds, together with test events; by mail at most one an hour.",
  request: { params: idParam },
  responses: answers(200, noticeTest, "Whether the channel has taken it.", 404),
});
