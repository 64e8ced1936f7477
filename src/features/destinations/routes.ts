/**
 * The routes of destinations: their settings, status, secrets, health, test events, previews and transformations, and the
 * master key.
 */
import { createRoute, z } from "@hono/zod-openapi";
import { MOST_PREVIOUS } from "../../core/credentials.ts";
import { type Checked, errorsOf, givenTo } from "../../core/field-errors.ts";
import { attemptErrors } from "../../core/reasons.ts";
import { type Api, type ApiContext, callerIn } from "../../http/context.ts";
import { jsonBody } from "../../http/json-body.ts";
import { answerOf, invalid, problemResponses } from "../../http/problems.ts";
import { withinAnonymousLimit, withinAnyReadLimit } from "../../http/rate-limit.ts";
import { answers, emptied, jsonAnswer, jsonRequest, routeTo, serve } from "../../http/routes.ts";
import { idPatterns } from "../../ids.ts";
import type { Destination } from "../../store/destination.ts";
import { BUNDLES_LOOKED_AT } from "../../store/event-list.ts";
import {
  cursorParam,
  documented,
  eventType,
  idempotencyKey,
  idParam,
  limitParam,
  pageFrom,
  pageOf,
  strict,
  tenantName,
} from "../parameters.ts";
import type { Caller } from "../service.ts";
import {
  certificationOrder,
  certificationSchema,
  certifyDestination,
  getCertification,
} from "./certification.ts";
import { clearHold, getDestinationHealth, healthSchema } from "./health.ts";
import { masterKeyRotation, rotateMasterKey } from "./master-key.ts";
import { MOST_PREVIEWED, previewDestination, previewSchema } from "./preview.ts";
import {
  destinationChange,
  destinationDraft,
  destinationSchema,
  destinationViewFor,
  newDestination,
  shownSecret,
} from "./schema.ts";
import { jwkSchema, publicKeysOf, rotateSecret, secretRotation } from "./secrets.ts";
import {
  createDestination,
  getDestination,
  getDestinations,
  pauseDestination,
  removeDestination,
  resumeDestination,
  testDestination,
  updateDestination,
} from "./service.ts";
import {
  getTransformVersions,
  MOST_TRIED,
  previewTransform,
  restoreTransform,
  transformDraft,
  transformPreviewSchema,
  transformVersions,
} from "./transforms.ts";
import { creationErrors, urlErrors } from "./validate.ts";

const tags = ["Destinations"];

const creationHeaders = z.object({
  "idempotency-key": idempotencyKey.openapi({
    description: "Repeated for the same tenant, the request creates nothing more: 409.",
    example: "signup-4711",
  }),
});

const creation = createRoute({
  ...routeTo("post", "/v1/destinations", createDestination, jsonBody()),
  summary: "Create a destination",
  description:
    "Events that are posted from now on are delivered to it. Store the secret of the answer: it is not shown again. " +
    "Fields that are left out have their defaults. With an `Idempotency-Key` a repeated request creates no second " +
    "destination: it is refused (409) with the id of the first, which `location` names too. A tenant has at most 1,000 " +
    "destinations, unless the deployment sets another limit (`MAX_DESTINATIONS_PER_TENANT`).",
  tags,
  request: { headers: creationHeaders, body: jsonRequest(newDestination) },
  responses: answers(
    201,
    destinationSchema.extend(shownSecret),
    "The destination, with its secret; it is shown only here.",
    "body",
    409,
  ),
});

const change = createRoute({
  ...routeTo("patch", "/v1/destinations/{id}", updateDestination, jsonBody()),
  summary: "Change a destination",
  description: "Fields that are left out keep their values; null resets a field to its default.",
  tags,
  request: { params: idParam, body: jsonRequest(destinationChange) },
  responses: answers(
    200,
    destinationSchema,
    "The changed destination; the change applies from the next batch.",
    "body",
    404,
    409,
  ),
});

/** In the order of the document. */
export function registerDestinations(api: Api): void {
  registerDestinationSettings(api);
  registerDestinationStatus(api);
  registerDestinationTest(api);
  registerDestinationPreview(api);
  registerTransforms(api);
  registerDestinationRotation(api);
  registerMasterKeyRotation(api);
  registerDestinationHealth(api);
}

