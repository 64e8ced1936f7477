/**
 * Versions of event types: published, listed, deprecated, and tried on recorded events before. Endpoints get events in the version
 * that they are pinned to; delivery/event-versions.ts converts them.
 */
import { changesBetween } from "../../core/audit.ts";
import { newestAt, type PublishedVersion, versionFor } from "../../core/event-versions.ts";
import type { JsonSchema } from "../../core/json-schema.ts";
import { dataFaults } from "../../core/json-schema-check.ts";
import { withPlainNumbers } from "../../core/json-value.ts";
import {
  conflict,
  errorAt,
  errorIf,
  type FieldError,
  invalidFields,
  missing,
  ok,
} from "../../core/result.ts";
import { takesType } from "../../core/routing.ts";
import { faultText, faultTextAlone } from "../../core/transform/result.ts";
import { conversions } from "../../delivery/event-versions.ts";
import { textOf } from "../../delivery/http.ts";
import type { Services } from "../../services.ts";
import { overBy } from "../../store/delivery-filter.ts";
import type { Destination } from "../../store/destination.ts";
import { listDestinations } from "../../store/destinations.ts";
import { listEvents } from "../../store/event-list.ts";
import { type EventType, listVersionedTypes } from "../../store/event-types.ts";
import {
  changeEventVersion,
  insertEventVersion,
  listEventVersions,
  MOST_VERSIONS,
  type StoredVersion,
  versionsOfTypes,
} from "../../store/event-versions.ts";
import { readEvent } from "../../store/planned-deliveries.ts";
import { isoTime } from "../../time.ts";
import { service } from "../service.ts";
import type { EventVersionChange, EventVersionFields, EventVersionView, VersionCheck } from "./schema.ts";
import {
  changingTypes,
  jsonOrNone,
  placedFaults,
  readingTypes,
  shapeErrors,
  storedExactly,
  storedJson,
  typeService,
} from "./service.ts";

/** The conversion of a version that only adds to the one before it. */
const AS_IT_IS = "{{ data | json }}";

/** All versions of a type, the newest first. */
export const getEventVersions = typeService(readingTypes, async ({ services }, row) =>
  ok({ data: await viewsOf(services, row) }),
);

async function viewsOf({ db }: Services, row: EventType): Promise<EventVersionView[]> {
  return viewsIn(row, row.version > 1 ? await listEventVersions(db, row.name) : []);
}

function viewsIn(row: EventType, stored: readonly StoredVersion[]): EventVersionView[] {
  const all = row.version > 1 ? stored : [onlyVersion(row)];
  return all.map((one) => versionView(row, one)).toReversed();
}

/** The version of a type that has but one. */
function onlyVersion({ name: type, schema, example }: EventType): StoredVersion {
  const dates = { publishedAt: 0, deprecatedAt: null, sunsetAt: null };
  return { type, version: 1, schema, example, conversions: [], ...dates };
}

function versionView(type: EventType, stored: StoredVersion): EventVersionView {
  const { version, publishedAt, deprecatedAt, sunsetAt } = stored;
  const { schema, example } = version === type.version ? type : stored;
  const { template = null } = (Array.isArray(stored.conversions) && stored.conversions.at(-1)) || {};
  return {
    version,
    schema: storedExactly(schema),
    example: storedExactly(example),
    conversion: version > 1 ? template : null,
    published_at: isoTime(publishedAt === 0 ? type.createdAt : publishedAt),
    deprecated_at: isoTime(deprecatedAt),
    sunset_at: isoTime(sunsetAt),
  };
}

type Publication = Readonly<{ name: string; version: number; fields: EventVersionFields }>;

/**
 * Publishes the next version of a type: the data of events from then on. Existing endpoints continue to get their
 * version.
 */
export const publishEventVersion = typeService(
  changingTypes,
  async ({ services, changed }, row, { name, version, fields }: Publication) => {
    const { schema, example = null, conversion = AS_IT_IS } = fields;
    if (version <= row.version)
      return conflict(`Version ${version} of ${name} is published; its conversion and dates can be changed`);
    const next = row.version + 1;
    const errors = [
      ...errorIf(version !== next, "version", `is ${version}`, `${next}, the next one`),
      ...tooManyVersions(version),
      ...shapeErrors(fields),
      ...(await conversionErrors(conversion)),
    ];
    if (errors.length > 0) return invalidFields(errors);
    const unfit = example === null ? [] : await exampleErrors(services, row, example, conversion);
    if (unfit.length > 0) return invalidFields(unfit);
    const publication = { schema: JSON.stringify(schema), example: jsonOrNone(example), conversion };
    const made = await insertEventVersion(services.db, row, publication, services.now());
    if (!made) return conflict("The event type is being changed by other requests at the same time");
    const changes = changesBetween({ version: row.version }, { version: made.version });
    changed("event_type.changed", { id: name, tenant: null }, changes);
    const [newest] = await viewsOf(services, made);
    return newest ? ok(newest) : missing("version", String(version));
  },
);

