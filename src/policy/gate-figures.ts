/** What a gate has counted, and how it stands: all that metrics, charts and overviews ask of it, at once. */
import type { GateSettings } from "./gate-settings.ts";
import type { GateState } from "./gate-state.ts";
import { type GateView, viewOf } from "./gate-view.ts";
import { type Series, type StatsWindow, seriesOf, sumOf } from "./stats-window.ts";
import type { Hours } from "./tallies.ts";
import type { Tally } from "./tally.ts";

export type Look = Readonly<{
  windows: readonly StatsWindow[];
  /** Whether the windows' series are wanted too. */
  series: boolean;
}>;

export type GateFigures = Readonly<{
  view: GateView;
  /** Everything since the gate began to count: it only grows. */
  ever: Tally;
  /** For each of the windows asked for. */
  windows: Readonly<Partial<Record<StatsWindow, Readonly<{ sum: Tally; series: Series }>>>>;
}>;

export function figuresOf(
  state: GateState,
  hours: Hours,
  look: Look,
  settings: GateSettings,
  now: number,
): GateFigures {
  const { tallies } = state;
  const windows = look.windows.map((window) => {
    const series = look.series ? seriesOf(tallies, hours, window, now) : [];
    return [window, { sum: sumOf(tallies, hours, window, now), series }];
  });
  return { view: viewOf(state, settings, now), ever: tallies.ever, windows: Object.fromEntries(windows) };
}
