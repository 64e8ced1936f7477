/**
 * Cancelling: a delivery that has not ended, and what waits for a destination.
 *
 * An attempt that is under way is never cancelled, because nobody could tell how it ends: such a delivery is refused, or
 * left out. The destination's gate is asked which these are, and told afterwards what has changed, so that no sender goes on
 * with what it has read before.
 */

import { createRoute, z } from "@hono/zod-openapi";
import { ageLimitOf } from "../../core/retry/policy.ts";
import { recheckAtGate } from "../../gate/client.ts";
import { requires } from "../../http/auth.ts";
import type { Api } from "../../http/context.ts";
import { jsonBody } from "../../http/json-body.ts";
import {
  cursorParam,
  encodeCursor,
  eventTypePattern,
  idParam,
  jsonAnswer,
  optionalJson,
  rangeErrors,
  strict,
  timeParam,
} from "../../http/parameters.ts";
import { invalid, notFound, problem, problemResponses } from "../../http/problems.ts";
import { deliveryId, deliveryKey } from "../../ids.ts";
import type { Services } from "../../services.ts";
import { cancelDelivery, cancelEach, type WaitingFilter, waitingPage } from "../../store/cancellations.ts";
import { allOf } from "../../store/databases.ts";
import { dueAtOf, liveUntilOf } from "../../store/deliveries.ts";
import type { DeliveryRow } from "../../store/delivery.ts";
import { overBy } from "../../store/delivery-filter.ts";
import type { FoundDelivery } from "../../store/delivery-list.ts";
import { findDestination, retryPolicyOf } from "../../store/destinations.ts";
import { findDelivery } from "../../store/planned-deliveries.ts";
import { idRangeOf } from "../../store/time-ranges.ts";
import { changed } from "../audit/routes.ts";
import { deliverySchema, showDeliveries } from "./routes.ts";

export function registerCancellations(api: Api): void {
  api.openapi(cancelRoute, async (c) => {
    const services = c.get("services");
    const { id } = c.req.valid("param");
    const { tenant } = c.get("principal");
    const key = deliveryKey(id);
    const found = key && (await findDelivery(services, key, tenant, overBy(services)));
    if (!found) return notFound("delivery", id);
    const row = isCancelled(found) ? undefined : await cancelOne(services, found);
    if (row === "unreachable") return problem(503, UNREACHABLE);
    if (typeof row === "string") return problem(409, row);
    if (row) changed(c, "delivery.cancelled", { id, tenant: found.destination?.tenant ?? null });
    const [shown] = await showDeliveries(services, [row ? { ...found, kind: "stored", row } : found]);
    return shown ? c.json(shown, 200) : notFound("delivery", id);
  });

  api.openapi(cancelWaitingRoute, async (c) => {
    const services = c.get("services");
    const { id } = c.req.valid("param");
    const { since, until, event_types: eventTypes, cursor } = c.req.valid("json");
    const errors = rangeErrors(since, until);
    if (errors.length > 0) return invalid(errors);
    const destination = await findDestination(services.db, id, c.get("principal").tenant);
    if (destination === undefined) return notFound("destination", id);
    const cancelled = await cancelSome(services, id, { since, until, eventTypes }, cursor ?? [0, 0]);
    if (cancelled === undefined) return problem(503, UNREACHABLE);
    const { next, ...counts } = cancelled;
    if (counts.cancelled > 0) changed(c, "deliveries.cancelled", destination);
    services.log({ what: "waiting_cancelled", destination: id, ...counts });
    return c.json({ ...counts, next_cursor: next ? encodeCursor(next) : null }, 200);
  });
}

const UNREACHABLE = "The destination's gate cannot be reached at the moment";

const cancelRoute = createRoute({
  method: "post",
  path: "/v1/deliveries/{id}/cancel",
  summary: "Cancel a delivery",
  tags: ["Deliveries"],
  description:
    "Ends a delivery that is queued, waits or is to be retried: it is `cancelled`, and no attempt is made. May be repeated. " +
    "While an attempt is under way, and once the delivery is delivered or dead, it is refused with 409. An attempt that " +
    "begins at the same moment may still arrive. A cancelled delivery may be sent again.",
  middleware: [requires("admin")],
  request: { params: idParam },
  responses: {
    200: jsonAnswer(deliverySchema, "The delivery, cancelled."),
    ...problemResponses(401, 403, 404, 409, 503),
  },
});

const TYPES_EXPECTED = "expected a list of 1 to 100 event types or patterns";

/** The number of the database, and the last event looked at in it. */
const position = z.tuple([z.int().nonnegative(), z.int().nonnegative()]);

