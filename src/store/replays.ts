/**
 * Replays as jobs: begun, found and changed. That a destination has one at a time is held by a unique index,
 * not by looking first.
 */
import { and, desc, eq, inArray, lt, lte, sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import type { Destination } from "./destination-settings.ts";
import { destinations, type ReplayState, replays } from "./schema.ts";

export type Replay = typeof replays.$inferSelect;
export type NewReplay = typeof replays.$inferInsert;

type Tenant = string | undefined;

const ofTenant = (tenant: Tenant) => (tenant === undefined ? undefined : eq(replays.tenant, tenant));
const isUnderWay = sql`state IN ('running', 'paused')`;

export async function findReplay(db: D1Database, id: string, tenant: Tenant): Promise<Replay | undefined> {
  return drizzle(db)
    .select()
    .from(replays)
    .where(and(eq(replays.id, id), ofTenant(tenant)))
    .get();
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
  db: D1Database,
  { tenant, destinationId, state, before, limit }: ReplayFilter,
): Promise<PlacedReplay[]> {
  const place = sql<number>`replays.rowid`;
  return drizzle(db)
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
}

/** What may be changed of a replay. */
export type ReplayChange = Partial<Pick<Replay, "state" | "because" | "pace" | "nextStepAt" | "endedAt">>;

/** The replay after the change; undefined when it is in none of the states `from`. */
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
