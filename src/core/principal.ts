/** Who acts, and what that principal may do. Every rule about scopes, tenants and visits of the portal is here. Pure. */
import type { Actor } from "./audit.ts";
import { allows, type PortalAccess, type PortalAction } from "./portal-access.ts";
import { type Refused, summarize } from "./result.ts";
import { isRoleAtLeast, type Role } from "./roles.ts";
import type { Scope } from "./scopes.ts";

/** The tenant that is reserved for Breakwater's own events, which are for the operator. */
export const OPERATOR = "operator";

export type Principal = Readonly<{
  /**
   * What its rate is counted by: the API key's id, or the tenant of service bindings; absent for what is the operator's
   * own, which is not limited: `ADMIN_KEY`, and a binding without a tenant.
   */
  key?: string;
  /** Present where it is not a request to the API; `mcp`: an agent's, with a key. */
  via?: "binding" | "queue" | "mcp";
  scopes: readonly Scope[];
  /** Present when the key is bound to this tenant: it sees and changes nothing of another. */
  tenant?: string;
  /** Present when the key polls this destination alone. */
  destination?: string;
  /** Epoch ms; present when the key expires. */
  expiresAt?: number;
  /** Present for a visitor of the portal: what it may do, and up to which limits, whatever its scopes are. */
  visit?: PortalAccess;
  /**
   * Present for a person, or a service token, that has signed in to the dashboard by Cloudflare Access. The role says what
   * the person may do; the scopes are those of the role.
   */
  person?: Readonly<{ name: string; role: Role }>;
  /** Present where the key, or the token of an agent, changes nothing by itself: a person approves what an agent asks for. */
  confirm?: true;
  /** The person who has approved what an agent does. */
  approver?: Actor;
  /** The session that the request is made in, at the dashboard or the portal. */
  session?: Readonly<{ at: "dashboard" | "portal"; id: string }>;
}>;

/** A capability's requirements of its principal. */
export type Permission = Readonly<{
  scope: Scope;
  /** What it is to visitors of the portal; where it is left out, no visitor may use it. */
  action?: PortalAction;
  /** Where it belongs to the operator: why no principal that is bound to a tenant may use it, as the end of a sentence. */
  operators?: string;
  /** The least role of a person; where it is left out, `look` for what reads, and `own` for everything else. */
  role?: Role;
}>;

/** The principal's name in a refusal. */
export function callerOf({ via, visit, person }: Principal): string {
  const given = via === "mcp" ? undefined : via;
  return `The ${visit ? "visit" : person ? "person" : (given ?? "key")}`;
}

export function roleFor({ scope, role = scope === "read" ? "look" : "own" }: Permission): Role {
  return role;
}

type Forbidden = Refused<"forbidden">;

const UNAPPROVED = "does nothing that needs the scope admin but by MCP, where a person approves it";

export function refuseWithout(permission: Permission, principal: Principal): Forbidden | undefined {
  const { scope, action } = permission;
  const { visit, scopes, person, confirm } = principal;
  if (confirm && scope === "admin") return forbidden(`${callerOf(principal)} ${UNAPPROVED}`);
  if (visit !== undefined && (action === undefined || !allows(visit, action)))
    return forbidden("The portal does not let this visitor do that");
  if (person !== undefined) return refuseRole(person.role, roleFor(permission));
  return scopes.includes(scope) ? undefined : forbidden(`${callerOf(principal)} lacks the scope ${scope}`);
}

/** Refused to visitors who may not see what events contain: their tags are part of that, and no receiver gets them. */
export function refuseTag({ visit }: Principal, tag: string | null | undefined): Forbidden | undefined {
  if (tag === null || tag === undefined || visit === undefined || allows(visit, "see_payload"))
    return undefined;
  return forbidden("The portal does not let this visitor see the tags of events");
}

function forbidden(detail: string): Forbidden {
  return { kind: "forbidden", detail };
}

function refuseRole(role: Role, least: Role): Forbidden | undefined {
  if (isRoleAtLeast(role, least)) return undefined;
  return forbidden(`Your role is ${role}, and this needs the role ${least}`);
}

/**
 * The tenant that a principal acts for: the one it names, else its own, else `default`. Undefined when the principal is
 * bound to another, or the tenant is the operator's and the principal is not an admin without a tenant.
 */
export function tenantFor(principal: Principal, named: string | undefined): string | undefined {
  const tenant = named ?? principal.tenant ?? "default";
  const isOperator = principal.tenant === undefined && principal.scopes.includes("admin");
  if (tenant === OPERATOR) return isOperator ? tenant : undefined;
  return principal.tenant === undefined || principal.tenant === tenant ? tenant : undefined;
}

/** Where `tenantFor` finds no tenant. */
export function notYourTenant(principal: Principal): Forbidden {
  const fault = "is bound to another tenant, or the tenant is reserved for the operator";
  return forbidden(`${callerOf(principal)} ${fault}`);
}

/**
 * The principal within one tenant: it sees and changes nothing of another, and may do no more than before. A principal that
 * is bound to a tenant stays bound to that one.
 */
export function principalWithin(principal: Principal, tenant: string | undefined): Principal {
  return tenant === undefined ? principal : { ...principal, tenant: principal.tenant ?? tenant };
}

/** Refused when the principal is bound to another tenant than the one that is named. */
export function refuseTenant(principal: Principal, named: string | undefined): Forbidden | undefined {
  const { tenant } = principal;
  if (named === undefined || tenant === undefined || named === tenant) return undefined;
  return forbidden(`${callerOf(principal)} is bound to another tenant`);
}

/** Refused when the principal is bound to a tenant: for what belongs to the operator. @param why ends the sentence */
export function refuseBound(principal: Principal, why: string): Forbidden | undefined {
  if (principal.tenant === undefined) return undefined;
  return forbidden(`${callerOf(principal)} is bound to a tenant, and ${why}`);
}

/** Refused when the principal grants a scope that it lacks. */
export function refuseScopes(
  { scopes: own }: Principal,
  wanted: readonly Scope[],
  field: string,
): Forbidden | undefined {
  const lacking = wanted.filter((scope) => !own.includes(scope)).join(", ");
  if (lacking === "") return undefined;
  const fault = `grants ${lacking}, which your key lacks`;
  const expected = `only scopes that your key has: ${own.join(", ")}`;
  const errors = [{ field, fault, expected }];
  return { kind: "forbidden", detail: summarize(errors), errors };
}
