/**
 * Child processes that end with this process, however it ends. A process that is killed outright runs no handler, so
 * a watchdog does it: a shell that reads a pipe which only this process holds. When the pipe closes, the shell ends
 * every process group that was registered.
 */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import type { Writable } from "node:stream";

/**
 * Reads `+group` and `-group`, a line each, until this process is gone. Sends SIGTERM first, so that temporary files
 * are removed; kills what is left after five seconds. Ignores the signals of a terminal.
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

/** Starts the watchdog. Call it before starting a group, so that the group can be registered at once. */
export function startWatchdog(): void {
  if (pipe) return;
  const watchdog = spawn("sh", ["-c", WATCHDOG, "watchdog"], {
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
  });
  pipe = watchdog.stdin;
  // Without a shell there is no watchdog; children still end when this process exits normally.
  watchdog.on("error", () => {});
  pipe.on("error", () => {});
  watchdog.unref();
  (pipe as Writable & { unref: () => void }).unref();
}

/** Ends the process group that this child leads when this process ends. */
export function endGroupOnExit(child: ChildProcess): void {
  const { pid } = child;
  if (pid === undefined) return;
  const end = () => signalGroup(child, "SIGKILL");
  pipe?.write(`+${pid}\n`);
  process.prependOnceListener("exit", end);
  child.once("exit", () => {
    process.off("exit", end);
    // The leader may leave children behind.
    end();
    pipe?.write(`-${pid}\n`);
  });
}

/** Signals the whole group that a child leads, if it is still there. */
export function signalGroup({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

const POLL_MS = 500;

/**
 * Calls back once when the process that started this one is gone. There is no signal for that, so it is polled.
 * Under npm that process is npm, which puts a shell between itself and a script.
 */
export function whenOrphaned(then: () => void): void {
  const parent = process.ppid;
  const npm = process.env.npm_lifecycle_event === undefined ? undefined : parentOf(parent);
  const timer = setInterval(() => {
    if (process.ppid === parent && (npm === undefined || isAlive(npm))) return;
    clearInterval(timer);
    then();
  }, POLL_MS);
  timer.unref();
}

/** Undefined when it cannot be found out, and for children of init. */
function parentOf(pid: number): number | undefined {
  try {
    const parent = Number(execFileSync("ps", ["-o", "ppid=", "-p", String(pid)], { encoding: "utf8" }));
    return parent > 1 ? parent : undefined;
  } catch {
    return undefined;
  }
}

export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
