/**
 * The retention times of tenants and types, which are shorter than the deployment's; and the search of the walks that
 * erase content by them. The settings are in the first database, events in all.
 *
 * Raw SQL: `json_each` looks up any number of names in one statement, and the partial indexes, which hold only what has
 * such a setting, are named.
 */

import {
  type DeliveryKey,
  deliveryName,
  destinationsOf,
  eventAt,
  type Plan,
  runsInclude,
} from "../core/bundle.ts";
import { POLLED_TARGET } from "../core/inbox.ts";
import { indexesIn } from "../core/pack.ts";
import { portionsOf } from "../core/portions.ts";
import { type RetentionTimes, shortest, wholeDays } from "../core/retention.ts";
import { planIn, type ReadHeader, readHeader } from "../core/stored-bundle.ts";
import { parsedOr } from "./columns.ts";
import { repeatable, select } from "./databases.ts";
import { LISTED_DESTINATIONS } from "./destination.ts";
import { ENDED_PACKS, OWN_ROWS_ENDS } from "./packs.ts";
import type { BegunErasure } from "./schema.ts";
import { oldBundlesSql, untilHorizon } from "./time-ranges.ts";

export type ContentLimits = Readonly<{
  /** For how long an event is kept, in ms; infinite if neither its tenant nor its type sets a time. */
  keptMs: (event: Readonly<{ tenant: string; type: string }>) => number;
  /** Whether events of the tenant lose their content once they are delivered. */
  isPayloadFree: (tenant: string) => boolean;
}>;

const LIMITS = `
  SELECT s.tenant, NULL AS type, s.retention_days AS days, s.payload_free AS payloadFree
  FROM json_each(?1) n CROSS JOIN tenant_settings s ON s.tenant = n.value
  UNION ALL
  SELECT NULL, t.name, t.retention_days, 0
  FROM json_each(?2) n CROSS JOIN event_types t ON t.name = n.value WHERE t.retention_days IS NOT NULL`;

type LimitRow = Readonly<{ tenant: string | null; type: string | null; days: unknown; payloadFree: unknown }>;

export async function contentLimitsOf(
  first: D1Database,
  tenants: readonly string[],
  types: readonly string[],
): Promise<ContentLimits> {
  const listed = [tenants, types].map((names) => [...new Set(names)]);
  const rows = await select<LimitRow>(first, LIMITS, ...listed);
  const ofTenant = new Map(rows.map((row) => [row.tenant, row]));
  const ofType = new Map(rows.map((row) => [row.type, row]));
  return {
    keptMs: ({ tenant, type }) => shortest(ofTenant.get(tenant)?.days, ofType.get(type)?.days),
    isPayloadFree: (tenant) => ofTenant.get(tenant)?.payloadFree === 1,
  };
}

const OF_TENANT = `
  SELECT NULL AS type, retention_days AS days FROM tenant_settings WHERE tenant = ?1
  UNION ALL
  SELECT name, retention_days FROM event_types INDEXED BY event_types_kept WHERE retention_days IS NOT NULL`;

/** For how long the events of the tenant are kept. @param most the deployment's time, in ms */
export async function keptOfTenant(first: D1Database, tenant: string, most: number): Promise<RetentionTimes> {
  const rows = await select<{ type: string | null; days: unknown }>(first, OF_TENANT, tenant);
  const own = rows.find(({ type }) => type === null);
  const ms = Math.min(most, shortest(own?.days));
  const types = rows.flatMap(({ type, days }) =>
    type !== null && shortest(days) < ms ? [[type, shortest(days)] as const] : [],
  );
  return { ms, types: Object.fromEntries(types) };
}

/** Every different value, with one row read for each: an index seek finds the next one. */
const distinctDays = (source: string) => `
  SELECT json_group_array(days) FROM (
    WITH RECURSIVE next (days) AS (
      SELECT min(retention_days) FROM ${source} WHERE retention_days IS NOT NULL
      UNION ALL
      SELECT (SELECT min(retention_days) FROM ${source} WHERE retention_days > next.days)
      FROM next WHERE next.days IS NOT NULL
    ) SELECT days FROM next WHERE days IS NOT NULL)`;

