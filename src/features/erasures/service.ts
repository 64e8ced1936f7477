/**
 * Erasures: permanent removal of the content of one event, of a range of time, or of a whole tenant. Each is a job (job.ts),
 * and stays as the receipt of what it has removed.
 */
import { notYourTenant, tenantFor } from "../../core/principal.ts";
import { conflict, type FieldError, invalidFields, missing, ok } from "../../core/result.ts";
import { eventId, eventNumber } from "../../ids.ts";
import { isoTime } from "../../time.ts";
import { rangeErrors } from "../parameters.ts";
import { service } from "../service.ts";
import { type ErasureTarget, eraseEvent, startErasure } from "./job.ts";
import type { ErasureView, NewErasure } from "./schema.ts";
import { type Erasure, findErasure, listErasures, MOST_WALKS } from "./sql.ts";

export const beginErasure = service(
  { scope: "admin" },
  async ({ services, principal, changed }, input: NewErasure) => {
    const tenant = tenantFor(principal, input.tenant);
    if (tenant === undefined) return notYourTenant(principal);
    const target = targetOf(input);
    if (Array.isArray(target)) return invalidFields(target);
    const isOfEvent = target.kind === "event";
    const begun = isOfEvent
      ? await eraseEvent(services, tenant, target.eventId)
      : await startErasure(services, tenant, target);
    if (begun === undefined) return isOfEvent ? missing("event", input.event_id ?? "") : conflict(TOO_MANY);
    changed("erasure.started", begun);
    return ok(begun);
  },
);

const TOO_MANY = `The tenant has ${MOST_WALKS} erasures running: begin another when one of them has completed`;

type Page = Omit<Parameters<typeof listErasures>[1], "tenant">;

/** A page of erasures, the newest first. */
export const getErasures = service({ scope: "read" }, async ({ services, principal }, page: Page) =>
  ok(await listErasures(services, { ...page, tenant: principal.tenant })),
);

export const getErasure = service({ scope: "read" }, async ({ services, principal }, id: string) => {
  const erasure = await findErasure(services, id, principal.tenant);
  return erasure ? ok(erasure) : missing("erasure", id);
});

const ONE_OF = "exactly one of event_id, everything, or a range of since and until";

/** The erasure target of the request, or its fault. An id that names no event is that of none. */
function targetOf(input: NewErasure): ErasureTarget | FieldError[] {
  const { event_id: id, since, until, everything } = input;
  const isRange = since !== undefined || until !== undefined;
  const given = [id !== undefined, isRange, everything === true].filter(Boolean).length;
  if (given !== 1) {
    const fault = given === 0 ? "does not say what to erase" : "says in more than one way what to erase";
    return [{ field: "body", fault, expected: ONE_OF }];
  }
  if (id !== undefined) return { kind: "event", eventId: eventNumber(id) ?? 0 };
  if (everything) return { kind: "tenant" };
  const errors = rangeErrors(since, until);
  return errors.length > 0 ? errors : { kind: "range", since, until };
}

export function erasureView(row: Erasure): ErasureView {
  return {
    id: row.id,
    tenant: row.tenant,
    event_id: row.eventId === null ? null : eventId(row.eventId),
    since: isoTime(row.since),
    until: isoTime(row.until),
    everything: row.kind === "tenant",
    state: row.state,
    events: row.events,
    deliveries: row.deliveries,
    cancelled: row.cancelled,
    unreadable_bundles: [...row.unreadable],
    created_at: isoTime(row.createdAt),
    ended_at: isoTime(row.endedAt),
  };
}
