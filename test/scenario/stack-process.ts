/**
 * Two versions side by side (versions.ts) in a process of their own, which can be killed at any moment as a power cut
 * would, and started again on the same state.
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { endGroupOnExit, signalGroup, startWatchdog } from "../../tools/process-groups.ts";
import type { HostMessage, HostRequest } from "./stack-host.ts";
import type { SideBySide, SideBySideOptions } from "./versions.ts";

export type StackProcess = Pick<SideBySide, "url" | "share" | "execute" | "query" | "heap"> &
  Readonly<{
    /** Resolves when everything has ended. */
    kill: () => Promise<void>;
  }>;

const READY_MS = 600_000;

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
    execute: async (sql, database) => void (await call({ execute: sql, database })),
    query: async <Row>(sql: string, database?: number) => (await call({ query: sql, database })) as Row[],
    heap: async () => (await call({ heap: true })) as number,
    kill: async () => {
      signalGroup(child, "SIGKILL");
      await exited;
    },
  };
}
