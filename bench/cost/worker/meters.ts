/**
 * The meters. Rows of D1 are those that it reports itself with every answer, as it bills them. Rows of a
 * gate are counted at its storage: a row for each value that is read or put, and for each alarm that is set
 * or taken back. Everything runs in one isolate locally, so one set of counters does.
 *
 * With BENCH_LATENCY, a seed, calls take as long as in production: how many events share a commit depends on it.
 */

import { seededRandom } from "../../../src/core/seeded-random.ts";
import { interceptedD1, interceptedGates, interceptedQueue } from "../../../test/support/intercept.ts";
import { type Latency, randomLatency } from "../../../tools/strict/bindings.ts";
import { noUnits } from "../units.ts";

export const units = noUnits();

const envs = new WeakMap<Env, Env>();

let latency: Latency = (_kind, work) => work();

/** Every line that the Worker or one of its objects writes is one that Workers Logs stores. */
export function countLines(): void {
  console.log = () => {
    units.logLines += 1;
  };
}

/** The same environment for the same one: the Worker keeps what it has made of it. */
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
  // What is metered once is not metered again: an object hands its environment on as it got it.
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

/** What is under way at each object, and since when there has been something. */
const atWork = new Map<string, { count: number; since: number }>();

/** Time in which an object is in use counts once, however many have called it. */
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

/** Counts what is read; `deleted` tells how many messages of the batch do not come again. */
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

/** As much of a storage as the gate uses. */
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
