/** Deliveries: listed and read. */
import { createRoute, z } from "@hono/zod-openapi";
import { ageLimitOf } from "../core/retry/policy.ts";
import { dueAtOf, requeueDead } from "../db/deliveries.ts";
import { overBy } from "../db/delivery-filter.ts";
import {
  type FoundDelivery,
  type ListFilter,
  type MergedPage,
  type Positions,
  storedDeliveries,
} from "../db/delivery-list.ts";
import { type Destination, gateSettingsOf, retryPolicyOf } from "../db/destinations.ts";
import { findDelivery, queuedDeliveries } from "../db/planned-deliveries.ts";
import type { AttemptEntry, DeliveryRow, StoredState } from "../db/schema.ts";
import type { Databases } from "../db/shards.ts";
import { refusalAtGate, scheduleDrainAtGate } from "../gate/client.ts";
import { deliveryId, deliveryKey, eventId } from "../ids.ts";
import type { Services } from "../services.ts";
import { isoTime } from "../time.ts";
import { requires } from "./auth.ts";
import type { Api } from "./context.ts";
import {
  cursorParam,
  encodeCursor,
  eventType,
  idParam,
  jsonAnswer,
  limitParam,
  pageOf,
  rangeErrors,
  strict,
  timeParam,
} from "./parameters.ts";
import { invalid, noSuch, problem, problemResponses } from "./problems.ts";

// §§ What is shown of a delivery: where it stands, why, and until when. Every page that shows one uses this.

/** Why a gate keeps its destination's deliveries waiting at this moment, and until when (epoch ms). */
type Outlook = Readonly<{ reason: string; until: number | null }>;

/**
 * `outlook` is that of the delivery's gate; without one a waiting delivery says what its row remembers.
 * @param now epoch ms
 */
function deliveryView(found: FoundDelivery, now: number, outlook?: Outlook): DeliveryJson {
  const names = {
    id: deliveryId(found.eventId, found.destinationId),
    event_id: eventId(found.eventId),
    destination_id: found.destinationId,
  };
  return {
    ...names,
    ...(found.kind === "stored" ? storedView(found.row, outlook) : plannedView(found, now)),
  };
}

type Standing = Omit<DeliveryJson, "id" | "event_id" | "destination_id">;

type Planned = Extract<FoundDelivery, { kind: "planned" }>;

/** No outcome yet: on its way, or not any more when its destination is gone. */
function plannedView(found: Planned, now: number): Standing {
  const policy = retryPolicyOf(found.destination ?? { retry: null });
  return {
    ...plannedState(found, now),
    attempts: 0,
    give_up_at: isoTime(ageLimitOf(policy, null, dueAtOf(found))),
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

function storedView(row: DeliveryRow, outlook: Outlook | undefined): Standing {
  return {
    state: row.state,
    ...present({ reason: row.reason }),
    ...present(row.state === "waiting" ? waitingUntil(row, outlook) : {}),
    attempts: row.attempts,
    ...present({ next_attempt_at: row.state === "retrying" ? isoTime(row.nextAttemptAt) : null }),
    give_up_at: isoTime(row.giveUpAt),
    ...present({ last_status: row.lastStatus, last_error: row.lastError }),
    ...present({ delivered_at: row.state === "delivered" ? isoTime(row.endedAt) : null }),
    log: row.log.map(attemptView),
  };
}

/** The gate knows better than the row, which was written when the delivery began to wait. */
function waitingUntil(row: DeliveryRow, outlook: Outlook | undefined) {
  const { reason, until } = outlook ?? { reason: row.reason, until: row.nextAttemptAt };
  return { reason: reason, waiting_until: isoTime(until) };
}

function attemptView({
  at,
  latencyMs,
  status,
  error,
  note,
  excerpt,
}: AttemptEntry): DeliveryJson["log"][number] {
  return {
    at: isoTime(at),
    ...present({ status }),
    latency_ms: latencyMs,
    ...present({ error, note, response: excerpt }),
  };
}

/** Without the fields that are null or undefined. */
function present<T extends object>(fields: T): { [K in keyof T]?: NonNullable<T[K]> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value != null)) as {
    [K in keyof T]?: NonNullable<T[K]>;
  };
}

// §§ Deliveries with what their gates say at this moment. A gate is asked once for all the deliveries of its
// destination on a page, and only when one of them waits. Of an event with more destinations than gates are
// asked, the rest is shown with what was said when it was turned away.

/** As many as a page of a list has deliveries. */
const GATES_ASKED = 100;

