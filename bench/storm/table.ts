/** Figures as an aligned table, for a terminal and for Markdown alike. */
import type { Figures } from "../../src/simulator/figures.ts";
import { fixed } from "../markdown.ts";

export type Row = Readonly<{ name: string; figures: Figures }>;

const HEAD = [
  "",
  "peak ÷ capacity",
  "second outages",
  "wasted",
  "drain ÷ optimum",
  "noticed",
  "p50",
  "p99",
  "lost",
];

export function figureTable(rows: readonly Row[]): string {
  return alignedTable(HEAD, rows.map(cellsOf));
}

/** Markdown: the first column to the left, the others to the right. */
export function alignedTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, i) => Math.max(3, title.length, ...rows.map((row) => row[i]?.length ?? 0)));
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, i) => (i === 0 ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0))).join(" | ")} |`;
  const rule = `| ${widths.map((width, i) => (i === 0 ? "-".repeat(width) : `${"-".repeat(width - 1)}:`)).join(" | ")} |`;
  return [line(head), rule, ...rows.map(line)].join("\n");
}

function cellsOf({ name, figures }: Row): string[] {
  const { peak, secondOutages, wasted, drain, noticedS, p50S, p99S, lost, pending } = figures;
  return [
    name,
    fixed(peak, 2),
    fixed(secondOutages),
    fixed(wasted),
    fixed(drain, 2),
    noticedS === undefined ? "–" : duration(noticedS),
    duration(p50S),
    duration(p99S),
    pending > 0 ? `${fixed(lost)} (+${fixed(pending)} open)` : fixed(lost),
  ];
}

/** Two figures and a unit. */
export function duration(seconds: number): string {
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}
