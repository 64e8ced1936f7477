/** The routes of deliveries and their attempts. */
import { createRoute, z } from "@hono/zod-openapi";
import { type Api, callerIn } from "../../http/context.ts";
import { answerOf, problemOf, problemResponses, problemSchema } from "../../http/problems.ts";
import { answers, postOnly, routeTo, serve } from "../../http/routes.ts";
import { isoTime } from "../../time.ts";
import { cursorAfter, documented, pageOf, pageWithNext } from "../parameters.ts";
import { getAttempt } from "./attempts.ts";
import { getBlockedKeys, skipDelivery } from "./ordering.ts";
import {
  cancelOneDelivery,
  cancelWaiting,
  repairDeliveries,
  retryDeliveries,
  retryDelivery,
} from "./repairs.ts";
import {
  attemptParam,
  attemptSchema,
  blockedKey,
  blockedKeysQuery,
  blockedKeyView,
  cancelledDeliveries,
  deliveryIds,
  deliveryQuery,
  deliverySchema,
  MOST_IDS,
  repairedDeliveries,
  repairQuery,
  tailQuery,
  waitingQuery,
} from "./schema.ts";
import { getDeliveries, getDelivery, placesOf } from "./service.ts";
import { LAST_EVENT_ID, STREAM_HEADERS, tailDeliveries } from "./tail.ts";
import { storedDelivery } from "./view.ts";

const tags = ["Deliveries"];

const stream = {
  type: "string" as const,
  description:
    "Server-sent events: `delivery` with a Delivery and its event's `tenant`, `type` and `timestamp`, or `gap`.",
  example:
    'event: delivery\ndata: {"id":"dlv_…","state":"delivered","attempts":1,"type":"invoice.paid", …}\n\nid: evt_0jkm7tkww1kam\n\n',
};

const tailRoute = createRoute({
  ...routeTo("get", "/v1/deliveries/tail", tailDeliveries),
  summary: "Watch deliveries",
  description:
    "The deliveries of events that are accepted from now on, each when it is queued and whenever its state changes, as " +
    "server-sent events, polled every three seconds. The response ends after a minute: connect again with the last " +
    "`id` in the header `Last-Event-ID`, as an `EventSource` does by itself. An event `gap` says that some have been " +
    "omitted; the list of deliveries has all.",
  tags,
  request: { query: tailQuery },
  responses: {
    200: { description: "The stream.", content: { "text/event-stream": { schema: stream } } },
    ...problemResponses(401, 403, 422, 429),
  },
});

const retriedDeliveries = documented("DeliveryRetries", {
  data: z
    .array(
      z.object({
        id: z.string(),
        delivery: deliverySchema.optional().describe("The delivery: it waits for its turn."),
        problem: problemSchema
          .optional()
          .describe("Why it is not sent again: the problem that a separate request would get."),
      }),
    )
    .describe("For each delivery, in the order given, either `delivery` or `problem`."),
});

