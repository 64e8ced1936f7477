/** What a gate would say of itself, of what it has counted: for gates that a test makes. */
import type { GateFigures, Look } from "../../src/policy/gate-figures.ts";
import type { GateView } from "../../src/policy/gate-view.ts";
import { seriesOf, sumOf } from "../../src/policy/stats-window.ts";
import type { Tallies } from "../../src/policy/tallies.ts";

export function figuresOf(view: GateView, tallies: Tallies, { windows }: Look, now: number): GateFigures {
  const looked = windows.map((window) => [
    window,
    { sum: sumOf(tallies, [], window, now), series: seriesOf(tallies, [], window, now) },
  ]);
  return { view, ever: tallies.ever, windows: Object.fromEntries(looked) };
}
