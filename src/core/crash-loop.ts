/**
 * Crash loops: invocations that end in the middle of their attempts, again and again, such as one that needs too much
 * memory. Such an end leaves no trace in D1, because nothing was recorded; but its lease expires without having been
 * settled, and the gate sees that.
 *
 * One delivery that ends its invocation must not keep others from being delivered. So each lease that is lost in this
 * way makes the next ones smaller, and picks other deliveries: sooner or later the delivery at fault is alone. From the
 * second loss on, live traffic is refused: its deliveries wait for drains, whose invocations serve one destination
 * each, so that no other destination is in the same batch of messages. Settled leases undo that, ten for a step.
 */

/** Finite numbers only, because it is stored as JSON. */
export type CrashLoop = Readonly<{
  /** 0: leases are as large as usual. */
  level: number;
  /** When it was last raised, epoch ms. */
  raisedAt: number;
  /** Leases settled since the level last changed. */
  settled: number;
}>;

export const noCrashLoop: CrashLoop = { level: 0, raisedAt: 0, settled: 0 };

/** At this level a lease is of one delivery. */
const HIGHEST = 4;
/** From this one on, only drains serve the destination. */
const APART = 2;
/** The divisor of a lease's deliveries at each level. */
const SHRINKS_BY = 4;
/** Leases that expire within this time were lost to one event: a deploy, say, ends many invocations at once. */
const TOGETHER_MS = 30_000;
/** Leases that must be settled before the level falls by one. */
const SETTLED = 10;

/** A lease has expired unsettled. */
export function afterLostLease(loop: CrashLoop, now: number): CrashLoop {
  if (now - loop.raisedAt < TOGETHER_MS) return loop;
  return { level: Math.min(HIGHEST, loop.level + 1), raisedAt: now, settled: 0 };
}

/** A lease was settled under which attempts were made. */
export function afterSettledLease(loop: CrashLoop): CrashLoop {
  if (loop.level === 0) return loop;
  const settled = loop.settled + 1;
  return settled < SETTLED ? { ...loop, settled } : { ...loop, level: loop.level - 1, settled: 0 };
}

/** Whether only drains serve the destination. */
export function isApart({ level }: CrashLoop): boolean {
  return level >= APART;
}

/** Whether an invocation may die of it: a drain of the destination then has an invocation to itself. */
export function isSuspect({ level }: CrashLoop): boolean {
  return level > 0;
}

/** Neighbouring numbers get values far apart: multiplication by an odd number near 2^32 divided by the golden ratio. */
function scattered(turn: number): number {
  return (Math.imul(turn + 1, 0x9e3779b1) >>> 0) / 2 ** 32;
}

/**
 * Which of the deliveries a drain may lease, at most `most`, in the given order. In a crash loop they are fewer, and begin
 * at another place each time.
 * @param turn another number for each lease
 */
export function portionOf(
  { level }: CrashLoop,
  deliveries: readonly number[],
  most: number,
  turn: number,
): readonly number[] {
  if (level === 0) return deliveries.slice(0, most);
  const from = Math.floor(scattered(turn) * deliveries.length);
  const turned = [...deliveries.slice(from), ...deliveries.slice(0, from)];
  return turned.slice(0, Math.max(1, Math.floor(most / SHRINKS_BY ** level)));
}