function registerDestinationSettings(api: Api): void {
  api.openapi(
    creation,
    async (c) => {
      const { "idempotency-key": key } = c.req.valid("header");
      const input = { destination: c.req.valid("json"), key, requestUrl: c.req.url };
      const created = await createDestination(callerIn(c), input);
      if (created.kind !== "ok") {
        const { existing } = created;
        return answerOf(created, existing === undefined ? {} : { location: `/v1/destinations/${existing}` });
      }
      const { row, shown } = created.value;
      return c.json({ ...destinationViewFor(callerIn(c).principal, row), ...shown }, 201);
    },
    (result, c: ApiContext) => {
      const given = result.target === "json" ? givenTo(result) : undefined;
      return refuseInvalid(result, creationErrors(c.get("services"), given, c.req.url));
    },
  );

  serve(api, "get", "/v1/destinations", getDestinations, {
    summary: "List destinations",
    tags,
    query: strict({
      tenant: tenantName.optional().describe("Only destinations of this tenant."),
      limit: limitParam,
      cursor: cursorParam(z.string().regex(idPatterns.destination)),
    }),
    input: ({ query: { tenant, limit, cursor: after } }) => ({ tenant, after, limit: limit + 1 }),
    view: (rows, caller, { query }) =>
      pageFrom(
        rows.map((row) => shownTo(row, caller)),
        query.limit,
        ({ id }) => id,
      ),
    responses: answers(
      200,
      pageOf(destinationSchema),
      "A page of destinations, ordered by id, without deleted ones.",
      422,
    ),
  });

  serve(api, "get", "/v1/destinations/{id}", getDestination, {
    summary: "Show a destination",
    tags,
    view: shownTo,
    responses: answers(200, destinationSchema, "The destination.", 404),
  });

  api.openapi(
    change,
    async (c) => {
      const { id } = c.req.valid("param");
      const input = { id, change: c.req.valid("json"), requestUrl: c.req.url };
      const caller = callerIn(c);
      const changed = await updateDestination(caller, input);
      return changed.kind === "ok" ? c.json(shownTo(changed.value, caller), 200) : answerOf(changed);
    },
    (result, c: ApiContext) =>
      refuseInvalid(result, urlErrors(c.get("services"), givenTo(result), c.req.url)),
  );

  serve(api, "delete", "/v1/destinations/{id}", removeDestination, {
    summary: "Delete a destination",
    description:
      "Deletion is final, and cancels the deliveries that have not ended: at once, or within minutes where they are many. An " +
      "attempt that is under way is finished and recorded. To keep the deliveries, pause the destination instead.",
    tags,
    responses: emptied("The destination is deleted.", 404),
  });
}

/** 422 with the errors of all fields at once: those that the schema finds, and the others. */
function refuseInvalid(result: Checked, others: ReturnType<typeof urlErrors>) {
  const errors = [...errorsOf(result), ...others];
  return errors.length > 0 ? invalid(errors) : undefined;
}

function registerDestinationStatus(api: Api): void {
  const common = {
    tags,
    view: shownTo,
    responses: answers(200, destinationSchema, "The destination.", 404),
  };
  serve(api, "post", "/v1/destinations/{id}/pause", pauseDestination, {
    ...common,
    summary: "Pause a destination",
    description:
      "Its deliveries wait until it is resumed, or until their age limits. A destination that is paused already keeps its " +
      "`status_reason`. May be repeated.",
  });
  serve(api, "post", "/v1/destinations/{id}/resume", resumeDestination, {
    ...common,
    summary: "Resume a destination",
    description: "What waits is delivered, beginning with one attempt at a time. May be repeated.",
  });
}

const testOrderSchema = strict({
  type: eventType.optional().openapi({
    example: "breakwater.test",
    description: "A type of the catalogue that has an example; `breakwater.test` by default.",
  }),
}).openapi("NewDestinationTest");

