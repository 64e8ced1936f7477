/**
 * How long to wait between two attempts: the schedule, and the randomness that keeps the retries of many
 * senders, or of many deliveries of one outage, from arriving together.
 *
 * All in seconds, as schedules are written. Nothing here knows of limits, Retry-After or the clock.
 */
/**
 * A list of waits, whose last one repeats for ever; or waits that grow by a factor up to a cap. Seconds. No jitter
 * takes a wait past the cap; a list may have one too, or else its waits are only the middle of theirs.
 */
export type Delays =
  | { readonly schedule: readonly number[]; readonly cap?: number }
  | { readonly base: number; readonly factor: number; readonly cap: number };

/**
 * Of a wait d: `full` [0, d) · `equal` [d/2, d) · `{ proportional: p }` [d − p·d, d + p·d) · `none` d ·
 * `decorrelated` takes no account of d but grows from the wait before.
 */
export type Jitter = "full" | "equal" | "decorrelated" | "none" | { readonly proportional: number };

/** The wait before jitter, once `attempt` (≥ 1) attempts have been made. Saturates for any attempt number. */
export function backoffSeconds(delays: Delays, attempt: number): number {
  if ("schedule" in delays) return delays.schedule[attempt - 1] ?? lastOf(delays.schedule);
  return Math.min(delays.cap, delays.base * delays.factor ** (attempt - 1));
}

/**
 * Spreads a wait, up to the cap of the delays. `previousSeconds` is the wait before this one, which only
 * `decorrelated` looks at.
 */
export function jittered(
  seconds: number,
  jitter: Jitter,
  previousSeconds: number | undefined,
  delays: Delays,
  random: number,
): number {
  return Math.min(delays.cap ?? Infinity, spread(seconds, jitter, previousSeconds, delays, random));
}

function spread(
  seconds: number,
  jitter: Jitter,
  previousSeconds: number | undefined,
  delays: Delays,
  random: number,
): number {
  switch (jitter) {
    case "none":
      return seconds;
    case "full":
      return seconds * random;
    case "equal":
      return seconds / 2 + (seconds / 2) * random;
    case "decorrelated":
      return decorrelated(delays, previousSeconds, random);
    default:
      return seconds * (1 - jitter.proportional) + 2 * seconds * jitter.proportional * random;
  }
}

/** min(cap, base + random × (3 × previous − base)); a first wait, or one below base, counts as base. */
function decorrelated(delays: Delays, previousSeconds: number | undefined, random: number): number {
  const { base, cap } = rangeOf(delays);
  const previous = Math.max(base, previousSeconds ?? base);
  return Math.min(cap, base + random * (3 * previous - base));
}

/** A schedule has no base and no cap of its own: its first entry and its last stand in for them. */
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
