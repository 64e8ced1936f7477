/**
 * Endpoints: destinations of the application's tenant, which get the payload as it was posted, signed in the forms
 * `standard` and `svix`.
 */

import { z } from "@hono/zod-openapi";
import type { Hono } from "hono";
import { checked } from "../../core/field-errors.ts";
import { OPERATOR } from "../../core/principal.ts";
import { recordOf } from "../../core/record.ts";
import { ok, type Result } from "../../core/result.ts";
import { type Application, rateOf } from "../../features/applications/sql.ts";
import {
  destinationFields,
  fieldDescriptions,
  type SvixName,
  uidField,
} from "../../features/destinations/fields.ts";
import { destinationView, type ShownSecret } from "../../features/destinations/schema.ts";
import { revealSecret, rotateSecret, secretRotation } from "../../features/destinations/secrets.ts";
import {
  createDestination,
  getDestination,
  getDestinations,
  pauseDestination,
  removeDestination,
  resumeDestination,
  updateDestination,
  updateHeaders,
} from "../../features/destinations/service.ts";
import { readChange, readCreation } from "../../features/destinations/validate.ts";
import { type Destination, statusOf, storedHeaders } from "../../store/destination.ts";
import { destinationByUid, findDestination } from "../../store/destinations.ts";
import { isoTime } from "../../time.ts";
import { requires } from "../auth.ts";
import { type ApiContext, type ApiEnv, callerIn } from "../context.ts";
import { jsonBody } from "../json-body.ts";
import { answerOf, invalid, type ProblemResponse } from "../problems.ts";
import { rateField, rateIn } from "./applications.ts";
import {
  applicationOf,
  bodyOf,
  callerWithin,
  idempotencyKeyOf,
  listOf,
  notFoundProblem,
  orderedQuery,
  queryOf,
  renamedField,
  renamedRefusal,
} from "./shapes.ts";

const LIST = "/api/v1/app/:app/endpoint";
const ONE = "/api/v1/app/:app/endpoint/:endpoint";

export function registerEndpoints(app: Hono<ApiEnv>): void {
  app.post(LIST, requires("admin"), jsonBody(), async (c) => {
    const input = await bodyOf(c, newEndpoint);
    if (input instanceof Response) return input;
    const application = await applicationOf(c);
    if (application instanceof Response) return application;
    return endpointAnswer(c, application, await createEndpoint(c, application, input), 201);
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
    if (!(found instanceof Response))
      return endpointAnswer(c, application, await changeEndpoint(c, found, replacing(input)), 200);
    // As in the Svix API, a `uid` that nothing has is created.
    const name = c.req.param("endpoint");
    if (name.startsWith("dst_") || (input.uid ?? name) !== name) return found;
    const created = await createEndpoint(c, application, { ...input, uid: name });
    return endpointAnswer(c, application, created, 201);
  });

  app.patch(ONE, requires("admin"), jsonBody(), async (c) => {
    const input = await bodyOf(c, endpointPatch);
    if (input instanceof Response) return input;
    const found = await endpointOf(c);
    if (found instanceof Response) return found;
    return endpointAnswer(c, found.application, await changeEndpoint(c, found, input), 200);
  });

  registerDeletion(app, ONE);
  registerSecret(app, ONE);
  registerHeaders(app, ONE);
}

function endpointAnswer(
  c: ApiContext,
  application: Application,
  result: Result<Destination>,
  status: 200 | 201,
) {
  return result.kind === "ok" ? c.json(endpointView(result.value, application), status) : answerOf(result);
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
    const listed = await getDestinations(callerWithin(c, application), page);
    if (listed.kind !== "ok") return answerOf(listed);
    const shown = listed.value.map((row) => viewOf(row, application));
    return c.json(listOf(shown, limit, ({ id }) => id));
  });
}

/** @param one the path of an endpoint */
export function registerDeletion(app: Hono<ApiEnv>, one: string): void {
  app.delete(one, requires("admin"), async (c) => {
    const found = await endpointOf(c);
    if (found instanceof Response) return found;
    return emptyAnswer(c, await removeDestination(callerWithin(c, found.application), found.row.id));
  });
}

