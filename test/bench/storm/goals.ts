/** What is promised, and whether the figures keep it. */

import type { Figures } from "../../../src/simulator/figures.ts";
import { type Comparison, resultOf } from "./compare.ts";
import { ourselves } from "./contenders.ts";
import type { WideDrain } from "./wide-drain.ts";

export type Goal = Readonly<{ goal: string; figure: string; met: boolean }>;

export const limits = { peak: 1, wasted: 100, drain: 1.15, wide: 800 };

/** Receivers that take less than the limits of their destinations say: the fault is not ours, the figure is. */
const MISJUDGED: readonly string[] = ["weak", "429", "429-known"];

type Ours = Readonly<{ name: string; figures: Figures }>;

/** The drain and the waste are promised for the outage of an hour, the rest for every scenario. */
export function goalsOf(comparisons: readonly Comparison[], wide: WideDrain): Goal[] {
  const ours = comparisons.map((comparison) => ({
    name: comparison.scenario.name,
    figures: resultOf(comparison, ourselves.name).figures,
  }));
  const hour = ours.find(({ name }) => name === "outage-1h")?.figures;
  const outages = total(ours, ({ secondOutages }) => secondOutages);
  const lost = total(ours, (figures) => figures.lost + figures.pending);
  return [
    peakGoal(
      "peak after recovery ≤ 1.0 × capacity",
      ours.filter(({ name }) => !MISJUDGED.includes(name)),
    ),
    peakGoal(
      "the same, limits above the receiver's capacity",
      ours.filter(({ name }) => MISJUDGED.includes(name)),
    ),
    atMost("second outages, every scenario: none", outages, 0),
    atMost("wasted attempts, 1 h outage: ≤ 100", hour?.wasted, limits.wasted),
    atMost("drain ÷ optimum, 1 h outage: ≤ 1.15", hour?.drain, limits.drain),
    atMost("lost or left open, every scenario: none", lost, 0),
    {
      goal: "wide drain: ≥ 800 of 1,000/s",
      figure: `${Math.round(wide.sustained)}/s`,
      met: wide.sustained >= limits.wide,
    },
  ];
}

function total(ours: readonly Ours[], read: (figures: Figures) => number): number {
  return ours.reduce((sum, { figures }) => sum + read(figures), 0);
}

function peakGoal(goal: string, ours: readonly Ours[]): Goal {
  const [worst] = ours.toSorted((a, b) => b.figures.peak - a.figures.peak);
  const peak = worst?.figures.peak ?? 0;
  return { goal, figure: `${peak.toFixed(2)} (${worst?.name})`, met: peak <= limits.peak };
}

function atMost(goal: string, figure: number | undefined, limit: number): Goal {
  const shown = figure === undefined ? "–" : String(Math.round(figure * 100) / 100);
  return { goal, figure: shown, met: figure !== undefined && figure <= limit };
}
