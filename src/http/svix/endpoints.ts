/**
 * Endpoints: destinations of the application's tenant, which get the payload as it was posted, signed in the forms
 * `standard` and `svix`.
 */

import { z } from "@hono/zod-openapi";
import type { Hono } from "hono";
import { changesBetween } from "../../core/audit.ts";
import { OPERATOR } from "../../core/principal.ts";
import { recordOf } from "../../core/record.ts";
import { ownHeaders } from "../../delivery/authorization.ts";
import { type Application, rateOf } from "../../features/applications/sql.ts";
import { changed } from "../../features/audit/routes.ts";
import { destinationView, uidField } from "../../features/destinations/schema.ts";
import { showSecret } from "../../features/destinations/secrets.ts";
import { editHeaders } from "../../features/destinations/write.ts";
import { destinationIdFor } from "../../ids.ts";
import { faultOf } from "../../log.ts";
import {
  type Destination,
  destinationByUid,
  findDestination,
  limitsOf,
  listDestinations,
  statusOf,
  storedHeaders,
} from "../../store/destinations.ts";

import { isoTime } from "../../time.ts";
import { requires } from "../auth.ts";
import type { ApiContext, ApiEnv } from "../context.ts";
import { apiPath } from "../internal-path.ts";
import { jsonBody } from "../json-body.ts";
import { type ProblemResponse, problem } from "../problems.ts";
import { metadataField, rateField, rateIn } from "./applications.ts";
import type { CallNative, NativeResult } from "./native-api.ts";
import { applicationOf, bodyOf, idempotencyKeyOf, listOf, missing, orderedQuery, queryOf } from "./shapes.ts";

const LIST = "/api/v1/app/:app/endpoint";
const ONE = "/api/v1/app/:app/endpoint/:endpoint";

export function registerEndpoints(app: Hono<ApiEnv>, callNative: CallNative): void {
  app.post(LIST, requires("admin"), jsonBody(), async (c) => {
    const input = await bodyOf(c, newEndpoint);
    if (input instanceof Response) return input;
    const application = await applicationOf(c);
    if (application instanceof Response) return application;
    return createEndpoint(c, callNative, application, input);
  });

  registerList(app, LIST, endpointView);

  app.get(ONE, requires("read"), async (c) => {
    const found = await endpointOf(c);
    return found instanceof Response ? found : c.json(endpointView(found.row, found.application));
  });

  app.put(ONE, requires("admin"), jsonBody(), async (c) => {
    const input = await bodyOf(c, endpointUpdate);
    if (input instanceof Response) return input;
    const application = await applicationOf(c);
    if (application instanceof Response) return application;
    const found = await endpointOf(c);
    if (!(found instanceof Response)) return changeEndpoint(c, callNative, found, replacing(input));
    // As in the Svix API, a `uid` that nothing has is created.
    const name = c.req.param("endpoint");
    if (name.startsWith("dst_") || (input.uid ?? name) !== name) return found;
    return createEndpoint(c, callNative, application, { ...input, uid: name });
  });

  app.patch(ONE, requires("admin"), jsonBody(), async (c) => {
    const input = await bodyOf(c, endpointPatch);
    if (input instanceof Response) return input;
    const found = await endpointOf(c);
    return found instanceof Response ? found : changeEndpoint(c, callNative, found, input);
  });

  app.delete(ONE, requires("admin"), async (c) => {
    const found = await endpointOf(c);
    if (found instanceof Response) return found;
    return emptyAnswer(c, await callNative(c, "DELETE", apiPath`/v1/destinations/${found.row.id}`));
  });

  registerSecret(app, callNative, ONE);
  registerHeaders(app, callNative, ONE);
}

/** @param list the path of the endpoints */
export function registerList(
  app: Hono<ApiEnv>,
  list: string,
  viewOf: (row: Destination, application: Application) => Readonly<{ id: string }>,
): void {
  app.get(list, requires("read"), async (c) => {
    const query = queryOf(c, z.object(orderedQuery));
    if (query instanceof Response) return query;
    const application = await applicationOf(c);
    if (application instanceof Response) return application;
    const { limit, iterator: after, order } = query;
    const page = { tenant: application.id, after, limit: limit + 1, descending: order === "descending" };
    const rows = await listDestinations(c.get("services").db, page);
    const shown = rows.map((row) => viewOf(row, application));
    return c.json(listOf(shown, limit, ({ id }) => id));
  });
}