export function tooManyVersions(version: number): FieldError[] {
  const expected = `at most ${MOST_VERSIONS} versions of a type`;
  return errorIf(version > MOST_VERSIONS, "version", `is ${version}`, expected);
}

/** Why a text is not a conversion. */
export async function conversionErrors(conversion: string): Promise<FieldError[]> {
  const { compile } = await import("../../core/transform/liquid.ts");
  const found = compile({ body: conversion });
  if ("fill" in found) return [];
  return errorAt("conversion", faultTextAlone(found), "JSON with Liquid in its strings");
}

/** The errors of a conversion that makes of the example no data of the version before. */
export async function exampleErrors(
  services: Services,
  row: EventType,
  example: unknown,
  conversion: string,
): Promise<FieldError[]> {
  const result = (await trying(services, row, conversion))({
    id: 0,
    tenant: "example",
    data: withPlainNumbers(example),
  });
  const fault = `makes of the example: ${result?.fault}`;
  return errorIf(result !== undefined, "conversion", fault, `data of version ${row.version}`);
}

type Tried = Readonly<{ id: number; tenant: string; data: unknown }>;
type Breakage = Readonly<{ kind: "failed" | "unfit"; fault: string }>;

/** Tries a conversion down to the type's newest version on data, and returns what breaks; undefined: nothing. */
async function trying(services: Services, row: EventType, conversion: string) {
  const conversionOf = await conversions(services);
  const former = storedJson(row.schema) as JsonSchema | null;
  return ({ id, tenant, data }: Tried): Breakage | undefined => {
    const at = services.now();
    const made = conversionOf({ id, tenant, type: row.name }, isoTime(at))(conversion, data);
    if (made.kind === "fault") return { kind: "failed", fault: faultText(made.fault) };
    if (made.kind === "cancelled" || former === null) return undefined;
    const [fault] = placedFaults("data", dataFaults(former, made.data));
    return fault && { kind: "unfit", fault: sentence(fault) };
  };
}

function sentence({ field, fault, expected }: FieldError): string {
  return `${field} ${fault}, expected ${expected}`;
}

type Change = Readonly<{ name: string; version: number; change: EventVersionChange }>;

/** Changes a version's conversion, for events that are accepted from now on and those that wait because it fails, or its dates. */
export const changePublishedVersion = typeService(
  changingTypes,
  async ({ services, changed }, row, { name, version, change }: Change) => {
    const { db, now } = services;
    const before = (await viewsOf(services, row)).find((one) => one.version === version);
    if (!before) return missing("version", String(version));
    const { conversion, deprecated_at: deprecatedAt, sunset_at: sunsetAt } = change;
    const errors = [
      ...dateErrors(row, before, change),
      ...(conversion === undefined ? [] : await conversionErrors(conversion)),
      ...errorIf(
        conversion !== undefined && version === 1,
        "conversion",
        "is of the first version",
        NO_FORMER,
      ),
    ];
    if (errors.length > 0) return invalidFields(errors);
    const columns = { conversion, deprecatedAt, sunsetAt };
    const stored = await changeEventVersion(db, name, version, columns, now());
    if (!stored) return ok(before);
    const after = versionView(row, stored);
    const changes = changesBetween(before, after);
    if (changes) changed("event_type.changed", { id: name, tenant: null }, changes);
    return ok(after);
  },
);

const NO_FORMER = "the version that is converted: there is none before the first";

function dateErrors(row: EventType, before: EventVersionView, change: EventVersionChange): FieldError[] {
  const timeOf = (text: string | null) => (text === null ? null : Date.parse(text));
  const { deprecated_at: deprecated = timeOf(before.deprecated_at) } = change;
  const { sunset_at: sunset = timeOf(before.sunset_at) } = change;
  if (before.version === row.version && (deprecated !== null || sunset !== null))
    return errorAt("deprecated_at", "is of the newest version", "a former version");
  const isSooner = sunset !== null && (deprecated === null || deprecated > sunset);
  return errorIf(isSooner, "sunset_at", `is ${isoTime(sunset)}`, "a deprecated_at that is not later");
}

export type DeprecatedVersion = Readonly<{ version: number; deprecatedAt: number; sunsetAt: number | null }>;

/** The deprecated versions of the types, by their names. Reads nothing where each has but one version. */
export const getDeprecatedVersions = service(
  readingTypes,
  async ({ services }, types: readonly Pick<EventType, "name" | "version">[]) => {
    const names = types.filter(({ version }) => version > 1).map(({ name }) => name);
    const found = names.length > 0 ? await versionsOfTypes(services.db, names) : new Map<string, never>();
    const deprecated = [...found].map(([name, versions]) => {
      const own = versions.flatMap(({ version, deprecatedAt, sunsetAt }): DeprecatedVersion[] =>
        deprecatedAt === null ? [] : [{ version, deprecatedAt, sunsetAt }],
      );
      return [name, own] as const;
    });
    return ok<ReadonlyMap<string, readonly DeprecatedVersion[]>>(new Map(deprecated));
  },
);

