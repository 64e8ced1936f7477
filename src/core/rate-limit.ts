/**
 * The rate limit of a destination, by the generic cell rate algorithm (GCRA): one number, the theoretical arrival time
 * (TAT), is the whole state. A lease reserves its sends ahead of time and its holder paces them, so that the rate holds
 * over all isolates with one call of the gate for many sends.
 *
 * Holders that start on time keep the rate exactly. One that starts late, because the gate or D1 took long to answer,
 * loses nothing: its later sends move with the earlier ones, and the gate learns of it when the lease is settled. So
 * within any time T a receiver may see the sends of T and of the holders' lateness, beyond one burst: at most `burst +
 * rate × (T + lateness)`. Holders that are equally late are all on time.
 *
 * The adaptive limit is the rate learned from a receiver's 429s, below the one that its owner has set. Each round of
 * 429s lowers it by a share; it recovers slowly, because too high a rate costs another round.
 */
import type { GateSettings } from "./limits.ts";

export type Rate = Readonly<{ perSecond: number; burst: number }>;

/** Sends reserved in advance: the i-th (from 0) may start at `firstAt + i × everyMs`. */
export type Reservation = Readonly<{
  sends: number;
  firstAt: number;
  everyMs: number;
  /** A start that is late by no more than this counts as on time. */
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
 * One send, now, whatever the rate says: the probe that decides whether a circuit closes. It counts like any other, but
 * however many probes there were, later sends wait for no more than one of them.
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

export function nextSendAt(tat: number, rate: Rate, now: number): number {
  return Math.ceil(reserve(tat, 1, rate, now, now).firstAt);
}

/** The limit was `perSecond` at `loweredAt` (epoch ms), and has recovered since; 0: never lowered. */
export type AdaptiveLimit = Readonly<{ perSecond: number; loweredAt: number }>;

/** Finite, so that it survives JSON. */
export const noAdaptiveLimit: AdaptiveLimit = { perSecond: 1_000_000, loweredAt: 0 };

/** The share of the rate that is left after a round of 429s. */
const LEFT = 0.7;
/** All 429s within this are one round: they were under way together. */
const ROUND_MS = 1_000;
/** The share of the owner's rate that comes back each minute. */
const REGAINED = 0.02;
/** Attempts a second that no 429 takes away: a receiver that wants less says so by Retry-After. */
const LEAST = 1;

type Owners = Pick<GateSettings, "ratePerSecond" | "rateBurst">;

/** The owner's rate, or the adaptive limit where it is lower: without bursts, because bursts were refused. */
export function effectiveRate(
  adaptiveLimit: AdaptiveLimit,
  { ratePerSecond, rateBurst }: Owners,
  now: number,
): Rate {
  // Outcomes have times of the workers' clocks: one may be ahead.
  const minutes = Math.max(0, now - adaptiveLimit.loweredAt) / 60_000;
  const perSecond = adaptiveLimit.perSecond + minutes * REGAINED * ratePerSecond;
  return perSecond < ratePerSecond ? { perSecond, burst: 1 } : { perSecond: ratePerSecond, burst: rateBurst };
}

/**
 * The adaptive limit after a 429. Never above the owner's rate, however little that is.
 * @param sentPerSecond the rate at the time of the refusal, which may be far less than the owner's
 */
export function loweredLimit(
  adaptiveLimit: AdaptiveLimit,
  owners: Owners,
  sentPerSecond: number,
  now: number,
): AdaptiveLimit {
  if (Math.abs(now - adaptiveLimit.loweredAt) < ROUND_MS) return adaptiveLimit;
  const perSecond = Math.min(effectiveRate(adaptiveLimit, owners, now).perSecond, sentPerSecond) * LEFT;
  return { perSecond: Math.max(LEAST, perSecond), loweredAt: now };
}

/**
 * The rate for a lease's attempts: the i-th (from 0) may not start before `firstInMs + i × everyMs` after the grant.
 * One that starts later than `slackMs` after its time moves those behind it.
 */
export type Pace = Readonly<{ firstInMs: number; everyMs: number; slackMs: number }>;

/** The send slots of one lease, for its holder: GCRA again, counted from the starts that really happen. */
export type SendSlots = Readonly<{
  /** When the next unclaimed slot begins; undefined when the lease has no more. */
  nextAt: () => number | undefined;
  /** The same, and claims it: the caller uses a claimed slot or gives it back. */
  claim: () => number | undefined;
  /** Whether an attempt may start now: others may have started later than their slots said. */
  isFree: (now: number) => boolean;
  /** An attempt starts now, in a slot that was claimed. */
  use: (now: number) => void;
  giveBack: () => void;
  /** The theoretical arrival time by what was really started; undefined when nothing was. */
  tat: () => number | undefined;
}>;

/** Timers wake up early by that much. */
const EARLY_MS = 1;

/** A start due within a millisecond comes at its end and is not late, or every start would delay all after it. */
const ROUNDED_MS = 1;

/** The rounding error of epoch times with fractions of a millisecond is less. */
const INEXACT_MS = 0.1;

/** @param grantedAt when the grant arrived, by the holder's clock: never before the gate gave it */
export function sendSlotsOf(
  { pace, deliveries }: Readonly<{ pace: Pace; deliveries: readonly unknown[] }>,
  grantedAt: number,
): SendSlots {
  const { firstInMs, everyMs, slackMs } = pace;
  let tat = grantedAt + firstInMs + slackMs;
  let used = 0;
  let claimed = 0;

  function nextAt(): number | undefined {
    if (used + claimed >= deliveries.length) return undefined;
    return Math.ceil(tat - slackMs + claimed * everyMs - INEXACT_MS);
  }

  function claim(): number | undefined {
    const at = nextAt();
    if (at !== undefined) claimed += 1;
    return at;
  }

  function use(now: number): void {
    claimed -= 1;
    used += 1;
    tat = (now - tat < ROUNDED_MS ? tat : now) + everyMs;
  }

  return {
    nextAt,
    claim,
    isFree: (now) => now + EARLY_MS >= tat - slackMs,
    use,
    giveBack: () => {
      claimed -= 1;
    },
    tat: () => (used > 0 ? tat : undefined),
  };
}
