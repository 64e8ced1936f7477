/** Writing events: the promise and its plan in one statement, so that 202 means durable. */
import { letsThrough } from "./event-filter.ts";

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
}>;

/** An event as D1 gives it back. */
export type AcceptedRow = Readonly<{ id: number; plan: string; deliverAt: number | null }>;

/**
 * Inserts the events with their plans: the live destinations of the tenant that want the type, and whose
 * filter lets the data through, at this instant. A pattern is an exact name, `prefix.*` for everything below
 * the prefix, or `*`; none, or what a person has edited into something that is no JSON, takes every type.
 * Ids are given in the order of the array, in which `json_each` goes; to sort by it would be one more row
 * read for each.
 */
const INSERT = `
  INSERT INTO events (tenant, type, accepted_at, idempotency_key, fingerprint, deliver_at, plan, body)
  SELECT e.value ->> 'tenant', e.value ->> 'type', ?2,
    e.value ->> 'idempotencyKey', e.value ->> 'fingerprint', e.value ->> 'deliverAt', (
      SELECT json_group_array(d.id) FROM destinations d
      WHERE d.tenant = e.value ->> 'tenant' AND d.deleted_at IS NULL
        AND (d.event_types IS NULL OR EXISTS (
          SELECT 1 FROM json_each(iif(json_valid(d.event_types), d.event_types, '["*"]')) p
          WHERE p.value = e.value ->> 'type' OR p.value = '*' OR (
            substr(p.value, -2) = '.*'
            AND substr(e.value ->> 'type', 1, length(p.value) - 1) = substr(p.value, 1, length(p.value) - 1)
          )
        ))
        AND (d.filter IS NULL OR ${letsThrough("d.filter", "e.value ->> 'body'")})
    ), e.value ->> 'body'
  FROM json_each(?1) e`;

/** Characters of one parameter: D1 takes strings up to 2 MB, and a character has up to three bytes. */
const MAX_PARAMETER = 600_000;

/**
 * Stores the events, all or none, and returns them in the order given.
 * @param acceptedAt epoch ms
 */
export async function insertEvents(
  db: D1Database,
  events: readonly NewEvent[],
  acceptedAt: number,
): Promise<readonly AcceptedEvent[]> {
  return acceptedFrom(await db.batch<AcceptedRow>(insertions(db, events, acceptedAt)));
}

/** A condition on the whole insertion, in SQL, with the values that it names `?3` and so on. */
type Guard = Readonly<{ where: string; values: readonly unknown[] }>;

/** The statements that insert the events, for one batch: as few as the size of a parameter allows. */
export function insertions(
  db: D1Database,
  events: readonly NewEvent[],
  acceptedAt: number,
  { where, values }: Guard = { where: "", values: [] },
): D1PreparedStatement[] {
  const insert = db.prepare(`${INSERT} ${where} RETURNING id, plan, deliver_at AS deliverAt`);
  return chunksOf(events).map((json) => insert.bind(json, acceptedAt, ...values));
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
