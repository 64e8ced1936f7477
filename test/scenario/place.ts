/**
 * Where the scenarios play: a stack that can be killed and started again on the same state, one
 * destination, and a receiver that outlives every kill. What the receiver has seen is what was delivered.
 */
import { type ApiClient, apiClient } from "../../src/local/api-client.ts";
import { keepFiring } from "../../src/local/cron.ts";
import { type Hit, type Receiver, startReceiver } from "../../src/local/receiver.ts";
import { killStack, type Stack } from "../../src/local/stack.ts";
import { prepareThrowaway, THROWAWAY_KEY } from "../../src/local/throwaway.ts";

/** What production waits for minutes takes seconds here. */
const GRACE_SECONDS = "2";
const CRON_MS = 2_000;
/** Short, because the leases of a killed worker live as long as an attempt may take. */
const TIMEOUT_MS = 1_000;

export type Place = Readonly<{
  receiver: Receiver;
  /** Starts the stack on the state that the last one left; resolves when it has answered. */
  start: () => Promise<Running>;
  lastWords: () => string;
  /** Ends whatever runs here and removes what it left. */
  leave: () => Promise<void>;
}>;

export type Running = Readonly<{ api: ApiClient; kill: () => Promise<void> }>;

/** @param afterMs how long the receiver takes to answer */
export async function preparePlace(afterMs: number): Promise<Place> {
  const receiver = await startReceiver(() => ({ status: 200, afterMs }));
  const throwaway = await prepareThrowaway({ GRACE_SECONDS });
  let running: Running | undefined;
  return {
    receiver,
    start: async () => {
      const stack = await throwaway.start();
      running = run(stack);
      await running.api.get("/v1/health");
      return running;
    },
    lastWords: throwaway.lastWords,
    leave: async () => {
      await running?.kill();
      receiver.close();
      throwaway.discard();
    },
  };
}

function run(stack: Stack): Running {
  const stopFiring = keepFiring(stack.url, { everyMs: CRON_MS });
  const kill = async () => {
    stopFiring();
    await killStack(stack);
  };
  return { api: apiClient(stack.url, THROWAWAY_KEY), kill };
}

/** The one destination; its retries come soon, so that a scenario does not wait for a schedule. */
export async function createDestination(api: ApiClient, { url, secrets }: Receiver): Promise<void> {
  const { secret } = await api.post<{ secret: string }>("/v1/destinations", {
    url: `${url}/orders`,
    timeout_ms: TIMEOUT_MS,
    rate_per_second: 1000,
    rate_burst: 1000,
    retry: { schedule: [1, 2, 4], jitter: "full", max_attempts: 100 },
    breaker: { cooldown_s: 1, max_cooldown_s: 2 },
  });
  secrets.set("/orders", secret);
}

/** Requests that the receiver has answered with success, by event. */
export function deliveriesOf(hits: readonly Hit[]): Map<string, Hit[]> {
  return Map.groupBy(
    hits.filter(({ status, verified }) => status === 200 && verified),
    ({ id }) => id,
  );
}
