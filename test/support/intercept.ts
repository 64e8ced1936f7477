/**
 * Wraps the real D1, gates and queues: `around` runs for each call, is given its name, and decides whether and when the
 * call itself is made. One call to D1 is one round trip, even a batch.
 */

/** Makes the call by calling `work`, at most once. `name` is the statements, or the method. */
export type Around = <T>(name: string, work: () => Promise<T>) => Promise<T>;

/** Statements whose columns have different names: their rows as objects lose nothing. */
const plain = new Set<string>();

export function interceptedD1(real: D1Database, around: Around): D1Database {
  const inner = new WeakMap<D1PreparedStatement, { statement: D1PreparedStatement; sql: string }>();

  function intercepted(statement: D1PreparedStatement, sql: string): D1PreparedStatement {
    const all = <T>() => around(sql, () => statement.all<T>());
    async function first(column?: string): Promise<unknown> {
      const row = (await all<Record<string, unknown>>()).results[0];
      return row === undefined ? null : column === undefined ? row : row[column];
    }
    /**
     * D1 reports no figures for raw rows, which Drizzle uses. So the call is made as `all`, whose rows have the same
     * columns in the same order. Joined tables may have columns of the same name, which `all` would lose: statements
     * that only read are therefore run once more for their rows, until it is known that they have no such columns.
     */
    async function raw(): Promise<unknown[][]> {
      const { results } = await all<Record<string, unknown>>();
      const rows = results.map((row) => Object.values(row));
      if (rows.length === 0 || plain.has(sql) || !/^\s*(select|with)\b/i.test(sql)) return rows;
      const whole = await statement.raw();
      if (JSON.stringify(whole) === JSON.stringify(rows)) plain.add(sql);
      return whole;
    }
    const wrapped = {
      bind: (...values: unknown[]) => intercepted(statement.bind(...values), sql),
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
    return around(unwrapped.map(({ sql }) => sql).join(";"), () =>
      real.batch<T>(unwrapped.map(({ statement }) => statement)),
    );
  }

  return { prepare: (sql: string) => intercepted(real.prepare(sql), sql), batch } as unknown as D1Database;
}

/** @param around also receives the gate's name */
export function interceptedGates<T extends DurableObjectNamespace>(
  real: T,
  around: <R>(method: string, destination: string, work: () => Promise<R>) => Promise<R>,
): T {
  function get(id: DurableObjectId, options?: DurableObjectNamespaceGetDurableObjectOptions) {
    const stub = real.get(id, options) as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>;
    return new Proxy(stub, {
      get:
        (target, method: string) =>
        (...args: unknown[]) =>
          around(method, id.name ?? "", async () => target[method]?.(...args)),
    });
  }
  return { idFromName: (name: string) => real.idFromName(name), get } as unknown as T;
}

/** @param changed what is sent instead of the arguments of a call */
export function interceptedArguments<T extends DurableObjectNamespace>(
  real: T,
  changed: (method: string, args: readonly unknown[]) => readonly unknown[],
): T {
  const get = (id: DurableObjectId, options?: DurableObjectNamespaceGetDurableObjectOptions) => {
    const stub = real.get(id, options) as unknown as Record<string, (...args: readonly unknown[]) => unknown>;
    return new Proxy(stub, {
      get:
        (target, method: string) =>
        (...args: readonly unknown[]) =>
          target[method]?.(...changed(method, args)),
    });
  };
  return { idFromName: (name: string) => real.idFromName(name), get } as unknown as T;
}

export function interceptedQueue<T>(real: Queue<T>, around: Around): Queue<T> {
  return {
    send: (...args: Parameters<Queue<T>["send"]>) => around("send", () => real.send(...args)),
    sendBatch: (...args: Parameters<Queue<T>["sendBatch"]>) =>
      around("sendBatch", () => real.sendBatch(...args)),
    metrics: () => around("metrics", () => real.metrics()),
  } as unknown as Queue<T>;
}
