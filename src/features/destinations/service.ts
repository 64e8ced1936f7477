/**
 * Destinations: created, listed, shown, changed, deleted, paused, resumed and tested. Checks that depend on the
 * deployment and on stored data are made here (validate.ts), for every caller. Secrets are in secrets.ts, health in
 * health.ts.
 */
import { capsOf } from "../../config.ts";
import { changesBetween } from "../../core/audit.ts";
import { canonicalJson } from "../../core/canonical-json.ts";
import { checked } from "../../core/field-errors.ts";
import { defaultLimits } from "../../core/limits.ts";
import { allows, type LimitedField, limitedFields } from "../../core/portal-access.ts";
import { notYourTenant, type Principal, tenantFor } from "../../core/principal.ts";
import {
  conflict,
  conflictAt,
  errorIf,
  type FieldError,
  invalidField,
  invalidFields,
  missing,
  ok,
  type Refused,
  type Result,
  unavailable,
} from "../../core/result.ts";
import { formsOf } from "../../core/signature-forms.ts";
import { ownHeaders } from "../../delivery/authorization.ts";
import { plainTest, sendTestEvent, type TestContent, type TestResult } from "../../delivery/test-event.ts";
import { atGate } from "../../gate/client.ts";
import { destinationIdFor, newDestinationId } from "../../ids.ts";
import { endDeleted } from "../../jobs/deleted-destinations.ts";
import type { Services } from "../../services.ts";
import { type Destination, isSubscription, pauseOf } from "../../store/destination.ts";
import {
  changeDestination,
  type DestinationChange,
  destinationByUid,
  findDestination,
  insertDestination,
  isTaken,
  listDestinations,
  type NewDestination,
  setDestinationStatus,
} from "../../store/destinations.ts";
import { findEventType } from "../../store/event-types.ts";
import { refuseApplicationsName } from "../applications/service.ts";
import { actorOf } from "../audit/trail.ts";
import { eventVersionOf, exampleIn } from "../event-types/service.ts";
import { publishStatusChangeOf } from "../notifications/publish.ts";
import { type Call, type Caller, service, tenantService } from "../service.ts";
import { columnsOf, forVisitors, operatorFields } from "./fields.ts";
import { headersSchema } from "./headers.ts";
import { destinationService, refuseTest, visibleDestination } from "./one.ts";
import { type DestinationInput, destinationView, type NewDestinationInput, shownOfSecret } from "./schema.ts";
import { type AtFault, changedTarget, newTarget } from "./target.ts";
import {
  addressErrors,
  chosenSecret,
  creationErrors,
  dependsOn,
  handshakeFor,
  settingErrors,
  transformErrors,
  urlErrors,
  versionErrors,
} from "./validate.ts";

type Creation = Readonly<{
  destination: NewDestinationInput;
  /** Repeated for the same tenant, it creates nothing more. */
  key?: string | undefined;
  /** The URL of the caller's request: its host can be no destination, and a handshake names it. */
  requestUrl: string;
  /** Makes it an MCP Events subscription. Only that feature sets it. */
  subscription?: SubscriptionOrder;
}>;

/** The additions of a subscription to a new destination, for any principal. */
type SubscriptionOrder = Readonly<{
  input: Pick<NewDestinationInput, "secret" | "uid" | "headers" | "retry" | "description">;
  columns: Pick<NewDestination, "expiresAt" | "subscriber" | "eventCursor">;
  /** Requests the receiver's consent; a refusal prevents the destination from being created. */
  confirm: (row: Pick<NewDestination, "id" | "secret">) => Promise<Refused<"conflict"> | undefined>;
}>;

const creates = { scope: "admin", action: "create_endpoint", role: "configure" } as const;

/**
 * Creates the destination, at most once with a key: the conflict of a repeated creation names the one that exists. The
 * secret is shown only in this result.
 */
