/**
 * The rate limit of a destination, by the generic cell rate algorithm (GCRA): one number, the theoretical
 * arrival time, is the whole state. A lease reserves its sends ahead of time and paces them, so that the
 * rate holds over all isolates without anyone asking twice: exactly, as long as its holders start on time, and
 * beyond that by what they are late (see places.ts).
 */
export type Rate = Readonly<{ perSecond: number; burst: number }>;

/** Sends reserved in advance: the i-th (from 0) may start at `firstAt + i × everyMs`. */
export type Reservation = Readonly<{
  sends: number;
  firstAt: number;
  everyMs: number;
  /** So much later it may start, and still be on time. */
  slackMs: number;
  /** The theoretical arrival time after these sends: the state to keep. */
  tat: number;
}>;

/**
 * Reserves up to `wanted` sends that can all start by `horizonAt`; `sends` is 0 when not even one can.
 * @param tat the stored theoretical arrival time, epoch ms; 0 when nothing was ever sent
 */
export function reserve(
  tat: number,
  wanted: number,
  rate: Rate,
  horizonAt: number,
  now: number,
): Reservation {
  const everyMs = 1000 / rate.perSecond;
  const base = Math.max(tat, now);
  const firstAt = base - (rate.burst - 1) * everyMs;
  const fitting = Math.floor((horizonAt - firstAt) / everyMs) + 1;
  const sends = Math.max(0, Math.min(wanted, fitting));
  const slackMs = (rate.burst - 1) * everyMs;
  return { sends, firstAt, everyMs, slackMs, tat: sends > 0 ? base + sends * everyMs : tat };
}

/**
 * One send, now, whatever the rate says: the probe that decides whether a circuit closes. It is on the account like
 * any other, but however many probes there were, what follows waits for no more than one of them.
 */
export function reserveNow(tat: number, rate: Rate, now: number): Reservation {
  const everyMs = 1000 / rate.perSecond;
  const slackMs = (rate.burst - 1) * everyMs;
  const base = Math.min(Math.max(tat, now), now + slackMs);
  return { sends: 1, firstAt: base - slackMs, everyMs, slackMs, tat: Math.max(tat, base + everyMs) };
}

/** How many sends can start by `horizonAt`. */
export function sendsBy(horizonAt: number, tat: number, rate: Rate, now: number): number {
  return reserve(tat, Number.POSITIVE_INFINITY, rate, horizonAt, now).sends;
}

/** When the next send may start. */
export function nextSendAt(tat: number, rate: Rate, now: number): number {
  return Math.ceil(reserve(tat, 1, rate, now, now).firstAt);
}
