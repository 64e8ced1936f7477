/**
 * Plans an import: what is created, changed and left as it is, and what has no counterpart. Pure: a function of what
 * was read of both sides. Objects at the target that are not at the source stay as they are.
 */
import { isDeepStrictEqual } from "node:util";
import { defaultLimits } from "../../src/core/limits.ts";
import {
  fitChannels,
  fitDescription,
  fitEventTypes,
  fitHeaders,
  fitMetadata,
  fitRate,
  fitSchemas,
  fitSecret,
  fitText,
  isEventType,
  uidOf,
} from "./fit.ts";
import { printable } from "./printable.ts";
import type { Failure, ImportTarget, Source, SourceApplication, TargetApplication } from "./read.ts";
import type { Extra, SvixEndpoint, SvixEventType } from "./shapes.ts";

export type Body = Readonly<Record<string, unknown>>;

type EndpointChange = Readonly<{
  /** Fields to set; undefined when they are correct. */
  fields?: Body | undefined;
  headers?: Readonly<Record<string, string>> | undefined;
  secret?: string | undefined;
}>;

type Action<Create, Change> =
  | Readonly<{ kind: "create"; body: Create }>
  | Readonly<{
      kind: "change";
      /** Its id at the target. */
      id: string;
      change: Change;
      /** The names of the fields that differ. */
      differs: readonly string[];
    }>
  | Readonly<{ kind: "leave"; id: string }>
  | Readonly<{ kind: "refuse"; reason: string }>;

type Planned<Create, Change> = Readonly<{
  /** Its id at the source; an event type's name. */
  id: string;
  /** Its name at the target. */
  uid: string;
  action: Action<Create, Change>;
  notes: readonly string[];
}>;

export type EventTypePlan = Planned<Body, Body>;
export type EndpointPlan = Planned<Body, EndpointChange>;
export type ApplicationPlan = Planned<Body, Body> & Readonly<{ endpoints: readonly EndpointPlan[] }>;

export type ImportPlan = Readonly<{
  eventTypes: readonly EventTypePlan[];
  applications: readonly ApplicationPlan[];
  operationalWebhooks: number;
  /** The objects that could not be read, and are therefore in no other part. */
  failures: readonly Failure[];
}>;

export type Settings = Readonly<{
  /** Whether to set the headers of endpoints that are there already: their values are not shown, so they cannot be compared. */
  setHeaders: boolean;
}>;

export function planImport(source: Source, target: ImportTarget, settings: Settings): ImportPlan {
  const taken = new Set<string>();
  const terms = { ...settings, takesChannels: target.takesChannels };
  return {
    eventTypes: source.eventTypes.map((type) => planEventType(type, target.eventTypes.get(type.name))),
    applications: source.applications.map((application) =>
      isTaken(taken, application)
        ? { ...refusedTwice(application), endpoints: [] }
        : planApplication(application, target.applications.get(uidOf(application)), terms),
    ),
    operationalWebhooks: source.operationalWebhooks,
    failures: [...source.failures, ...target.failures],
  };
}

type Terms = Settings & Pick<ImportTarget, "takesChannels">;

type Named = Readonly<{ id: string; uid: string | null }>;

/** Whether another object of the source has this name at the target: one may have the other's id as its `uid`. */
function isTaken(taken: Set<string>, named: Named): boolean {
  const uid = uidOf(named);
  const isSo = taken.has(uid);
  taken.add(uid);
  return isSo;
}

function refusedTwice(named: Named) {
  const uid = uidOf(named);
  return refused(named.id, uid, `another one at the source goes by ${uid}, too: give it another uid there`);
}

function refused(id: string, uid: string, reason: string) {
  return { id, uid, action: { kind: "refuse", reason }, notes: [] } as const;
}

const MAX_TYPE_DESCRIPTION = 1_000;

