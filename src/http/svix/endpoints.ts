/**
 * Endpoints: destinations of the application's tenant, which get the payload as it was posted, signed in the forms
 * `standard` and `svix`.
 */

import { z } from "@hono/zod-openapi";
import type { Hono } from "hono";
import { OPERATOR } from "../../core/principal.ts";
import { recordOf } from "../../core/record.ts";
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
import { rateField, rateIn } from "./applications.ts";
import {
  applicationOf,
  bodyOf,
  callerWithin,
  granted,
  idempotencyKeyOf,
  listOf,
  type Names,
  noContent,
  optionalBoolean,
  orderedQuery,
  queryOf,
  refuseUnknown,
  validated,
} from "./shapes.ts";

/** The paths of one kind of endpoints, and the particulars of their answers and inputs. */
type EndpointKind = Readonly<{
  list: string;
  viewOf: (row: Destination, application: Application) => Readonly<{ id: string }>;
  /** The input with event types as destinations have them. */
  read: (input: EndpointInput) => EndpointInput;
}>;

export function registerEndpoints(app: Hono<ApiEnv>): void {
  const list = "/api/v1/app/:app/endpoint";
  registerKind(app, { list, viewOf: endpointView, read: (input) => input });

  app.patch(`${list}/:endpoint`, requires("admin"), jsonBody(), async (c) => {
    const input = await bodyOf(c, endpointPatch);
    const endpoint = await endpointOf(c);
    return c.json(endpointView(await changeEndpoint(c, endpoint, input), endpoint.application));
  });
}

export function registerKind(app: Hono<ApiEnv>, { list, viewOf, read }: EndpointKind): void {
  const one = `${list}/:endpoint`;

  app.post(list, requires("admin"), jsonBody(), async (c) => {
    const input = await bodyOf(c, newEndpoint);
    const application = await applicationOf(c);
    return c.json(viewOf(await createEndpoint(c, application, read(input)), application), 201);
  });

  app.get(list, requires("read"), async (c) => {
    const { limit, iterator: after, order } = queryOf(c, z.object(orderedQuery));
    const application = await applicationOf(c);
    const page = { tenant: application.id, after, limit: limit + 1, descending: order === "descending" };
    const listed = granted(await getDestinations(callerWithin(c, application), page));
    const shown = listed.map((row) => viewOf(row, application));
    return c.json(listOf(shown, limit, ({ id }) => id));
  });

  app.get(one, requires("read"), async (c) => {
    const { row, application } = await endpointOf(c);
    return c.json(viewOf(row, application));
  });

  app.put(one, requires("admin"), jsonBody(), async (c) => {
    const input = await bodyOf(c, endpointUpdate);
    const application = await applicationOf(c);
    const name = c.req.param("endpoint") ?? "";
    const row = await namedEndpoint(c.get("services").db, application, name);
    if (row) {
      const changed = await changeEndpoint(c, { application, row }, replacing(read(input)));
      return c.json(viewOf(changed, application));
    }
    // As in the Svix API, an unused `uid` is created.
    if (name.startsWith("dst_") || (input.uid ?? name) !== name) refuseUnknown("endpoint", name);
    const created = await createEndpoint(c, application, read({ ...input, uid: name }));
    return c.json(viewOf(created, application), 201);
  });

  app.delete(one, requires("admin"), async (c) => {
    const { application, row } = await endpointOf(c);
    return noContent(c, await removeDestination(callerWithin(c, application), row.id));
  });

  app.get(`${one}/secret`, requires("admin"), async (c) => {
    const { application, row } = await endpointOf(c);
    return secretAnswer(c, granted(await revealSecret(callerWithin(c, application), row)));
  });

  app.post(`${one}/secret/rotate`, requires("admin"), jsonBody({ mayBeEmpty: true }), async (c) => {
    const input = await bodyOf(c, rotation);
    const { application, row } = await endpointOf(c);
    const names = { secret: "key", overlap_s: "gracePeriodSeconds" };
    const body = { secret: secretIn(input.key), overlap_s: input.gracePeriodSeconds };
    const change = { ...validated(secretRotation, body, names), id: row.id };
    const rotated = await rotateSecret(callerWithin(c, application), change);
    // Some SDKs read the new secret from the answer, the others ignore its body.
    return secretAnswer(c, granted(rotated, names).shown);
  });

  // Values of headers are sealed: only their names are shown, as the Svix API does with sensitive headers.
  app.get(`${one}/headers`, requires("read"), async (c) => {
    const { row } = await endpointOf(c);
    return c.json({ headers: {}, sensitive: Object.keys(storedHeaders(row).values) });
  });

  app.put(`${one}/headers`, requires("admin"), jsonBody(), async (c) => {
    const { headers } = await bodyOf(c, z.object({ headers: headersField }));
    await updateEndpoint(c, await endpointOf(c), { headers });
    return c.body(null, 204);
  });

  app.patch(`${one}/headers`, requires("admin"), jsonBody(), async (c) => {
    const { headers: set, deleteHeaders: remove } = await bodyOf(c, headersPatch);
    const { application, row } = await endpointOf(c);
    return noContent(c, await updateHeaders(callerWithin(c, application), { id: row.id, set, remove }));
  });
}

