/** The units that Cloudflare bills, counted. */

export type Units = {
  d1RowsRead: number;
  d1RowsWritten: number;
  d1RoundTrips: number;
  /** Round trips for which D1 reports no rows: queries built by Drizzle. */
  d1Unmetered: number;
  queueWritten: number;
  queueRead: number;
  queueDeleted: number;
  /** Calls of gates and their alarms; each is a request to a Durable Object. */
  gateRequests: number;
  gateRowsRead: number;
  gateRowsWritten: number;
  /** Time in which a gate has calls to answer. */
  gateMs: number;
  /** Calls of intake; each is a request to a Durable Object. It stores nothing. */
  intakeRequests: number;
  /** Time in which intake has work to do, including work behind its answers. */
  intakeMs: number;
  /** Invocations of the Worker by requests, batches of messages and the clock. */
  invocations: number;
  /** Invocations that consume batches of deliveries. */
  consumerBatches: number;
  /** Lines that the Worker and its objects have logged. */
  logLines: number;
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
    intakeRequests: 0,
    intakeMs: 0,
    invocations: 0,
    consumerBatches: 0,
    logLines: 0,
  };
}

/** The use between two readings. */
export function usedBetween(before: Units, after: Units): Units {
  return mapped(after, (unit, name) => unit - before[name]);
}

/** The sum of both. */
export function added(one: Units, other: Units): Units {
  return mapped(one, (unit, name) => unit + other[name]);
}

export function mapped(units: Units, change: (unit: number, name: keyof Units) => number): Units {
  const changed = noUnits();
  for (const name of Object.keys(changed) as (keyof Units)[]) changed[name] = change(units[name], name);
  return changed;
}

/** One operation for each message written, read and deleted, as ours are far below 64 KB. */
export function queueOperations({ queueWritten, queueRead, queueDeleted }: Units): number {
  return queueWritten + queueRead + queueDeleted;
}
