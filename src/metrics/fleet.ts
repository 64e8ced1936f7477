/**
 * The figures of many destinations, asked of their gates when somebody looks: what nobody reads costs
 * nothing, and what is read is never older than the question.
 *
 * A look is bounded: so many gates, a few at a time. Beyond that the destinations in which something goes
 * on come first, and the answer says how many were left out; Analytics Engine counts all of them.
 */
import { figuresAtGate } from "../gate/gate-client.ts";
import type { GateFigures, Look } from "../policy/gate-figures.ts";
import { addedSeries, type Series, type StatsWindow } from "../policy/stats-window.ts";
import { emptyTally, plus, type Tally } from "../policy/tally.ts";
import type { Services } from "../services.ts";
import { type Backlog, backlogOf } from "../store/backlog.ts";
import { type Destination, gateSettingsOf } from "../store/destination-settings.ts";
import { findDestination } from "../store/destinations.ts";
import { retriesByDestination, type Scope } from "../store/retries.ts";
import { type Watched, watchedDestinations } from "../store/watched-destinations.ts";

/** Gates asked in one look, and at once. */
export const GATES_ASKED = 100;
const AT_ONCE = 6;
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
  seen: readonly Seen[];
  /** Destinations there are, 10,000 at most: those that were not asked are the rest. */
  total: number;
  unreachable: number;
}>;

/** Asks the gates of one destination, of a tenant's, or of all. Empty when there is no such destination. */
export async function readFleet(services: Services, scope: Scope, look: Look): Promise<Fleet> {
  const { destinations, total } = await watched(services, scope);
  const seen = await seeAll(services, destinations, look);
  return { seen, total, unreachable: seen.filter((one) => one.figures === undefined).length };
}

/** Asks the gates of these destinations, in their order. */
export async function seeAll(
  services: Services,
  destinations: readonly Destination[],
  look: Look,
): Promise<readonly Seen[]> {
  const ids = destinations.map(({ id }) => id);
  const [backlogs, retries, figures] = await Promise.all([
    backlogOf(services, ids, COUNTED),
    retriesByDestination(services),
    askAll(services, destinations, look),
  ]);
  return destinations.map((row, i) => {
    const backlog = backlogs.get(row.id) ?? { waiting: 0, dead: 0 };
    return { row, depth: { ...backlog, retrying: retries.get(row.id) ?? 0 }, figures: figures[i] };
  });
}

/** All destinations' tallies of a window, as one. */
export function fleetSum({ seen }: Fleet, window: StatsWindow): Tally {
  const sums = seen.flatMap(({ figures }) => figures?.windows[window]?.sum ?? []);
  const [first = emptyTally(0), ...others] = sums;
  return others.reduce<Tally>(plus, first);
}

/** All destinations' traffic over time, as one; empty when no gate was reached. */
export function fleetSeries({ seen }: Fleet, window: StatsWindow): Series {
  return addedSeries(seen.flatMap(({ figures }) => [figures?.windows[window]?.series ?? []]));
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
  look: Look,
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
