/** The routes of events: posted one at a time or in batches, listed, and shown with their deliveries. */
import { createRoute, z } from "@hono/zod-openapi";
import { errorsOf } from "../../core/field-errors.ts";
import { parseExactly } from "../../core/json-value.ts";
import { type FieldError, withFieldNames } from "../../core/result.ts";
import { permitting } from "../../http/auth.ts";
import { type Api, callerIn } from "../../http/context.ts";
import { eventContent, noEventFields } from "../../http/event-content.ts";
import { jsonBody } from "../../http/json-body.ts";
import { refusesOwnAttempts } from "../../http/loops.ts";
import { eventLines, NDJSON, withLine, withLines } from "../../http/ndjson.ts";
import { answerOf, invalid, problemResponses } from "../../http/problems.ts";
import { withinIngestLimit } from "../../http/rate-limit.ts";
import { alsoAs, answers, jsonAnswer, jsonRequest, postOnly, serve } from "../../http/routes.ts";
import { BUNDLES_LOOKED_AT } from "../../store/event-list.ts";
import { isoTime } from "../../time.ts";
import { cursorAfter, idempotencyKey, pageOf } from "../parameters.ts";
import {
  acceptedEvent,
  acceptedEvents,
  anyContent,
  contentQuery,
  eventQuery,
  eventSchema,
  listedEvent,
  lookedBack,
  MAX_BATCH,
  MAX_BATCH_BYTES,
  MAX_EVENT_BYTES,
  newEvent,
  newEventLines,
  newEvents,
  ofOne,
  placesIn,
} from "./schema.ts";
import { eventView, findEvents, getEvent, postEvents } from "./service.ts";

export function registerEvents(api: Api): void {
  // Before the route of one event, whose path would match `batch`.
  api.use(postManyRoute.path, postOnly);
  api.openapi(
    postManyRoute,
    async (c) => {
      const { events } = c.req.valid("json");
      const { "idempotency-key": key } = c.req.valid("header");
      const posted = await postEvents(callerIn(c), { events, key, bytes: c.get("bodyBytes") });
      if (posted.kind !== "ok")
        return answerOf(withFieldNames(posted, (error) => withLine(c.get("lines"), ofHeader(error))));
      if (posted.value.isReplayed) c.header(REPLAYED, "true");
      return c.json({ events: posted.value.events }, 202);
    },
    (result, c) => (result.success ? undefined : invalid(withLines(c.get("lines"), errorsOf(result)))),
  );

  api.openapi(postOneRoute, async (c) => {
    const { "idempotency-key": key } = c.req.valid("header");
    const posted = await postEvents(callerIn(c), { events: [c.req.valid("json")], key });
    if (posted.kind !== "ok") return answerOf(withFieldNames(posted, (error) => ofOne(ofHeader(error))));
    if (posted.value.isReplayed) c.header(REPLAYED, "true");
    const [event] = posted.value.events;
    if (event === undefined) throw new Error("An accepted event must have an id");
    return c.json(event, 202);
  });

  serve(api, "get", "/v1/events/{id}", getEvent, {
    summary: "Show an event and its deliveries",
    description: "Each delivery with its state, its attempts, why it waits and until when.",
    tags,
    input: ({ param: { id } }) => ({ id, parse: parseExactly }),
    responses: answers(200, eventSchema, "The event and its deliveries.", 404),
  });

  serve(api, "get", "/v1/events", findEvents, {
    summary: "List events",
    description:
      "The newest first, those without a destination too, for as long as the deployment keeps them. A page reads up to " +
      `${BUNDLES_LOOKED_AT} bundles, which other tenants' events share: it may be short, or empty, and still have a ` +
      "`next_cursor`; `looked_back_to` shows the progress. Deliveries are shown with each event, and listed at " +
      "`/v1/deliveries`.",
    tags,
    query: eventQuery,
    input: ({ query: { type, data, ...query } }) => ({
      ...query,
      types: type === undefined ? undefined : [type],
      withData: data === "true",
    }),
    view: ({ events, data, next, lookedBackTo }) => ({
      data: events.map((event) => ({
        ...eventView(event),
        ...(data && (data.get(event.id) ?? { data: null })),
      })),
      next_cursor: cursorAfter(next && placesIn(next)),
      looked_back_to: isoTime(lookedBackTo ?? null),
    }),
    responses: answers(
      200,
      pageOf(listedEvent).extend({ looked_back_to: lookedBack }),
      "A page of events.",
      422,
    ),
  });
}

const KEY_HEADER = "idempotency-key";

function ofHeader({ field, ...error }: FieldError): FieldError {
  return { ...error, field: field === "idempotency_key" ? KEY_HEADER : field };
}

const idempotencyHeaders = z.object({
  [KEY_HEADER]: idempotencyKey.openapi({
    description:
      "Repeated with the same content, the request gets its first answer again; with other content, 409. " +
      "A key belongs to a tenant: the key of a batch to the tenant of its last event.",
    example: "order-4711-paid",
  }),
});

const REPLAYED = "idempotent-replayed";

const replayedHeader = z.object({
  [REPLAYED]: z
    .literal("true")
    .optional()
    .describe("Present when an earlier request with the same key stored the events."),
});

const tags = ["Events"];

const postOneRoute = createRoute({
  method: "post",
  path: "/v1/events",
  summary: "Post an event",
  description:
    "Once this is answered with 202, the event is stored, and is delivered at least once to every destination of its " +
    "tenant that takes it. With `type` in the query the body is not JSON but the event's content, of any content type: it " +
    'is stored and sent to the byte, to destinations with `body: "data"`.',
  tags,
  middleware: [
    permitting(postEvents.permission),
    withinIngestLimit,
    refusesOwnAttempts,
    eventContent(
      MAX_EVENT_BYTES,
      jsonBody({
        maxBytes: MAX_EVENT_BYTES,
        exactNumbers: true,
        types: "application/json, or any type of content with the event's `type` in the query",
      }),
    ),
  ],
  request: {
    headers: idempotencyHeaders,
    query: contentQuery,
    body: alsoAs("application/octet-stream", anyContent, jsonRequest(newEvent)),
  },
  responses: {
    202: jsonAnswer(
      acceptedEvent,
      "The event is stored, and will be delivered to these destinations.",
      replayedHeader,
    ),
    ...problemResponses(400, 401, 403, 409, 413, 415, 422, 429, 503),
  },
});

const postManyRoute = createRoute({
  method: "post",
  path: "/v1/events/batch",
  summary: "Post a batch of events",
  tags,
  description:
    "All of the events are accepted, or none. One request makes at most 100,000 deliveries, unless the deployment " +
    "sets another limit (`MAX_DELIVERIES_PER_REQUEST`).",
  middleware: [
    permitting(postEvents.permission),
    withinIngestLimit,
    refusesOwnAttempts,
    noEventFields,
    eventLines(
      { maxBytes: MAX_BATCH_BYTES, maxLineBytes: MAX_EVENT_BYTES, maxEvents: MAX_BATCH },
      jsonBody({ maxBytes: MAX_BATCH_BYTES, exactNumbers: true, types: `application/json or ${NDJSON}` }),
    ),
  ],
  request: { headers: idempotencyHeaders, body: alsoAs(NDJSON, newEventLines, jsonRequest(newEvents)) },
  responses: {
    202: jsonAnswer(
      acceptedEvents,
      "The events are stored; the answer lists them in the order of the request.",
      replayedHeader,
    ),
    ...problemResponses(400, 401, 403, 409, 413, 415, 422, 429, 503),
  },
});
