/**
 * The configuration of a tenant as JSON: its settings and its destinations, exported to be kept or reviewed, and
 * imported into the same deployment or another one. Destinations keep their ids, so that importing twice changes
 * nothing more.
 *
 * Secrets are left out unless the operator requests them. A destination that is imported without its signing secret
 * gets a new one; one without the values of its headers or credentials is created paused, until they are set.
 */

import { z } from "@hono/zod-openapi";
import { capsOf } from "../../config.ts";
import {
  conflict,
  errorIf,
  type FieldError,
  invalidFields,
  missing,
  ok,
  type Refused,
} from "../../core/result.ts";
import { openedAuth, ownHeaders } from "../../delivery/authorization.ts";
import { openToken } from "../../delivery/kinds/token.ts";
import { idPatterns } from "../../ids.ts";
import { faultOf } from "../../log.ts";
import type { Services } from "../../services.ts";
import { type Destination, isSubscription } from "../../store/destination.ts";
import {
  destinationsById,
  insertDestinations,
  listDestinations,
  type NewDestination,
} from "../../store/destinations.ts";
import { isoTime } from "../../time.ts";
import { refuseApplicationsName } from "../applications/service.ts";
import { authInputOf } from "../destinations/auth.ts";
import {
  type DestinationInput,
  destinationView,
  newDestination,
  shownOfSecret,
} from "../destinations/schema.ts";
import {
  changeErrors,
  editDestination,
  operatorErrors,
  preparedRow,
  recordEdit,
} from "../destinations/service.ts";
import { type AtFault, changedTarget, targetErrors } from "../destinations/target.ts";
import { addressErrors, transformErrors, urlErrors, versionErrors } from "../destinations/validate.ts";
import { formerVersions } from "../event-types/versions.ts";
import { documented, listField, strict, textField } from "../parameters.ts";
import { type Call, type Caller, service } from "../service.ts";
import { tenantChange } from "./schema.ts";
import {
  isVisible,
  refuseOthers,
  refuseTenantsOwn,
  setSettings,
  settingsErrors,
  settingsView,
} from "./service.ts";
import { findTenantSettings } from "./settings.ts";

/** The configuration; with secrets only for the operator, and then in the audit trail. */
export const exportTenant = service(
  { scope: "admin" },
  async (
    { services, principal, changed },
    { tenant, withSecrets }: Readonly<{ tenant: string; withSecrets: boolean }>,
  ) => {
    if (!isVisible(principal, tenant)) return missing("tenant", tenant);
    const refusal = withSecrets ? refuseTenantsOwn(principal) : undefined;
    if (refusal) return refusal;
    const all = await destinationsOf(services.db, tenant);
    // Subscriptions over MCP belong to their clients, which subscribe again.
    const rows = all.filter((row) => !isSubscription(row));
    const {
      tenant: _,
      updated_at,
      ...settings
    } = settingsView(tenant, await findTenantSettings(services.db, tenant));
    const former = await formerVersions(services);
    const destinations = await Promise.all(
      rows.map(async (row) => ({
        ...(await portable(
          services,
          principal.tenant === undefined ? row : { ...row, group: null },
          withSecrets,
        )),
        event_versions: pinsOf(row, former),
      })),
    );
    if (withSecrets) changed("tenant.exported", { id: tenant, tenant });
    const exportedAt = isoTime(services.now());
    const parts = Math.ceil(destinations.length / MOST_IMPORTED);
    const head = { version: 1, exported_at: exportedAt, tenant, ...(parts > 1 && { parts }) } as const;
    return ok({ ...head, settings, destinations });
  },
);

type Import = Readonly<{
  tenant: string;
  document: z.infer<typeof tenantDocument>;
  isDryRun: boolean;
  /** Any URL of the deployment. */
  requestUrl: string;
}>;

