/**
 * Who is asking, and what may they do. Routes name the scope they need and take the tenant from the
 * principal; where principals come from is for `Authenticate` to say.
 */
import type { MiddlewareHandler } from "hono";
import type { Services } from "../services.ts";
import { OPERATOR } from "../store/notices.ts";
import type { ApiEnv } from "./context.ts";
import { problem } from "./problems.ts";

export const scopes = ["events:write", "read", "admin"] as const;

export type Scope = (typeof scopes)[number];

export type Principal = Readonly<{
  /** The API key's id; absent for the operator's own `ADMIN_KEY`. */
  key?: string;
  scopes: readonly Scope[];
  /** Present when the key sees and touches only what belongs to this tenant. */
  tenant?: string;
  /** Epoch ms; present when the key ends by itself. */
  expiresAt?: number;
}>;

/** The principal of a bearer token, or undefined when it belongs to nobody. */
export type Authenticate = (services: Services, token: string) => Promise<Principal | undefined>;

/** The same for each of these, so that an answer tells nobody which keys exist. */
const NOT_VALID = "The key is not valid: it is unknown, revoked or expired";

/** Lets nobody pass without a valid key (RFC 6750). */
export function authenticated(authenticate: Authenticate): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    const given = c.req.header("authorization");
    if (given === undefined) return unauthorized(`Authorization is missing; ${EXPECTED}`, "Bearer");
    const token = /^Bearer +([^\s]+) *$/i.exec(given)?.[1];
    if (token === undefined) {
      const detail = `Authorization has ${shapeFault(given)}; ${EXPECTED}`;
      return unauthorized(detail, 'Bearer error="invalid_request"');
    }
    const principal = await authenticate(c.get("services"), token);
    if (principal === undefined) return unauthorized(NOT_VALID, 'Bearer error="invalid_token"');
    c.set("principal", principal);
    await next();
    return;
  };
}

const EXPECTED = "expected Bearer and a key";

/** Schemes that are repeated when they are given; any other first word may be a part of somebody's key. */
const KNOWN_SCHEMES = ["Basic", "Digest", "Token", "ApiKey", "Negotiate"];

/** What is wrong with a header that is no bearer token. Nothing of it is repeated that may be secret. */
function shapeFault(given: string): string {
  const [scheme = "", ...rest] = given.trim().split(/\s+/);
  if (/^bearer$/i.test(scheme))
    return rest.length === 0 ? "no key after Bearer" : "more than a key after Bearer";
  if (rest.length === 0) return "no scheme before the key";
  const known = KNOWN_SCHEMES.find((name) => name.toLowerCase() === scheme.toLowerCase());
  return known ? `the scheme ${known}` : "a scheme that is not Bearer";
}

function unauthorized(detail: string, challenge: string) {
  return problem(401, detail, undefined, { "www-authenticate": challenge });
}

/** Why a principal may not hand on these scopes; undefined when it has them all: nobody gives what is not theirs. */
export function refuseScopes({ scopes: own }: Principal, wanted: readonly Scope[], field: string) {
  const lacking = wanted.filter((scope) => !own.includes(scope)).join(", ");
  if (lacking === "") return undefined;
  const fault = `asks for ${lacking}, which the key itself lacks`;
  const expected = `no more than ${own.join(", ")}`;
  return problem(403, `${field} ${fault}; expected ${expected}`, [{ field, fault, expected }]);
}

const required = new WeakMap<object, Scope>();

/** Lets a principal pass that has the scope. */
export function requires(scope: Scope): MiddlewareHandler<ApiEnv> {
  const middleware: MiddlewareHandler<ApiEnv> = async (c, next) => {
    if (!c.get("principal").scopes.includes(scope)) return problem(403, `The key lacks the scope ${scope}`);
    await next();
    return;
  };
  required.set(middleware, scope);
  return middleware;
}

/** The scope that a handler requires, so that the API's description says what is enforced. */
export function scopeOf(handler: object): Scope | undefined {
  return required.get(handler);
}

/**
 * The tenant that a request may post or create for: the one it names, unless the key is bound to another. For
 * the reserved tenant that is the operator's business alone: an admin's whose key is bound to none.
 */
export function tenantFor(principal: Principal, named: string | undefined): string | undefined {
  const tenant = named ?? principal.tenant ?? "default";
  const isOperator = principal.tenant === undefined && principal.scopes.includes("admin");
  if (tenant === OPERATOR) return isOperator ? tenant : undefined;
  return principal.tenant === undefined || principal.tenant === tenant ? tenant : undefined;
}

/** What is said where there is no such tenant. */
export const NOT_YOUR_TENANT =
  "The key belongs to another tenant, or the tenant is reserved for the operator";
