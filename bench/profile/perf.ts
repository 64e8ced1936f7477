/** Samples the call stacks of a process with Linux `perf`, about a thousand times for each second of CPU. */
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Stack } from "./costs.ts";

/** Not a round number, so that periodic work is not always or never sampled. */
const SAMPLES_PER_CPU_SECOND = 997;

export function missingPerf(): string | undefined {
  try {
    execFileSync("perf", ["--version"], { stdio: "ignore" });
    return undefined;
  } catch {
    return "perf is not installed (Debian: apt-get install linux-perf)";
  }
}

/** Samples all threads of the process while `work` runs. */
export async function sampledStacks(pid: number, work: () => Promise<void>): Promise<readonly Stack[]> {
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
