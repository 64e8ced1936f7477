/**
 * The configuration of a deployment as a document, and a plan to reach it: what is to be created, changed and deleted.
 *
 * Fields that the document leaves out stay as they are, and so do objects that it does not name: only pruning deletes.
 * Values that the API never shows (secrets, headers, credentials) cannot be compared: they are set on creation, and
 * later on request.
 */
import {
  type ApiKey,
  type Breakwater,
  type Destination,
  type DestinationChange,
  dataOf,
  type EventType,
  type NewApiKey,
  type NewDestination,
  type NewEventType,
  type TenantChange,
} from "../src/breakwater.ts";
import { parsedWithDigits, withDigits } from "./exact-numbers.ts";

type Fields = Readonly<Record<string, unknown>>;
type Named = Readonly<Record<string, Fields>>;

type TenantPart = Readonly<{ settings?: Fields | undefined; destinations?: Named | undefined }>;

export type Configuration = Readonly<{
  event_types?: Named | undefined;
  tenants?: Readonly<Record<string, TenantPart>>;
  keys?: Named | undefined;
}>;

export type Path = readonly string[];

/** The document is not a configuration. The values in it are not repeated: they may be secrets. */
export class InvalidConfiguration extends Error {
  readonly path: Path;

  /** @param path where in the document the mistake is */
  constructor(path: Path, fault: string) {
    super(`${path.join(".") || "The document"} ${fault}`);
    this.path = path;
  }
}

type Change = Readonly<{ field: string; from: unknown; to: unknown }>;

export type PlanStep = Readonly<{
  /** `blocked`: it differs in something that cannot be changed. */
  action: "create" | "change" | "delete" | "blocked";
  kind: "event type" | "tenant" | "destination" | "key";
  name: string;
  changes: readonly Change[];
  /** Where the document describes it; empty for a deletion. */
  path: Path;
  /** Whether it creates a key or a signing secret, which the API shows only once. */
  makesSecret?: boolean;
}> & {
  /** Makes the change. Returns the created object, with its key or secret. */
  readonly apply: () => Promise<Created | undefined>;
};

export type Created = Readonly<{ id: string; secret?: string; key?: string }>;

export type PlanOptions = Readonly<{
  /** Whether to delete event types, and destinations with a `uid`, that the document does not name. */
  prune?: boolean;
  secrets?: boolean;
}>;

// ── The document ──

/** @throws InvalidConfiguration that names the place and what is expected there */
export function configurationIn(document: unknown): Configuration {
  const sections = sectionsIn(document, [], ["event_types", "tenants", "keys"]);
  const tenants = Object.entries(mapIn(sections.tenants, ["tenants"])).map(([name, value]) => {
    const path = ["tenants", name];
    const { settings, destinations } = sectionsIn(value, path, ["settings", "destinations"]);
    const part = {
      settings: settings === undefined ? undefined : mapIn(settings, [...path, "settings"]),
      destinations: namedIn(destinations, [...path, "destinations"]),
    };
    for (const [uid, fields] of Object.entries(part.destinations ?? {}))
      checkDestination([...path, "destinations", uid], fields);
    return [name, part];
  });
  return {
    event_types: namedIn(sections.event_types, ["event_types"]),
    tenants: Object.fromEntries(tenants),
    keys: namedIn(sections.keys, ["keys"]),
  };
}

function sectionsIn(value: unknown, path: Path, known: readonly string[]): Record<string, unknown> {
  const sections = mapIn(value, path);
  const unknown = Object.keys(sections).find((name) => !known.includes(name));
  if (unknown !== undefined) throw foreign([...path, unknown], known);
  return sections;
}

function foreign(path: Path, known: readonly string[]): InvalidConfiguration {
  return new InvalidConfiguration(path, `is unknown; expected one of ${known.join(", ")}`);
}

function namedIn(value: unknown, path: Path): Named | undefined {
  if (value === undefined) return undefined;
  const entries = Object.entries(mapIn(value, path));
  return Object.fromEntries(entries.map(([name, fields]) => [name, mapIn(fields, [...path, name])]));
}

/** A map. An empty map is often written as nothing, which is null. */
function mapIn(value: unknown, path: Path): Record<string, unknown> {
  if (value === undefined || value === null) return {};
  if (typeof value === "object" && !Array.isArray(value)) return value as Record<string, unknown>;
  throw new InvalidConfiguration(
    path,
    `is a ${Array.isArray(value) ? "list" : typeof value}; expected a map`,
  );
}

/** Fields that always have a value: null would restore a default, which a later plan cannot distinguish from a change. */
const NEVER_NULL =
  "url kind body signature metadata timeout_ms max_concurrency rate_per_second rate_burst breaker".split(" ");

