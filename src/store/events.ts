/**
 * Writing events: the promise and its plan, so that 202 means durable. In the first database, where the
 * destinations are, one statement does both. In another the plan is asked of the first one before: so it is
 * that of a moment before the commit, and accepting takes two round trips.
 */
import { beforeFirstOf } from "../policy/placement.ts";
import { letsThrough } from "./event-filter.ts";
import { type Databases, databaseAt } from "./shards.ts";

export type NewEvent = Readonly<{
  tenant: string;
  type: string;
  body: string;
  /** Not to be delivered before this, epoch ms; at once without it. */
  deliverAt?: number;
  idempotencyKey?: string;
  fingerprint?: string;
}>;

export type AcceptedEvent = Readonly<{
  /** The event's row. */
  id: number;
  /** The destinations that are to get it. */
  plan: readonly string[];
  /** When it is to be delivered, epoch ms, unless at once. */
  deliverAt?: number;
  /** It was stored once and is there no more: who was to get it is not known any more. */
  isRemoved?: true;
}>;

/** An event as D1 gives it back. */
export type AcceptedRow = Readonly<{ id: number; plan: string; deliverAt: number | null }>;

/**
 * The plan of an event `e`: the live destinations of the tenant that want the type, and whose filter lets
 * the data through, at this instant. A pattern is an exact name, `prefix.*` for everything below the prefix,
 * or `*`; none, or what a person has edited into something that is no JSON, takes every type.
 */
const PLAN = `(
      SELECT json_group_array(d.id) FROM destinations d INDEXED BY destinations_by_tenant
      WHERE d.tenant = e.value ->> 'tenant' AND d.deleted_at IS NULL
        AND (d.event_types IS NULL OR EXISTS (
          SELECT 1 FROM json_each(iif(json_valid(d.event_types), d.event_types, '["*"]')) p
          WHERE p.value = e.value ->> 'type' OR p.value = '*' OR (
            substr(p.value, -2) = '.*'
            AND substr(e.value ->> 'type', 1, length(p.value) - 1) = substr(p.value, 1, length(p.value) - 1)
          )
        ))
        AND (d.filter IS NULL OR ${letsThrough("d.filter", "e.value ->> 'body'")})
    )`;

/** Ids are given in the order of the array, in which `json_each` goes; to sort by it would be one more row read for each. */
const COLUMNS = "tenant, type, accepted_at, idempotency_key, fingerprint, deliver_at, body, plan";
const VALUES = `e.value ->> 'tenant', e.value ->> 'type', ?2, e.value ->> 'idempotencyKey',
    e.value ->> 'fingerprint', e.value ->> 'deliverAt', e.value ->> 'body'`;

/** SQLite gives the ids: to name the column, even as NULL, would be one more row read for each. */
const INSERT_FIRST = `
  INSERT INTO events (${COLUMNS}) SELECT ${VALUES}, ${PLAN} FROM json_each(?1) e`;

/** Ids go on from the last one, or begin where the database's do; plans come with the events. */
const insertFurther = (number: number) => `
  INSERT INTO events (id, ${COLUMNS})
  SELECT (SELECT coalesce(max(id), ${beforeFirstOf(number)}) FROM events) + e.key + 1, ${VALUES}, e.value ->> 'plan'
  FROM json_each(?1) e`;

/** A request plans more deliveries than it may: nothing of it is stored. */
export class TooManyDeliveries extends Error {
  readonly planned: number;

  constructor(planned: number) {
    super(`${planned} deliveries are planned`);
    this.planned = planned;
  }
}

/** How many deliveries one request may plan. */
export type DeliveryCap = Readonly<{
  most: number;
  /** More destinations than this no tenant has: so a small request needs no counting, which would read its rows again. */
  destinations: number;
}>;

/**
 * Counts the deliveries of the newest `?1` events, which the statements before it have inserted, and fails where
 * they are more than `?2`: the only way to undo a transaction from within. What it says ends up in the error. CASE
 * alone evaluates nothing that it does not come to.
 */
const failAbove = (where: string) => `
  SELECT 1 FROM (
    SELECT coalesce(sum(json_array_length(plan)), 0) AS planned
    FROM events WHERE id > (SELECT max(id) FROM events) - ?1)
  WHERE CASE WHEN planned > ?2 ${where} THEN json_extract('[]', 'planned=' || planned) END`;

