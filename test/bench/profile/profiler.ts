/** The Worker's CPU profile, taken over the Chrome DevTools Protocol while something runs. */

export type ProfileNode = Readonly<{
  id: number;
  callFrame: Readonly<{ functionName: string; url: string; lineNumber: number }>;
  children?: readonly number[];
}>;

/** Samples name the node on top of the stack; between two of them pass so many microseconds. */
export type Profile = Readonly<{
  nodes: readonly ProfileNode[];
  samples: readonly number[];
  timeDeltas: readonly number[];
}>;

const INTERVAL_US = 200;

/** @param inspector where the runtime listens for debuggers */
export async function profiled(inspector: URL, work: () => Promise<void>): Promise<Profile> {
  const call = await connected(await targetOf(inspector));
  await call("Profiler.enable");
  await call("Profiler.setSamplingInterval", { interval: INTERVAL_US });
  await call("Profiler.start");
  await work();
  const { profile } = (await call("Profiler.stop")) as { profile: Profile };
  return profile;
}

async function targetOf(inspector: URL): Promise<string> {
  const response = await fetch(new URL("/json", inspector.href.replace("ws:", "http:")));
  const targets = (await response.json()) as { id: string; webSocketDebuggerUrl: string }[];
  const target = targets.find(({ id }) => id.includes("breakwater"));
  if (!target) throw new Error(`No Worker to profile among ${targets.map(({ id }) => id).join(", ")}`);
  return target.webSocketDebuggerUrl;
}

type Call = (method: string, params?: object) => Promise<unknown>;

async function connected(url: string): Promise<Call> {
  const socket = new WebSocket(url);
  await new Promise((resolve, reject) => {
    socket.addEventListener("open", resolve);
    socket.addEventListener("error", () => reject(new Error(`No connection to ${url}`)));
  });
  const waiting = new Map<number, (result: unknown) => void>();
  socket.addEventListener("message", ({ data }) => {
    const { id, result } = JSON.parse(String(data));
    waiting.get(id)?.(result);
  });
  let calls = 0;
  return (method, params = {}) =>
    new Promise((resolve) => {
      calls += 1;
      waiting.set(calls, resolve);
      socket.send(JSON.stringify({ id: calls, method, params }));
    });
}
