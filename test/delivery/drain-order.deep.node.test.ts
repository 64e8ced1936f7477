/** The order of a backlog: no delivery starves, whatever is posted meanwhile. */
import { describe, expect, it } from "vitest";
import { type VirtualWorld, virtualWorld } from "../support/virtual-world.ts";

const MINUTE = 60_000;

/** Forty that wait and have been attempted once, beside as many new ones as the rate allows. */
async function fortyBesideTraffic(
  attempts: number,
): Promise<{ world: VirtualWorld; delivered: () => number }> {
  const world = virtualWorld({ seed: 11, travel: { twice: 0, late: 0 } });
  const shop = world.destination({ ratePerSecond: 5, rateBurst: 5, status: "paused" });
  void world.post(40);
  await world.run(MINUTE);
  const old = world.rows(shop).map(({ eventId }) => eventId);
  expect(old).toHaveLength(40);
  if (attempts > 0)
    for (const { destinationId, eventId, giveUpAt } of world.rows(shop))
      world.sql(
        `INSERT INTO deliveries (destination_id, event_id, state, reason, attempts, give_up_at)
         VALUES (?1, ?2, 'waiting', 'paused', ?3, ?4)`,
        ...[destinationId, eventId, attempts, giveUpAt],
      );
  void world.resume(shop);
  world.postSteadily(5, 10 * MINUTE);
  const isOld = new Set(old);
  const isDone = ({ eventId, state }: { eventId: number; state: string }) =>
    isOld.has(eventId) && state === "delivered";
  return { world, delivered: () => world.rows(shop).filter(isDone).length };
}

describe("forty waiting deliveries, beside as many new ones as the rate allows", () => {
  it.each([
    ["have failed once", 1],
    ["have never been attempted", 0],
  ])("are all delivered within three minutes when they %s", async (_, attempts) => {
    const { world, delivered } = await fortyBesideTraffic(attempts);
    await world.run(3 * MINUTE);
    expect(delivered()).toBe(40);
  });
});
