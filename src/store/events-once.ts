/**
 * Writing events at most once for a key of their sender's.
 *
 * The last event of a request keeps its key. Every statement of the insertion asks first whether the key is
 * taken, and only the last one, at its end, takes it: so a request of several statements is stored as a
 * whole or not at all, and one key costs one index entry however many events it stands for. Rows that are
 * inserted in one transaction have consecutive ids, so that the last one and their number name them all.
 *
 * A key leads to one database, where two requests at once are told apart. When there were fewer databases it
 * may have led to another: so the others are asked for it first.
 */
import {
  type AcceptedEvent,
  type AcceptedRow,
  acceptedFrom,
  acceptedOf,
  capped,
  committed,
  type DeliveryCap,
  insertions,
  type NewEvent,
  NO_CAP,
  withPlans,
} from "./events.ts";
import { allOf, type Databases, databaseAt } from "./shards.ts";

/** A request's name, and the digest of its content by which its repeat is known. */
export type Once = Readonly<{ key: string; fingerprint: string }>;

export type AcceptedOnce =
  | Readonly<{ kind: "accepted" | "replayed"; events: readonly AcceptedEvent[] }>
  /** The key stands for something else. */
  | Readonly<{ kind: "conflict" }>;

const UNLESS_TAKEN = `
  WHERE NOT EXISTS (SELECT 1 FROM events taken WHERE taken.tenant = ?3 AND taken.idempotency_key = ?4)`;

/** Of a repeat nothing is inserted: there is nothing of it to be counted among the newest events. */
const IF_JUST_TAKEN = `
  AND EXISTS (SELECT 1 FROM events newest WHERE newest.id = (SELECT max(id) FROM events)
    AND newest.tenant = ?3 AND newest.idempotency_key = ?4)`;

const STORED = `
  WITH last AS (SELECT id, fingerprint FROM events WHERE tenant = ?1 AND idempotency_key = ?2)
  SELECT e.id, e.plan, e.deliver_at AS deliverAt, last.id AS last, last.fingerprint
  FROM last JOIN events e ON e.id > last.id - ?3 AND e.id <= last.id`;

type StoredRow = AcceptedRow & Readonly<{ last: number; fingerprint: string }>;

/**
 * Stores the events in the database of that number, all or none, unless the key has been used; returns what
 * is stored under it. A key is one of the last event's tenant.
 * @param acceptedAt epoch ms
 */
export async function insertEventsOnce(
  databases: Databases,
  number: number,
  events: readonly NewEvent[],
  acceptedAt: number,
  { key, fingerprint }: Once,
  cap: DeliveryCap = NO_CAP,
): Promise<AcceptedOnce> {
  const last = events.at(-1);
  if (last === undefined) return { kind: "accepted", events: [] };
  const keyed = [...events.slice(0, -1), { ...last, idempotencyKey: key, fingerprint }];
  const home = databaseAt(databases, number);
  const storedIn = (db: D1Database) => db.prepare(STORED).bind(last.tenant, key, events.length);
  const others = allOf(databases).filter((db) => db !== home);
  const [planned, ...elsewhere] = await Promise.all([
    withPlans(databases, number, keyed),
    ...others.map((db) => storedIn(db).all<StoredRow>()),
  ]);
  const before = elsewhere.find(({ results }) => results.length > 0);
  if (before) return answerOf(before.results, fingerprint, events.length);
  const guard = { where: UNLESS_TAKEN, values: [last.tenant, key] };
  const statements = [
    ...insertions(databases, number, planned, acceptedAt, guard),
    ...capped(home, events.length, cap, { where: IF_JUST_TAKEN, values: guard.values }),
    storedIn(home),
  ];
  const results = await committed(home.batch<StoredRow>(statements));
  const accepted = acceptedFrom(results.slice(0, -1));
  if (accepted.length > 0) return { kind: "accepted", events: accepted };
  return answerOf(results.at(-1)?.results ?? [], fingerprint, events.length);
}

/** What a request gets whose key is taken. */
function answerOf(stored: readonly StoredRow[], fingerprint: string, count: number): AcceptedOnce {
  const [first] = stored;
  if (first?.fingerprint !== fingerprint) return { kind: "conflict" };
  return { kind: "replayed", events: complete(stored, first.last, count) };
}

/** All `count` events up to `last`: of one that is there no more, its id is known and its plan is over. */
function complete(stored: readonly StoredRow[], last: number, count: number): AcceptedEvent[] {
  const found = new Map(stored.map((row) => [row.id, acceptedOf(row)]));
  const ids = Array.from({ length: count }, (_, i) => last - count + 1 + i);
  return ids.map((id) => found.get(id) ?? { id, plan: [], isRemoved: true });
}