export const createDestination = service(
  creates,
  async ({ services, principal, changed }, input: Creation) => {
    const { destination: given, key, requestUrl, subscription } = input;
    const { db, config } = services;
    const tenant = tenantFor(principal, given.tenant);
    if (tenant === undefined) return notYourTenant(principal);
    const id = key === undefined ? newDestinationId() : await destinationIdFor(tenant, key);
    // Before the receiver is called; the insert checks again.
    if (key !== undefined && (await findDestination(db, id, tenant))) return alreadyCreated(id);
    const errors = [
      ...creationErrors(services, given, requestUrl),
      ...visitorErrors(principal, given),
      ...limitErrors(principal, { ...defaultLimits, ...given }),
    ];
    if (errors.length > 0) return invalidFields(errors);
    const prepared = await preparedRow(
      { services, principal },
      { ...given, ...subscription?.input },
      { id, tenant },
      new URL(requestUrl).host,
    );
    if ("errors" in prepared) return invalidFields(prepared.errors);
    const unconfirmed = await subscription?.confirm(prepared.row);
    if (unconfirmed) return unconfirmed;
    const most = principal.visit?.max_endpoints ?? Number.POSITIVE_INFINITY;
    const max = Math.min(capsOf(config).destinations, most);
    const row = await insertDestination(db, { ...prepared.row, ...subscription?.columns }, max);
    if (row !== undefined) {
      changed("destination.created", row);
      return ok({ row, shown: await shownOfSecret(prepared.secret) });
    }
    // A random id cannot be taken.
    if (key !== undefined && (await isTaken(db, id))) return alreadyCreated(id);
    return (
      (await uidConflict(db, { id, tenant }, { ...given, ...subscription?.input })) ??
      (await refuseApplicationsName(services, principal, tenant)) ??
      tooManyDestinations(tenant, max)
    );
  },
);

type ListPage = Parameters<typeof listDestinations>[1];

const reads = { scope: "read", action: "read" } as const;

/** Destinations in order of id, without deleted ones: at most `limit`. */
export const getDestinations = tenantService(reads, async ({ services }, page: ListPage) =>
  ok(await listDestinations(services.db, page)),
);

export const getDestination = destinationService(reads, async (_, row) => ok(row));

const changes = { scope: "admin", action: "change_endpoint", role: "configure" } as const;

type Update = Readonly<{
  id: string;
  change: DestinationInput;
  /** The URL of the caller's request: its host can be no destination. */
  requestUrl: string;
}>;

/** Changes the destination. Fields that the change omits stay; null resets a field to its default. */
export const updateDestination = service(changes, async (call, { id, change, requestUrl }: Update) => {
  const { services, principal } = call;
  const errors = [
    ...urlErrors(services, change, requestUrl),
    ...visitorErrors(principal, change),
    ...limitErrors(principal, change),
  ];
  if (errors.length > 0) return invalidFields(errors);
  const edited = await editDestination(call, id, principal.tenant, change);
  return edited.kind === "ok" ? recordEdit(call, edited.value) : edited;
});

type HeaderChange = Readonly<{
  id: string;
  /** Headers to set, by their names. */
  set: Readonly<Record<string, string>>;
  /** Names of headers to remove. */
  remove: readonly string[];
}>;

/** Sets and removes single headers. Headers that it does not name stay. */
export const updateHeaders = service(changes, async (call, { id, set, remove }: HeaderChange) => {
  const { services, principal } = call;
  const gone = new Set([...Object.keys(set), ...remove].map((name) => name.toLowerCase()));
  const edited = await editStored<Refused<"invalid" | "unavailable">>(
    services,
    id,
    principal.tenant,
    async (stored) => {
      const own = await ownHeaders(services.vault, stored).catch(() => undefined);
      if (own === undefined) return { refused: unavailable("The headers cannot be read at the moment") };
      const kept = Object.entries(own).filter(([name]) => !gone.has(name.toLowerCase()));
      const read = checked(headersSchema, { ...Object.fromEntries(kept), ...set });
      if (!("data" in read))
        return { refused: invalidFields(read.map((one) => ({ ...one, field: `headers.${one.field}` }))) };
      const input = { headers: read.data };
      return { input, columns: await columnsOf(savingBy(call, id), input) };
    },
  );
  return edited.kind === "ok" ? recordEdit(call, edited.value) : edited;
});

