/** Events of Breakwater's own, for the operator: ordinary events of a tenant that is reserved for them. */

/** The reserved tenant. */
export const OPERATOR = "operator";

/** Whether the operator has a destination for them. */
export async function isOperatorListening(db: D1Database): Promise<boolean> {
  const listening = "SELECT 1 FROM destinations d WHERE d.tenant = ?1 AND d.deleted_at IS NULL";
  return (await db.prepare(listening).bind(OPERATOR).first()) !== null;
}
