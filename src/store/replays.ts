/**
 * Replays as jobs: found, listed, changed. That a destination has at most one at a time is guaranteed by a unique index,
 * not by looking first.
 *
 * With several databases the job is its row in the first, which is also the part there. In each further one a row of the
 * same id is the part: which deliveries it selects there, how far it has come and how many have ended, each written in
 * one transaction with the deliveries. Parts are worked off one after the other, that of the first database last: when
 * that has ended, so has the replay.
 */

import { and, desc, eq, getTableColumns, inArray, lte, type SQL, sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import type { ReplayReason } from "../core/reasons.ts";
import type { Databases } from "./databases.ts";
import { type Destination, destinations } from "./destination.ts";
import { type ReplayState, replays } from "./schema.ts";
import { IS_UNDER_WAY } from "./sql.ts";

export type Replay = typeof replays.$inferSelect;
export type ReplayInsert = typeof replays.$inferInsert;

type Tenant = string | undefined;

const ofTenant = (tenant: Tenant) => (tenant === undefined ? undefined : eq(replays.tenant, tenant));
const isUnderWay = sql.raw(IS_UNDER_WAY);

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

export async function replayUnderWay(db: D1Database, destination: string): Promise<Replay | undefined> {
  return drizzle(db)
    .select()
    .from(replays)
    .where(and(eq(replays.destinationId, destination), isUnderWay))
    .get();
}

type ReplayFilter = Readonly<{
  tenant: Tenant;
  destinationId: string | undefined;
  state: ReplayState | undefined;
  /** The position of the last replay on the page before. */
  before: number | undefined;
  limit: number;
}>;

/** `next` is the position that the next page starts after; undefined on the last one. */
type ReplayPage = Readonly<{ replays: readonly Replay[]; next: number | undefined }>;

/** Most replays that one page reads when a state is requested. */
const LOOKED_AT = 1_000;

/** The newest first. With a state in the filter a page may be short, or empty, and still have a next one. */
export async function listReplays(databases: Databases, filter: ReplayFilter): Promise<ReplayPage> {
  const { state, limit } = filter;
  const db = drizzle(databases.db);
  const looked = sql`(SELECT rowid AS place FROM ${sourceOf(filter)} WHERE ${isFound(filter) ?? sql`true`}
    ORDER BY rowid DESC LIMIT ${LOOKED_AT}) AS looked`;
  const place = sql<number>`looked.place`;
  const placed = await db
    .select({ place, replay: getTableColumns(replays) })
    .from(looked)
    .innerJoin(replays, sql`replays.rowid = looked.place`)
    .where(state === undefined ? undefined : eq(replays.state, state))
    .orderBy(desc(place))
    .limit(limit + 1);
  const found = await withParts(
    databases,
    placed.slice(0, limit).map(({ replay }) => replay),
  );
  if (placed.length > limit) return { replays: found, next: placed[limit - 1]?.place };
  if (state === undefined) return { replays: found, next: undefined };
  const last = await db
    .select({ place })
    .from(looked)
    .orderBy(desc(place))
    .limit(1)
    .offset(LOOKED_AT - 1)
    .get();
  return { replays: found, next: last?.place };
}

/** The index for the filter. Each of them ends with the rowid, the order of the list. */
function sourceOf({ tenant, destinationId }: ReplayFilter): SQL {
  if (destinationId !== undefined) return sql`replays INDEXED BY replays_by_destination`;
  return tenant === undefined ? sql`replays` : sql`replays INDEXED BY replays_by_tenant`;
}

function isFound({ tenant, destinationId, before }: ReplayFilter): SQL | undefined {
  return and(
    ofTenant(tenant),
    destinationId === undefined ? undefined : eq(replays.destinationId, destinationId),
    before === undefined ? undefined : sql`rowid < ${before}`,
  );
}

export type ReplayChange = Partial<Pick<Replay, "state" | "reason" | "pace" | "nextStepAt" | "endedAt">>;

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
 * Cancels the replays under way of all deleted destinations, or of one destination if it is deleted, and returns them.
 * Raw SQL to name the index, which holds nothing but replays under way.
 */
export async function cancelReplaysOf(
  db: D1Database,
  reason: ReplayReason,
  now: number,
  destination?: string,
): Promise<Pick<Replay, "id" | "destinationId">[]> {
  const [ofOne, one] = destination === undefined ? ["", []] : ["AND destination_id = ?3", [destination]];
  const cancel = db.prepare(
    `UPDATE replays INDEXED BY replays_under_way SET state = 'cancelled', reason = ?1, ended_at = ?2, updated_at = ?2
     WHERE ${IS_UNDER_WAY} ${ofOne} AND EXISTS (
       SELECT 1 FROM destinations d WHERE d.id = destination_id AND d.deleted_at IS NOT NULL)
     RETURNING id, destination_id AS destinationId`,
  );
  return (await cancel.bind(reason, now, ...one).all<Pick<Replay, "id" | "destinationId">>()).results;
}

export type ReplayJob = Readonly<{ replay: Replay; destination: Destination | null }>;

export async function findReplayJob(db: D1Database, id: string): Promise<ReplayJob | undefined> {
  return drizzle(db)
    .select({ replay: replays, destination: destinations })
    .from(replays)
    .leftJoin(destinations, eq(destinations.id, replays.destinationId))
    .where(eq(replays.id, id))
    .get();
}

/** Ids of up to `limit` running replays whose next step was due by then. Reads only replays under way. */
export async function overdueReplays(db: D1Database, dueBy: number, limit: number): Promise<string[]> {
  const rows = await drizzle(db)
    .select({ id: sql<string>`id` })
    .from(sql`replays INDEXED BY replays_under_way`)
    .where(and(isUnderWay, sql`state = 'running'`, lte(sql`next_step_at`, dueBy)))
    .limit(limit);
  return rows.map(({ id }) => id);
}

/** The job with the counts of all its parts, its own among them. */
export function summedUp(job: Replay, parts: readonly Replay[]): Replay {
  const sum = (count: (part: Replay) => number) => parts.reduce((all, part) => all + count(part), 0);
  return {
    ...job,
    total: sum(({ total }) => total),
    requeued: sum(({ requeued }) => requeued),
    delivered: sum(({ delivered }) => delivered),
    failed: sum(({ failed }) => failed),
  };
}

export async function withParts({ further = [] }: Databases, jobs: readonly Replay[]): Promise<Replay[]> {
  const ids = jobs.map(({ id }) => id);
  const others = (await Promise.all(further.map((db) => partsIn(db, ids)))).flat();
  const parts = Map.groupBy([...jobs, ...others], ({ id }) => id);
  return jobs.map((job) => summedUp(job, parts.get(job.id) ?? []));
}

export async function partsIn(db: D1Database, ids: readonly string[]): Promise<Replay[]> {
  if (ids.length === 0) return [];
  return drizzle(db)
    .select()
    .from(replays)
    .where(sql`${replays.id} IN (SELECT value FROM json_each(${JSON.stringify(ids)}))`);
}
