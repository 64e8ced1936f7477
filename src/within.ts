/** Waiting for an answer, but not for ever. */
import type { Services } from "./services.ts";

/**
 * What the work comes to; throws an error with the text `silence` if that takes longer than `ms`. The work itself is
 * not stopped: it may still succeed when nobody waits for it any more.
 *
 * The timer ends with the work: one that goes on would keep a Durable Object in memory, and billed, and would count
 * as one of the invocation's timers.
 */
export async function within<T>(
  { sleep }: Pick<Services, "sleep">,
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