type EndpointPage = Readonly<{ name: string; after: string | undefined; limit: number }>;

/**
 * The versions of a type, the newest first, and which one the principal's endpoints get; those of a page that take the type. One row
 * more than `limit` is read.
 */
export const getVersionEndpoints = typeService(
  readingTypes,
  async ({ services: { db }, principal }, row, { name, after, limit }: EndpointPage) => {
    const versions = row.version > 1 ? await listEventVersions(db, name) : [];
    const page = await listDestinations(db, { tenant: principal.tenant, after, limit: limit + 1 });
    const shown = page.slice(0, limit);
    const taking = shown.filter(({ eventTypes }) => takesType(eventTypes, name));
    return ok({
      versions: viewsIn(row, versions),
      endpoints: taking.map((one) => ({ ...one, version: versionNow(row, versions, one) })),
      last: page.length > limit ? shown.at(-1)?.id : undefined,
    });
  },
);

type Pinnable = Pick<Destination, "eventTypes" | "eventVersions" | "createdAt">;

/**
 * The versions that destinations get, by type, where they are former ones: by pins, or because they were created before the newest.
 * As pins they give a destination that is created later the same.
 */
export async function formerVersions({ db }: Pick<Services, "db">) {
  const types = await listVersionedTypes(db);
  const names = types.map(({ name }) => name);
  const versions = names.length > 0 ? await versionsOfTypes(db, names) : undefined;
  return (destination: Pinnable): Readonly<Record<string, number>> =>
    Object.fromEntries(
      types.flatMap((type) => {
        if (!takesType(destination.eventTypes, type.name)) return [];
        const version = versionNow(type, versions?.get(type.name) ?? [], destination);
        return version === null || version === type.version ? [] : [[type.name, version]];
      }),
    );
}

/** The version that the destination gets of events that are accepted now; null where an edit by hand has left none. */
function versionNow(
  row: Pick<EventType, "name" | "version" | "versionAt">,
  versions: readonly PublishedVersion[],
  destination: Pinnable,
): number | null {
  const version = { version: row.version, since: row.versionAt };
  const event = { id: Number.MAX_SAFE_INTEGER, acceptedAt: Number.MAX_SAFE_INTEGER, type: row.name, version };
  const found = versionFor(event, destination);
  if (found === "unreadable") return null;
  return found === "as_created" ? newestAt(versions, destination.createdAt) : found;
}

/** Recorded events that a version is tried on. */
const MOST_TRIED = 50;
/** Faults that are shown of each tenant. */
const FAULTS_SHOWN = 3;

type Draft = Readonly<{ name: string; fields: Omit<EventVersionFields, "example"> }>;

/**
 * Tries the next version of a type on its last recorded events, of all tenants: which of them would no longer be accepted,
 * and of the others, whose conversion would break for endpoints that stay at the version before. Nothing is changed.
 */
export const checkEventVersion = typeService(
  changingTypes,
  async ({ services }, row, { name, fields }: Draft) => {
    const { schema, conversion = AS_IT_IS } = fields;
    const errors = [...shapeErrors({ schema }), ...(await conversionErrors(conversion))];
    if (errors.length > 0) return invalidFields(errors);
    const page = { types: [name], over: overBy(services), limit: MOST_TRIED };
    const { found, lookedBackTo } = await listEvents(services, page);
    const convert = await trying(services, row, conversion);
    const shape = withPlainNumbers(schema) as JsonSchema;
    const tenants = new Map<string, VersionCheck["tenants"][number]>();
    let skipped = 0;
    for (const { id, tenant } of found) {
      const data = await dataOf(services, id);
      if (data === undefined) {
        skipped += 1;
        continue;
      }
      const own = tenants.get(tenant) ?? { tenant, events: 0, refused: 0, failed: 0, unfit: 0, faults: [] };
      tenants.set(tenant, own);
      own.events += 1;
      const [refused] = placedFaults("data", dataFaults(shape, data.value));
      const broken = refused
        ? ({ kind: "refused", fault: sentence(refused) } as const)
        : convert({ id, tenant, data: data.value });
      if (!broken) continue;
      own[broken.kind] += 1;
      if (own.faults.length < FAULTS_SHOWN) own.faults.push(broken.fault);
    }
    const looked_back_to = isoTime(lookedBackTo ?? null);
    return ok<VersionCheck>({ looked_back_to, skipped, tenants: [...tenants.values()] });
  },
);

/** The data of an event; undefined where it has been erased, is not kept, or is no JSON. */
async function dataOf(services: Services, id: number): Promise<Readonly<{ value: unknown }> | undefined> {
  const { event } = (await readEvent(services, id, undefined)) ?? {};
  const text = event?.body && event.contentType === undefined ? textOf(event.body) : undefined;
  return text === undefined ? undefined : { value: (JSON.parse(text) as { data: unknown }).data };
}
