/**
 * Reads both sides with the same functions, as they have the same API; at the target, only objects with a counterpart
 * at the source are read in detail.
 */

import type { z } from "zod";
import { mapAtOnce } from "../../src/time.ts";
import { type SvixApi, Unavailable } from "./client.ts";
import { uidOf } from "./fit.ts";
import { printable } from "./printable.ts";
import {
  applicationOut,
  documentOut,
  type Extra,
  endpointHeadersOut,
  endpointOut,
  endpointSecretOut,
  eventTypeOut,
  extras,
  type SvixApplication,
  type SvixEndpoint,
  type SvixEventType,
  svixPage,
  switchOut,
} from "./shapes.ts";

/** Something that could not be read or written, and why. */
export type Failure = Readonly<{
  /** "application acme", "endpoint hooks of application acme". */
  what: string;
  reason: string;
}>;

export type SourceApplication = SvixApplication & Readonly<{ endpoints: readonly SvixEndpoint[] }>;

export type Source = Readonly<{
  eventTypes: readonly SvixEventType[];
  applications: readonly SourceApplication[];
  /** Their number; 0 if the server knows none. */
  operationalWebhooks: number;
  failures: readonly Failure[];
}>;

/** The counterparts at the target, by their names there. */
export type TargetApplication = SvixApplication & Readonly<{ endpoints: ReadonlyMap<string, SvixEndpoint> }>;

export type ImportTarget = Readonly<{
  eventTypes: ReadonlyMap<string, SvixEventType>;
  applications: ReadonlyMap<string, TargetApplication>;
  /** Deployments of former versions take none. */
  takesChannels: boolean;
  failures: readonly Failure[];
}>;

/** Receives the number of applications read so far. */
type Progress = (read: number, of: number) => void;

const TYPES = "/api/v1/event-type?include_archived=true&with_content=true";
const APPLICATIONS = "/api/v1/app?order=ascending";

/** @throws Unavailable when a list cannot be read, because nothing would be known of its entries */
export async function readSource(api: SvixApi, atOnce: number, progress: Progress): Promise<Source> {
  const types = await readList(api, TYPES, eventTypeOut, "event type");
  const listed = await readList(api, APPLICATIONS, applicationOut, "application");
  const failures = [...types.failures, ...listed.failures];
  let read = 0;
  const applications = await mapAtOnce(listed.entries, atOnce, async (application) => {
    const found = await readEndpoints(api, application, atOnce, () => true, extras);
    failures.push(...found.failures);
    read += 1;
    progress(read, listed.entries.length);
    return { ...application, endpoints: found.entries };
  });
  const operationalWebhooks = await countOf(api, "/api/v1/operational-webhook/endpoint");
  return { eventTypes: types.entries, applications, operationalWebhooks, failures };
}

/** @throws Unavailable when a list cannot be read */
export async function readTarget(api: SvixApi, source: Source, atOnce: number, progress: Progress) {
  const types = await readList(api, TYPES, eventTypeOut, "event type");
  const listed = await readList(api, APPLICATIONS, applicationOut, "application");
  const document = await readOne(api, "/openapi.json", documentOut);
  const failures: Failure[] = [];
  // By the names that this import gives: version 0.3.0 took ids of another deployment as they are.
  const byUid = new Map(
    listed.entries.flatMap((one) => (one.uid === null ? [] : [[uidOf(one), one] as const])),
  );
  const known = source.applications.flatMap((wanted) => {
    const application = byUid.get(uidOf(wanted));
    return application === undefined ? [] : [{ wanted, application }];
  });
  let read = 0;
  const applications = await mapAtOnce(known, atOnce, async ({ wanted, application }) => {
    const uids = new Set(wanted.endpoints.map(uidOf));
    const isWanted = (one: { id: string; uid: string | null }) => one.uid !== null && uids.has(uidOf(one));
    const found = await readEndpoints(api, application, atOnce, isWanted, []);
    failures.push(...found.failures);
    read += 1;
    progress(read, known.length);
    const endpoints = new Map(found.entries.map((endpoint) => [uidOf(endpoint), endpoint]));
    return [uidOf(wanted), { ...application, endpoints }] as const;
  });
  return {
    eventTypes: new Map(types.entries.map((type) => [type.name, type])),
    applications: new Map(applications),
    takesChannels:
      "value" in document &&
      document.value.components.schemas.NewDestination.properties.channels !== undefined,
    failures: failures.map(({ what, reason }) => ({ what: `${what} at the target`, reason })),
  };
}

type Read<T> = Readonly<{ entries: readonly T[]; failures: readonly Failure[] }>;

