/** Groups with limits of their own: listed, put and removed. */
import { asc, eq, gt, ne } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import { BY_HOST } from "../core/group/name.ts";
import { givenColumns, modelOf, type RawRow } from "./columns.ts";
import { select } from "./databases.ts";
import { type Group, groups, sharedHosts } from "./group.ts";
import { countUpTo } from "./sql.ts";

/** Groups with limits of their own. */
export const MOST_GROUPS = 1_000;

/** A look-up for each name, however many destinations have it. */
const USED = `
  WITH RECURSIVE used(name, place) AS (
    SELECT (SELECT min(group_name) FROM destinations
      WHERE group_name IS NOT NULL AND deleted_at IS NULL AND group_name > ?1), 1
    UNION ALL
    SELECT (SELECT min(group_name) FROM destinations
      WHERE group_name IS NOT NULL AND deleted_at IS NULL AND group_name > used.name), place + 1
    FROM used WHERE used.name IS NOT NULL AND place < ?2)
  SELECT name FROM used WHERE name IS NOT NULL`;

/**
 * In order of their names: groups with stored limits, and names that destinations have, which may have no row. Groups
 * of hosts are included if they have limits.
 */
export async function listGroups(
  db: D1Database,
  { after = "", limit }: Readonly<{ after: string | undefined; limit: number }>,
): Promise<Readonly<{ name: string; row: Group | undefined }>[]> {
  const [rows, used] = await Promise.all([
    drizzle(db).select().from(groups).where(gt(groups.name, after)).orderBy(asc(groups.name)).limit(limit),
    select<{ name: string }>(db, USED, after, limit + 1),
  ]);
  const byName = new Map<string, Group | undefined>(
    used.flatMap(({ name }) => (name === BY_HOST ? [] : [[name, undefined]])),
  );
  for (const row of rows) byName.set(row.name, row);
  const names = [...byName.keys()].sort();
  return names.slice(0, limit).map((name) => ({ name, row: byName.get(name) }));
}

type GroupInput = Omit<Group, "createdAt" | "updatedAt">;

/**
 * Creates or replaces a group's limits; undefined when there are too many groups: the limit is part of the statement, so that
 * two at the same moment cannot exceed it.
 */
export async function putGroup(db: D1Database, group: GroupInput, now: number): Promise<Group | undefined> {
  const { names, values } = givenColumns(groups, { ...group, createdAt: now, updatedAt: now });
  const replaced = names.filter((name) => name !== "name" && name !== "created_at");
  // Forms recognize what they have read by its time.
  const newValue = (name: string) =>
    name === "updated_at" ? "max(excluded.updated_at, updated_at + 1)" : `excluded.${name}`;
  const put = `
    INSERT INTO groups (${names}) SELECT ${names.map((_, i) => `?${i + 2}`)}
    WHERE EXISTS (SELECT 1 FROM groups WHERE name = ?1) OR ${countUpTo(MOST_GROUPS, "groups")} < ${MOST_GROUPS}
    ON CONFLICT (name) DO UPDATE SET ${replaced.map((name) => `${name} = ${newValue(name)}`)}
    RETURNING *`;
  const [raw] = await select<RawRow>(db, put, group.name, ...values);
  return raw && modelOf(groups, raw);
}

/** Whether there was one. Its members stay, with the defaults. */
export async function removeGroup(db: D1Database, name: string): Promise<boolean> {
  const removed = await drizzle(db)
    .delete(groups)
    .where(eq(groups.name, name))
    .returning({ name: groups.name });
  return removed.length > 0;
}

/** Hosts that are shared at once, those with the most destinations first. */
const MOST_SHARED = 1_000;

/** Every destination is read, and none of them twice. */
const COUNT_SHARED = `
  INSERT INTO shared_hosts (most, counted_at, hosts)
  SELECT ?1, ?2, json_group_array(host) FROM (
    SELECT substr(rest, 1, instr(rest, '/') - 1) AS host
    FROM (SELECT substr(url, instr(url, '://') + 3) AS rest FROM destinations
      WHERE deleted_at IS NULL AND (url GLOB 'https://*/*' OR url GLOB 'http://*/*'))
    GROUP BY host HAVING count(*) > ?1 ORDER BY count(*) DESC, host LIMIT ${MOST_SHARED})
  WHERE true
  ON CONFLICT (most) DO UPDATE SET counted_at = excluded.counted_at, hosts = excluded.hosts`;

/** Counts the destinations of all hosts, and stores those that have more than `most`. @param now epoch ms */
export async function countSharedHosts(db: D1Database, most: number, now: number): Promise<void> {
  await db.prepare(COUNT_SHARED).bind(most, now).run();
  await drizzle(db).delete(sharedHosts).where(ne(sharedHosts.most, most));
}
