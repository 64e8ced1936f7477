/** The development server under production's quotas: a breach fails, and is printed. */
import { expect, test } from "vitest";
import { stopStack } from "../../tools/stack.ts";
import { prepareThrowaway, THROWAWAY_KEY } from "../../tools/throwaway.ts";

/** Authenticated requests, each of which reads and writes the database a few times. */
async function postEvents(times: number, quotas: { d1Queries?: number }) {
  const throwaway = await prepareThrowaway({}, { latency: 1, quotas });
  const stack = await throwaway.start();
  try {
    const headers = { authorization: `Bearer ${THROWAWAY_KEY}`, "content-type": "application/json" };
    const body = JSON.stringify({ type: "order.created", data: {} });
    const post = () => fetch(`${stack.url}/v1/events`, { method: "POST", headers, body });
    const statuses: number[] = [];
    while (statuses.length < times) statuses.push((await post()).status);
    return { statuses, output: throwaway.output() };
  } finally {
    await stopStack(stack);
    throwaway.discard();
  }
}

test("requests within the quotas are answered without a message: each request is counted separately", async () => {
  // Ten together would exceed it, also in the object that commits for all of them.
  const { statuses, output } = await postEvents(10, { d1Queries: 20 });
  expect(statuses).toEqual(Array(10).fill(202));
  expect(output).not.toContain("QUOTA BREACH");
});

test("one statement too many fails its request, and a line is printed", async () => {
  const { statuses, output } = await postEvents(2, { d1Queries: 0 });
  expect(statuses.every((status) => status >= 500)).toBe(true);
  expect(
    output.match(/!!! QUOTA BREACH: d1Queries: \d+ used, 0 allowed; at /g)?.length,
  ).toBeGreaterThanOrEqual(2);
});
