/**
 * Accepted means durable, on the whole stack as its own process: everything that `wrangler dev` had in
 * memory, all its queues among it, dies with it, and every accepted event arrives nevertheless.
 */
import { expect, test } from "vitest";
import type { ApiClient } from "../../src/local/stack.ts";
import { createDestination, preparePlace, receptionsOf } from "./place.ts";
import { missing } from "./tally.ts";
import { until } from "./until.ts";

const EVENTS = 500;
const PATH = "/orders";

test("delivers every accepted event after the stack was killed before it could", async () => {
  const place = await preparePlace(() => ({ status: 200, afterMs: 5 }));
  try {
    const first = await place.start();
    await createDestination(first.api, place.receiver, PATH);
    const accepted = await postOrders(first.api);
    await first.kill();
    const arrivedBefore = receptionsOf(place.receiver.hits).size;
    expect(arrivedBefore).toBeLessThan(EVENTS);

    await place.start();
    const left = () => missing(accepted, receptionsOf(place.receiver.hits), [PATH]);
    await until(() => left().length === 0, {
      withinMs: 120_000,
      otherwise: () => `${left().length} of ${EVENTS} have not arrived.\n${place.lastWords()}`,
    });
    expect(accepted).toHaveLength(EVENTS);
    expect(place.receiver.hits.filter(({ verified }) => !verified)).toEqual([]);
  } finally {
    await place.leave();
  }
});

type Batch = Readonly<{ events: readonly Readonly<{ id: string }>[] }>;

/** The ids of the accepted events. */
async function postOrders(api: ApiClient): Promise<string[]> {
  const events = Array.from({ length: EVENTS }, (_, n) => ({ type: "order.created", data: { order: n } }));
  const accepted = await api.post<Batch>("/v1/events/batch", { events });
  return accepted.events.map(({ id }) => id);
}
