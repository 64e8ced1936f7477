/** Events and the idempotency keys under which each was posted alone: found by the key, and the keys by the events. */
import { bundleOf, eventAt } from "../core/bundle.ts";
import { allOf, type Databases, sharesOf } from "./shards.ts";

/** What the keys begin with that messages of the Svix API have as their `eventId`. */
export const EVENT_ID = "svix-event-id:";

const BY_KEY = `
  SELECT bundles ->> ('$[' || (places ->> '$[0][0]') || ']') AS bundle, places ->> '$[0][1]' AS place
  FROM idempotency_keys WHERE tenant = ?1 AND key = ?2`;

/** The number of the event that was posted under the key; undefined when there is none. */
export async function eventOfKey(
  databases: Databases,
  tenant: string,
  key: string,
): Promise<number | undefined> {
  const found = await Promise.all(
    allOf(databases).map((db) =>
      db.prepare(BY_KEY).bind(tenant, key).first<{ bundle: number; place: number }>(),
    ),
  );
  const [row] = found.filter((one) => one !== null);
  return row && eventAt(row.bundle, row.place);
}

/** The header of a bundle names the keys of its events: no index leads from an event to its key. */
const KEYS = `
  SELECT s.key, b.id AS bundle, s.places ->> '$[0][1]' AS place
  FROM json_each(?1) w CROSS JOIN bundles b ON b.id = w.value
    CROSS JOIN json_each(b.header, '$.keys') k
    CROSS JOIN idempotency_keys s ON s.tenant = k.value ->> 0 AND s.key = k.value ->> 1
  WHERE s.tenant = ?2 AND json_array_length(s.places) = 1`;

/** The keys of these events of a tenant, by the numbers of the events. */
export async function keysOfEvents(
  databases: Databases,
  tenant: string,
  events: readonly number[],
): Promise<ReadonlyMap<number, string>> {
  const keys = new Map<number, string>();
  for (const [db, share] of sharesOf(databases, events, (event) => event)) {
    const bundles = JSON.stringify([...new Set(share.map(bundleOf))]);
    const { results } = await db
      .prepare(KEYS)
      .bind(bundles, tenant)
      .all<{ key: string; bundle: number; place: number }>();
    for (const { key, bundle, place } of results) keys.set(eventAt(bundle, place), key);
  }
  return keys;
}
