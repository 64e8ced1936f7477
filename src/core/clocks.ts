/** Times by the clock of another object or isolate, which may differ by seconds. */

/** What another has answered: when, by its clock, and when it was requested by one's own. */
type Answered = Readonly<{ at: number; askedAt: number }>;

/**
 * How much later its times come by one's own clock, ms. They stay as they are if that does not contradict the clocks, because
 * it answered between the request and `now`. Otherwise nothing comes before it would if the answer had been given just now.
 */
export function laterByOwnClock({ at, askedAt }: Answered, now: number): number {
  return askedAt <= at && at <= now ? 0 : now - at;
}
