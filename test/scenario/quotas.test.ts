/** The development server under production's quotas: what goes beyond one fails, and is said aloud. */
import { expect, test } from "vitest";
import { stopStack } from "../../src/local/stack.ts";
import { prepareThrowaway, THROWAWAY_KEY } from "../../src/local/throwaway.ts";

/** An authenticated request that reads the database a few times. */
async function askTwice(quotas: { d1Queries?: number }) {
  const throwaway = await prepareThrowaway({}, { latency: 1, quotas });
  const stack = await throwaway.start();
  try {
    const headers = { authorization: `Bearer ${THROWAWAY_KEY}`, "content-type": "application/json" };
    const body = JSON.stringify({ type: "order.created", data: {} });
    const post = () => fetch(`${stack.url}/v1/events`, { method: "POST", headers, body });
    const statuses = [(await post()).status, (await post()).status];
    return { statuses, said: throwaway.said() };
  } finally {
    await stopStack(stack);
    throwaway.discard();
  }
}

test("a request within the quotas is answered, and nothing is said of them", async () => {
  const { statuses, said } = await askTwice({});
  expect(statuses).toEqual([202, 202]);
  expect(said).not.toContain("QUOTA BREACH");
});

test("a statement too many fails its request, and the terminal says so; the account is each request's own", async () => {
  const { statuses, said } = await askTwice({ d1Queries: 0 });
  expect(statuses.every((status) => status >= 500)).toBe(true);
  expect(
    said.match(/!!! QUOTA BREACH: d1Queries: 1 asked for, 0 granted; at /g)?.length,
  ).toBeGreaterThanOrEqual(2);
});
