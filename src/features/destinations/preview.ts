/** The preview of a destination: which of its tenant's last events its settings take, or others that are tried on them. */
import { createRoute, z } from "@hono/zod-openapi";
import { channelsInEffect, refusals } from "../../core/routing.ts";
import { requires } from "../../http/auth.ts";
import type { Api } from "../../http/context.ts";
import { jsonBody } from "../../http/json-body.ts";
import { idParam, jsonAnswer, optionalJson } from "../../http/parameters.ts";
import { notFound, problemResponses } from "../../http/problems.ts";
import { withinAnyReadLimit } from "../../http/rate-limit.ts";
import { deliveryId, eventId } from "../../ids.ts";
import type { Services } from "../../services.ts";
import { overBy } from "../../store/delivery-filter.ts";
import { type Destination, findDestination } from "../../store/destinations.ts";
import { BUNDLES_LOOKED_AT, listEvents, withinBytes } from "../../store/event-list.ts";
import { type Criteria, criteriaOf, isDataAsked, refusalsOf } from "../../store/event-refusals.ts";
import { isoTime } from "../../time.ts";
import { destinationTrial } from "./schema.ts";

/** Events that a preview is about at most. */
const MOST_EVENTS = 100;

export function registerDestinationPreview(api: Api): void {
  api.openapi(previewDestination, async (c) => {
    const services = c.get("services");
    const { id } = c.req.valid("param");
    const destination = await findDestination(services.db, id, c.get("principal").tenant);
    if (destination === undefined) return notFound("destination", id);
    const {
      event_types: types = destination.eventTypes,
      channels = destination.channels,
      filter = destination.filter,
    } = c.req.valid("json");
    const route = {
      ...criteriaOf(destination),
      types: types ?? null,
      channels: channelsInEffect(channels),
      filter: filter ?? null,
    };
    const events = await preview(services, destination, route);
    const taken = events.filter((event) => event.taken).length;
    return c.json({ events, taken, not_taken: events.length - taken }, 200);
  });
}

const reasons = [...refusals, "created_later", "corrupt", "erased"] as const;

const previewedEvent = z.object({
  event_id: z.string(),
  type: z.string(),
  timestamp: z.iso.datetime().openapi({ description: "When the event was accepted." }),
  taken: z.boolean().openapi({ description: "Whether an event like this one would be delivered to it." }),
  reason: z
    .enum(reasons)
    .nullable()
    .openapi({
      description:
        "Why it is not taken: its `type` is none of `event_types`, it has none of `channels` (`channel`), the `filter` does " +
        "not hold, it is content that is not JSON and the destination's `body` is not `data`, or what is stored of it is " +
        "damaged (`corrupt`) or has been `erased`, so that the filter cannot be tried. With `taken`, `created_later`: the destination did not exist yet when it was accepted.",
    }),
  delivery_id: z.string().optional().openapi({
    description: "Present when the event was taken at the time: its delivery to this destination.",
  }),
});

const previewSchema = z
  .object({
    events: z.array(previewedEvent).openapi({ description: "The newest first." }),
    taken: z.int().openapi({ description: "How many of them would be taken." }),
    not_taken: z.int(),
  })
  .openapi("DestinationPreview");

export type DestinationPreview = z.infer<typeof previewSchema>;

const previewDestination = createRoute({
  method: "post",
  path: "/v1/destinations/{id}/preview",
  summary: "Preview which events a destination takes",
  tags: ["Destinations"],
  description:
    `Tells which of the last events of its tenant, at most ${MOST_EVENTS}, the destination's \`event_types\`, ` +
    "`channels` and `filter` take, or those of the body, so that they can be tried before they are set. Nothing is " +
    `changed or sent. It looks at the last ${BUNDLES_LOOKED_AT} bundles, which other tenants' events share, and at 8 MB of bodies: where ` +
    "others post much, or events are large, fewer events are shown.",
  middleware: [requires("read", "preview_endpoint"), withinAnyReadLimit, jsonBody({ mayBeEmpty: true })],
  request: { params: idParam, body: optionalJson(destinationTrial) },
  responses: {
    200: jsonAnswer(previewSchema, "The last events, and whether each would be taken."),
    ...problemResponses(400, 401, 403, 404, 413, 415, 422),
  },
});

type Previewed = z.infer<typeof previewedEvent>;

async function preview(
  services: Services,
  { id, tenant, createdAt }: Destination,
  route: Criteria,
): Promise<Previewed[]> {
  const over = overBy(services);
  const page = await listEvents(services, { tenant, destination: id, over, limit: MOST_EVENTS });
  const { found: events } = withinBytes(page, (event) => isDataAsked(route, event));
  const refused = await refusalsOf(services, route, events);
  return events.map((event) => {
    const refusal = refused.get(event.id) ?? null;
    const isEarlier = event.acceptedAt < createdAt && !event.isPlanned;
    return {
      event_id: eventId(event.id),
      type: event.type,
      timestamp: isoTime(event.acceptedAt),
      taken: refusal === null,
      reason: refusal ?? (isEarlier ? "created_later" : null),
      ...(event.isPlanned && { delivery_id: deliveryId(event.id, id) }),
    };
  });
}
