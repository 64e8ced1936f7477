/**
 * The connections of one invocation (`CONNECTIONS`), fairly shared between destinations.
 *
 * The platform silently queues the seventh request of an invocation, and a timeout that is already running would then
 * blame a healthy destination. So the limit is enforced here, before any timeout starts. Where several destinations
 * share the connections, the last free one goes only to one that holds none: a destination that hangs can slow its own
 * deliveries, and nobody else's.
 *
 * What counts is requests that wait for their headers: a task may free its connection before it ends.
 */
import { CONNECTIONS } from "../core/lease.ts";
import type { Services } from "../services.ts";

type Waiter = Readonly<{ destination: string; start: () => void }>;

export type Connections = Readonly<{
  /**
   * Runs the task as soon as it is its destination's turn for a connection, which is free again when the task calls
   * `free`, and at the latest when it ends.
   */
  run: <T>(destination: string, task: (free: () => void) => Promise<T>) => Promise<T>;
  /** Sets how many destinations share the connections from now on, including those without a task at the moment. */
  shareAmong: (destinations: number) => void;
}>;

/**
 * Each invocation has one instance, because earlier work of it may still hold connections. A single destination has all
 * of them.
 * @param kept for whom connections are reserved: one for all destinations that hold none, or one for each of these
 */
export function connections(destinations = 1, kept: "one" | "each" = "one"): Connections {
  let sharing = destinations;
  const held = new Map<string, number>();
  const waiting: Waiter[] = [];
  let free = CONNECTIONS;

  const heldBy = (destination: string) => held.get(destination) ?? 0;

  /** The first task among those whose destination holds the fewest connections. */
  function fewestFirst(): Waiter | undefined {
    let [best] = waiting;
    for (const waiter of waiting)
      if (best && heldBy(waiter.destination) < heldBy(best.destination)) best = waiter;
    return best;
  }

  function keptFree(): number {
    return kept === "each" ? sharing - held.size : Math.min(1, sharing - 1);
  }

  function mayTake(destination: string): boolean {
    return free > 0 && (heldBy(destination) === 0 || free > keptFree());
  }

  function assignNext(): void {
    const next = free > 0 ? fewestFirst() : undefined;
    if (!next || !mayTake(next.destination)) return;
    waiting.splice(waiting.indexOf(next), 1);
    take(next.destination, 1);
    next.start();
    assignNext();
  }

  function take(destination: string, count: 1 | -1): void {
    free -= count;
    const now = heldBy(destination) + count;
    if (now > 0) held.set(destination, now);
    else held.delete(destination);
  }

  async function run<T>(destination: string, task: (free: () => void) => Promise<T>): Promise<T> {
    if (waiting.length === 0 && mayTake(destination)) take(destination, 1);
    else
      await new Promise<void>((start) => {
        waiting.push({ destination, start });
        assignNext();
      });
    let isHeld = true;
    const giveBack = () => {
      if (!isHeld) return;
      isHeld = false;
      take(destination, -1);
      assignNext();
    };
    try {
      return await task(giveBack);
    } finally {
      giveBack();
    }
  }

  function shareAmong(count: number): void {
    sharing = count;
    assignNext();
  }

  return { run, shareAmong };
}

/**
 * The same services, which send to queues one batch after the other: beside attempts on all of its connections, an
 * invocation has one left.
 */
export function sendingInTurn(services: Services): Services {
  let last: Promise<unknown> = Promise.resolve();
  const inTurn = <T>(send: () => Promise<T>): Promise<T> => {
    const sent = last.then(send);
    last = sent.catch(() => {});
    return sent;
  };
  const wrapped = <T>(queue: Queue<T>): Queue<T> => ({
    metrics: () => queue.metrics(),
    send: (body, options) => inTurn(() => queue.send(body, options)),
    sendBatch: (messages, options) => inTurn(() => queue.sendBatch(messages, options)),
  });
  const { deliveries, drains, upkeep } = services;
  return {
    ...services,
    deliveries: wrapped(deliveries),
    drains: wrapped(drains),
    upkeep: wrapped(upkeep),
  };
}
