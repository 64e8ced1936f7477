/** From the events of a request to the answer: whose they are, whether they came before, and what is planned. */
import type { z } from "@hono/zod-openapi";
import { capsOf } from "../config.ts";
import { accept, acceptOnce, type PostedEvent } from "../delivery/ingest.ts";
import { deliveryId, eventId } from "../id.ts";
import { isoTime } from "../iso-time.ts";
import { type AcceptedEvent, TooManyDeliveries } from "../store/events.ts";
import { NOT_YOUR_TENANT, type Principal, tenantFor } from "./auth.ts";
import type { ApiContext } from "./context.ts";
import { byLine } from "./event-lines.ts";
import type { acceptedEvent, newEvent } from "./event-schema.ts";
import type { FieldError } from "./field-errors.ts";
import { REPLAYED } from "./idempotency.ts";
import { invalid, type ProblemResponse, problem } from "./problems.ts";

export type GivenEvent = z.infer<typeof newEvent>;

/** How far ahead an event may be scheduled. */
const FARTHEST_DAYS = 30;

type Refused = ProblemResponse<403 | 409 | 422>;
export type Acceptance =
  | Readonly<{ kind: "accepted"; events: z.infer<typeof acceptedEvent>[] }>
  | Readonly<{ kind: "refused"; answer: Refused }>;

type Posting = Readonly<{
  events: readonly GivenEvent[];
  /** The Idempotency-Key. */
  key: string | undefined;
  /** What a field of the i-th event is called in a fault. */
  fieldOf: (i: number, field: string) => string;
}>;

/** Stores the events, all or none; with a key, at most once. */
export async function acceptEvents(
  c: ApiContext,
  { events: given, key, fieldOf }: Posting,
): Promise<Acceptance> {
  const posted = ownedBy(c.get("principal"), given);
  if (posted === undefined) return refused(problem(403, NOT_YOUR_TENANT));
  const tooFar = farAhead(given, c.get("services").now(), fieldOf);
  if (tooFar.length > 0) return refused(invalid(byLine(c.get("lines"), tooFar)));
  try {
    if (key === undefined) return accepted(await accept(c.get("services"), posted), posted);
    const result = await acceptOnce(c.get("services"), posted, key);
    if (result.kind === "conflict") return refused(keyTaken());
    if (result.kind === "replayed") c.header(REPLAYED, "true");
    return accepted(result.events, posted);
  } catch (error) {
    if (!(error instanceof TooManyDeliveries)) throw error;
    const field = given.length === 1 ? fieldOf(0, "type") : "events";
    return refused(invalid([tooMany(field, error, capsOf(c.get("services").config).deliveries)]));
  }
}

function tooMany(field: string, { planned }: TooManyDeliveries, most: number): FieldError {
  const expected = `at most ${most} in one request: fewer events, or events that fewer destinations want`;
  return { field, fault: `would make ${planned} deliveries`, expected };
}

/** @param posted the same events as they were posted, in the same order */
function accepted(events: readonly AcceptedEvent[], posted: readonly PostedEvent[]): Acceptance {
  return { kind: "accepted", events: events.map((event, i) => acceptedView(event, posted[i]?.tenant)) };
}

function refused(answer: Refused): Acceptance {
  return { kind: "refused", answer };
}

function keyTaken() {
  const fault = "was used before, with other content";
  const expected = "a new key for new content";
  const detail = `The Idempotency-Key ${fault}; expected ${expected}`;
  return problem(409, detail, [{ field: "idempotency-key", fault, expected }]);
}

/** The events with their tenants; undefined when one of them belongs to a tenant that the key does not. */
function ownedBy(principal: Principal, events: readonly GivenEvent[]): PostedEvent[] | undefined {
  const owned = events.flatMap(({ type, data, tenant: named, deliver_at: deliverAt }) => {
    const tenant = tenantFor(principal, named);
    return tenant === undefined ? [] : [{ tenant, type, data, deliverAt }];
  });
  return owned.length === events.length ? owned : undefined;
}

function farAhead(given: readonly GivenEvent[], now: number, fieldOf: Posting["fieldOf"]): FieldError[] {
  const latest = now + FARTHEST_DAYS * 86_400_000;
  return given.flatMap(({ deliver_at: at = now }, i) =>
    at <= latest
      ? []
      : [
          {
            field: fieldOf(i, "deliver_at"),
            fault: "is too far ahead",
            expected: `at most ${FARTHEST_DAYS} days from now, ${isoTime(latest)}`,
          },
        ],
  );
}

function acceptedView(
  { id, plan, deliverAt, isRemoved }: AcceptedEvent,
  tenant: string | undefined,
): z.infer<typeof acceptedEvent> {
  const deliveries = plan.map((destination) => ({
    id: deliveryId(id, destination),
    destination_id: destination,
    state: "queued" as const,
  }));
  const scheduled = deliverAt !== undefined && { deliver_at: isoTime(deliverAt) };
  const isForNobody = plan.length === 0 && isRemoved !== true;
  return { id: eventId(id), ...scheduled, ...(isForNobody && { hint: hintFor(tenant) }), deliveries };
}

/** An event that nobody takes is stored all the same; whoever meant it for somebody learns of it here. */
function hintFor(tenant: string | undefined): string {
  return `No destination of the tenant ${tenant} takes this event: look at their event_types and filter, and at the tenant`;
}
