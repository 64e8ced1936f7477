/** What events are called, for a list of deliveries: without their bodies, which a list does not show. */
import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import { events } from "./schema.ts";
import { type Databases, sharesOf } from "./shards.ts";

export type EventName = Readonly<{ type: string; acceptedAt: number }>;

/** By row; those that somebody has removed are left out. */
export async function eventNames(
  databases: Databases,
  rows: readonly number[],
): Promise<ReadonlyMap<number, EventName>> {
  const { id, type, acceptedAt } = events;
  const shares = sharesOf(databases, rows, (row) => row);
  const found = await Promise.all(
    [...shares].map(([db, share]) =>
      drizzle(db)
        .select({ id, type, acceptedAt })
        .from(events)
        .where(sql`${id} IN (${sql.raw(share.join())})`),
    ),
  );
  return new Map(found.flat().map(({ id, ...name }) => [id, name]));
}
