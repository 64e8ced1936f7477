/** The figures that a gate would report of its counts: for gates that a test makes. */
import type { FiguresQuery, GateFigures, GateView } from "../../src/core/gate-view.ts";
import { type Rollups, seriesOf, sumOf } from "../../src/core/rollups.ts";

export function figuresOf(
  view: GateView,
  rollups: Rollups,
  { windows }: FiguresQuery,
  now: number,
): GateFigures {
  const looked = windows.map((window) => [
    window,
    { sum: sumOf(rollups, [], window, now), series: seriesOf(rollups, [], window, now) },
  ]);
  return { view, ever: rollups.ever, windows: Object.fromEntries(looked) };
}
