/** What a page of a list of deliveries costs: round trips, and rows of what is in it alone. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test } from "vitest";
import { eventAt } from "../../src/core/bundle.ts";
import { storedDeliveries } from "../../src/db/delivery-list.ts";
import type { StoredState } from "../../src/db/schema.ts";
import { insertBundles } from "../support/bundle-rows.ts";
import { emptyDatabase } from "../support/databases.ts";
import { insertDeliveries, insertPacks } from "../support/delivery-rows.ts";
import { meteredD1 } from "../support/meter.ts";
import { newDestination, TENANT } from "../support/world.ts";

const over = { dueBy: 1, endedBy: 1, now: 1, first: env.DB };
const [BEFORE, OWN, AFTER] = ["dst_1", "dst_2", "dst_3"] as const;

beforeEach(async () => {
  await emptyDatabase();
  for (const id of [BEFORE, OWN, AFTER])
    await newDestination({ id, tenant: id === OWN ? TENANT : "foreign" });
});

describe("a page", () => {
  const events = Array.from({ length: 30 }, (_, i) => eventAt(i + 1, 0));

  /** Rows of own and foreign destinations, and packs, a minute after one another. */
  async function storeMany() {
    await insertBundles(
      env.DB,
      events.map((_, i) => ({ acceptedAt: i * 60_000, events: [{}, {}] })),
    );
    for (const destinationId of [BEFORE, OWN, AFTER]) {
      await insertDeliveries(
        env.DB,
        events.map((eventId, i) => ({ destinationId, eventId, state: i % 2 ? "dead" : "waiting" })),
      );
      await insertPacks(
        env.DB,
        events.map((eventId) => ({ destinationId, eventId: eventId + 1, state: "delivered" })),
      );
    }
  }

  test.each<[string, StoredState | undefined, object, number]>([
    ["looks at rows and packs", undefined, {}, 2],
    ["of what is dead looks at rows alone", "dead", {}, 1],
    ["of what is retrying also counts that", "retrying", {}, 3],
    ["of a destination looks for no other", undefined, { destinationId: "dst_x" }, 2],
    ["of a tenant looks for its destinations", undefined, { tenant: TENANT }, 3],
    [
      "of a tenant's destination looks for whose it is",
      undefined,
      { tenant: TENANT, destinationId: "dst_x" },
      3,
    ],
    ["of a tenant without destinations looks at nothing else", undefined, { tenant: "nobody" }, 1],
    ["of a time looks for the ids of its limits", "dead", { accepted: { since: 1, until: 2 } }, 3],
    ["that hides what is over looks at nothing else where nothing has ended", "waiting", { over }, 2],
  ])("%s", async (_, state, filter, roundTrips) => {
    await insertDeliveries(env.DB, [{ destinationId: OWN, eventId: eventAt(1, 0), state: "waiting" }]);
    const d1 = meteredD1(env.DB);
    await storedDeliveries({ db: d1.db }, state, { limit: 9, ...filter });
    expect(d1.used().roundTrips).toBe(roundTrips);
  });

  test.each<[string, StoredState | undefined, object, number]>([
    ["a tenant", undefined, { tenant: TENANT }, 200],
    ["a state of a tenant", "dead", { tenant: TENANT }, 30],
    ["a time of a tenant", undefined, { tenant: TENANT, accepted: { since: 27 * 60_000 } }, 90],
    ["a time before of a tenant", undefined, { tenant: TENANT, accepted: { until: 2 * 60_000 } }, 80],
  ])("of %s reads only what is in it", async (_, state, filter, rows) => {
    await storeMany();
    const d1 = meteredD1(env.DB);
    const { found } = await storedDeliveries({ db: d1.db }, state, { limit: 4, ...filter });
    expect(found).toHaveLength(4);
    expect(new Set(found.map(({ destinationId }) => destinationId))).toEqual(new Set([OWN]));
    expect(d1.used().rowsRead).toBeLessThan(rows);
  });
});
