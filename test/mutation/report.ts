/** The results of a run, as a table by folder, and its survivors. */
import type { Explanation } from "./explained.ts";
import type { Mutant } from "./plan.ts";
import type { Results } from "./results.ts";

type Found = Readonly<{
  mutants: readonly Mutant[];
  results: Results;
  explained: ReadonlyMap<number, Explanation>;
  /** Whether to list the survivors. */
  lists: boolean;
}>;

export function printed({ mutants, results, explained, lists }: Found): string {
  const open = mutants.filter(({ id }) => results.killer(id) === undefined && !explained.has(id));
  const folders = Map.groupBy(mutants, ({ file }) => file.split("/").slice(0, 2).join("/"));
  const rows = [...folders].map(([folder, all]) => row(folder, all));
  return [
    "| folder | mutants | killed | explained | survived | not reached | score |",
    "|---|---|---|---|---|---|---|",
    ...rows,
    ...(folders.size > 1 ? [row("all", mutants)] : []),
    ...(lists ? open.map(line) : []),
  ].join("\n");

  function row(name: string, all: readonly Mutant[]): string {
    const killed = all.filter(({ id }) => results.killer(id) !== undefined).length;
    const known = all.filter(({ id }) => results.killer(id) === undefined && explained.has(id)).length;
    const left = all.filter((one) => open.includes(one));
    const survived = left.filter(({ id }) => results.survived(id) > 0).length;
    const score = (100 * (killed + known)) / Math.max(1, all.length);
    const cells = [
      name,
      all.length,
      killed,
      known,
      survived,
      left.length - survived,
      `${(Math.floor(100 * score) / 100).toFixed(2)} %`,
    ];
    return `| ${cells.join(" | ")} |`;
  }

  function line({ id, file, line, original, replacement }: Mutant): string {
    const state = results.survived(id) > 0 ? `survived ${results.survived(id)}` : "not reached";
    return `${file}:${line} (${state})\n    ${difference(original, replacement)}`;
  }
}

/** Only what differs, of a long text. */
function difference(original: string, replacement: string): string {
  if (original.length < 120) return `${JSON.stringify(original)} → ${JSON.stringify(replacement)}`;
  let from = 0;
  while (original[from] === replacement[from] && from < original.length) from++;
  let to = 1;
  while (
    original.at(-to) === replacement.at(-to) &&
    to < Math.min(original.length, replacement.length) - from
  )
    to++;
  const cut = (text: string) => JSON.stringify(text.slice(Math.max(0, from - 50), text.length - to + 31));
  return `${cut(original)} → ${cut(replacement)}`;
}
