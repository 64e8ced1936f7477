/** Destinations: create, list, show, change and delete them; pause and resume them; send them test events. */

import { createRoute, z } from "@hono/zod-openapi";
import { changesBetween } from "../../core/audit.ts";
import { refuseTenant } from "../../core/principal.ts";
import { attemptErrors } from "../../core/reasons.ts";
import { sendTestEvent, type TestResult } from "../../delivery/test-event.ts";
import { claimTestAtGate, resumeAtGate, scheduleDrainAtGate } from "../../gate/client.ts";
import { requires } from "../../http/auth.ts";
import type { Api } from "../../http/context.ts";
import { jsonBody } from "../../http/json-body.ts";
import {
  cursorParam,
  idempotencyKey,
  idParam,
  jsonAnswer,
  jsonRequest,
  limitParam,
  pageFrom,
  pageOf,
  strict,
  tenantName,
} from "../../http/parameters.ts";
import { answerOf, invalid, notFound, problem, problemResponses } from "../../http/problems.ts";
import { idPatterns } from "../../ids.ts";
import { endDeleted } from "../../jobs/waiting.ts";
import {
  changeDestination,
  findDestination,
  listDestinations,
  pauseOf,
  turnDestination,
} from "../../store/destinations.ts";
import { changed } from "../audit/routes.ts";
import { publishStatusChangeOf } from "../notifications/publish.ts";
import {
  destinationChange,
  destinationSchema,
  destinationView,
  newDestination,
  shownSecret,
} from "./schema.ts";
import { showSecret } from "./secrets.ts";
import { refuseInvalid, refuseInvalidNew } from "./validate.ts";
import { addDestination, editDestination, limitErrors, PAUSED } from "./write.ts";

export function registerDestinations(api: Api): void {
  api.openapi(
    createDestination,
    async (c) => {
      const [services, principal] = [c.get("services"), c.get("principal")];
      const { "idempotency-key": key } = c.req.valid("header");
      const origin = new URL(c.req.url).host;
      const created = await addDestination(services, principal, c.req.valid("json"), key, origin);
      if (created instanceof Response) return created;
      const { row, secret } = created;
      changed(c, "destination.created", row);
      return c.json({ ...destinationView(row), ...(await showSecret(secret)) }, 201);
    },
    (result, c) => refuseInvalidNew(result, c),
  );

  api.openapi(getDestinations, async (c) => {
    const { tenant: named, limit, cursor: after } = c.req.valid("query");
    const { tenant = named } = c.get("principal");
    const refusal = refuseTenant(c.get("principal"), named);
    if (refusal) return answerOf(refusal);
    const rows = await listDestinations(c.get("services").db, { tenant, after, limit: limit + 1 });
    const shown = rows.map(destinationView);
    return c.json(
      pageFrom(shown, limit, ({ id }) => id),
      200,
    );
  });

  api.openapi(getDestination, async (c) => {
    const { id } = c.req.valid("param");
    const row = await findDestination(c.get("services").db, id, c.get("principal").tenant);
    return row ? c.json(destinationView(row), 200) : notFound("destination", id);
  });

  api.openapi(
    patchDestination,
    async (c) => {
      const [{ id }, principal, input] = [c.req.valid("param"), c.get("principal"), c.req.valid("json")];
      const above = limitErrors(principal, input);
      if (above.length > 0) return invalid(above);
      const done = await editDestination(c.get("services"), id, principal.tenant, input);
      if (done instanceof Response) return done;
      const [before, view] = [destinationView(done.stored), destinationView(done.row)];
      changed(c, "destination.changed", done.row, changesBetween(before, view));
      return c.json(view, 200);
    },
    (result, c) => refuseInvalid(result, c),
  );

  api.openapi(deleteDestination, async (c) => {
    const { id } = c.req.valid("param");
    const services = c.get("services");
    const now = services.now();
    const tombstone = { deletedAt: now, updatedAt: now };
    const row = await changeDestination(services.db, id, tombstone, c.get("principal").tenant);
    if (row === undefined) return notFound("destination", id);
    services.background(endDeleted(services, id));
    changed(c, "destination.deleted", row);
    return c.body(null, 204);
  });
}