/** @param one the path of an endpoint */
export function registerSecret(app: Hono<ApiEnv>, one: string): void {
  app.get(`${one}/secret`, requires("admin"), async (c) => {
    const found = await endpointOf(c);
    if (found instanceof Response) return found;
    const revealed = await revealSecret(callerWithin(c, found.application), found.row);
    return revealed.kind === "ok" ? secretAnswer(c, revealed.value) : answerOf(revealed);
  });

  app.post(`${one}/secret/rotate`, requires("admin"), jsonBody({ mayBeEmpty: true }), async (c) => {
    const input = await bodyOf(c, rotation);
    if (input instanceof Response) return input;
    const found = await endpointOf(c);
    if (found instanceof Response) return found;
    const names = { secret: "key", overlap_s: "gracePeriodSeconds" };
    const body = { secret: secretIn(input.key), overlap_s: input.gracePeriodSeconds };
    const read = checked(secretRotation, body);
    if (!("data" in read))
      return invalid(read.map((error) => ({ ...error, field: renamedField(error.field, names) })));
    const { id } = found.row;
    const rotated = await rotateSecret(callerWithin(c, found.application), { ...read.data, id });
    if (rotated.kind !== "ok") return answerOf(renamedRefusal(rotated, names));
    // Some SDKs read the new secret from the answer, the others ignore its body.
    return secretAnswer(c, rotated.value.shown);
  });
}

function secretAnswer(c: ApiContext, { secret, public_key: half }: ShownSecret) {
  return c.json({ key: secret ?? half }, 200, { "cache-control": "no-store" });
}

