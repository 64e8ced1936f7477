/** The pictures of docs/benchmarks.md: the scenario, the senders and the length of each. */
import { chart } from "./chart.ts";
import { type Comparison, resultOf } from "./compare.ts";
import { ourselves } from "./contenders.ts";

export type Picture = Readonly<{ file: string; svg: string }>;

const DRAWN = [
  {
    name: "outage-1h",
    seconds: 7200,
    others: ["exponential, no jitter", "capped (preset alone)", "Svix (model)"],
  },
  { name: "slow", seconds: 1800, others: ["exponential, no jitter", "Svix (model)"] },
  { name: "flapping", seconds: 1200, others: ["fixed 60 s, 40 attempts", "Svix (model)"] },
  { name: "429", seconds: 900, others: ["textbook (preset alone)", "Svix (model)"] },
] as const;

export function pictures(comparisons: readonly Comparison[]): Picture[] {
  return DRAWN.flatMap(({ name, seconds, others }) => {
    const comparison = comparisons.find(({ scenario }) => scenario.name === name);
    if (!comparison) return [];
    const panels = [...others, ourselves.name].map((sender) => resultOf(comparison, sender));
    return [{ file: `storm-${name}.svg`, svg: chart(comparison.scenario, panels, seconds) }];
  });
}
