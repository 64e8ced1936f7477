/** The portal, for the pages that it shares with the dashboard. */
import { getDestination } from "../../features/destinations/service.ts";
import { statusOfRefused } from "../ui/services.ts";
import type { Surface } from "../ui/surface.ts";
import { showPortalNotFound, showPortalPage, showRefused } from "./layout.tsx";
import { may } from "./may.ts";
import { callerInPortal, type PortalEnv } from "./session.ts";
import { portalView } from "./view.ts";

export const portalSurface: Surface<PortalEnv> = {
  destinations: "/portal/endpoints",
  deliveries: "/portal/deliveries",
  callerOf: callerInPortal,
  find: (c, id) => getDestination(callerInPortal(c), id),
  viewOf: portalView,
  may,
  showPage: (c, { title, refused }, content) =>
    showPortalPage(c, { title, place: "endpoints" }, content, refused ? statusOfRefused(refused) : 200),
  showMissing: showPortalNotFound,
  showRefused,
};
