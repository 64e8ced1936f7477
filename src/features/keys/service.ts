/**
 * API keys. A principal that is bound to a tenant manages the keys of that tenant only: those without a tenant are the
 * operator's, and it does not see them.
 */
import { changesBetween } from "../../core/audit.ts";
import { type Principal, refuseScopes, refuseTenant } from "../../core/principal.ts";
import { type FieldError, invalidFields, missing, ok, type Result } from "../../core/result.ts";
import { scopes } from "../../core/scopes.ts";
import { kindNameOf } from "../../delivery/kinds/registry.ts";
import { newKey } from "../../http/auth.ts";
import type { Destination } from "../../store/destination.ts";
import { findDestination } from "../../store/destinations.ts";
import { isoTime } from "../../time.ts";
import { refuseApplicationsName } from "../applications/service.ts";
import { service } from "../service.ts";
import { FUTURE_TIME, type KeyView, type NewKey } from "./schema.ts";
import { findKey, insertKey, listKeys, revokeKey, type StoredApiKey } from "./sql.ts";

const permission = { scope: "admin" } as const;

/** Creates a key, which has no scope that its creator lacks and does not outlive it. `key` is shown only in this result. */
export const createKey = service(permission, async ({ services, principal, changed }, input: NewKey) => {
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
  const { id, token, hash } = await newKey();
  const tenant = inbox.value?.tenant ?? principal.tenant ?? input.tenant ?? null;
  const destination = inbox.value?.id ?? null;
  const { name, scopes, confirm } = input;
  const row = { id, name, tenant, scopes, destination, hash, confirm, createdAt: now(), expiresAt };
  const view = viewOf(await insertKey(db, row));
  const { expires_at, confirm: confirmed } = view;
  const given = { scopes: view.scopes, expires_at, ...(confirmed && { confirm: confirmed }) };
  changed("api_key.created", view, changesBetween({}, given));
  return ok({ ...view, key: token });
});

/** The destination that a key is to poll alone; undefined where it is bound to none. */
async function inboxFor(
  db: D1Database,
  principal: Principal,
  { destination_id: id, scopes: wanted, tenant }: NewKey,
): Promise<Result<Destination | undefined, "invalid">> {
  if (id === undefined || id === null) return ok(undefined);
  const field = "destination_id";
  if (wanted.some((scope) => scope !== "poll"))
    return invalidFields([{ field, fault: "is given with other scopes", expected: "the scope poll alone" }]);
  const row = await findDestination(db, id, principal.tenant ?? tenant);
  if (row && kindNameOf(row.url) === "poll") return ok(row);
  const fault = row ? "is of another kind" : "is not known";
  return invalidFields([{ field, fault, expected: "a destination of the kind poll" }]);
}

type Page = Parameters<typeof listKeys>[1];

/** Keys by id, without revoked ones: at most `limit`. */
export const getKeys = service(permission, async ({ services, principal }, page: Page) => {
  const refusal = refuseTenant(principal, page.tenant);
  if (refusal) return refusal;
  const { tenant = page.tenant } = principal;
  return ok((await listKeys(services.db, { ...page, tenant })).map(viewOf));
});

export const getKey = service(permission, async ({ services, principal }, id: string) => {
  const row = await findKey(services.db, id, principal.tenant);
  return row ? ok(viewOf(row)) : missing("API key", id);
});

/** Revokes a key for good: within a minute it is refused everywhere. */
export const removeKey = service(permission, async ({ services, principal, changed }, id: string) => {
  const revoked = await revokeKey(services.db, id, principal.tenant, services.now());
  if (revoked === undefined) return missing("API key", id);
  changed("api_key.revoked", revoked);
  return ok(undefined);
});

/** Scopes that were edited into something else are left out. */
function viewOf(row: StoredApiKey): KeyView {
  return {
    id: row.id,
    name: row.name,
    tenant: row.tenant,
    scopes: scopes.filter((scope) => Array.isArray(row.scopes) && row.scopes.includes(scope)),
    destination_id: row.destination,
    // Whatever it was edited into: it binds the key.
    confirm: row.confirm === null ? null : "dashboard",
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
  const field = "expires_at";
  if (expiresAt <= now) return [{ field, fault: `is ${at}, which has passed`, expected: FUTURE_TIME }];
  if (latest === undefined || expiresAt <= latest) return [];
  const fault = `is ${at}, after your own key expires`;
  return [{ field, fault, expected: `${isoTime(latest)} at the latest` }];
}
