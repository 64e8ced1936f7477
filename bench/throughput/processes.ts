/** Contenders run in separate processes, so that the use of CPU and memory of each can be measured. */
import { type ChildProcess, fork } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";

/** Linux counts CPU time in hundredths of a second. */
const TICKS_PER_SECOND = 100;
const READY_MS = 600_000;

export type Child = Readonly<{ pid: number; stop: () => Promise<void> }>;

/** Runs a file of this folder; resolves with its first message, which it sends when it is ready. */
export async function startChild<T>(file: string, args: readonly unknown[]): Promise<[T, Child]> {
  const path = new URL(file, import.meta.url).pathname;
  const child = fork(path, [JSON.stringify(args)], { stdio: ["ignore", "ignore", "inherit", "ipc"] });
  const stop = () => ended(child);
  const ready = await new Promise<T>((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(`${file} was not ready in time`)), READY_MS);
    child.once("message", (message) => resolve(message as T));
    child.once("exit", (code) => reject(new Error(`${file} ended with code ${code} before it was ready`)));
    child.once("message", () => clearTimeout(late));
  });
  return [ready, { pid: child.pid ?? 0, stop }];
}

/** The arguments that the parent process passed. */
export function givenArgs<T extends unknown[]>(): T {
  return JSON.parse(process.argv[2] ?? "[]");
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  const gone = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGTERM");
  const impatience = setTimeout(() => child.kill("SIGKILL"), 5_000);
  await gone;
  clearTimeout(impatience);
}

/** CPU seconds that the processes and their descendants have used, ended ones included. */
export function cpuSeconds(roots: readonly number[]): number {
  const ticks = familyOf(roots).map((pid) => {
    const fields = statOf(pid);
    return [11, 12, 13, 14].reduce((sum, i) => sum + Number(fields[i] ?? 0), 0);
  });
  return ticks.reduce((sum, n) => sum + n, 0) / TICKS_PER_SECOND;
}

/** Megabytes in use; shared pages count in proportion (PSS). */
export function megabytes(roots: readonly number[]): number {
  const kilobytes = familyOf(roots).map((pid) => {
    const rollup = readOrEmpty(`/proc/${pid}/smaps_rollup`);
    return Number(/^Pss:\s+(\d+)/m.exec(rollup)?.[1] ?? 0);
  });
  return kilobytes.reduce((sum, n) => sum + n, 0) / 1024;
}

/** The process below `root` that runs this command. */
export function childOf(root: number, command: string): number {
  const found = familyOf([root]).find((pid) => readOrEmpty(`/proc/${pid}/comm`).trim() === command);
  if (found === undefined) throw new Error(`No ${command} runs below process ${root}`);
  return found;
}

/** The ids of the processes with this name, or the id itself if one is given. Linux keeps 15 characters of a name. */
export function pidsOf(program: string): number[] {
  if (/^\d+$/.test(program)) return [Number(program)];
  const all = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return all.filter((pid) => readOrEmpty(`/proc/${pid}/comm`).trim() === program.slice(0, 15)).map(Number);
}

function familyOf(roots: readonly number[]): number[] {
  const parents = new Map(
    readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name))
      .map((name) => [Number(name), Number(statOf(Number(name))[1])]),
  );
  const isBelow = (pid: number): boolean =>
    roots.includes(pid) || (parents.has(pid) && pid > 1 && isBelow(parents.get(pid) ?? 0));
  return [...parents.keys()].filter(isBelow);
}

/** The fields after the command's name, which may contain spaces. */
function statOf(pid: number): string[] {
  const text = readOrEmpty(`/proc/${pid}/stat`);
  return text.slice(text.lastIndexOf(")") + 2).split(" ");
}

function readOrEmpty(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
