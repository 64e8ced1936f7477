/**
 * What a replay consists of: the deliveries that had ended as asked for when it began, of events that were
 * accepted in its time. Found in order of their events from its cursor on; set to wait in portions, each in
 * the same transaction as the cursor that passes it, so that two steps at once make one.
 */
import { bundleIdOf, typeOf } from "./event-columns.ts";
import type { EventRange } from "./moments.ts";
import { REOPENED } from "./reopen.ts";
import type { NewReplay, Replay, ReplayChange } from "./replays.ts";
import { modelOf, type RawRow } from "./row-model.ts";
import { replays } from "./schema.ts";

type Include = Replay["include"];

/** By the index of the dead where there is one for it; else along the destination's whole log. */
const sources: Readonly<Record<Include, string>> = {
  dead: "deliveries INDEXED BY deliveries_dead WHERE state = 'dead' AND",
  delivered: "deliveries WHERE",
};

const TYPE = typeOf("b.header", "d.event_id");

/** Whether a replay `r` means a delivery `d`, whose bundle is `b`: none that was older than `?6` ms when it began. Patterns of types are as in core/routing.ts. */
const IS_MEANT = `d.state = r.include AND d.ended_at <= r.created_at
  AND b.accepted_at >= r.since AND b.accepted_at < r.until
  AND coalesce(b.deliver_at, b.accepted_at) > r.created_at - ?6
  AND (r.event_types IS NULL OR EXISTS (
    SELECT 1 FROM json_each(r.event_types) p
    WHERE p.value = ${TYPE} OR p.value = '*'
      OR (substr(p.value, -2) = '.*' AND substr(${TYPE}, 1, length(p.value) - 1) = substr(p.value, 1, length(p.value) - 1))))`;

/** A replay over more than this is to be asked for in parts. */
export const LARGEST = 1_000_000;

/** The next deliveries of a destination after an event, whether they are meant or not. */
const next = (include: Include) => `
  SELECT event_id, state, ended_at FROM ${sources[include]}
    destination_id = ?2 AND event_id > ?3 AND event_id <= ?4 ORDER BY event_id LIMIT ?5`;

/** How many deliveries of this kind the destination has in the range; `limit` stands for more. */
export async function countCandidates(
  db: D1Database,
  { include, destinationId }: Pick<Replay, "include" | "destinationId">,
  { first, last }: EventRange,
  limit: number,
): Promise<number> {
  const count = `SELECT count(*) AS n FROM (SELECT 1 FROM ${sources[include]}
    destination_id = ?1 AND event_id BETWEEN ?2 AND ?3 LIMIT ?4)`;
  return (await db.prepare(count).bind(destinationId, first, last, limit).first<number>("n")) ?? 0;
}

/** Begins a replay and counts what it means; undefined when its destination has one under way. */
export async function beginReplay(
  db: D1Database,
  { id, destinationId, include, ...rest }: NewReplay,
  { first, last }: EventRange,
  limit: number,
  keptMs: number,
): Promise<Replay | undefined> {
  const row = { id, destinationId, include, ...rest };
  const total = `UPDATE replays AS r SET total = (
      SELECT count(*) FROM (${next(include)}) d JOIN bundles b ON b.id = ${bundleIdOf("d.event_id")} WHERE ${IS_MEANT})
    WHERE id = ?1 RETURNING *`;
  const [, counted] = await db.batch<RawRow>([
    insertion(db, row),
    db.prepare(total).bind(id, destinationId, first - 1, last, limit, keptMs),
  ]);
  const raw = counted?.results[0];
  return raw && modelOf(replays, raw);
}

function insertion(db: D1Database, row: NewReplay): D1PreparedStatement {
  return db
    .prepare(
      `INSERT INTO replays (id, tenant, destination_id, include, event_types, since, until, rate_per_minute,
         state, cursor, pace, next_step_at, created_at, updated_at)
       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 'running', ?9, ?8, ?10, ?10, ?10) ON CONFLICT DO NOTHING`,
    )
    .bind(
      row.id,
      row.tenant,
      row.destinationId,
      row.include,
      row.eventTypes ? JSON.stringify(row.eventTypes) : null,
      row.since,
      row.until,
      row.ratePerMinute,
      row.cursor ?? 0,
      row.createdAt,
    );
}

