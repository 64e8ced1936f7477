/** What a consumer or a drain needs to work on deliveries: bundles, destinations and rows, in one round trip. */
import type { InferSelectModel } from "drizzle-orm";
import {
  type BundlePart,
  eventAt,
  headerAt,
  indexesOf,
  isIn,
  type Plan,
  type Runs,
  type StoredHeader,
} from "../core/bundle.ts";
import { readBodies } from "./bodies.ts";
import type { Destination } from "./destination-settings.ts";
import { modelOf, type RawRow } from "./row-model.ts";
import { deliveries, destinations } from "./schema.ts";
import { type Databases, homeOfBundle } from "./shards.ts";

export type DeliveryRow = InferSelectModel<typeof deliveries>;

export type LoadedEvent = Readonly<{
  id: number;
  tenant: string;
  type: string;
  /** Undefined when what is stored cannot be read: it has been damaged. */
  body: string | undefined;
  acceptedAt: number;
  /** Not to be delivered before this; null: at once. */
  deliverAt: number | null;
}>;

/** From when on an event could be delivered: its age counts from here. Epoch ms. */
export function dueAtOf({ acceptedAt, deliverAt }: Pick<LoadedEvent, "acceptedAt" | "deliverAt">): number {
  return deliverAt ?? acceptedAt;
}

/** One delivery with all that an attempt needs. */
export type Work = Readonly<{
  event: LoadedEvent;
  destination: Destination;
  /** Undefined before the first outcome. */
  row: DeliveryRow | undefined;
}>;

export type Loaded = Readonly<{
  works: readonly Work[];
  /** Parts whose bundle or destination is not there. */
  missing: readonly BundlePart[];
  /** Parts of bundles of a later version than this code knows: another isolate can read them. */
  unknown: readonly BundlePart[];
}>;

/** Of the headers that this code can read. */
const VERSION = 1;
/** Stored bytes of bodies that one round trip brings, unless one bundle alone has more; on the wire twice as many. */
const BODY_BYTES = 2 * 1024 * 1024;

/** Bodies beyond what one round trip may bring are left out, and asked for in another. */
const BUNDLES = `
  SELECT id, accepted_at AS acceptedAt, deliver_at AS deliverAt, plan, header,
    iif(upto - size < ?2, hex(body), NULL) AS body
  FROM (
    SELECT *, length(body) AS size, sum(length(body)) OVER (ORDER BY id) AS upto FROM bundles
    WHERE id IN (SELECT value FROM json_each(?1)))`;

const DESTINATIONS = "SELECT * FROM destinations WHERE id IN (SELECT value FROM json_each(?1))";

const ROWS = `
  SELECT d.* FROM json_each(?1) w CROSS JOIN deliveries d
  ON d.destination_id = w.value ->> 1 AND d.event_id >= (w.value ->> 0) * 128 AND d.event_id < (w.value ->> 0) * 128 + 128`;

type BundleRow = Readonly<{
  id: number;
  acceptedAt: number;
  deliverAt: number | null;
  plan: string;
  header: string;
  body: string | null;
}>;

