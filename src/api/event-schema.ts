/** An event in JSON: as it is posted, as it is accepted, as it is shown. */
import { z } from "@hono/zod-openapi";
import { deliverySchema } from "./delivery-schema.ts";
import { eventType, tenantName } from "./names.ts";
import { strict } from "./strict.ts";

/** Of one event as JSON, alone or in a batch. */
export const MAX_EVENT_BYTES = 256 * 1024;
/** Events in one batch. */
export const MAX_BATCH = 1000;
const TIME_EXPECTED = "expected a time in ISO 8601 with Z or an offset";

const EVENTS_EXPECTED = `expected a list of 1 to ${MAX_BATCH} events`;

export const newEvent = strict({
  type: eventType,
  data: z.unknown().openapi({ description: "Any JSON value, delivered as it is." }),
  tenant: tenantName.optional(),
  deliver_at: z.iso
    .datetime({ offset: true, error: TIME_EXPECTED })
    .transform((text) => Date.parse(text))
    .optional()
    .openapi({
      type: "string",
      format: "date-time",
      description:
        "Not to be delivered before this, at most 30 days ahead; at once when it is over. Who gets the event is " +
        "decided when it is accepted. (The example is an hour after the event of the other examples.)",
      example: "2026-11-21T10:00:00Z",
    }),
}).openapi("NewEvent", { required: ["type", "data"] });

const events = z
  .array(newEvent, { error: EVENTS_EXPECTED })
  .min(1, { error: EVENTS_EXPECTED })
  .max(MAX_BATCH, { error: EVENTS_EXPECTED, abort: true });

export const newEvents = strict({ events }).openapi("NewEvents");

/** For the description alone: lines are judged as the `NewEvents` that they stand for. */
export const newEventLines = {
  type: "string" as const,
  description: `One NewEvent as JSON on each line, 1 to ${MAX_BATCH} of them; blank lines are passed over.`,
  example:
    '{"type":"invoice.paid","data":{"invoice":"inv_42"}}\n{"type":"invoice.paid","data":{"invoice":"inv_43"}}\n',
};

export const acceptedEvent = z
  .object({
    id: z.string(),
    deliver_at: z.iso.datetime().optional().openapi({ description: "Present when it is not at once." }),
    hint: z.string().optional().openapi({
      description: "Present when no destination takes the event: it is stored, and nobody will get it.",
    }),
    deliveries: z.array(z.object({ id: z.string(), destination_id: z.string(), state: z.literal("queued") })),
  })
  .openapi("AcceptedEvent");

export const acceptedEvents = z.object({ events: z.array(acceptedEvent) }).openapi("AcceptedEvents");

export const eventSchema = z
  .object({
    id: z.string(),
    tenant: z.string(),
    type: z.string(),
    timestamp: z.iso.datetime(),
    deliver_at: z.iso.datetime().optional(),
    data: z.unknown(),
    deliveries: z.array(deliverySchema),
  })
  .openapi("Event");
