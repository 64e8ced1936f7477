/** The dimensions that grow one at a time while the others keep their usual size, and the table of an event's cost. */
import { table } from "../markdown.ts";
import type { DimensionResults, DimensionStep } from "../results.ts";

export const DIMENSIONS: Readonly<Record<string, Readonly<{ what: string; sizes: readonly number[] }>>> = {
  isolates: { what: "isolates", sizes: [1, 10, 100, 300] },
  tenants: { what: "tenants with a destination each", sizes: [1, 100, 10_000, 100_000] },
  keys: { what: "API keys in use", sizes: [1, 100, 10_000, 100_000] },
  destinations: { what: "destinations of all tenants", sizes: [10, 1_000, 100_000, 1_000_000] },
  databases: { what: "databases", sizes: [1, 3, 10, 100] },
  shards: { what: "intake shards", sizes: [1, 4, 16, 64] },
  idle: { what: "minutes idle, with an event a second elsewhere", sizes: [0, 1, 60, 1_440] },
};

const columns: readonly [title: string, digits: number, value: (step: DimensionStep) => number][] = [
  ["rows read", 1, ({ rowsRead }) => rowsRead],
  ["rows written", 2, ({ rowsWritten }) => rowsWritten],
  ["queries", 2, ({ queries }) => queries],
  ["gate calls", 2, ({ gateCalls }) => gateCalls],
  ["KB an isolate", 0, ({ isolateKb }) => isolateKb],
  ["a cron's queries", 0, ({ cronQueries }) => cronQueries],
  ["a cron's rows read", 0, ({ cronRowsRead }) => cronRowsRead],
];

export function dimensionTable({ dimensions: all }: DimensionResults): string {
  const rows = all.flatMap(({ what, steps }) =>
    steps.map((step, i) => [
      i === 0 ? what : "",
      step.size.toLocaleString("en"),
      ...columns.map(([, digits, value]) =>
        value(step).toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }),
      ),
    ]),
  );
  return table(["what grows", "to", ...columns.map(([title]) => title)], rows);
}
