/** Deliveries written straight into a database, in rows and in packs, for tests of what is read from them. */
import { drizzle } from "drizzle-orm/d1";
import { bundleOf, indexOf } from "../../src/core/bundle.ts";
import { endsText, maskOf } from "../../src/core/pack.ts";
import { WITHOUT_ATTEMPT } from "../../src/db/packs.ts";
import { type DeliveryKey, type DeliveryRow, deliveries, packs } from "../../src/db/schema.ts";

/** A delivery in a row of its own; by default it is dead. */
export function deliveryRow(columns: DeliveryKey & Partial<DeliveryRow>): DeliveryRow {
  return { ...WITHOUT_ATTEMPT, state: "dead", giveUpAt: 0, ...columns };
}

export async function insertDeliveries(
  db: D1Database,
  rows: readonly (DeliveryKey & Partial<DeliveryRow>)[],
): Promise<void> {
  const statements = rows.map((row) => drizzle(db).insert(deliveries).values(deliveryRow(row)));
  const [first, ...others] = statements;
  if (first) await drizzle(db).batch([first, ...others]);
}

type Packed = DeliveryKey & Readonly<{ state: "waiting" | "inFlight" | "delivered" | "cancelled" }>;

type Columns = Readonly<{
  /** When those that have ended did; the attempts of delivered ones took no time. */
  endedAt?: number;
  /** What the receivers of delivered ones answered. */
  status?: number;
  /** Why those that wait do. */
  reason?: DeliveryRow["reason"];
  recoverAt?: number;
}>;

/** Stores deliveries as bits, all those of a bundle for a destination in one pack. */
export async function insertPacks(
  db: D1Database,
  deliveries: readonly Packed[],
  { endedAt = 1, status = 200, reason = "circuit_open", recoverAt = 1 }: Columns = {},
): Promise<void> {
  const groups = Map.groupBy(
    deliveries,
    ({ eventId, destinationId }) => `${bundleOf(eventId)} ${destinationId}`,
  );
  const statements = [...groups.values()].map((group) => {
    const of = (state: Packed["state"]) =>
      group.filter((one) => one.state === state).map(({ eventId }) => indexOf(eventId));
    const halves = (["waiting", "inFlight", "delivered", "cancelled"] as const).flatMap((state) => {
      const [low, high] = maskOf(of(state));
      return [
        [`${state}0`, low],
        [`${state}1`, high],
      ] as const;
    });
    const ends = [
      ...of("delivered").map((index) => ({ index, at: endedAt, latencyMs: 0, status })),
      ...of("cancelled").map((index) => ({ index, at: endedAt, latencyMs: 0, status: undefined })),
    ];
    return drizzle(db)
      .insert(packs)
      .values({
        destinationId: group[0]?.destinationId ?? "",
        bundleId: bundleOf(group[0]?.eventId ?? 0),
        ...Object.fromEntries(halves),
        reason: of("waiting").length > 0 ? reason : null,
        recoverAt: of("inFlight").length > 0 ? recoverAt : null,
        endedAt: ends.length > 0 ? endedAt : null,
        ends: endsText(ends),
      });
  });
  const [first, ...others] = statements;
  if (first) await drizzle(db).batch([first, ...others]);
}
