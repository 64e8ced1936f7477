/** Tables in Markdown, as benchmarks print them. */

export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  return [head, head.map(() => "---"), ...rows].map(line).join("\n");
}

/** One row by itself. */
export function line(cells: readonly string[]): string {
  return `| ${cells.join(" | ")} |`;
}
