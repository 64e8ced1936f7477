/** What the operator has been told, in its order. */

export type Told = Readonly<{ type: string; key: string | null; data: Readonly<Record<string, unknown>> }>;

export async function operationalEvents(db: D1Database): Promise<Told[]> {
  const { results } = await db
    .prepare("SELECT type, idempotency_key AS key, body FROM events WHERE tenant = 'operator' ORDER BY id")
    .all<{ type: string; key: string | null; body: string }>();
  return results.map(({ type, key, body }) => ({ type, key, data: JSON.parse(body).data ?? {} }));
}
