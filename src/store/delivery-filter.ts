/**
 * Filters of delivery lists: as SQL for rows, as code for packs, whose deliveries SQL cannot distinguish. Conditions that
 * the walk of a list (delivery-list.ts) seeks by key need no filter.
 *
 * Also what lists hide: an event that is older than the retention time, the deployment's or that of its tenant or type, and
 * whose deliveries have all ended is shown no more, even while another event keeps its bundle stored.
 */

import { and, eq, gte, lt, type SQL, sql } from "drizzle-orm";
import {
  bundleOf,
  type DeliveryKey,
  deliveryName,
  destinationsOf,
  type EventDetails,
  headerAt,
  indexOf,
} from "../core/bundle.ts";
import { DAY_MS } from "../core/retention.ts";
import { takesType } from "../core/routing.ts";
import { headerToShow, planIn } from "../core/stored-bundle.ts";
import { bundlesOf } from "./bundles.ts";
import { contentLimitsOf } from "./content-retention.ts";
import { select } from "./databases.ts";
import { type DeliveryRow, storedStatus } from "./delivery.ts";
import { destinations } from "./destination.ts";
import { rowsIn } from "./packs.ts";
import { bundleIdOf, eventTypeSql, hasChannel, jsonOrEmpty, tenantOf } from "./sql.ts";
import { bundles, deliveries } from "./tables.ts";
import type { TimeRange } from "./time-ranges.ts";

export type EventConditions = Readonly<{
  tenant?: string | undefined;
  /** Patterns like those of destinations; one has to match. */
  types?: readonly string[] | null | undefined;
  tag?: string | undefined;
  /** A channel that the event was posted with. */
  channel?: string | undefined;
  accepted?: TimeRange | undefined;
}>;

export type DeliveryFilter = Omit<EventConditions, "types"> &
  Readonly<{
    destinationId?: string | undefined;
    /** A pattern of types. */
    type?: string | undefined;
    /** The last attempt's status code. */
    status?: number | undefined;
    reason?: string | undefined;
    /** A tag of the event; needs a tenant: see deliveries-by-event.ts. */
    tag?: string | undefined;
    /** Content to hide, regardless of other conditions. */
    over?: Cutoffs | undefined;
    /** Where the page starts: lists descend by key. */
    before?: DeliveryKey | undefined;
    limit: number;
  }>;

export function eventConditionsOf({ tenant, type, tag, channel, accepted }: DeliveryFilter): EventConditions {
  return { tenant, types: type === undefined ? undefined : [type], tag, channel, accepted };
}

/** The filter of rows, without `over`; undefined when every row passes. */
export function isWanted({ tenant, status, reason, ...filter }: DeliveryFilter): SQL | undefined {
  const ofEvent = isOfEvent(filter);
  return and(
    tenant === undefined ? undefined : sql`${OWNER} = ${tenant}`,
    status === undefined ? undefined : eq(deliveries.lastStatus, status),
    reason === undefined ? undefined : sql`${deliveries.reason} = ${reason}`,
    ofEvent && sql`EXISTS (SELECT 1 FROM ${bundles} WHERE ${bundles.id} = ${BUNDLE} AND ${ofEvent})`,
  );
}

/** The same for a delivery of a pack: the part about its row. */
export function isRowWanted({ status, reason }: DeliveryFilter, row: DeliveryRow): boolean {
  return (
    (status === undefined || row.lastStatus === status) &&
    (reason === undefined || storedStatus(row).reason === reason)
  );
}

type FilteredEvent = Partial<Pick<EventDetails, "tenant" | "type" | "tags" | "channels">> &
  Readonly<{
    /** Null when an operator removed the bundle. */
    acceptedAt: number | null;
    /** The tenant of the destination, which replaces the event's if it is known. */
    owner?: string | undefined;
  }>;

/** The same for an event; details are left out if nothing is known about it. */
export function isEventWanted(
  { tenant, types, tag, channel, accepted: { since, until } = {} }: EventConditions,
  { acceptedAt, owner, ...event }: FilteredEvent,
): boolean {
  if (since !== undefined && (acceptedAt ?? -1) < since) return false;
  if (until !== undefined && (acceptedAt ?? until) >= until) return false;
  if (types && !(event.type !== undefined && takesType(types, event.type))) return false;
  if (tag !== undefined && !event.tags?.includes(tag)) return false;
  if (channel !== undefined && !event.channels?.includes(channel)) return false;
  return tenant === undefined || (owner ?? event.tenant) === tenant;
}

const EVENT = "deliveries.event_id";
const HEADER = jsonOrEmpty("bundles.header");
const BUNDLE = sql.raw(bundleIdOf(EVENT));

/** The tenant of a delivery: of its destination, or of its event in databases without destinations. */
const OWNER = sql`coalesce(${destinations.tenant},
  (SELECT ${sql.raw(tenantOf(HEADER, EVENT))} FROM ${bundles} WHERE ${bundles.id} = ${BUNDLE}))`;

const HAS_CHANNEL = sql.raw(hasChannel(HEADER, EVENT, "wanted.channel"));

