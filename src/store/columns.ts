/** Reads stored values, which an operator may have edited by hand. */
import { type Column, getTableColumns, type InferInsertModel, type InferSelectModel } from "drizzle-orm";
import { customType, type SQLiteTable } from "drizzle-orm/sqlite-core";
import { isJsonObject, parsedJson } from "../core/json-value.ts";

/**
 * A JSON column. A value that an operator has edited into something other than JSON, or into no list or object where the
 * fallback is one, reads as `fallback`, so that it fails no request. Beyond that the type is a promise, not a check:
 * readers validate what an operator may edit.
 */
export function jsonText<T>(fallback: T) {
  return customType<{ data: T; driverData: string }>({
    dataType: () => "text",
    toDriver: (value) => JSON.stringify(value),
    fromDriver: (stored) => parsedOr(stored, fallback),
  });
}

/** The value of a JSON text, or the fallback if it is not JSON, or no list or object as the fallback is. */
export function parsedOr<T>(stored: unknown, fallback: T): T {
  const parsed = parsedJson(String(stored));
  const isUsable = Array.isArray(fallback)
    ? Array.isArray(parsed)
    : isJsonObject(fallback)
      ? isJsonObject(parsed)
      : parsed !== undefined;
  return isUsable ? (parsed as T) : fallback;
}

export type RawRow = Readonly<Record<string, unknown>>;

/**
 * A row of a raw statement as the schema's model. A value that the column cannot read, because an operator has edited it,
 * counts as null.
 */
export function modelOf<T extends SQLiteTable>(table: T, raw: RawRow): InferSelectModel<T> {
  return Object.fromEntries(
    columnsOf(table).map(([key, column]) => [key, columnValue(column, raw[column.name])]),
  ) as InferSelectModel<T>;
}

/** By table: a sweep reads thousands of rows, and Drizzle makes its list anew each time. */
const columns = new WeakMap<SQLiteTable, readonly (readonly [key: string, column: Column])[]>();

function columnsOf(table: SQLiteTable) {
  const known = columns.get(table) ?? Object.entries<Column>(getTableColumns(table));
  columns.set(table, known);
  return known;
}

/** The columns that a new row gives, and their values as they are stored. */
export function givenColumns<T extends SQLiteTable>(
  table: T,
  row: InferInsertModel<T>,
): Readonly<{ names: readonly string[]; values: readonly unknown[] }> {
  const given = columnsOf(table).filter(([key]) => row[key as keyof typeof row] !== undefined);
  return {
    names: given.map(([, column]) => column.name),
    values: given.map(([key, column]) => {
      const value: unknown = row[key as keyof typeof row];
      return value && column.mapToDriverValue(value);
    }),
  };
}

function columnValue(column: Column, stored: unknown): unknown {
  if (stored === null || stored === undefined) return null;
  try {
    return column.mapFromDriverValue(stored);
  } catch {
    return null;
  }
}
