/**
 * Deliveries: listed and shown.
 *
 * Why a delivery waits, and until when, is shown as its gate says now: the row has what was true when the wait began.
 * A gate is called once for all the deliveries of its destination on a page, and only when one of them waits.
 */

import { createRoute, z } from "@hono/zod-openapi";
import { type Principal, refuseTenant } from "../../core/principal.ts";
import {
  type AttemptError,
  attemptErrors,
  type Cause,
  type DeliveryReason,
  deliveryReasons,
} from "../../core/reasons.ts";
import { invalidFields, type Refused } from "../../core/result.ts";
import { ageLimitOf } from "../../core/retry/policy.ts";
import { refusalAtGate } from "../../gate/client.ts";
import { requires } from "../../http/auth.ts";
import type { Api } from "../../http/context.ts";
import {
  cursorParam,
  encodeCursor,
  eventTypePattern,
  idParam,
  jsonAnswer,
  limitParam,
  pageOf,
  rangeErrors,
  strict,
  tenantName,
  timeParam,
} from "../../http/parameters.ts";
import { answerOf, notFound, problemResponses } from "../../http/problems.ts";
import { deliveryId, deliveryKey, eventId } from "../../ids.ts";
import type { Services } from "../../services.ts";
import type { Databases } from "../../store/databases.ts";
import { dueAtOf, liveUntilOf } from "../../store/deliveries.ts";
import { deliveriesByEvent } from "../../store/deliveries-by-event.ts";
import type { AttemptEntry, DeliveryRow, StoredState } from "../../store/delivery.ts";
import { overBy } from "../../store/delivery-filter.ts";
import {
  type FoundDelivery,
  type ListFilter,
  type MergedPage,
  type Positions,
  storedDeliveries,
} from "../../store/delivery-list.ts";
import {
  type Destination,
  destinationsByIds,
  gateSettingsOf,
  retryPolicyOf,
} from "../../store/destinations.ts";
import { findDelivery, queuedDeliveries } from "../../store/planned-deliveries.ts";
import { isoTime } from "../../time.ts";
import { eventTag } from "../events/options.ts";

export function registerDeliveries(api: Api): void {
  api.openapi(getDeliveries, async (c) => {
    const services = c.get("services");
    const listed = await listDeliveries(services, c.get("principal"), c.req.valid("query"));
    if (listed.kind === "refused") return answerOf(listed.refusal);
    const { found, next } = listed.page;
    const data = await showDeliveries(services, found);
    return c.json({ data, next_cursor: next ? encodeCursor(placesOf(next)) : null }, 200);
  });

  api.openapi(getDelivery, async (c) => {
    const { id } = c.req.valid("param");
    const shown = await showDelivery(c.get("services"), id, c.get("principal").tenant);
    return shown ? c.json(shown, 200) : notFound("delivery", id);
  });
}

export const deliveryStates = ["queued", "waiting", "retrying", "delivered", "dead", "cancelled"] as const;

const time = z.iso.datetime();

/** `http_503` and the like. The pattern has the cast's type in the document and in its TypeScript. */
const httpCause = (error?: string) => z.string().regex(/^http_[1-9][0-9]{2}$/, { error });

const cause = z.union([z.enum(attemptErrors), httpCause()]) as unknown as z.ZodType<Cause>;

const REASON_EXPECTED = `expected one of ${deliveryReasons.join(", ")}, or http_ and a status code, as in http_503`;

const deliveryReason = z.union([
  z.enum(deliveryReasons, { error: REASON_EXPECTED }),
  httpCause(REASON_EXPECTED),
]) as unknown as z.ZodType<DeliveryReason>;

const attempt = z.object({
  at: time.openapi({ description: "When the attempt started." }),
  status: z.int().optional().openapi({ description: "The status code of the response." }),
  latency_ms: z.number(),
  error: z.enum(attemptErrors).optional().openapi({
    description:
      "Why there was no response of the receiver. With a `status` beside it, Cloudflare's edge responded in its place.",
  }),
  note: z.string().optional().openapi({ description: "A remark, such as that a `Retry-After` was ignored." }),
  response: z.string().optional().openapi({ description: "The beginning of the response body." }),
  archived: z.literal(true).optional().openapi({
    description:
      "There is more of the response than here, and of the request: `GET /v1/deliveries/{id}/attempts/{at}`.",
  }),
});

