/** The figures as tables, one for each way of posting. */
import { fixed, table } from "../markdown.ts";
import type { ProfileResults } from "../results.ts";

/** Orders the rows by their share in delivering. */
export function profileTable({ columns }: ProfileResults, shape: string): string {
  const shown = columns.filter((column) => column.shape === shape);
  const order = shown.find(({ what }) => what === "delivered")?.parts ?? {};
  const kinds = [...new Set(shown.flatMap(({ parts }) => Object.keys(parts)))].toSorted(
    (a, b) => (order[b] ?? 0) - (order[a] ?? 0),
  );
  const rows = kinds.map((kind) => [kind, ...shown.map(({ parts }) => fixed(parts[kind] ?? 0))]);
  const all = ["all", ...shown.map(({ micros }) => fixed(micros))];
  return table([`µs of CPU for each event, ${shape}`, ...shown.map(({ what }) => what)], [...rows, all]);
}
