/** What Cloudflare bills for, as counts. */

export type Units = {
  d1RowsRead: number;
  d1RowsWritten: number;
  d1RoundTrips: number;
  /** Round trips of which D1 does not say what they read and wrote: queries built by Drizzle. */
  d1Unmetered: number;
  queueWritten: number;
  queueRead: number;
  queueDeleted: number;
  /** Calls of gates and their alarms; each is a request to a Durable Object. */
  gateRequests: number;
  gateRowsRead: number;
  gateRowsWritten: number;
  /** Time between a call of a gate and its answer: what its object is in use, at most. */
  gateMs: number;
  /** Invocations of the Worker by requests, batches of messages and the clock. */
  invocations: number;
  /** Of these, by batches of deliveries. */
  consumerBatches: number;
};

export function noUnits(): Units {
  return {
    d1RowsRead: 0,
    d1RowsWritten: 0,
    d1RoundTrips: 0,
    d1Unmetered: 0,
    queueWritten: 0,
    queueRead: 0,
    queueDeleted: 0,
    gateRequests: 0,
    gateRowsRead: 0,
    gateRowsWritten: 0,
    gateMs: 0,
    invocations: 0,
    consumerBatches: 0,
  };
}

/** What was used between two readings. */
export function usedBetween(before: Units, after: Units): Units {
  const used = noUnits();
  for (const name of Object.keys(used) as (keyof Units)[]) used[name] = after[name] - before[name];
  return used;
}

/** An operation for each message written, read and deleted; ours are far below 64 KB. */
export function queueOperations({ queueWritten, queueRead, queueDeleted }: Units): number {
  return queueWritten + queueRead + queueDeleted;
}