/** Everything is checked before anything is written: a document with an error changes nothing. */
export const importTenant = service({ scope: "admin" }, async (call, input: Import) => {
  const { services, principal, changed } = call;
  const { tenant, document, isDryRun } = input;
  const refusal =
    refuseOthers(principal, tenant) ?? (await refuseApplicationsName(services, principal, tenant));
  if (refusal) return refusal;
  const { settings } = document;
  const { steps, errors } = await stepsOf(call, input);
  const all = [
    ...settingsErrors(services, settings ?? {}).map((error) => within("settings", error)),
    ...document.destinations.flatMap((given, i) =>
      operatorErrors(principal, given).map((error) => within(`destinations[${i}]`, error)),
    ),
    ...errors,
  ];
  if (all.length > 0) return invalidFields(all);
  if (!isDryRun) {
    const failed = await changeStored(call, steps);
    if (failed) return failed;
  }
  if (!isDryRun && settings) {
    await setSettings(services, tenant, settings);
    changed("tenant.imported", { id: tenant, tenant });
  }
  // The last: nothing fails between the making of secrets and the answer that shows them.
  const created = isDryRun ? [] : await createAll(call, steps);
  if (!Array.isArray(created)) return created;
  const idsOf = (kind: Step["kind"]) =>
    steps.flatMap((step) => (step.kind === kind ? [step.kind === "create" ? step.row.id : step.id] : []));
  return ok<TenantImport>({
    created: isDryRun ? idsOf("create").map((id) => ({ id })) : created,
    changed: idsOf("change"),
    unchanged: idsOf("keep"),
    dry_run: isDryRun,
  });
});

/** Destinations read at once: the most that a tenant has by default. */
const PAGE = 1_000;
/** Bytes of a document at most. */
export const MOST_IMPORT_BYTES = 2 * 1024 * 1024;
/** Each takes a query or two, of which an invocation has 1,000. */
const MOST_IMPORTED = 200;

async function destinationsOf(db: D1Database, tenant: string): Promise<Destination[]> {
  const found: Destination[] = [];
  for (;;) {
    const page = await listDestinations(db, { tenant, after: found.at(-1)?.id, limit: PAGE });
    found.push(...page);
    if (page.length < PAGE) return found;
  }
}

type FormerVersions = Awaited<ReturnType<typeof formerVersions>>;

/** The pins by which a destination that is created later gets the same versions. */
function pinsOf(row: Destination, former: FormerVersions): Readonly<Record<string, number>> {
  const pins = Object.entries({ ...former(row), ...destinationView(row).event_versions });
  return Object.fromEntries(pins.toSorted(([a], [b]) => (a < b ? -1 : 1)));
}

/** The part of a stored destination that another deployment needs to have the same. */
async function portable(services: Services, row: Destination, withSecrets: boolean): Promise<Portable> {
  const { headers, auth, ...view } = destinationView(row);
  const kept = Object.entries(view).filter(([name]) => name in portableDestination.shape);
  const open = Object.fromEntries(kept) as Omit<Portable, "omitted">;
  if (withSecrets) {
    const { fields, unreadable } = await opened(services, row);
    return { ...open, ...fields, omitted: unreadable };
  }
  const has = { secret: true, headers: Object.keys(headers).length > 0, auth, token: row.targetToken };
  return { ...open, omitted: sealedFields.filter((field) => has[field]) };
}

type SealedField = (typeof sealedFields)[number];

/**
 * The sealed fields of a destination, opened; one that does not open, after an edit by hand or without its master key, is
 * named.
 */
async function opened({ vault, log }: Services, row: Destination) {
  const { id, secret, targetToken } = row;
  const unreadable: SealedField[] = [];
  const open = async <T>(field: SealedField, opening: () => Promise<T>): Promise<T | undefined> => {
    try {
      return await opening();
    } catch (error) {
      unreadable.push(field);
      log({ what: "secret_unreadable", destination: id, error: faultOf(error) });
      return undefined;
    }
  };
  const own = (await open("headers", () => ownHeaders(vault, row))) ?? {};
  const auth = await open("auth", () => openedAuth(vault, row));
  const [signing, token] = [
    await open("secret", () => vault.unseal(id, secret)),
    await open("token", async () => (targetToken === null ? undefined : openToken(vault, id, targetToken))),
  ];
  const fields = {
    ...(signing !== undefined && { secret: signing }),
    ...(Object.keys(own).length > 0 && { headers: own }),
    ...(auth && { auth: authInputOf(auth.shown, auth.secret) }),
    ...(token !== undefined && { token }),
  };
  return { fields, unreadable };
}

