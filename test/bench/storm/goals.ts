/** What is promised, and whether the figures keep it. */
import { type Comparison, resultOf } from "./compare.ts";
import { ourselves } from "./contenders.ts";
import type { Figures } from "./figures.ts";
import type { WideDrain } from "./wide-drain.ts";

export type Goal = Readonly<{ goal: string; figure: string; met: boolean }>;

export const limits = { peak: 1, wasted: 100, drain: 1.15, wide: 800 };

/** The drain and the waste are promised for the outage of an hour, the rest for every scenario. */
export function goalsOf(comparisons: readonly Comparison[], wide: WideDrain): Goal[] {
  const ours = comparisons.map((comparison) => ({
    name: comparison.scenario.name,
    figures: resultOf(comparison, ourselves.name).figures,
  }));
  const hour = ours.find(({ name }) => name === "outage-1h")?.figures;
  const most = (read: (figures: Figures) => number) =>
    ours.reduce(
      (worst, { name, figures }) => (read(figures) > worst.at ? { name, at: read(figures) } : worst),
      {
        name: "every scenario",
        at: 0,
      },
    );
  const peak = most(({ peak }) => peak);
  const outages = most(({ secondOutages }) => secondOutages);
  const lost = most(({ lost, pending }) => lost + pending);
  return [
    goal(
      "peak after recovery ≤ 1.0 × capacity",
      `${peak.at.toFixed(2)} (${peak.name})`,
      peak.at <= limits.peak,
    ),
    goal("no second outage", `${outages.at}`, outages.at === 0),
    goal("≤ 100 wasted attempts, 1 h outage", `${hour?.wasted}`, (hour?.wasted ?? 1e9) <= limits.wasted),
    goal(
      "drain ≤ 1.15 × optimum, 1 h outage",
      `${hour?.drain?.toFixed(2)}`,
      (hour?.drain ?? 1e9) <= limits.drain,
    ),
    goal("nothing lost, nothing left open", `${lost.at}`, lost.at === 0),
    goal("wide drain ≥ 800/s of 1,000/s", `${Math.round(wide.sustained)}/s`, wide.sustained >= limits.wide),
  ];
}

function goal(text: string, figure: string, met: boolean): Goal {
  return { goal: text, figure, met };
}