function checkDestination(path: Path, fields: Fields): void {
  for (const name of ["uid", "tenant"])
    if (name in fields)
      throw new InvalidConfiguration([...path, name], "is implied by its place; expected it to be left out");
  for (const name of NEVER_NULL)
    if (fields[name] === null)
      throw new InvalidConfiguration([...path, name], "is null; expected a value, or that it is left out");
}

/** The part of an OpenAPI schema that says which fields there are. */
type Schema = Readonly<{
  $ref?: string;
  type?: string | readonly string[];
  properties?: Readonly<Record<string, Schema>>;
  additionalProperties?: unknown;
  items?: Schema;
  anyOf?: readonly Schema[];
  oneOf?: readonly Schema[];
}>;
type Schemas = Readonly<Record<string, Schema>>;

/**
 * Refuses fields that the deployment does not take, before anything is changed.
 * @param schemas those of the deployment's OpenAPI document
 * @throws InvalidConfiguration
 */
function checkFields({ event_types, tenants = {}, keys }: Configuration, schemas: Schemas): void {
  const check = (named: Named = {}, path: Path, schema: string) => {
    for (const [name, fields] of Object.entries(named))
      checkAgainst(fields, schemas, [{ $ref: schema }], [...path, name]);
  };
  check(event_types, ["event_types"], "NewEventType");
  check(keys, ["keys"], "NewApiKey");
  for (const [tenant, { settings = {}, destinations }] of Object.entries(tenants)) {
    check({ settings }, ["tenants", tenant], "TenantChange");
    check(destinations, ["tenants", tenant, "destinations"], "NewDestination");
  }
}

/** A field is unknown if no alternative has it and none takes arbitrary fields. */
function checkAgainst(value: unknown, schemas: Schemas, wanted: readonly Schema[], path: Path): void {
  if (typeof value !== "object" || value === null) return;
  const plain = wanted.flatMap((schema) => alternativesOf(schema, schemas));
  if (Array.isArray(value)) {
    const items = plain.flatMap((schema) => schema.items ?? []);
    for (const [at, item] of value.entries()) checkAgainst(item, schemas, items, [...path, String(at)]);
    return;
  }
  const objects = plain.filter(({ type = "object" }) => type === "object" || type.includes("object"));
  const isOpen =
    objects.length === 0 || objects.some(({ additionalProperties }) => additionalProperties !== false);
  const fieldsOf = objects.map(({ properties = {} }) => properties);
  for (const [name, field] of Object.entries(value)) {
    const known = fieldsOf.flatMap((fields) => (Object.hasOwn(fields, name) ? (fields[name] ?? []) : []));
    if (known.length > 0) checkAgainst(field, schemas, known, [...path, name]);
    else if (!isOpen) throw foreign([...path, name], [...new Set(fieldsOf.flatMap(Object.keys))]);
  }
}

function alternativesOf(schema: Schema, schemas: Schemas): readonly Schema[] {
  const named = schema.$ref === undefined ? undefined : schemas[schema.$ref.split("/").at(-1) ?? ""];
  const parts = named ? [named] : [...(schema.anyOf ?? []), ...(schema.oneOf ?? [])];
  return parts.length === 0 ? [schema] : parts.flatMap((part) => alternativesOf(part, schemas));
}

// ── The plan ──

/** The steps from the deployment's state to the document, in the order to make them. */
export async function changePlan(
  api: Breakwater,
  configuration: Configuration,
  options: PlanOptions = {},
): Promise<readonly PlanStep[]> {
  // The OpenAPI document does not describe its own path.
  const { components } = dataOf(await api.GET("/openapi.json" as "/v1/health")) as unknown as {
    components: { schemas: Schemas };
  };
  checkFields(configuration, components.schemas);
  const steps: PlanStep[] = [];
  for await (const step of stepsOf(api, configuration, options)) steps.push(step);
  return steps;
}

type Steps = AsyncGenerator<PlanStep, void>;

async function* stepsOf(api: Breakwater, configuration: Configuration, options: PlanOptions): Steps {
  const { event_types, tenants = {}, keys } = configuration;
  if (event_types) yield* eventTypeSteps(api, event_types, options);
  for (const [tenant, { settings, destinations }] of Object.entries(tenants)) {
    if (settings) yield* tenantSteps(api, tenant, settings);
    if (destinations) yield* destinationSteps(api, tenant, destinations, options);
  }
  if (keys) yield* keySteps(api, keys);
}

const bodySerializer = (body: unknown) => withDigits(JSON.stringify(body));