/** The report of a test event. */
const testResultSchema = documented("DestinationTest", {
  status: z.int().optional().describe("Absent when there was no response."),
  error: z
    .enum(attemptErrors)
    .optional()
    .describe(
      "Why there was no response of the receiver; after `connection_lost` the request may have arrived. With a " +
        "`status` beside it, Cloudflare's edge responded in its place.",
    ),
  latency_ms: z.number(),
  response_headers: z
    .record(z.string(), z.string())
    .optional()
    .describe("The first 100 headers of the response, of at most 1,000 characters each."),
  response: z
    .string()
    .optional()
    .describe("The first 4,096 bytes of the response body; absent when it is empty."),
  location: z.string().optional().describe("The target of a redirect, which is not followed."),
  sent: z.object({
    url: z.string().describe("The URL, or the target of another kind, as `queue:ORDERS`."),
    headers: z
      .record(z.string(), z.string())
      .describe("The values of the destination's own headers are masked."),
    body: z.string(),
  }),
});

function registerDestinationTest(api: Api): void {
  serve(api, "post", "/v1/destinations/{id}/test", testDestination, {
    summary: "Send a test event",
    tags,
    description:
      "Sends a signed event at once, even when the destination is paused or its circuit is open: the example of `type` in " +
      "the catalogue of event types, or an event of the type `breakwater.test`. It is not stored as a delivery and does not " +
      "affect circuit or limits. At most once in five seconds.",
    optionalBody: testOrderSchema,
    responses: answers(200, testResultSchema, "What was sent, and the result.", "body", 404, 409),
  });

  serve(api, "post", "/v1/destinations/{id}/certification", certifyDestination, {
    summary: "Test a receiver's conformance",
    tags,
    description:
      "Sends the endpoint at most eight signed requests, valid and forged ones, one after the other, and judges each by " +
      "the status and the time of its answer. They are events of the type `breakwater.test` with ids that begin with `test_`; " +
      "they are not stored as deliveries and do not affect circuit or limits. At most once a minute, not while a " +
      "`Retry-After` holds the destination, and for at most 45 seconds.",
    body: certificationOrder,
    responses: answers(200, certificationSchema, "The result of each check.", "body", 404, 409),
  });

  serve(api, "get", "/v1/destinations/{id}/certification", getCertification, {
    summary: "Show a receiver's conformance",
    tags,
    description: "The last result for the destination's current target.",
    responses: answers(200, certificationSchema, "The result of each check.", 404),
  });
}

function registerDestinationPreview(api: Api): void {
  serve(api, "post", "/v1/destinations/{id}/preview", previewDestination, {
    summary: "Preview which events a destination takes",
    tags,
    description:
      `Shows which of the last events of its tenant, at most ${MOST_PREVIEWED}, the destination's \`event_types\`, ` +
      "`channels` and `filter` take, or those of the body, so that they can be tried before they are set. Nothing is " +
      `changed or sent. It reads the last ${BUNDLES_LOOKED_AT} bundles, which other tenants' events share, and 8 MB of bodies: if ` +
      "others post a lot, or events are large, fewer events are shown.",
    middleware: [withinAnyReadLimit],
    optionalBody: destinationDraft,
    responses: answers(200, previewSchema, "The last events, and whether each would be taken.", "body", 404),
  });
}

const restoration = strict({ version: z.int("expected a whole number") });

function registerTransforms(api: Api): void {
  serve(api, "post", "/v1/destinations/{id}/transform/preview", previewTransform, {
    summary: "Preview a transformation",
    tags,
    description:
      `What a template or code, or the saved one, makes of the last events that the destination takes, at most ${MOST_TRIED}, and of a ` +
      "type's example. Nothing is changed or sent.",
    middleware: [withinAnyReadLimit],
    optionalBody: transformDraft,
    responses: answers(200, transformPreviewSchema, "Each event before and after.", "body", 404),
  });

  serve(api, "get", "/v1/destinations/{id}/transform/versions", getTransformVersions, {
    summary: "List the versions of a transformation",
    tags,
    responses: answers(200, transformVersions, "The versions.", 404),
  });

  serve(api, "post", "/v1/destinations/{id}/transform/restore", restoreTransform, {
    summary: "Restore a version of a transformation",
    tags,
    description:
      "Makes an earlier version the newest, under a new number, for events that are accepted from now on.",
    body: restoration.openapi("TransformRestoration"),
    input: ({ param, json, url: requestUrl }) => ({ ...param, ...json, requestUrl }),
    view: shownTo,
    responses: answers(200, destinationSchema, "The destination with it.", "body", 404, 409),
  });
}

