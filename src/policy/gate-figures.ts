/** What a gate has counted, and how it stands: all that metrics, charts and overviews ask of it, at once. */
import type { GateSettings } from "./gate-settings.ts";
import type { GateState } from "./gate-state.ts";
import { type GateView, viewOf } from "./gate-view.ts";
import { type Series, type StatsWindow, seriesOf, sumOf } from "./stats-window.ts";
import type { Hours } from "./tallies.ts";
import type { Counters } from "./tally.ts";

export type FiguresQuery = Readonly<{
  windows: readonly StatsWindow[];
  /** Whether the windows' series are wanted too. */
  series: boolean;
}>;

export type GateFigures = Readonly<{
  view: GateView;
  /** Everything since the gate began to count: it only grows. */
  ever: Counters;
  /** For each of the windows asked for. */
  windows: Readonly<Partial<Record<StatsWindow, Readonly<{ sum: Counters; series: Series }>>>>;
}>;

export function figuresOf(
  state: GateState,
  hours: Hours,
  look: FiguresQuery,
  settings: GateSettings,
  now: number,
): GateFigures {
  const { rollups } = state;
  const windows = look.windows.map((window) => {
    const series = look.series ? seriesOf(rollups, hours, window, now) : [];
    return [window, { sum: sumOf(rollups, hours, window, now), series }];
  });
  return { view: viewOf(state, settings, now), ever: rollups.ever, windows: Object.fromEntries(windows) };
}