/** The statement that undoes the insertion before it; none where there cannot be as many deliveries. */
export function capped(
  db: D1Database,
  events: number,
  { most, destinations }: DeliveryCap,
  { where, values }: Guard = NO_GUARD,
): D1PreparedStatement[] {
  if (events * Math.max(destinations, ALWAYS_POSSIBLE) <= most) return [];
  return [db.prepare(failAbove(where)).bind(events, most, ...values)];
}

/** A tenant may have as many although the deployment says fewer: from before that, or by hand. */
const ALWAYS_POSSIBLE = 1_000;

/** Rejects with `TooManyDeliveries` where that is why the batch has failed. */
export async function committed<T>(batch: Promise<T>): Promise<T> {
  try {
    return await batch;
  } catch (error) {
    const planned = /planned=(\d+)/.exec(String(error))?.[1];
    throw planned === undefined ? error : new TooManyDeliveries(Number(planned));
  }
}

/** Characters of one parameter: D1 takes strings up to 2 MB, and a character has up to three bytes. */
const MAX_PARAMETER = 600_000;

/**
 * Stores the events in the database of that number, all or none, and returns them in the order given. Rejects
 * with `TooManyDeliveries`, and stores none, where they plan more than the cap.
 * @param acceptedAt epoch ms
 */
export async function insertEvents(
  databases: Databases,
  number: number,
  events: readonly NewEvent[],
  acceptedAt: number,
  cap: DeliveryCap = NO_CAP,
): Promise<readonly AcceptedEvent[]> {
  const planned = await withPlans(databases, number, events);
  const db = databaseAt(databases, number);
  const statements = [
    ...insertions(databases, number, planned, acceptedAt),
    ...capped(db, events.length, cap),
  ];
  return acceptedFrom(await committed(db.batch<AcceptedRow>(statements)));
}

/** The events with their plans, for any database but the first, which finds them itself. */
export async function withPlans(
  { db }: Databases,
  number: number,
  events: readonly NewEvent[],
): Promise<readonly (NewEvent & { plan?: string })[]> {
  if (number === 0 || events.length === 0) return events;
  const select = db.prepare(`SELECT ${PLAN} AS plan FROM json_each(?1) e`);
  const results = await db.batch<{ plan: string }>(chunksOf(events).map((json) => select.bind(json)));
  const plans = results.flatMap(({ results }) => results);
  return events.map((event, i) => ({ ...event, plan: plans[i]?.plan ?? "[]" }));
}

/** A condition on the whole insertion, in SQL, with the values that it names `?3` and so on. */
type Guard = Readonly<{ where: string; values: readonly unknown[] }>;

const NO_GUARD: Guard = { where: "", values: [] };
export const NO_CAP: DeliveryCap = { most: Number.POSITIVE_INFINITY, destinations: 0 };

/** The statements that insert events with plans, for one batch: as few as the size of a parameter allows. */
export function insertions(
  databases: Databases,
  number: number,
  events: readonly NewEvent[],
  acceptedAt: number,
  { where, values }: Guard = NO_GUARD,
): D1PreparedStatement[] {
  const sql = number === 0 ? INSERT_FIRST : insertFurther(number);
  const statement = databaseAt(databases, number).prepare(
    `${sql} ${where} RETURNING id, plan, deliver_at AS deliverAt`,
  );
  return chunksOf(events).map((json) => statement.bind(json, acceptedAt, ...values));
}

/** What insertions have returned, in the order of the events. */
export function acceptedFrom(results: readonly D1Result<AcceptedRow>[]): AcceptedEvent[] {
  return results
    .flatMap(({ results }) => results)
    .sort((a, b) => a.id - b.id)
    .map(acceptedOf);
}

export function acceptedOf({ id, plan, deliverAt }: AcceptedRow): AcceptedEvent {
  return { id, plan: JSON.parse(plan), ...(deliverAt !== null && { deliverAt }) };
}

/** The events as JSON arrays, each below the size that one parameter may have. */
function chunksOf(events: readonly NewEvent[]): string[] {
  const chunks: string[][] = [];
  let room = 0;
  for (const event of events) {
    const json = JSON.stringify(event);
    if (json.length > room) {
      chunks.push([]);
      room = MAX_PARAMETER;
    }
    chunks.at(-1)?.push(json);
    room -= json.length + 1;
  }
  return chunks.map((chunk) => `[${chunk.join(",")}]`);
}
