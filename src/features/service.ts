/**
 * The services: every capability of Breakwater is one. A service takes a caller and a typed input, and returns a value
 * or a refusal. Routes, pages, the Svix API and bindings are adapters over it; they never call each other.
 *
 * A service declares what it requires of its principal, and that is checked here at every call, so that no adapter can
 * forget it. A route reads the same permission (`permitting` in http/auth.ts) to refuse a request before its body is
 * read.
 */
import type { Changes } from "../core/audit.ts";
import { type Permission, type Principal, refuseTenant, refuseWithout } from "../core/principal.ts";
import { missing, type RefusalKind, type Result } from "../core/result.ts";
import type { Services } from "../services.ts";
import type { NewAuditEntry } from "./audit/sql.ts";
import { record } from "./audit/trail.ts";

export type Caller = Readonly<{ services: Services; principal: Principal }>;

/** A caller whose permission has been checked. */
export type Call = Caller &
  Readonly<{
    /** Adds an entry to the audit trail, for a change that is made, even where the service refuses or fails after it. */
    changed: (
      action: NewAuditEntry["action"],
      subject: Readonly<{ id: string; tenant: string | null }>,
      changes?: Changes | null,
    ) => void;
  }>;

export type Service<I, T, K extends RefusalKind> = ((
  caller: Caller,
  input: I,
) => Promise<Result<T, K | "forbidden">>) &
  Readonly<{ permission: Permission }>;

/**
 * A service of this permission.
 * @param work throws only for internal errors; its result is awaited before the audit trail is written
 */
export function service<I, T, K extends RefusalKind = never>(
  permission: Permission,
  work: (call: Call, input: I) => Promise<Result<T, K>>,
): Service<I, T, K> {
  const run = async (caller: Caller, input: I): Promise<Result<T, K | "forbidden">> => {
    const { services, principal } = caller;
    const refused = refuseWithout(permission, principal);
    if (refused) return refused;
    const entries: NewAuditEntry[] = [];
    const changed: Call["changed"] = (action, { id, tenant }, changes) =>
      void entries.push({ action, subject: id, tenant, changes: changes ?? null });
    try {
      return await work({ services, principal, changed }, input);
    } finally {
      if (entries.length > 0) await record(services, principal, entries);
    }
  };
  return Object.assign(run, { permission });
}

/**
 * A service within the tenant that the input names, or within all. For a principal that is bound to a tenant it is that one,
 * and another is refused.
 */
export function tenantService<
  I extends Readonly<{ tenant?: string | undefined }>,
  T,
  K extends RefusalKind = never,
>(
  permission: Permission,
  work: (call: Call, input: I) => Promise<Result<T, K>>,
): Service<I, T, K | "forbidden"> {
  return service(permission, async (call, input: I): Promise<Result<T, K | "forbidden">> => {
    const { tenant = input.tenant } = call.principal;
    return refuseTenant(call.principal, input.tenant) ?? work(call, { ...input, tenant });
  });
}

type Naming = string | Readonly<{ id: string }> | Readonly<{ name: string }>;

/**
 * Makes services about one object, which the input names, or its `id` or `name`. Refused if there is none that the
 * principal may see, before anything else is checked.
 */
export function servicesAbout<F>(what: string, find: (caller: Caller, id: string) => Promise<F | undefined>) {
  return <T, I extends Naming = string, K extends RefusalKind = never>(
    permission: Permission,
    work: (call: Call, found: F, input: I) => Promise<Result<T, K>>,
  ): Service<I, T, K | "not_found"> =>
    service(permission, async (call, input: I): Promise<Result<T, K | "not_found">> => {
      const id = idIn(input);
      const found = await find(call, id);
      return found === undefined ? missing(what, id) : work(call, found, input);
    });
}

function idIn(input: Naming): string {
  if (typeof input === "string") return input;
  return "id" in input ? input.id : input.name;
}
