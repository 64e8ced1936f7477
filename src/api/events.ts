/** Events: accepted one by one or in batches, and shown with all that became of them. */

import type { z } from "@hono/zod-openapi";
import { createRoute } from "@hono/zod-openapi";
import { accept } from "../delivery/ingest.ts";
import { deliveryId, eventId, eventRow } from "../id.ts";
import { findEvent } from "../store/planned-deliveries.ts";
import { type Principal, requires, tenantFor } from "./auth.ts";
import type { Api } from "./context.ts";
import { showDeliveries } from "./deliveries-shown.ts";
import { acceptedEvent, acceptedEvents, eventSchema, newEvent, newEvents } from "./event-schema.ts";
import { parseExactly } from "./exact-json.ts";
import type { FieldError } from "./field-errors.ts";
import { jsonBody, KIB } from "./json-body.ts";
import { noSuch, problem, problemResponses } from "./problems.ts";
import { idParam, jsonAnswer, jsonRequest } from "./route-parts.ts";

const tags = ["Events"];
const MAX_EVENT_BYTES = 256 * KIB;
const MAX_BATCH_BYTES = 1024 * KIB;

const postEvent = createRoute({
  method: "post",
  path: "/v1/events",
  tags,
  middleware: [requires("events:write"), jsonBody({ maxBytes: MAX_EVENT_BYTES, exactNumbers: true })],
  request: { body: jsonRequest(newEvent) },
  responses: {
    202: jsonAnswer(acceptedEvent, "The event is stored, and will be delivered to these destinations."),
    ...problemResponses(400, 401, 403, 413, 415, 422),
  },
});

const postEvents = createRoute({
  method: "post",
  path: "/v1/events/batch",
  tags,
  description: "All of the events are accepted, or none.",
  middleware: [requires("events:write"), jsonBody({ maxBytes: MAX_BATCH_BYTES, exactNumbers: true })],
  request: { body: jsonRequest(newEvents) },
  responses: {
    202: jsonAnswer(acceptedEvents, "The events are stored; the answer is in their order."),
    ...problemResponses(400, 401, 403, 413, 415, 422),
  },
});

const getEvent = createRoute({
  method: "get",
  path: "/v1/events/{id}",
  tags,
  middleware: [requires("read")],
  request: { params: idParam },
  responses: {
    200: jsonAnswer(eventSchema, "The event and its deliveries."),
    ...problemResponses(401, 403, 404),
  },
});

export function registerEvents(api: Api): void {
  api.openapi(postEvent, async (c) => {
    const events = ownedBy(c.get("principal"), [c.req.valid("json")]);
    if (events === undefined) return anotherTenants();
    const [accepted] = await accept(c.get("services"), events);
    if (accepted === undefined) throw new Error("An accepted event must have an id");
    return c.json(acceptedView(accepted), 202);
  });

  api.openapi(postEvents, async (c) => {
    const { events: given } = c.req.valid("json");
    const tooLarge = c.get("bodyBytes") > MAX_EVENT_BYTES ? oversized(given) : [];
    if (tooLarge.length > 0) return problem(413, "An event of the batch is too large", tooLarge);
    const events = ownedBy(c.get("principal"), given);
    if (events === undefined) return anotherTenants();
    return c.json({ events: (await accept(c.get("services"), events)).map(acceptedView) }, 202);
  });

  api.openapi(getEvent, async (c) => {
    const services = c.get("services");
    const { id } = c.req.valid("param");
    const row = eventRow(id);
    const found = row && (await findEvent(services.db, row, c.get("principal").tenant));
    if (!found) return noSuch("event", id);
    const { tenant, type, body } = found.event;
    const { timestamp, data } = parseExactly(body) as { timestamp: string; data: unknown };
    const deliveries = await showDeliveries(services, found.deliveries);
    return c.json({ id, tenant, type, timestamp, data, deliveries }, 200);
  });
}

type NewEvent = z.infer<typeof newEvent>;

/** The events with their tenants; undefined when one of them belongs to a tenant that the key does not. */
function ownedBy(principal: Principal, events: readonly NewEvent[]) {
  const owned = events.flatMap(({ type, data, tenant: named }) => {
    const tenant = tenantFor(principal, named);
    return tenant === undefined ? [] : [{ tenant, type, data }];
  });
  return owned.length === events.length ? owned : undefined;
}

function anotherTenants() {
  return problem(403, "The key belongs to another tenant");
}

/** Looked for only in a body that is larger than one event may be. */
function oversized(events: readonly NewEvent[]): FieldError[] {
  const sizes = events.map((event) => new TextEncoder().encode(JSON.stringify(event)).byteLength);
  return sizes.flatMap((bytes, i) =>
    bytes > MAX_EVENT_BYTES
      ? [{ field: `events[${i}]`, fault: `is ${bytes} bytes`, expected: `at most ${MAX_EVENT_BYTES}` }]
      : [],
  );
}

function acceptedView({ id, plan }: { id: number; plan: readonly string[] }): z.infer<typeof acceptedEvent> {
  const deliveries = plan.map((destination) => ({
    id: deliveryId(id, destination),
    destination_id: destination,
    state: "queued" as const,
  }));
  return { id: eventId(id), deliveries };
}