async function* eventTypeSteps(api: Breakwater, wanted: Named, { prune }: PlanOptions): Steps {
  for (const [name, fields] of Object.entries(wanted)) {
    const params = { path: { name } };
    const answer = await api.GET("/v1/event-types/{name}", { params, parseAs: "text" });
    const text = answer.response.status === 404 ? undefined : dataOf(answer);
    // Fields that the document leaves out are written as they are stored, with each digit of an example.
    const stored = parsedWithDigits(text ?? "{}") as Partial<EventType>;
    const changes = changesIn(fields, stored);
    if (text !== undefined && changes.length === 0) continue;
    const { name: _, version, created_at, updated_at, ...before } = stored;
    const body = { ...before, ...fields } as NewEventType;
    yield {
      ...{ action: text === undefined ? "create" : "change", kind: "event type", name, changes },
      path: ["event_types", name],
      apply: async () =>
        void dataOf(await api.PUT("/v1/event-types/{name}", { params, body, bodySerializer })),
    };
  }
  for await (const { name } of prune ? api.list("/v1/event-types") : [])
    if (!Object.hasOwn(wanted, name))
      yield deletion("event type", name, () =>
        api.DELETE("/v1/event-types/{name}", { params: { path: { name } } }),
      );
}

function deletion(
  kind: PlanStep["kind"],
  name: string,
  request: () => Promise<Parameters<typeof dataOf>[0]>,
): PlanStep {
  const apply = async () => void dataOf(await request());
  return { action: "delete", kind, name, changes: [], path: [], apply };
}

async function* tenantSteps(api: Breakwater, tenant: string, settings: Fields): Steps {
  const params = { path: { tenant } };
  const changes = changesIn(settings, dataOf(await api.GET("/v1/tenants/{tenant}", { params })));
  if (changes.length === 0) return;
  const body = Object.fromEntries(changes.map(({ field, to }) => [field, to])) as TenantChange;
  yield {
    ...{ action: "change", kind: "tenant", name: tenant, changes, path: ["tenants", tenant, "settings"] },
    apply: async () => void dataOf(await api.PATCH("/v1/tenants/{tenant}", { params, body })),
  };
}

async function* destinationSteps(
  api: Breakwater,
  tenant: string,
  wanted: Named,
  { prune = false, secrets = false }: PlanOptions,
): Steps {
  const stored = new Map<string, Destination>();
  for await (const destination of api.list("/v1/destinations", { tenant }))
    if (destination.uid !== null) stored.set(destination.uid, destination);
  for (const [uid, fields] of Object.entries(wanted)) {
    const found = stored.get(uid);
    if (found) yield* changedDestination(api, found, fields, secrets);
    else yield newDestination(api, tenant, uid, fields);
  }
  // An agent's subscription expires: it is its client's, and no document can have it.
  for (const [uid, { id, expires_at }] of stored)
    if (prune && expires_at === undefined && !Object.hasOwn(wanted, uid))
      yield deletion("destination", `${tenant}/${uid}`, () =>
        api.DELETE("/v1/destinations/{id}", { params: { path: { id } } }),
      );
}

function newDestination(api: Breakwater, tenant: string, uid: string, fields: Fields): PlanStep {
  const body = { ...fields, tenant, uid } as NewDestination;
  return {
    ...{ action: "create", kind: "destination", name: `${tenant}/${uid}`, changes: changesIn(fields, {}) },
    path: ["tenants", tenant, "destinations", uid],
    makesSecret: !("secret" in fields),
    async apply() {
      const { id, secret } = dataOf(await api.POST("/v1/destinations", { body }));
      return { id, ...(!("secret" in fields) && secret && { secret }) };
    },
  };
}

/** Fields whose values the API does not show. `auth` is shown in part. */
const HIDDEN = ["secret", "headers", "token", "auth"];

/** Fields that only a creation takes, or that are changed by a separate request. */
const NOT_CHANGED = ["secret", "handshake", "signature", "status"];

