/** Principals and their rights. Every rule about scopes, tenants and visits of the portal is here. Pure. */
import type { Actor } from "./audit.ts";
import { allows, type PortalAccess, type PortalAction } from "./portal-access.ts";
import { type Refused, summarize } from "./result.ts";
import { isRoleAtLeast, type Role } from "./roles.ts";
import type { Scope } from "./scopes.ts";

/** The tenant that is reserved for Breakwater's own events, which are for the operator. */
export const OPERATOR = "operator";

export type Principal = Readonly<{
  /**
   * The key that its rate is counted by: the API key's id, or the tenant of service bindings; absent for the operator,
   * who is not limited: `ADMIN_KEY`, and a binding without a tenant.
   */
  key?: string;
  /** Present if it is not a request to the API; `mcp`: an agent's, with a key. */
  via?: "binding" | "queue" | "mcp";
  scopes: readonly Scope[];
  /** Present when the key is bound to this tenant: it sees and changes nothing of another. */
  tenant?: string;
  /** Present when the key polls only this destination. */
  destination?: string;
  /** Epoch ms; present when the key expires. */
  expiresAt?: number;
  /** Present for a visitor of the portal: its rights and limits, which narrow its scopes. */
  visit?: PortalAccess;
  /**
   * Present for a person, or a service token, that has signed in to the dashboard by Cloudflare Access. The role
   * determines the person's rights; the scopes are those of the role.
   */
  person?: Readonly<{ name: string; role: Role }>;
  /** Present if the key, or the token of an agent, changes nothing by itself: a person approves an agent's requests. */
  confirm?: true;
  /** The person who has approved what an agent does. */
  approver?: Actor;
  /** The session that the request is made in, at the dashboard or the portal. */
  session?: Readonly<{ at: "dashboard" | "portal"; id: string }>;
}>;

/** A capability's requirements of its principal. */
export type Permission = Readonly<{
  scope: Scope;
  /** The right that visitors of the portal need; absent: no visitor may use it. */
  action?: PortalAction;
  /** For a capability of the operator: why no principal that is bound to a tenant may use it, as the end of a sentence. */
  operators?: string;
  /** The least role of a person; by default `look` for reads, and `own` for everything else. */
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

const UNAPPROVED = "may use the scope admin only by MCP, where a person approves each change";

export function refuseWithout(permission: Permission, principal: Principal): Forbidden | undefined {
  const { scope, action, operators } = permission;
  const { visit, person, confirm } = principal;
  if (confirm && scope === "admin") return forbidden(`${callerOf(principal)} ${UNAPPROVED}`);
  if (visit !== undefined && (action === undefined || !allows(visit, action)))
    return forbidden("The portal does not let this visitor do that");
  const lacking = person ? refuseRole(person.role, roleFor(permission)) : refuseScope(principal, scope);
  return lacking ?? (operators === undefined ? undefined : refuseBound(principal, operators));
}

function refuseScope(principal: Principal, scope: Scope): Forbidden | undefined {
  if (principal.scopes.includes(scope)) return undefined;
  return forbidden(`${callerOf(principal)} lacks the scope ${scope}`);
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

/** The refusal when `tenantFor` finds no tenant. */
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

/**
 * Refuses a principal that is bound to a tenant, for capabilities of the operator.
 * @param why ends the sentence
 */
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