/** The entry of the audit trail about an edit. */
export function recordEdit({ changed }: Call, { stored, row }: Edit) {
  const changes = changesBetween(destinationView(stored), destinationView(row));
  changed("destination.changed", row, changes ?? undefined);
  return ok(row);
}

/** Deletes the destination permanently, and cancels its deliveries that have not ended. */
export const removeDestination = service(
  { scope: "admin", action: "delete_endpoint", role: "configure" },
  async ({ services, principal, changed }, id: string) => {
    const now = services.now();
    const tombstone = { deletedAt: now, updatedAt: now };
    const row = await changeDestination(services.db, id, tombstone, principal.tenant);
    if (row === undefined) return missing("destination", id);
    services.background(endDeleted(services, id));
    changed("destination.deleted", row);
    return ok(undefined);
  },
);

const PAUSED = { status: "paused", statusReason: "manual" } as const;
const ACTIVE = { status: "active", statusReason: null } as const;

/** Pauses the destination. If it is paused already, its reason stays. */
export const pauseDestination = service(
  { scope: "admin", action: "pause_endpoint", role: "repair" },
  async ({ services, principal, changed }, id: string) => {
    const now = services.now();
    const paused = await setDestinationStatus(services.db, id, PAUSED, principal.tenant, now);
    if (paused === undefined) return visibleDestination(services, principal, id);
    services.background(publishStatusChangeOf(services, id, now));
    changed("destination.paused", paused);
    return ok(paused);
  },
);

/** Resumes the destination, beginning with one attempt at a time. */
export const resumeDestination = destinationService(
  { scope: "admin", action: "resume_endpoint", role: "repair" },
  async ({ services, principal, changed }, before, id) => {
    const now = services.now();
    const resumed = await setDestinationStatus(services.db, id, ACTIVE, principal.tenant, now);
    if (resumed === undefined) {
      // Only the end of a pause starts again from one attempt: a repeat must not throttle a healthy destination.
      services.background(atGate(services, id, "scheduleDrain"));
      return visibleDestination(services, principal, id);
    }
    services.background(publishStatusChangeOf(services, id, now));
    services.background(atGate(services, id, "resume", pauseOf(before)));
    changed("destination.resumed", resumed);
    return ok(resumed);
  },
);

/** Without a type, it is of the type `breakwater.test`; else it has the example of the type in the catalogue. */
type TestOrder = Readonly<{ id: string; type?: string | undefined }>;

/** Sends a test event at once, whatever the state of the destination, at most once in five seconds. */
export const testDestination = destinationService(
  { scope: "admin", action: "send_test", role: "repair" },
  async ({ services }, destination, { id, type }: TestOrder) => {
    const content = await testContent(services, type);
    if (content === undefined) return withoutExample(type);
    const refused = await refuseTest(services, id);
    if (refused) return refused;
    const result = await sendTestEvent(services, destination, content);
    return result.kind === "made" ? ok(testReport(destination.url, result)) : conflict(result.fault);
  },
);

async function testContent({ db }: Services, type: string | undefined): Promise<TestContent | undefined> {
  if (type === undefined || type === plainTest.type) return plainTest;
  const row = await findEventType(db, type);
  const data = row && exampleIn(row);
  return data === undefined ? undefined : { type, data, version: row && eventVersionOf(row) };
}

export function withoutExample(type: string | undefined) {
  return invalidField("type", `is ${type}, which has no example`, "a type of the catalogue that has one");
}

/** The request and its answer. */
export type TestReport = ReturnType<typeof testReport>;

function testReport(url: string, { call, sent }: Extract<TestResult, { kind: "made" }>) {
  const { exchange, startedAt, endedAt, headers, excerpt, location } = call;
  return {
    ...(exchange.status !== undefined && { status: exchange.status }),
    ...(exchange.kind !== "response" && { error: exchange.kind }),
    latency_ms: endedAt - startedAt,
    ...(headers && { response_headers: { ...headers } }),
    ...(excerpt && { response: excerpt }),
    ...(location && { location: location.slice(0, 200) }),
    sent: { url, headers: { ...sent.headers }, body: sent.body },
  };
}