export async function showDeliveries(
  services: Services,
  found: readonly FoundDelivery[],
): Promise<DeliveryJson[]> {
  const outlooks = await outlooksOf(services, waitedFor(found).slice(0, GATES_ASKED));
  const now = services.now();
  return found.map((delivery) => deliveryView(delivery, now, outlooks.get(delivery.destinationId)));
}

/** The destinations that something on the page waits for, each once. */
function waitedFor(found: readonly FoundDelivery[]): Destination[] {
  const waiting = found.flatMap((delivery) =>
    delivery.kind === "stored" && delivery.row.state === "waiting" && delivery.destination
      ? [[delivery.destinationId, delivery.destination] as const]
      : [],
  );
  return [...new Map(waiting).values()];
}

async function outlooksOf(
  services: Services,
  destinations: readonly Destination[],
): Promise<Map<string, Outlook>> {
  const looks = destinations.map(async (row) => {
    const outlook = await refusalAtGate(services, row.id, gateSettingsOf(row));
    return outlook ? ([[row.id, outlook]] as const) : [];
  });
  return new Map((await Promise.all(looks)).flat());
}

// §§ A delivery in JSON, the same wherever one is shown. Times are ISO 8601; absent fields do not apply.

const deliveryStates = ["queued", "waiting", "retrying", "delivered", "dead", "cancelled"] as const;

const time = z.iso.datetime();

const attempt = z.object({
  at: time,
  status: z.int().optional(),
  latency_ms: z.number(),
  error: z.string().optional(),
  note: z.string().optional(),
  response: z.string().optional().openapi({ description: "The beginning of the answer's body." }),
});

export const deliverySchema = z
  .object({
    id: z.string(),
    event_id: z.string(),
    destination_id: z.string(),
    state: z.enum(deliveryStates),
    reason: z.string().optional().openapi({ description: "Why it is where it is." }),
    attempts: z.int().openapi({ description: "HTTP exchanges made, and nothing else." }),
    next_attempt_at: time.optional(),
    waiting_until: time.optional().openapi({ description: "Absent when only a person can tell." }),
    give_up_at: time.openapi({
      description:
        "When it is given up: give_up_after its first attempt; expire_unattempted_after it was due, while it has had none.",
    }),
    last_status: z.int().optional(),
    last_error: z.string().optional().openapi({
      description:
        "`http_503` and its like, `timeout`, `connection_lost` (the request may have arrived), `refused`, `dns`, `network`.",
    }),
    delivered_at: time.optional(),
    log: z.array(attempt),
  })
  .openapi("Delivery");

export type DeliveryJson = z.infer<typeof deliverySchema>;

const tags = ["Deliveries"];
const place = z
  .tuple([z.string(), z.int().nonnegative()])
  .transform(([destinationId, eventId]) => ({ destinationId, eventId }));
/** A place in each database; alone, without a list around it. */
const deliveryCursor = z.union([place.transform((key) => [key]), z.array(place).min(2)]);

const STATUS_EXPECTED = "expected an HTTP status code, 100 to 999";
const statusParam = z
  .string()
  .regex(/^[1-9][0-9]{2}$/, { error: STATUS_EXPECTED })
  .transform(Number)
  .openapi({ description: "The status code of the last attempt." });

const BECAUSE_EXPECTED = "expected one of the words that `reason` shows";
const becauseParam = z
  .string()
  .regex(/^[a-z0-9_]{1,40}$/, { error: BECAUSE_EXPECTED })
  .openapi({ description: "Why it is where it is, as its row says.", example: "exhausted" });

