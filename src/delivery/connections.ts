/**
 * The six connections of one invocation, fairly shared between groups.
 *
 * The platform queues the seventh fetch of an invocation without a word, and a timeout that is already
 * running would then blame a healthy destination. So the limit is held here, before anything is armed.
 * Where several groups share them, the last free one goes only to a group that holds none: a destination
 * that hangs can slow its own deliveries, and nobody else's.
 */
export const CONNECTIONS = 6;

type Waiter = Readonly<{ group: string; start: () => void }>;

export type Connections = Readonly<{
  /** Runs the task as soon as its group's turn for a connection comes. */
  run: <T>(group: string, task: () => Promise<T>) => Promise<T>;
}>;

/** @param groups how many will share them, those that have not asked yet and pause between two tasks included */
export function connections(groups: number): Connections {
  const held = new Map<string, number>();
  const waiting: Waiter[] = [];
  let free = CONNECTIONS;

  const heldBy = (group: string) => held.get(group) ?? 0;

  /** The first of those whose group holds the fewest. */
  function fewestFirst(): Waiter | undefined {
    let [best] = waiting;
    for (const waiter of waiting) if (best && heldBy(waiter.group) < heldBy(best.group)) best = waiter;
    return best;
  }

  function hand(): void {
    const next = free > 0 ? fewestFirst() : undefined;
    if (!next || (free === 1 && heldBy(next.group) > 0 && groups > 1)) return;
    waiting.splice(waiting.indexOf(next), 1);
    take(next.group, 1);
    next.start();
    hand();
  }

  function take(group: string, count: 1 | -1): void {
    free -= count;
    const now = heldBy(group) + count;
    if (now > 0) held.set(group, now);
    else held.delete(group);
  }

  async function run<T>(group: string, task: () => Promise<T>): Promise<T> {
    await new Promise<void>((start) => {
      waiting.push({ group, start });
      hand();
    });
    try {
      return await task();
    } finally {
      take(group, -1);
      hand();
    }
  }

  return { run };
}
