/** `npm run model`: checks everything, and writes figures into docs/model.md and counter-examples into counter-examples.txt. */
import { writeFileSync } from "node:fs";
import { groups } from "./groups.ts";
import { COUNTER_EXAMPLES, counterExampleText, lineOf, PAGE, pageText, withGenerated } from "./report.ts";

const parts: string[] = [];
const examples: string[] = [];
for (const { title, small, deep, broken } of groups) {
  parts.push(`## ${title}`, "", "| scenario | states | transitions | depth |", "|---|---:|---:|---:|");
  for (const one of [...small, ...deep]) {
    const result = await one.check();
    if (result.counterExample) throw new Error(JSON.stringify(result.counterExample, null, 2));
    parts.push(lineOf(one, result));
    process.stdout.write(`${lineOf(one, result)}\n`);
  }
  parts.push("");
  examples.push(`# ${title}`);
  for (const one of broken) examples.push(counterExampleText(one, await one.check()));
}
writeFileSync(PAGE, withGenerated(pageText(), parts.join("\n").trimEnd()));
writeFileSync(COUNTER_EXAMPLES, `${examples.join("\n\n")}\n`);
