/**
 * Rows of hand-written statements, as the schema's models. Drizzle maps what its own builder selects; the
 * delivery path reads several tables in one round trip with statements of its own, and must survive a
 * column that a person has edited into nonsense: such a value counts as null.
 */
import { type Column, getTableColumns, type InferSelectModel } from "drizzle-orm";
import type { SQLiteTable } from "drizzle-orm/sqlite-core";

export type RawRow = Readonly<Record<string, unknown>>;

export function modelOf<T extends SQLiteTable>(table: T, raw: RawRow): InferSelectModel<T> {
  const columns = Object.entries(getTableColumns(table));
  return Object.fromEntries(
    columns.map(([key, column]) => [key, columnValue(column, raw[column.name])]),
  ) as InferSelectModel<T>;
}

function columnValue(column: Column, stored: unknown): unknown {
  if (stored === null || stored === undefined) return null;
  try {
    return column.mapFromDriverValue(stored);
  } catch {
    return null;
  }
}
