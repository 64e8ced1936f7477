/** The portal, for the pages that it shares with the dashboard, and which of its pages and forms a visitor may use. */
import type { MiddlewareHandler } from "hono/types";
import { allows, type PortalAction } from "../../core/portal-access.ts";
import { getDestination } from "../../features/destinations/service.ts";
import { statusOfRefused } from "../ui/services.ts";
import type { Surface } from "../ui/surface.ts";
import { showPortalNotFound, showPortalPage, showPortalRefusal, showRefused } from "./layout.tsx";
import { callerInPortal, type PortalEnv } from "./session.ts";
import { portalView } from "./view.ts";

export const portalSurface: Surface<PortalEnv> = {
  destinations: "/portal/endpoints",
  deliveries: "/portal/deliveries",
  actions: "/portal/actions",
  callerOf: callerInPortal,
  find: (c, id) => getDestination(callerInPortal(c), id),
  viewOf: portalView,
  may,
  showPage: (c, { title, refused }, content) =>
    showPortalPage(c, { title, place: "endpoints" }, content, refused ? statusOfRefused(refused) : 200),
  showMissing: showPortalNotFound,
  showRefused,
};

/** Middleware: a page about the missing right, if the visitor lacks one. */
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