async function readEndpoints(
  api: SvixApi,
  application: SvixApplication,
  atOnce: number,
  isWanted: (endpoint: z.infer<typeof endpointOut>) => boolean,
  alsoRead: readonly Extra[],
): Promise<Read<SvixEndpoint>> {
  const path = `/api/v1/app/${application.id}/endpoint`;
  const of = ` of application ${uidOf(application)}`;
  const listed = await readList(api, `${path}?order=ascending`, endpointOut, "endpoint", of);
  const failures = [...listed.failures];
  const read = await mapAtOnce(listed.entries.filter(isWanted), atOnce, async (endpoint) => {
    const found = await readDetails(api, `${path}/${endpoint.id}`, alsoRead);
    if ("value" in found) return [{ ...endpoint, ...found.value }];
    failures.push({ what: `endpoint ${uidOf(endpoint)}${of}`, reason: found.fault });
    return [];
  });
  return { entries: read.flat(), failures };
}

type Details = Pick<SvixEndpoint, "secret" | "headers" | "sensitive" | "extras">;

async function readDetails(api: SvixApi, path: string, alsoRead: readonly Extra[]): Promise<One<Details>> {
  const secret = await readOne(api, `${path}/secret`, endpointSecretOut);
  if ("fault" in secret) return secret;
  const headers = await readOne(api, `${path}/headers`, endpointHeadersOut);
  if ("fault" in headers) return headers;
  const found: Extra[] = [];
  for (const extra of alsoRead) {
    const answer = await readOne(api, `${path}/${extra}`, switchOut);
    if ("fault" in answer && !UNKNOWN.includes(answer.status ?? 0)) return answer;
    if ("value" in answer && isOn(answer.value)) found.push(extra);
  }
  return { value: { secret: secret.value.key, ...headers.value, extras: found } };
}

/** Answers of a server that lacks the route, or whose account's plan does. */
const UNKNOWN: readonly number[] = [402, 403, 404, 405, 501];

function isOn({ enabled, code }: z.infer<typeof switchOut>): boolean {
  return enabled ?? typeof code === "string";
}

/** Reads all pages of a list, each entry once. An entry that cannot be read is a separate failure. */
async function readList<T extends Readonly<{ id: string }> | Readonly<{ name: string }>>(
  api: SvixApi,
  path: string,
  schema: z.ZodType<T>,
  what: string,
  of = "",
): Promise<Read<T>> {
  const entries = new Map<string, T>();
  const failures: Failure[] = [];
  const seen = new Set<string>();
  for (let next = ""; ; ) {
    const answer = await readOne(api, `${path}${path.includes("?") ? "&" : "?"}limit=100${next}`, svixPage);
    if ("fault" in answer) throw new Unavailable(`The ${what}s${of} cannot be listed: ${answer.fault}`);
    const { data, iterator, done } = answer.value;
    for (const entry of data) {
      const parsed = schema.safeParse(entry);
      if (parsed.success) entries.set("id" in parsed.data ? parsed.data.id : parsed.data.name, parsed.data);
      else failures.push({ what: `${what} ${nameIn(entry)}${of}`, reason: faultIn(parsed.error) });
    }
    if (done) return { entries: [...entries.values()], failures };
    if (!iterator || seen.has(iterator))
      throw new Unavailable(
        `The list of the ${what}s${of} does not end: it has no next page, and is not done`,
      );
    seen.add(iterator);
    next = `&iterator=${encodeURIComponent(iterator)}`;
  }
}

type One<T> = Readonly<{ value: T }> | Readonly<{ fault: string; status?: number }>;

async function readOne<T>(api: SvixApi, path: string, schema: z.ZodType<T>): Promise<One<T>> {
  const answer = await api.call("GET", path);
  if (!answer.ok) return { fault: `GET ${path} ${answer.reason}`, status: answer.status };
  const parsed = schema.safeParse(answer.json);
  return parsed.success ? { value: parsed.data } : { fault: `GET ${path}: ${faultIn(parsed.error)}` };
}

/** The number of entries of a list that the server may not know. */
async function countOf(api: SvixApi, path: string): Promise<number> {
  const answer = await readOne(api, `${path}?limit=100`, svixPage);
  return "value" in answer ? answer.value.data.length : 0;
}

/** The place of the first fault. Never the value, which may be a secret. */
function faultIn({ issues }: z.ZodError): string {
  const [issue] = issues;
  const place = issue?.path.map(String).join(".") || "the answer";
  return printable(`${place} is not as the API of Svix describes it (${issue?.code})`);
}

function nameIn(entry: unknown): string {
  const { uid, id, name } = (entry ?? {}) as Record<string, unknown>;
  const found = [uid, id, name].find((given) => typeof given === "string");
  return printable(typeof found === "string" ? found : "without a name");
}