const IN_USE = `
  SELECT (${distinctDays("tenant_settings INDEXED BY tenant_settings_kept")}) AS ofTenants,
    (${distinctDays("event_types INDEXED BY event_types_kept")}) AS ofTypes,
    EXISTS (SELECT 1 FROM tenant_settings INDEXED BY tenant_settings_payload_free WHERE payload_free = 1) AS payloadFree,
    max(coalesce((SELECT max(updated_at) FROM tenant_settings INDEXED BY tenant_settings_kept_changed
        WHERE retention_days IS NOT NULL OR payload_free = 1), 0),
      coalesce((SELECT max(updated_at) FROM event_types INDEXED BY event_types_kept_changed
        WHERE retention_days IS NOT NULL), 0)) AS changedAt`;

export type LimitsInUse = Readonly<{
  /** The numbers of days that any tenant or type has, each once. */
  days: readonly number[];
  /** Whether a tenant keeps no payloads. */
  payloadFree: boolean;
  /** When a tenant or a type that has such a setting was last changed, epoch ms; 0: never. */
  changedAt: number;
}>;

export async function limitsInUse(first: D1Database): Promise<LimitsInUse> {
  type Row = { ofTenants: string; ofTypes: string; payloadFree: number; changedAt: number };
  const row = await first.prepare(IN_USE).first<Row>();
  const stored = [row?.ofTenants, row?.ofTypes].flatMap((days) => JSON.parse(days ?? "[]") as unknown[]);
  return {
    days: [...new Set(stored.flatMap((days) => wholeDays(days) ?? []))].sort((a, b) => a - b),
    payloadFree: row?.payloadFree === 1,
    changedAt: Number(row?.changedAt ?? 0),
  };
}

/** A bundle that a walk has reached, with the known facts about its events. Times in epoch ms. */
export type WalkedBundle = Readonly<{ id: number; acceptedAt: number; dueAt: number; read: ReadHeader }>;

type Row = Readonly<{ id: number; acceptedAt: number; dueAt: number; header: string }>;

const COLUMNS = "accepted_at AS acceptedAt, coalesce(deliver_at, accepted_at) AS dueAt, header";

const WALK = oldBundlesSql(`id, ${COLUMNS}`);

type Walked = Readonly<{
  bundles: readonly WalkedBundle[];
  /** The last bundle read; `after` when there was none. */
  upto: number;
  /** Whether none comes after it that was accepted by then. */
  isLast: boolean;
}>;

/** The next `limit` bundles after `after` that were accepted by `horizon`, epoch ms. */
export async function walkOn(
  db: D1Database,
  after: number,
  { horizon, limit }: Readonly<{ horizon: number; limit: number }>,
): Promise<Walked> {
  const old = untilHorizon(await select<Row>(db, WALK, after, horizon, limit), horizon);
  return { bundles: old.map(walked), upto: old.at(-1)?.id ?? after, isLast: old.length < limit };
}

function walked({ header, ...row }: Row): WalkedBundle {
  return { ...row, read: readHeader(header) };
}

/** A bundle on the list of those to check again; without details when it is gone. */
type LaterBundle = Readonly<{
  id: number;
  bundle: WalkedBundle | undefined;
  begun: BegunErasure | undefined;
}>;

const LATER = `
  SELECT l.bundle_id AS id, l.begun, ${COLUMNS}
  FROM kept_later l INDEXED BY kept_later_due LEFT JOIN bundles b ON b.id = l.bundle_id
  WHERE l.look_at <= ?1 ORDER BY l.look_at LIMIT ?2`;

/** The next `limit` bundles on the list that are to be looked at by now, epoch ms. */
export async function bundlesLater(db: D1Database, now: number, limit: number): Promise<LaterBundle[]> {
  type Listed = Omit<Row, "header"> & Readonly<{ header: string | null; begun: string | null }>;
  return (await select<Listed>(db, LATER, now, limit)).map(({ begun, header, ...row }) => ({
    id: row.id,
    bundle: header === null ? undefined : walked({ ...row, header }),
    begun: begunIn(begun),
  }));
}

/** An unreadable value means that the erasure starts over. */
function begunIn(stored: string | null): BegunErasure | undefined {
  const begun = parsedOr<BegunErasure | null>(stored, null);
  return Array.isArray(begun?.events) && Number.isSafeInteger(begun.destinations) ? begun : undefined;
}

export type PostponedBundle = Readonly<{ bundle: number; lookAt: number; begun?: BegunErasure | undefined }>;

