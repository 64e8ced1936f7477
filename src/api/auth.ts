/**
 * Who is asking, and what may they do. Routes name the scope they need and take the tenant from the
 * principal; where principals come from is decided here alone, today from the one key `ADMIN_KEY`.
 */
import type { MiddlewareHandler } from "hono";
import type { Services } from "../services.ts";
import type { ApiEnv } from "./context.ts";
import { problem } from "./problems.ts";

export const scopes = ["events:write", "read", "admin"] as const;

export type Scope = (typeof scopes)[number];

export type Principal = Readonly<{
  scopes: readonly Scope[];
  /** Present when the key sees and touches only what belongs to this tenant. */
  tenant?: string;
}>;

/** The principal of a bearer token, or undefined when it belongs to nobody. */
export type Authenticate = (services: Services, token: string) => Promise<Principal | undefined>;

export const byAdminKey: Authenticate = async ({ config }, token) =>
  (await isSame(token, config.adminKey)) ? { scopes } : undefined;

/** Compares digests, which are of one length, in constant time: the time taken tells nothing of the key. */
async function isSame(a: string, b: string): Promise<boolean> {
  const [left, right] = await Promise.all([digest(a), digest(b)]);
  return crypto.subtle.timingSafeEqual(left, right);
}

function digest(text: string): Promise<ArrayBuffer> {
  return crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
}

/** Lets nobody pass without a valid key (RFC 6750). */
export function authenticated(authenticate: Authenticate): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    const token = /^Bearer +([^\s]+) *$/i.exec(c.req.header("authorization") ?? "")?.[1];
    if (token === undefined) return unauthorized("Authorization: Bearer … is missing", "Bearer");
    const principal = await authenticate(c.get("services"), token);
    if (principal === undefined) return unauthorized("The key is not valid", 'Bearer error="invalid_token"');
    c.set("principal", principal);
    await next();
    return;
  };
}

function unauthorized(detail: string, challenge: string) {
  return problem(401, detail, undefined, { "www-authenticate": challenge });
}

/** Lets a principal pass that has the scope. */
export function requires(scope: Scope): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    if (!c.get("principal").scopes.includes(scope)) return problem(403, `The key lacks the scope ${scope}`);
    await next();
    return;
  };
}

/** The tenant that a request may act for: the one it names, unless the key is bound to another. */
export function tenantFor(principal: Principal, named: string | undefined): string | undefined {
  const tenant = named ?? principal.tenant ?? "default";
  return principal.tenant === undefined || principal.tenant === tenant ? tenant : undefined;
}
