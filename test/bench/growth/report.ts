/** What grows with what, as a table. */
import { table } from "../markdown.ts";
import type { Growth, Step } from "./growths.ts";

const counted: readonly [title: string, value: (step: Step) => number][] = [
  ["rows written", ({ units, delivered }) => units.d1RowsWritten / delivered],
  ["rows read", ({ units, delivered }) => units.d1RowsRead / delivered],
  ["round trips", ({ units, delivered }) => units.d1RoundTrips / delivered],
];

export function report({ what, steps }: Growth): string {
  const head = [what, ...counted.map(([title]) => title), "ms"];
  const rows = steps.map((step) => [
    step.size.toLocaleString("en"),
    ...counted.map(([, value]) => value(step).toFixed(3)),
    (step.ms / step.delivered).toFixed(2),
  ]);
  const last = ["dearest ÷ cheapest", ...counted.map(([, value]) => spread(steps, value).toFixed(3)), ""];
  return table(head, [...rows, last]);
}

/** The largest of the ratios that the report shows. */
export function growthOf({ steps }: Growth): number {
  return Math.max(...counted.map(([, value]) => spread(steps, value)));
}

function spread(steps: readonly Step[], value: (step: Step) => number): number {
  const values = steps.map(value);
  return Math.max(...values) / Math.min(...values);
}
