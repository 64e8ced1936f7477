/** Runs an import: reads both sides, plans, prints the plan, and carries it out with `--apply`. */
import { writeFileSync } from "node:fs";
import { apply, type Outcomes } from "./apply.ts";
import { type Effects, Interrupted, SvixApi, Unavailable } from "./client.ts";
import type { ImportOptions } from "./options.ts";
import { type ImportPlan, planImport } from "./plan.ts";
import { readSource, readTarget } from "./read.ts";
import { isComplete, outcomeLines, partCount, planLines, reportOf } from "./report.ts";

type Print = (line: string) => void;

/** The shortest time between two lines of progress. */
const PROGRESS_MS = 5_000;

/**
 * @returns the exit code: 0 when everything was read and, with `--apply`, written; 1 when something was not; 130 after
 *   an interruption
 * @throws Unavailable when one side cannot be used; what has been written stays, and is in the report
 */
export async function importSvix(
  options: ImportOptions,
  effects: Effects,
  signal: AbortSignal,
  print: Print,
) {
  const { from, to, token, key, concurrency, setHeaders } = options;
  const source = new SvixApi(
    { name: "The source", url: from, token, credential: "--token", concurrency },
    effects,
    signal,
  );
  const target = new SvixApi(
    { name: "The target", url: to, token: key, credential: "--key", concurrency },
    effects,
    signal,
  );
  const report = throttled(effects, print);
  const outcomes: Outcomes = new Map();
  let plan: ImportPlan | undefined;
  // Checks first that the file can be written.
  if (options.report !== undefined) writeFileSync(options.report, "", { flag: "a" });
  try {
    print(`Reading ${from.host} and ${to.host} …`);
    const found = await readSource(source, concurrency, (read, of) =>
      report(`read ${read} of ${of} applications`),
    );
    const there = await readTarget(target, found, concurrency, (read, of) =>
      report(`compared ${read} of ${of} applications`),
    );
    plan = planImport(found, there, { setHeaders });
    for (const line of ["Plan:", ...planLines(plan)]) print(line);
    if (options.apply) {
      const count = partCount(plan);
      print("\nWriting …");
      await apply(plan, target, {
        ...{ atOnce: concurrency, outcomes },
        progress: () => report(`wrote ${outcomes.size} of ${count}`),
      });
    }
  } catch (error) {
    if (!(error instanceof Interrupted || error instanceof Unavailable)) throw error;
    if (plan) end(plan, outcomes, options, effects, print);
    if (error instanceof Unavailable) throw error;
    print("Interrupted. The same command continues from here.");
    return 130;
  }
  return end(plan, outcomes, options, effects, print);
}

/** Writes and prints the outcome of the plan; returns the exit code. */
function end(plan: ImportPlan, outcomes: Outcomes, options: ImportOptions, effects: Effects, print: Print) {
  const { from, to, apply: applied, report } = options;
  if (applied) for (const line of ["", ...outcomeLines(plan, outcomes)]) print(line);
  if (report !== undefined) {
    const json = reportOf(plan, outcomes, { from, to, at: effects.now(), applied });
    writeFileSync(report, `${JSON.stringify(json, null, 2)}\n`);
    print(`Wrote the report to ${report}.`);
  }
  if (applied) return isComplete(plan, outcomes) ? 0 : 1;
  print("\nNothing has been written: --apply does it.");
  return plan.failures.length === 0 ? 0 : 1;
}

function throttled({ now }: Effects, print: Print): Print {
  let printedAt = now();
  return (line) => {
    if (now() - printedAt < PROGRESS_MS) return;
    printedAt = now();
    print(`      … ${line}`);
  };
}