export function registerDeliveries(api: Api): void {
  // Before the route of one delivery, whose path would match.
  api.openapi(tailRoute, async (c) => {
    const { destination_id: destinationId, type, tenant } = c.req.valid("query");
    const { now } = c.get("services");
    const tailed = await tailDeliveries(callerIn(c), {
      ...{ tenant, destinationId, type },
      last: c.req.header(LAST_EVENT_ID),
      render: ({ found, event: { tenant, type, acceptedAt } }) =>
        JSON.stringify({ ...storedDelivery(found, now()), tenant, type, timestamp: isoTime(acceptedAt) }),
    });
    return tailed.kind === "ok" ? c.body(tailed.value, 200, STREAM_HEADERS) : answerOf(tailed);
  });

  serve(api, "post", "/v1/deliveries/{id}/retry", retryDelivery, {
    summary: "Send a delivery again",
    tags,
    description:
      "Requeues a delivery that has ended, however it ended, with as many attempts and as much time as a new one. The " +
      "receiver gets the same id and the same bytes with a fresh signature, and `webhook-attempt` begins at 1 again. Its " +
      "log stays. A delivery that has not ended is refused with 409.",
    responses: answers(200, deliverySchema, "The delivery: it waits for its turn.", 404, 409),
  });

  for (const path of ["/v1/deliveries/retry", "/v1/deliveries/repair"]) api.use(path, postOnly);
  serve(api, "post", "/v1/deliveries/retry", retryDeliveries, {
    summary: "Send several deliveries again",
    tags,
    description: `The same for up to ${MOST_IDS} deliveries. Each is requeued or refused separately.`,
    body: deliveryIds,
    input: ({ json }) => json.delivery_ids,
    view: (all) => ({
      data: all.map(({ id, result }) =>
        result.kind === "ok" ? { id, delivery: result.value } : { id, problem: problemOf(result) },
      ),
    }),
    responses: answers(200, retriedDeliveries, "What became of each.", "body"),
  });

  serve(api, "post", "/v1/deliveries/repair", repairDeliveries, {
    summary: "Retry or cancel all that a filter finds",
    tags,
    description:
      "Takes the conditions of the list of deliveries, and retries or cancels what they find. Each delivery is repaired or left " +
      `by itself. A request repairs ${MOST_IDS} at most: repeat it with \`next_cursor\` as \`cursor\` until that is null. It may ` +
      "repair none and still have a `next_cursor`. To send a whole period again at a pace, start replays.",
    body: repairQuery,
    input: ({ json: { action, ...query } }) => ({ action, chosen: { kind: "found", query } }),
    view: ({ done, skipped, next }) => ({
      ...{ repaired: done, skipped: [...skipped] },
      next_cursor: cursorAfter(next && placesOf(next)),
    }),
    responses: answers(200, repairedDeliveries, "How many were repaired, and why others were not.", "body"),
  });

  serve(api, "get", "/v1/deliveries", getDeliveries, {
    summary: "List deliveries",
    tags,
    description:
      "In descending order of destination and event; for one destination, the newest event first. A page examines at most " +
      "a few hundred deliveries and destinations: it may be short, or empty, and still have a `next_cursor`. Deliveries " +
      "without an attempt that do not wait are listed only with `state=queued`: the newest event first, then those that " +
      "are scheduled for later, the earliest first. With `order=event` or a `tag` the list has deliveries in all states, by " +
      "event alone.",
    query: deliveryQuery,
    view: ({ deliveries, next }) => pageWithNext(deliveries, next && placesOf(next)),
    responses: answers(200, pageOf(deliverySchema), "A page of deliveries.", 422),
  });

  serve(api, "get", "/v1/deliveries/{id}", getDelivery, {
    summary: "Show a delivery and its attempts",
    tags,
    responses: answers(200, deliverySchema, "The delivery.", 404),
  });

  serve(api, "get", "/v1/deliveries/{id}/attempts/{at}", getAttempt, {
    summary: "Show an attempt with its request and response",
    tags,
    description:
      "If the deployment stores exchanges (R2), those marked as `archived` in the delivery's log are shown as they " +
      "were, with up to 64 KB of the response. Of others, the log has the beginning of the response.",
    params: attemptParam,
    input: ({ param: { id: delivery, at } }) => ({ delivery, at }),
    responses: answers(200, attemptSchema, "The attempt.", 404),
  });

  serve(api, "post", "/v1/deliveries/{id}/cancel", cancelOneDelivery, {
    summary: "Cancel a delivery",
    tags,
    description:
      "Ends a delivery that is queued, waits or is to be retried: it is `cancelled`, and no attempt is made. May be repeated. " +
      "While an attempt is under way, and once the delivery is delivered or dead, it is refused with 409. An attempt that " +
      "begins at the same moment may still arrive. A cancelled delivery may be sent again.",
    responses: answers(200, deliverySchema, "The delivery, cancelled.", 404, 409),
  });

  serve(api, "post", "/v1/deliveries/{id}/skip", skipDelivery, {
    summary: "Skip a dead delivery that holds its key",
    tags,
    description:
      'At a destination with `on_dead: "hold"` a dead delivery holds the key of its event. Skipping lets the key continue with ' +
      "the next event; the delivery stays dead. Any other delivery is refused with 409: cancel one that has not ended.",
    responses: answers(200, deliverySchema, "The delivery, which no longer holds its key.", 404, 409),
  });

  serve(api, "get", "/v1/destinations/{id}/blocked-keys", getBlockedKeys, {
    summary: "List the blocked keys of a destination",
    tags: ["Destinations"],
    description:
      "The keys of a destination with `ordering` whose deliveries wait for the first one, or that are held, each " +
      "with that first delivery. A page examines a hundred keys: it may be short, or empty, and still have a `next_cursor`.",
    query: blockedKeysQuery,
    view: ({ keys, next }) => pageWithNext(keys.map(blockedKeyView), next),
    responses: answers(200, pageOf(blockedKey), "A page of blocked keys.", 404, 422),
  });

  serve(api, "post", "/v1/destinations/{id}/cancel-waiting", cancelWaiting, {
    summary: "Cancel what waits for a destination",
    tags: ["Destinations"],
    description:
      "Cancels the deliveries that are `waiting` for the destination, all or some, and those `queued` behind others of their keys; " +
      "others that are `queued` or `retrying` must be cancelled individually. A request cancels a few thousand at most: repeat it with `next_cursor` as `cursor` until that " +
      "is null. What begins to wait meanwhile may be left. Each may be sent again later.",
    optionalBody: waitingQuery,
    input: ({ param: { id: destination }, json }) => ({ ...json, destination }),
    view: ({ next, ...counts }) => ({ ...counts, next_cursor: cursorAfter(next) }),
    responses: answers(200, cancelledDeliveries, "How many were cancelled.", "body", 404),
  });
}
