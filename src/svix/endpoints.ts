/**
 * Endpoints: destinations of the application's tenant, which get the payload as it was posted, signed in the forms
 * `standard` and `svix`.
 */
import { z } from "@hono/zod-openapi";
import type { Hono } from "hono";
import { changed } from "../api/audit.ts";
import { requires } from "../api/auth.ts";
import type { ApiContext, ApiEnv } from "../api/context.ts";
import { destinationView } from "../api/destinations/schema.ts";
import { showSecret } from "../api/destinations/secrets.ts";
import { jsonBody } from "../api/json-body.ts";
import { type FieldError, invalid, type ProblemResponse, problem } from "../api/problems.ts";
import { type Application, rateOf } from "../db/applications.ts";
import {
  type Destination,
  destinationByUid,
  findDestination,
  limitsOf,
  listDestinations,
  nameDestination,
  statusOf,
  storedHeaders,
} from "../db/destinations.ts";
import { OPERATOR } from "../db/notifications.ts";
import { ownHeaders } from "../delivery/authorization.ts";
import { destinationIdFor } from "../ids.ts";
import { faultOf } from "../log.ts";
import { isoTime } from "../time.ts";
import { metadataField, rateField, rateIn } from "./applications.ts";
import type { CallNative, NativeResult } from "./native-api.ts";
import {
  applicationOf,
  bodyOf,
  idempotencyKeyOf,
  listOf,
  missing,
  orderedQuery,
  queryOf,
  uidField,
  uidTaken,
  unsupported,
} from "./shapes.ts";

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

  app.get(LIST, requires("read"), async (c) => {
    const query = queryOf(c, z.object(orderedQuery));
    if (query instanceof Response) return query;
    const application = await applicationOf(c);
    if (application instanceof Response) return application;
    const { limit, iterator: after, order } = query;
    const page = { tenant: application.id, after, limit: limit + 1, descending: order === "descending" };
    const rows = await listDestinations(c.get("services").db, page);
    const shown = rows.map((row) => endpointView(row, application));
    return c.json(listOf(shown, limit, ({ id }) => id));
  });

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
    if (!(found instanceof Response)) return changeEndpoint(c, callNative, found, { ...CLEARED, ...input });
    // As in the Svix API, a `uid` that nothing has is created.
    const name = c.req.param("endpoint");
    if (name.startsWith("dst_") || (input.uid ?? name) !== name) return found;
    return createEndpoint(c, callNative, application, { ...input, uid: name });
  });

  app.patch(ONE, requires("admin"), jsonBody(), async (c) => {
    const input = await bodyOf(c, endpointUpdate.partial());
    if (input instanceof Response) return input;
    const found = await endpointOf(c);
    return found instanceof Response ? found : changeEndpoint(c, callNative, found, input);
  });

  app.delete(ONE, requires("admin"), async (c) => {
    const found = await endpointOf(c);
    if (found instanceof Response) return found;
    return emptyAnswer(c, await callNative(c, "DELETE", `/v1/destinations/${found.row.id}`));
  });

  registerSecret(app, callNative, ONE);
  registerHeaders(app, callNative, ONE);
}

/** @param one the path of an endpoint */
export function registerSecret(app: Hono<ApiEnv>, callNative: CallNative, one: string): void {
  app.get(`${one}/secret`, requires("admin"), async (c) => {
    const found = await endpointOf(c);
    if (found instanceof Response) return found;
    const { vault, log } = c.get("services");
    const { id, secret } = found.row;
    try {
      const { secret: shared, public_key: half } = await showSecret(await vault.unseal(id, secret));
      changed(c, "destination.secret_shown", found.row);
      return c.json({ key: shared ?? half }, 200, { "cache-control": "no-store" });
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
    const path = `/v1/destinations/${found.row.id}/rotate-secret`;
    return emptyAnswer(c, await callNative(c, "POST", path, { body, names }));
  });
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
    return emptyAnswer(c, await setHeaders(c, callNative, found.row, input.headers));
  });

  app.patch(`${one}/headers`, requires("admin"), jsonBody(), async (c) => {
    const input = await bodyOf(c, headersPatch);
    if (input instanceof Response) return input;
    const found = await endpointOf(c);
    if (found instanceof Response) return found;
    const { headers, deleteHeaders = [] } = input;
    const gone = new Set([...Object.keys(headers), ...deleteHeaders].map((name) => name.toLowerCase()));
    const own = await ownHeaders(c.get("services").vault, found.row).catch(() => undefined);
    if (own === undefined) return problem(503, "The headers cannot be read at the moment");
    const kept = Object.entries(own).filter(([name]) => !gone.has(name.toLowerCase()));
    const all = { ...Object.fromEntries(kept), ...headers };
    return emptyAnswer(c, await setHeaders(c, callNative, found.row, all));
  });
}

const HEADERS_EXPECTED = "expected an object of strings";
const headersField = z.record(z.string(), z.string({ error: HEADERS_EXPECTED }), { error: HEADERS_EXPECTED });
const NAMES_EXPECTED = "expected a list of names of headers";
const headersPatch = z.object({
  headers: headersField,
  deleteHeaders: z
    .array(z.string({ error: NAMES_EXPECTED }), { error: NAMES_EXPECTED })
    .nullish()
    .transform((given) => given ?? []),
});

const rotation = z.object({ key: z.unknown().optional(), gracePeriodSeconds: z.unknown().optional() });

const CHANNELS_EXPECTED = "expected a list of channels";

