/** The lines and the table that a run prints. */

export type Line = Readonly<{
  result: "ok" | "FAIL" | "skip";
  name: string;
  expected: string;
  seen: string;
}>;

/** A check that is done. */
export function lineText({ result, name, expected, seen }: Line): string {
  const head = `${result.padEnd(4)}  ${name}: `;
  if (result === "skip") return `${head}skipped: ${seen}`;
  return `${head}expected ${expected}; seen: ${seen}`;
}

/** All of them, in columns, and how many of each result. */
export function tableText(lines: readonly Line[], tookMs: number): string {
  const rows = [["", "check", "expected", "seen"], ...lines.map(cellsOf)];
  const widths = [0, 1, 2].map((column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const text = rows.map((row) =>
    row
      .map((cell, i) => cell.padEnd(widths[i] ?? 0))
      .join("  ")
      .trimEnd(),
  );
  const count = (result: Line["result"]) => lines.filter((line) => line.result === result).length;
  const took = `${Math.round(tookMs / 1000)} s`;
  return [...text, "", `${count("ok")} ok, ${count("FAIL")} FAIL, ${count("skip")} skip, in ${took}`].join(
    "\n",
  );
}

function cellsOf({ result, name, expected, seen }: Line): string[] {
  return [result, name, expected, result === "skip" ? `skipped: ${seen}` : seen];
}
