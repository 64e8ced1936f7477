/** The promises about storms, and whether the figures keep them. */

import type { Figures } from "../../src/simulator/figures.ts";
import { type Comparison, resultOf } from "./compare.ts";
import { ourselves } from "./contenders.ts";
import type { WideDrain } from "./wide-drain.ts";

export type Goal = Readonly<{
  id: GoalId;
  goal: string;
  figure: string;
  /** The figure, unrounded. */
  value: number;
  met: boolean;
}>;
export type GoalId = "peak" | "misjudged" | "outages" | "wasted" | "drain" | "lost" | "wide";

export const limits = { peak: 1, wasted: 100, drain: 1.15, wide: 800 };

/**
 * Scenarios whose receiver takes less than its destination's limits allow. Breakwater is not at fault there, but the
 * figure counts.
 */
const MISJUDGED: readonly string[] = ["weak", "429", "429-known"];

type Ours = Readonly<{ name: string; figures: Figures }>;

/** The drain and the waste are promised for the one-hour outage, the rest for every scenario. */
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
      "peak",
      "peak after recovery ≤ 1.0 × capacity",
      ours.filter(({ name }) => !MISJUDGED.includes(name)),
    ),
    peakGoal(
      "misjudged",
      "the same, limits above the receiver's capacity",
      ours.filter(({ name }) => MISJUDGED.includes(name)),
    ),
    atMost("outages", "second outages, every scenario: none", outages, 0),
    atMost("wasted", "wasted attempts, 1 h outage: ≤ 100", hour?.wasted, limits.wasted),
    atMost("drain", "drain ÷ optimum, 1 h outage: ≤ 1.15", hour?.drain, limits.drain),
    atMost("lost", "lost or left open, every scenario: none", lost, 0),
    {
      id: "wide",
      goal: "wide drain: ≥ 800 of 1,000/s",
      figure: `${Math.round(wide.sustained)}/s`,
      value: wide.sustained,
      met: wide.sustained >= limits.wide,
    },
  ];
}

function total(ours: readonly Ours[], read: (figures: Figures) => number): number {
  return ours.reduce((sum, { figures }) => sum + read(figures), 0);
}

function peakGoal(id: GoalId, goal: string, ours: readonly Ours[]): Goal {
  const [worst] = ours.toSorted((a, b) => b.figures.peak - a.figures.peak);
  const peak = worst?.figures.peak ?? 0;
  return { id, goal, figure: `${peak.toFixed(2)} (${worst?.name})`, value: peak, met: peak <= limits.peak };
}

function atMost(id: GoalId, goal: string, figure: number | undefined, limit: number): Goal {
  const shown = figure === undefined ? "–" : String(Math.round(figure * 1_000) / 1_000);
  const met = figure !== undefined && figure <= limit;
  return { id, goal, figure: shown, value: figure ?? Number.NaN, met };
}
