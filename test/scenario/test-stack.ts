/**
 * The stack of the scenarios: it can be killed and started again on the same state, and its receiver survives that.
 * The receiver's log is what was delivered.
 */

import { type Hit, type ReceiverServer, type Reply, startReceiver } from "../../tools/receiver.ts";
import { type ApiClient, apiClient, keepFiring, killStack, type Stack } from "../../tools/stack.ts";
import { prepareThrowaway, THROWAWAY_KEY } from "../../tools/throwaway.ts";
import { SecretPieces, secretsIn } from "../support/secret-pieces.ts";

/**
 * Seconds instead of production's minutes; but longer than the calls of one delivery, each of which may take a second:
 * a slow delivery must not count as lost.
 */
const GRACE_SECONDS = "8";
const CRON_MS = 2_000;
/** Short, because the leases of a killed Worker last as long as an attempt may take. */
const TIMEOUT_MS = 1_000;

export type TestStack = Readonly<{
  receiver: ReceiverServer;
  /** Starts the stack on its state; resolves when it answers. */
  start: () => Promise<RunningStack>;
  lastLines: () => string;
  /** Kills the stack and removes its state. Throws when its output contains a secret or a quota was exceeded. */
  leave: () => Promise<void>;
}>;

export type RunningStack = Readonly<{ api: ApiClient; kill: () => Promise<void> }>;

/**
 * Prepares a stack with production's quotas and latencies.
 * @param answer the receiver's answers
 * @param seed of the latencies
 */
export async function prepareTestStack(answer: (hit: Hit) => Reply, seed = 1): Promise<TestStack> {
  const receiver = await startReceiver(answer);
  const throwaway = await prepareThrowaway({ GRACE_SECONDS }, { latency: seed });
  let running: RunningStack | undefined;
  return {
    receiver,
    start: async () => {
      const stack = await throwaway.start();
      running = run(stack);
      await running.api.get("/v1/health");
      return running;
    },
    lastLines: throwaway.lastLines,
    leave: async () => {
      await running?.kill();
      receiver.close();
      const secrets = new SecretPieces();
      for (const secret of [...receiver.secrets.values()].flatMap(secretsIn)) secrets.add(secret);
      const piece = secrets.in(throwaway.output());
      if (piece !== undefined) throw new Error(`The output contains ${piece}…, a piece of a secret`);
      const [breach] = /QUOTA BREACH: .*/.exec(throwaway.output()) ?? [];
      if (breach !== undefined) throw new Error(breach);
      throwaway.discard();
    },
  };
}

function run(stack: Stack): RunningStack {
  const stopFiring = keepFiring(stack.url, { everyMs: CRON_MS });
  const kill = async () => {
    stopFiring();
    await killStack(stack);
  };
  return { api: apiClient(stack.url, THROWAWAY_KEY), kill };
}

/** Creates a destination of every event type, with short retries. */
export async function createDestination(
  api: ApiClient,
  { url, secrets }: ReceiverServer,
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

/** Requests that were answered with 200, in order, by delivery: `path event`. */
export function receptionsOf(hits: readonly Hit[]): Map<string, Hit[]> {
  return Map.groupBy(
    hits.filter(({ status, verified }) => status === 200 && verified),
    deliveryOf,
  );
}

export function deliveryOf({ path, id }: Pick<Hit, "path" | "id">): string {
  return `${path} ${id}`;
}
