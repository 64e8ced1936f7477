/** Times in JSON (RFC 3339), and waiting for no longer than that. */

/** Beyond this, in ms before and after 1970, JavaScript knows no time (ECMAScript, Time Range). */
const FARTHEST_MS = 8.64e15;

/** Null stays null. What a person has edited into no time at all is shown as the beginning of 1970. */
export function isoTime<T extends number | null>(epochMs: T): T extends number ? string : string | null;
export function isoTime(epochMs: number | null): string | null {
  if (epochMs === null) return null;
  const isTime = Number.isFinite(epochMs) && Math.abs(epochMs) <= FARTHEST_MS;
  return new Date(isTime ? epochMs : 0).toISOString();
}

/** Resolves after so many milliseconds; rejects when the signal aborts it. */
export type Sleep = (ms: number, signal?: AbortSignal) => Promise<void>;

/**
 * What the work comes to; throws an error with the text `silence` if that takes longer than `ms`. The work itself is
 * not stopped: it may still succeed when nobody waits for it any more.
 *
 * The timer ends with the work: one that goes on would keep a Durable Object in memory, and billed, and would count
 * as one of the invocation's timers.
 */
export async function within<T>(
  { sleep }: Readonly<{ sleep: Sleep }>,
  ms: number,
  work: Promise<T>,
  silence = "No answer in time",
): Promise<T> {
  const done = new AbortController();
  const late = sleep(ms, done.signal).then(() => {
    throw new Error(silence);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    done.abort();
  }
}
