/** What the operator has been told, in its order. */
import { storedBodies } from "./stored-bodies.ts";

export type Told = Readonly<{ type: string; key: string | null; data: Readonly<Record<string, unknown>> }>;

/** Each is a single event under a key, and the keys of a bundle are in the order of its events. */
export async function operationalEvents(db: D1Database): Promise<Told[]> {
  const { results } = await db
    .prepare(
      `SELECT e.type, e.tenant, b.header ->> ('$.keys[' || (e.id % 128) || '][1]') AS key
       FROM events e JOIN bundles b ON b.id = e.bundle_id ORDER BY e.id`,
    )
    .all<{ type: string; tenant: string; key: string | null }>();
  const bodies = await storedBodies([db]);
  return results.flatMap(({ type, tenant, key }, i) =>
    tenant === "operator" ? [{ type, key, data: JSON.parse(bodies[i] ?? "").data ?? {} }] : [],
  );
}