/** A destination of the document that is to be created, or changed, or is as it should be. */
type Step =
  | Readonly<{ kind: "create"; row: NewDestination; secret: string; omitted: readonly string[] }>
  | Readonly<{ kind: "change"; id: string; input: DestinationInput }>
  | Readonly<{ kind: "keep"; id: string }>;

async function stepsOf(call: Caller, { tenant, document: { destinations }, requestUrl }: Import) {
  const { services } = call;
  const origin = new URL(requestUrl).host;
  const own = await destinationsOf(services.db, tenant);
  const ids = destinations.map(({ id }) => id);
  const known = await destinationsById(services.db, ids);
  const former = await formerVersions(services);
  const uids = new Map(own.flatMap(({ id, uid }) => (uid === null ? [] : [[uid, id] as const])));
  const steps: Step[] = [];
  const errors: FieldError[] = [];
  for (const [index, given] of destinations.entries()) {
    const stored = known.get(given.id);
    const found =
      identityErrors(given, stored, tenant, { ids: ids.slice(0, index), uids }) ??
      errorsOrNone(urlErrors(services, given, requestUrl)) ??
      (stored
        ? await changeOf(services, given, stored, former)
        : await creationOf(call, given, tenant, origin));
    if (given.uid) uids.set(given.uid, given.id);
    if ("kind" in found) steps.push(found);
    else errors.push(...found.errors.map((error) => within(`destinations[${index}]`, error)));
  }
  const most = capsOf(services.config).destinations;
  const count = own.length + steps.filter(({ kind }) => kind === "create").length;
  const fault = `make ${count} with those that there are`;
  errors.push(...errorIf(count > most, "destinations", fault, `at most ${most} in a tenant`));
  return { steps, errors };
}

function errorsOrNone(errors: readonly FieldError[]): AtFault | undefined {
  return errors.length > 0 ? { errors } : undefined;
}

/** The errors of an id or a `uid` that is another's. */
function identityErrors(
  { id, uid }: Portable,
  stored: Destination | undefined,
  tenant: string,
  { ids, uids }: Readonly<{ ids: readonly string[]; uids: ReadonlyMap<string, string> }>,
): AtFault | undefined {
  const isTaken = ids.includes(id) || (stored && (stored.tenant !== tenant || stored.deletedAt !== null));
  const holder = uid ? uids.get(uid) : undefined;
  const isHeld = holder !== undefined && holder !== id;
  return errorsOrNone([
    ...errorIf(Boolean(isTaken), "id", `is ${id}, which is taken`, "an id of the tenant, once, or a new one"),
    ...errorIf(isHeld, "uid", `is ${uid}, as that of ${holder}`, "one that no other has"),
  ]);
}

async function creationOf(
  caller: Caller,
  { id, omitted = [], ...input }: Portable,
  tenant: string,
  origin: string,
): Promise<Step | AtFault> {
  const errors = targetErrors(input);
  if (errors.length > 0) return { errors };
  const isIncomplete = omitted.some((field) => field !== "secret" && input[field] === undefined);
  const status = isIncomplete ? "paused" : input.status;
  const prepared = await preparedRow(caller, { ...input, status }, { id, tenant }, origin);
  return "errors" in prepared ? prepared : { kind: "create", ...prepared, omitted };
}

/** The change from what is stored. An existing destination keeps its secret, and whether it is paused. */
async function changeOf(
  services: Services,
  given: Portable,
  stored: Destination,
  former: FormerVersions,
): Promise<Step | AtFault> {
  const { id, omitted: _, secret: __, status: ___, ...wanted } = given;
  const now: Readonly<Record<string, unknown>> = {
    ...(await portable(services, stored, false)),
    ...(await opened(services, stored)).fields,
  };
  const isAs = (value: unknown, other: unknown) =>
    JSON.stringify(value ?? null) === JSON.stringify(other ?? null);
  const differing = Object.entries(wanted).filter(
    ([name, value]) =>
      !isAs(value, now[name]) && !(name === "event_versions" && isAs(value, pinsOf(stored, former))),
  );
  if (differing.length === 0) return { kind: "keep", id };
  const input = Object.fromEntries(differing) as DestinationInput;
  const target = await changedTarget(services, input, stored);
  const errors = [
    ...changeErrors(input, stored),
    ...("errors" in target ? target.errors : []),
    ...(await addressErrors(services, input)),
    ...(await transformErrors(services, input, stored.tenant)),
    ...(await versionErrors(services, input)),
  ];
  return errors.length > 0 ? { errors } : { kind: "change", id, input };
}

