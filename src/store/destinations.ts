/**
 * Destinations as the API reads and writes them. A deleted one is a tombstone: it stays for what was
 * planned for it, and none of these finds it. `tenant`, where given, hides what belongs to others.
 */
import { and, eq, getTableColumns, gt, isNull, ne } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import type { Destination } from "./destination-settings.ts";
import { modelOf, type RawRow } from "./row-model.ts";
import { destinations } from "./schema.ts";

export type NewDestination = typeof destinations.$inferInsert;
/** What is undefined stays as it is. */
export type DestinationChange = {
  [K in Exclude<keyof NewDestination, "id" | "tenant" | "createdAt">]?: NewDestination[K] | undefined;
};

type Tenant = string | undefined;

/**
 * The new row; undefined when the tenant has `most` destinations, or there is one of that id already: `isTaken` says
 * which. Both are found out by the statement that inserts, so that of two at the same moment neither is mistaken.
 */
export async function insertDestination(
  db: D1Database,
  row: NewDestination,
  most: number,
): Promise<Destination | undefined> {
  const given = Object.entries(getTableColumns(destinations)).flatMap(([key, column]) => {
    const value = row[key as keyof NewDestination];
    return value === undefined ? [] : [{ name: column.name, value: value && column.mapToDriverValue(value) }];
  });
  const raw = await db
    .prepare(
      `INSERT INTO destinations (${given.map(({ name }) => name)}) SELECT ${given.map((_, i) => `?${i + 3}`)}
        WHERE (SELECT count(*) FROM (SELECT 1 FROM destinations INDEXED BY destinations_by_tenant
          WHERE tenant = ?1 AND deleted_at IS NULL LIMIT ?2)) < ?2
        ON CONFLICT (id) DO NOTHING RETURNING *`,
    )
    .bind(row.tenant, most, ...given.map(({ value }) => value))
    .first<RawRow>();
  return raw === null ? undefined : modelOf(destinations, raw);
}

/** Whether there is a destination of that id, or was one that is deleted. */
export async function isTaken(db: D1Database, id: string): Promise<boolean> {
  return (await db.prepare("SELECT 1 FROM destinations WHERE id = ?1").bind(id).first()) !== null;
}

export async function findDestination(
  db: D1Database,
  id: string,
  tenant: Tenant,
): Promise<Destination | undefined> {
  return drizzle(db).select().from(destinations).where(living(id, tenant)).get();
}

/** In order of id: a page costs the rows it shows, however many there are. */
export async function listDestinations(
  db: D1Database,
  { tenant, after, limit }: { tenant: Tenant; after: string | undefined; limit: number },
): Promise<Destination[]> {
  return drizzle(db)
    .select()
    .from(destinations)
    .where(
      and(
        isNull(destinations.deletedAt),
        tenant === undefined ? undefined : eq(destinations.tenant, tenant),
        after === undefined ? undefined : gt(destinations.id, after),
      ),
    )
    .orderBy(destinations.id)
    .limit(limit);
}

/** Columns whose values a change was decided on. */
type Seen = Partial<Pick<Destination, "secret" | "breakerCooldownS" | "breakerMaxCooldownS">>;

/**
 * The row as it is after the change, or undefined when there is none to change, or none any more that
 * still holds what was `seen`.
 */
export async function changeDestination(
  db: D1Database,
  id: string,
  change: DestinationChange,
  tenant: Tenant,
  seen: Seen = {},
): Promise<Destination | undefined> {
  const unchanged = (Object.keys(seen) as (keyof Seen)[]).map((name) =>
    eq(destinations[name], seen[name] ?? ""),
  );
  return drizzle(db)
    .update(destinations)
    .set(change)
    .where(and(living(id, tenant), ...unchanged))
    .returning()
    .get();
}

/** The row after the change of its status; undefined when it has that status already, or is not there. */
export async function turnDestination(
  db: D1Database,
  id: string,
  { status, statusReason }: Pick<Destination, "status" | "statusReason">,
  tenant: Tenant,
  now: number,
): Promise<Destination | undefined> {
  return drizzle(db)
    .update(destinations)
    .set({ status, statusReason, statusChangedAt: now, updatedAt: now })
    .where(and(living(id, tenant), ne(destinations.status, status)))
    .returning()
    .get();
}

function living(id: string, tenant: Tenant) {
  return and(
    eq(destinations.id, id),
    isNull(destinations.deletedAt),
    tenant === undefined ? undefined : eq(destinations.tenant, tenant),
  );
}