/** Values of headers are sealed: only their names are shown, as the Svix API does with sensitive headers. */
export function registerHeaders(app: Hono<ApiEnv>, one: string): void {
  app.get(`${one}/headers`, requires("read"), async (c) => {
    const found = await endpointOf(c);
    if (found instanceof Response) return found;
    return c.json({ headers: {}, sensitive: Object.keys(storedHeaders(found.row).values) });
  });

  app.put(`${one}/headers`, requires("admin"), jsonBody(), async (c) => {
    const input = await bodyOf(c, z.object({ headers: headersField }));
    if (input instanceof Response) return input;
    const found = await endpointOf(c);
    return found instanceof Response
      ? found
      : emptyAnswer(c, await updateEndpoint(c, found, { headers: input.headers }));
  });

  app.patch(`${one}/headers`, requires("admin"), jsonBody(), async (c) => {
    const input = await bodyOf(c, headersPatch);
    if (input instanceof Response) return input;
    const found = await endpointOf(c);
    if (found instanceof Response) return found;
    const change = { id: found.row.id, set: input.headers, remove: input.deleteHeaders };
    return emptyAnswer(c, await updateHeaders(callerWithin(c, found.application), change));
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

const svixFields = fieldDescriptions.flatMap(([field, { svix }]) => (svix ? [{ field, ...svix }] : []));

/** The Svix API's names for the fields of a destination. */
const NAMES: Readonly<Record<string, string>> = Object.fromEntries(
  svixFields.map(({ field, name }) => [field, name]),
);

/** The fields that an endpoint has in both APIs. */
const sharedFields = svixFields.filter(({ isApart }) => !isApart);

const sharedShape: object = Object.fromEntries(
  sharedFields.map(({ name }) => [name, z.unknown().optional()]),
);

/** Fields that the schema of destinations checks are passed on as they are given. */
export const endpointUpdate = z.object({
  ...sharedShape,
  url: z.string({ error: "expected a URL" }),
  uid: uidField.nullish(),
  disabled: z.boolean({ error: "expected true or false" }).nullish(),
  eventTypes: z.unknown().optional(),
  filterTypes: z.unknown().optional(),
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
  const all = sharedFields.map((svix) => [svix.name, givenAs(svix, input) ?? null]);
  return { disabled: false, ...input, ...Object.fromEntries(all) };
}

/** The value by its name of today or by a former one; undefined where neither is given. */
function givenAs({ name, former }: SvixName, input: EndpointInput): unknown {
  const given: Readonly<Record<string, unknown>> = input;
  return given[name] === undefined && former !== undefined ? given[former] : given[name];
}

/** Base64 without a prefix is a secret there too. */
function secretIn(given: unknown): unknown {
  return typeof given === "string" && !/^wh(sec|sk)_/.test(given) ? `whsec_${given}` : given;
}

/** The event types; undefined where none are given. */
export function typesIn(input: EndpointInput): unknown {
  return givenAs(destinationFields.event_types.svix, input);
}

/** The fields of a destination; those that are left out are undefined. */
function fieldsOfEndpoint(input: EndpointInput, application: Application) {
  const shared = sharedFields.map(({ field, none, ...svix }) => {
    const given = givenAs(svix, input);
    return [field, none !== undefined && given === none ? null : given];
  });
  const rate = rateIn(input);
  return {
    ...Object.fromEntries(shared),
    url: input.url,
    rate_per_second: rate === null ? rateOf(application) : rate,
  };
}

/** Creates the endpoint; one that an earlier request with the same key has created is found again. */
export async function createEndpoint(
  c: ApiContext,
  application: Application,
  input: EndpointInput,
): Promise<Result<Destination>> {
  const body = {
    ...fieldsOfEndpoint({ ...input, throttleRate: rateIn(input) ?? null }, application),
    tenant: application.id,
    status: input.disabled === true ? "paused" : "active",
    headers: input.headers,
    secret: secretIn(input.secret),
    body: "data",
    signature_forms: [{ form: "standard" }, { form: "svix" }],
    ...(application.id === OPERATOR && { template: "svix" }),
  };
  const caller = callerIn(c);
  const read = readCreation(caller.services, body, c.req.url);
  if (read.kind !== "ok") return renamedRefusal(read, NAMES);
  const request = { destination: read.value, key: idempotencyKeyOf(c), requestUrl: c.req.url };
  const created = await createDestination(caller, request);
  if (created.kind === "ok") return ok(created.value.row);
  if (created.existing !== undefined) return getDestination(caller, created.existing);
  return renamedRefusal(created, NAMES);
}

/** Changes everything at once, but for the status: what is refused changes nothing. */
export async function changeEndpoint(
  c: ApiContext,
  endpoint: NamedEndpoint,
  input: EndpointInput,
): Promise<Result<Destination>> {
  const updated = await updateEndpoint(c, endpoint, fieldsOfEndpoint(input, endpoint.application));
  const { disabled } = input;
  if (updated.kind !== "ok" || typeof disabled !== "boolean" || disabled === isDisabled(endpoint.row))
    return updated;
  const setStatus = disabled ? pauseDestination : resumeDestination;
  return setStatus(callerWithin(c, endpoint.application), endpoint.row.id);
}

async function updateEndpoint(
  c: ApiContext,
  { application, row }: NamedEndpoint,
  body: object,
): Promise<Result<Destination>> {
  const caller = callerWithin(c, application);
  const read = readChange(caller.services, body, c.req.url);
  if (read.kind !== "ok") return renamedRefusal(read, NAMES);
  const update = { id: row.id, change: read.value, requestUrl: c.req.url };
  const updated = await updateDestination(caller, update);
  return updated.kind === "ok" ? updated : renamedRefusal(updated, NAMES);
}

function emptyAnswer(c: ApiContext, result: Result<unknown>): Response {
  return result.kind === "ok" ? c.body(null, 204) : answerOf(result);
}

export type NamedEndpoint = Readonly<{ application: Application; row: Destination }>;

/** The endpoint that the path names by id or `uid`, with its application, or the 404. */
export async function endpointOf(c: ApiContext): Promise<NamedEndpoint | ProblemResponse<404>> {
  const application = await applicationOf(c);
  if (application instanceof Response) return application;
  const name = c.req.param("endpoint") ?? "";
  const row = await namedEndpoint(c.get("services").db, application, name);
  return row ? { application, row } : notFoundProblem("endpoint", name);
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
  const view = destinationView(row);
  const isOwnRate = view.rate_per_second !== rateOf(application);
  const shared = sharedFields.flatMap(({ field, name, former, none = null }) => {
    const value = field === "rate_per_second" && !isOwnRate ? null : (view[field] ?? none);
    return [name, ...(former === undefined ? [] : [former])].map((one) => [one, value] as const);
  });
  return {
    id: row.id,
    url: row.url,
    version: 1,
    disabled: isDisabled(row),
    ...Object.fromEntries(shared),
    eventTypes: view.event_types,
    createdAt: isoTime(row.createdAt),
    updatedAt: isoTime(row.updatedAt),
  };
}