/** @param one the path of an endpoint */
export function registerSecret(app: Hono<ApiEnv>, callNative: CallNative, one: string): void {
  app.get(`${one}/secret`, requires("admin"), async (c) => {
    const found = await endpointOf(c);
    if (found instanceof Response) return found;
    const { vault, log } = c.get("services");
    const { id, secret } = found.row;
    try {
      const shown = await showSecret(await vault.unseal(id, secret));
      changed(c, "destination.secret_shown", found.row);
      return secretAnswer(c, shown);
    } catch (error) {
      log({ what: "secret_unreadable", destination: id, error: faultOf(error) });
      return problem(503, "The secret cannot be read at the moment");
    }
  });

  app.post(`${one}/secret/rotate`, requires("admin"), jsonBody({ mayBeEmpty: true }), async (c) => {
    const input = await bodyOf(c, rotation);
    if (input instanceof Response) return input;
    const found = await endpointOf(c);
    if (found instanceof Response) return found;
    const body = { secret: secretIn(input.key), overlap_s: input.gracePeriodSeconds };
    const names = { secret: "key", overlap_s: "gracePeriodSeconds" };
    const path = apiPath`/v1/destinations/${found.row.id}/rotate-secret`;
    const rotated = await callNative(c, "POST", path, { body, names });
    // Some SDKs read the new secret from the answer, the others ignore its body.
    return rotated.ok ? secretAnswer(c, rotated.json) : rotated.answer;
  });
}

function secretAnswer(
  c: ApiContext,
  { secret, public_key: half }: { secret?: unknown; public_key?: unknown },
) {
  return c.json({ key: secret ?? half }, 200, { "cache-control": "no-store" });
}

/** Values of headers are sealed: only their names are shown, as of those that the Svix API holds for sensitive. */
export function registerHeaders(app: Hono<ApiEnv>, callNative: CallNative, one: string): void {
  app.get(`${one}/headers`, requires("read"), async (c) => {
    const found = await endpointOf(c);
    if (found instanceof Response) return found;
    return c.json({ headers: {}, sensitive: Object.keys(storedHeaders(found.row).values) });
  });

  app.put(`${one}/headers`, requires("admin"), jsonBody(), async (c) => {
    const input = await bodyOf(c, z.object({ headers: headersField }));
    if (input instanceof Response) return input;
    const found = await endpointOf(c);
    if (found instanceof Response) return found;
    const body = { headers: input.headers };
    return emptyAnswer(c, await callNative(c, "PATCH", apiPath`/v1/destinations/${found.row.id}`, { body }));
  });

  app.patch(`${one}/headers`, requires("admin"), jsonBody(), async (c) => {
    const input = await bodyOf(c, headersPatch);
    if (input instanceof Response) return input;
    const found = await endpointOf(c);
    if (found instanceof Response) return found;
    const { headers, deleteHeaders = [] } = input;
    const gone = new Set([...Object.keys(headers), ...deleteHeaders].map((name) => name.toLowerCase()));
    const services = c.get("services");
    const { id, tenant } = found.row;
    const done = await editHeaders(services, id, tenant, async (stored) => {
      const own = await ownHeaders(services.vault, stored).catch(() => undefined);
      if (own === undefined) return problem(503, "The headers cannot be read at the moment");
      const kept = Object.entries(own).filter(([name]) => !gone.has(name.toLowerCase()));
      return { ...Object.fromEntries(kept), ...headers };
    });
    if (done instanceof Response) return done;
    const changes = changesBetween(destinationView(done.stored), destinationView(done.row));
    changed(c, "destination.changed", done.row, changes);
    return c.body(null, 204);
  });
}

const HEADERS_EXPECTED = "expected an object of strings";
const headersField = recordOf(z.string(), z.string({ error: HEADERS_EXPECTED }), { error: HEADERS_EXPECTED });
const NAMES_EXPECTED = "expected a list of names of headers";
const headersPatch = z.object({
  headers: headersField,
  deleteHeaders: z
    .array(z.string({ error: NAMES_EXPECTED }), { error: NAMES_EXPECTED })
    .nullish()
    .transform((given) => given ?? []),
});

const rotation = z.object({ key: z.unknown().optional(), gracePeriodSeconds: z.unknown().optional() });

/** What the native route checks is passed on as it is given. */
export const endpointUpdate = z.object({
  url: z.string({ error: "expected a URL" }),
  description: z.unknown().optional(),
  uid: uidField.nullish(),
  disabled: z.boolean({ error: "expected true or false" }).nullish(),
  metadata: metadataField,
  eventTypes: z.unknown().optional(),
  filterTypes: z.unknown().optional(),
  channels: z.unknown().optional(),
  throttleRate: rateField,
  rateLimit: rateField,
});

export const newEndpoint = endpointUpdate.extend({
  secret: z.unknown().optional(),
  headers: headersField.nullish(),
});

const endpointPatch = endpointUpdate
  .partial()
  .extend({ secret: z.null({ error: "expected none: secret/rotate takes a secret as its key" }).optional() });

type NewEndpoint = z.infer<typeof newEndpoint>;
export type EndpointInput = { [K in keyof NewEndpoint]?: NewEndpoint[K] | undefined };

/** An update resets what it leaves out. */
export function replacing(input: EndpointInput): EndpointInput {
  const reset = { description: null, uid: null, disabled: false, metadata: null, channels: null };
  const byEitherName = { eventTypes: typesIn(input) ?? null, throttleRate: rateIn(input) ?? null };
  return { ...reset, ...input, ...byEitherName };
}

