/** Search in the API: its query and its results. The OpenAPI document is made from these schemas too. */
import { z } from "@hono/zod-openapi";
import { deliveryCursor, deliveryQuery, deliverySchema } from "../deliveries/schema.ts";
import { eventPositions, listedEvent } from "../events/schema.ts";
import {
  cursorParam,
  documented,
  eventTag,
  eventTypePattern,
  limitParam,
  strict,
  tenantName,
  time,
  timeParam,
} from "../parameters.ts";

const { status, reason, state, destination_id } = deliveryQuery.shape;

/** The conditions, as the lists of events and of deliveries take them. */
export const conditionFields = strict({
  ...{ status, reason, state, destination_id },
  type: eventTypePattern.optional(),
  tag: eventTag.optional(),
  tenant: tenantName.optional(),
  since: timeParam.optional(),
  until: timeParam.optional(),
});

const MATCHES = ["id", "idempotency_key", "uid", "name", "content", "conditions"] as const;

/** Deliveries that are shown of an event. */
export const MOST_DELIVERIES = 2;

const foundDelivery = z.object({
  id: z.string(),
  destination_id: z.string(),
  destination: z.string().describe("The destination's description, else its URL."),
  state: deliverySchema.shape.state,
  reason: deliverySchema.shape.reason,
});

export const searchResult = documented("SearchResult", {
  kind: z.enum(["event", "delivery", "destination", "replay", "key"]),
  id: z.string(),
  matched: z
    .enum(MATCHES)
    .describe(
      "The match: the `id`, the `idempotency_key` or the `uid` that it was given, a `name` (of its type, " +
        "its tags or its tenant), its `content`, or `conditions` alone.",
    ),
  tenant: z.string().optional(),
  at: time.optional().describe("When the event was accepted, or the object was created."),
  type: z.string().optional().describe("The type of the event, and of a delivery's event."),
  state: z.string().optional().describe("The status of a destination, the state of a replay."),
  name: z.string().optional().describe("The description of a destination, or its URL if it has none."),
  destination_id: z.string().optional().describe("The destination of a replay."),
  deliveries: z
    .array(foundDelivery)
    .optional()
    .describe(
      `The delivery itself, or the first ${MOST_DELIVERIES} of an event that was not found by its id: destination and state.`,
    ),
  delivery_count: z.int().optional().describe("How many deliveries an event has."),
  event: listedEvent.optional(),
  delivery: deliverySchema.optional(),
  excerpt: z
    .string()
    .optional()
    .describe("Present when a word was found only in the content: the text around it."),
});

export type SearchResultJson = z.infer<typeof searchResult>;

const cursorOfSearch = z.union([
  z.strictObject({ deliveries: deliveryCursor, events: z.undefined().optional() }),
  z.strictObject({ events: eventPositions, deliveries: z.undefined().optional() }),
]);

export type SearchCursor = z.infer<typeof cursorOfSearch>;

/** Characters of a search. */
const MOST_CHARACTERS = 256;
const Q_EXPECTED = `expected an id, or words and conditions, of 1 to ${MOST_CHARACTERS} characters`;

export const searchQuery = strict({
  q: z
    .string(Q_EXPECTED)
    .trim()
    .min(1, Q_EXPECTED)
    .max(MOST_CHARACTERS, Q_EXPECTED)
    .openapi({
      description:
        "An id of anything, or words and conditions: `type:`, `tag:`, `tenant:`, `since:` and `until:`, and for deliveries " +
        "`status:`, `reason:`, `state:` and `destination:`.",
      example: "inv_42 type:invoice.*",
    }),
  limit: limitParam,
  cursor: cursorParam(cursorOfSearch),
});
