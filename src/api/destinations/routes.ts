/** Destinations: created, read, listed, changed and deleted. */
import { createRoute, z } from "@hono/zod-openapi";
import { capsOf } from "../../config.ts";
import {
  breakerOf,
  changeDestination,
  findDestination,
  insertDestination,
  isTaken,
  listDestinations,
  pauseOf,
  turnDestination,
} from "../../db/destinations.ts";
import { sendTestEvent, type TestResult } from "../../delivery/test-event.ts";
import { claimTestAtGate, resumeAtGate, scheduleDrainAtGate } from "../../gate/client.ts";
import { destinationIdFor, newDestinationId } from "../../ids.ts";
import { endDeleted } from "../../maintenance/waiting.ts";
import { publishStatusChangeOf } from "../../notifications/publish.ts";
import { NOT_YOUR_TENANT, requires, tenantFor } from "../auth.ts";
import type { Api } from "../context.ts";
import { creationHeaders } from "../events.ts";
import { jsonBody } from "../json-body.ts";
import {
  cursorParam,
  idParam,
  jsonAnswer,
  jsonRequest,
  limitParam,
  pageFrom,
  pageOf,
  strict,
  tenantName,
} from "../parameters.ts";
import { type FieldError, invalid, noSuch, problem, problemResponses } from "../problems.ts";
import {
  breakerErrors,
  columnsOf,
  decidedOn,
  destinationChange,
  destinationSchema,
  destinationView,
  handshakeFor,
  leadErrors,
  newDestination,
  refuseFaults,
} from "./schema.ts";
import { chosenSecret, shownSecret, showSecret } from "./secrets.ts";

const tags = ["Destinations"];
/** The tenant is at fault where the body names none either: it is whose destination it would have been. */
function tooManyDestinations(tenant: string, most: number): FieldError {
  const expected = `at most ${most} of a tenant: delete one that is not needed any more`;
  return { field: "tenant", fault: `is ${tenant}, which has ${most} destinations or more`, expected };
}

/** A change that was decided on what another has changed meanwhile is decided again. */
const CHANGE_TRIES = 3;

const createDestination = createRoute({
  method: "post",
  path: "/v1/destinations",
  summary: "Create a destination",
  description:
    "Events that are posted from now on are delivered there. Keep the secret of the answer: it is not shown again. " +
    "Whatever is left out has its default. With an `Idempotency-Key` no second destination is made by a repeat: it is " +
    "refused (409) with the id of the one that is there, in `location` too. A tenant has at most 1,000 destinations, " +
    "unless the deployment says otherwise (`MAX_DESTINATIONS_PER_TENANT`).",
  tags,
  middleware: [requires("admin"), jsonBody()],
  request: { headers: creationHeaders, body: jsonRequest(newDestination) },
  responses: {
    201: jsonAnswer(destinationSchema.extend(shownSecret), "The destination, and its secret this once."),
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
      tenant: tenantName.optional().openapi({ description: "Those of this tenant alone." }),
      limit: limitParam,
      cursor: cursorParam(z.string().regex(/^dst_[0-9a-z]{20}$/)),
    }),
  },
  responses: {
    200: jsonAnswer(
      pageOf(destinationSchema),
      "Destinations in order of their ids, without the deleted ones.",
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
  description: "What is left out stays as it is; null stands for the default.",
  tags,
  middleware: [requires("admin"), jsonBody()],
  request: { params: idParam, body: jsonRequest(destinationChange) },
  responses: {
    200: jsonAnswer(destinationSchema, "The destination as it is now; it holds from the next batch."),
    ...problemResponses(400, 401, 403, 404, 409, 413, 415, 422),
  },
});

const deleteDestination = createRoute({
  method: "delete",
  path: "/v1/destinations/{id}",
  summary: "Delete a destination",
  description: "For good: pause it to keep what is on its way.",
  tags,
  middleware: [requires("admin")],
  request: { params: idParam },
  responses: {
    204: { description: "It is gone; what was on its way to it is cancelled." },
    ...problemResponses(401, 403, 404),
  },
});

function createdBefore(id: string) {
  const fault = `was used before: it created ${id}`;
  const expected = "a new key for another destination";
  const detail = `The Idempotency-Key ${fault}; expected ${expected}`;
  const location = `/v1/destinations/${id}`;
  return problem(409, detail, [{ field: "idempotency-key", fault, expected }], { location });
}

