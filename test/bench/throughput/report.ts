/** The figures as tables: medians over the rounds, and each as a ratio to Breakwater's of the same run. */
import { machine } from "../machine.ts";
import { table } from "../markdown.ts";
import type { Contender } from "./contender.ts";
import type { Shape } from "./load.ts";
import { type Figures, quantile } from "./round.ts";

/** All rounds of one contender under one load. */
export type Series = Readonly<{ contender: Contender; shape: Shape; rounds: readonly Figures[] }>;

const columns: readonly [keyof Figures, string, digits: number][] = [
  ["deliveredPerSecond", "delivered/s", 0],
  ["ingestP50Ms", "ingest p50 ms", 1],
  ["ingestP99Ms", "ingest p99 ms", 1],
  ["deliveredP50Ms", "accept to arrival p50 ms", 0],
  ["deliveredP99Ms", "p99 ms", 0],
  ["cpuSecondsPer1000", "CPU s / 1,000", 2],
  ["megabytes", "MB", 0],
];

export function report(series: readonly Series[], shapes: readonly Shape[]): string {
  const tables = shapes.map((shape) =>
    tableOf(
      shape,
      series.filter((one) => one.shape === shape),
    ),
  );
  return [...tables, settings(series)].join("\n\n");
}

function tableOf(shape: Shape, series: readonly Series[]): string {
  const reference = series[0];
  const head = ["", ...columns.map(([, title]) => title), "throughput ratio"];
  const rows = series.map((one) => [
    one.contender.name,
    ...columns.map(([key, , digits]) => median(one, key).toFixed(digits)),
    reference ? ratioTo(reference, one).toFixed(2) : "",
  ]);
  const title = `**${shape.name}**: ${shape.events.toLocaleString("en")} events of 1 KB, ${shape.perPost} a post, ${shape.connections} connections, median of ${reference?.rounds.length ?? 0} rounds`;
  return `${title}\n\n${table(head, rows)}`;
}

export function median({ rounds }: Series, key: keyof Figures): number {
  return quantile(
    rounds.map((figures) => figures[key]),
    0.5,
  );
}

/** Round by round, because neighbours in time share the machine's mood. */
function ratioTo(reference: Series, one: Series): number {
  const pairs = reference.rounds.map(
    (figures, i) => figures.deliveredPerSecond / (one.rounds[i]?.deliveredPerSecond ?? Number.NaN),
  );
  return quantile(pairs, 0.5);
}

function settings(series: readonly Series[]): string {
  const lines = new Map(series.map(({ contender: { name, settings } }) => [name, `- ${name}: ${settings}`]));
  return [machine(), "", ...lines.values()].join("\n");
}
