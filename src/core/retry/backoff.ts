/**
 * How long to wait between two attempts: the schedule, and the jitter that keeps the retries of many senders, or of the
 * many deliveries of one outage, from arriving together.
 *
 * In seconds, as schedules are written. Limits, Retry-After and the clock are elsewhere (transition.ts).
 */

/**
 * A list of waits, the last of which repeats; or waits that grow by a factor up to a cap. Seconds. Jitter never takes a
 * wait past the cap. A list may have a cap too; without one, jitter takes its waits up and down alike.
 */
export type Delays =
  | { readonly schedule: readonly number[]; readonly cap?: number }
  | { readonly base: number; readonly factor: number; readonly cap: number };

/**
 * The range of a wait d: `full` [0, d) · `equal` [d/2, d) · `{ proportional: p }` [d − p·d, d + p·d) · `none` d ·
 * `decorrelated` ignores d and grows from the wait before.
 */
export type Jitter = "full" | "equal" | "decorrelated" | "none" | { readonly proportional: number };

/** The wait before jitter, once `attempt` (≥ 1) attempts have been made. Saturates for any attempt number. */
export function backoffSeconds(delays: Delays, attempt: number): number {
  if ("schedule" in delays) return delays.schedule[attempt - 1] ?? lastOf(delays.schedule);
  return Math.min(delays.cap, delays.base * delays.factor ** (attempt - 1));
}

/** The wait with jitter, up to the cap of the delays. Only `decorrelated` uses the wait before, `previousSeconds`. */
export function jittered(
  seconds: number,
  jitter: Jitter,
  previousSeconds: number | undefined,
  delays: Delays,
  random: number,
): number {
  const cap = delays.cap ?? Infinity;
  switch (jitter) {
    case "none":
      return Math.min(cap, seconds);
    case "full":
      return Math.min(cap, seconds * random);
    case "equal":
      return Math.min(cap, seconds / 2 + (seconds / 2) * random);
    case "decorrelated":
      return Math.min(cap, decorrelated(delays, previousSeconds, random));
    default:
      return Math.min(cap, seconds * (1 - jitter.proportional) + 2 * seconds * jitter.proportional * random);
  }
}

/** min(cap, base + random × (3 × previous − base)); a first wait, or one below base, counts as base. */
function decorrelated(delays: Delays, previousSeconds: number | undefined, random: number): number {
  const { base, cap } = rangeOf(delays);
  const previous = Math.max(base, previousSeconds ?? base);
  return Math.min(cap, base + random * (3 * previous - base));
}

/** For a schedule its first entry is the base, and its last one the cap. */
function rangeOf(delays: Delays): { readonly base: number; readonly cap: number } {
  if (!("schedule" in delays)) return delays;
  const base = backoffSeconds(delays, 1);
  return { base, cap: Math.max(base, lastOf(delays.schedule)) };
}

function lastOf(schedule: readonly number[]): number {
  const last = schedule.at(-1);
  if (last === undefined) throw new Error("a schedule has at least one entry");
  return last;
}
