/**
 * Erasures as jobs: begun, found, listed, moved on. The job is its row in the first database. In each further one a row of
 * the same id counts what has been erased there, in one transaction with the erasing: so the counts are exact, however
 * often a step is made or killed.
 */

import { and, desc, eq, getTableColumns, lte, sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/d1";
import { modelOf, type RawRow } from "../../store/columns.ts";
import type { Databases } from "../../store/databases.ts";
import { erasures } from "../../store/schema.ts";

export type Erasure = typeof erasures.$inferSelect;

/** The target of an erasure, of one tenant. Times in epoch ms. */
export type ErasureInsert = Pick<
  Erasure,
  "id" | "tenant" | "kind" | "eventId" | "since" | "until" | "nextStepAt" | "createdAt"
>;

/** Erasures of more than one event that a tenant may have running: each walks through all bundles. */
export const MOST_WALKS = 5;

/** SQL: the jobs that are running. What counts in a further database is no job. */
const RUNNING = "erasures INDEXED BY erasures_running WHERE state = 'running'";

const INSERT = `
  INSERT INTO erasures (id, tenant, kind, event_id, since, until, state, next_step_at, created_at, updated_at)
  SELECT ?1, ?2, ?3, ?4, ?5, ?6, 'running', ?7, ?8, ?8
  WHERE ?9 OR ?3 = 'event' OR (SELECT count(*) FROM (
    SELECT 1 FROM ${RUNNING} AND tenant = ?2 AND kind <> 'event' LIMIT ${MOST_WALKS})) < ${MOST_WALKS}
  RETURNING *`;

/**
 * Begins an erasure, and returns its row.
 * @param always whether it begins even if the tenant has as many running as it may; otherwise it returns nothing then
 */
export function erasureBeginning(db: D1Database, row: ErasureInsert, always: boolean): D1PreparedStatement {
  const { id, tenant, kind, eventId, since, until, nextStepAt, createdAt } = row;
  return db
    .prepare(INSERT)
    .bind(id, tenant, kind, eventId, since, until, nextStepAt, createdAt, always ? 1 : 0);
}

/** Undefined when the tenant has as many running as it may. */
export async function insertErasure(db: D1Database, row: ErasureInsert): Promise<Erasure | undefined> {
  const raw = await erasureBeginning(db, row, false).first<RawRow>();
  return raw === null ? undefined : erasureOf(raw);
}

/** The row that `erasureBeginning` has returned. */
export function erasureOf(raw: RawRow): Erasure {
  return modelOf(erasures, raw);
}

/** The job with its counts of all databases. */
export async function findErasure(databases: Databases, id: string, tenant: string | undefined) {
  const job = await findErasureJob(databases.db, id);
  const isVisible = job !== undefined && (tenant === undefined || job.tenant === tenant);
  const [summed] = await withCounts(databases, isVisible ? [job] : []);
  return summed;
}

/** The job as its row has it. */
export async function findErasureJob(db: D1Database, id: string): Promise<Erasure | undefined> {
  return drizzle(db).select().from(erasures).where(eq(erasures.id, id)).get();
}

type Page = Readonly<{
  tenant: string | undefined;
  /** The position of the last one on the page before. */
  before: number | undefined;
  limit: number;
}>;

/** The newest first; `next` is the position that the next page starts after. */
export async function listErasures(databases: Databases, { tenant, before, limit }: Page) {
  const place = sql<number>`erasures.rowid`;
  const found = await drizzle(databases.db)
    .select({ place, erasure: getTableColumns(erasures) })
    .from(erasures)
    .where(
      and(
        tenant === undefined ? undefined : eq(erasures.tenant, tenant),
        before === undefined ? undefined : sql`${place} < ${before}`,
      ),
    )
    .orderBy(desc(place))
    .limit(limit + 1);
  const shown = found.slice(0, limit);
  const jobs = shown.map(({ erasure }) => erasure);
  const next = found.length > limit ? shown.at(-1)?.place : undefined;
  return { erasures: await withCounts(databases, jobs), next };
}

async function withCounts({ further = [] }: Databases, jobs: readonly Erasure[]): Promise<Erasure[]> {
  const ids = JSON.stringify(jobs.map(({ id }) => id));
  const isNamed = sql`${erasures.id} IN (SELECT value FROM json_each(${ids}))`;
  const others = await Promise.all(
    jobs.length === 0 ? [] : further.map((db) => drizzle(db).select().from(erasures).where(isNamed)),
  );
  const parts = Map.groupBy([...jobs, ...others.flat()], ({ id }) => id);
  return jobs.map((job) => {
    const all = parts.get(job.id) ?? [];
    const sum = (count: (part: Erasure) => number) => all.reduce((total, one) => total + count(one), 0);
    const [events, deliveries] = [sum((one) => one.events), sum((one) => one.deliveries)];
    return { ...job, events, deliveries, cancelled: sum((one) => one.cancelled) };
  });
}

const PART = `
  INSERT INTO erasures (id, tenant, kind, state, next_step_at, created_at, updated_at)
  VALUES (?1, ?2, ?3, 'completed', 0, ?4, ?4) ON CONFLICT DO NOTHING`;

/** Makes room for the counts of a further database. */
export async function insertPart(db: D1Database, { id, tenant, kind }: Erasure, now: number): Promise<void> {
  await db.prepare(PART).bind(id, tenant, kind, now).run();
}

/** The columns that a step changes. */
export type ErasureProgress = Pick<Erasure, "cursor" | "state" | "unreadable" | "nextStepAt" | "endedAt">;

/** SQL: the cursor as it is read. One that an edit by hand has made unreadable is at the beginning. */
const CURSOR = sql`json(iif(json_valid(${erasures.cursor}) AND json_type(${erasures.cursor}) = 'array', ${erasures.cursor}, '[]'))`;

/** False when another step has moved it on. */
export async function moveErasure(
  db: D1Database,
  { id, cursor }: Erasure,
  progress: ErasureProgress,
  now: number,
): Promise<boolean> {
  const moved = await drizzle(db)
    .update(erasures)
    .set({ ...progress, updatedAt: now })
    .where(and(eq(erasures.id, id), eq(erasures.state, "running"), eq(CURSOR, JSON.stringify(cursor))))
    .returning({ id: erasures.id });
  return moved.length > 0;
}

/** Ids of up to `limit` running erasures whose next step was due by then. */
export async function overdueErasures(db: D1Database, dueBy: number, limit: number): Promise<string[]> {
  const rows = await drizzle(db)
    .select({ id: sql<string>`id` })
    .from(sql`erasures INDEXED BY erasures_running`)
    .where(and(sql`state = 'running'`, lte(sql`next_step_at`, dueBy)))
    .orderBy(sql`next_step_at`)
    .limit(limit);
  return rows.map(({ id }) => id);
}

/** A header without a list of tenants may be any tenant's. */
const PAGE = `
  SELECT id, accepted_at AS acceptedAt, plan, header FROM (
    SELECT id, accepted_at, plan, header FROM bundles WHERE id > ?1 AND id <= ?2 ORDER BY id LIMIT ?4)
  WHERE iif(json_valid(header) AND json_type(header, '$.tenants') = 'array',
    instr(header -> '$.tenants', '"' || ?3 || '"') > 0, 1)`;

const PAGE_ENDS = `
  SELECT max(id) AS upto, count(*) AS looked FROM (
    SELECT id FROM bundles WHERE id > ?1 AND id <= ?2 ORDER BY id LIMIT ?3)`;

export type TenantBundle = Readonly<{ id: number; acceptedAt: number; plan: string; header: string }>;

type TenantBundles = Readonly<{
  bundles: readonly TenantBundle[];
  /** The last bundle read; undefined when none comes after it. */
  upto: number | undefined;
}>;

/**
 * The bundles among the next `limit` after `after`, up to `last`, with events of the tenant, or perhaps with some: their
 * headers cannot be read. The names of tenants need no escape in JSON.
 */
export async function bundlesOfTenant(
  db: D1Database,
  tenant: string,
  { after, last, limit }: Readonly<{ after: number; last: number; limit: number }>,
): Promise<TenantBundles> {
  const [found, ends] = await db.batch<RawRow>([
    db.prepare(PAGE).bind(after, last, tenant, limit),
    db.prepare(PAGE_ENDS).bind(after, last, limit),
  ]);
  const { upto, looked } = ends?.results[0] ?? {};
  const bundles = (found?.results ?? []) as unknown as TenantBundle[];
  return { bundles, upto: Number(looked ?? 0) < limit ? undefined : Number(upto) };
}
