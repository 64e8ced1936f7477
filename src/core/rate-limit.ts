import type { Grant } from "./lease.ts";
import type { GateSettings } from "./limits.ts";

/**
 * The rate limit of a destination, by the generic cell rate algorithm (GCRA): one number, the theoretical
 * arrival time, is the whole state. A lease reserves its sends ahead of time and paces them, so that the
 * rate holds over all isolates without anyone asking twice: exactly, as long as its holders start on time, and
 * beyond that by what they are late (see rate-limit.ts).
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

// §§ The rate that a receiver's 429s have taught, below the one that its owner has set. Each round of them lowers
// it by a share; what was lost comes back slowly, because finding out that it is too much costs another round.

/** `perSecond` held at `loweredAt` (epoch ms); 0 when nothing was ever taught. */
export type AdaptiveLimit = Readonly<{ perSecond: number; loweredAt: number }>;

/** Finite, so that it survives JSON. */
export const noAdaptiveLimit: AdaptiveLimit = { perSecond: 1_000_000, loweredAt: 0 };

/** What is left of the rate after a round of 429s. */
const LEFT = 0.7;
/** All 429s within this are one round: they were under way together. */
const ROUND_MS = 1_000;
/** The share of the owner's rate that comes back each minute. */
const REGAINED = 0.02;
/** Attempts a second that no 429 takes away: a receiver that wants less says so by Retry-After. */
const LEAST = 1;

type Owners = Pick<GateSettings, "ratePerSecond" | "rateBurst">;

/** The owner's rate at `now`, or what is left of it: without bursts, because they are what was refused. */
export function effectiveRate(
  adaptiveLimit: AdaptiveLimit,
  { ratePerSecond, rateBurst }: Owners,
  now: number,
): Rate {
  // Outcomes carry the workers' clocks: one may lie ahead.
  const minutes = Math.max(0, now - adaptiveLimit.loweredAt) / 60_000;
  const perSecond = adaptiveLimit.perSecond + minutes * REGAINED * ratePerSecond;
  return perSecond < ratePerSecond ? { perSecond, burst: 1 } : { perSecond: ratePerSecond, burst: rateBurst };
}

/**
 * The ceiling after a 429. Never above the owner's rate, however little that is.
 * @param sentPerSecond what was being sent when it was refused: it may be far less than what the owner allows
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

// §§ The send slots of one lease, as its holder uses them up: the rate's own rule (see rate-limit.ts), counted from the
// starts that really happen. A lease that begins late, because the gate or D1 took long to answer, loses
// nothing by it: its later slots move with the earlier ones, and the gate is told so when the lease is settled.
//
// So a receiver may see, within any T, the sends of T and of what the holders of its leases were late by, beyond
// one burst: at most `burst + rate × (T + lateness)`. Holders that are equally late are all on time.

export type SendSlots = Readonly<{
  /** When the next attempt may start that nobody has claimed; undefined when the lease has no more. */
  nextAt: () => number | undefined;
  /** The same, and it is somebody's. Who has claimed one uses it or gives it back. */
  claim: () => number | undefined;
  /** Whether an attempt may start now: others may have started later than their slots said. */
  isFree: (now: number) => boolean;
  /** An attempt starts now, in a slot that was claimed. */
  use: (now: number) => void;
  giveBack: () => void;
  /** The rate's theoretical arrival time by what was really started; undefined when nothing was. */
  tat: () => number | undefined;
}>;

/** Timers wake up early by that much. */
const EARLY_MS = 1;

/** A start due within a millisecond comes at its end, and is not late: or every start would put off all after it. */
const ROUNDED_MS = 1;

/** Sums of fractions of a millisecond since 1970 are wrong by less. */
const INEXACT_MS = 0.1;

/** @param grantedAt when the grant arrived, by the holder's clock: never before the gate gave it */
export function sendSlotsOf(
  { pace, deliveries }: Pick<Grant, "pace" | "deliveries">,
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
