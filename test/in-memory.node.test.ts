/** Files of test runs in memory: each run removes its own, and those of killed runs. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { expect, test } from "vitest";
import { hasRoomInMemory } from "./support/in-memory.ts";
import { skipped } from "./support/skipped.ts";

const RUN = `
const { keepTemporaryFilesInMemory } = await import(${JSON.stringify(import.meta.resolve("./support/in-memory.ts"))});
keepTemporaryFilesInMemory();
console.log(process.env.TMPDIR);
process.stdin.resume();
`;

/** A run, and where its temporary files are. */
async function started(): Promise<Readonly<{ run: ChildProcess; directory: string }>> {
  const { TMPDIR: _, ...env } = process.env;
  const stdio = ["pipe", "pipe", "inherit"] as const;
  const run = spawn(process.execPath, ["--input-type=module", "--eval", RUN], { env, stdio: [...stdio] });
  const [directory] = await once(createInterface(run.stdout as Readable), "line");
  return { run, directory };
}

async function ended(run: ChildProcess, end: () => void): Promise<void> {
  const exit = once(run, "exit");
  end();
  await exit;
}

const NAME =
  "the files of a run that was killed are removed by the next one, and those of one under way are not";
if (!hasRoomInMemory()) skipped(NAME, "there is no room for files in memory");
else
  test(NAME, async () => {
    const [killed, other] = [await started(), await started()];
    await ended(killed.run, () => killed.run.kill("SIGKILL"));
    expect(existsSync(killed.directory)).toBe(true);
    const next = await started();
    expect([killed, other, next].map(({ directory }) => existsSync(directory))).toEqual([false, true, true]);
    for (const { run } of [other, next]) await ended(run, () => run.stdin?.end());
    expect([other, next].map(({ directory }) => existsSync(directory))).toEqual([false, false]);
  });
