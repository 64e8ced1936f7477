/** Looks up single saved figures. Each lookup throws if there is none: a bench was renamed, but not its page. */
import {
  type CostEntry,
  type DistanceRow,
  type GrowthResults,
  type IsolationResults,
  type LatencyRow,
  type LoadFigures,
  type LoadTable,
  type ProfileResults,
  type StormResults,
  type StormRow,
  saved,
} from "../results.ts";

export function costOf(id: string): CostEntry {
  const entries = [...saved("cost").entries, ...saved("sparse").entries];
  return found(entries, (entry) => entry.id === id, `cost ${id}`);
}

export function contender(shape: string, name: string): LoadFigures {
  const { contenders } = found(saved("throughput").tables, (one) => one.name === shape, shape);
  return found(contenders, (one) => one.name === name, name);
}

export function peersTable(shape: string): LoadTable {
  return found(saved("peers").tables, ({ name }) => name === shape, `peers ${shape}`);
}

export function rateRow(perSecond: number, name: string): LatencyRow {
  const matches = (row: LatencyRow) => row.perSecond === perSecond && row.name === name;
  return found(saved("latency").rows, matches, `${name} at ${perSecond} a second`);
}

export function distanceRow(distanceMs: number, perSecond: number): DistanceRow {
  const matches = (row: DistanceRow) => row.distanceMs === distanceMs && row.perSecond === perSecond;
  return found(saved("distance").rows, matches, `${perSecond} a second at ${distanceMs} ms`);
}

export function stepsOf(id: string): GrowthResults["tables"][number]["steps"] {
  return found(saved("growth").tables, (one) => one.id === id, `growth ${id}`).steps;
}

/** The fewest and the most rows read for each event or delivery. */
export function spreadOf(...ids: readonly string[]): Readonly<{ least: number; most: number }> {
  const read = ids.flatMap(stepsOf).map(({ rowsRead }) => rowsRead);
  return { least: Math.min(...read), most: Math.max(...read) };
}

export function micros(shape: string, what: string): number {
  const matches = (column: Readonly<{ shape: string; what: string }>) =>
    column.shape === shape && column.what === what;
  return found(saved("profile").columns, matches, `profile ${shape}: ${what}`).micros;
}

/** The CPU of a delivery by Breakwater, or by another entrant of the profile, ÷ the bare Worker's. */
export function cpuRatio(shape: string, by = "delivered"): ProfileResults["ratios"][number] {
  const matches = (one: Readonly<{ shape: string; what: string }>) => one.shape === shape && one.what === by;
  return found(saved("profile").ratios, matches, `profile ratio ${shape}: ${by}`);
}

export function byTrouble(trouble: string): IsolationResults["rows"] {
  return saved("isolation").rows.filter((row) => row.trouble === trouble);
}

export function stormGoal(id: string): StormResults["goals"][number] {
  return found(saved("storm").goals, (goal) => goal.id === id, `storm goal ${id}`);
}

/** A sender in the one-hour outage. */
export function inTheHour(name: string): StormRow {
  return found(saved("storm").hour, (row) => row.name === name, `${name} in the hour`);
}

/** Breakwater in a scenario. */
export function oursIn(scenario: string): StormRow {
  return found(saved("storm").ours, ({ name }) => name === scenario, `scenario ${scenario}`);
}

export function found<T>(all: readonly T[], matches: (one: T) => boolean, what: string): T {
  const one = all.find(matches);
  if (one === undefined) throw new Error(`bench/results has no figures of ${what}`);
  return one;
}