function planEventType(type: SvixEventType, known: SvixEventType | undefined): EventTypePlan {
  const { name, archived } = type;
  if (!isEventType(name))
    return refused(
      name,
      name,
      "its name is not allowed here: parts of letters, digits, _ and -, joined by single dots, 128 characters at most",
    );
  const description = fitText("description", type.description, MAX_TYPE_DESCRIPTION);
  const schema = fitSchemas(type.schemas);
  const fields = { description: description.value, archived };
  const body = { ...fields, ...(schema.value !== undefined && { schemas: { "1": schema.value } }) };
  const notes = [...description.notes, ...schema.notes, ...typeNotes(type)];
  if (known === undefined) return { id: name, uid: name, action: { kind: "create", body }, notes };
  const before = { ...known, schema: fitSchemas(known.schemas).value };
  const differs = differing({ ...fields, schema: schema.value }, before);
  return { id: name, uid: name, action: changeOrLeave(name, body, differs), notes };
}

function typeNotes({ deprecated, groupName, featureFlags }: SvixEventType): string[] {
  return [
    ...(deprecated ? ["deprecated: left out; a type can be archived"] : []),
    ...(groupName ? [`groupName ${printable(groupName)}: left out`] : []),
    ...(featureFlags.length > 0
      ? [`feature flags ${featureFlags.map(printable).join(", ")}: left out, it is seen by all`]
      : []),
  ];
}

function planApplication(
  application: SourceApplication,
  known: TargetApplication | undefined,
  terms: Terms,
): ApplicationPlan {
  const uid = uidOf(application);
  const name = fitText("name", application.name || uid, 256);
  const metadata = fitMetadata(application.metadata);
  const rate = fitRate(application.throttleRate);
  const fields = { name: name.value, metadata: metadata.value, throttleRate: rate.value };
  const shared =
    rate.value === null
      ? []
      : [`throttleRate ${rate.value}: of each endpoint without one, not shared by them`];
  const taken = new Set<string>();
  const endpoints = application.endpoints.map((endpoint) =>
    isTaken(taken, endpoint)
      ? refusedTwice(endpoint)
      : planEndpoint(endpoint, known?.endpoints.get(uidOf(endpoint)), rate.value, terms),
  );
  const notes = [...name.notes, ...metadata.notes, ...rate.notes, ...shared];
  const common = { id: application.id, uid, notes, endpoints };
  if (known === undefined) return { ...common, action: { kind: "create", body: { ...fields, uid } } };
  return { ...common, action: changeOrLeave(known.id, fields, differing(fields, known)) };
}

/** @param applicationRate the application's, which the target shows as none at endpoints without their own */
function planEndpoint(
  endpoint: SvixEndpoint,
  known: SvixEndpoint | undefined,
  applicationRate: number | null,
  { setHeaders, takesChannels }: Terms,
): EndpointPlan {
  const { id } = endpoint;
  const uid = uidOf(endpoint);
  const refuse = (reason: string): EndpointPlan => refused(id, uid, reason);
  const channels = fitChannels(endpoint.channels, takesChannels);
  if ("refused" in channels) return refuse(channels.refused);
  const types = fitEventTypes(endpoint.eventTypes);
  if ("refused" in types) return refuse(types.refused);
  const secret = fitSecret(endpoint.secret);
  if ("refused" in secret) return refuse(secret.refused);
  const rate = fitRate(endpoint.throttleRate);
  const description = fitDescription(endpoint.description);
  const metadata = fitMetadata(endpoint.metadata);
  const headers = fitHeaders(endpoint.headers);
  const fields = {
    url: endpoint.url,
    description: description.value,
    eventTypes: types.value,
    ...(takesChannels && { channels: channels.value }),
    throttleRate: rate.value === (applicationRate ?? defaultLimits.rate_per_second) ? null : rate.value,
    metadata: metadata.value,
  };
  const incomplete = [...headers.notes, ...incompleteOf(endpoint, headers.value, known)];
  const held = known === undefined && incomplete.length > 0 && !endpoint.disabled;
  const notes = [
    ...urlNotes(endpoint.url),
    ...[...description.notes, ...types.notes, ...channels.notes, ...rate.notes, ...metadata.notes],
    ...incomplete,
    ...(held
      ? ["created disabled, so that no message is sent without these: enable it when that is settled"]
      : []),
  ];
  if (known === undefined) {
    const disabled = endpoint.disabled || held;
    const body = { ...fields, uid, disabled, secret: secret.value, headers: headers.value };
    return { id, uid, action: { kind: "create", body }, notes };
  }
  const wanted = {
    fields: { ...fields, ...(incomplete.length === 0 && { disabled: endpoint.disabled }) },
    headers: headersToSet(headers.value, known, setHeaders),
    secret: secret.value,
  };
  return { id, uid, action: endpointAction(wanted, known), notes };
}

