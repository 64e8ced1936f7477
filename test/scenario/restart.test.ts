/**
 * Accepted means durable, on the whole stack as its own process: everything that `wrangler dev` had in
 * memory, its queues included, dies with it, and every accepted event arrives nevertheless.
 */
import { expect, test } from "vitest";
import type { ApiClient } from "../../tools/stack.ts";
import { missing } from "./kill-report.ts";
import { createDestination, prepareTestStack, receptionsOf } from "./test-stack.ts";
import { until } from "./until.ts";

const EVENTS = 500;
const PATH = "/orders";

test("every accepted event is delivered after the stack was killed before it could", async () => {
  const testStack = await prepareTestStack(() => ({ status: 200, afterMs: 5 }));
  try {
    const first = await testStack.start();
    await createDestination(first.api, testStack.receiver, PATH);
    const accepted = await postOrders(first.api);
    await first.kill();
    const arrivedBefore = receptionsOf(testStack.receiver.hits).size;
    expect(arrivedBefore).toBeLessThan(EVENTS);

    await testStack.start();
    const left = () => missing(accepted, receptionsOf(testStack.receiver.hits), [PATH]);
    await until(() => left().length === 0, {
      otherwise: () => `${left().length} of ${EVENTS} have not arrived.\n${testStack.lastLines()}`,
    });
    expect(accepted).toHaveLength(EVENTS);
    expect(testStack.receiver.hits.filter(({ verified }) => !verified)).toEqual([]);
  } finally {
    await testStack.leave();
  }
});

type Batch = Readonly<{ events: readonly Readonly<{ id: string }>[] }>;

/** The ids of the accepted events. */
async function postOrders(api: ApiClient): Promise<string[]> {
  const events = Array.from({ length: EVENTS }, (_, n) => ({ type: "order.created", data: { order: n } }));
  const accepted = await api.post<Batch>("/v1/events/batch", { events });
  return accepted.events.map(({ id }) => id);
}
