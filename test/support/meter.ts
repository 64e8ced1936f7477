/**
 * The real D1 and the real gates, counted and, where a test wants it, failing. D1's own figures are summed:
 * they are what is billed. One call to D1 is one round trip, a batch too.
 */
import type { DestinationGate } from "../../src/gate/destination-gate.ts";

/** `before`: nothing was done. `after`: all was done, and the answer got lost. */
type Fault = "before" | "after" | undefined;

export type MeteredD1 = Readonly<{
  db: D1Database;
  /** What has been used since the last time of asking. */
  used: () => Readonly<{ roundTrips: number; rowsRead: number; rowsWritten: number }>;
  /** From now on, decides for each round trip by its statements whether it fails. */
  failing: (decide: (sql: string) => Fault) => void;
  /** Resolves when the next round trip whose statements contain this has been made. */
  written: (sql: string) => Promise<void>;
}>;

export function meteredD1(real: D1Database): MeteredD1 {
  const inner = new WeakMap<D1PreparedStatement, { statement: D1PreparedStatement; sql: string }>();
  let decide: (sql: string) => Fault = () => undefined;
  let watchers: { part: string; seen: () => void }[] = [];
  let used = { roundTrips: 0, rowsRead: 0, rowsWritten: 0 };

  async function trip<T>(sql: string, work: () => Promise<D1Result<T>[]>): Promise<D1Result<T>[]> {
    used.roundTrips += 1;
    const fault = decide(sql);
    if (fault === "before") throw new Error("D1_ERROR: away, as the test wants it");
    const results = await work();
    for (const { meta } of results) {
      used.rowsRead += meta.rows_read;
      used.rowsWritten += meta.rows_written;
    }
    for (const { part, seen } of watchers) if (sql.includes(part)) seen();
    watchers = watchers.filter(({ part }) => !sql.includes(part));
    if (fault === "after") throw new Error("D1_ERROR: the answer got lost, as the test wants it");
    return results;
  }

  function metered(statement: D1PreparedStatement, sql: string): D1PreparedStatement {
    async function all<T>(): Promise<D1Result<T>> {
      const [result] = await trip<T>(sql, async () => [await statement.all<T>()]);
      if (result === undefined) throw new Error("One statement has one result");
      return result;
    }
    async function first(column?: string): Promise<unknown> {
      const row = (await all<Record<string, unknown>>()).results[0];
      return row === undefined ? null : column === undefined ? row : row[column];
    }
    /** What Drizzle's builder uses. D1 says nothing of its rows: the trip alone is counted. */
    async function raw(): Promise<unknown[]> {
      let rows: unknown[] = [];
      await trip(sql, async () => {
        rows = await statement.raw();
        return [];
      });
      return rows;
    }
    const wrapped = {
      bind: (...values: unknown[]) => metered(statement.bind(...values), sql),
      all,
      run: all,
      first,
      raw,
    } as unknown as D1PreparedStatement;
    inner.set(wrapped, { statement, sql });
    return wrapped;
  }

  function batch<T>(statements: D1PreparedStatement[]): Promise<D1Result<T>[]> {
    const unwrapped = statements.map((wrapped) => inner.get(wrapped) ?? { statement: wrapped, sql: "" });
    return trip(unwrapped.map(({ sql }) => sql).join(";"), () =>
      real.batch<T>(unwrapped.map(({ statement }) => statement)),
    );
  }

  return {
    db: { prepare: (sql: string) => metered(real.prepare(sql), sql), batch } as unknown as D1Database,
    used: () => {
      const before = used;
      used = { roundTrips: 0, rowsRead: 0, rowsWritten: 0 };
      return before;
    },
    failing: (how) => {
      decide = how;
    },
    written: (part) => new Promise((seen) => watchers.push({ part, seen })),
  };
}

export type MeteredGates = Readonly<{
  gates: DurableObjectNamespace<DestinationGate>;
  /** The methods called since the last time of asking, in their order. */
  called: () => readonly string[];
  /** From now on, runs before each call: it may throw, or keep the call waiting. */
  before: (hook: (method: string, destination: string) => Promise<void> | void) => void;
}>;

export function meteredGates(real: DurableObjectNamespace<DestinationGate>): MeteredGates {
  let calls: string[] = [];
  let hook: (method: string, destination: string) => Promise<void> | void = () => {};

  function get(id: DurableObjectId) {
    const stub = real.get(id) as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>;
    return new Proxy(stub, {
      get:
        (target, method: string) =>
        async (...args: unknown[]) => {
          calls.push(method);
          await hook(method, id.name ?? "");
          return target[method]?.(...args);
        },
    });
  }

  return {
    gates: { idFromName: (name: string) => real.idFromName(name), get } as unknown as typeof real,
    called: () => {
      const before = calls;
      calls = [];
      return before;
    },
    before: (next) => {
      hook = next;
    },
  };
}