const PUT_LATER = repeatable(`
  INSERT INTO kept_later (bundle_id, look_at, begun)
  SELECT value ->> 'bundle', value ->> 'lookAt', value -> 'begun' FROM json_each(?1) WHERE true
  ON CONFLICT (bundle_id) DO UPDATE SET look_at = excluded.look_at, begun = iif(
    begun IS NULL OR NOT json_valid(begun) OR excluded.begun ->> 'destinations' > begun ->> 'destinations',
    excluded.begun, begun)`);

const FORGET_LATER = repeatable(
  "DELETE FROM kept_later WHERE bundle_id IN (SELECT value FROM json_each(?1))",
);

/** Takes bundles off the list, then puts bundles on it. One that is on it already keeps what has been begun and has got further. */
export async function saveLater(
  db: D1Database,
  later: readonly PostponedBundle[],
  done: readonly number[] = [],
) {
  const statements = [
    ...(done.length > 0 ? [db.prepare(FORGET_LATER).bind(JSON.stringify(done))] : []),
    ...(later.length > 0 ? [db.prepare(PUT_LATER).bind(JSON.stringify(later))] : []),
  ];
  if (statements.length > 0) await db.batch(statements);
}

const PLAN = "SELECT plan FROM bundles WHERE id = ?1";

export async function planOfBundle(db: D1Database, id: number): Promise<Plan | "gone" | "unreadable"> {
  const stored = await db.prepare(PLAN).bind(id).first<string>("plan");
  return stored === null ? "gone" : (planIn(stored) ?? "unreadable");
}

type End = Readonly<{ state: string; endedAt: number | null }>;

/** Destinations of which the deliveries are read at once: they may have a hundred each, without their logs. */
const DESTINATIONS = 500;

/**
 * The events of a bundle all of whose deliveries have ended in this way.
 * @param isDone whether the end of a delivery counts. A delivery with a bit counts as ended when the last of its pack
 *   did
 */
export async function eventsDone(
  db: D1Database,
  bundle: number,
  plan: Plan,
  indexes: readonly number[],
  isDone: (end: End) => boolean,
): Promise<number[]> {
  const planned = indexes.map((index) => ({ index, destinations: destinationsOf(plan, index) }));
  const all = [...new Set(planned.flatMap(({ destinations }) => destinations))];
  const done = new Set<string>();
  for (const some of portionsOf(all, DESTINATIONS)) {
    const named = JSON.stringify(some.map((destination) => [bundle, destination]));
    const [own, packed] = await db.batch([
      db.prepare(OWN_ROWS_ENDS).bind(named),
      db.prepare(ENDED_PACKS).bind(named),
    ]);
    const rows = [
      ...((own?.results ?? []) as OwnEnd[]),
      ...((packed?.results ?? []) as EndedPack[]).flatMap((pack) => endsOf(bundle, pack)),
    ];
    for (const row of rows) if (isDone(row)) done.add(deliveryName(row));
  }
  return planned.flatMap(({ index, destinations }) =>
    destinations.every((destinationId) =>
      done.has(deliveryName({ eventId: eventAt(bundle, index), destinationId })),
    )
      ? [index]
      : [],
  );
}

const POLLED = `
  SELECT d.id FROM ${LISTED_DESTINATIONS} WHERE d.url = '${POLLED_TARGET}' AND d.deleted_at IS NULL`;

/** The events of a bundle that are in inboxes: consumers may fetch them as long as they have their content. */
export async function eventsInInboxes(
  first: D1Database,
  plan: Plan,
  indexes: readonly number[],
): Promise<number[]> {
  const polled = await select<{ id: string }>(first, POLLED, Object.keys(plan));
  return indexes.filter((index) => polled.some(({ id }) => runsInclude(plan[id] ?? [], index)));
}

type OwnEnd = End & DeliveryKey;

type EndedPack = Readonly<{ destinationId: string; endedAt: number | null }> &
  Readonly<Record<"delivered0" | "delivered1" | "cancelled0" | "cancelled1", number>>;

function endsOf(bundle: number, pack: EndedPack): OwnEnd[] {
  const { destinationId, delivered0, delivered1, cancelled0, cancelled1 } = pack;
  const endedAt = pack.endedAt ?? 0;
  const of = (state: string, mask: readonly [number, number]) =>
    indexesIn(mask).map((index) => ({ destinationId, eventId: eventAt(bundle, index), state, endedAt }));
  return [...of("delivered", [delivered0, delivered1]), ...of("cancelled", [cancelled0, cancelled1])];
}
