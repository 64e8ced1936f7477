/** An event in JSON: as it is posted, as it is accepted, as it is shown. */
import { z } from "@hono/zod-openapi";
import { deliverySchema } from "./delivery-schema.ts";
import { eventType, tenantName } from "./names.ts";
import { strict } from "./strict.ts";

const MAX_BATCH = 1000;

const EVENTS_EXPECTED = `expected a list of 1 to ${MAX_BATCH} events`;

export const newEvent = strict({
  type: eventType,
  data: z.unknown().openapi({ description: "Any JSON value, delivered as it is." }),
  tenant: tenantName.optional(),
}).openapi("NewEvent", { required: ["type", "data"] });

const events = z
  .array(newEvent, { error: EVENTS_EXPECTED })
  .min(1, { error: EVENTS_EXPECTED })
  .max(MAX_BATCH, { error: EVENTS_EXPECTED, abort: true });

export const newEvents = strict({ events }).openapi("NewEvents");

export const acceptedEvent = z
  .object({
    id: z.string(),
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
    data: z.unknown(),
    deliveries: z.array(deliverySchema),
  })
  .openapi("Event");
