/** The kit's pages as the portal has them: in the visitor's language, with its addresses and the visitor's rights. */
import { allows } from "../../core/portal-access.ts";
import { refuseWithout } from "../../core/principal.ts";
import { kindNameOf } from "../../delivery/kinds/sending.ts";
import type { PortalVisitor } from "../../features/portal-links/visits.ts";
import type { Services } from "../../services.ts";
import type { PortalView } from "./look.ts";
import type { PortalContext } from "./session.ts";
import { portalDeliveryText, portalReplayText, portalResultText, reasonText } from "./state-text.ts";

/** How pages are shown to the visitor, or without a visitor if there is none, or if the services have failed. */
export function portalView(c: PortalContext): PortalView {
  const look = c.get("look");
  const visitor = c.get("visitor") as PortalVisitor | undefined;
  const now = (c.get("services") as Services | undefined)?.now() ?? 0;
  return {
    ...look,
    now,
    mayCall: ({ permission }) =>
      visitor !== undefined && refuseWithout(permission, visitor.principal) === undefined,
    may: (action) => visitor !== undefined && allows(visitor.access, action),
    showsTarget: ({ url }) => kindNameOf(url) === "https",
    destinationAt: (id) => `/portal/endpoints/${id}`,
    deliveryAt: ({ id }) => `/portal/deliveries/${id}`,
    eventAt: (_, delivery) => delivery && `/portal/deliveries/${delivery}`,
    actionAt: (id) => `/portal/actions/${id}`,
    actionsAt: ["/portal/agent", look.t.agent.title],
    toolText: (tool) => (look.t.actions.tools as Readonly<Record<string, string>>)[tool] ?? tool,
    causeText: (cause) => reasonText(look, cause),
    resultText: (attempt) => portalResultText(look, attempt),
    // A visitor learns about an author only whether it was a visitor of the portal.
    authorText: ({ kind }) => look.t.transform.authors[kind === "portal" ? "portal" : "sender"],
    replayText: (replay) => portalReplayText(look, replay),
    deliveryText: (delivery) => portalDeliveryText(look, delivery, now),
  };
}
