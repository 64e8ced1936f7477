/**
 * Nothing outlives its parent. A process that is killed outright runs no handler, so a watchdog does it: a
 * shell that reads a pipe which only this process holds. When the pipe closes, however that came about, it
 * ends every process group that it was told of.
 */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import type { Writable } from "node:stream";

/**
 * Reads `+group` and `-group`, a line each, until this process is gone. First politely, so that temporary files are
 * removed; what is still there after five seconds is killed. The signals of a terminal are not for it.
 */
const WATCHDOG = `
trap '' HUP INT TERM
groups=' '
while read -r line; do
  group=\${line#?}
  case $line in
    +*) groups="$groups$group " ;;
    -*) groups="\${groups%% $group *} \${groups#* $group }" ;;
  esac
done
for group in $groups; do kill -TERM "-$group" 2>/dev/null; done
for _ in 1 2 3 4 5 6 7 8 9 10; do
  left=
  for group in $groups; do kill -0 "-$group" 2>/dev/null && left=yes; done
  [ -z "$left" ] && exit
  sleep 0.5
done
for group in $groups; do kill -KILL "-$group" 2>/dev/null; done
`;

let pipe: Writable | undefined;

/** Starts the watchdog. Call before a group is started, so that it is told of in the same breath. */
export function watchOver(): void {
  if (pipe) return;
  const watchdog = spawn("sh", ["-c", WATCHDOG, "watchdog"], {
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
  });
  pipe = watchdog.stdin;
  // Without a shell there is no watchdog; ending in the ordinary ways works nevertheless.
  watchdog.on("error", () => {});
  pipe.on("error", () => {});
  watchdog.unref();
  (pipe as Writable & { unref: () => void }).unref();
}

/** Has a process group end with this process, until its own end: the group of a child that leads it. */
export function endGroupWithUs(child: ChildProcess): void {
  const { pid } = child;
  if (pid === undefined) return;
  const end = () => signalGroup(child, "SIGKILL");
  pipe?.write(`+${pid}\n`);
  process.prependOnceListener("exit", end);
  child.once("exit", () => {
    process.off("exit", end);
    // The leader may leave children behind, and nobody else will end them.
    end();
    pipe?.write(`-${pid}\n`);
  });
}

/** Signals the whole group of a child; one that has ended already is left alone. */
export function signalGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

const LOOK_MS = 500;

/**
 * Calls back once when whoever has started this process is gone: nobody is told of a parent's end, so it is
 * looked for. Under npm that is npm, which puts a shell between itself and a script.
 */
export function whenOrphaned(then: () => void): void {
  const parent = process.ppid;
  const npm = process.env.npm_lifecycle_event === undefined ? undefined : parentOf(parent);
  const timer = setInterval(() => {
    if (process.ppid === parent && (npm === undefined || isThere(npm))) return;
    clearInterval(timer);
    then();
  }, LOOK_MS);
  timer.unref();
}

/** Undefined where it cannot be told, and for what has no parent but the system. */
function parentOf(pid: number): number | undefined {
  try {
    const parent = Number(execFileSync("ps", ["-o", "ppid=", "-p", String(pid)], { encoding: "utf8" }));
    return parent > 1 ? parent : undefined;
  } catch {
    return undefined;
  }
}

function isThere(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
