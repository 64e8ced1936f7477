/** The lines and the table that a run prints. */

export type ReportLine = Readonly<{
  result: "ok" | "FAIL" | "skip";
  name: string;
  expected: string;
  seen: string;
}>;

export function lineText({ result, name, expected, seen }: ReportLine): string {
  const head = `${result.padEnd(4)}  ${name}: `;
  if (result === "skip") return `${head}skipped: ${seen}`;
  return `${head}expected ${expected}; seen: ${seen}`;
}

/** All of them in columns, with what was expected where it was not seen, and how many there are of each result. */
export function tableText(lines: readonly ReportLine[], tookMs: number): string {
  const width = Math.max(...lines.map(({ name }) => name.length));
  const rows = lines.flatMap(({ result, name, expected, seen }) => {
    const row = `${result.padEnd(4)}  ${name.padEnd(width)}  ${result === "skip" ? `skipped: ${seen}` : seen}`;
    return result === "FAIL" ? [row, `${" ".repeat(width + 8)}expected ${expected}`] : [row];
  });
  const count = (result: ReportLine["result"]) => lines.filter((line) => line.result === result).length;
  const took = `${Math.round(tookMs / 1000)} s`;
  return [...rows, "", `${count("ok")} ok, ${count("FAIL")} FAIL, ${count("skip")} skip, in ${took}`].join(
    "\n",
  );
}
