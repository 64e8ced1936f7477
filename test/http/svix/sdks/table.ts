/** The results of the SDKs, as a table of steps by SDKs: for a terminal, or in Markdown. */
import { steps } from "./steps.ts";
import type { Outcome, Outcomes } from "./story.ts";

/** The result of an SDK: its outcomes, or why there are none. */
export type Result = Readonly<{ name: string; version: string }> &
  Readonly<
    | { kind: "told"; outcomes: Outcomes }
    /** The machine lacks something. */
    | { kind: "skipped"; lacks: string }
    | { kind: "not installed"; error: string }
  >;

/** The signs of the table. */
const LEGEND =
  "– means that the SDK has no such method or its story leaves it out, 501 that Breakwater does not have the route.";

export const words: Readonly<Record<Outcome["outcome"], string>> = {
  passed: "passed",
  failed: "FAILED",
  absent: "–",
  unsupported: "501",
};

function cellOf(result: Result, step: string): string {
  if (result.kind !== "told") return result.kind;
  return words[result.outcomes.get(step)?.outcome ?? "failed"];
}

export const titleOf = ({ name, version }: Result) => `${name} ${version}`.trim();

export function inText(results: readonly Result[]): string {
  const rows = [
    ["", ...results.map(titleOf)],
    ...steps.map(({ name }) => [name, ...results.map((one) => cellOf(one, name))]),
  ];
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? [];
  const line = (row: string[]) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  ");
  return `${rows.map((row) => line(row).trimEnd()).join("\n")}\n\n${LEGEND}\n`;
}

/** With the routes beside the steps. SDKs that did not run are left out. */
export function inMarkdown(results: readonly Result[]): string {
  const told = results.filter(({ kind }) => kind === "told");
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  const lines = [
    line(["route", "step", ...told.map(titleOf)]),
    `|${"---|".repeat(told.length + 2)}`,
    ...steps.map(({ name, route }) =>
      line([route && `\`${route}\``, name, ...told.map((one) => cellOf(one, name))]),
    ),
  ];
  return `${lines.join("\n")}\n\n${LEGEND}\n`;
}
