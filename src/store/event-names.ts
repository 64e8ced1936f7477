/** What events are called, for a list of deliveries: without their bodies, which a list does not show. */
import { inArray } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import { events } from "./schema.ts";

export type EventName = Readonly<{ type: string; acceptedAt: number }>;

/** By row; those that somebody has removed are left out. */
export async function eventNames(
  db: D1Database,
  rows: readonly number[],
): Promise<ReadonlyMap<number, EventName>> {
  const { id, type, acceptedAt } = events;
  const found = await drizzle(db)
    .select({ id, type, acceptedAt })
    .from(events)
    .where(inArray(id, [...rows]));
  return new Map(found.map(({ id, ...name }) => [id, name]));
}
