/**
 * Stores deliveries as rows of the schema or as bits with their ends, for tests that compare what is read with
 * everything that is stored. stored-deliveries.ts is for tests that need only a few columns.
 */

import { getTableColumns } from "drizzle-orm";
import { bundleOf, type DeliveryKey, indexOf } from "../../src/core/bundle.ts";
import { endsText } from "../../src/core/pack.ts";
import { type DeliveryRow, type StoredRow, storedRow } from "../../src/store/delivery.ts";
import { WITHOUT_ATTEMPT } from "../../src/store/packs.ts";
import { deliveries } from "../../src/store/tables.ts";
import { insertPacks, insertRows } from "./stored-deliveries.ts";

/** A delivery as a row; by default it is dead. */
export function deliveryRow(columns: DeliveryKey & Partial<DeliveryRow>): DeliveryRow {
  return { ...WITHOUT_ATTEMPT, state: "dead", giveUpAt: 0, ...columns };
}

const names = Object.entries(getTableColumns(deliveries)).map(
  ([key, { name }]) => [key as keyof StoredRow, name] as const,
);

export async function storeDeliveries(
  db: D1Database,
  rows: readonly (DeliveryKey & Partial<DeliveryRow>)[],
): Promise<void> {
  const stored = rows
    .map((row) => storedRow(deliveryRow(row)))
    .map((row) => Object.fromEntries(names.map(([key, name]) => [name, row[key]])));
  await insertRows(db, "deliveries", stored);
}

type Packed = DeliveryKey & Readonly<{ state: "waiting" | "inFlight" | "delivered" | "cancelled" }>;

type Columns = Readonly<{
  /** When the ended deliveries ended; attempts of delivered ones took no time. */
  endedAt?: number;
  /** The receivers' status for delivered ones. */
  status?: number;
}>;

/** Stores deliveries as bits: all deliveries of a bundle to a destination in one pack. */
export async function storePacked(
  db: D1Database,
  deliveries: readonly Packed[],
  { endedAt = 1, status = 200 }: Columns = {},
): Promise<void> {
  const groups = Map.groupBy(
    deliveries,
    ({ eventId, destinationId }) => `${bundleOf(eventId)} ${destinationId}`,
  );
  const stored = [...groups.values()].map((group) => {
    const of = (state: Packed["state"]) =>
      group.filter((one) => one.state === state).map(({ eventId }) => indexOf(eventId));
    const [waiting, inFlight, delivered, cancelled] = [
      of("waiting"),
      of("inFlight"),
      of("delivered"),
      of("cancelled"),
    ];
    const ends = [
      ...delivered.map((index) => ({ index, at: endedAt, latencyMs: 0, status })),
      ...cancelled.map((index) => ({ index, at: endedAt, latencyMs: 0, status: undefined })),
    ];
    return {
      destination: group[0]?.destinationId ?? "",
      bundle: bundleOf(group[0]?.eventId ?? 0),
      ...{ waiting, inFlight, delivered, cancelled },
      reason: waiting.length > 0 ? "circuit_open" : null,
      recoverAt: inFlight.length > 0 ? 1 : null,
      giveUpAt: null,
      endedAt: ends.length > 0 ? endedAt : null,
      ends: endsText(ends),
    };
  });
  await insertPacks(db, stored);
}