const NAMES = { rate_per_second: "throttleRate", event_types: "eventTypes" };

/** Base64 without a prefix is a secret there too. */
function secretIn(given: unknown): unknown {
  return typeof given === "string" && !/^wh(sec|sk)_/.test(given) ? `whsec_${given}` : given;
}

/** The event types by their name of today or by the former one; undefined where neither is given. */
export function typesIn({ eventTypes, filterTypes }: EndpointInput): unknown {
  return eventTypes === undefined ? filterTypes : eventTypes;
}

/** The fields of a destination; those that are left out are undefined. */
function destinationFields(input: EndpointInput, application: Application) {
  const rate = rateIn(input);
  return {
    url: input.url,
    uid: input.uid,
    description: input.description === "" ? null : input.description,
    metadata: input.metadata,
    event_types: typesIn(input),
    channels: input.channels,
    rate_per_second: rate === null ? rateOf(application) : rate,
  };
}

export async function createEndpoint(
  c: ApiContext,
  callNative: CallNative,
  application: Application,
  input: EndpointInput,
): Promise<Response> {
  const { db } = c.get("services");
  const key = idempotencyKeyOf(c);
  const id = key === undefined ? undefined : await destinationIdFor(application.id, key);
  const earlier = id === undefined ? undefined : await findDestination(db, id, application.id);
  if (earlier) return c.json(endpointView(earlier, application), 201);
  const body = {
    ...destinationFields({ ...input, throttleRate: rateIn(input) ?? null }, application),
    tenant: application.id,
    status: input.disabled === true ? "paused" : "active",
    headers: input.headers,
    secret: secretIn(input.secret),
    body: "data",
    signature_forms: [{ form: "standard" }, { form: "svix" }],
    ...(application.id === OPERATOR && { template: "svix" }),
  };
  const made = await callNative(c, "POST", apiPath`/v1/destinations`, { body, key, names: NAMES });
  if (!made.ok) return made.answer;
  return shownEndpoint(c, application, String(made.json.id), 201);
}

/** Changes everything at once, but for the status: what is refused changes nothing. */
export async function changeEndpoint(
  c: ApiContext,
  callNative: CallNative,
  { application, row: { id, ...before } }: Endpoint,
  input: EndpointInput,
): Promise<Response> {
  const body = destinationFields(input, application);
  const made = await callNative(c, "PATCH", apiPath`/v1/destinations/${id}`, { body, names: NAMES });
  if (!made.ok) return made.answer;
  const { disabled } = input;
  if (typeof disabled === "boolean" && disabled !== isDisabled(before)) {
    const turned = await callNative(
      c,
      "POST",
      apiPath`/v1/destinations/${id}/${disabled ? "pause" : "resume"}`,
    );
    if (!turned.ok) return turned.answer;
  }
  return shownEndpoint(c, application, id, 200);
}

async function shownEndpoint(
  c: ApiContext,
  application: Application,
  id: string,
  status: 200 | 201,
): Promise<Response> {
  const row = await findDestination(c.get("services").db, id, application.id);
  return row ? c.json(endpointView(row, application), status) : missing("endpoint", id);
}

function emptyAnswer(c: ApiContext, result: NativeResult): Response {
  return result.ok ? c.body(null, 204) : result.answer;
}

export type Endpoint = Readonly<{ application: Application; row: Destination }>;

/** The endpoint that the path names by id or `uid`, with its application, or the 404. */
export async function endpointOf(c: ApiContext): Promise<Endpoint | ProblemResponse<404>> {
  const application = await applicationOf(c);
  if (application instanceof Response) return application;
  const name = c.req.param("endpoint") ?? "";
  const row = await namedEndpoint(c.get("services").db, application, name);
  return row ? { application, row } : missing("endpoint", name);
}

/** By id, else by `uid`. */
export async function namedEndpoint(
  db: D1Database,
  { id: tenant }: Application,
  name: string,
): Promise<Destination | undefined> {
  return (await findDestination(db, name, tenant)) ?? (await destinationByUid(db, tenant, name));
}

function isDisabled(row: Pick<Destination, "status">): boolean {
  return statusOf(row) === "paused";
}

/** A rate that is the application's is none of its own. */
export function endpointView(row: Destination, application: Application) {
  const { rate_per_second: rate } = limitsOf(row);
  const throttleRate = rate === rateOf(application) ? null : rate;
  const { event_types: types, channels, metadata } = destinationView(row);
  return {
    id: row.id,
    uid: row.uid,
    url: row.url,
    description: row.description ?? "",
    version: 1,
    disabled: isDisabled(row),
    ...{ eventTypes: types, filterTypes: types, channels },
    ...{ rateLimit: throttleRate, throttleRate },
    metadata,
    createdAt: isoTime(row.createdAt),
    updatedAt: isoTime(row.updatedAt),
  };
}
