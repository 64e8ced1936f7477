/**
 * Deliveries and their attempts in the API: what is posted, queried and shown, and how that is validated. The OpenAPI
 * document is made from these schemas too.
 */
import { z } from "@hono/zod-openapi";
import { encodings, MOST_BODY_BYTES } from "../../core/archive.ts";
import { attemptErrors, type Cause, deliveryReasons, type ShownReason } from "../../core/reasons.ts";
import { deliveryId, eventId } from "../../ids.ts";
import { storedStatus } from "../../store/delivery.ts";
import { type BlockedLine, COUNTED_BEHIND } from "../../store/lines.ts";
import {
  cursorParam,
  documented,
  eventTag,
  eventTypePattern,
  eventTypePatterns,
  idParam,
  limitParam,
  nonEmptyList,
  strict,
  tenantName,
  textField,
  time,
  timeParam,
  timeRange,
  wholeNumberFrom,
  wholeNumberOf,
} from "../parameters.ts";

export const deliveryStates = ["queued", "waiting", "retrying", "delivered", "dead", "cancelled"] as const;

/**
 * `http_503` and the like. The pattern has the cast's type in the document and in its TypeScript. It aborts, so that a union
 * names all alternatives.
 */
const httpCause = z.string().regex(/^http_[1-9][0-9]{2}$/, { abort: true });

const cause = z.union([z.enum(attemptErrors), httpCause]) as unknown as z.ZodType<Cause>;

const REASON_EXPECTED = `expected one of ${deliveryReasons.join(", ")}, or http_ and a status code, as in http_503`;

const deliveryReason = z.union(
  [z.enum(deliveryReasons), httpCause],
  REASON_EXPECTED,
) as unknown as z.ZodType<ShownReason>;

const attempt = z.object({
  at: time.describe("When the attempt started."),
  status: z.int().optional().describe("The status code of the response."),
  latency_ms: z.number(),
  error: z
    .enum(attemptErrors)
    .optional()
    .describe(
      "Why there was no response of the receiver. With a `status` beside it, Cloudflare's edge responded in its place.",
    ),
  note: z.string().optional().describe("A remark, such as that a `Retry-After` was ignored."),
  response: z.string().optional().describe("The beginning of the response body."),
  archived: z
    .literal(true)
    .optional()
    .describe("More of the response, and the request, is stored: `GET /v1/deliveries/{id}/attempts/{at}`."),
});

export const deliverySchema = documented("Delivery", {
  id: z.string(),
  event_id: z.string(),
  destination_id: z.string(),
  state: z.enum(deliveryStates),
  reason: deliveryReason
    .optional()
    .describe(
      "Why the delivery is in this state: why it waits, how its last attempt failed (`http_503` and the like, or an " +
        "error), or why it has ended. Absent when it is `delivered`, or `queued` and neither scheduled nor behind another.",
    ),
  waits_for: z
    .string()
    .optional()
    .describe(
      "Present with the reasons `order` and `order_held` while it is `queued`: the first event of its key.",
    ),
  attempts: z
    .int()
    .describe(
      "HTTP exchanges made, counted anew when the delivery is sent again; `log` has the earlier ones too. Nothing else " +
        "counts as an attempt: no refusal, no crash.",
    ),
  next_attempt_at: time.optional().describe("Present while the delivery is `retrying`."),
  waiting_until: time
    .optional()
    .describe("When it stops waiting at the earliest. Absent when that is not known, as during a pause."),
  transform_fault: z
    .string()
    .optional()
    .describe(
      "With the reason `transform_failed`, when the delivery is read alone: the transformation's fault, and where it is.",
    ),
  group: z
    .string()
    .optional()
    .describe("With the reason `group`: the group whose limit applies. Only operators see it."),
  give_up_at: time.describe(
    "When the delivery is given up: `give_up_after` its first attempt; while it has none, " +
      "`expire_unattempted_after` it was due. In any case when the `ttl` of its event ends.",
  ),
  last_status: z.int().optional().describe("The status code of the last attempt's response."),
  last_error: cause
    .optional()
    .describe(
      "How the last attempt failed: `http_503` and the like, `timeout`, `connection_lost` (the request may have " +
        "arrived), `refused`, `dns`, `tls`, `network`, or `challenged` (a firewall asked for proof that a person sends " +
        "the request). `last_status` may be present with each of them: Cloudflare's edge then responded in the " +
        "receiver's place.",
    ),
  delivered_at: time.optional(),
  log: z.array(attempt).describe("The attempts, the oldest first."),
});