/** So many deliveries are looked at for one portion, at a time at most and in all. */
const PAGE = 1_000;
const LOOKED_AT = 10_000;

export type Portion = Readonly<{
  /** The events of the deliveries to set to wait. */
  events: readonly number[];
  /** The last event looked at. */
  cursor: number;
  /** Whether there is nothing after it. */
  isLast: boolean;
}>;

/** The next `size` deliveries that the replay means, or fewer when many have to be passed over. */
export async function findPortion(
  db: D1Database,
  replay: Replay,
  last: number,
  size: number,
  keptMs: number,
): Promise<Portion> {
  const events: number[] = [];
  let { cursor } = replay;
  // Without a choice of types nearly everything is often meant: no more is read than that, until it proves otherwise.
  let page = replay.eventTypes === null ? Math.min(PAGE, size + 1) : PAGE;
  for (let lookedAt = 0; lookedAt < LOOKED_AT; lookedAt += page) {
    if (lookedAt > 0) page = Math.min(PAGE, 2 * page);
    const looked = await lookOn(db, replay, { cursor, last, limit: page, keptMs });
    for (const { event, meant } of looked) {
      if (meant && events.length === size) return { events, cursor, isLast: false };
      if (meant) events.push(event);
      cursor = event;
    }
    if (looked.length < page) return { events, cursor, isLast: true };
  }
  return { events, cursor, isLast: false };
}

type Looked = { event: number; meant: number };

async function lookOn(
  db: D1Database,
  { id, destinationId, include }: Replay,
  { cursor, last, limit, keptMs }: Readonly<{ cursor: number; last: number; limit: number; keptMs: number }>,
): Promise<Looked[]> {
  const { results } = await db
    .prepare(
      `SELECT d.event_id AS event, coalesce(${IS_MEANT}, 0) AS meant
       FROM replays r CROSS JOIN (${next(include)}) d LEFT JOIN bundles b ON b.id = ${bundleIdOf("d.event_id")}
       WHERE r.id = ?1 ORDER BY d.event_id`,
    )
    .bind(id, destinationId, cursor, last, limit, keptMs)
    .all<Looked>();
  return results;
}

const isAt = (cursor: string) =>
  `EXISTS (SELECT 1 FROM replays WHERE id = ?2 AND state = 'running' AND cursor = ${cursor})`;

const LET_WAIT = `
  UPDATE deliveries SET ${REOPENED}, because = 'replayed', replay = ?2
  WHERE destination_id = ?3 AND event_id IN (SELECT value FROM json_each(?4)) AND state = ?5
    AND ended_at <= ?6 AND ${isAt("?7")}`;

const ADVANCE = `
  UPDATE replays SET cursor = ?3, moved = moved + changes(), pace = ?4, next_step_at = ?5, state = ?6,
    because = ?7, updated_at = ?8, ended_at = ?9
  WHERE id = ?1 AND state = 'running' AND cursor = ?2`;

/**
 * Sets a portion to wait until `giveUpAt` (epoch ms) at the latest, and the replay to what it is after that.
 * False when it was not, or no longer, running at this cursor: then nothing has changed.
 */
export async function advanceReplay(
  db: D1Database,
  replay: Replay,
  { events, cursor }: Omit<Portion, "isLast">,
  after: Required<ReplayChange>,
  giveUpAt: number,
  now: number,
): Promise<boolean> {
  const { id, destinationId, include, createdAt } = replay;
  const list = JSON.stringify(events);
  const letWait = db
    .prepare(LET_WAIT)
    .bind(giveUpAt, id, destinationId, list, include, createdAt, replay.cursor);
  const { pace, nextStepAt, state, because, endedAt } = after;
  const advance = db
    .prepare(ADVANCE)
    .bind(id, replay.cursor, cursor, pace, nextStepAt, state, because, now, endedAt);
  const results = await db.batch([letWait, advance]);
  return (results[1]?.meta.changes ?? 0) > 0;
}
