/** The figures of a host that many tenants share, as a table: for the storm figures, and a part of it for pages. */
import { fixed } from "../markdown.ts";
import { othersRatio, type SharedReceiver, type SharedResults } from "../results.ts";
import { alignedTable } from "./table.ts";

type Shared = SharedResults["runs"];

const sharedRow = (runs: Shared, title: string, of: (figures: SharedReceiver) => string) => [
  title,
  ...runs.map(of),
];

/** The head of the table, and the rows that pages show. */
export function sharedRows(runs: Shared): [head: string[], rows: string[][]] {
  const row = (title: string, of: (figures: SharedReceiver) => string) => sharedRow(runs, title, of);
  const shown = ({ p50Ms, p99Ms }: SharedReceiver["others"]) =>
    `${fixed(p50Ms / 1000, 2)}, ${fixed(p99Ms / 1000, 2)}`;
  return [
    ["", ...runs.map(({ name }) => name)],
    [
      row("fullest second after the recovery ÷ capacity", ({ peak }) => fixed(peak, 2)),
      row("second outages", ({ secondOutages }) => fixed(secondOutages)),
      row("attempts wasted", ({ wasted }) => fixed(wasted)),
      row("time to drain ÷ optimum", ({ drain }) => fixed(drain, 2)),
      row("fairness half-way (Jain's index)", ({ fairness }) => fixed(fairness, 2)),
      row("other hosts, p50 and p99 (s)", ({ others }) => shown(others)),
      row("the same without the outage", ({ undisturbed }) => shown(undisturbed)),
    ],
  ];
}

export function sharedTable(runs: Shared): string {
  const [head, rows] = sharedRows(runs);
  return alignedTable(head, [
    ...rows,
    sharedRow(runs, "larger ratio of the two", (figures) => fixed(othersRatio(figures), 2)),
    sharedRow(runs, "lost", ({ lost }) => fixed(lost)),
  ]);
}
