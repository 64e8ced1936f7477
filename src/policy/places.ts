/**
 * The places in time of one lease, as its holder uses them up. A place that was missed is lost: whoever started
 * late instead would start together with those who have reserved the places after it.
 */
import type { Grant } from "./lease.ts";

/** From when to when (epoch ms) one attempt may start. */
export type Place = Readonly<{ from: number; until: number }>;

export type Places = Readonly<{
  /** The next place that can still be used at `now`; undefined when none is left. */
  next: (now: number) => Place | undefined;
  /** The same, and it is used up. */
  take: (now: number) => Place | undefined;
}>;

/** Timers and clocks are not exact. */
const LATE_MS = 50;

/** @param askedAt when the lease was asked for, by the holder's clock */
export function placesOf({ pace, deliveries }: Pick<Grant, "pace" | "deliveries">, askedAt: number): Places {
  let used = 0;

  function next(now: number): Place | undefined {
    for (; used < deliveries.length; used++) {
      const from = askedAt + pace.firstInMs + used * pace.everyMs;
      const until = from + pace.slackMs + LATE_MS;
      if (until >= now) return { from, until };
    }
    return undefined;
  }

  function take(now: number): Place | undefined {
    const place = next(now);
    used += 1;
    return place;
  }

  return { next, take };
}
