/** Linux `perf`: which functions of a process are at work, asked a thousand times for each second of CPU. */
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Stack } from "./costs.ts";

/** No round number, so that nothing periodic is always or never seen. */
const SAMPLES_PER_CPU_SECOND = 997;

export function missingPerf(): string | undefined {
  try {
    execFileSync("perf", ["--version"], { stdio: "ignore" });
    return undefined;
  } catch {
    return "perf is not installed (Debian: apt-get install linux-perf)";
  }
}

/** What the process and all its threads are at while `work` goes on. */
export async function recorded(pid: number, work: () => Promise<void>): Promise<readonly Stack[]> {
  const place = mkdtempSync(join(tmpdir(), "breakwater-perf-"));
  const file = join(place, "perf.data");
  try {
    const frequency = String(SAMPLES_PER_CPU_SECOND);
    const perf = spawn("perf", ["record", "-F", frequency, "-g", "-p", String(pid), "-o", file]);
    const ended = new Promise((resolve) => perf.once("exit", resolve));
    await work();
    perf.kill("SIGINT");
    await ended;
    return await stacksIn(file);
  } finally {
    rmSync(place, { recursive: true });
  }
}

async function stacksIn(file: string): Promise<Stack[]> {
  const script = spawn("perf", ["script", "-i", file, "-F", "comm,ip,sym"], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  const stacks: string[][] = [];
  for await (const line of createInterface({ input: script.stdout })) {
    const [, symbol] = /^\s+[0-9a-f]+ (.*)$/.exec(line) ?? [];
    if (symbol !== undefined) stacks.at(-1)?.push(symbol);
    else if (line !== "") stacks.push([]);
  }
  return stacks;
}
