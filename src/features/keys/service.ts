/**
 * API keys. A principal that is bound to a tenant manages the keys of that tenant only: those without a tenant are the
 * operator's, and it does not see them. Visitors of the portal manage the keys that visitors have made, each of which polls
 * one destination of their tenant.
 */
import { changesBetween } from "../../core/audit.ts";
import { type Principal, refuseScopes, refuseTenant } from "../../core/principal.ts";
import {
  conflict,
  errorAt,
  type FieldError,
  invalidField,
  invalidFields,
  missing,
  ok,
  type Result,
} from "../../core/result.ts";
import { isPolled } from "../../delivery/kinds/sending.ts";
import type { Destination } from "../../store/destination.ts";
import { findDestination } from "../../store/destinations.ts";
import { isoTime } from "../../time.ts";
import { refuseApplicationsName } from "../applications/service.ts";
import { type Call, service, tenantService } from "../service.ts";
import { newKey, scopesIn } from "./credentials.ts";
import { FUTURE_TIME, type KeyView, type NewKey, type NewPollKey } from "./schema.ts";
import { type ApiKeyInsert, findKey, insertKey, listKeys, revokeKey, type StoredApiKey } from "./sql.ts";

const permission = { scope: "admin" } as const;

/** Keys of one destination: each reads the same events, so more of them are an oversight. */
export const MOST_POLL_KEYS = 50;

/** Creates a key, which has no scope that its creator lacks and does not outlive it. `key` is shown only in this result. */
export const createKey = service(permission, async (call, input: NewKey) => {
  const { services, principal } = call;
  const { db, now } = services;
  const unbound = refuseTenant(principal, input.tenant) ?? refuseScopes(principal, input.scopes, "scopes");
  if (unbound) return unbound;
  const expiresAt = input.expires_at ? Date.parse(input.expires_at) : (principal.expiresAt ?? null);
  const errors = expiryErrors(expiresAt, principal.expiresAt, now());
  if (errors.length > 0) return invalidFields(errors);
  const named = principal.tenant === undefined ? input.tenant : undefined;
  const namesake = await refuseApplicationsName(services, principal, named);
  if (namesake) return namesake;
  const inbox = await inboxFor(db, principal, input);
  if (inbox.kind !== "ok") return inbox;
  const destination = inbox.value?.id ?? null;
  const full = destination === null ? undefined : await refuseAnother(db, destination);
  if (full) return full;
  const tenant = inbox.value?.tenant ?? principal.tenant ?? input.tenant ?? null;
  const { name, scopes, confirm } = input;
  return ok(await addKey(call, { name, tenant, scopes, destination, confirm, expiresAt }));
});

/** Stores a key. Its secret is only in this result. */
async function addKey(
  { services: { db, now }, changed }: Call,
  fields: Omit<ApiKeyInsert, "id" | "hash" | "createdAt">,
) {
  const { id, token, hash } = await newKey();
  const view = viewOf(await insertKey(db, { ...fields, id, hash, createdAt: now() }));
  const { expires_at, confirm } = view;
  const given = { scopes: view.scopes, expires_at, ...(confirm && { confirm }) };
  changed("api_key.created", view, changesBetween({}, given));
  return { ...view, key: token };
}

/** Refused where the destination has as many keys as it may. Keys that are made at the same moment may be some more. */
async function refuseAnother(db: D1Database, destination: string) {
  const page = { tenant: undefined, destination, after: undefined, limit: MOST_POLL_KEYS };
  const { length } = await listKeys(db, page);
  if (length < MOST_POLL_KEYS) return undefined;
  return conflict(`The destination has ${MOST_POLL_KEYS} keys: revoke one that is no longer used`);
}

/** The only destination that a key may poll; undefined if it is not bound to one. */
async function inboxFor(
  db: D1Database,
  principal: Principal,
  { destination_id: id, scopes: wanted, tenant }: NewKey,
): Promise<Result<Destination | undefined, "invalid">> {
  if (id === undefined || id === null) return ok(undefined);
  const field = "destination_id";
  if (wanted.some((scope) => scope !== "poll"))
    return invalidField(field, "is given with other scopes", "the scope poll alone");
  const row = await findDestination(db, id, principal.tenant ?? tenant);
  if (row && isPolled(row)) return ok(row);
  const fault = row ? "is of another kind" : "is not known";
  return invalidField(field, fault, "a destination of the kind poll");
}

