/**
 * The meters. D1 reports its rows with every answer, as it bills them. Rows of a gate are counted at its storage: one
 * for each value that is read or put, and for each alarm that is set or deleted. Everything runs in one isolate
 * locally, so one set of counters suffices.
 *
 * With BENCH_LATENCY, a seed, calls take as long as in production, on which depends how many events share a commit.
 */

import { seededRandom } from "../../../src/core/seeded-random.ts";
import { interceptedD1, interceptedGates, interceptedQueue } from "../../../test/support/intercept.ts";
import { type Latency, randomLatency } from "../../../tools/strict/bindings.ts";
import { noUnits } from "../units.ts";

export const units = noUnits();

const envs = new WeakMap<Env, Env>();

let latency: Latency = (_kind, work) => work();

/** Counts the lines that the Worker and its objects write, as Workers Logs stores each of them. */
export function countLines(): void {
  console.log = () => {
    units.logLines += 1;
  };
}

/** Wraps an environment, always with the same result, because the Worker caches by environment. */
export function meteredEnv(env: Env): Env {
  const known = envs.get(env);
  if (known) return known;
  const { BENCH_LATENCY: seed } = env as { BENCH_LATENCY?: string };
  if (seed !== undefined) latency = randomLatency(seededRandom(Number(seed)), (ms) => scheduler.wait(ms));
  const metered = {
    ...env,
    DB: interceptedD1(env.DB, meteredTrip),
    DELIVERIES: meteredQueue(env.DELIVERIES),
    DRAINS: meteredQueue(env.DRAINS),
    UPKEEP: meteredQueue(env.UPKEEP),
    DEAD: meteredQueue(env.DEAD),
    GATES: interceptedGates(env.GATES, (_method, destination, call) => {
      units.gateRequests += 1;
      return latency("gate", () => busy(`gate ${destination}`, "gateMs", call));
    }),
    GROUPS: interceptedGates(env.GROUPS, (_method, name, call) => {
      units.gateRequests += 1;
      return latency("gate", () => busy(`group ${name}`, "gateMs", call));
    }),
    INTAKE: interceptedGates(env.INTAKE, (_method, name, call) => {
      units.intakeRequests += 1;
      return latency("gate", () => busy(`intake ${name}`, "intakeMs", call));
    }),
  };
  envs.set(env, metered);
  // A metered environment is not wrapped again: objects pass theirs on.
  envs.set(metered, metered);
  return metered;
}

async function meteredTrip<T>(_sql: string, work: () => Promise<T>): Promise<T> {
  units.d1RoundTrips += 1;
  const answer = await latency("d1", work);
  const metas = [answer].flat().map((result) => (result as Partial<D1Result>).meta);
  if (metas.length === 0 || metas.includes(undefined)) units.d1Unmetered += 1;
  for (const meta of metas) {
    units.d1RowsRead += meta?.rows_read ?? 0;
    units.d1RowsWritten += meta?.rows_written ?? 0;
  }
  return answer;
}

/** The number of calls under way at each object, and since when there has been one. */
const atWork = new Map<string, { count: number; since: number }>();

/** Counts the time in which an object is busy, once for all concurrent calls. */
export async function busy<T>(
  object: string,
  unit: "gateMs" | "intakeMs",
  call: () => Promise<T>,
): Promise<T> {
  const work = atWork.get(object) ?? { count: 0, since: 0 };
  atWork.set(object, work);
  if (work.count === 0) work.since = Date.now();
  work.count += 1;
  try {
    return await call();
  } finally {
    work.count -= 1;
    if (work.count === 0) units[unit] += Date.now() - work.since;
  }
}

function meteredQueue<T>(queue: Queue<T>): Queue<T> {
  const counted = interceptedQueue(queue, (_name, work) => latency("queue", work));
  return {
    ...counted,
    send: async (...args) => {
      const sent = await counted.send(...args);
      units.queueWritten += 1;
      return sent;
    },
    sendBatch: async (messages, options) => {
      const all = [...messages];
      const sent = await counted.sendBatch(all, options);
      units.queueWritten += all.length;
      return sent;
    },
  };
}

/** Counts the messages that are read; `deleted` returns how many of them are not retried. */
export function meteredBatch(batch: MessageBatch): { metered: MessageBatch; deleted: () => number } {
  const again = new Set<string>();
  units.queueRead += batch.messages.length;
  const messages = batch.messages.map((message) => ({
    id: message.id,
    body: message.body,
    timestamp: message.timestamp,
    attempts: message.attempts,
    ack: () => message.ack(),
    retry: (options?: QueueRetryOptions) => {
      again.add(message.id);
      message.retry(options);
    },
  }));
  const metered = { queue: batch.queue, messages } as unknown as MessageBatch;
  return { metered, deleted: () => messages.length - again.size };
}

/** The part of a Durable Object's storage that gates use, with meters. */
export function meteredStorage(storage: DurableObjectStorage): DurableObjectStorage {
  const kv = {
    get: (key: string) => {
      units.gateRowsRead += 1;
      return storage.kv.get(key);
    },
    put: (key: string, value: unknown) => {
      units.gateRowsWritten += 1;
      storage.kv.put(key, value);
    },
  };
  const setAlarm = (at: number) => {
    units.gateRowsWritten += 1;
    return storage.setAlarm(at);
  };
  const deleteAlarm = () => {
    units.gateRowsWritten += 1;
    return storage.deleteAlarm();
  };
  return { kv, setAlarm, deleteAlarm } as unknown as DurableObjectStorage;
}