export function registerDestinations(api: Api): void {
  api.openapi(
    createDestination,
    async (c) => {
      const { db, vault, now, config } = c.get("services");
      const input = c.req.valid("json");
      const chosen = await chosenSecret(input, "hmac-sha256");
      const errors = [...breakerErrors(input.breaker), ...("errors" in chosen ? chosen.errors : [])];
      if ("errors" in chosen || errors.length > 0) return invalid(errors);
      const tenant = tenantFor(c.get("principal"), input.tenant);
      if (tenant === undefined) return problem(403, NOT_YOUR_TENANT);
      const { "idempotency-key": key } = c.req.valid("header");
      const id = key === undefined ? newDestinationId() : await destinationIdFor(tenant, key);
      // Before the receiver is asked anything; the insert asks once more.
      if (key !== undefined && (await findDestination(db, id, tenant))) return createdBefore(id);
      const leads = await leadErrors(c.get("services"), input.url);
      if (leads.length > 0) return invalid(leads);
      const agreed = await handshakeFor(c.get("services"), input, new URL(c.req.url).host);
      if ("errors" in agreed) return invalid(agreed.errors);
      const secret = await vault.seal(id, chosen.secret);
      const at = { createdAt: now(), updatedAt: now() };
      const columns = { ...columnsOf(input), ...agreed, url: input.url };
      const most = capsOf(config).destinations;
      const row = await insertDestination(db, { ...columns, id, tenant, secret, ...at }, most);
      if (row === undefined) {
        // An id that was made by chance is nobody else's.
        const isRepeat = key !== undefined && (await isTaken(db, id));
        return isRepeat ? createdBefore(id) : invalid([tooManyDestinations(tenant, most)]);
      }
      const shown = { ...destinationView(row, c.get("principal")), ...(await showSecret(chosen.secret)) };
      return c.json(shown, 201);
    },
    (result, c) => refuseFaults(result, c),
  );

  api.openapi(getDestinations, async (c) => {
    const { tenant: named, limit, cursor: after } = c.req.valid("query");
    const { tenant = named } = c.get("principal");
    if (named !== undefined && named !== tenant) return problem(403, "The key belongs to another tenant");
    const rows = await listDestinations(c.get("services").db, { tenant, after, limit: limit + 1 });
    return c.json(
      pageFrom(
        rows.map((row) => destinationView(row, c.get("principal"))),
        limit,
        ({ id }) => id,
      ),
      200,
    );
  });

  api.openapi(getDestination, async (c) => {
    const { id } = c.req.valid("param");
    const row = await findDestination(c.get("services").db, id, c.get("principal").tenant);
    return row ? c.json(destinationView(row, c.get("principal")), 200) : noSuch("destination", id);
  });

  api.openapi(
    patchDestination,
    async (c) => {
      const services = c.get("services");
      const { db, now } = services;
      const [{ id }, input, { tenant }] = [c.req.valid("param"), c.req.valid("json"), c.get("principal")];
      const leads = await leadErrors(c.get("services"), input.url);
      if (leads.length > 0) return invalid(leads);
      const change = { ...columnsOf(input), updatedAt: now() };
      for (let attempt = 1; attempt <= CHANGE_TRIES; attempt++) {
        const stored = await findDestination(db, id, tenant);
        if (stored === undefined) return noSuch("destination", id);
        const errors = breakerErrors(input.breaker, breakerOf(stored));
        if (errors.length > 0) return invalid(errors);
        const row = await changeDestination(db, id, change, tenant, decidedOn(input, stored));
        if (!row) continue;
        // What the old URL's receiver has asked for, and how it was doing, says nothing of the new one's.
        if (row.url !== stored.url) services.background(resumeAtGate(services, id));
        return c.json(destinationView(row, c.get("principal")), 200);
      }
      return problem(409, "The destination is being changed by others at the same moment");
    },
    (result, c) => refuseFaults(result, c),
  );

  api.openapi(deleteDestination, async (c) => {
    const { id } = c.req.valid("param");
    const services = c.get("services");
    const now = services.now();
    const tombstone = { deletedAt: now, updatedAt: now };
    const row = await changeDestination(services.db, id, tombstone, c.get("principal").tenant);
    if (row === undefined) return noSuch("destination", id);
    services.background(endDeleted(services, id));
    return c.body(null, 204);
  });
}

// §§ Pausing a destination and letting it go on. Both may be repeated: the answer is the destination.

const common = {
  method: "post" as const,
  tags: ["Destinations"],
  middleware: [requires("admin")],
  request: { params: idParam },
  responses: { 200: jsonAnswer(destinationSchema, "The destination."), ...problemResponses(401, 403, 404) },
};

