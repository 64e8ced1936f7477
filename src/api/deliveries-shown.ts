/**
 * Deliveries with what their gates say at this moment. A gate is asked once for all the deliveries of its
 * destination on a page, and only when one of them waits. Of an event with more destinations than gates are
 * asked, the rest is shown with what was said when it was turned away.
 */
import { refusalAtGate } from "../gate/gate-client.ts";
import type { Services } from "../services.ts";
import type { FoundDelivery } from "../store/deliveries-read.ts";
import { type Destination, gateSettingsOf } from "../store/destination-settings.ts";
import type { DeliveryJson } from "./delivery-schema.ts";
import { deliveryView, type Outlook } from "./delivery-view.ts";

/** As many as a page of a list has deliveries. */
const GATES_ASKED = 100;

export async function showDeliveries(
  services: Services,
  found: readonly FoundDelivery[],
): Promise<DeliveryJson[]> {
  const outlooks = await outlooksOf(services, waitedFor(found).slice(0, GATES_ASKED));
  const now = services.now();
  return found.map((delivery) => deliveryView(delivery, now, outlooks.get(delivery.destinationId)));
}

/** The destinations that something on the page waits for, each once. */
function waitedFor(found: readonly FoundDelivery[]): Destination[] {
  const waiting = found.flatMap((delivery) =>
    delivery.kind === "stored" && delivery.row.state === "waiting" && delivery.destination
      ? [[delivery.destinationId, delivery.destination] as const]
      : [],
  );
  return [...new Map(waiting).values()];
}

async function outlooksOf(
  services: Services,
  destinations: readonly Destination[],
): Promise<Map<string, Outlook>> {
  const looks = destinations.map(async (row) => {
    const outlook = await refusalAtGate(services, row.id, gateSettingsOf(row));
    return outlook ? ([[row.id, outlook]] as const) : [];
  });
  return new Map((await Promise.all(looks)).flat());
}