export const deliverySchema = z
  .object({
    id: z.string(),
    event_id: z.string(),
    destination_id: z.string(),
    state: z.enum(deliveryStates),
    reason: deliveryReason.optional().openapi({
      description:
        "Why the delivery is in this state: why it waits, how its last attempt failed (`http_503` and the like, or an " +
        "error), or why it has ended. Absent when it is `delivered`, or `queued` and not scheduled for later.",
    }),
    attempts: z.int().openapi({
      description: "HTTP exchanges made. Nothing else counts as an attempt: no refusal, no crash.",
    }),
    next_attempt_at: time.optional().openapi({ description: "Present while the delivery is `retrying`." }),
    waiting_until: time.optional().openapi({
      description: "When it stops waiting at the earliest. Absent when that is not known, as during a pause.",
    }),
    give_up_at: time.openapi({
      description:
        "When the delivery is given up: `give_up_after` its first attempt; while it has none, " +
        "`expire_unattempted_after` it was due. In any case when the `ttl` of its event ends.",
    }),
    last_status: z
      .int()
      .optional()
      .openapi({ description: "The status code of the last attempt's response." }),
    last_error: cause.optional().openapi({
      description:
        "How the last attempt failed: `http_503` and the like, `timeout`, `connection_lost` (the request may have " +
        "arrived), `refused`, `dns`, `tls`, `network`, or `challenged` (a firewall asked for proof that a person sends " +
        "the request). `last_status` may be present with each of them: Cloudflare's edge then responded in the " +
        "receiver's place.",
    }),
    delivered_at: time.optional(),
    log: z.array(attempt).openapi({ description: "The attempts, the oldest first." }),
  })
  .openapi("Delivery");

export type DeliveryJson = z.infer<typeof deliverySchema>;

const STATUS_EXPECTED = "expected an HTTP status code, 100 to 999";

const position = z
  .tuple([z.string(), z.int().nonnegative()])
  .transform(([destinationId, eventId]) => ({ destinationId, eventId }));

/** A position in each database; with one database, without the list around it. */
export const deliveryCursor = z.union([position.transform((key) => [key]), z.array(position).min(2)]);

const orders = ["destination", "event"] as const;
type Order = (typeof orders)[number];
const ORDER_EXPECTED = `expected ${orders.join(" or ")}`;

export const deliveryQuery = strict({
  destination_id: z.string().optional().openapi({ description: "Only deliveries to this destination." }),
  state: z.enum(deliveryStates).optional().openapi({ description: "Only deliveries in this state." }),
  tenant: tenantName.optional().openapi({ description: "Only deliveries of this tenant's events." }),
  type: eventTypePattern
    .optional()
    .openapi({ description: "Only deliveries of events of this type, or of types with this prefix." }),
  tag: eventTag.optional().openapi({
    description:
      "Only deliveries of events with this tag: in any state, the newest event first. Tags belong to tenants: a key that is " +
      "bound to none names `tenant` or `destination_id` too.",
  }),
  status: z
    .string()
    .regex(/^[1-9][0-9]{2}$/, { error: STATUS_EXPECTED })
    .transform(Number)
    .openapi({ description: "Only deliveries whose last attempt was answered with this status code." })
    .optional(),
  reason: deliveryReason
    .openapi({ description: "Only deliveries with this reason, as it is stored.", example: "exhausted" })
    .optional(),
  since: timeParam
    .optional()
    .openapi({ description: "Only deliveries of events that were accepted at this time or later." }),
  until: timeParam.optional().openapi({
    description: "Only deliveries of events that were accepted before this time; it is after `since`.",
  }),
  order: z.enum(orders, { error: ORDER_EXPECTED }).default("destination").openapi({
    description:
      "`event`: the newest event first, whatever its destinations, in all states. `destination`: see above.",
  }),
  limit: limitParam,
  cursor: cursorParam(deliveryCursor),
});

const tags = ["Deliveries"];

const getDeliveries = createRoute({
  method: "get",
  path: "/v1/deliveries",
  summary: "List deliveries",
  tags,
  description:
    "In descending order of destination and event; for one destination, the newest event first. A page examines at most " +
    "a few hundred deliveries and destinations: it may be short, or empty, and still have a `next_cursor`. Deliveries " +
    "without an attempt that do not wait are listed only with `state=queued`: the newest event first, then those that " +
    "are scheduled for later, the earliest first. With `order=event` or a `tag` the list has deliveries in all states, by " +
    "event alone.",
  middleware: [requires("read")],
  request: { query: deliveryQuery },
  responses: {
    200: jsonAnswer(pageOf(deliverySchema), "A page of deliveries."),
    ...problemResponses(401, 403, 422, 429),
  },
});

