/**
 * Events in the API: what is posted, queried and shown, and how that is validated. The OpenAPI document is made from these
 * schemas too.
 */
import { z } from "@hono/zod-openapi";
import { MAX_ORDERING_KEY } from "../../core/order.ts";
import { isEventNumber } from "../../core/placement.ts";
import { recordOf } from "../../core/record.ts";
import type { FieldError } from "../../core/result.ts";
import { eventChannels } from "../../core/routing.ts";
import { zodOf } from "../../core/zod-of.ts";
import { eventId, eventNumber } from "../../ids.ts";
import type { EventPosition } from "../../store/event-list.ts";
import { deliverySchema } from "../deliveries/schema.ts";
import { areDistinct, headerName, headerValue } from "../destinations/headers.ts";
import {
  cursorParam,
  documented,
  eventTag,
  eventType,
  eventTypePattern,
  flagParam,
  limitParam,
  nonEmptyList,
  strict,
  tenantName,
  textField,
  time,
  timeRange,
  trueOrFalse,
  wholeNumberFrom,
  wholeNumberOf,
} from "../parameters.ts";

// ── Posting ──

/** Bytes of one event as JSON, alone or in a batch. */
export const MAX_EVENT_BYTES = 256 * 1024;
/** Events in one batch. */
export const MAX_BATCH = 1000;
export const MAX_BATCH_BYTES = 1024 * 1024;
/** How far ahead an event may be scheduled. */
export const MAX_DAYS_AHEAD = 30;

const MAX_DESTINATIONS = 100;
const MAX_TAGS = 10;
const MAX_TTL_S = 30 * 86_400;
const MAX_HEADERS = 10;
const MAX_HEADER_BYTES = 2048;

const HEADERS_EXPECTED = `expected at most ${MAX_HEADERS} headers, each named once, of ${MAX_HEADER_BYTES} bytes together`;

/** The fields of an event that are its options. */
const optionFields = {
  destination_ids: nonEmptyList(textField("the id of a destination"), MAX_DESTINATIONS, "ids of destinations")
    .optional()
    .describe(
      "Only these of the tenant's destinations get the event, if their `event_types`, `channels` and `filter` match.",
    ),
  tags: nonEmptyList(eventTag, MAX_TAGS, "tags")
    .optional()
    .describe("Names by which deliveries can be listed and replayed. They are not sent."),
  channels: zodOf(eventChannels)
    .optional()
    .describe(
      "Destinations with `channels` get the event only when it has one of theirs; those without get it whatever its " +
        "channels. They are not sent.",
    ),
  ttl: wholeNumberFrom(1, MAX_TTL_S, " of seconds")
    .optional()
    .describe(
      "Seconds after which deliveries that have not succeeded are given up (`expired`), if their destination's policy " +
        "does not give up earlier. Counts from when the event is accepted, or from `deliver_at`.",
    ),
  headers: recordOf(headerName, headerValue, { error: "expected an object of strings" })
    .refine(areFewAndSmall, HEADERS_EXPECTED)
    .optional()
    .openapi({
      type: "object",
      additionalProperties: { type: "string" },
      description:
        "Headers to send with this event's deliveries. The destination's own headers and Breakwater's are set over " +
        "them. They are stored like the data, so don't put secrets in them.",
    }),
  ordering_key: textField(`1 to ${MAX_ORDERING_KEY} characters`, { min: 1, max: MAX_ORDERING_KEY })
    .optional()
    .describe(
      'A destination with `ordering: "key"` gets events with the same key in the order in which they were accepted. ' +
        "It is not sent, and excludes `deliver_at`.",
    ),
  validate: trueOrFalse
    .optional()
    .describe(
      "With true, `data` has to fit the schema of its type in the catalogue (`/v1/event-types`), even if the type does " +
        "not demand it of every event.",
    ),
  version: wholeNumberOf("the number of the type's newest version", 1)
    .optional()
    .describe(
      "The version of the type that `data` follows. It must be the newest, which is also the default.",
    ),
};

function areFewAndSmall(headers: Readonly<Record<string, string>>): boolean {
  const names = Object.keys(headers);
  const bytes = Object.entries(headers).reduce((sum, [name, value]) => sum + name.length + value.length, 0);
  return names.length <= MAX_HEADERS && areDistinct(names) && bytes <= MAX_HEADER_BYTES;
}

export const newEvent = strict({
  type: eventType,
  data: z.unknown().describe("Any JSON value; it is delivered unchanged."),
  tenant: tenantName.optional(),
  deliver_at: z.iso
    .datetime({ offset: true, error: "expected a time in ISO 8601 with Z or an offset" })
    .transform((text) => Date.parse(text))
    .optional()
    .openapi({
      type: "string",
      format: "date-time",
      description:
        `The event is not delivered before this time, at most ${MAX_DAYS_AHEAD} days ahead; a past time means at ` +
        "once. Its destinations are chosen when it is accepted. (The example is an hour after the event of the other " +
        "examples.)",
      example: "2026-11-21T10:00:00Z",
    }),
  ...optionFields,
}).openapi("NewEvent", { required: ["type", "data"] });

export type EventInput = z.infer<typeof newEvent>;

export const newEvents = strict({ events: nonEmptyList(newEvent, MAX_BATCH, "events") }).openapi("NewEvents");