/** The part of the filter that is about the event. */
function isOfEvent({
  type,
  channel,
  accepted: { since, until } = {},
}: Pick<DeliveryFilter, "type" | "channel" | "accepted">): SQL | undefined {
  return and(
    type === undefined ? undefined : isOfType(type),
    channel === undefined
      ? undefined
      : sql`(SELECT ${HAS_CHANNEL} FROM (SELECT ${channel} AS channel) AS wanted)`,
    since === undefined ? undefined : gte(bundles.acceptedAt, since),
    until === undefined ? undefined : lt(bundles.acceptedAt, until),
  );
}

function isOfType(pattern: string): SQL | undefined {
  if (pattern === "*") return undefined;
  const type = sql.raw(eventTypeSql(HEADER, EVENT));
  const prefix = pattern.endsWith(".*") ? pattern.slice(0, -1) : undefined;
  return prefix === undefined ? sql`${type} = ${pattern}` : sql`instr(${type}, ${prefix}) = 1`;
}

/** Longer than an invocation lives: none that saw a delivery before its end still runs after this time. */
export const QUIET_MS = 60 * 60_000;

/** The times by which events and deliveries count as over, epoch ms. */
export type Cutoffs = Readonly<{
  /** Events that were due by then are old, whatever their tenant and type. */
  dueBy: number;
  /** Deliveries that had ended by then have ended for good. */
  endedBy: number;
  now: number;
  /** The database with the retention times of tenants and types, which may be shorter. */
  first: D1Database;
}>;

export function overBy({
  now,
  config,
  db,
}: Readonly<{ now: () => number; config: Readonly<{ retentionMs: number }>; db: D1Database }>): Cutoffs {
  const at = now();
  return { dueBy: at - config.retentionMs, endedBy: at - QUIET_MS, now: at, first: db };
}

const ENDED = ["delivered", "dead", "cancelled"];

type Times = Readonly<{ acceptedAt: number; deliverAt: number | null }>;
type Event = Times & Readonly<{ tenant: string; type: string }>;

/**
 * Which of the events are old. Only an event older than a day, and younger than the deployment's retention time, costs
 * a query of the settings of its tenant and type.
 */
export async function oldAmong(
  { dueBy, now, first }: Cutoffs,
  events: readonly Event[],
): Promise<(event: Event) => boolean> {
  const dueAt = ({ acceptedAt, deliverAt }: Times) => deliverAt ?? acceptedAt;
  const overdue = events.filter((event) => dueAt(event) > dueBy && dueAt(event) <= now - DAY_MS);
  if (overdue.length === 0) return (event) => dueAt(event) <= dueBy;
  const [tenants, types] = [overdue.map(({ tenant }) => tenant), overdue.map(({ type }) => type)];
  const { keptMs } = await contentLimitsOf(first, tenants, types);
  return (event) => dueAt(event) <= Math.max(dueBy, now - keptMs(event));
}

export function hasEnded(
  { state, endedAt }: Readonly<{ state: string; endedAt: number | null }>,
  { endedBy }: Cutoffs,
): boolean {
  return ENDED.includes(state) && (endedAt ?? 0) <= endedBy;
}

/** An event less than a day old is never old. */
const TIMES_AND_PLANS = `
  SELECT b.id, b.accepted_at AS acceptedAt, b.deliver_at AS deliverAt, b.plan, b.header
  FROM json_each(?1) w CROSS JOIN bundles b ON b.id = w.value WHERE coalesce(b.deliver_at, b.accepted_at) <= ?2`;

type TimesAndPlan = Times & Readonly<{ id: number; plan: string; header: string }>;

/** Which events of these deliveries are over. Reads nothing about deliveries that have not ended or are not old. */
export async function eventsOver(
  db: D1Database,
  rows: readonly DeliveryRow[],
  over: Cutoffs,
): Promise<ReadonlySet<number>> {
  const ended = new Set(rows.filter((row) => hasEnded(row, over)).map(({ eventId }) => eventId));
  if (ended.size === 0) return new Set();
  const ids = bundlesOf([...ended]);
  const found = await select<TimesAndPlan>(db, TIMES_AND_PLANS, ids, over.now - DAY_MS);
  const bundles = new Map(
    found.map(({ id, plan, header, ...times }) => [
      id,
      { ...times, plan: planIn(plan), header: headerToShow(header) },
    ]),
  );
  const events = [...ended].flatMap((event) => {
    const { plan, header, ...times } = bundles.get(bundleOf(event)) ?? {};
    const about = header && headerAt(header, indexOf(event));
    return about && plan ? [{ ...(times as Times), event, ...about, plan }] : [];
  });
  const isOld = await oldAmong(over, events);
  const planned = events
    .filter(isOld)
    .map(({ event, plan }) => ({ event, destinations: destinationsOf(plan, indexOf(event)) }));
  if (planned.length === 0) return new Set();
  const pairs = planned.flatMap(({ event, destinations }) =>
    destinations.map((destination) => [bundleOf(event), destination] as const),
  );
  const known = await rowsIn(db, pairs);
  const isEnded = new Set(known.filter((row) => hasEnded(row, over)).map(deliveryName));
  const isOver = ({ event, destinations }: (typeof planned)[number]) =>
    destinations.every((destinationId) => isEnded.has(deliveryName({ eventId: event, destinationId })));
  return new Set(planned.filter(isOver).map(({ event }) => event));
}
