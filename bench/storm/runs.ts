/**
 * Plays the runs of the benchmark in several processes. Each result is saved in its own file at once, so an interrupted
 * benchmark of the same commit continues where it stopped.
 */
import { fork } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Runs of the same name are the same run, and played once. Results are JSON. */
export type Run<Result> = Readonly<{ name: string; play: () => Promise<Result> }>;

/** Reads the result of a run that is over. */
export type Played = <Result>(run: Run<Result>) => Result;

/** A part of the report: the runs that it needs, and the content made of their results. */
export type Section<Content> = Readonly<{
  runs: readonly Run<unknown>[];
  read: (played: Played) => Content;
}>;

const HELPER = "--helper";
const CLAIM = ".claim";

/** Whether this process only plays runs: the process that started it reads the results, and reports. */
export const isHelper = process.argv.includes(HELPER);

/**
 * @param place a folder for the results, empty or with those of a run of the same code
 * @param processes how many processes share the runs; the script is started again for each but the first
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
  if (!isHelper) dropClaims(place);
  // A helper ends with the process that started it, because its results would not be read.
  process.once("disconnect", () => process.exit(1));
  const others = isHelper ? [] : Array.from({ length: processes - 1 }, startHelper);
  for (const [i, run] of runs.entries()) {
    const file = fileOf(place, run);
    if (existsSync(file) || !claim(file)) continue;
    progress(`${i + 1} of ${runs.length}  ${run.name}`);
    save(file, await run.play());
  }
  if (isHelper) process.exit(0);
  for (const code of await Promise.all(others))
    if (code !== 0) throw new Error(`A process ended with ${code}`);
  return <Result>(run: Run<Result>) => JSON.parse(readFileSync(fileOf(place, run), "utf8")) as Result;
}

async function startHelper(): Promise<number | null> {
  const [, script = "", ...words] = process.argv;
  const [code] = await once(fork(script, [...words, HELPER]), "exit");
  return code as number | null;
}

function fileOf(place: string, { name }: Run<unknown>): string {
  return join(place, `${createHash("sha256").update(name).digest("hex").slice(0, 24)}.json`);
}

/** Removes the claims of interrupted processes. */
function dropClaims(place: string): void {
  for (const file of readdirSync(place)) if (file.endsWith(CLAIM)) rmSync(join(place, file));
}

/** Claims a run for this process; returns false if another has claimed it. */
function claim(file: string): boolean {
  try {
    writeFileSync(file + CLAIM, "", { flag: "wx" });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}

/** Writes a result in one step, so that no file is incomplete. */
function save(file: string, result: unknown): void {
  writeFileSync(file + CLAIM, JSON.stringify(result));
  renameSync(file + CLAIM, file);
}
