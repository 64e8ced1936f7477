/** The preview of a destination: which of its tenant's last events its settings take, or others that are tried on them. */
import { z } from "@hono/zod-openapi";
import { ok } from "../../core/result.ts";
import { channelsInEffect, refusals } from "../../core/routing.ts";
import { deliveryId, eventId } from "../../ids.ts";
import type { Services } from "../../services.ts";
import { overBy } from "../../store/delivery-filter.ts";
import type { Destination } from "../../store/destination.ts";
import { listEvents, withinBytes } from "../../store/event-list.ts";
import { type Criteria, criteriaOf, isDataAsked, refusalsOf } from "../../store/event-refusals.ts";
import { isoTime } from "../../time.ts";
import { documented, time } from "../parameters.ts";
import { destinationService } from "./one.ts";
import type { destinationDraft } from "./schema.ts";

/** Events that a preview is about at most. */
export const MOST_PREVIEWED = 100;

const reasons = [...refusals, "created_later", "corrupt", "erased"] as const;

const previewedEvent = z.object({
  event_id: z.string(),
  type: z.string(),
  timestamp: time.describe("When the event was accepted."),
  taken: z.boolean().describe("Whether an event like this one would be delivered to it."),
  reason: z
    .enum(reasons)
    .nullable()
    .describe(
      "Why it is not taken: its `type` is none of `event_types`, it has none of `channels` (`channel`), the `filter` does " +
        "not hold, it is content that is not JSON and the destination's `body` is not `data`, or what is stored of it is " +
        "damaged (`corrupt`) or has been `erased`, so that the filter cannot be tried. With `taken`, `created_later`: the destination did not exist yet when it was accepted.",
    ),
  delivery_id: z
    .string()
    .optional()
    .describe("Present when the event was taken at the time: its delivery to this destination."),
});

export const previewSchema = documented("DestinationPreview", {
  events: z.array(previewedEvent).describe("The newest first."),
  taken: z.int().describe("How many of them would be taken."),
  not_taken: z.int(),
});

export type DestinationPreview = z.infer<typeof previewSchema>;

type Preview = Readonly<{ id: string }> & z.infer<typeof destinationDraft>;

/**
 * Which of the tenant's last events the destination takes with these settings; the destination's settings apply if they
 * are left out. Nothing is changed or sent.
 */
export const previewDestination = destinationService(
  { scope: "read", action: "preview_endpoint" },
  async ({ services }, destination, tried: Preview) => {
    const {
      event_types: types = destination.eventTypes,
      channels = destination.channels,
      filter = destination.filter,
    } = tried;
    const route = {
      ...criteriaOf(destination),
      types: types ?? null,
      channels: channelsInEffect(channels),
      filter: filter ?? null,
    };
    const events = await preview(services, destination, route);
    const taken = events.filter((event) => event.taken).length;
    return ok({ events, taken, not_taken: events.length - taken });
  },
);

async function preview(
  services: Services,
  { id, tenant, createdAt }: Destination,
  route: Criteria,
): Promise<z.infer<typeof previewedEvent>[]> {
  const over = overBy(services);
  const page = await listEvents(services, { tenant, destination: id, over, limit: MOST_PREVIEWED });
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
