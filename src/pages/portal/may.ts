/** Which pages and forms of the portal a visitor may use. */
import type { MiddlewareHandler } from "hono/types";
import { allows, type PortalAction } from "../../core/portal-access.ts";
import { showPortalRefusal } from "./layout.tsx";
import type { PortalEnv } from "./session.ts";

/** Middleware: a page that says what the visitor may not do, where it may not. */
export function may(action: PortalAction): MiddlewareHandler<PortalEnv> {
  return async (c, next) => {
    const { access } = c.get("visitor");
    if (!allows(access, action)) {
      const id = c.req.param("id");
      const back = id?.startsWith("dst_") ? `/portal/endpoints/${id}` : "/portal";
      return showPortalRefusal(c, c.get("look").t.refusals[action], back, 403);
    }
    await next();
    return;
  };
}
