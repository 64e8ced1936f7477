/** A D1 that answers as a test says, where the real one would take too long: very many rows, thousands of commits. */

/** @param rowsFor what a statement with these values finds; it may throw, or wait */
export function playedD1(
  rowsFor: (sql: string, values: readonly unknown[]) => readonly unknown[] | Promise<readonly unknown[]>,
): D1Database {
  const statement = (sql: string, values: readonly unknown[] = []) => {
    const all = async () => ({ results: await rowsFor(sql, values) });
    const first = async (column: string) => ((await all()).results[0] as Record<string, unknown>)?.[column];
    return { bind: (...given: unknown[]) => statement(sql, given), all, first };
  };
  const batch = (statements: readonly ReturnType<typeof statement>[]) =>
    Promise.all(statements.map(({ all }) => all()));
  return { prepare: (sql: string) => statement(sql), batch } as unknown as D1Database;
}
