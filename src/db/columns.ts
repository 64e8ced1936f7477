/** How stored values become ours, whatever a person has made of them by hand. */
import { type Column, getTableColumns, type InferSelectModel } from "drizzle-orm";
import { customType, type SQLiteTable } from "drizzle-orm/sqlite-core";

/**
 * A JSON column that survives its editors: what a person has changed by hand into something that is no JSON
 * reads as `fallback`, and never makes an error of a request that only wanted to show the row. That it
 * is JSON says nothing of its shape: whoever reads it has to look.
 */
export function jsonText<T>(fallback: T) {
  return customType<{ data: T; driverData: string }>({
    dataType: () => "text",
    toDriver: (value) => JSON.stringify(value),
    fromDriver: (stored) => parsedOr(stored, fallback),
  });
}

function parsedOr<T>(stored: unknown, fallback: T): T {
  try {
    return JSON.parse(String(stored));
  } catch {
    return fallback;
  }
}

export type RawRow = Readonly<Record<string, unknown>>;

/**
 * Rows of hand-written statements, as the schema's models. Drizzle maps what its own builder selects; the
 * delivery path reads several tables in one round trip with statements of its own, and must survive a
 * column that a person has edited into nonsense: such a value counts as null.
 */
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