export function registerDestinationStatus(api: Api): void {
  api.openapi(pause, async (c) => {
    const services = c.get("services");
    const [{ id }, { tenant }] = [c.req.valid("param"), c.get("principal")];
    const now = services.now();
    const turned = await turnDestination(services.db, id, PAUSED, tenant, now);
    if (turned) {
      services.background(publishStatusChangeOf(services, id, now));
      changed(c, "destination.paused", turned);
    }
    const row = turned ?? (await findDestination(services.db, id, tenant));
    return row ? c.json(destinationView(row), 200) : notFound("destination", id);
  });

  api.openapi(resume, async (c) => {
    const services = c.get("services");
    const [{ id }, { tenant }] = [c.req.valid("param"), c.get("principal")];
    const now = services.now();
    const before = await findDestination(services.db, id, tenant);
    const pause = before && pauseOf(before);
    const turned = await turnDestination(services.db, id, active, tenant, now);
    const row = turned ?? (await findDestination(services.db, id, tenant));
    if (row === undefined) return notFound("destination", id);
    if (turned) {
      services.background(publishStatusChangeOf(services, id, now));
      changed(c, "destination.resumed", turned);
    }
    // Only the end of a pause starts again from one attempt; a repeat must not throttle a healthy destination.
    services.background(turned ? resumeAtGate(services, id, pause) : scheduleDrainAtGate(services, id));
    return c.json(destinationView(row), 200);
  });
}

export function registerDestinationTest(api: Api): void {
  api.openapi(testDestination, async (c) => {
    const services = c.get("services");
    const { id } = c.req.valid("param");
    const destination = await findDestination(services.db, id, c.get("principal").tenant);
    if (destination === undefined) return notFound("destination", id);
    const until = await claimTestAtGate(services, id);
    if (until === undefined) return problem(503, "The destination's gate cannot be reached at the moment");
    if (until !== null) return tooSoon(until - services.now());
    const result = await sendTestEvent(services, destination);
    if (result.kind === "not_made") return problem(409, result.fault);
    return c.json(testResultView(destination.url, result), 200);
  });
}

const tags = ["Destinations"];

const creationHeaders = z.object({
  "idempotency-key": idempotencyKey.openapi({
    description: "Repeated for the same tenant, the request creates nothing more: 409.",
    example: "signup-4711",
  }),
});

const createDestination = createRoute({
  method: "post",
  path: "/v1/destinations",
  summary: "Create a destination",
  description:
    "Events that are posted from now on are delivered to it. Store the secret of the answer: it is not shown again. " +
    "Fields that are left out have their defaults. With an `Idempotency-Key` a repeated request creates no second " +
    "destination: it is refused (409) with the id of the first, which `location` names too. A tenant has at most 1,000 " +
    "destinations, unless the deployment sets another limit (`MAX_DESTINATIONS_PER_TENANT`).",
  tags,
  middleware: [requires("admin", "create_endpoint"), jsonBody()],
  request: { headers: creationHeaders, body: jsonRequest(newDestination) },
  responses: {
    201: jsonAnswer(
      destinationSchema.extend(shownSecret),
      "The destination, with its secret; it is shown only here.",
    ),
    ...problemResponses(400, 401, 403, 409, 413, 415, 422),
  },
});

const getDestinations = createRoute({
  method: "get",
  path: "/v1/destinations",
  summary: "List destinations",
  tags,
  middleware: [requires("read")],
  request: {
    query: strict({
      tenant: tenantName.optional().openapi({ description: "Only destinations of this tenant." }),
      limit: limitParam,
      cursor: cursorParam(z.string().regex(idPatterns.destination)),
    }),
  },
  responses: {
    200: jsonAnswer(
      pageOf(destinationSchema),
      "A page of destinations, ordered by id, without deleted ones.",
    ),
    ...problemResponses(401, 403, 422, 429),
  },
});

const getDestination = createRoute({
  method: "get",
  path: "/v1/destinations/{id}",
  summary: "Show a destination",
  tags,
  middleware: [requires("read")],
  request: { params: idParam },
  responses: {
    200: jsonAnswer(destinationSchema, "The destination."),
    ...problemResponses(401, 403, 404, 429),
  },
});

