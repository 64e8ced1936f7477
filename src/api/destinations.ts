/** Destinations: created, read, listed, changed and deleted. */
import { createRoute, z } from "@hono/zod-openapi";
import { capsOf } from "../config.ts";
import { endDeleted } from "../delivery/wake.ts";
import { resumeAtGate } from "../gate/gate-client.ts";
import { destinationIdFor, newDestinationId } from "../id.ts";
import { breakerOf } from "../store/destination-settings.ts";
import {
  changeDestination,
  findDestination,
  insertDestination,
  isTaken,
  listDestinations,
} from "../store/destinations.ts";
import { NOT_YOUR_TENANT, requires, tenantFor } from "./auth.ts";
import type { Api } from "./context.ts";
import { breakerErrors, decidedOn, leadErrors, refuseFaults } from "./destination-faults.ts";
import { handshakeFor } from "./destination-handshake.ts";
import { destinationChange, destinationSchema, newDestination } from "./destination-schema.ts";
import { chosenSecret, shownSecret, showSecret } from "./destination-secret.ts";
import { columnsOf, destinationView } from "./destination-view.ts";
import type { FieldError } from "./field-errors.ts";
import { creationHeaders } from "./idempotency.ts";
import { jsonBody } from "./json-body.ts";
import { tenantName } from "./names.ts";
import { cursorParam, limitParam, pageFrom, pageOf } from "./paging.ts";
import { invalid, noSuch, problem, problemResponses } from "./problems.ts";
import { idParam, jsonAnswer, jsonRequest } from "./route-parts.ts";
import { strict } from "./strict.ts";

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
