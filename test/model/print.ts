/** `npm run model`: checks everything, and writes figures into figures.md and counter-examples into counter-examples.txt. */
import { writeFileSync } from "node:fs";
import { groups } from "./groups.ts";
import { COUNTER_EXAMPLES, counterExampleText, FIGURES, figuresText, lineOf } from "./report.ts";

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
const [intro = ""] = figuresText().split(/^## /m);
writeFileSync(FIGURES, `${intro}${parts.join("\n").trimEnd()}\n`);
writeFileSync(COUNTER_EXAMPLES, `${examples.join("\n\n")}\n`);
