/** The destinations of deliveries that were found without them, or beyond the first database, which alone has them. */
import type { FoundDelivery } from "./deliveries-read.ts";
import type { Databases } from "./shards.ts";
import { destinationsByIds } from "./watched-destinations.ts";

/** The same deliveries with their destinations; not one call when all have theirs. */
export async function withDestinations(
  { db }: Databases,
  found: readonly FoundDelivery[],
): Promise<readonly FoundDelivery[]> {
  const bare = found.filter(({ destination }) => destination === null);
  if (bare.length === 0) return found;
  const rows = await destinationsByIds(db, [...new Set(bare.map(({ destinationId }) => destinationId))]);
  const byId = new Map(rows.map((row) => [row.id, row]));
  return found.map((delivery) => ({
    ...delivery,
    destination: delivery.destination ?? byId.get(delivery.destinationId) ?? null,
  }));
}
