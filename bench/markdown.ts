/** Tables in Markdown, as benchmarks print them. */

export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  return [head, head.map(() => "---"), ...rows].map(line).join("\n");
}

/** One row by itself. */
export function line(cells: readonly string[]): string {
  return `| ${cells.join(" | ")} |`;
}

/** Grouped, with so many decimals; a dash for what is not known. */
export function fixed(value: number | undefined, digits = 0): string {
  if (value === undefined || Number.isNaN(value)) return "–";
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}