export type DeliveryJson = z.infer<typeof deliverySchema>;

const STATUS_EXPECTED = "an HTTP status code, 100 to 999; `state` has the states, such as dead";

const position = z
  .tuple([z.string(), z.int().nonnegative()])
  .transform(([destinationId, eventId]) => ({ destinationId, eventId }));

/** A position in each database; with one database, without the list around it. */
export const deliveryCursor = z.union([position.transform((key) => [key]), z.array(position).min(2)]);

const orders = ["destination", "event"] as const;

export const deliveryQuery = strict({
  destination_id: z.string().optional().describe("Only deliveries to this destination."),
  state: z.enum(deliveryStates).optional().describe("Only deliveries in this state."),
  tenant: tenantName.optional().describe("Only deliveries of this tenant's events."),
  type: eventTypePattern
    .optional()
    .describe("Only deliveries of events of this type, or of types with this prefix."),
  tag: eventTag
    .optional()
    .describe(
      "Only deliveries of events with this tag: in any state, the newest event first. Tags belong to tenants: a key that is " +
        "bound to none names `tenant` or `destination_id` too.",
    ),
  status: textField(STATUS_EXPECTED, { pattern: /^[1-9][0-9]{2}$/ })
    .transform(Number)
    .describe("Only deliveries whose last attempt was answered with this status code.")
    .optional(),
  reason: deliveryReason
    .openapi({ description: "Only deliveries with this reason, as it is stored.", example: "exhausted" })
    .optional(),
  ...timeRange("deliveries of events that were accepted"),
  order: z
    .enum(orders, `expected ${orders.join(" or ")}`)
    .default("destination")
    .describe(
      "`event`: the newest event first, for all destinations, in all states. `destination`: see above.",
    ),
  limit: limitParam,
  cursor: cursorParam(deliveryCursor),
});

// ── Attempts ──

const archiveStates = ["kept", "none", "missing", "unavailable"] as const;

const encoded = {
  encoding: z.enum(encodings).describe("How `body` is written: as text, or in base64."),
  body: z.string(),
};

const headers = z.record(z.string(), z.string());

export const attemptParam = idParam.extend({
  at: z.string().describe("The `at` of the attempt, as the delivery's log has it."),
});

export const attemptSchema = documented("Attempt", {
  delivery_id: z.string(),
  at: time.describe("When the attempt started: its name within the delivery."),
  status: z.int().optional(),
  error: z.enum(attemptErrors).optional(),
  latency_ms: z.number(),
  note: z.string().optional(),
  archive: z
    .enum(archiveStates)
    .describe(
      "`kept`: the request and the response are as they were. Otherwise the response is the beginning that the delivery's " +
        "log has: `none`, because there was no more to store; `missing`, because it could not be stored, or is not stored yet; " +
        "`unavailable`, because it cannot be read at the moment.",
    ),
  request: z
    .object({
      url: z.string(),
      headers: headers.describe("Secrets and signatures are masked."),
      ...encoded,
      body: z
        .string()
        .nullable()
        .describe("Made from the event; null when its content has been erased or is damaged."),
    })
    .nullable()
    .describe(
      "With `archive` other than `kept`, as it would be made now; null when the destination is gone.",
    ),
  response: z
    .object({
      headers: headers
        .nullable()
        .describe("Null unless the answer was archived. Cookies and repeated secrets are masked."),
      ...encoded,
      is_whole: z
        .boolean()
        .describe(`Whether that is all of the body: at most ${MOST_BODY_BYTES} bytes are stored.`),
    })
    .nullable()
    .describe("Null when there was none, or when it was not stored."),
});

export type AttemptJson = z.infer<typeof attemptSchema>;

// ── Sending again and cancelling ──

/** Deliveries of one request: as many as a page of a list has. */
export const MOST_IDS = 100;

