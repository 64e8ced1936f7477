/**
 * `npm run test:sdks`: the official SDKs of Svix, each as its registry has it, against Breakwater in the local runtime.
 * `-- --only python,go` runs those alone; `-- --table` prints the table in Markdown. Exits 1 when a step fails or an SDK
 * cannot be installed; a language that the machine lacks is skipped.
 */
import { parseArgs } from "node:util";
import { type Sdk, sdks } from "./sdks.ts";
import { type Stack, startStack } from "./stack.ts";
import { failuresOf, runStory } from "./story.ts";
import { inMarkdown, inText, type Result, titleOf } from "./table.ts";

// Otherwise wrangler prints on stdout which secrets it has read.
process.env.WRANGLER_LOG ??= "error";

const { values } = parseArgs({ options: { only: { type: "string" }, table: { type: "boolean" } } });
const names = values.only?.split(",");
const unknown = names?.filter((name) => !sdks.some(({ run }) => run === name)) ?? [];
if (unknown.length > 0) {
  console.error(
    `There is no ${unknown.join(", ")}; expected some of ${sdks.map(({ run }) => run).join(", ")}`,
  );
  process.exit(2);
}

/** Progress goes to stderr, so that the table can be redirected. */
function report(line: string): void {
  process.stderr.write(`${line}\n`);
}

async function resultOf(sdk: Sdk, stack: Stack): Promise<Result> {
  const { name, version = "" } = sdk;
  const lacks = await sdk.lacks();
  if (lacks !== undefined) return { name, version, kind: "skipped", lacks };
  const label = `${name} ${version}`.trim();
  report(`${label}: installing`);
  const error = await sdk.install().then(() => undefined, errorOf);
  const program = await sdk.program();
  if (error !== undefined || program === undefined)
    return { name, version, kind: "not installed", error: error ?? "there is nothing to run" };
  report(`${label}: running`);
  const outcomes = await runStory(sdk, program, stack);
  return { name, version: program.version ?? version, kind: "told", outcomes };
}

function errorOf(error: Error & { stderr?: string }): string {
  return error.stderr?.trim() || error.message;
}

/** One line for each failure. */
function faultsOf(result: Result): string[] {
  switch (result.kind) {
    case "told":
      return failuresOf(result.outcomes);
    case "skipped":
      return [];
    case "not installed":
      return [`not installed: ${result.error}`];
  }
}

const stack = await startStack();
const results: Result[] = [];
for (const sdk of sdks.filter(({ run }) => names?.includes(run) ?? true)) {
  const result = await resultOf(sdk, stack);
  results.push(result);
  const faults = faultsOf(result);
  for (const fault of faults) report(`  ${fault}`);
  const works = faults.length === 0 ? "works" : "does not work";
  const skipped = result.kind === "skipped" && `skipped, because this machine lacks ${result.lacks}`;
  report(`${titleOf(result)}: ${skipped || works}`);
}
await stack.stop();

process.stdout.write(values.table ? inMarkdown(results) : inText(results));
process.exit(results.some((result) => faultsOf(result).length > 0) ? 1 : 0);
