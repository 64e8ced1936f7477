/**
 * Two versions side by side (versions.ts) in a process of their own, which can be killed at any moment as a power cut
 * would, and started again on the same state.
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { endGroupOnExit, signalGroup, startWatchdog } from "../../src/local/process-groups.ts";
import type { HostMessage, HostRequest } from "./stack-host.ts";
import type { SideBySide, SideBySideOptions } from "./versions.ts";

export type StackProcess = Pick<SideBySide, "url" | "share" | "execute" | "query"> &
  Readonly<{
    /** Resolves when everything is gone. */
    kill: () => Promise<void>;
    /** The memory of the runtime's process, in bytes; 0 when it cannot be read. */
    memory: () => number;
  }>;

const READY_MS = 120_000;

/** A request before it has its number. */
type Call = HostRequest extends infer One ? (One extends unknown ? Omit<One, "id"> : never) : never;

export async function startStackProcess({ onLog, ...options }: SideBySideOptions): Promise<StackProcess> {
  startWatchdog();
  const child = fork(join(import.meta.dirname, "stack-host.ts"), {
    detached: true,
    serialization: "advanced",
    stdio: ["ignore", "ignore", "ignore", "ipc"],
  });
  endGroupOnExit(child);
  const exited = once(child, "exit");
  const waiting = new Map<number, PromiseWithResolvers<unknown>>();
  let calls = 0;

  child.on("message", (message: HostMessage) => {
    if ("line" in message) {
      onLog(message.line);
      return;
    }
    const asked = waiting.get(message.id);
    waiting.delete(message.id);
    if ("error" in message) asked?.reject(new Error(message.error));
    else asked?.resolve(message.result);
  });
  child.once("exit", () => {
    for (const asked of waiting.values()) asked.reject(new Error("The stack is gone"));
  });
  child.on("error", () => {});

  function call(request: Call): Promise<unknown> {
    calls += 1;
    const asked = Promise.withResolvers<unknown>();
    waiting.set(calls, asked);
    if (child.connected) child.send({ ...request, id: calls } as HostRequest);
    else asked.reject(new Error("The stack is gone"));
    return asked.promise;
  }

  const timer = setTimeout(() => signalGroup(child, "SIGKILL"), READY_MS);
  const url = (await call({ start: options })) as string;
  clearTimeout(timer);
  return {
    url,
    share: async (ofCurrent) => {
      await fetch(`${url}/share`, { method: "POST", body: String(ofCurrent) });
    },
    execute: async (sql) => void (await call({ execute: sql })),
    query: async <Row>(sql: string) => (await call({ query: sql })) as Row[],
    kill: async () => {
      signalGroup(child, "SIGKILL");
      await exited;
    },
    memory: () => memoryOfChildren(child.pid ?? 0),
  };
}

/** What the children of a process have in memory, in bytes: the runtime is one. Linux only. */
function memoryOfChildren(parent: number): number {
  try {
    const processes = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
    return processes.reduce((sum, pid) => sum + memoryOfChild(pid, parent), 0);
  } catch {
    return 0;
  }
}

function memoryOfChild(pid: string, parent: number): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    if (Number(/^PPid:\s+(\d+)/m.exec(status)?.[1]) !== parent) return 0;
    return 1024 * Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1] ?? 0);
  } catch {
    // It has ended meanwhile.
    return 0;
  }
}
