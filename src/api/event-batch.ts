/** Events accepted in batches, as JSON or as lines: all of a batch or none. */
import { createRoute } from "@hono/zod-openapi";
import { acceptEvents, type GivenEvent } from "./accept-events.ts";
import { requires } from "./auth.ts";
import type { Api } from "./context.ts";
import { byLine, eventLines, NDJSON } from "./event-lines.ts";
import { acceptedEvents, MAX_EVENT_BYTES, newEventLines, newEvents } from "./event-schema.ts";
import { errorsOf, type FieldError } from "./field-errors.ts";
import { idempotencyHeaders, replayedHeader } from "./idempotency.ts";
import { withinIngestLimit } from "./ingest-limit.ts";
import { jsonBody } from "./json-body.ts";
import { invalid, problem, problemResponses } from "./problems.ts";
import { alsoAs, jsonAnswer, jsonRequest } from "./route-parts.ts";

const MAX_BATCH_BYTES = 1024 * 1024;

const asJson = jsonBody({
  maxBytes: MAX_BATCH_BYTES,
  exactNumbers: true,
  types: `application/json or ${NDJSON}`,
});

const postEvents = createRoute({
  method: "post",
  path: "/v1/events/batch",
  summary: "Post many events at once",
  tags: ["Events"],
  description:
    "All of the events are accepted, or none. One request makes at most 100,000 deliveries, unless the deployment " +
    "says otherwise (`MAX_DELIVERIES_PER_REQUEST`).",
  middleware: [
    requires("events:write"),
    withinIngestLimit,
    eventLines({ maxBytes: MAX_BATCH_BYTES, maxLineBytes: MAX_EVENT_BYTES }, asJson),
  ],
  request: { headers: idempotencyHeaders, body: alsoAs(NDJSON, newEventLines, jsonRequest(newEvents)) },
  responses: {
    202: jsonAnswer(acceptedEvents, "The events are stored; the answer is in their order.", replayedHeader),
    ...problemResponses(400, 401, 403, 409, 413, 415, 422, 429),
  },
});

/** Registered before the events, among whose ids `batch` would be looked for. */
export function registerEventBatch(api: Api): void {
  api.use(postEvents.path, async (c, next) => (c.req.method === "POST" ? next() : c.notFound()));
  api.openapi(
    postEvents,
    async (c) => {
      const { events: given } = c.req.valid("json");
      const tooLarge = c.get("bodyBytes") > MAX_EVENT_BYTES ? oversized(given) : [];
      if (tooLarge.length > 0) return problem(413, "An event of the batch is too large", tooLarge);
      const { "idempotency-key": key } = c.req.valid("header");
      const fieldOf = (i: number, field: string) => `events[${i}].${field}`;
      const acceptance = await acceptEvents(c, { events: given, key, fieldOf });
      return acceptance.kind === "refused" ? acceptance.answer : c.json({ events: acceptance.events }, 202);
    },
    (result, c) => (result.success ? undefined : invalid(byLine(c.get("lines"), errorsOf(result)))),
  );
}

/** Looked for only in a body that is larger than one event may be. */
function oversized(events: readonly GivenEvent[]): FieldError[] {
  const sizes = events.map((event) => new TextEncoder().encode(JSON.stringify(event)).byteLength);
  return sizes.flatMap((bytes, i) =>
    bytes > MAX_EVENT_BYTES
      ? [{ field: `events[${i}]`, fault: `is ${bytes} bytes`, expected: `at most ${MAX_EVENT_BYTES}` }]
      : [],
  );
}
