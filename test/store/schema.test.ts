/** Drizzle's schema, which types queries, and the migrations, which make the tables, agree. */
import { env } from "cloudflare:workers";
import { type Column, SQL } from "drizzle-orm";
import {
  getTableConfig,
  type SQLiteColumn,
  SQLiteSyncDialect,
  type SQLiteTable,
} from "drizzle-orm/sqlite-core";
import { describe, expect, test } from "vitest";
import { defaultBreaker, defaultLimits } from "../../src/core/limits.ts";
import { destinations } from "../../src/store/destination.ts";
import { groups, sharedHosts } from "../../src/store/group.ts";
import * as settings from "../../src/store/schema.ts";
import { LATEST_MIGRATION } from "../../src/store/stats.ts";
import * as events from "../../src/store/tables.ts";

const tables = Object.values({ ...settings, ...events, destinations, groups, sharedHosts }) as SQLiteTable[];
const dialect = new SQLiteSyncDialect();

async function select<T>(query: string, ...values: unknown[]): Promise<T[]> {
  const { results } = await env.DB.prepare(query)
    .bind(...values)
    .all<T>();
  return results;
}

/** SQL in a form that can be compared: lower case, without quotes, one space between words. */
function plain(text: string): string {
  return text.toLowerCase().replace(/["`]/g, "").replace(/\s+/g, " ").trim();
}

function defaultOf(column: Column): string | null {
  const value: unknown = column.default;
  if (value === undefined) return null;
  if (value instanceof SQL) return dialect.sqlToQuery(value).sql;
  return typeof value === "string" ? `'${value}'` : String(value);
}

/** The names of the columns of the primary key, in its order. */
function primaryKeyOf(table: SQLiteTable): string[] {
  const { columns, primaryKeys } = getTableConfig(table);
  const [composite] = primaryKeys;
  return (composite?.columns ?? columns.filter(({ primary }) => primary)).map(({ name }) => name);
}

describe.each(tables.map((table) => [getTableConfig(table).name, table] as const))("%s", (name, table) => {
  test("has the schema's columns, with their types, nulls and defaults, and no others", async () => {
    type Info = { name: string; type: string; notnull: number; dflt_value: string | null };
    const found = await select<Info>("SELECT * FROM pragma_table_info(?1)", name);
    const described = found.map((column) => [
      column.name,
      { type: column.type.toLowerCase(), notNull: column.notnull === 1, default: column.dflt_value },
    ]);
    const wanted = getTableConfig(table).columns.map((column: SQLiteColumn) => [
      column.name,
      { type: column.getSQLType(), notNull: column.notNull, default: defaultOf(column) },
    ]);
    expect(Object.fromEntries(described)).toEqual(Object.fromEntries(wanted));
  });

  test("has the schema's primary key", async () => {
    const found = await select<{ name: string }>(
      "SELECT name FROM pragma_table_info(?1) WHERE pk > 0 ORDER BY pk",
      name,
    );
    expect(found.map((column) => column.name)).toEqual(primaryKeyOf(table));
  });

  test("has the schema's indexes, partial ones included, and no others", async () => {
    const found = await select<{ name: string; sql: string }>(
      "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = ?1 AND sql IS NOT NULL",
      name,
    );
    const wanted = getTableConfig(table).indexes.map(({ config }) => {
      const columns = config.columns.map((column) => (column as SQLiteColumn).name);
      const where = config.where ? ` where ${dialect.sqlToQuery(config.where).sql}` : "";
      const unique = config.unique ? "unique " : "";
      return [config.name, plain(`create ${unique}index ${config.name} on ${name} (${columns})${where}`)];
    });
    expect(Object.fromEntries(found.map((index) => [index.name, plain(index.sql)]))).toEqual(
      Object.fromEntries(wanted),
    );
  });
});

test("every table is in the schema", async () => {
  const found = await select<{ name: string }>("SELECT name FROM sqlite_master WHERE type = 'table'");
  const ours = found.map(({ name }) => name).filter((name) => !/^(sqlite_|_cf_|d1_)/.test(name));
  expect(ours.sort()).toEqual(tables.map((table) => getTableConfig(table).name).sort());
});

test("the latest migration is the one that the code expects", () => {
  const { MIGRATIONS } = env as unknown as { MIGRATIONS: readonly { name: string }[] };
  expect(LATEST_MIGRATION).toBe(MIGRATIONS.at(-1)?.name);
});

test("deliveries are stored by their key, destinations by rowid", async () => {
  const found = await select<{ name: string; wr: number }>("SELECT name, wr FROM pragma_table_list");
  const withoutRowid = Object.fromEntries(found.map(({ name, wr }) => [name, wr === 1]));
  expect(withoutRowid).toMatchObject({ deliveries: true, events: false, destinations: false });
});

test("a destination without its own limits has the defaults that the API documents", async () => {
  const defaults = Object.fromEntries(
    getTableConfig(destinations).columns.map((column) => [column.name, column.default]),
  );
  // Without a burst of its own it follows from the rate.
  expect(defaults).toMatchObject({ ...defaultLimits, rate_burst: undefined });
  const breaker = Object.entries(defaultBreaker).map(([name, value]) => [`breaker_${name}`, value]);
  expect(defaults).toMatchObject(Object.fromEntries(breaker));
});