/** The errors of fields that are not for visitors of the portal to set. */
function visitorErrors(principal: Principal, input: object): FieldError[] {
  const { visit } = principal;
  if (visit === undefined) return operatorErrors(principal, input);
  const given = Object.entries(input).filter(
    ([name, value]) =>
      value !== undefined &&
      !(forVisitors.has(name) && (name !== "transform" || allows(visit, writing(value)))),
  );
  const [fault, expected] = ["is not for visitors to set", "it to be left out"];
  return given.map(([field]) => ({ field, fault, expected }));
}

/** The audit trail's action for setting a transformation. */
function writing(transform: unknown): "write_code" | "write_transform" {
  const isCode = typeof transform === "object" && transform !== null && "code" in transform;
  return isCode ? "write_code" : "write_transform";
}

/** The errors of fields that are the operator's, where the principal is bound to a tenant. */
export function operatorErrors({ tenant }: Principal, input: object): FieldError[] {
  if (tenant === undefined) return [];
  const given = new Map<string, unknown>(Object.entries(input));
  const [fault, expected] = ["is the operator's to set", "it to be left out"];
  return operatorFields
    .filter((name) => given.get(name) !== undefined)
    .map((field) => ({ field, fault, expected }));
}

/** The errors of limits that are above those of a visitor of the portal; null stands for a limit's default. */
function limitErrors(
  { visit }: Principal,
  input: Readonly<{ [K in LimitedField]?: number | null | undefined }>,
): FieldError[] {
  return limitedFields.flatMap((field) => {
    const [most, given] = [visit?.[field] ?? null, input[field]];
    const value = given === null ? defaultLimits[field] : given;
    const isAbove = most !== null && value !== undefined && value > most;
    return errorIf(isAbove, field, `is ${value}`, `at most ${most}: the visitor may set no more`);
  });
}

/** The row of a new destination, and its secret; or the errors of the input, from the first check that finds some. */
export async function preparedRow(
  caller: Caller,
  input: NewDestinationInput,
  { id, tenant }: Pick<Destination, "id" | "tenant">,
  origin: string,
): Promise<Readonly<{ row: NewDestination; secret: string }> | AtFault> {
  const { services } = caller;
  const { vault, now } = services;
  const chosen = await chosenSecret(input, "hmac-sha256", formsOf(input.signature_forms));
  const errors = [
    ...settingErrors(input, tenant),
    ...(await transformErrors(services, input, tenant)),
    ...(await versionErrors(services, input)),
    ...("errors" in chosen ? chosen.errors : []),
  ];
  if ("errors" in chosen || errors.length > 0) return { errors };
  const target = await newTarget(services, input, { id, tenant });
  if ("errors" in target) return target;
  const privateAddress = await addressErrors(services, input);
  if (privateAddress.length > 0) return { errors: privateAddress };
  const agreed = await handshakeFor(services, input, origin);
  if ("errors" in agreed) return agreed;
  const secret = await vault.seal(id, chosen.secret);
  const at = { createdAt: now(), updatedAt: now() };
  const paused = input.status === "paused" && { ...PAUSED, statusChangedAt: at.createdAt };
  const { transform, ...settings } = input;
  const given = transform ? input : settings;
  const columns = { ...(await columnsOf(savingBy(caller, id), given)), ...agreed, ...target, ...paused };
  return { row: { ...columns, id, tenant, secret, ...at }, secret: chosen.secret };
}

function savingBy({ services, principal }: Caller, id: string) {
  return { vault: services.vault, id, by: actorOf(principal), at: services.now() };
}

function alreadyCreated(id: string): Refused<"conflict"> {
  const fault = `was used before: it created ${id}`;
  const error = { field: "idempotency-key", fault, expected: "a new key for another destination" };
  return { ...conflictAt("The Idempotency-Key", error), existing: id };
}

/** The conflict with another destination of the tenant that has the `uid` of the input. */
async function uidConflict(
  db: D1Database,
  { id, tenant }: Pick<Destination, "id" | "tenant">,
  { uid }: Pick<DestinationInput, "uid">,
): Promise<Refused<"conflict"> | undefined> {
  const holder = uid ? await destinationByUid(db, tenant, uid) : undefined;
  if (holder === undefined || holder.id === id) return undefined;
  const fault = `is that of ${holder.id}`;
  const expected = "one that no other destination of the tenant has";
  return conflictAt(`The uid ${uid}`, { field: "uid", fault, expected });
}

