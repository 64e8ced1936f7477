/**
 * The real D1 and the real gates, metered, and failing where a test wants it. The meter adds up D1's own figures, by
 * which it is billed.
 */
import type { DestinationGate } from "../../src/gate/durable-object.ts";
import { interceptedD1, interceptedGates } from "./intercept.ts";

let underWay = 0;

/** The number of calls to D1, gates and buckets under way, which return by themselves however long that takes. */
export function callsUnderWay(): number {
  return underWay;
}

let ended = Promise.withResolvers<void>();

/** Resolves when one of them has returned. */
export function callEnded(): Promise<void> {
  return ended.promise;
}

/** Makes a call that `callsUnderWay` counts. A call that a test holds up must not be among them. */
export async function counted<T>(call: () => Promise<T>): Promise<T> {
  underWay += 1;
  try {
    return await call();
  } finally {
    underWay -= 1;
    ended.resolve();
    ended = Promise.withResolvers();
  }
}

/** `before`: nothing was done. `after`: everything was done, and the response was lost. */
type Fault = "before" | "after" | undefined;

export type MeteredD1 = Readonly<{
  db: D1Database;
  /** The further databases, metered together with it. */
  further: readonly D1Database[];
  /** The usage since the last call. */
  used: () => Readonly<{ roundTrips: number; queries: number; rowsRead: number; rowsWritten: number }>;
  /** Sets which round trips fail, decided by their statements. */
  failing: (decide: (sql: string) => Fault) => void;
  /** Resolves after the next round trip whose statements contain this. */
  written: (sql: string) => Promise<void>;
}>;

export function meteredD1(real: D1Database, ...further: readonly D1Database[]): MeteredD1 {
  let decide: (sql: string) => Fault = () => undefined;
  let watchers: { part: string; seen: () => void }[] = [];
  let used = { roundTrips: 0, queries: 0, rowsRead: 0, rowsWritten: 0 };

  async function trip<T>(sql: string, work: () => Promise<T>): Promise<T> {
    used.roundTrips += 1;
    const fault = decide(sql);
    if (fault === "before") throw new Error("D1_ERROR: away, as the test wants it");
    const results = await counted(work);
    for (const result of [results].flat() as (Partial<D1Result> | null)[]) {
      used.queries += 1;
      used.rowsRead += result?.meta?.rows_read ?? 0;
      used.rowsWritten += result?.meta?.rows_written ?? 0;
    }
    for (const { part, seen } of watchers) if (sql.includes(part)) seen();
    watchers = watchers.filter(({ part }) => !sql.includes(part));
    if (fault === "after") throw new Error("D1_ERROR: the answer got lost, as the test wants it");
    return results;
  }

  return {
    db: interceptedD1(real, trip),
    further: further.map((one) => interceptedD1(one, trip)),
    used: () => {
      const before = used;
      used = { roundTrips: 0, queries: 0, rowsRead: 0, rowsWritten: 0 };
      return before;
    },
    failing: (how) => {
      decide = how;
    },
    written: (part) => new Promise((seen) => watchers.push({ part, seen })),
  };
}

export type MeteredGates<Gate extends Rpc.DurableObjectBranded = DestinationGate> = Readonly<{
  gates: DurableObjectNamespace<Gate>;
  /** The methods called since the last call of `called`, in order. */
  called: () => readonly string[];
  /** Sets a hook that runs before each call. It may throw, or delay the call. */
  before: (hook: (method: string, destination: string) => Promise<void> | void) => void;
  /** Sets a hook that runs after each call, before its result arrives. It may throw. */
  after: (hook: (method: string) => void) => void;
}>;

export function meteredGates<Gate extends Rpc.DurableObjectBranded>(
  real: DurableObjectNamespace<Gate>,
): MeteredGates<Gate> {
  let calls: string[] = [];
  let hook: (method: string, destination: string) => Promise<void> | void = () => {};
  let hookAfter: (method: string) => void = () => {};

  return {
    gates: interceptedGates(real, async (method, destination, work) => {
      calls.push(method);
      await hook(method, destination);
      const result = await counted(work);
      hookAfter(method);
      return result;
    }),
    called: () => {
      const before = calls;
      calls = [];
      return before;
    },
    before: (next) => {
      hook = next;
    },
    after: (next) => {
      hookAfter = next;
    },
  };
}
