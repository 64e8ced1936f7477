/**
 * The newest events of a tenant: to try a destination's settings on, and to list.
 *
 * A bundle has the events of many tenants, and no index leads from a tenant to its events. So the newest bundles of each
 * database are looked at, by their headers: a bounded number of rows, whatever is stored and however rarely the tenant
 * posts. Bodies are read only of the bundles that are asked for, in portions, and up to a bound.
 */
import {
  bundleOf,
  channelsAt,
  eventAt,
  headersOf,
  indexOf,
  isIn,
  type Runs,
  type StoredHeader,
  tagsAt,
} from "../core/bundle.ts";
import { LISTED_BUNDLES, readContents } from "./bundles.ts";
import { allOf, type Databases, sharesOf } from "./shards.ts";

/** Events found at most; and bundles that are looked at for them in each database. */
export const MOST_EVENTS = 100;
export const BUNDLES_LOOKED_AT = 500;
/** Bytes of bodies read at once and in all, those of other events in the same bundles included. */
const PORTION_BYTES = 2 * 1024 * 1024;
const MOST_BYTES = 8 * 1024 * 1024;

export type RecentEvent = Readonly<{
  id: number;
  type: string;
  acceptedAt: number;
  deliverAt: number | null;
  tags: readonly string[];
  channels: readonly string[];
  /** Whether the destination that was named gets it. */
  isPlanned: boolean;
  /** Whether it is content of its own type, without `data`. */
  isContent: boolean;
  /** The bytes of all bodies of its bundle. */
  bundleBytes: number;
}>;

/** The names of tenants need no escape in JSON. The plan is read for one destination: it may name a thousand. */
const NEWEST = `
  SELECT id, accepted_at AS acceptedAt, deliver_at AS deliverAt, header, plan -> ('$.' || ?3) AS runs FROM (
    SELECT id, accepted_at, deliver_at, header, plan FROM bundles ORDER BY id DESC LIMIT ${BUNDLES_LOOKED_AT})
  WHERE instr(header -> '$.tenants', '"' || ?1 || '"') > 0 AND coalesce(deliver_at, accepted_at) > ?2
  ORDER BY id DESC LIMIT ${MOST_EVENTS}`;

type Row = Readonly<{
  id: number;
  acceptedAt: number;
  deliverAt: number | null;
  header: string;
  runs: string | null;
}>;

/**
 * The newest first.
 * @param destination whose plan is looked up, if any
 * @param dueBy events that were due by then are left out, epoch ms
 */
export async function recentEvents(
  databases: Databases,
  tenant: string,
  destination: string | undefined,
  dueBy: number,
): Promise<readonly RecentEvent[]> {
  const found = await Promise.all(
    allOf(databases).map(async (db) => {
      const { results } = await db
        .prepare(NEWEST)
        .bind(tenant, dueBy, destination ?? "none")
        .all<Row>();
      return results.flatMap((row) => eventsIn(row, tenant));
    }),
  );
  return found
    .flat()
    .sort((a, b) => b.acceptedAt - a.acceptedAt || b.id - a.id)
    .slice(0, MOST_EVENTS);
}

function eventsIn({ id, acceptedAt, deliverAt, header, runs }: Row, tenant: string): RecentEvent[] {
  const stored = JSON.parse(header) as StoredHeader;
  const about = headersOf(stored);
  const planned: Runs = runs === null ? [] : JSON.parse(runs);
  const bundleBytes = about.reduce((sum, { bytes }) => sum + bytes, 0);
  return about.flatMap((one, index) => {
    if (one.tenant !== tenant) return [];
    const { type, contentType } = one;
    const named = { tags: tagsAt(stored, index), channels: channelsAt(stored, index) };
    const event = { id: eventAt(id, index), type, acceptedAt, deliverAt, ...named, bundleBytes };
    return [{ ...event, isPlanned: isIn(planned, index), isContent: contentType !== undefined }];
  });
}

/**
 * As many of the events, from the first on, as have bundles within the bound of bytes; one in any case.
 * @param isAsked whose body is asked for: the others cost nothing
 */
export function withinBytes(
  events: readonly RecentEvent[],
  isAsked: (event: RecentEvent) => boolean,
): readonly RecentEvent[] {
  const bundles = new Set<number>();
  let bytes = 0;
  const end = events.findIndex((event) => {
    if (!isAsked(event) || bundles.has(bundleOf(event.id))) return false;
    bundles.add(bundleOf(event.id));
    bytes += event.bundleBytes;
    return bytes > MOST_BYTES && bundles.size > 1;
  });
  return end < 0 ? events : events.slice(0, end);
}

const BODIES = `SELECT id, header, hex(body) AS body FROM ${LISTED_BUNDLES}`;

/** Calls back with the body of each event; undefined where the stored bytes are damaged. Keeps one portion in memory. */
export async function eachBody(
  databases: Databases,
  events: readonly RecentEvent[],
  use: (event: RecentEvent, body: Uint8Array | undefined) => void,
): Promise<void> {
  for (const [db, share] of sharesOf(databases, events, ({ id }) => id)) {
    for (const portion of portionsOf(share)) {
      const ids = JSON.stringify([...new Set(portion.map(({ id }) => bundleOf(id)))]);
      const { results } = await db
        .prepare(BODIES)
        .bind(ids)
        .all<{ id: number; header: string; body: string }>();
      for (const { id, header, body } of results) {
        const contents = await readContents(body, JSON.parse(header) as StoredHeader);
        for (const event of portion)
          if (bundleOf(event.id) === id) use(event, contents?.[indexOf(event.id)]?.body);
      }
    }
  }
}

/** The events by their bundles, in portions of so many bytes. */
function portionsOf(events: readonly RecentEvent[]): RecentEvent[][] {
  const portions: RecentEvent[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const group of Map.groupBy(events, ({ id }) => bundleOf(id)).values()) {
    bytes += group[0]?.bundleBytes ?? 0;
    if (bytes > PORTION_BYTES) {
      portions.push([]);
      bytes = group[0]?.bundleBytes ?? 0;
    }
    portions.at(-1)?.push(...group);
  }
  return portions;
}
