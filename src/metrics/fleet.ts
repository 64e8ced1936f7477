/**
 * The figures of many destinations, asked of their gates when somebody looks: what nobody reads costs
 * nothing, and what is read is never older than the question.
 *
 * A look is bounded: so many gates, a few at a time. Where there are more destinations, those in which something
 * goes on are shown, and rates are estimated from others, as many, that chance has chosen: a share of those in
 * trouble is the share of nobody. Analytics Engine counts all of them.
 */

import type { FiguresQuery, GateFigures } from "../core/gate-view.ts";
import { type Counters, emptyCounters, sumOfCounters } from "../core/metrics.ts";
import { addedSeries, type Series, type StatsWindow } from "../core/rollups.ts";
import { type Destination, findDestination, gateSettingsOf, listDestinations } from "../db/destinations.ts";
import type { Databases } from "../db/shards.ts";
import { type Backlog, backlogOf, retriesByDestination, type Scope } from "../db/stats.ts";
import { drawnDestinations, type Watched, watchedDestinations } from "../db/watched-destinations.ts";
import { figuresAtGate } from "../gate/client.ts";
import { faultOf } from "../log.ts";
import type { Services } from "../services.ts";

/** Destinations that are shown, and again those that rates are estimated from: so many gates are asked in one look. */
export const GATES_ASKED = 100;
/** Gates asked at once. */
const AT_ONCE = 6;
/** Gates that the watch asks: all of them, or none. */
export const GATES_WATCHED = 2_000;
/** Waiting and dead deliveries counted for each destination. */
export const COUNTED = 1_000;

/** What is not delivered, now. */
export type Depth = Backlog & Readonly<{ retrying: number }>;

export type Seen = Readonly<{
  row: Destination;
  depth: Depth;
  /** Undefined when the gate could not be reached. */
  figures: GateFigures | undefined;
}>;

export type Fleet = Readonly<{
  /** Those that are shown: all, or those in which something goes on. */
  seen: readonly Seen[];
  /** The figures that sums and rates are made of: of those that are shown where they are all, else of some at random. */
  sampled: readonly Pick<Seen, "row" | "figures">[];
  /** Destinations there are, 10,000 at most: those that were not asked are the rest. */
  total: number;
  unreachable: number;
}>;

/** Asks the gates of one destination, of a tenant's, or of all. Empty when there is no such destination. */
export async function readFleet(services: Services, scope: Scope, look: FiguresQuery): Promise<Fleet> {
  const { destinations, total } = await watched(services, scope);
  const seen = await seeAll(services, destinations, look);
  const sampled = total > seen.length ? await sample(services, scope, look, seen) : seen;
  const asked = new Map([...seen, ...sampled].map(({ row, figures }) => [row.id, figures]));
  const unreachable = [...asked.values()].filter((figures) => figures === undefined).length;
  return { seen, sampled, total, unreachable };
}

/** As many as are shown, chosen by chance among all. No gate is asked twice. */
async function sample(
  services: Services,
  { tenant }: Scope,
  look: FiguresQuery,
  seen: readonly Seen[],
): Promise<Fleet["sampled"]> {
  const rows = await drawnDestinations(services, tenant, GATES_ASKED, services.random);
  const known = new Map(seen.map((one) => [one.row.id, one]));
  const others = rows.filter(({ id }) => !known.has(id));
  const answers = await askAll(services, others, look);
  const asked = new Map(others.map(({ id }, i) => [id, answers[i]]));
  return rows.map((row) => known.get(row.id) ?? { row, figures: asked.get(row.id) });
}

/** What the gates of all destinations but those of one tenant have counted; undefined when they are too many to ask. */
export async function askAllBut(
  services: Services,
  without: string,
  look: FiguresQuery,
): Promise<Fleet["sampled"] | undefined> {
  const page = { tenant: undefined, after: undefined, limit: GATES_WATCHED + 1 };
  const all = await listDestinations(services.db, page);
  if (all.length > GATES_WATCHED) return undefined;
  const rows = all.filter(({ tenant }) => tenant !== without);
  const answers = await askAll(services, rows, look);
  return rows.map((row, i) => ({ row, figures: answers[i] }));
}