/** An error about an event that came alone: its fields have no place in a list. */
export function ofOne({ field, ...error }: FieldError): FieldError {
  return { ...error, field: field.replace(/^events\[0\]\.?/, "") };
}

const repeated = z
  .unknown()
  .optional()
  .openapi({ description: "As in a NewEvent; once for each.", type: "array", items: { type: "string" } });

/** The fields of an event whose body is its content. For the document: they are read as those of a NewEvent. */
export const contentQuery = z.object({
  type: eventType.optional().describe("With it, the body is the event's content as it is."),
  tenant: tenantName.optional().describe("As in a NewEvent."),
  deliver_at: newEvent.shape.deliver_at,
  ttl: z.string().optional().openapi({ description: "As in a NewEvent.", type: "integer" }),
  ordering_key: z.string().optional().describe("As in a NewEvent."),
  tags: repeated,
  channels: repeated,
  destination_ids: repeated,
});

/** For the document only: content is read as it is. */
export const anyContent = {
  type: "string" as const,
  description: "With `type` in the query: content of any type, 1 to 262,144 bytes.",
  example: "<invoice>inv_42</invoice>",
};

/** For the document only: lines are validated as the `NewEvents` that they amount to. */
export const newEventLines = {
  type: "string" as const,
  description: `One NewEvent as JSON on each line, 1 to ${MAX_BATCH} of them; blank lines are ignored.`,
  example:
    '{"type":"invoice.paid","data":{"invoice":"inv_42"}}\n{"type":"invoice.paid","data":{"invoice":"inv_43"}}\n',
};

export const acceptedEvent = documented("AcceptedEvent", {
  id: z.string(),
  deliver_at: time.optional().describe("Present when the event is scheduled for later."),
  hint: z
    .string()
    .optional()
    .describe("Present when no destination takes the event: it is stored, but not delivered to anyone."),
  deliveries: z.array(z.object({ id: z.string(), destination_id: z.string(), state: z.literal("queued") })),
});

export type AcceptedEventJson = z.infer<typeof acceptedEvent>;

export const acceptedEvents = documented("AcceptedEvents", { events: z.array(acceptedEvent) });

export const eventSchema = documented("Event", {
  id: z.string(),
  tenant: z.string(),
  type: z.string(),
  timestamp: time.describe("When the event was accepted."),
  deliver_at: time.optional().describe("Present when the event was scheduled for later."),
  tags: z.array(z.string()).optional().describe("Present when it was posted with tags."),
  channels: z
    .array(z.string())
    .optional()
    .describe("Present when it was posted with channels; each once, in alphabetical order."),
  ttl: z.int().optional().describe("Present when it was posted with a time to live."),
  headers: z
    .record(z.string(), z.string())
    .optional()
    .describe(
      "Present when it was posted with headers. Their values are shown only to keys of the scope admin.",
    ),
  content_type: z
    .string()
    .optional()
    .describe("Present when the event was posted as content of its own type."),
  content: z
    .literal("erased")
    .optional()
    .describe("Present when the content has been erased: `data` is null, and nothing can be sent again."),
  data: z
    .unknown()
    .optional()
    .describe(
      "As it was posted; of content the text. Null when it is erased, or the stored bytes are damaged.",
    ),
  data_base64: z.string().optional().describe("In place of `data`, for content that is not UTF-8."),
  deliveries: z.array(deliverySchema),
});

export type EventJson = z.infer<typeof eventSchema>;

// ── Lists ──

const { id, tenant, type, timestamp, deliver_at, content_type, data_base64 } = eventSchema.shape;

/** An event as lists show it. */
export const listedEvent = documented("ListedEvent", {
  ...{ id, tenant, type, timestamp, deliver_at },
  tags: z.array(z.string()).optional(),
  channels: z.array(z.string()).optional(),
  ttl: z.int().optional(),
  content_type,
  content: z.literal("erased").optional().describe("Present when the content has been erased."),
  data: z
    .unknown()
    .optional()
    .describe("With `data=true`, as it was posted. Null when it is erased, or the stored bytes are damaged."),
  data_base64,
});

export type ListedEventJson = z.infer<typeof listedEvent>;

export const lookedBack = time
  .nullable()
  .describe(
    "How far back this and the pages before it have searched: all matches accepted later have been found. Null on the last page.",
  );

const END = "end";

/** An event's id stands for a position: its number would reveal how much others post. */
const position = z.string().transform((name, ctx): EventPosition => {
  const before = name === END ? 0 : eventNumber(name);
  if (before !== undefined) return before;
  ctx.addIssue({ code: "custom" });
  return z.NEVER;
});

/** The positions in a cursor of a list of events, one for each database. */
export const eventPositions = z.array(position).min(1);

/** Where a page begins, as its cursor has it. */
export function placesIn(positions: readonly EventPosition[]): string[] {
  return positions.map((before) => (isEventNumber(before) ? eventId(before) : END));
}

export const eventQuery = strict({
  tenant: tenantName.optional().describe("Only events of this tenant."),
  type: eventTypePattern.optional().describe("Only events of this type, or of types with this prefix."),
  tag: eventTag.optional().describe("Only events with this tag."),
  ...timeRange("events that were accepted"),
  data: flagParam.describe("With `true`, each event has its `data`. A page then has 8 MB of bodies at most."),
  limit: limitParam,
  cursor: cursorParam(eventPositions),
});