function registerDestinationRotation(api: Api): void {
  serve(api, "post", "/v1/destinations/{id}/rotate-secret", rotateSecret, {
    summary: "Rotate a destination's secret",
    tags,
    description:
      "Each secret signs until its own overlap ends, even when the secret is rotated again before that: the current one " +
      `and at most ${MOST_PREVIOUS} previous ones. A further rotation is refused (409) until the first of them expires. ` +
      "With a secret of your own, or with `secret_version`, the request may be repeated. Signature forms with room for one " +
      "signature (`github`, `slack`, `shopify`, `template`) are signed with the new secret alone, from the next batch on.",
    optionalBody: secretRotation,
    view: ({ row, shown }, caller) => ({ ...shownTo(row, caller), ...shown }),
    responses: answers(
      200,
      destinationSchema.extend(shownSecret),
      "The destination, with its new secret; it is shown only here.",
      "body",
      404,
      409,
    ),
  });
}

const keySet = createRoute({
  method: "get",
  path: "/v1/destinations/{id}/jwks.json",
  summary: "Show a destination's public keys",
  description:
    "For the receiver, which needs no API key: with `ed25519`, the keys that verify deliveries, the current one first. " +
    "With `hmac-sha256` there are none.",
  tags,
  security: [],
  middleware: [withinAnonymousLimit],
  request: { params: idParam },
  responses: {
    200: jsonAnswer(
      documented("JsonWebKeySet", { keys: z.array(jwkSchema) }),
      "The public keys; an empty list for a destination with a shared secret.",
    ),
    ...problemResponses(404, 429, 503),
  },
});

/** Registered before authentication. */
export function registerDestinationKeys(api: Api): void {
  api.openapi(keySet, async (c) => {
    const keys = await publicKeysOf(c.get("services"), c.req.valid("param").id);
    if (keys.kind !== "ok") return answerOf(keys);
    return c.json({ keys: [...keys.value] }, 200, { "cache-control": `public, max-age=${MAX_AGE_S}` });
  });
}

/**
 * Short, so that a rotation is seen long before an overlap of a day ends. Isolates do not cache the keys: a receiver that
 * fetches them again, because it met a key that it does not know, must find it.
 */
const MAX_AGE_S = 300;

function registerMasterKeyRotation(api: Api): void {
  serve(api, "post", "/v1/rotate-master-key", rotateMasterKey, {
    summary: "Rotate the master key",
    tags: ["Operations"],
    description:
      "Seals the secrets, headers, `auth` and tokens of up to 100 destinations with the newest master key. Repeat it with " +
      "each `next_cursor` until that is null.",
    query: strict({ cursor: cursorParam(z.string().regex(idPatterns.destination)) }),
    input: ({ query: { cursor = "" } }) => cursor,
    responses: answers(200, masterKeyRotation, "The result of the step.", 422),
  });
}

function registerDestinationHealth(api: Api): void {
  serve(api, "get", "/v1/destinations/{id}/health", getDestinationHealth, {
    tags,
    summary: "Show a destination's health",
    description: "The state of its gate: what it does now, why, and until when.",
    responses: answers(200, healthSchema, "The destination's health.", 404),
  });

  serve(api, "post", "/v1/destinations/{id}/clear-hold", clearHold, {
    tags,
    summary: "End a hold",
    description:
      "A `Retry-After` holds the whole destination until the time that it names. When the receiver's owner says that it " +
      "may be called sooner, this ends the hold: what waits is delivered, beginning with one attempt at a time. May be " +
      "repeated; without a hold nothing changes. An open circuit and a pause stay as they are.",
    responses: answers(200, healthSchema, "The destination's health without the hold.", 404),
  });
}

/** The destination as its caller may see it. */
function shownTo(row: Destination, { principal }: Caller) {
  return destinationViewFor(principal, row);
}