/** What the native route checks is passed on as it is given. */
export const endpointUpdate = z.object({
  url: z.string({ error: "expected a URL" }),
  description: z.unknown().optional(),
  uid: uidField,
  disabled: z.boolean({ error: "expected true or false" }).nullish(),
  metadata: metadataField,
  eventTypes: z.unknown().optional(),
  filterTypes: z.unknown().optional(),
  channels: z.array(z.unknown(), { error: CHANNELS_EXPECTED }).nullish(),
  throttleRate: rateField,
  rateLimit: rateField,
});

export const newEndpoint = endpointUpdate.extend({
  secret: z.unknown().optional(),
  headers: headersField.nullish(),
});

type NewEndpoint = z.infer<typeof newEndpoint>;
export type EndpointInput = { [K in keyof NewEndpoint]?: NewEndpoint[K] | undefined };

/** What an update resets where it is left out. */
export const CLEARED = {
  description: null,
  uid: null,
  disabled: false,
  metadata: null,
  eventTypes: null,
  throttleRate: null,
};

const NAMES = { rate_per_second: "throttleRate", event_types: "eventTypes" };

/** Base64 without a prefix is a secret there too. */
function secretIn(given: unknown): unknown {
  return typeof given === "string" && !/^wh(sec|sk)_/.test(given) ? `whsec_${given}` : given;
}

function channelErrors({ channels }: Pick<EndpointInput, "channels">): FieldError[] {
  return channels && channels.length > 0
    ? [unsupported("channels", "none: eventTypes choose what an endpoint gets")]
    : [];
}

/** The fields of a destination; those that are left out are undefined. */
function destinationFields(input: EndpointInput, application: Application) {
  const types = input.eventTypes === undefined ? input.filterTypes : input.eventTypes;
  const rate = rateIn(input);
  return {
    url: input.url,
    description: input.description === "" ? null : input.description,
    metadata: input.metadata,
    event_types: types,
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
  const errors = channelErrors(input);
  if (errors.length > 0) return invalid(errors);
  const { uid = null } = input;
  const key = idempotencyKeyOf(c);
  const id = key === undefined ? undefined : await destinationIdFor(application.id, key);
  const earlier = id === undefined ? undefined : await findDestination(db, id, application.id);
  if (earlier) return named(c, callNative, { application, row: earlier }, input, 201);
  if (uid !== null && (await destinationByUid(db, application.id, uid))) return uidTaken("endpoint", uid);
  const body = {
    ...destinationFields({ ...input, throttleRate: rateIn(input) ?? null }, application),
    tenant: application.id,
    headers: input.headers,
    secret: secretIn(input.secret),
    body: "data",
    signature_forms: [{ form: "standard" }, { form: "svix" }],
    ...(application.id === OPERATOR && { template: "svix" }),
  };
  const made = await callNative(c, "POST", "/v1/destinations", { body, key, names: NAMES });
  if (!made.ok) return made.answer;
  const row = await findDestination(db, String(made.json.id), application.id);
  if (row === undefined) return missing("endpoint", String(made.json.id));
  const answer = await named(c, callNative, { application, row }, input, 201);
  // Another request has taken the uid at the same moment.
  if (answer.status === 409) await callNative(c, "DELETE", `/v1/destinations/${row.id}`);
  return answer;
}

export async function changeEndpoint(
  c: ApiContext,
  callNative: CallNative,
  { application, row }: Endpoint,
  input: EndpointInput,
): Promise<Response> {
  const { db } = c.get("services");
  const errors = channelErrors(input);
  if (errors.length > 0) return invalid(errors);
  const { uid = null } = input;
  const holder = uid === null ? undefined : await destinationByUid(db, application.id, uid);
  if (holder && holder.id !== row.id) return uidTaken("endpoint", uid);
  const body = destinationFields(input, application);
  const made = await callNative(c, "PATCH", `/v1/destinations/${row.id}`, { body, names: NAMES });
  if (!made.ok) return made.answer;
  const after = await findDestination(db, row.id, application.id);
  if (after === undefined) return missing("endpoint", row.id);
  return named(c, callNative, { application, row: after }, input, 200);
}

/** Gives the endpoint its `uid`, disables or enables it, and shows it. */
async function named(
  c: ApiContext,
  callNative: CallNative,
  { application, row }: Endpoint,
  { uid, disabled }: EndpointInput,
  status: 200 | 201,
): Promise<Response> {
  const { db } = c.get("services");
  const isSame = uid === undefined || uid === row.uid;
  const after = isSame ? row : await nameDestination(db, row, uid);
  if (after === undefined) return uidTaken("endpoint", uid);
  if (typeof disabled !== "boolean" || disabled === isDisabled(after))
    return c.json(endpointView(after, application), status);
  const turned = await callNative(c, "POST", `/v1/destinations/${row.id}/${disabled ? "pause" : "resume"}`);
  if (!turned.ok) return turned.answer;
  return c.json({ ...endpointView(after, application), disabled }, status);
}

function setHeaders(c: ApiContext, callNative: CallNative, { id }: Destination, headers: object) {
  return callNative(c, "PATCH", `/v1/destinations/${id}`, { body: { headers } });
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

function isDisabled(row: Destination): boolean {
  return statusOf(row) === "paused";
}

/** A rate that is the application's is none of its own. */
export function endpointView(row: Destination, application: Application) {
  const { rate_per_second: rate } = limitsOf(row);
  const throttleRate = rate === rateOf(application) ? null : rate;
  const { event_types: types, metadata } = destinationView(row);
  return {
    id: row.id,
    uid: row.uid,
    url: row.url,
    description: row.description ?? "",
    version: 1,
    disabled: isDisabled(row),
    ...{ eventTypes: types, filterTypes: types, channels: null },
    ...{ rateLimit: throttleRate, throttleRate },
    metadata,
    createdAt: isoTime(row.createdAt),
    updatedAt: isoTime(row.updatedAt),
  };
}
