/** Tables of the figures: medians over the rounds, and ratios to Breakwater's figures of the same round. */
import { machine } from "../machine.ts";
import { fixed, table } from "../markdown.ts";
import type { LoadFigures, LoadTable } from "../results.ts";
import type { Contender } from "./contender.ts";
import type { Shape } from "./load.ts";
import { type Figures, quantile } from "./round.ts";

/** All rounds of one contender under one load. */
export type Series = Readonly<{
  contender: Pick<Contender, "name" | "settings">;
  shape: Shape;
  rounds: readonly Figures[];
}>;

/** Returns a table for each load, in the order of the series. */
export function tablesOf(series: readonly Series[]): LoadTable[] {
  return [...Map.groupBy(series, ({ shape }) => shape)].map(
    ([{ name, events, perPost, connections }, of]) => ({
      name,
      events,
      perPost,
      connections,
      rounds: of[0]?.rounds.length ?? 0,
      contenders: of.map((one) => middle(one, of[0] ?? one)),
    }),
  );
}

function middle({ contender: { name, settings }, rounds }: Series, first: Series): LoadFigures {
  const of = (key: keyof Figures) =>
    quantile(
      rounds.flatMap((figures) => figures[key] ?? []),
      0.5,
    );
  const known = (key: "cpuSecondsPer1000" | "megabytes") =>
    rounds.every((figures) => figures[key] !== undefined) ? { [key]: of(key) } : {};
  return {
    name,
    settings,
    ratio: ratioTo(first.rounds, rounds),
    acceptedPerSecond: of("acceptedPerSecond"),
    deliveredPerSecond: of("deliveredPerSecond"),
    ingestP50Ms: of("ingestP50Ms"),
    ingestP99Ms: of("ingestP99Ms"),
    deliveredP50Ms: of("deliveredP50Ms"),
    deliveredP99Ms: of("deliveredP99Ms"),
    ...known("cpuSecondsPer1000"),
    ...known("megabytes"),
  };
}

/** Compares round by round, because the machine's load differs less between measurements that follow each other. */
function ratioTo(reference: readonly Figures[], rounds: readonly Figures[]): number {
  const pairs = reference.map((figures, i) => {
    const other = rounds[i]?.deliveredPerSecond ?? Number.NaN;
    return figures.deliveredPerSecond / other;
  });
  return quantile(pairs, 0.5);
}

/** Compares the other contenders with the first. */
export function loadTable({ contenders }: LoadTable): string {
  const head = [
    "",
    "accepted/s",
    "delivered/s",
    `${contenders[0]?.name} ÷ it`,
    "accept p50, p99 ms",
    "accept to arrival p50, p99 ms",
    "CPU s / 1,000",
    "MB",
  ];
  const rows = contenders.map((one) => [
    one.name,
    fixed(one.acceptedPerSecond),
    fixed(one.deliveredPerSecond),
    fixed(one.ratio, 2),
    `${fixed(one.ingestP50Ms)}, ${fixed(one.ingestP99Ms)}`,
    `${fixed(one.deliveredP50Ms)}, ${fixed(one.deliveredP99Ms)}`,
    fixed(one.cpuSecondsPer1000, 2),
    fixed(one.megabytes),
  ]);
  return table(head, rows);
}

export function titleOf({ name, events, perPost, connections, rounds }: LoadTable): string {
  const load = perPost === 1 ? "one a post" : `${perPost} a post`;
  return `**${name}**: ${fixed(events)} events of 1 KB, ${load}, ${connections} connections, median of ${rounds} rounds`;
}

/** All tables, for a terminal. */
export function report(tables: readonly LoadTable[]): string {
  const parts = tables.flatMap((one) => [titleOf(one), loadTable(one)]);
  const settings = new Map(
    tables.flatMap(({ contenders }) => contenders).map((one) => [one.name, one.settings]),
  );
  const lines = [...settings].map(([name, text]) => `- ${name}: ${text}`);
  return [...parts, [machine(), "", ...lines].join("\n")].join("\n\n");
}