const getDelivery = createRoute({
  method: "get",
  path: "/v1/deliveries/{id}",
  summary: "Show a delivery and its attempts",
  tags,
  middleware: [requires("read")],
  request: { params: idParam },
  responses: { 200: jsonAnswer(deliverySchema, "The delivery."), ...problemResponses(401, 403, 404, 429) },
});

type DeliveryQuery = Omit<z.infer<typeof deliveryQuery>, "order"> & Readonly<{ order?: Order }>;

type Listed =
  | Readonly<{ kind: "page"; page: MergedPage }>
  | Readonly<{ kind: "refused"; refusal: Refused<"forbidden" | "invalid"> }>;

/** A page of the list that the query asks for, or why the principal cannot have it. */
export async function listDeliveries(
  services: Services,
  principal: Principal,
  { destination_id: destinationId, cursor: before, since, until, order, ...query }: DeliveryQuery,
): Promise<Listed> {
  const errors = rangeErrors(since, until);
  if (errors.length > 0) return { kind: "refused", refusal: invalidFields(errors) };
  const { tenant = query.tenant } = principal;
  const refusal = refuseTenant(principal, query.tenant);
  if (refusal) return { kind: "refused", refusal };
  const accepted = since === undefined && until === undefined ? undefined : { since, until };
  const filter = { ...query, destinationId, tenant, accepted, before, over: overBy(services) };
  const page = await pageOfState(services, query.state, order, filter);
  if (page === undefined) return { kind: "refused", refusal: invalidFields([tagWithoutTenant(query.tag)]) };
  return { kind: "page", page };
}

/** The tenant of a destination, deleted or not; an id that names none has none that could be found. */
async function ownerOf({ db }: Databases, destination: string | undefined): Promise<string | undefined> {
  if (destination === undefined) return undefined;
  const [row] = await destinationsByIds(db, [destination]);
  return row?.tenant ?? "";
}

function tagWithoutTenant(tag: string | undefined) {
  const fault = `is ${JSON.stringify(tag)}, and no tenant is named`;
  return { field: "tag", fault, expected: "tenant or destination_id beside it: tags belong to tenants" };
}

/** Undefined when a tag is asked for, and nothing tells of which tenant. */
async function pageOfState(
  databases: Databases,
  state: StoredState | "queued" | undefined,
  order: Order | undefined,
  filter: ListFilter,
): Promise<MergedPage | undefined> {
  const { tag, tenant, destinationId } = filter;
  if (tag !== undefined) {
    const owner = tenant ?? (await ownerOf(databases, destinationId));
    return owner === undefined
      ? undefined
      : deliveriesByEvent(databases, { tenant: owner, tag, state }, filter);
  }
  if (order === "event") return deliveriesByEvent(databases, { tenant, state }, filter);
  if (state !== "queued") return storedDeliveries(databases, state, filter);
  // A queued delivery has neither an attempt nor a stored reason.
  const matchesNone = filter.status !== undefined || filter.reason !== undefined;
  return matchesNone ? { found: [], next: undefined } : queuedDeliveries(databases, filter);
}

/** Where a page begins, as its cursor has it. */
export function placesOf(positions: Positions): unknown {
  const places = positions.map(({ destinationId, eventId }) => [destinationId, eventId]);
  return places.length === 1 ? places[0] : places;
}

/** Gates called for one answer: as many as a page of a list has deliveries. An event may have more destinations. */
const MAX_GATES = 100;

/** The delivery of the id as it is shown; undefined when there is none that the tenant may see. */
export async function showDelivery(
  services: Services,
  id: string,
  tenant: string | undefined,
): Promise<DeliveryJson | undefined> {
  const key = deliveryKey(id);
  const found = key && (await findDelivery(services, key, tenant, overBy(services)));
  const [shown] = await showDeliveries(services, found ? [found] : []);
  return shown;
}

/** Deliveries as the API and the dashboard show them. */
export async function showDeliveries(
  services: Services,
  found: readonly FoundDelivery[],
): Promise<DeliveryJson[]> {
  const refusals = await refusalsOf(services, destinationsWaitedFor(found).slice(0, MAX_GATES));
  const now = services.now();
  return found.map((delivery) => deliveryView(delivery, now, refusals.get(delivery.destinationId)));
}