type WantedEndpoint = Readonly<{
  fields: Comparable & Body;
  /** The headers to set. */
  headers: Readonly<Record<string, string>>;
  secret: string;
}>;

function endpointAction(
  { fields, headers, secret }: WantedEndpoint,
  known: SvixEndpoint,
): EndpointPlan["action"] {
  const differs = differing(comparable(fields), comparable(known));
  const hasHeaders = Object.keys(headers).length > 0;
  const hasSecret = !isSameSecret(known.secret, secret);
  const changed = Object.fromEntries(Object.entries(fields).filter(([name]) => differs.includes(name)));
  const change: EndpointChange = {
    fields: differs.length > 0 ? changed : undefined,
    headers: hasHeaders ? headers : undefined,
    secret: hasSecret ? secret : undefined,
  };
  const others = [...(hasHeaders ? ["headers"] : []), ...(hasSecret ? ["secret"] : [])];
  return changeOrLeave(known.id, change, [...differs, ...others]);
}

function urlNotes(url: string): string[] {
  if (!/^http:/i.test(url)) return [];
  return ["http: the target takes it only with ALLOW_PRIVATE_DESTINATIONS, and refuses it otherwise"];
}

const EXTRAS: Readonly<Record<Extra, string>> = {
  transformation: "transformation: left out, it would get the payload as it was posted",
  "oauth-config":
    "OAuth: left out, because the source does not show the client's secret; set `auth` at its destination",
  "mtls-config": "mutual TLS: left out",
};

/**
 * Notes on what the endpoint's requests would lack, so that its receiver would refuse or misread them. If the target
 * has a header whose value the source does not show, it was set by hand meanwhile.
 */
function incompleteOf(
  { sensitive, extras }: SvixEndpoint,
  headers: Readonly<Record<string, string>>,
  known: SvixEndpoint | undefined,
): string[] {
  const there = new Set(known ? namesOf(known) : []);
  for (const name of Object.keys(headers)) there.add(name.toLowerCase());
  const missing = sensitive.filter((name) => !there.has(name.toLowerCase())).map(printable);
  return [
    ...(missing.length > 0
      ? [`headers ${missing.join(", ")}: the source does not show their values; set them at the target`]
      : []),
    ...extras.map((extra) => EXTRAS[extra]),
  ];
}

function namesOf({ headers, sensitive }: SvixEndpoint): string[] {
  return [...Object.keys(headers), ...sensitive].map((name) => name.toLowerCase());
}

function headersToSet(wanted: Readonly<Record<string, string>>, known: SvixEndpoint, all: boolean) {
  const there = new Set(namesOf(known));
  return Object.fromEntries(Object.entries(wanted).filter(([name]) => all || !there.has(name.toLowerCase())));
}

/** Normalizes spelling, so that only real differences count. */
function comparable({ url, eventTypes, channels, ...others }: Comparable) {
  return {
    ...{ ...others, url: URL.parse(url)?.href ?? url },
    ...{ eventTypes: eventTypes?.toSorted() ?? null, channels: channels?.toSorted() ?? [] },
  };
}

type Comparable = Readonly<{
  url: string;
  eventTypes: readonly string[] | null;
  channels?: readonly string[] | null;
}>;

function isSameSecret(one: string, other: string): boolean {
  const bare = (secret: string) => secret.replace(/^whsec_/, "");
  return bare(one) === bare(other);
}

/** The names of the fields that differ from the wanted ones. */
function differing(wanted: object, present: object): string[] {
  const before = present as Readonly<Record<string, unknown>>;
  return Object.entries(wanted)
    .filter(([name, value]) => !isDeepStrictEqual(value, before[name]))
    .map(([name]) => name);
}

function changeOrLeave<T>(id: string, change: T, differs: readonly string[]) {
  return differs.length > 0
    ? ({ kind: "change", id, change, differs } as const)
    : ({ kind: "leave", id } as const);
}
