/**
 * What the portal does for its visitors: every call of the API goes through here, and names the action that it is, so that
 * none is made that the visitor may not do. Forms are refused before that, by `may`, with a page that says why.
 */
import type { MiddlewareHandler } from "hono/types";
import { type ApiResult, internalClient } from "../api/internal-client.ts";
import { allows, type PortalAction } from "../core/portal-access.ts";
import { showRefusal } from "./layout.tsx";
import type { PortalContext, PortalEnv } from "./session.ts";

type Call = Readonly<{
  method: string;
  path: string;
  body?: unknown;
  /** The form's Idempotency-Key. */
  key?: string | undefined;
}>;

export type CallApi = (c: PortalContext, action: PortalAction, call: Call) => Promise<ApiResult>;

export function callApiAs(services: Parameters<typeof internalClient>[0]): CallApi {
  const call = internalClient(services);
  return async (c, action, { method, path, body, key }) => {
    const { access, principal } = c.get("visitor");
    if (!allows(access, action)) return { ok: false, status: 403, detail: "", errors: [] };
    return call(c, principal, method, path, body, key);
  };
}

/** Middleware: a page that says what the visitor may not do, where it may not. */
export function may(action: PortalAction): MiddlewareHandler<PortalEnv> {
  return async (c, next) => {
    const { access } = c.get("visitor");
    if (!allows(access, action)) {
      const id = c.req.param("id");
      const back = id?.startsWith("dst_") ? `/portal/endpoints/${id}` : "/portal";
      return showRefusal(c, c.get("look").t.refusals[action], back, 403);
    }
    await next();
    return;
  };
}
