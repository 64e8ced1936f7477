/**
 * Leases: permission to make attempts over `slots` connections until a deadline. Live leases are the
 * semaphore: the sum of their slots is never above `max_concurrency`, whatever crashes, because a lease
 * that is never settled expires by the clock alone.
 */
import type { Condition } from "./condition.ts";

/** `fresh`: first attempts. `retry`: later ones. `backlog`: what has waited, worked off by drains. */
export type Lane = "fresh" | "retry" | "backlog";

/** What the gate remembers of a lease. */
export type Lease = Readonly<{
  id: string;
  lane: Lane;
  /** Connections that may be open at once under this lease. */
  slots: number;
  /** Its share of the window when it was granted: how many of the slots it begins with. */
  width: number;
  /** Event rows: the same delivery is never in two live leases. */
  deliveries: readonly number[];
  /** The one probe of a half-open circuit. */
  probe: boolean;
  /** The rate's theoretical arrival time after this lease's sends, and what each of them took of it. */
  tat: number;
  everyMs: number;
  expiresAt: number;
}>;

/**
 * One place in time for each of a lease's attempts: the i-th (from 0) may not start before
 * `firstInMs + i × everyMs`, nor later than `slackMs` after that, because the places after it are others'.
 */
export type Pace = Readonly<{ firstInMs: number; everyMs: number; slackMs: number }>;

/** What the holder of a lease needs to know. Times are relative to the moment it asked. */
export type Grant = Readonly<{
  id: string;
  slots: number;
  width: number;
  deliveries: readonly number[];
  /** No attempt may start later than this after the asking. */
  startWithinMs: number;
  /** After this the lease has ended, settled or not. */
  expiresInMs: number;
  pace: Pace;
  condition: Condition;
}>;

/** For recording and settling after the last attempt has timed out. */
const SETTLE_MARGIN_MS = 10_000;

/** How long a lease lives when its holder starts attempts for so long and each may take so long. */
export function leaseMs(startWithinMs: number, timeoutMs: number): number {
  return startWithinMs + timeoutMs + SETTLE_MARGIN_MS;
}

/**
 * What was settled is remembered for so long: a look-up that is older than this is not to be used. Longer than
 * a look-up and the questions behind it take; no longer, because a busy gate carries it all through every call.
 */
export const LOOK_UP_MS = 6_000;

export function live(leases: readonly Lease[], now: number): readonly Lease[] {
  return leases.some((lease) => lease.expiresAt <= now) ? leases.filter((l) => l.expiresAt > now) : leases;
}

export function slotsOf(leases: readonly Lease[]): number {
  return leases.reduce((sum, lease) => sum + lease.slots, 0);
}

export function widthsOf(leases: readonly Lease[]): number {
  return leases.reduce((sum, lease) => sum + lease.width, 0);
}
