/**
 * `GET /v1/deliveries/tail`: new deliveries as server-sent events (WHATWG HTML, section 9.2), and what becomes of them.
 *
 * The response asks D1 every few seconds for what is new, as long as somebody reads it, and ends after a minute: the
 * client connects again by itself, and goes on after the last event that it got. So an invocation stays far below the
 * platform's limits of queries, and a key that was revoked shows nothing for longer than that.
 */

import { createRoute, z } from "@hono/zod-openapi";
import { bundleOf, eventAt } from "../../core/bundle.ts";
import { refuseTenant } from "../../core/principal.ts";
import { requires } from "../../http/auth.ts";
import type { Api } from "../../http/context.ts";
import { eventTypePattern, strict, tenantName } from "../../http/parameters.ts";
import { answerOf, problemResponses } from "../../http/problems.ts";
import { eventId, eventNumber } from "../../ids.ts";
import { faultOf } from "../../log.ts";
import type { Services } from "../../services.ts";
import {
  newTail,
  resumeAfter,
  type Tail,
  type TailedDelivery,
  type TailFilter,
  tailAfter,
  tailStep,
  type Watermarks,
} from "../../store/delivery-tail.ts";
import { isoTime } from "../../time.ts";
import { showStored } from "./routes.ts";

/** Registered before the route of one delivery, whose path would match. */
export function registerDeliveryTail(api: Api): void {
  api.openapi(getTail, async (c) => {
    const services = c.get("services");
    const { destination_id: destinationId, type, ...query } = c.req.valid("query");
    const { tenant = query.tenant } = c.get("principal");
    const refusal = refuseTenant(c.get("principal"), query.tenant);
    if (refusal) return answerOf(refusal);
    const filter = { tenant, destinationId, type };
    const stream = await tailStream(services, filter, c.req.header(LAST_EVENT_ID), (one) =>
      JSON.stringify(tailedView(services, one)),
    );
    return c.body(stream, 200, STREAM_HEADERS);
  });
}

export const LAST_EVENT_ID = "last-event-id";

export const STREAM_HEADERS = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-store",
} as const;

/** A look every three seconds, and so many in one response: a minute. */
export const TAIL_EVERY_MS = 3_000;
const LOOKS = 20;
/** After how long the client connects again. */
const RETRY_MS = 1_000;

type Render = (one: TailedDelivery) => string | Promise<string>;

/**
 * The stream of a response. It looks only when what came before has been taken. The database is asked once before there is
 * a stream: rejects when that fails.
 * @param last the id of the last event that the client got; without one, or with an odd one, it begins now
 * @param render the data of an event
 */
export async function tailStream(
  services: Services,
  filter: TailFilter,
  last: string | undefined,
  render: Render,
): Promise<ReadableStream<Uint8Array>> {
  const { sleep, log } = services;
  const encoder = new TextEncoder();
  const closed = new AbortController();
  const after = watermarksIn(last);
  let tail: Tail = after ? tailAfter(after) : await newTail(services);
  let looks = 0;

  async function look(): Promise<string> {
    looks += 1;
    const step = await tailStep(services, filter, tail);
    tail = step.tail;
    const messages = [
      ...(step.isGap ? [messageOf("gap", "{}")] : []),
      ...(await Promise.all(step.news.map(async (one) => messageOf("delivery", await render(one))))),
    ];
    // An id without data shows that the connection is alive.
    return `${messages.join("")}id: ${idOf(resumeAfter(tail))}\n\n`;
  }

  const first = `retry: ${RETRY_MS}\nid: ${idOf(tail.after)}\n\n${after ? await look() : ""}`;
  return new ReadableStream<Uint8Array>(
    {
      start: (controller) => controller.enqueue(encoder.encode(first)),
      async pull(controller) {
        if (looks === LOOKS) return controller.close();
        try {
          await sleep(TAIL_EVERY_MS, closed.signal);
          controller.enqueue(encoder.encode(await look()));
        } catch (error) {
          if (closed.signal.aborted) return;
          log({ what: "tail_failed", fault: faultOf(error) });
          controller.close();
        }
      },
      cancel: () => closed.abort(),
    },
    { highWaterMark: 0 },
  );
}

function messageOf(event: "delivery" | "gap", data: string): string {
  const lines = data.split(/\r\n|\r|\n/).map((line) => `data: ${line}\n`);
  return `event: ${event}\n${lines.join("")}\n`;
}

const NOTHING_YET = "none";

/** No event has this index of a bundle. */
const BEHIND_ALL = 127;

/** Ids that no event has stand for the watermarks: numbers of bundles would tell how much others post. */
function idOf(after: Watermarks): string {
  return after.map((bundle) => (bundle === 0 ? NOTHING_YET : eventId(eventAt(bundle, BEHIND_ALL)))).join(".");
}

function watermarksIn(id: string | undefined): Watermarks | undefined {
  const places = id?.split(".").map((place) => {
    const event = eventNumber(place);
    return place === NOTHING_YET ? 0 : event && bundleOf(event);
  });
  return places?.every((place) => place !== undefined) ? places : undefined;
}

function tailedView({ now }: Services, { found, event }: TailedDelivery) {
  const { tenant, type, acceptedAt } = event;
  return { ...showStored(found, now()), tenant, type, timestamp: isoTime(acceptedAt) };
}

const tailQuery = strict({
  destination_id: z.string().optional().openapi({ description: "Only deliveries to this destination." }),
  tenant: tenantName.optional().openapi({ description: "Only deliveries of this tenant's events." }),
  type: eventTypePattern
    .optional()
    .openapi({ description: "Only deliveries of events of this type, or of types with this prefix." }),
});

const stream = {
  type: "string" as const,
  description:
    "Server-sent events: `delivery` with a Delivery and its event's `tenant`, `type` and `timestamp`, or `gap`.",
  example:
    'event: delivery\ndata: {"id":"dlv_…","state":"delivered","attempts":1,"type":"invoice.paid", …}\n\nid: evt_0jkm7tkww1kam\n\n',
};

const getTail = createRoute({
  method: "get",
  path: "/v1/deliveries/tail",
  summary: "Watch deliveries",
  description:
    "The deliveries of events that are accepted from now on, each when it is queued and whenever its state changes, as " +
    "server-sent events, looked for every three seconds. The response ends after a minute: connect again with the last " +
    "`id` in the header `Last-Event-ID`, as an `EventSource` does by itself. An event `gap` says that more has come " +
    "than is shown; the list of deliveries has all of it.",
  tags: ["Deliveries"],
  middleware: [requires("read")],
  request: { query: tailQuery },
  responses: {
    200: { description: "The stream.", content: { "text/event-stream": { schema: stream } } },
    ...problemResponses(401, 403, 422, 429),
  },
});
