/** The context of components: the page's time, language, its visitor's rights, and the addresses of others. */
import { createContext, useContext } from "hono/jsx";
import type { PortalAction, PortalLanguage } from "../../core/portal-access.ts";
import type { Permission } from "../../core/principal.ts";
import type { DeliveryJson } from "../../features/deliveries/schema.ts";
import type { TransformVersions } from "../../features/destinations/transforms.ts";
import type { Destination } from "../../store/destination.ts";
import type { Replay } from "../../store/replays.ts";
import type { Formats } from "./format.ts";
import type { KitTexts } from "./kit-texts.ts";
import type { AttemptEnd, StateText } from "./status-text.ts";

export type PageView = Readonly<{
  now: number;
  language: PortalLanguage;
  f: Formats;
  t: KitTexts;
  /** Whether the visitor has the permission of the service, which refuses the call otherwise. */
  mayCall: (service: Readonly<{ permission: Permission }>) => boolean;
  /** Whether a visitor of the portal may do it. At the dashboard every visitor may do what the services allow. */
  may: (action: PortalAction) => boolean;
  /** Whether to show where requests go. */
  showsTarget: (row: Destination) => boolean;
  destinationAt: (id: string) => string;
  /** The page that has a delivery; `isExact`: at the delivery. */
  deliveryAt: (delivery: Pick<DeliveryJson, "id" | "event_id">, isExact?: boolean) => string;
  /** The page that shows an event, or its delivery; undefined where there is none. */
  eventAt: (event: string, delivery: string | undefined) => string | undefined;
  /** The page of an action that an agent has requested, and the one that lists them, with its title. */
  actionAt: (id: string) => string;
  actionsAt: readonly [href: string, title: string];
  /** The list of objects with a tag; absent if there is none. */
  tagAt?: (tenant: string, tag: string) => string;
  toolText: (tool: string) => string;
  causeText: (cause: string) => string;
  resultText: (attempt: AttemptEnd) => string;
  authorText: (author: TransformVersions["data"][number]["author"]) => string;
  replayText: (replay: Replay) => string;
  deliveryText: (delivery: DeliveryJson, acceptedAt: number) => StateText;
}>;

const view = createContext<PageView | undefined>(undefined);

export const PageProvider = view.Provider;

export function usePage(): PageView {
  const around = useContext(view);
  if (around === undefined) throw new Error("There is no page around this component");
  return around;
}