/** Loads the deliveries of the parts: one round trip to each database that has some, and more only for large bodies. */
export async function loadWork(databases: Databases, parts: readonly BundlePart[]): Promise<Loaded> {
  if (parts.length === 0) return { works: [], missing: [], unknown: [] };
  const shares = Map.groupBy(parts, ({ bundle }) => homeOfBundle(databases, bundle));
  const { db: first } = databases;
  const wanted = first.prepare(DESTINATIONS).bind(listOf(parts.flatMap((part) => part.destinations)));
  const [[places = [], ...stored], ...others] = await Promise.all([
    rowsOf(first, [wanted, ...storedIn(first, shares.get(first) ?? [])]),
    ...[...shares].flatMap(([db, share]) => (db && db !== first ? [rowsOf(db, storedIn(db, share))] : [])),
  ]);
  const known = [stored, ...others];
  const targets = new Map(places.map((raw) => [String(raw.id), modelOf(destinations, raw)]));
  const outcomes = known.flatMap(([, rows = []]) => rows).map((raw) => modelOf(deliveries, raw));
  const rows = new Map(outcomes.map((row) => [`${row.eventId} ${row.destinationId}`, row]));
  const works: Work[] = [];
  const missing: BundlePart[] = [];
  const unknown: BundlePart[] = [];
  const bundles = new Map(
    known.flatMap(([found = []]) => (found as BundleRow[]).map((row) => [row.id, row])),
  );
  for (const [bundle, own] of Map.groupBy(parts, ({ bundle }) => bundle)) {
    const row = bundles.get(bundle);
    if (row && versionOf(row) > VERSION) {
      unknown.push(...own);
      continue;
    }
    const events = row && (await eventsOf(databases, row, own));
    for (const part of own) {
      for (const id of part.destinations) {
        const destination = targets.get(id);
        if (!events || !destination) missing.push({ ...part, destinations: [id] });
        else {
          for (const event of events.planned(id, part.indexes)) {
            works.push({ event, destination, row: rows.get(`${event.id} ${id}`) });
          }
        }
      }
    }
  }
  return { works, missing, unknown };
}

function versionOf({ header }: BundleRow): number {
  return Number((JSON.parse(header) as { version: unknown }).version);
}

async function rowsOf(db: D1Database, statements: D1PreparedStatement[]): Promise<RawRow[][]> {
  return (await db.batch<RawRow>(statements)).map(({ results }) => results);
}

/** The bundles, and the deliveries that have a row; nothing for nothing. */
function storedIn(db: D1Database, parts: readonly BundlePart[]): D1PreparedStatement[] {
  if (parts.length === 0) return [];
  const pairs = parts.flatMap(({ bundle, destinations }) => destinations.map((id) => [bundle, id]));
  return [
    db.prepare(BUNDLES).bind(listOf(parts.map(({ bundle }) => bundle)), BODY_BYTES),
    db.prepare(ROWS).bind(JSON.stringify(pairs)),
  ];
}

function listOf(values: readonly (string | number)[]): string {
  return JSON.stringify([...new Set(values)]);
}

/** The events of a bundle as they are asked for. Of what is not, nothing is kept: bodies weigh. */
async function eventsOf(databases: Databases, row: BundleRow, parts: readonly BundlePart[]) {
  const plan: Plan = JSON.parse(row.plan);
  const header: StoredHeader = JSON.parse(row.header);
  const isWanted = (index: number) =>
    parts.some(({ destinations, indexes }) =>
      destinations.some((id) => isIn(plan[id] ?? [], index) && (!indexes || isIn(indexes, index))),
    );
  // What cannot be read is read once more before it counts as damaged.
  const bodies =
    (row.body === null ? undefined : await readBodies(row.body, header)) ??
    (await readBodies(await bodyOf(databases, row.id), header));
  const decoder = new TextDecoder();
  const events = new Map<number, LoadedEvent>();
  for (let index = 0; index < header.events.length / 3; index++) {
    if (!isWanted(index)) continue;
    const { tenant = "", type = "" } = headerAt(header, index) ?? {};
    const { acceptedAt, deliverAt } = row;
    const body = bodies?.[index] && decoder.decode(bodies[index]);
    events.set(index, { id: eventAt(row.id, index), tenant, type, body, acceptedAt, deliverAt });
  }
  const planned = (destination: string, indexes: Runs | undefined) =>
    indexesOf(plan[destination] ?? []).flatMap((index) =>
      indexes && !isIn(indexes, index) ? [] : (events.get(index) ?? []),
    );
  return { planned };
}

async function bodyOf(databases: Databases, bundle: number): Promise<string> {
  const statement = homeOfBundle(databases, bundle)?.prepare(
    "SELECT hex(body) AS body FROM bundles WHERE id = ?1",
  );
  return (await statement?.bind(bundle).first<string>("body")) ?? "";
}
