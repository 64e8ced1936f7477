/** `npm run model`: checks everything, and writes what has come of it into docs/model.md. */
import { writeFileSync } from "node:fs";
import { groups } from "./groups.ts";
import { counterExampleText, lineOf, PAGE, pageText, withGenerated } from "./report.ts";

const parts: string[] = [];
for (const { title, small, deep, broken } of groups) {
  parts.push(
    `## ${title}: figures`,
    "",
    "| scenario | states | transitions | depth |",
    "|---|---:|---:|---:|",
  );
  for (const one of [...small, ...deep]) {
    const result = await one.check();
    if (result.counterExample) throw new Error(JSON.stringify(result.counterExample, null, 2));
    parts.push(lineOf(one, result));
    process.stdout.write(`${lineOf(one, result)}\n`);
  }
  parts.push("", `## ${title}: broken on purpose`, "");
  for (const one of broken) parts.push(counterExampleText(one, await one.check()), "");
}
writeFileSync(PAGE, withGenerated(pageText(), parts.join("\n").trimEnd()));