/** A delivery as it is stored: why it waits is what was true when the wait began. Calls no gate. */
export function showStored(found: FoundDelivery, now: number): DeliveryJson {
  return deliveryView(found, now);
}

/** The destinations that waiting deliveries are for, each once. */
function destinationsWaitedFor(found: readonly FoundDelivery[]): Destination[] {
  const waiting = found.flatMap((delivery) =>
    delivery.kind === "stored" && delivery.row.state === "waiting" && delivery.destination
      ? [[delivery.destinationId, delivery.destination] as const]
      : [],
  );
  return [...new Map(waiting).values()];
}

/** Why a gate does not admit its waiting deliveries now, and until when (epoch ms). */
type CurrentRefusal = Readonly<{ reason: DeliveryReason; until: number | null }>;

async function refusalsOf(
  services: Services,
  destinations: readonly Destination[],
): Promise<Map<string, CurrentRefusal>> {
  const found = destinations.map(async (row) => {
    const refusal = await refusalAtGate(services, row.id, gateSettingsOf(row));
    return refusal ? ([[row.id, refusal]] as const) : [];
  });
  return new Map((await Promise.all(found)).flat());
}

/**
 * @param now epoch ms
 * @param refusal the gate's; without one a waiting delivery shows what its row has
 */
function deliveryView(found: FoundDelivery, now: number, refusal?: CurrentRefusal): DeliveryJson {
  return {
    id: deliveryId(found.eventId, found.destinationId),
    event_id: eventId(found.eventId),
    destination_id: found.destinationId,
    ...(found.kind === "stored" ? storedView(found.row, refusal) : plannedView(found, now)),
  };
}

type Progress = Omit<DeliveryJson, "id" | "event_id" | "destination_id">;

type Planned = Extract<FoundDelivery, { kind: "planned" }>;

/** A delivery without an outcome: queued, or cancelled when its destination is deleted. */
function plannedView(found: Planned, now: number): Progress {
  const policy = retryPolicyOf(found.destination ?? { retry: null });
  return {
    ...plannedState(found, now),
    attempts: 0,
    give_up_at: isoTime(ageLimitOf(policy, null, dueAtOf(found), liveUntilOf(found))),
    log: [],
  };
}

function plannedState({ destination, deliverAt }: Planned, now: number) {
  if (destination === null || destination.deletedAt !== null) {
    return { state: "cancelled", reason: "destination_deleted" } as const;
  }
  if (deliverAt === null || deliverAt <= now) return { state: "queued" } as const;
  return { state: "queued", reason: "scheduled", waiting_until: isoTime(deliverAt) } as const;
}

function storedView(row: DeliveryRow, refusal: CurrentRefusal | undefined): Progress {
  return {
    state: row.state,
    ...present({ reason: row.reason as DeliveryReason | null }),
    ...present(row.state === "waiting" ? waitView(row, refusal) : {}),
    attempts: row.attempts,
    ...present({ next_attempt_at: row.state === "retrying" ? isoTime(row.nextAttemptAt) : null }),
    give_up_at: isoTime(row.giveUpAt),
    ...present({ last_status: row.lastStatus, last_error: row.lastError as Cause | null }),
    ...present({ delivered_at: row.state === "delivered" ? isoTime(row.endedAt) : null }),
    log: row.log.map(attemptView),
  };
}

function waitView(row: DeliveryRow, refusal: CurrentRefusal | undefined) {
  if (refusal) return { reason: refusal.reason, waiting_until: isoTime(refusal.until) };
  return { reason: row.reason as DeliveryReason | null, waiting_until: isoTime(row.nextAttemptAt) };
}

function attemptView(entry: AttemptEntry): DeliveryJson["log"][number] {
  const { at, latencyMs, status, error, note, excerpt, archived } = entry;
  return {
    at: isoTime(at),
    ...present({ status }),
    latency_ms: latencyMs,
    ...present({ error: error as AttemptError | undefined, note, response: excerpt, archived }),
  };
}

/** Without the fields that are null or undefined. */
function present<T extends object>(fields: T): { [K in keyof T]?: NonNullable<T[K]> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value != null)) as {
    [K in keyof T]?: NonNullable<T[K]>;
  };
}
