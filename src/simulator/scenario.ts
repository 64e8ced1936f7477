/** A scenario: the destinations and rates of posts, what goes wrong and when, and the capacities of the receivers. */

import type { Random } from "../core/seeded-random.ts";

/** When every simulation begins: 1 January 2026, so that no time is 0. */
export const BEGINNING = Date.UTC(2026, 0, 1);

/** The time to the next of independent events that happen `perSecond`, in milliseconds. */
function gapMs(perSecond: number, random: Random): number {
  return (-Math.log(1 - random()) / perSecond) * 1000;
}

export type ServerShape = Readonly<{
  slots: number;
  serviceMs: number;
  /** Requests in the queue beyond which it becomes slower. */
  strain: number;
  /** Requests in the queue beyond which it breaks down. */
  bound: number;
  restartMs: number;
  /** Requests a second beyond which it answers 429. */
  perSecond?: number;
  /** The time in the 429's Retry-After. */
  retryAfterS?: number;
}>;

/** A receiver's trouble at a time, apart from its load. */
export type Trouble =
  | Readonly<{ kind: "none" }>
  | Readonly<{ kind: "down" }>
  /** The receiver works and refuses everything with this status. */
  | Readonly<{ kind: "refusing"; status: number }>
  | Readonly<{ kind: "hanging" }>
  | Readonly<{ kind: "slow"; factor: number }>
  /** The share of its answers, 0 to 1, that are failures. */
  | Readonly<{ kind: "erratic"; share: number }>;

/** Milliseconds from the beginning. */
export type Span = Readonly<{ from: number; to: number }>;

export type ScheduledPost = Readonly<{ at: number; receiver: number }>;

export type Scenario = Readonly<{
  name: string;
  title: string;
  server: ServerShape;
  receivers: number;
  /** The receiver whose server this one shares; without, each has one of its own. */
  serverOf?: (receiver: number) => number;
  /** The receivers that the figures are about. */
  watched: (receiver: number) => boolean;
  /** The times of trouble: the last span's end is the recovery. */
  troubles: readonly Span[];
  troubleAt: (receiver: number, now: number) => Trouble;
  posts: (random: Random) => readonly ScheduledPost[];
  /** Limits that the receivers' owners set, as far as they limit a drain. */
  settings: Readonly<{ maxConcurrency?: number; ratePerSecond?: number }>;
}>;

export const FINE: Trouble = { kind: "none" };

/** Whether `now` (epoch ms) lies in one of the spans. */
export function isWithin(spans: readonly Span[], now: number): boolean {
  const since = now - BEGINNING;
  return spans.some(({ from, to }) => since >= from && since < to);
}

/** The end of the last trouble, epoch ms. */
export function recoveryOf({ troubles }: Scenario): number {
  return BEGINNING + (troubles.at(-1)?.to ?? 0);
}

/** Independent posts at a steady rate, for a span. */
export function steady(
  perSecond: number,
  { from, to }: Span,
  receiver: number,
  random: Random,
): ScheduledPost[] {
  const posts: ScheduledPost[] = [];
  for (let at = from + gapMs(perSecond, random); at < to; at += gapMs(perSecond, random)) {
    posts.push({ at: BEGINNING + Math.floor(at), receiver });
  }
  return posts;
}
