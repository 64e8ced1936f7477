/**
 * Replays as jobs: begun, found and changed. That a destination has one at a time is held by a unique index,
 * not by looking first.
 */
import { and, desc, eq, inArray, lt, lte, sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import type { Destination } from "./destination-settings.ts";
import { withParts } from "./replay-parts.ts";
import { destinations, type ReplayState, replays } from "./schema.ts";
import type { Databases } from "./shards.ts";

export type Replay = typeof replays.$inferSelect;
export type NewReplay = typeof replays.$inferInsert;

type Tenant = string | undefined;

const ofTenant = (tenant: Tenant) => (tenant === undefined ? undefined : eq(replays.tenant, tenant));
const isUnderWay = sql`state IN ('running', 'paused')`;

export async function findReplay(
  databases: Databases,
  id: string,
  tenant: Tenant,
): Promise<Replay | undefined> {
  const job = await drizzle(databases.db)
    .select()
    .from(replays)
    .where(and(eq(replays.id, id), ofTenant(tenant)))
    .get();
  const [replay] = await withParts(databases, job ? [job] : []);
  return replay;
}

/** The replay of a destination that has not ended. */
export async function replayUnderWay(db: D1Database, destination: string): Promise<Replay | undefined> {
  return drizzle(db)
    .select()
    .from(replays)
    .where(and(eq(replays.destinationId, destination), isUnderWay))
    .get();
}

export type ReplayFilter = Readonly<{
  tenant: Tenant;
  destinationId: string | undefined;
  state: ReplayState | undefined;
  /** The place of the last one on the page before. */
  before: number | undefined;
  limit: number;
}>;

export type PlacedReplay = Readonly<{ place: number; replay: Replay }>;

/** The newest first. There are as many as people have asked for: few. */
export async function listReplays(
  databases: Databases,
  { tenant, destinationId, state, before, limit }: ReplayFilter,
): Promise<PlacedReplay[]> {
  const place = sql<number>`replays.rowid`;
  const placed = await drizzle(databases.db)
    .select({ place, replay: replays })
    .from(replays)
    .where(
      and(
        ofTenant(tenant),
        destinationId === undefined ? undefined : eq(replays.destinationId, destinationId),
        state === undefined ? undefined : eq(replays.state, state),
        before === undefined ? undefined : lt(place, before),
      ),
    )
    .orderBy(desc(place))
    .limit(limit);
  const summed = await withParts(
    databases,
    placed.map(({ replay }) => replay),
  );
  return placed.map(({ place, replay }, i) => ({ place, replay: summed[i] ?? replay }));
}

/** What may be changed of a replay. */
export type ReplayChange = Partial<Pick<Replay, "state" | "because" | "pace" | "nextStepAt" | "endedAt">>;

/** The job after the change; undefined when it is in none of the states `from`. */
export async function changeReplay(
  db: D1Database,
  id: string,
  from: readonly ReplayState[],
  change: ReplayChange,
  now: number,
): Promise<Replay | undefined> {
  return drizzle(db)
    .update(replays)
    .set({ ...change, updatedAt: now })
    .where(and(eq(replays.id, id), inArray(replays.state, [...from])))
    .returning()
    .get();
}

/**
 * Cancels what has not ended of the replays of deleted destinations, or of one of them that is deleted, and
 * returns them. The index holds nothing else than what has not ended.
 */
export async function cancelReplaysOf(
  db: D1Database,
  because: string,
  now: number,
  destination?: string,
): Promise<Pick<Replay, "id" | "destinationId">[]> {
  const cancel = db.prepare(
    `UPDATE replays INDEXED BY replays_under_way SET state = 'cancelled', because = ?1, ended_at = ?2, updated_at = ?2
     WHERE state IN ('running', 'paused') AND (?3 IS NULL OR destination_id = ?3) AND EXISTS (
       SELECT 1 FROM destinations d WHERE d.id = destination_id AND d.deleted_at IS NOT NULL)
     RETURNING id, destination_id AS destinationId`,
  );
  return (await cancel.bind(because, now, destination ?? null).all<Pick<Replay, "id" | "destinationId">>())
    .results;
}

/** A replay and where it leads. */
export type ReplayJob = Readonly<{ replay: Replay; destination: Destination | null }>;

export async function findReplayJob(db: D1Database, id: string): Promise<ReplayJob | undefined> {
  return drizzle(db)
    .select({ replay: replays, destination: destinations })
    .from(replays)
    .leftJoin(destinations, eq(destinations.id, replays.destinationId))
    .where(eq(replays.id, id))
    .get();
}

/** Up to `limit` running replays whose next step was due by then: by the index of those under way. */
export async function overdueReplays(db: D1Database, dueBy: number, limit: number): Promise<string[]> {
  const rows = await drizzle(db)
    .select({ id: sql<string>`id` })
    .from(sql`replays INDEXED BY replays_under_way`)
    .where(and(isUnderWay, sql`state = 'running'`, lte(sql`next_step_at`, dueBy)))
    .limit(limit);
  return rows.map(({ id }) => id);
}