const pause = createRoute({
  ...common,
  path: "/v1/destinations/{id}/pause",
  summary: "Pause a destination",
  description:
    "Its events are held until their age limits. One that is paused stays as it is, for its reason.",
});
const resume = createRoute({
  ...common,
  path: "/v1/destinations/{id}/resume",
  summary: "Let a paused destination go on",
  description: "What has been held is delivered, beginning with one attempt at a time.",
});

const paused = { status: "paused", statusReason: "manual" } as const;
const active = { status: "active", statusReason: null } as const;

export function registerDestinationStatus(api: Api): void {
  api.openapi(pause, async (c) => {
    const services = c.get("services");
    const [{ id }, { tenant }] = [c.req.valid("param"), c.get("principal")];
    const now = services.now();
    const turned = await turnDestination(services.db, id, paused, tenant, now);
    if (turned) services.background(publishStatusChangeOf(services, id, now));
    const row = turned ?? (await findDestination(services.db, id, tenant));
    return row ? c.json(destinationView(row, c.get("principal")), 200) : noSuch("destination", id);
  });

  api.openapi(resume, async (c) => {
    const services = c.get("services");
    const [{ id }, { tenant }] = [c.req.valid("param"), c.get("principal")];
    const now = services.now();
    const before = await findDestination(services.db, id, tenant);
    const pause = before && pauseOf(before);
    const turned = await turnDestination(services.db, id, active, tenant, now);
    const row = turned ?? (await findDestination(services.db, id, tenant));
    if (row === undefined) return noSuch("destination", id);
    if (turned) services.background(publishStatusChangeOf(services, id, now));
    // Only a pause that is lifted starts from one again; a repeat must not throttle what runs well.
    services.background(turned ? resumeAtGate(services, id, pause) : scheduleDrainAtGate(services, id));
    return c.json(destinationView(row, c.get("principal")), 200);
  });
}

// §§ Sending a destination a test event, and showing what came of it.

const testSchema = z
  .object({
    status: z.int().optional().openapi({ description: "Absent when there was no answer." }),
    error: z.string().optional().openapi({
      description: "`timeout`, `connection_lost` (it may have arrived), `refused`, `dns` or `network`.",
    }),
    latency_ms: z.number(),
    response: z.string().optional().openapi({ description: "The beginning of a refusal's body." }),
    location: z.string().optional().openapi({ description: "Where a redirect would have led." }),
    sent: z.object({
      url: z.string(),
      headers: z.record(z.string(), z.string()).openapi({
        description: "With the values of the destination's own headers left out.",
      }),
      body: z.string(),
    }),
  })
  .openapi("DestinationTest");

const testDestination = createRoute({
  method: "post",
  path: "/v1/destinations/{id}/test",
  summary: "Send a destination a test event",
  tags: ["Destinations"],
  description:
    "Sends a signed event of the type `breakwater.test`, at once, even to one that is paused. It is no delivery, " +
    "and changes nothing. Once in five seconds.",
  middleware: [requires("admin")],
  request: { params: idParam },
  responses: {
    200: jsonAnswer(testSchema, "What was sent, and what came of it."),
    ...problemResponses(401, 403, 404, 409, 429, 503),
  },
});

export function registerDestinationTest(api: Api): void {
  api.openapi(testDestination, async (c) => {
    const services = c.get("services");
    const { id } = c.req.valid("param");
    const destination = await findDestination(services.db, id, c.get("principal").tenant);
    if (destination === undefined) return noSuch("destination", id);
    const until = await claimTestAtGate(services, id);
    if (until === undefined) return problem(503, "The destination's gate cannot be reached at the moment");
    if (until !== null) return tooSoon(until - services.now());
    const trial = await sendTestEvent(services, destination);
    if (trial.kind === "not_made") return problem(409, trial.fault);
    return c.json(trialView(destination.url, trial), 200);
  });
}

function tooSoon(waitMs: number) {
  const seconds = String(Math.max(1, Math.ceil(waitMs / 1000)));
  return problem(429, `The destination has just been tested; again in ${seconds} s`, undefined, {
    "retry-after": seconds,
  });
}

function trialView(url: string, { call, sent }: Extract<TestResult, { kind: "made" }>) {
  const { exchange, startedAt, endedAt, excerpt, location } = call;
  return {
    ...(exchange.kind === "response" ? { status: exchange.status } : { error: exchange.kind }),
    latency_ms: endedAt - startedAt,
    ...(excerpt && { response: excerpt }),
    ...(location && { location: location.slice(0, 200) }),
    sent: { url, headers: { ...sent.headers }, body: sent.body },
  };
}
