/** What a gate would say of itself, of what it has counted: for gates that a test makes. */
import type { GateFigures, FiguresQuery } from "../../src/policy/gate-figures.ts";
import type { GateView } from "../../src/policy/gate-view.ts";
import { seriesOf, sumOf } from "../../src/policy/stats-window.ts";
import type { Rollups } from "../../src/policy/tallies.ts";

export function figuresOf(view: GateView, rollups: Rollups, { windows }: FiguresQuery, now: number): GateFigures {
  const looked = windows.map((window) => [
    window,
    { sum: sumOf(rollups, [], window, now), series: seriesOf(rollups, [], window, now) },
  ]);
  return { view, ever: rollups.ever, windows: Object.fromEntries(looked) };
}
