/**
 * Erasures: the content of events is removed for good, of one, of a range of time, or of a whole tenant. Each is a job, and
 * stays as the receipt of what it has removed (features/erasures/job.ts).
 */

import { createRoute, z } from "@hono/zod-openapi";
import { notYourTenant, tenantFor } from "../../core/principal.ts";
import type { FieldError } from "../../core/result.ts";
import { requires } from "../../http/auth.ts";
import type { Api } from "../../http/context.ts";
import { jsonBody } from "../../http/json-body.ts";
import {
  cursorParam,
  encodeCursor,
  idParam,
  jsonAnswer,
  jsonRequest,
  limitParam,
  pageOf,
  rangeErrors,
  strict,
  tenantName,
  timeParam,
} from "../../http/parameters.ts";
import { answerOf, invalid, notFound, problem, problemResponses } from "../../http/problems.ts";
import { eventId, eventNumber } from "../../ids.ts";
import { isoTime } from "../../time.ts";
import { changed } from "../audit/routes.ts";
import { type ErasureTarget, eraseEvent, startErasure } from "./job.ts";
import { type Erasure, findErasure, listErasures, MOST_WALKS } from "./sql.ts";

export function registerErasures(api: Api): void {
  api.openapi(postErasure, async (c) => {
    const [services, principal, input] = [c.get("services"), c.get("principal"), c.req.valid("json")];
    const tenant = tenantFor(principal, input.tenant);
    if (tenant === undefined) return answerOf(notYourTenant(principal));
    const target = targetOf(input);
    if (Array.isArray(target)) return invalid(target);
    if (target.kind === "event") {
      const begun = await eraseEvent(services, tenant, target.eventId);
      if (begun === undefined) return notFound("event", input.event_id ?? "");
      changed(c, "erasure.started", begun);
      return c.json(erasureView(begun), 202);
    }
    const begun = await startErasure(services, tenant, target);
    if (begun === undefined) return problem(409, TOO_MANY);
    changed(c, "erasure.started", begun);
    return c.json(erasureView(begun), 202);
  });

  api.openapi(getErasures, async (c) => {
    const { limit, cursor: before } = c.req.valid("query");
    const page = { tenant: c.get("principal").tenant, before, limit };
    const { erasures, next } = await listErasures(c.get("services"), page);
    const next_cursor = next === undefined ? null : encodeCursor(next);
    return c.json({ data: erasures.map(erasureView), next_cursor }, 200);
  });

  api.openapi(getErasure, async (c) => {
    const { id } = c.req.valid("param");
    const erasure = await findErasure(c.get("services"), id, c.get("principal").tenant);
    return erasure ? c.json(erasureView(erasure), 200) : notFound("erasure", id);
  });
}

const TOO_MANY = `The tenant has ${MOST_WALKS} erasures running: begin another when one of them has completed`;

const ONE_OF = "exactly one of event_id, everything, or a range of since and until";

const newErasure = strict({
  tenant: tenantName.openapi({ description: "Whose events are erased." }),
  event_id: z
    .string({ error: "expected the id of an event" })
    .optional()
    .openapi({ description: "Only this event." }),
  since: timeParam
    .optional()
    .openapi({ description: "Only events that were accepted at this time or later." }),
  until: timeParam.optional().openapi({
    description: "Only events that were accepted before this time; it is after `since`, and now by default.",
  }),
  everything: z
    .literal(true, { error: "expected true, or nothing" })
    .optional()
    .openapi({ description: "All events of the tenant up to now." }),
}).openapi("NewErasure", {
  description: "With exactly one of `event_id`, `everything`, or a range of `since` and `until`.",
});

const time = z.iso.datetime();

export const erasureSchema = z
  .object({
    id: z.string(),
    tenant: z.string(),
    event_id: z.string().nullable(),
    since: time.nullable(),
    until: time.nullable().openapi({ description: "Events that were accepted from then on are not erased." }),
    everything: z.boolean(),
    state: z.enum(["running", "completed", "incomplete"]).openapi({
      description: "`incomplete`: everything has been erased but what is in `unreadable_bundles`.",
    }),
    events: z.int().openapi({ description: "Events whose content has been erased so far." }),
    deliveries: z.int().openapi({ description: "The deliveries of these events, whatever their state was." }),
    cancelled: z.int().openapi({ description: "Deliveries that had not ended, and were cancelled." }),
    unreadable_bundles: z.array(z.int()).openapi({
      description:
        "Bundles that could not be read, a hundred at most: they may have content that was to be erased. Once the operator has " +
        "mended or removed them, another erasure erases the rest.",
    }),
    created_at: time,
    ended_at: time.nullable(),
  })
  .openapi("Erasure");

const tags = ["Erasures"];

const postErasure = createRoute({
  method: "post",
  path: "/v1/erasures",
  summary: "Erase the content of events",
  tags,
  description:
    "Removes bodies, request headers, tags, and what receivers have answered, for good; the events stay listed. Deliveries " +
    "that have not ended are cancelled (`erased`). An attempt that is under way at that moment may still arrive. The " +
    "erasure completes a quarter of an hour after it has gone through at the earliest: it looks once more then.",
  middleware: [requires("admin"), jsonBody()],
  request: { body: jsonRequest(newErasure) },
  responses: {
    202: jsonAnswer(erasureSchema, "The erasure; it begins at once."),
    ...problemResponses(400, 401, 403, 404, 409, 413, 415, 422),
  },
});

const getErasures = createRoute({
  method: "get",
  path: "/v1/erasures",
  summary: "List erasures",
  tags,
  middleware: [requires("read")],
  request: { query: strict({ limit: limitParam, cursor: cursorParam(z.int().positive()) }) },
  responses: {
    200: jsonAnswer(pageOf(erasureSchema), "A page of erasures, the newest first."),
    ...problemResponses(401, 403, 422, 429),
  },
});

const getErasure = createRoute({
  method: "get",
  path: "/v1/erasures/{id}",
  summary: "Show an erasure",
  tags,
  middleware: [requires("read")],
  request: { params: idParam },
  responses: {
    200: jsonAnswer(erasureSchema, "What it erases, and what it has erased so far."),
    ...problemResponses(401, 403, 404, 429),
  },
});

/** What the request wants erased, or what is wrong with it. An id that names no event is that of none. */
function targetOf(input: z.infer<typeof newErasure>): ErasureTarget | FieldError[] {
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

export function erasureView(row: Erasure): z.infer<typeof erasureSchema> {
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
