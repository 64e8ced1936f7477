/** Times in JSON (RFC 3339), timeouts, repeats after pauses, and a few calls at once. */

/** The range of JavaScript's `Date`, in ms before and after 1970 (ECMAScript, Time Range). */
const FARTHEST_MS = 8.64e15;

/** Null stays null. A value outside of the range, from an edit by hand, is shown as the beginning of 1970. */
export function isoTime<T extends number | null>(epochMs: T): T extends number ? string : string | null;
export function isoTime(epochMs: number | null): string | null {
  if (epochMs === null) return null;
  const isTime = Number.isFinite(epochMs) && Math.abs(epochMs) <= FARTHEST_MS;
  return new Date(isTime ? epochMs : 0).toISOString();
}

/** The signal that ends a sleep: the part of an `AbortSignal` that a sleep needs. */
export type Cancellation = Readonly<{
  aborted: boolean;
  reason: unknown;
  addEventListener: (type: "abort", cancel: () => void) => void;
}>;

/** Resolves after the given milliseconds; rejects when the signal aborts it. */
export type Sleep = (ms: number, signal?: Cancellation) => Promise<void>;

/** Sleeps by a timer, which is cleared when the signal aborts it. */
export const sleepByTimer: Sleep = (ms, signal) =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    const cancel = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    if (signal?.aborted) cancel();
    else signal?.addEventListener("abort", cancel);
  });

/** An `AbortController` would make an error with a stack for each call that ends in time. */
class Ending implements Cancellation {
  aborted = false;
  readonly reason = undefined;
  #cancel = () => {};

  addEventListener(_type: "abort", cancel: () => void): void {
    this.#cancel = cancel;
  }

  abort(): void {
    this.aborted = true;
    this.#cancel();
  }
}

/**
 * The result of the work; throws an error with the text `silence` if that takes longer than `ms`. The work itself is
 * not stopped: it may still succeed after the timeout.
 *
 * The timer is cancelled when the work ends: a running one would keep a Durable Object in memory, and billed, and
 * count against the invocation's limit of timers.
 */
export async function within<T>(
  { sleep }: Readonly<{ sleep: Sleep }>,
  ms: number,
  work: Promise<T>,
  silence = "No answer in time",
): Promise<T> {
  const done = new Ending();
  const late = sleep(ms, done).then(() => {
    throw new Error(silence);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    done.abort();
  }
}

export type Timing = Readonly<{ now: () => number; random: () => number; sleep: Sleep }>;

export type Repeats = Readonly<{
  /** The most repeats after the first call. */
  most?: number;
  /** None begins later than this, epoch ms. */
  until: number;
  /** Before the first repeat, doubled each time; each pause is shortened by up to half, so that callers spread. */
  pauseMs: number;
  /** Whether a repeat is safe and useful after this error. */
  isWorthwhile: (error: unknown) => boolean;
}>;

/** Makes a call again after pauses, until it succeeds or no repeat is left: then it throws the last error. */
export async function repeatedly<T>(
  { now, random, sleep }: Timing,
  { most = Number.POSITIVE_INFINITY, until, pauseMs, isWorthwhile }: Repeats,
  call: () => Promise<T>,
): Promise<T> {
  for (let repeats = 0; ; repeats += 1) {
    try {
      return await call();
    } catch (error) {
      const pause = Math.round(pauseMs * 2 ** repeats * (1 - random() / 2));
      if (repeats >= most || now() + pause > until || !isWorthwhile(error)) throw error;
      await sleep(pause);
    }
  }
}

/** The result of the work, unless the signal ends first: for calls that take no signal. The work itself continues. */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const ended = Promise.withResolvers<never>();
  const end = () => ended.reject(signal.reason);
  if (signal.aborted) end();
  signal.addEventListener("abort", end);
  return Promise.race([work, ended.promise]).finally(() => signal.removeEventListener("abort", end));
}

/**
 * The results of the work for each item, in their order, with a limited number under way at once. After a failure
 * nothing more is begun, and it is thrown when the work under way has ended.
 */
export async function mapAtOnce<T, U>(
  items: readonly T[],
  most: number,
  work: (item: T) => Promise<U>,
): Promise<U[]> {
  const results: U[] = [];
  const failures: unknown[] = [];
  const open = items.entries();
  const lane = async () => {
    for (const [i, item] of open) {
      if (failures.length > 0) return;
      try {
        results[i] = await work(item);
      } catch (error) {
        failures.push(error);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(most, items.length) }, lane));
  if (failures.length > 0) throw failures[0];
  return results;
}
