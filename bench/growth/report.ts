/** One series of growth as a table. */
import { table } from "../markdown.ts";
import type { GrowthResults } from "../results.ts";
import type { Growth, Step } from "./queries.ts";

const counted: readonly [title: string, value: (step: Step) => number][] = [
  ["rows written", ({ units, delivered }) => units.d1RowsWritten / delivered],
  ["rows read", ({ units, delivered }) => units.d1RowsRead / delivered],
];
/** These depend on how many messages happen to share a batch, so they get no ratio. */
const byChance: typeof counted = [["round trips", ({ units, delivered }) => units.d1RoundTrips / delivered]];
const shown = [...counted, ...byChance];

export function report({ what, steps }: Growth): string {
  const head = [what, ...shown.map(([title]) => title), "ms"];
  const rows = steps.map((step) => [
    step.size.toLocaleString("en"),
    ...shown.map(([, value]) => value(step).toFixed(3)),
    (step.ms / step.delivered).toFixed(2),
  ]);
  const ratios = counted.map(([, value]) => spread(steps, value).toFixed(3));
  const last = ["dearest ÷ cheapest", ...ratios, ...byChance.map(() => ""), ""];
  return table(head, [...rows, last]);
}

export function resultsOf(tables: readonly Growth[]): GrowthResults {
  const perDelivery = ({ size, units, delivered }: Step) => ({
    size,
    rowsWritten: units.d1RowsWritten / delivered,
    rowsRead: units.d1RowsRead / delivered,
  });
  return { tables: tables.map(({ id, what, steps }) => ({ id, what, steps: steps.map(perDelivery) })) };
}

/** The larger of the ratios that the report shows. */
export function growthOf({ steps }: Growth): number {
  return Math.max(...counted.map(([, value]) => spread(steps, value)));
}

function spread(steps: readonly Step[], value: (step: Step) => number): number {
  const values = steps.map(value);
  return Math.max(...values) / Math.min(...values);
}
