/**
 * Where the scenarios play: a stack that can be killed and started again on the same state, destinations,
 * and a receiver that outlives every kill. What the receiver has seen is what was delivered.
 */

import { type Hit, type Receiver, type Reply, startReceiver } from "../../src/local/receiver.ts";
import { type ApiClient, apiClient, keepFiring, killStack, type Stack } from "../../src/local/stack.ts";
import { prepareThrowaway, THROWAWAY_KEY } from "../../src/local/throwaway.ts";
import { pieceIn, piecesOf, secretsIn } from "../support/secret-pieces.ts";

/**
 * What production waits for minutes takes seconds here; but longer than the calls of one delivery, each of which may
 * take a second: what is only slow must not count as lost.
 */
const GRACE_SECONDS = "8";
const CRON_MS = 2_000;
/** Short, because the leases of a killed worker live as long as an attempt may take. */
const TIMEOUT_MS = 1_000;

export type Place = Readonly<{
  receiver: Receiver;
  /** Starts the stack on the state that the last one left; resolves when it has answered. */
  start: () => Promise<Running>;
  lastWords: () => string;
  /** Ends whatever runs here and removes what it left, unless its output has told a secret. */
  leave: () => Promise<void>;
}>;

export type Running = Readonly<{ api: ApiClient; kill: () => Promise<void> }>;

/**
 * Production's quotas hold, and every call to D1, a gate or a queue takes time.
 * @param answer what the receiver says
 * @param seed of that time
 */
export async function preparePlace(answer: (hit: Hit) => Reply, seed = 1): Promise<Place> {
  const receiver = await startReceiver(answer);
  const throwaway = await prepareThrowaway({ GRACE_SECONDS }, { latency: seed });
  let running: Running | undefined;
  return {
    receiver,
    start: async () => {
      const stack = await throwaway.start();
      running = run(stack);
      await running.api.get("/v1/health");
      return running;
    },
    lastWords: throwaway.lastLines,
    leave: async () => {
      await running?.kill();
      receiver.close();
      const secrets = [...receiver.secrets.values()].flatMap(secretsIn);
      const piece = pieceIn(throwaway.output(), new Set(secrets.flatMap(piecesOf)));
      if (piece !== undefined) throw new Error(`The stack has said ${piece}…, a piece of a secret`);
      const [breach] = /QUOTA BREACH: .*/.exec(throwaway.output()) ?? [];
      if (breach !== undefined) throw new Error(breach);
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

/** A destination for every event; its retries come soon, so that a scenario does not wait for a schedule. */
export async function createDestination(
  api: ApiClient,
  { url, secrets }: Receiver,
  path: string,
): Promise<void> {
  const { secret } = await api.post<{ secret: string }>("/v1/destinations", {
    url: `${url}${path}`,
    timeout_ms: TIMEOUT_MS,
    rate_per_second: 1000,
    rate_burst: 1000,
    retry: { schedule: [1, 2, 4], jitter: "full", max_attempts: 100 },
    breaker: { cooldown_s: 1, max_cooldown_s: 2 },
  });
  secrets.set(path, secret);
}

/** Requests that the receiver has taken, in their order, by delivery: `path event`. */
export function receptionsOf(hits: readonly Hit[]): Map<string, Hit[]> {
  return Map.groupBy(
    hits.filter(({ status, verified }) => status === 200 && verified),
    deliveryOf,
  );
}

export function deliveryOf({ path, id }: Pick<Hit, "path" | "id">): string {
  return `${path} ${id}`;
}
