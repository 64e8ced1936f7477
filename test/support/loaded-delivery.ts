/** Deliveries as the delivery path loads them, without a database: for tests in Node of the decisions about them. */

import { getTableColumns } from "drizzle-orm";
import type { LoadedDelivery } from "../../src/store/deliveries.ts";
import type { DeliveryRow } from "../../src/store/delivery.ts";
import type { Destination } from "../../src/store/destination.ts";
import { destinations } from "../../src/store/destination.ts";
import { START } from "./clock.ts";

export const DESTINATION = "dst_00000000000000000001";

type Given = Readonly<{
  event?: Partial<LoadedDelivery["event"]>;
  destination?: Partial<Destination>;
  /** Columns of the stored row; without them, there is no row. */
  row?: Partial<DeliveryRow>;
}>;

/** A delivery of the first event of the first bundle, accepted at `START`, without any outcome yet. */
export function loadedDelivery({ event, destination, row }: Given = {}): LoadedDelivery {
  const loaded = {
    event: {
      ...{ id: 128, tenant: "acme", type: "order.paid", acceptedAt: START, deliverAt: null },
      body: new TextEncoder().encode("{}") as Uint8Array<ArrayBuffer>,
      ...event,
    },
    destination: storedDestination(destination),
    row: undefined,
  };
  return row ? { ...loaded, row: storedRow(loaded, row) } : loaded;
}

/** A destination with the defaults of its columns. */
export function storedDestination(columns: Partial<Destination> = {}): Destination {
  const id = columns.id ?? DESTINATION;
  const defaults = Object.entries(getTableColumns(destinations)).map(([name, column]) => [
    name,
    typeof column.default === "object" ? [] : (column.default ?? null),
  ]);
  const own = { id, tenant: "acme", url: `https://${id.slice(4)}.example/hook`, secret: "whsec_of_no_use" };
  return { ...Object.fromEntries(defaults), ...own, createdAt: START, updatedAt: START, ...columns };
}

function storedRow(
  { event, destination }: Omit<LoadedDelivery, "row">,
  row: Partial<DeliveryRow>,
): DeliveryRow {
  return {
    ...{
      destinationId: destination.id,
      eventId: event.id,
      state: "retrying",
      reason: "http_500",
      attempts: 1,
    },
    ...{ nextAttemptAt: START + 30_000, generation: 0, firstAttemptAt: START, giveUpAt: START + 86_400_000 },
    ...{ endedAt: null, lastStatus: 500, lastError: "http_500", replay: null, log: [] },
    ...row,
  };
}
