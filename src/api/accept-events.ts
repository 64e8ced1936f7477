/** From the events of a request to the answer: whose they are, whether they came before, and what is planned. */
import type { z } from "@hono/zod-openapi";
import { accept, acceptOnce, type PostedEvent } from "../delivery/ingest.ts";
import { deliveryId, eventId } from "../id.ts";
import type { AcceptedEvent } from "../store/events.ts";
import { type Principal, tenantFor } from "./auth.ts";
import type { ApiContext } from "./context.ts";
import type { acceptedEvent, newEvent } from "./event-schema.ts";
import { REPLAYED } from "./idempotency.ts";
import { type ProblemResponse, problem } from "./problems.ts";

export type GivenEvent = z.infer<typeof newEvent>;

type Refused = ProblemResponse<403 | 409>;
export type Acceptance =
  | Readonly<{ kind: "accepted"; events: z.infer<typeof acceptedEvent>[] }>
  | Readonly<{ kind: "refused"; answer: Refused }>;

/** Stores the events, all or none; with a key, at most once. */
export async function acceptEvents(
  c: ApiContext,
  given: readonly GivenEvent[],
  key: string | undefined,
): Promise<Acceptance> {
  const posted = ownedBy(c.get("principal"), given);
  if (posted === undefined) return refused(problem(403, "The key belongs to another tenant"));
  if (key === undefined) return accepted(await accept(c.get("services"), posted));
  const result = await acceptOnce(c.get("services"), posted, key);
  if (result.kind === "conflict") return refused(keyTaken());
  if (result.kind === "replayed") c.header(REPLAYED, "true");
  return accepted(result.events);
}

function accepted(events: readonly AcceptedEvent[]): Acceptance {
  return { kind: "accepted", events: events.map(acceptedView) };
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
  const owned = events.flatMap(({ type, data, tenant: named }) => {
    const tenant = tenantFor(principal, named);
    return tenant === undefined ? [] : [{ tenant, type, data }];
  });
  return owned.length === events.length ? owned : undefined;
}

function acceptedView({ id, plan }: AcceptedEvent): z.infer<typeof acceptedEvent> {
  const deliveries = plan.map((destination) => ({
    id: deliveryId(id, destination),
    destination_id: destination,
    state: "queued" as const,
  }));
  return { id: eventId(id), deliveries };
}
