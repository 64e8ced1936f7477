/**
 * The rate that a receiver's 429s have taught, below the one that its owner has set. Each round of them lowers
 * it by a share; what was lost comes back slowly, because finding out that it is too much costs another round.
 */
import type { GateSettings } from "./gate-settings.ts";
import type { Rate } from "./rate.ts";

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
export function effectiveRate(adaptiveLimit: AdaptiveLimit, { ratePerSecond, rateBurst }: Owners, now: number): Rate {
  // Outcomes carry the workers' clocks: one may lie ahead.
  const minutes = Math.max(0, now - adaptiveLimit.loweredAt) / 60_000;
  const perSecond = adaptiveLimit.perSecond + minutes * REGAINED * ratePerSecond;
  return perSecond < ratePerSecond ? { perSecond, burst: 1 } : { perSecond: ratePerSecond, burst: rateBurst };
}

/**
 * The ceiling after a 429. Never above the owner's rate, however little that is.
 * @param sentPerSecond what was being sent when it was refused: it may be far less than what the owner allows
 */
export function loweredLimit(adaptiveLimit: AdaptiveLimit, owners: Owners, sentPerSecond: number, now: number): AdaptiveLimit {
  if (Math.abs(now - adaptiveLimit.loweredAt) < ROUND_MS) return adaptiveLimit;
  const perSecond = Math.min(effectiveRate(adaptiveLimit, owners, now).perSecond, sentPerSecond) * LEFT;
  return { perSecond: Math.max(LEAST, perSecond), loweredAt: now };
}