/** Changes what is to be changed. Where another request was faster, the import can be repeated. */
async function changeStored(call: Call, steps: readonly Step[]) {
  for (const step of steps) {
    if (step.kind !== "change") continue;
    const done = await editDestination(call, step.id, undefined, step.input);
    if (done.kind !== "ok") return done;
    recordEdit(call, done.value);
  }
  return undefined;
}

/** Creates all new destinations, or none. */
async function createAll(
  { services, principal, changed }: Call,
  steps: readonly Step[],
): Promise<TenantImport["created"] | Refused<"conflict">> {
  const wanted = steps.filter((step) => step.kind === "create");
  const most = capsOf(services.config).destinations;
  const rows = wanted.map(({ row }) => row);
  const created = await insertDestinations(services.db, rows, most);
  const tenant = rows[0]?.tenant;
  if (created === undefined)
    return (
      (await refuseApplicationsName(services, principal, tenant)) ??
      conflict("Another request created destinations at the same time: repeat the import")
    );
  for (const row of created) changed("destination.created", row);
  return Promise.all(
    wanted.map(async ({ row, secret, omitted }) => ({
      id: row.id,
      // A secret that came with the document is known.
      ...(omitted.includes("secret") && (await shownOfSecret(secret))),
      omitted: omitted.filter((one) => one !== "secret"),
    })),
  );
}

function within(where: string, error: FieldError): FieldError {
  return { ...error, field: `${where}.${error.field}` };
}

const sealedFields = ["secret", "headers", "auth", "token"] as const;

const OMITTED_EXPECTED = `expected a list of ${sealedFields.join(", ")}`;
const COUNT_EXPECTED = `a list of at most ${MOST_IMPORTED} destinations; import the others with further requests`;

const { tenant: _, handshake: __, signature: ___, ...portableFields } = newDestination.shape;

const portableDestination = strict({
  id: textField("dst_ and 20 lower-case letters and digits", { pattern: idPatterns.destination }).describe(
    "A destination of the tenant with this id is changed; otherwise it is created with it.",
  ),
  ...portableFields,
  omitted: z
    .array(z.enum(sealedFields, OMITTED_EXPECTED), OMITTED_EXPECTED)
    .optional()
    .describe(
      "The parts of the destination that the document lacks. Without its secret it gets a new one when it is created; " +
        "without its headers, `auth` or token it is created paused.",
    ),
}).openapi("TenantConfigDestination");

type Portable = z.infer<typeof portableDestination>;

export const tenantDocument = strict({
  version: z.literal(1, "expected 1"),
  exported_at: z.string().optional().describe("When it was exported; ignored on import."),
  tenant: z
    .string()
    .optional()
    .describe("The exported tenant; ignored on import, because the path names the tenant."),
  parts: z
    .int()
    .optional()
    .describe(
      `Present where the document is too large for one import, which takes ${MOST_IMPORTED} destinations: into so many, of ` +
        "which each has some of `destinations`, it is to be divided. Ignored on import.",
    ),
  settings: tenantChange.optional(),
  destinations: listField(portableDestination, COUNT_EXPECTED, { max: MOST_IMPORTED }),
}).openapi("TenantConfig");

export const importResult = documented("TenantImport", {
  created: z.array(
    z.object({
      id: z.string(),
      secret: z.string().optional().describe("A new one; it is shown only here."),
      public_key: z.string().optional(),
      omitted: z.array(z.string()).optional().describe("The settings that it needs before it is resumed."),
    }),
  ),
  changed: z.array(z.string()),
  unchanged: z.array(z.string()),
  dry_run: z.boolean(),
});

export type TenantImport = z.infer<typeof importResult>;
