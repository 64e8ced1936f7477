/**
 * Writing events at most once for a key of their sender's.
 *
 * The last event of a request keeps its key. Every statement of the insertion asks first whether the key is
 * taken, and only the last one, at its end, takes it: so a request of several statements is stored as a
 * whole or not at all, and one key costs one index entry however many events it stands for. Rows that are
 * inserted in one transaction have consecutive ids, so that the last one and their number name them all.
 */
import {
  type AcceptedEvent,
  type AcceptedRow,
  acceptedFrom,
  acceptedOf,
  insertions,
  type NewEvent,
} from "./events.ts";

/** A request's name, and the digest of its content by which its repeat is known. */
export type Once = Readonly<{ key: string; fingerprint: string }>;

export type AcceptedOnce =
  | Readonly<{ kind: "accepted" | "replayed"; events: readonly AcceptedEvent[] }>
  /** The key stands for something else. */
  | Readonly<{ kind: "conflict" }>;

const UNLESS_TAKEN = `
  WHERE NOT EXISTS (SELECT 1 FROM events taken WHERE taken.tenant = ?3 AND taken.idempotency_key = ?4)`;

const STORED = `
  WITH last AS (SELECT id, fingerprint FROM events WHERE tenant = ?1 AND idempotency_key = ?2)
  SELECT e.id, e.plan, e.deliver_at AS deliverAt, last.id AS last, last.fingerprint
  FROM last JOIN events e ON e.id > last.id - ?3 AND e.id <= last.id`;

type StoredRow = AcceptedRow & Readonly<{ last: number; fingerprint: string }>;

/**
 * Stores the events, all or none, unless the key has been used; returns what is stored under it. A key is
 * one of the last event's tenant.
 * @param acceptedAt epoch ms
 */
export async function insertEventsOnce(
  db: D1Database,
  events: readonly NewEvent[],
  acceptedAt: number,
  { key, fingerprint }: Once,
): Promise<AcceptedOnce> {
  const last = events.at(-1);
  if (last === undefined) return { kind: "accepted", events: [] };
  const keyed = [...events.slice(0, -1), { ...last, idempotencyKey: key, fingerprint }];
  const guard = { where: UNLESS_TAKEN, values: [last.tenant, key] };
  const results = await db.batch<StoredRow>([
    ...insertions(db, keyed, acceptedAt, guard),
    db.prepare(STORED).bind(last.tenant, key, events.length),
  ]);
  const accepted = acceptedFrom(results.slice(0, -1));
  if (accepted.length > 0) return { kind: "accepted", events: accepted };
  const stored = results.at(-1)?.results ?? [];
  if (stored[0]?.fingerprint !== fingerprint) return { kind: "conflict" };
  return { kind: "replayed", events: complete(stored, stored[0].last, events.length) };
}

/** All `count` events up to `last`: of one that is there no more, its id is known and its plan is over. */
function complete(stored: readonly StoredRow[], last: number, count: number): AcceptedEvent[] {
  const found = new Map(stored.map((row) => [row.id, acceptedOf(row)]));
  const ids = Array.from({ length: count }, (_, i) => last - count + 1 + i);
  return ids.map((id) => found.get(id) ?? { id, plan: [] });
}
