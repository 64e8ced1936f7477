/**
 * What a request holds while it is handled: the services it may use and the principal that makes it. Route files
 * register themselves on an `Api`; they never see `env`.
 */
import type { OpenAPIHono } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { PortalAccess } from "../core/portal-access.ts";
import type { Scope } from "../core/scopes.ts";
import type { NewAuditEntry } from "../features/audit/sql.ts";
import type { Services } from "../services.ts";

export type ApiEnv = {
  Bindings: Env;
  Variables: {
    services: Services;
    /** Set on every route under /v1 but /v1/health. */
    principal: Principal;
    /** The size of the request body, where a route takes one. */
    bodyBytes: number;
    /** What the request has changed: the entries of the audit trail. */
    changes: readonly NewAuditEntry[] | undefined;
    /** The line number of each event of a batch, where the body is NDJSON. */
    lines: readonly number[] | undefined;
  };
};

export type Api = OpenAPIHono<ApiEnv>;
export type ApiContext = Context<ApiEnv>;

export type Principal = Readonly<{
  /**
   * What its rate is counted by: the API key's id, or the tenant of service bindings; absent for what is the operator's
   * own, which is not limited: `ADMIN_KEY`, and a binding without a tenant.
   */
  key?: string;
  /** Present where it is not a request with a key. */
  via?: "binding" | "queue";
  scopes: readonly Scope[];
  /** Present when the key is bound to this tenant: it sees and changes nothing of another. */
  tenant?: string;
  /** Epoch ms; present when the key expires. */
  expiresAt?: number;
  /** Present for a visitor of the portal: what it may do, and up to which limits, whatever its scopes are. */
  visit?: PortalAccess;
  /** The session that the request is made in, at the dashboard or the portal. */
  session?: Readonly<{ at: "dashboard" | "portal"; id: string }>;
}>;

/** What a problem calls the principal. */
export function callerOf({ via, visit }: Principal): string {
  return `The ${visit ? "visit" : (via ?? "key")}`;
}
