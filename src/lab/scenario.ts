/** A scenario: who is posted to and how much, what goes wrong and when, and what the receivers can take. */

import { gapMs, type Random } from "./random.ts";
import type { ServerShape, Trouble } from "./receiver.ts";
import { BEGINNING } from "./virtual-time.ts";

/** Milliseconds from the beginning. */
export type Span = Readonly<{ from: number; to: number }>;

export type Post = Readonly<{ at: number; receiver: number }>;

export type Scenario = Readonly<{
  name: string;
  title: string;
  server: ServerShape;
  receivers: number;
  /** The receivers that the figures are about. */
  watched: (receiver: number) => boolean;
  /** When something is wrong: the last span's end is the recovery. */
  troubles: readonly Span[];
  troubleAt: (receiver: number, now: number) => Trouble;
  posts: (random: Random) => readonly Post[];
  /** What the receivers' owners allow, as far as it limits a drain. */
  settings: Readonly<{ maxConcurrency?: number; ratePerSecond?: number }>;
}>;

export const FINE: Trouble = { kind: "none" };

/** Whether `now` (epoch ms) lies in one of the spans. */
export function isIn(spans: readonly Span[], now: number): boolean {
  const since = now - BEGINNING;
  return spans.some(({ from, to }) => since >= from && since < to);
}

/** The end of the last trouble, epoch ms. */
export function recoveryOf({ troubles }: Scenario): number {
  return BEGINNING + (troubles.at(-1)?.to ?? 0);
}

/** Independent posts at a steady rate, for a span. */
export function steady(perSecond: number, { from, to }: Span, receiver: number, random: Random): Post[] {
  const posts: Post[] = [];
  for (let at = from + gapMs(perSecond, random); at < to; at += gapMs(perSecond, random)) {
    posts.push({ at: BEGINNING + Math.floor(at), receiver });
  }
  return posts;
}
