/** The routes of notice channels. */
import type { Api } from "../../http/context.ts";
import { answers, emptied, serve } from "../../http/routes.ts";
import { newNoticeChannel, noticeChannel, noticeTest } from "./schema.ts";
import { getNoticeChannel, removeNoticeChannel, setNoticeChannel, testNoticeChannel } from "./service.ts";

const PATH = "/v1/destinations/{id}/notices";
const tags = ["Destinations"];

export function registerNotices(api: Api): void {
  serve(api, "get", PATH, getNoticeChannel, {
    tags,
    summary: "Show a destination's notice channel",
    responses: answers(200, noticeChannel, "The channel.", 404),
  });

  serve(api, "put", PATH, setNoticeChannel, {
    tags,
    summary: "Set a destination's notice channel",
    description:
      "From now on the channel is notified of trouble at the destination: at most one notice an hour. It replaces another channel. " +
      "Without `url` or `email`, a channel of the same kind keeps its own.",
    body: newNoticeChannel,
    input: ({ param: { id }, json: channel, url: requestUrl }) => ({ id, channel, requestUrl }),
    responses: answers(200, noticeChannel, "The channel.", "body", 404, 409),
  });

  serve(api, "delete", PATH, removeNoticeChannel, {
    tags,
    summary: "Remove a destination's notice channel",
    description: "May be repeated.",
    responses: emptied("There is no channel.", 404, 409),
  });

  serve(api, "post", `${PATH}/test`, testNoticeChannel, {
    tags,
    summary: "Send a test notice",
    description: "At most one in five seconds, together with test events; by mail at most one an hour.",
    responses: answers(200, noticeTest, "Whether the channel has taken it.", 404),
  });
}
