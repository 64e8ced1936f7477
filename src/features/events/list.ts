/** `GET /v1/events`: the events, the newest first, without their deliveries. */

import { createRoute, z } from "@hono/zod-openapi";
import { isEventNumber } from "../../core/placement.ts";
import { refuseTenant } from "../../core/principal.ts";
import { requires } from "../../http/auth.ts";
import type { Api } from "../../http/context.ts";
import {
  cursorParam,
  encodeCursor,
  eventTypePattern,
  jsonAnswer,
  limitParam,
  pageOf,
  rangeErrors,
  strict,
  tenantName,
  timeParam,
} from "../../http/parameters.ts";
import { answerOf, invalid, problemResponses } from "../../http/problems.ts";
import { eventId, eventNumber } from "../../ids.ts";
import type { Services } from "../../services.ts";
import { overBy } from "../../store/delivery-filter.ts";
import {
  BUNDLES_LOOKED_AT,
  type EventPosition,
  eachBody,
  type ListedEvent,
  listEvents,
  withinBytes,
} from "../../store/event-list.ts";
import { isoTime } from "../../time.ts";
import { eventTag } from "./options.ts";
import { dataView } from "./routes.ts";

export function registerEventList(api: Api): void {
  api.openapi(getEvents, async (c) => {
    const services = c.get("services");
    const { type, tag, since, until, data, limit, cursor: from, ...query } = c.req.valid("query");
    const errors = rangeErrors(since, until);
    if (errors.length > 0) return invalid(errors);
    const { tenant = query.tenant } = c.get("principal");
    const refusal = refuseTenant(c.get("principal"), query.tenant);
    if (refusal) return answerOf(refusal);
    const types = type === undefined ? undefined : [type];
    const listed = await listEvents(services, {
      ...{ tenant, types, tag, over: overBy(services), from, limit },
      accepted: { since, until },
    });
    const isAsked = () => data === "true";
    const { found, next, lookedBackTo } = withinBytes(listed, isAsked);
    const shown = isAsked() ? await withData(services, found) : found.map(eventView);
    const looked_back_to = lookedBackView(lookedBackTo);
    return c.json({ data: shown, next_cursor: next ? cursorAt(next) : null, looked_back_to }, 200);
  });
}

/** An event as lists show it. */
export const listedEvent = z
  .object({
    id: z.string(),
    tenant: z.string(),
    type: z.string(),
    timestamp: z.iso.datetime().openapi({ description: "When the event was accepted." }),
    deliver_at: z.iso.datetime().optional().openapi({
      description: "Present when the event was scheduled for later.",
    }),
    tags: z.array(z.string()).optional(),
    channels: z.array(z.string()).optional(),
    ttl: z.int().optional(),
    content_type: z.string().optional().openapi({
      description: "Present when the event was posted as content of its own type.",
    }),
    content: z
      .literal("erased")
      .optional()
      .openapi({ description: "Present when the content has been erased." }),
    data: z.unknown().optional().openapi({
      description:
        "With `data=true`, as it was posted. Null when it is erased, or the stored bytes are damaged.",
    }),
    data_base64: z.string().optional().openapi({
      description: "In place of `data`, for content that is not UTF-8.",
    }),
  })
  .openapi("ListedEvent");

export type ListedEventJson = z.infer<typeof listedEvent>;

export const lookedBack = z.iso.datetime().nullable().openapi({
  description:
    "How far back this and the pages before it have looked: what was accepted later has been found. Null on the last page.",
});

const END = "end";

/** An event's id stands for a position: its number would tell how much others post. */
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

/** The cursor of the page that begins at these positions. */
export function cursorAt(positions: readonly EventPosition[]): string {
  return encodeCursor(placesIn(positions));
}

/** @param at epoch ms */
export function lookedBackView(at: number | undefined): string | null {
  return at === undefined ? null : isoTime(at);
}

type Shown = Pick<
  ListedEvent,
  "id" | "tenant" | "type" | "acceptedAt" | "deliverAt" | "tags" | "channels" | "ttlSeconds"
> &
  Readonly<{ contentType?: string | undefined; isErased: boolean }>;

/** Without its data. */
export function eventView(event: Shown): ListedEventJson {
  const { id, tenant, type, acceptedAt, deliverAt, tags, channels, ttlSeconds, contentType, isErased } =
    event;
  return {
    id: eventId(id),
    tenant,
    type,
    timestamp: isoTime(acceptedAt),
    ...(deliverAt !== null && { deliver_at: isoTime(deliverAt) }),
    ...(tags.length > 0 && { tags: [...tags] }),
    ...(channels.length > 0 && { channels: [...channels] }),
    ...(ttlSeconds !== undefined && { ttl: ttlSeconds }),
    ...(contentType !== undefined && { content_type: contentType }),
    ...(isErased && { content: "erased" as const }),
  };
}

async function withData(services: Services, events: readonly ListedEvent[]): Promise<ListedEventJson[]> {
  const data = new Map<number, ReturnType<typeof dataView>>();
  const kept = events.filter(({ isErased }) => !isErased);
  await eachBody(services, kept, ({ id, contentType }, body) =>
    data.set(id, dataView(body ?? null, contentType)),
  );
  return events.map((event) => ({ ...eventView(event), ...(data.get(event.id) ?? { data: null }) }));
}

const DATA_EXPECTED = "expected true or false";

const listQuery = strict({
  tenant: tenantName.optional().openapi({ description: "Only events of this tenant." }),
  type: eventTypePattern
    .optional()
    .openapi({ description: "Only events of this type, or of types with this prefix." }),
  tag: eventTag.optional().openapi({ description: "Only events with this tag." }),
  since: timeParam
    .optional()
    .openapi({ description: "Only events that were accepted at this time or later." }),
  until: timeParam
    .optional()
    .openapi({ description: "Only events that were accepted before this time; it is after `since`." }),
  data: z.enum(["true", "false"], { error: DATA_EXPECTED }).optional().openapi({
    description: "With `true`, each event has its `data`. A page then has 8 MB of bodies at most.",
  }),
  limit: limitParam,
  cursor: cursorParam(eventPositions),
});

const getEvents = createRoute({
  method: "get",
  path: "/v1/events",
  summary: "List events",
  description:
    "The newest first, those without a destination too, for as long as the deployment keeps them. A page looks at up to " +
    `${BUNDLES_LOOKED_AT} bundles, which other tenants' events share: it may be short, or empty, and still have a ` +
    "`next_cursor`; `looked_back_to` tells how far it has come. Deliveries are shown with each event, and listed at " +
    "`/v1/deliveries`.",
  tags: ["Events"],
  middleware: [requires("read")],
  request: { query: listQuery },
  responses: {
    200: jsonAnswer(pageOf(listedEvent).extend({ looked_back_to: lookedBack }), "A page of events."),
    ...problemResponses(401, 403, 422, 429),
  },
});
