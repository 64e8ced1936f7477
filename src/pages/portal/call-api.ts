/** What the portal does for its visitors: each change is a call of the API, which has the visit's rights and no more. */
import type { MiddlewareHandler } from "hono/types";
import { allows, type PortalAction } from "../../core/portal-access.ts";
import { type ApiResult, internalClient } from "../../http/internal-client.ts";
import type { ApiPath } from "../../http/internal-path.ts";
import { showRefusal } from "./layout.tsx";
import type { PortalContext, PortalEnv } from "./session.ts";

type Call = Readonly<{
  method: string;
  path: ApiPath;
  body?: unknown;
  /** The form's Idempotency-Key. */
  key?: string | undefined;
}>;

export type CallApi = (c: PortalContext, call: Call) => Promise<ApiResult>;

export function callApiAs(services: Parameters<typeof internalClient>[0]): CallApi {
  const call = internalClient(services);
  return (c, { method, path, body, key }) => call(c, c.get("visitor").principal, method, path, body, key);
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
