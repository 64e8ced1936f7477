/** The dashboard, for the pages that it shares with the portal. */
import { getDestination, updateDestination } from "../../features/destinations/service.ts";
import type { Surface } from "../ui/surface.ts";
import { showNotFound, showPage, showReadOnly, showRefusal } from "./components/layout.tsx";
import { callerOnPage, callerWithinTenant, type DashboardEnv, mayCall } from "./session.ts";
import { viewFor } from "./view.tsx";

export const dashboardSurface: Surface<DashboardEnv> = {
  destinations: "/dashboard/destinations",
  deliveries: "/dashboard/deliveries",
  callerOf: callerOnPage,
  find: (c, id) => getDestination(callerWithinTenant(c), id),
  viewOf: viewFor,
  may: (action) => async (c, next) => {
    if (action === "change_endpoint" && !mayCall(c, updateDestination)) return showReadOnly(c);
    await next();
    return;
  },
  showPage,
  showMissing: showNotFound,
  showRefused: showRefusal,
};