function* changedDestination(
  api: Breakwater,
  stored: Destination,
  fields: Fields,
  withSecrets: boolean,
): Generator<PlanStep, void> {
  const { id, tenant, uid, status } = stored;
  const params = { path: { id } };
  const { secret: _, handshake: __, ...comparable } = fields;
  const changes = changesIn(comparable, stored);
  const hidden = HIDDEN.filter((field) => withSecrets && field !== "secret" && field in fields).filter(
    (field) => !changes.some((change) => change.field === field),
  );
  const all = [...changes, ...hidden.map((field) => ({ field, from: "***", to: "***" }))];
  if (all.length === 0) return;
  const path = ["tenants", tenant, "destinations", uid ?? ""];
  const step = { kind: "destination", name: `${tenant}/${uid}`, path } as const;
  const blocked = changes.filter(({ field }) => field === "signature");
  if (blocked.length > 0) {
    yield { action: "blocked", ...step, changes: blocked, apply: async () => undefined };
    return;
  }
  const patched = all
    .filter(({ field }) => !NOT_CHANGED.includes(field))
    .map(({ field }) => [field, fields[field]]);
  const body = Object.fromEntries(patched) as DestinationChange;
  // A part of a breaker changes that part only.
  if (body.breaker) body.breaker = { ...stored.breaker, ...body.breaker };
  yield {
    ...{ action: "change", ...step, changes: all },
    async apply() {
      if (patched.length > 0) dataOf(await api.PATCH("/v1/destinations/{id}", { params, body }));
      for (const [verb, wanted] of [["pause", "paused"] as const, ["resume", "active"] as const])
        if (fields.status === wanted && status !== wanted)
          dataOf(await api.POST(`/v1/destinations/{id}/${verb}`, { params }));
      return undefined;
    },
  };
}

/** Keys are created by name and never revoked: editing a file must not revoke a key that others use. */
async function* keySteps(api: Breakwater, wanted: Named): Steps {
  const stored: ApiKey[] = [];
  for await (const key of api.list("/v1/keys")) stored.push(key);
  for (const [name, fields] of Object.entries(wanted)) {
    const differences = stored.filter((key) => key.name === name).map((key) => changesIn(fields, key));
    if (differences.some((changes) => changes.length === 0)) continue;
    const [changes] = differences;
    const step = { kind: "key", name, path: ["keys", name] } as const;
    const body = { ...fields, name } as NewApiKey;
    if (changes) yield { action: "blocked", ...step, changes, apply: async () => undefined };
    else
      yield {
        ...{ action: "create", ...step, changes: changesIn(fields, {}), makesSecret: true },
        async apply() {
          const { id, key } = dataOf(await api.POST("/v1/keys", { body }));
          return { id, key };
        },
      };
  }
}

// ── Comparison ──

/** The fields of the document that differ from what the API shows. */
function changesIn(wanted: Fields, stored: object): Change[] {
  const shown = stored as Fields;
  return Object.entries(wanted).flatMap(([field, to]) => {
    const from = shown[field];
    if (isSame(field, to, from)) return [];
    const isHidden = HIDDEN.includes(field);
    return [{ field, from: isHidden ? masked(from) : (from ?? null), to: isHidden ? masked(to) : to }];
  });
}

/** Lists without a meaningful order. */
const SETS = ["event_types", "channels", "scopes"];

function isSame(field: string, to: unknown, from: unknown): boolean {
  if (field === "headers") return inOrder(namesIn(to)) === inOrder(namesIn(from));
  if (field === "auth" || field === "breaker") return isPart(to, from);
  if (field === "url") return hrefOf(to) === hrefOf(from);
  if (field === "expires_at")
    return Date.parse(String(to)) === Date.parse(String(from)) || (to ?? null) === (from ?? null);
  if (SETS.includes(field) && Array.isArray(to) && Array.isArray(from)) return inOrder(to) === inOrder(from);
  return textOf(to ?? null) === textOf(from ?? null);
}

function namesIn(headers: unknown): string[] {
  return Object.keys(headers ?? {}).map((name) => name.toLowerCase());
}

function inOrder(values: readonly unknown[]): string {
  return textOf([...new Set(values)].sort());
}

function hrefOf(url: unknown): unknown {
  return typeof url === "string" && URL.canParse(url) ? new URL(url).href : url;
}

/** Credentials within `auth`, which the API does not show. */
const CREDENTIALS = ["password", "token", "value", "client_secret"];

/** Whether all given fields but credentials are as they are shown. */
function isPart(to: unknown, from: unknown): boolean {
  if (typeof to !== "object" || to === null || typeof from !== "object" || from === null)
    return (to ?? null) === (from ?? null);
  return Object.entries(to)
    .filter(([name]) => !CREDENTIALS.includes(name))
    .every(([name, value]) => textOf(value ?? null) === textOf((from as Fields)[name] ?? null));
}

function masked(value: unknown): unknown {
  if (typeof value === "string") return "***";
  if (typeof value !== "object" || value === null) return value ?? null;
  return Object.fromEntries(Object.keys(value).map((name) => [name, "***"]));
}

/** JSON with sorted fields. */
function textOf(value: unknown): string {
  return JSON.stringify(value, (_, one: unknown) =>
    typeof one === "object" && one !== null && !Array.isArray(one)
      ? Object.fromEntries(Object.entries(one).sort(([a], [b]) => (a < b ? -1 : 1)))
      : one,
  );
}