/** Keys by id, without revoked ones: at most `limit`. */
export const getKeys = tenantService(permission, async ({ services }, page: Parameters<typeof listKeys>[1]) =>
  ok((await listKeys(services.db, page)).map(viewOf)),
);

export const getKey = service(permission, async ({ services, principal }, id: string) => {
  const row = await findKey(services.db, id, principal.tenant);
  return row ? ok(viewOf(row)) : missing("API key", id);
});

/** Revokes a key permanently: within a minute it is refused everywhere. */
export const removeKey = service(permission, async ({ services, principal, changed }, id: string) => {
  const revoked = await revokeKey(services.db, id, principal.tenant, services.now());
  if (revoked === undefined) return missing("API key", id);
  changed("api_key.revoked", revoked);
  return ok(undefined);
});

const pollKeys = { scope: "admin", action: "manage_poll_keys" } as const;

/** The keys of a polled destination that visitors have made. */
export const getPollKeys = service(pollKeys, async ({ services: { db }, principal }, destination: string) => {
  const row = await inboxNamed(db, destination, principal.tenant);
  if (row === undefined) return missing("destination", destination);
  const page = { tenant: row.tenant, destination, after: undefined, limit: 2 * MOST_POLL_KEYS };
  return ok((await listKeys(db, page)).filter(({ madeIn }) => madeIn === "portal").map(viewOf));
});

type NewOfInbox = Readonly<{ destination: string; input: NewPollKey }>;

/**
 * Creates a key that polls the destination, and nothing else. A visit has no scopes to pass on: its rights allow the
 * visitor to read the destination's events. `key` is shown only in this result.
 */
export const createPollKey = service(pollKeys, async (call, { destination, input }: NewOfInbox) => {
  const { services, principal } = call;
  const row = await inboxNamed(services.db, destination, principal.tenant);
  if (row === undefined) return missing("destination", destination);
  const full = await refuseAnother(services.db, destination);
  if (full) return full;
  const { expiresAt = null } = principal;
  const of = { tenant: row.tenant, destination, expiresAt, madeIn: "portal" };
  return ok(await addKey(call, { name: input.name, scopes: ["poll"], ...of }));
});

type OfInbox = Readonly<{ destination: string; id: string }>;

/** Revokes a key that visitors have made for the destination. */
export const removePollKey = service(
  pollKeys,
  async ({ services, principal, changed }, { destination, id }: OfInbox) => {
    const { db, now } = services;
    const row = await inboxNamed(db, destination, principal.tenant);
    const revoked = row && (await revokeKey(db, id, row.tenant, now(), { destination, madeIn: "portal" }));
    if (revoked === undefined) return missing("API key", id);
    changed("api_key.revoked", revoked);
    return ok(undefined);
  },
);

async function inboxNamed(db: D1Database, id: string, tenant: string | undefined) {
  const row = await findDestination(db, id, tenant);
  return row && isPolled(row) ? row : undefined;
}

function viewOf(row: StoredApiKey): KeyView {
  return {
    id: row.id,
    name: row.name,
    tenant: row.tenant,
    scopes: scopesIn(row.scopes),
    destination_id: row.destination,
    // Returned even if it was edited into something else, because it binds the key.
    confirm: row.confirm === null ? null : "dashboard",
    made_in: row.madeIn === "portal" ? "portal" : null,
    created_at: isoTime(row.createdAt),
    expires_at: isoTime(row.expiresAt),
    last_used_at: isoTime(row.lastUsedAt),
  };
}

/**
 * The error of an expiry that is in the past, or after that of the key that creates this one.
 * @param latest epoch ms at which the creating key expires; undefined: never
 */
function expiryErrors(expiresAt: number | null, latest: number | undefined, now: number): FieldError[] {
  if (expiresAt === null) return [];
  const at = isoTime(expiresAt);
  if (expiresAt <= now) return errorAt("expires_at", `is ${at}, which has passed`, FUTURE_TIME);
  if (latest === undefined || expiresAt <= latest) return [];
  return errorAt("expires_at", `is ${at}, after your own key expires`, `${isoTime(latest)} at the latest`);
}
