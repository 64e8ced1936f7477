/**
 * Events of Breakwater's own, for the operator: ordinary events of a tenant that is reserved for them. They are
 * written only where somebody takes them, and each once: its key says which it is. They live in the first
 * database, beside the destinations that they are for.
 */
import { type AcceptedEvent, type AcceptedRow, acceptedFrom, insertions } from "./events.ts";

/** The reserved tenant. */
export const OPERATOR = "operator";

export type NewNotice = Readonly<{ type: string; body: string; key: string }>;

/** Whether the tenant of that parameter has a destination. */
const takenBy = (parameter: string) =>
  `SELECT 1 FROM destinations d WHERE d.tenant = ${parameter} AND d.deleted_at IS NULL`;
const KNOWN = "SELECT 1 FROM events known WHERE known.tenant = ?3 AND known.idempotency_key = ?4";

/**
 * Those of them, to be delivered, that were not known already; none where nobody takes any. One round trip.
 * @param also statements for the same transaction that return nothing
 */
export async function insertNotices(
  db: D1Database,
  notices: readonly NewNotice[],
  now: number,
  also: readonly D1PreparedStatement[] = [],
): Promise<readonly AcceptedEvent[]> {
  const statements = notices.flatMap(({ type, body, key }) => {
    const event = { tenant: OPERATOR, type, body, idempotencyKey: key };
    const guard = {
      where: `WHERE EXISTS (${takenBy("?3")}) AND NOT EXISTS (${KNOWN})`,
      values: [OPERATOR, key],
    };
    return insertions({ db }, 0, [event], now, guard);
  });
  const all = [...statements, ...also];
  return all.length === 0 ? [] : acceptedFrom(await db.batch<AcceptedRow>(all));
}

/** Whether the operator has a destination for them. */
export async function isOperatorListening(db: D1Database): Promise<boolean> {
  const row = await db.prepare(takenBy("?1")).bind(OPERATOR).first();
  return row !== null;
}