const patchDestination = createRoute({
  method: "patch",
  path: "/v1/destinations/{id}",
  summary: "Change a destination",
  description: "Fields that are left out keep their values; null resets a field to its default.",
  tags,
  middleware: [requires("admin", "change_endpoint"), jsonBody()],
  request: { params: idParam, body: jsonRequest(destinationChange) },
  responses: {
    200: jsonAnswer(destinationSchema, "The changed destination; the change applies from the next batch."),
    ...problemResponses(400, 401, 403, 404, 409, 413, 415, 422),
  },
});

const deleteDestination = createRoute({
  method: "delete",
  path: "/v1/destinations/{id}",
  summary: "Delete a destination",
  description:
    "Deletion is final, and cancels the deliveries that have not ended: at once, or within minutes where they are many. An " +
    "attempt that is under way is finished and recorded. To keep the deliveries, pause the destination instead.",
  tags,
  middleware: [requires("admin", "delete_endpoint")],
  request: { params: idParam },
  responses: {
    204: { description: "The destination is deleted." },
    ...problemResponses(401, 403, 404),
  },
});

const common = {
  method: "post" as const,
  tags: ["Destinations"],
  request: { params: idParam },
  responses: { 200: jsonAnswer(destinationSchema, "The destination."), ...problemResponses(401, 403, 404) },
};

const pause = createRoute({
  ...common,
  path: "/v1/destinations/{id}/pause",
  middleware: [requires("admin", "pause_endpoint")],
  summary: "Pause a destination",
  description:
    "Its deliveries wait until it is resumed, or until their age limits. A destination that is paused already keeps its " +
    "`status_reason`. May be repeated.",
});
const resume = createRoute({
  ...common,
  path: "/v1/destinations/{id}/resume",
  middleware: [requires("admin", "resume_endpoint")],
  summary: "Resume a destination",
  description: "What waits is delivered, beginning with one attempt at a time. May be repeated.",
});

/** The report of a test event. */
const testResultSchema = z
  .object({
    status: z.int().optional().openapi({ description: "Absent when there was no response." }),
    error: z
      .enum(attemptErrors)
      .optional()
      .openapi({
        description:
          "Why there was no response of the receiver; after `connection_lost` the request may have arrived. With a " +
          "`status` beside it, Cloudflare's edge responded in its place.",
      }),
    latency_ms: z.number(),
    response: z.string().optional().openapi({
      description: "The beginning of the response body; absent after a success.",
    }),
    location: z
      .string()
      .optional()
      .openapi({ description: "The target of a redirect, which is not followed." }),
    sent: z.object({
      url: z.string().openapi({ description: "The URL, or the target of another kind, as `queue:ORDERS`." }),
      headers: z.record(z.string(), z.string()).openapi({
        description: "The values of the destination's own headers are masked.",
      }),
      body: z.string(),
    }),
  })
  .openapi("DestinationTest");

export type TestReport = z.infer<typeof testResultSchema>;

const testDestination = createRoute({
  method: "post",
  path: "/v1/destinations/{id}/test",
  summary: "Send a test event",
  tags: ["Destinations"],
  description:
    "Sends a signed event of the type `breakwater.test` at once, even when the destination is paused or its circuit is " +
    "open. It is not stored as a delivery and does not affect circuit or limits. At most once in five seconds.",
  middleware: [requires("admin", "send_test")],
  request: { params: idParam },
  responses: {
    200: jsonAnswer(testResultSchema, "What was sent, and the result."),
    ...problemResponses(401, 403, 404, 409, 429, 503),
  },
});

const active = { status: "active", statusReason: null } as const;

function tooSoon(waitMs: number) {
  const seconds = String(Math.max(1, Math.ceil(waitMs / 1000)));
  return problem(429, `The destination has just been tested; try again in ${seconds} s`, undefined, {
    "retry-after": seconds,
  });
}

function testResultView(url: string, { call, sent }: Extract<TestResult, { kind: "made" }>) {
  const { exchange, startedAt, endedAt, excerpt, location } = call;
  return {
    ...(exchange.status !== undefined && { status: exchange.status }),
    ...(exchange.kind !== "response" && { error: exchange.kind }),
    latency_ms: endedAt - startedAt,
    ...(excerpt && { response: excerpt }),
    ...(location && { location: location.slice(0, 200) }),
    sent: { url, headers: { ...sent.headers }, body: sent.body },
  };
}