function secretAnswer(c: ApiContext, { secret, public_key: half }: ShownSecret) {
  return c.json({ key: secret ?? half }, 200, { "cache-control": "no-store" });
}

const HEADERS_EXPECTED = "expected an object of strings";
const headersField = recordOf(z.string(), z.string(HEADERS_EXPECTED), { error: HEADERS_EXPECTED });
const NAMES_EXPECTED = "expected a list of names of headers";
const headersPatch = z.object({
  headers: headersField,
  deleteHeaders: z
    .array(z.string(NAMES_EXPECTED), NAMES_EXPECTED)
    .nullish()
    .transform((given) => given ?? []),
});

const rotation = z.object({ key: z.unknown().optional(), gracePeriodSeconds: z.unknown().optional() });

const svixFields = fieldDescriptions.flatMap(([field, { svix }]) => (svix ? [{ field, ...svix }] : []));

/** The Svix API's names for the fields of a destination. */
const NAMES: Names = Object.fromEntries(svixFields.map(({ field, name }) => [field, name]));

/** The fields that an endpoint has in both APIs. */
const sharedFields = svixFields.filter(({ isApart }) => !isApart);

const sharedShape: object = Object.fromEntries(
  sharedFields.map(({ name }) => [name, z.unknown().optional()]),
);

/** Fields that the schema of destinations checks are passed on as they are given. */
const endpointUpdate = z.object({
  ...sharedShape,
  url: z.string("expected a URL"),
  uid: uidField.nullish(),
  disabled: optionalBoolean,
  eventTypes: z.unknown().optional(),
  filterTypes: z.unknown().optional(),
  throttleRate: rateField,
  rateLimit: rateField,
});

const newEndpoint = endpointUpdate.extend({
  secret: z.unknown().optional(),
  headers: headersField.nullish(),
});

const endpointPatch = endpointUpdate
  .partial()
  .extend({ secret: z.null("expected none: secret/rotate takes a secret as its key").optional() });

type NewEndpoint = z.infer<typeof newEndpoint>;
export type EndpointInput = { [K in keyof NewEndpoint]?: NewEndpoint[K] | undefined };

/** An update resets what it leaves out. */
function replacing(input: EndpointInput): EndpointInput {
  const all = sharedFields.map((svix) => [svix.name, givenAs(svix, input) ?? null]);
  return { disabled: false, ...input, ...Object.fromEntries(all) };
}

/** The value by its name of today or by a former one; undefined if neither is given. */
function givenAs({ name, former }: SvixName, input: EndpointInput): unknown {
  const given: Readonly<Record<string, unknown>> = input;
  return given[name] === undefined && former !== undefined ? given[former] : given[name];
}

/** Base64 without a prefix is a secret there too. */
function secretIn(given: unknown): unknown {
  return typeof given === "string" && !/^wh(sec|sk)_/.test(given) ? `whsec_${given}` : given;
}

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
async function createEndpoint(c: ApiContext, application: Application, input: EndpointInput) {
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
  const destination = granted(readCreation(caller.services, body, c.req.url), NAMES);
  const request = { destination, key: idempotencyKeyOf(c), requestUrl: c.req.url };
  const created = await createDestination(caller, request);
  if (created.kind !== "ok" && created.existing !== undefined)
    return granted(await getDestination(caller, created.existing));
  return granted(created, NAMES).row;
}

/** Changes everything at once, except the status: a refused change changes nothing. */
async function changeEndpoint(c: ApiContext, endpoint: NamedEndpoint, input: EndpointInput) {
  const { application, row } = endpoint;
  const updated = await updateEndpoint(c, endpoint, fieldsOfEndpoint(input, application));
  const { disabled } = input;
  if (typeof disabled !== "boolean" || disabled === isDisabled(row)) return updated;
  const setStatus = disabled ? pauseDestination : resumeDestination;
  return granted(await setStatus(callerWithin(c, application), row.id));
}

async function updateEndpoint(c: ApiContext, { application, row }: NamedEndpoint, body: object) {
  const caller = callerWithin(c, application);
  const change = granted(readChange(caller.services, body, c.req.url), NAMES);
  return granted(await updateDestination(caller, { id: row.id, change, requestUrl: c.req.url }), NAMES);
}

export type NamedEndpoint = Readonly<{ application: Application; row: Destination }>;

/** The endpoint that the path names by id or `uid`, with its application, or the 404. */
export async function endpointOf(c: ApiContext): Promise<NamedEndpoint> {
  const application = await applicationOf(c);
  const name = c.req.param("endpoint") ?? "";
  const row = await namedEndpoint(c.get("services").db, application, name);
  return row ? { application, row } : refuseUnknown("endpoint", name);
}

/** By id, else by `uid`. */
export async function namedEndpoint(db: D1Database, { id: tenant }: Application, name: string) {
  return (await findDestination(db, name, tenant)) ?? (await destinationByUid(db, tenant, name));
}

function isDisabled(row: Pick<Destination, "status">): boolean {
  return statusOf(row) === "paused";
}

/** A rate equal to the application's is not the endpoint's own. */
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