const getDeliveries = createRoute({
  method: "get",
  path: "/v1/deliveries",
  summary: "List deliveries",
  tags,
  description:
    "By destination and event, descending; of one destination, the newest event first. A page looks at a " +
    "few hundred deliveries and destinations at most for those that are asked for: it may be short, or empty, and " +
    "still have a next_cursor. Deliveries that no attempt has been made of are listed by state=queued alone: the newest " +
    "event first, then those that are scheduled for later, the first due first.",
  middleware: [requires("read")],
  request: {
    query: strict({
      destination_id: z.string().optional().openapi({ description: "Those to this destination." }),
      state: z.enum(deliveryStates).optional().openapi({ description: "Those that are in this state." }),
      type: eventType.optional().openapi({ description: "The event's type." }),
      status: statusParam.optional(),
      reason: becauseParam.optional(),
      since: timeParam.optional().openapi({ description: "The event was accepted then or later." }),
      until: timeParam
        .optional()
        .openapi({ description: "The event was accepted before that; a time after `since`." }),
      limit: limitParam,
      cursor: cursorParam(deliveryCursor),
    }),
  },
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

export function registerDeliveries(api: Api): void {
  api.openapi(getDeliveries, async (c) => {
    const services = c.get("services");
    const { destination_id: destinationId, cursor: before, since, until, ...query } = c.req.valid("query");
    const backwards = rangeErrors(since, until);
    if (backwards.length > 0) return invalid(backwards);
    const { tenant } = c.get("principal");
    const accepted = since === undefined && until === undefined ? undefined : { since, until };
    const filter = { ...query, destinationId, tenant, accepted, before, over: overBy(services) };
    const { found, next } = await pageOfState(services, query.state, filter);
    const data = await showDeliveries(services, found);
    return c.json({ data, next_cursor: next ? cursorOf(next) : null }, 200);
  });

  api.openapi(getDelivery, async (c) => {
    const services = c.get("services");
    const { id } = c.req.valid("param");
    const key = deliveryKey(id);
    const found = key && (await findDelivery(services, key, c.get("principal").tenant, overBy(services)));
    const [shown] = await showDeliveries(services, found ? [found] : []);
    return shown ? c.json(shown, 200) : noSuch("delivery", id);
  });
}

function cursorOf(positions: Positions): string {
  const places = positions.map(({ destinationId, eventId }) => [destinationId, eventId]);
  return encodeCursor(places.length === 1 ? places[0] : places);
}

async function pageOfState(
  databases: Databases,
  state: StoredState | "queued" | undefined,
  filter: ListFilter,
): Promise<MergedPage> {
  if (state !== "queued") return storedDeliveries(databases, state, filter);
  // Nothing has been attempted yet, and nothing keeps it waiting.
  const isAskedMore = filter.status !== undefined || filter.reason !== undefined;
  return isAskedMore ? { found: [], next: undefined } : queuedDeliveries(databases, filter);
}

// §§ Trying a dead delivery again, because a person says so.

const retryDelivery = createRoute({
  method: "post",
  path: "/v1/deliveries/{id}/retry",
  summary: "Try a dead delivery again",
  tags: ["Deliveries"],
  description:
    "A dead delivery waits again, with as many attempts and as much time as at first. Its log stays.",
  middleware: [requires("admin")],
  request: { params: idParam },
  responses: {
    200: jsonAnswer(deliverySchema, "The delivery: it waits for its gate."),
    ...problemResponses(401, 403, 404, 409),
  },
});

export function registerDeliveryRetry(api: Api): void {
  api.openapi(retryDelivery, async (c) => {
    const services = c.get("services");
    const { id } = c.req.valid("param");
    const key = deliveryKey(id);
    const found = key && (await findDelivery(services, key, c.get("principal").tenant, overBy(services)));
    if (!found) return noSuch("delivery", id);
    const retried = refusalOf(found) === undefined ? await retry(services, found) : undefined;
    const [shown] = await showDeliveries(services, retried ? [retried] : []);
    // Dead when it was looked up, and not any more: somebody else has let it wait.
    return shown ? c.json(shown, 200) : problem(409, refusalOf(found) ?? UNDER_WAY);
  });
}

const UNDER_WAY = "The delivery is under way: it is tried again without being told to";

/** Why this delivery cannot be retried; undefined when it can. */
function refusalOf(found: FoundDelivery): string | undefined {
  if (!found.destination || found.destination.deletedAt !== null) {
    return "The delivery's destination is deleted: there is nowhere to send it";
  }
  switch (found.kind === "stored" ? found.row.state : "queued") {
    case "dead":
      return undefined;
    case "delivered":
      return 'The delivery has been delivered; a replay with include "delivered" sends it once more';
    case "cancelled":
      return "The delivery has been cancelled";
    default:
      return UNDER_WAY;
  }
}

/** The delivery as it waits now; undefined when it was not dead any more. */
async function retry(services: Services, found: FoundDelivery): Promise<FoundDelivery | undefined> {
  const { now, log } = services;
  const policy = retryPolicyOf(found.destination ?? { retry: null });
  const row = await requeueDead(services, found, ageLimitOf(policy, null, now()));
  if (row === undefined) return undefined;
  const { eventId, destinationId } = found;
  log({ what: "delivery_retried", delivery: deliveryId(eventId, destinationId), destination: destinationId });
  // Should the bell not be heard: the sweep rings for whatever waits.
  services.background(scheduleDrainAtGate(services, found.destinationId));
  return { ...found, kind: "stored", row };
}
