/**
 * The rate limit of a destination, by the generic cell rate algorithm (GCRA): one number, the theoretical
 * arrival time, is the whole state. A lease reserves its sends ahead of time and paces them, so that the
 * rate holds exactly over all isolates without anyone asking twice.
 */
export type Rate = Readonly<{ perSecond: number; burst: number }>;

/** Sends reserved in advance: the i-th (from 0) may start at `firstAt + i × everyMs`. */
export type Reservation = Readonly<{
  sends: number;
  firstAt: number;
  everyMs: number;
  /** So much later it may start at the latest, or the rate would be broken for whoever reserves next. */
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

/** When the next send may start. */
export function nextSendAt(tat: number, rate: Rate, now: number): number {
  return Math.ceil(reserve(tat, 1, rate, now, now).firstAt);
}
