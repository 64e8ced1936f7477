/**
 * The heap of an isolate of the local runtime, by the inspector's protocol. The runtime's process shows little: it collects
 * garbage only after hundreds of megabytes, and most of it is the simulator's.
 */
import { setTimeout as sleep } from "node:timers/promises";

/** An answer that takes longer will not come: the runtime is gone. */
const ANSWER_MS = 20_000;
/** An isolate collects when it runs the next time. An idle one has produced no garbage since. */
const COLLECT_MS = 2_000;

type Answer = Readonly<{ id?: number; result?: Readonly<{ usedSize?: number }> }>;

/**
 * Collects the isolate's garbage. Returns the bytes of what is left; throws when the runtime is gone.
 * @param url of the isolate, at the inspector
 */
export async function liveHeapOf(url: URL): Promise<number> {
  const socket = new WebSocket(url);
  const waiting = new Map<number, (answer: Answer) => void>();
  const { promise: gone, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error("The inspector does not answer")), ANSWER_MS);
  socket.addEventListener("error", () => reject(new Error("The inspector cannot be reached")));
  socket.addEventListener("close", () => reject(new Error("The inspector is gone")));
  socket.addEventListener("message", ({ data }) => {
    const answer: Answer = JSON.parse(String(data));
    waiting.get(answer.id ?? 0)?.(answer);
  });
  const opened = new Promise((resolve) => socket.addEventListener("open", resolve));
  const ask = (id: number, method: string) => {
    const answered = new Promise<Answer>((resolve) => waiting.set(id, resolve));
    socket.send(JSON.stringify({ id, method }));
    return Promise.race([answered, gone]);
  };
  try {
    await Promise.race([opened, gone]);
    await Promise.race([ask(1, "HeapProfiler.collectGarbage"), sleep(COLLECT_MS)]);
    const { result } = await ask(2, "Runtime.getHeapUsage");
    return result?.usedSize ?? 0;
  } finally {
    clearTimeout(timer);
    gone.catch(() => {});
    socket.close();
  }
}
