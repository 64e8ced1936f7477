/** What events are called, for a list of deliveries: without their bodies, which a list does not show. */
import { bundleOf, headerAt, indexOf, type StoredHeader } from "../core/bundle.ts";
import { type Databases, sharesOf } from "./shards.ts";

export type EventName = Readonly<{ tenant: string; type: string; acceptedAt: number }>;

const HEADERS = `
  SELECT id, header, accepted_at AS acceptedAt FROM bundles WHERE id IN (SELECT value FROM json_each(?1))`;

/** By the events' numbers; those that somebody has removed are left out. */
export async function eventNames(
  databases: Databases,
  events: readonly number[],
): Promise<ReadonlyMap<number, EventName>> {
  const shares = sharesOf(databases, events, (event) => event);
  const found = await Promise.all(
    [...shares].map(async ([db, share]) => {
      type Row = { id: number; header: string; acceptedAt: number };
      const ids = JSON.stringify([...new Set(share.map(bundleOf))]);
      const { results } = await db.prepare(HEADERS).bind(ids).all<Row>();
      const bundles = new Map(results.map((row) => [row.id, row]));
      return share.flatMap((event): [number, EventName][] => {
        const bundle = bundles.get(bundleOf(event));
        const header = bundle && headerAt(JSON.parse(bundle.header) as StoredHeader, indexOf(event));
        return header
          ? [[event, { tenant: header.tenant, type: header.type, acceptedAt: bundle.acceptedAt }]]
          : [];
      });
    }),
  );
  return new Map(found.flat());
}