/** The error names the tenant even where the body does not: the destination would belong to it. */
function tooManyDestinations(tenant: string, max: number) {
  const expected = `at most ${max} in a tenant: delete one that is no longer needed`;
  return invalidField("tenant", `is ${tenant}, which has ${max} destinations or more`, expected);
}

/** How often a change is tried in all, when others change what it depends on. */
const CHANGE_TRIES = 3;

/** A destination before and after its change. */
type Edit = Readonly<{ stored: Destination; row: Destination }>;
type Edited = Result<Edit, "not_found" | "conflict" | "invalid">;

/** Changes a destination, for callers that have checked the principal and the URLs. */
export async function editDestination(
  caller: Caller,
  id: string,
  tenant: string | undefined,
  input: DestinationInput,
): Promise<Edited> {
  const { services } = caller;
  const unfit = [...(await addressErrors(services, input)), ...(await versionErrors(services, input))];
  if (unfit.length > 0) return invalidFields(unfit);
  const columns = await columnsOf(savingBy(caller, id), input);
  return editStored<Refused<"invalid">>(services, id, tenant, async (stored) => {
    const errors = await transformErrors(services, input, stored.tenant);
    return errors.length > 0 ? { refused: invalidFields(errors) } : { input, columns };
  });
}

type Change = Readonly<{ input: DestinationInput; columns: DestinationChange }>;

/** @param changeFor called again when another request has changed what the change depends on */
async function editStored<R = never>(
  services: Services,
  id: string,
  tenant: string | undefined,
  changeFor: (stored: Destination) => Promise<Change | Readonly<{ refused: R }>>,
): Promise<Edited | R> {
  const { db, now } = services;
  for (let attempt = 1; attempt <= CHANGE_TRIES; attempt++) {
    const stored = await findDestination(db, id, tenant);
    if (stored === undefined) return missing("destination", id);
    const made = await changeFor(stored);
    if ("refused" in made) return made.refused;
    const { input, columns } = made;
    const target = await changedTarget(services, input, stored);
    const errors = [...changeErrors(input, stored), ...("errors" in target ? target.errors : [])];
    if ("errors" in target || errors.length > 0) return invalidFields(errors);
    // It always changes, so that changes that depend on each other notice each other.
    const updatedAt = Math.max(now(), stored.updatedAt + 1);
    const change = { ...columns, ...target, updatedAt };
    const row = await changeDestination(db, id, change, tenant, dependsOn(input, stored));
    if (!row) {
      const taken = await uidConflict(db, stored, input);
      if (taken) return taken;
      continue;
    }
    // Deliveries that wait because of the former version may be sent now.
    if (row.transform?.version !== stored.transform?.version)
      services.background(atGate(services, id, "scheduleDrain"));
    // A hold, an open circuit and a narrow window are about the old target's receiver.
    if (row.url !== stored.url) services.background(atGate(services, id, "resume"));
    else if (row.group !== stored.group) services.background(atGate(services, id, "leaveGroup"));
    return ok({ stored, row });
  }
  return conflict("The destination is being changed by other requests at the same time");
}

/** The errors of a change that depend on what is stored, except for its target. */
export function changeErrors(input: DestinationInput, stored: Destination): FieldError[] {
  return [...settingErrors(input, stored.tenant, stored), ...subscriptionErrors(input, stored)];
}

/** The errors of fields that say what an MCP Events subscription is: its client looks it up by them. */
function subscriptionErrors(input: DestinationInput, stored: Destination): FieldError[] {
  if (!isSubscription(stored)) return [];
  const fixed = { url: stored.url, event_types: stored.eventTypes, filter: stored.filter, uid: stored.uid };
  const others = Object.entries(fixed).filter(([name, value]) => {
    const given = input[name as keyof typeof fixed];
    return given !== undefined && canonicalJson(given) !== canonicalJson(value);
  });
  const [fault, expected] = ["is that of an MCP Events subscription", "it to stay: subscribe again"];
  return others.map(([field]) => ({ field, fault, expected }));
}