const whatWaits = strict({
  since: timeParam.optional().openapi({
    description: "Only events that were accepted at this time or later.",
    example: "2026-11-20T09:00:00Z",
  }),
  until: timeParam.optional().openapi({
    description: "Only events that were accepted before this time.",
    example: "2026-11-20T10:00:00Z",
  }),
  event_types: z
    .array(eventTypePattern, { error: TYPES_EXPECTED })
    .min(1, { error: TYPES_EXPECTED })
    .max(100, { error: TYPES_EXPECTED })
    .nullish()
    .openapi({ description: "Only events of these types; all when left out." }),
  cursor: cursorParam(position),
}).openapi("WaitingFilter");

const cancelled = z
  .object({
    cancelled: z.int().openapi({ description: "Deliveries that were cancelled by this request." }),
    in_flight: z.int().openapi({ description: "Deliveries left out because an attempt was under way." }),
    next_cursor: z.string().nullable().openapi({
      description: "Null when nothing is left to look at; else the `cursor` of the next request.",
    }),
  })
  .openapi("CancelledDeliveries");

const cancelWaitingRoute = createRoute({
  method: "post",
  path: "/v1/destinations/{id}/cancel-waiting",
  summary: "Cancel what waits for a destination",
  tags: ["Destinations"],
  description:
    "Cancels the deliveries that are `waiting` for the destination, all or some; those that are `queued` or `retrying` are " +
    "cancelled by themselves. A request cancels a few thousand at most: repeat it with `next_cursor` as `cursor` until that " +
    "is null. What begins to wait meanwhile may be left. Each may be sent again later.",
  middleware: [requires("admin"), jsonBody({ mayBeEmpty: true })],
  request: { params: idParam, body: optionalJson(whatWaits) },
  responses: {
    200: jsonAnswer(cancelled, "How many were cancelled."),
    ...problemResponses(400, 401, 403, 404, 413, 415, 422, 503),
  },
});

const IN_FLIGHT = "An attempt of the delivery is under way. Repeat the request when it has failed";

function isCancelled(found: FoundDelivery): boolean {
  if (found.kind === "stored") return found.row.state === "cancelled";
  return found.destination === null || found.destination.deletedAt !== null;
}

/** The cancelled delivery, or why it is not: `unreachable` is its gate. */
async function cancelOne(services: Services, found: FoundDelivery): Promise<DeliveryRow | string> {
  const { eventId, destinationId } = found;
  if (found.kind === "stored") {
    const { state, reason } = found.row;
    if (state === "delivered" || state === "dead") return `The delivery has ended: it is ${state}`;
    if (reason === "in_flight") return IN_FLIGHT;
  }
  const inFlight = await recheckAtGate(services, destinationId, [eventId]);
  if (inFlight === undefined) return "unreachable";
  if (inFlight.includes(eventId)) return IN_FLIGHT;
  const row = await cancelDelivery(services, found, giveUpAtOf(found), services.now());
  if (row === undefined)
    return "The delivery has just ended, or an attempt of it has begun: look at it again";
  await recheckAtGate(services, destinationId, [eventId]);
  const delivery = deliveryId(eventId, destinationId);
  services.log({ what: "delivery_cancelled", delivery, destination: destinationId });
  return row;
}

function giveUpAtOf(found: FoundDelivery): number {
  if (found.kind === "stored") return found.row.giveUpAt;
  const policy = retryPolicyOf(found.destination ?? { retry: null });
  return ageLimitOf(policy, null, dueAtOf(found), liveUntilOf(found));
}

/** Pages of one request: each of up to 500 rows and 20 packs, which hold 100 deliveries at most. */
const PAGES = 4;

type Position = z.infer<typeof position>;

type Cancelled = Readonly<{ cancelled: number; in_flight: number; next: Position | undefined }>;

/** Undefined when the gate cannot be reached, and nothing has been cancelled. */
async function cancelSome(
  services: Services,
  destination: string,
  filter: WaitingFilter,
  [number, event]: Position,
): Promise<Cancelled | undefined> {
  const all = allOf(services);
  let next: Position | undefined = [number, event];
  let [count, left] = [0, 0];
  for (let pages = 0; pages < PAGES && next !== undefined; pages++) {
    const [at, after]: Position = next;
    const db = all[at];
    if (db === undefined) return { cancelled: count, in_flight: left, next: undefined };
    const { first, last } = await idRangeOf(db, filter);
    const page = await waitingPage(db, destination, { after: Math.max(after, first - 1), last }, filter);
    if (page.events.length > 0) {
      const inFlight = await recheckAtGate(services, destination, page.events);
      if (inFlight === undefined) return count > 0 ? { cancelled: count, in_flight: left, next } : undefined;
      const busy = new Set(inFlight);
      const open = page.events.filter((one) => !busy.has(one));
      count += await cancelEach(db, destination, open, services.now());
      left += busy.size;
      await recheckAtGate(services, destination, open);
    }
    next = page.upto !== undefined ? [at, page.upto] : at + 1 < all.length ? [at + 1, 0] : undefined;
  }
  return { cancelled: count, in_flight: left, next };
}
