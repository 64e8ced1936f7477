/** Runs checks, alone or together, and prints a line when each is done. */
import { type Check, CheckInterrupted, type Run, type Skipped } from "./check.ts";
import type { CheckResult } from "./judge.ts";
import { errorMessage } from "./receiver.ts";
import { lineText, type ReportLine } from "./report.ts";

/** The interval of progress lines while checks are under way. */
const PROGRESS_MS = 10_000;

const NOT_REACHED: Skipped = { skipped: "the deployment does not reach the receiver" };

/**
 * Runs the checks in their order; neighbours that may run together do. A check that throws has failed. When the run is
 * interrupted, the checks that are under way end, and no other begins.
 * @returns their lines, in the order of the checks
 * @throws Interrupted when the run was
 */
export async function runChecks(checks: readonly Check[], run: Run, print: (line: string) => void) {
  const underWay = new Set<string>();
  let printedAt = Date.now();
  const say = (line: string) => {
    printedAt = Date.now();
    print(line);
  };
  const startedAt = Date.now();
  const timer = setInterval(() => {
    if (Date.now() - printedAt < PROGRESS_MS) return;
    say(`      … ${Math.round((Date.now() - startedAt) / 1000)} s, under way: ${[...underWay].join(", ")}`);
  }, 1_000);
  let isReached = true;
  const runOne = async (check: Check): Promise<ReportLine> => {
    underWay.add(check.name);
    const isFutile = check.usesReceiver && !isReached;
    const line = lineOf(check, isFutile ? NOT_REACHED : await resultOf(check, run));
    underWay.delete(check.name);
    if (check.reachesReceiver && line.result === "FAIL") isReached = false;
    say(lineText(line));
    return line;
  };
  try {
    const lines: ReportLine[] = [];
    for (const group of groupsOf(checks)) {
      run.throwIfInterrupted();
      const results = await Promise.allSettled(group.map(runOne));
      run.throwIfInterrupted();
      lines.push(
        ...results.map((result) => {
          if (result.status === "rejected") throw result.reason;
          return result.value;
        }),
      );
    }
    return lines;
  } finally {
    clearInterval(timer);
  }
}

/** Each exclusive check alone; those between two of them together. */
export function groupsOf<T extends Pick<Check, "runsAlone">>(
  checks: readonly T[],
): readonly (readonly T[])[] {
  const groups: T[][] = [];
  for (const check of checks) {
    const last = groups.at(-1);
    if (last && !check.runsAlone && !last[0]?.runsAlone) last.push(check);
    else groups.push([check]);
  }
  return groups;
}

async function resultOf(check: Check, run: Run): Promise<CheckResult | Skipped> {
  try {
    return await check.run(run);
  } catch (error) {
    if (error instanceof CheckInterrupted) throw error;
    return { ok: false, seen: errorMessage(error) };
  }
}

function lineOf({ name, expected }: Check, result: CheckResult | Skipped): ReportLine {
  if ("skipped" in result) return { result: "skip", name, expected, seen: result.skipped };
  return { result: result.ok ? "ok" : "FAIL", name, expected, seen: result.seen };
}
