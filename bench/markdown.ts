/** Tables in Markdown, as benchmarks print them. */

export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  return [head, head.map(() => "---"), ...rows].map(line).join("\n");
}

/** One row of a table. */
export function line(cells: readonly string[]): string {
  return `| ${cells.join(" | ")} |`;
}

/** A number with grouped digits and `digits` decimals; a dash if it is not known. */
export function fixed(value: number | undefined, digits = 0): string {
  if (value === undefined || Number.isNaN(value)) return "–";
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}
