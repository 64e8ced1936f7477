/** Requeues an ended delivery, as its row says. */

import type { DeliveryKey } from "../../src/core/bundle.ts";
import type { Databases } from "../../src/store/databases.ts";
import type { DeliveryRow } from "../../src/store/delivery.ts";
import { requeueEnded } from "../../src/store/requeue.ts";

/** @returns undefined if it had not ended, or no longer */
export async function requeueOne(
  databases: Databases,
  delivery: DeliveryKey & Partial<Pick<DeliveryRow, "lastStatus" | "log">>,
  giveUpAt: number,
): Promise<DeliveryRow | undefined> {
  const { destinationId, eventId, lastStatus = null, log = [] } = delivery;
  const [row] = await requeueEnded(databases, [{ destinationId, eventId, lastStatus, log, giveUpAt }]);
  return row;
}
