/** The routes of polled destinations. */
import type { Api } from "../../http/context.ts";
import { answers, emptied, serve } from "../../http/routes.ts";
import { commitInput, consumerList, pollPage, pollQuery, seekInput } from "./schema.ts";
import { commitPoll, getConsumers, pollDestination, seekPoll } from "./service.ts";

const tags = ["Polling"];

export function registerPolling(api: Api): void {
  serve(api, "get", "/v1/destinations/{id}/poll", pollDestination, {
    tags,
    summary: "Fetch the next events",
    description:
      "For destinations of the kind `poll`. The page is reserved for the consumer until `visibility_s` has passed: what is not committed by " +
      "then is handed out again, so an event may come twice, and none is skipped.",
    query: pollQuery,
    responses: answers(200, pollPage, "The next page; it may be empty.", 404, 409, 422),
  });

  serve(api, "post", "/v1/destinations/{id}/poll/commit", commitPoll, {
    tags,
    summary: "Acknowledge a page",
    description: "Also after its time, and in any order. A repeat changes nothing.",
    body: commitInput,
    responses: emptied("Committed: the consumer does not get these events again.", "body", 404, 409),
  });

  serve(api, "get", "/v1/destinations/{id}/poll/consumers", getConsumers, {
    tags,
    summary: "List consumers",
    description: "The consumers of a polled destination, by name, and how far each is behind.",
    responses: answers(200, consumerList, "The consumers.", 404, 409),
  });

  serve(api, "post", "/v1/destinations/{id}/poll/seek", seekPoll, {
    tags,
    summary: "Set a consumer's position",
    description: "Pages that are handed out and events that were returned are forgotten.",
    body: seekInput,
    responses: emptied("The consumer's next page begins there.", "body", 404, 409),
  });
}
