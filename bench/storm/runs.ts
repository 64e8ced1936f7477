/**
 * The runs of the benchmark, shared by several processes. Each result is saved in a file of its own as soon as it is
 * there, so an interrupted benchmark of the same commit goes on where it was.
 */
import { fork } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Runs of the same name are the same run, which is played once. Results are JSON. */
export type Run<Result> = Readonly<{ name: string; play: () => Promise<Result> }>;

/** The result of a run that is over. */
export type Played = <Result>(run: Run<Result>) => Result;

/** A part of the report: the runs that it needs, and what comes of their results. */
export type Section<Content> = Readonly<{
  runs: readonly Run<unknown>[];
  read: (played: Played) => Content;
}>;

const BESIDE = "--beside";
const CLAIM = ".claim";

/** Whether another process has started this one, reads the results, and reports. */
export const isBeside = process.argv.includes(BESIDE);

/**
 * @param place a folder for the results, empty or with those of a run of the same code
 * @param processes how many share the runs: the script is started again for each but the first
 */
export async function playAll(
  runs: readonly Run<unknown>[],
  {
    place,
    processes,
    progress,
  }: Readonly<{ place: string; processes: number; progress: (what: string) => void }>,
): Promise<Played> {
  mkdirSync(place, { recursive: true });
  if (!isBeside) dropClaims(place);
  // Nobody would read its results.
  process.once("disconnect", () => process.exit(1));
  const others = isBeside ? [] : Array.from({ length: processes - 1 }, startBeside);
  for (const [i, run] of runs.entries()) {
    const file = fileOf(place, run);
    if (existsSync(file) || !isClaimed(file)) continue;
    progress(`${i + 1} of ${runs.length}  ${run.name}`);
    save(file, await run.play());
  }
  if (isBeside) process.exit(0);
  for (const code of await Promise.all(others))
    if (code !== 0) throw new Error(`A process ended with ${code}`);
  return <Result>(run: Run<Result>) => JSON.parse(readFileSync(fileOf(place, run), "utf8")) as Result;
}

async function startBeside(): Promise<number | null> {
  const [, script = "", ...words] = process.argv;
  const [code] = await once(fork(script, [...words, BESIDE]), "exit");
  return code as number | null;
}

function fileOf(place: string, { name }: Run<unknown>): string {
  return join(place, `${createHash("sha256").update(name).digest("hex").slice(0, 24)}.json`);
}

/** Those of processes that were interrupted. */
function dropClaims(place: string): void {
  for (const file of readdirSync(place)) if (file.endsWith(CLAIM)) rmSync(join(place, file));
}

/** Whether it is this process that plays the run. */
function isClaimed(file: string): boolean {
  try {
    writeFileSync(file + CLAIM, "", { flag: "wx" });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

/** Whole, or not at all. */
function save(file: string, result: unknown): void {
  writeFileSync(file + CLAIM, JSON.stringify(result));
  renameSync(file + CLAIM, file);
}
