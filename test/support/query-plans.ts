/** Finds where a statement scans a table or an index, from SQLite's own query plan. */

/** The tables that grow with traffic, or with what users create. */
const growing = [
  "bundles",
  "idempotency_keys",
  "tenants",
  "deliveries",
  "destinations",
  "sessions",
  "replays",
  "api_keys",
];

/** The steps of the plan that scan a table that grows, as `deliveries USING INDEX deliveries_dead`. */
export async function scansIn(db: D1Database, sql: string): Promise<string[]> {
  const { results } = await db
    .prepare(`EXPLAIN QUERY PLAN ${sql}`)
    .bind(...Array(parametersOf(sql)).fill(null))
    .all<{ detail: string }>();
  return results.flatMap(({ detail }) => {
    const [, name = "", how = ""] = /^SCAN (\S+)(.*)$/.exec(detail) ?? [];
    const table = name === "" || how.includes("VIRTUAL TABLE") ? undefined : tableOf(name, sql);
    return table === undefined ? [] : [`${table}${how}`];
  });
}

/** The table with this name or alias in the statement; undefined unless it grows. */
function tableOf(name: string, sql: string): string | undefined {
  if (growing.includes(name)) return name;
  const named = new RegExp(`\\b(${growing.join("|")})"?\\s+(?:AS\\s+)?"?${name}\\b`, "i").exec(sql);
  return named?.[1];
}

function parametersOf(sql: string): number {
  const numbered = [...sql.matchAll(/\?(\d+)/g)].map(([, number]) => Number(number));
  return numbered.length > 0 ? Math.max(...numbered) : sql.split("?").length - 1;
}