export const deliveryIds = strict({
  delivery_ids: nonEmptyList(textField("the id of a delivery"), MOST_IDS, "ids of deliveries").describe(
    "An id that is given twice counts once.",
  ),
}).openapi("DeliveryIds");

/** The actions on many deliveries at once. */
export const repairActions = ["retry", "cancel"] as const;
export type RepairAction = (typeof repairActions)[number];

const { order: _, limit: __, status: ___, ...deliveryConditions } = deliveryQuery.shape;

/** The conditions of the list of deliveries, as JSON. */
export const repairQuery = strict({
  action: z
    .enum(repairActions, `expected ${repairActions.join(" or ")}`)
    .describe(
      "`retry` sends ended deliveries once more, delivered ones too, and attempts at once those that are to be retried. " +
        "`cancel` ends the others.",
    ),
  ...deliveryConditions,
  status: wholeNumberOf(STATUS_EXPECTED, 100)
    .max(999, `expected ${STATUS_EXPECTED}`)
    .optional()
    .describe("Only deliveries whose last attempt was answered with this status code."),
  limit: wholeNumberFrom(1, MOST_IDS)
    .default(MOST_IDS)
    .describe("How many deliveries the request repairs at most."),
})
  .refine(
    ({ action: _, limit: __, cursor: ___, ...conditions }) =>
      Object.values(conditions).some((condition) => condition !== undefined),
    "expected at least one condition beside the action, such as destination_id or state",
  )
  .openapi("DeliveryRepair");

const nextRequest = z
  .string()
  .nullable()
  .describe("Null when nothing is left; else the `cursor` of the next request.");

export const repairedDeliveries = documented("RepairedDeliveries", {
  repaired: z.int().describe("Deliveries that were sent again, or cancelled."),
  skipped: z
    .array(z.object({ why: z.string(), count: z.int() }))
    .describe("Deliveries that were left as they are, by the reason."),
  next_cursor: nextRequest,
});

/** The number of the database, the last event read in it, and, while lines are read, that event's line. */
const waitingPosition = z.union([
  z.tuple([z.int().nonnegative(), z.int().nonnegative()]),
  z.tuple([z.int().nonnegative(), z.int().nonnegative(), z.string()]),
]);

export const waitingQuery = strict({
  since: timeParam.optional().openapi({
    description: "Only events that were accepted at this time or later.",
    example: "2026-11-20T09:00:00Z",
  }),
  until: timeParam.optional().openapi({
    description: "Only events that were accepted before this time.",
    example: "2026-11-20T10:00:00Z",
  }),
  event_types: eventTypePatterns.nullish().describe("Only events of these types; all when left out."),
  cursor: cursorParam(waitingPosition),
}).openapi("WaitingFilter");

export type WaitingPosition = z.infer<typeof waitingPosition>;

export const cancelledDeliveries = documented("CancelledDeliveries", {
  cancelled: z.int().describe("Deliveries that were cancelled by this request."),
  in_flight: z.int().describe("Deliveries left out because an attempt was under way."),
  next_cursor: nextRequest,
});

const linePosition = z.tuple([z.int().nonnegative(), z.string()]);

export const blockedKeysQuery = strict({ cursor: cursorParam(linePosition) });

export const blockedKey = documented("BlockedKey", {
  delivery_id: z.string().describe("The first delivery of the key: the others wait for it."),
  event_id: z.string(),
  state: z.enum(deliveryStates),
  reason: deliveryReason.optional(),
  held: z
    .boolean()
    .describe("Whether it is dead and holds the key, until it is retried with success, or skipped."),
  behind: z.int().describe(`Deliveries that wait for it; ${COUNTED_BEHIND} stands for more.`),
});

/** A blocked key as the API shows it. */
export function blockedKeyView({ head, isHeld, behind }: BlockedLine): z.infer<typeof blockedKey> {
  const { state, reason } = "state" in head ? storedStatus(head) : { state: "queued" as const, reason: null };
  return {
    delivery_id: deliveryId(head.eventId, head.destinationId),
    event_id: eventId(head.eventId),
    state,
    ...(reason !== null && { reason }),
    held: isHeld,
    behind,
  };
}

const { destination_id, tenant, type } = deliveryConditions;

/** Which deliveries the tail has. */
export const tailQuery = strict({ destination_id, tenant, type });
