/**
 * The figures of many destinations, read from their gates on demand: they cost nothing until they are read, and are never
 * stale.
 *
 * A read is bounded: a maximum of gates, a few at a time. If there are more destinations, the active ones are shown,
 * and rates are estimated from as many random ones, because the active ones are not representative. Analytics Engine
 * counts all of them.
 */

import type { FiguresQuery, GateFigures } from "../../core/gate-view.ts";
import { type Counters, emptyCounters, sumOfCounters } from "../../core/metrics.ts";
import { addedSeries, type Series, type StatsWindow } from "../../core/rollups.ts";
import { atGate } from "../../gate/client.ts";
import { orLogged } from "../../log.ts";
import type { Services } from "../../services.ts";
import type { Databases } from "../../store/databases.ts";
import { type Destination, gateSettingsOf } from "../../store/destination.ts";
import { findDestination } from "../../store/destinations.ts";
import { heldLines } from "../../store/lines.ts";
import { type Backlog, backlogOf, retriesByDestination, type StatsScope } from "../../store/stats.ts";
import { drawnDestinations, type Watched, watchedDestinations } from "../../store/watched-destinations.ts";
import { mapAtOnce } from "../../time.ts";

/** The most destinations that are shown, and again the most that rates are estimated from. */
export const MOST_SHOWN = 100;
/** Gates queried at once. */
const AT_ONCE = 6;
/** The most waiting and dead deliveries that are counted for a destination. */
export const COUNTED = 1_000;

/** How many deliveries are not delivered now. */
export type Depth = Backlog &
  Readonly<{
    retrying: number;
    /** Keys that a dead delivery holds. */
    held: number;
  }>;

export type FleetMember = Readonly<{
  row: Destination;
  depth: Depth;
  /** Undefined when the gate did not answer. */
  figures: GateFigures | undefined;
}>;

export type Fleet = Readonly<{
  /** The destinations that are shown: all, or the active ones. */
  seen: readonly FleetMember[];
  /** The destinations that sums and rates are computed from: `seen` if that is all of them, else random ones. */
  sampled: readonly Pick<FleetMember, "row" | "figures">[];
  /** The number of destinations; of more than 10,000, an estimate. */
  total: number;
  unreachable: number;
}>;

/** Reads the figures of one destination, of a tenant's, or of all. Empty when there is no such destination. */
export async function readFleet(services: Services, scope: StatsScope, query: FiguresQuery): Promise<Fleet> {
  const { destinations, total } = await shown(services, scope);
  const seen = await readDestinations(services, destinations, query);
  const sampled = total > seen.length ? await sample(services, scope, query, seen) : seen;
  const queried = new Map([...seen, ...sampled].map(({ row, figures }) => [row.id, figures]));
  const unreachable = [...queried.values()].filter((figures) => figures === undefined).length;
  return { seen, sampled, total, unreachable };
}

/** As many random destinations as are shown. No gate is queried twice. */
async function sample(
  services: Services,
  { tenant }: StatsScope,
  query: FiguresQuery,
  seen: readonly FleetMember[],
): Promise<Fleet["sampled"]> {
  const rows = await drawnDestinations(services, tenant, MOST_SHOWN, services.random);
  const known = new Map(seen.map((one) => [one.row.id, one]));
  const others = rows.filter(({ id }) => !known.has(id));
  const figures = await queryGates(services, others, query);
  const byId = new Map(others.map(({ id }, i) => [id, figures[i]]));
  return rows.map((row) => known.get(row.id) ?? { row, figures: byId.get(row.id) });
}

/** Reads the figures of these destinations, in their order. */
export async function readDestinations(
  services: Services,
  destinations: readonly Destination[],
  query: FiguresQuery,
): Promise<readonly FleetMember[]> {
  const [depths, figures] = await Promise.all([
    depthsOf(services, destinations),
    queryGates(services, destinations, query),
  ]);
  return depths.map((depth, i) => ({ ...depth, figures: figures[i] }));
}

/** How many deliveries of each destination are not delivered, in their order. Read from D1 alone. */
export async function depthsOf(databases: Databases, destinations: readonly Destination[]) {
  const ids = destinations.map(({ id }) => id);
  const [backlogs, retries] = await Promise.all([
    backlogOf(databases, ids, COUNTED),
    retriesByDestination(databases),
  ]);
  const ordered = destinations.filter(({ id, onDead }) => onDead === "hold" && backlogs.get(id)?.dead);
  const names = ordered.map(({ id }) => id);
  const held = await heldLines(databases, names);
  return destinations.map((row) => {
    const backlog = backlogs.get(row.id) ?? { waiting: 0, dead: 0 };
    return { row, depth: { ...backlog, retrying: retries.get(row.id) ?? 0, held: held.get(row.id) ?? 0 } };
  });
}

export function fleetSum({ sampled }: Pick<Fleet, "sampled">, window: StatsWindow): Counters {
  const sums = sampled.flatMap(({ figures }) => figures?.windows[window]?.sum ?? []);
  const [first = emptyCounters(0), ...others] = sums;
  return others.reduce<Counters>(sumOfCounters, first);
}

/** The sum of the destinations' traffic over time; empty when no gate answered. */
export function fleetSeries({ sampled }: Pick<Fleet, "sampled">, window: StatsWindow): Series {
  return addedSeries(sampled.flatMap(({ figures }) => [figures?.windows[window]?.series ?? []]));
}

async function shown(services: Services, { tenant, destination }: StatsScope): Promise<Watched> {
  if (destination === undefined) return watchedDestinations(services, tenant, MOST_SHOWN, services.random);
  const row = await findDestination(services.db, destination, tenant);
  return { destinations: row ? [row] : [], total: row ? 1 : 0 };
}

/** The gates' figures in the order of the destinations, a few queries at once. */
export function queryGates(services: Services, destinations: readonly Destination[], query: FiguresQuery) {
  return mapAtOnce(destinations, AT_ONCE, (row) =>
    atGate(services, row.id, "figures", query, gateSettingsOf(row)),
  );
}

const WATCHED_QUEUES = ["deliveries", "drains", "upkeep"] as const;

/** How far a queue is behind. */
export type QueueBacklog = Readonly<{
  queue: (typeof WATCHED_QUEUES)[number];
  /** Null when the platform does not say. */
  messages: number | null;
  /** Epoch ms. */
  oldestAt: number | null;
}>;

export function queueBacklogs(services: Services): Promise<QueueBacklog[]> {
  return Promise.all(WATCHED_QUEUES.map((queue) => queueBacklogOf(services, queue)));
}

async function queueBacklogOf(services: Services, queue: QueueBacklog["queue"]): Promise<QueueBacklog> {
  const failed = { what: "queue_metrics_unavailable" };
  const read = await orLogged(services, failed, () => services[queue].metrics());
  const oldestAt = read?.oldestMessageTimestamp?.getTime() || null;
  return { queue, messages: read?.backlogCount ?? null, oldestAt };
}
