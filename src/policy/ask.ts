/** What is asked of a gate and what it answers: plain values, because they cross from Worker to object. */

import type { CircuitEvent } from "./door-events.ts";
import type { Grant, Lane } from "./lease.ts";

export type AdmitRequest = Readonly<{
  lane: Lane;
  /** Event rows, in the order in which they should go. */
  deliveries: readonly number[];
  /** The one of them that goes when a half-open circuit lets in no other; the first, when it is not said. */
  probe?: number;
  /** As many of them at most; those beyond are neither let in nor turned away. */
  most?: number;
  /** How long ago the asker looked the deliveries up; 0 when it looks them up after it is let in. */
  lookedUpMsAgo?: number;
  /**
   * The lease that the asker is working off, and goes on from without a pause: what is let in takes over its slots.
   * The asker never has more open under both than the larger of the two allows.
   */
  succeeds?: string;
  /** How many connections the asker can use at once. */
  connections: number;
  /** How long after asking it will start attempts. */
  startWithinMs: number;
}>;

/**
 * `slow`: the destination takes longer than a batch may last, so it is served by drains alone.
 * `recovered` is said by the sweep: the delivery was lost on its way. The last three are said before the
 * gate is asked: no master key opens the destination's secret, its host name cannot be looked up, or it
 * leads to an address that is not public.
 */
export type RefusalReason =
  | "paused"
  | "hold"
  | "circuit_open"
  | "probing"
  | "concurrency"
  | "rate"
  | "slow"
  | "recovered"
  | "sealed"
  | "unresolved"
  | "forbidden_address";

/** The gate's no: why, and when to expect otherwise; null when only a person can tell. */
export type Refusal = Readonly<{ reason: RefusalReason; until: number | null }>;

export type AdmitResult = Readonly<{
  grant: Grant | null;
  /** The deliveries that were turned away, and why. */
  refused: Readonly<{ deliveries: readonly number[] } & Refusal> | null;
  /** The deliveries that another lease holds, or held a moment ago, and when to look at them again. */
  inFlight: Readonly<{ deliveries: readonly number[]; until: number }> | null;
  /**
   * Of those let in, which were settled of late, each with how long ago (ms): how long the question was under way the
   * gate cannot know, so whether that was before the look-up the asker tells, when it has its answer.
   */
  settled?: readonly Readonly<{ delivery: number; msAgo: number }>[];
  /** What time has done to the door since it was last looked at, where it has done something. */
  events?: readonly CircuitEvent[];
}>;