/** Asks the gates of these destinations, in their order. */
export async function seeAll(
  services: Services,
  destinations: readonly Destination[],
  look: FiguresQuery,
): Promise<readonly Seen[]> {
  const [depths, figures] = await Promise.all([
    depthsOf(services, destinations),
    askAll(services, destinations, look),
  ]);
  return depths.map((depth, i) => ({ ...depth, figures: figures[i] }));
}

/** What of these destinations is not delivered, in their order. It is read from D1: no gate is asked. */
export async function depthsOf(
  databases: Databases,
  destinations: readonly Destination[],
): Promise<readonly Pick<Seen, "row" | "depth">[]> {
  const ids = destinations.map(({ id }) => id);
  const [backlogs, retries] = await Promise.all([
    backlogOf(databases, ids, COUNTED),
    retriesByDestination(databases),
  ]);
  return destinations.map((row) => {
    const backlog = backlogs.get(row.id) ?? { waiting: 0, dead: 0 };
    return { row, depth: { ...backlog, retrying: retries.get(row.id) ?? 0 } };
  });
}

/** The tallies of a window, as one: of all destinations, or of those that stand for them. */
export function fleetSum({ sampled }: Pick<Fleet, "sampled">, window: StatsWindow): Counters {
  const sums = sampled.flatMap(({ figures }) => figures?.windows[window]?.sum ?? []);
  const [first = emptyCounters(0), ...others] = sums;
  return others.reduce<Counters>(sumOfCounters, first);
}

/** Their traffic over time, as one; empty when no gate was reached. */
export function fleetSeries({ sampled }: Pick<Fleet, "sampled">, window: StatsWindow): Series {
  return addedSeries(sampled.flatMap(({ figures }) => [figures?.windows[window]?.series ?? []]));
}

async function watched(services: Services, { tenant, destination }: Scope): Promise<Watched> {
  if (destination === undefined) return watchedDestinations(services, tenant, GATES_ASKED);
  const row = await findDestination(services.db, destination, tenant);
  return { destinations: row ? [row] : [], total: row ? 1 : 0 };
}

/** The answers in the order of the destinations, over a few lines of questions. */
async function askAll(
  services: Services,
  destinations: readonly Destination[],
  look: FiguresQuery,
): Promise<(GateFigures | undefined)[]> {
  const answers: (GateFigures | undefined)[] = [];
  const open = destinations.entries();
  const line = async () => {
    for (const [i, row] of open)
      answers[i] = await figuresAtGate(services, row.id, look, gateSettingsOf(row));
  };
  await Promise.all(Array.from({ length: AT_ONCE }, line));
  return answers;
}

// §§ How far the queues are behind, where the platform says so.

export type QueueBacklog = Readonly<{
  queue: "deliveries" | "drains";
  /** Null when it cannot be told. */
  messages: number | null;
  /** Epoch ms. */
  oldestAt: number | null;
}>;

export function queueBacklogs(services: Services): Promise<QueueBacklog[]> {
  return Promise.all((["deliveries", "drains"] as const).map((queue) => queueBacklogOf(services, queue)));
}

async function queueBacklogOf(services: Services, queue: QueueBacklog["queue"]): Promise<QueueBacklog> {
  try {
    const { backlogCount, oldestMessageTimestamp } = await services[queue].metrics();
    return { queue, messages: backlogCount, oldestAt: oldestMessageTimestamp?.getTime() || null };
  } catch (error) {
    services.log({ what: "queue_metrics_unavailable", error: faultOf(error) });
    return { queue, messages: null, oldestAt: null };
  }
}
