/**
 * Leases: permission to make attempts over `slots` connections until a deadline. Live leases are the
 * semaphore: the sum of their slots is never above `max_concurrency`, whatever crashes, because a lease
 * that is never settled expires by the clock alone.
 */
import type { DestinationState } from "./destination-state.ts";
import type { PackedNumbers } from "./number-sets.ts";

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
  deliveries: PackedNumbers;
  /** The one probe of a half-open circuit. */
  probe?: true;
  /** What it has of another lease, whose attempts may still be under way; that one has it back when this is over. */
  took?: Readonly<{ lease: string; slots: number; width: number }>;
  /** What a former incarnation may have granted without storing it. Nobody settles it. */
  lost?: true;
  /** The rate's theoretical arrival time after this lease's sends, if all of them start on time. */
  tat: number;
  expiresAt: number;
}>;

/**
 * The rate for a lease's attempts: the i-th (from 0) may not start before `firstInMs + i × everyMs`. One that starts
 * later than `slackMs` after that moves those behind it: see rate-limit.ts.
 */
export type Pace = Readonly<{ firstInMs: number; everyMs: number; slackMs: number }>;

/** What the holder of a lease needs to know. Times are relative to the moment the grant arrives. */
export type Grant = Readonly<{
  id: string;
  slots: number;
  width: number;
  deliveries: readonly number[];
  /** No attempt may start later than this after the holder is ready to start the first; see `startsUntil`. */
  startWithinMs: number;
  /** After this the lease has ended, settled or not. */
  expiresInMs: number;
  pace: Pace;
  destinationState: DestinationState;
}>;

/** For looking up what was let in, before the first attempt is started. */
const LOAD_MARGIN_MS = 5_000;
/** For recording and settling after the last attempt has timed out. */
const SETTLE_MARGIN_MS = 5_000;

/** How long a lease lives when its holder starts attempts for so long and each may take so long. */
export function leaseMs(startWithinMs: number, timeoutMs: number): number {
  return LOAD_MARGIN_MS + startWithinMs + timeoutMs + SETTLE_MARGIN_MS;
}

/**
 * Until when attempts may be started under a lease whose holder was ready at `readyAt`: as long as was asked for,
 * and so that the last of them has timed out, and is recorded, before the lease expires.
 */
export function startsUntil(
  { startWithinMs, expiresInMs }: Pick<Grant, "startWithinMs" | "expiresInMs">,
  grantedAt: number,
  readyAt: number,
  timeoutMs: number,
): number {
  return Math.min(readyAt + startWithinMs, grantedAt + expiresInMs - timeoutMs - SETTLE_MARGIN_MS);
}

/** How many attempts so many connections can start in so long, by how long one takes of late (0: not known). */
export function startable(slots: number, startWithinMs: number, tookMs: number): number {
  return tookMs > 0 ? slots * (1 + Math.floor(startWithinMs / tookMs)) : Number.POSITIVE_INFINITY;
}

/**
 * What was settled is remembered for so long: a look-up that is older than this is not to be used. Longer than
 * a look-up and the questions behind it take; no longer, because a busy gate carries it all through every call.
 */
export const LOOK_UP_MS = 6_000;

/** The rate's theoretical arrival time, what live leases have reserved included. */
export function tatOf(leases: readonly Lease[], tat: number): number {
  return leases.reduce((latest, lease) => Math.max(latest, lease.tat), tat);
}

export function live(leases: readonly Lease[], now: number): readonly Lease[] {
  return leases.some((lease) => lease.expiresAt <= now) ? leases.filter((l) => l.expiresAt > now) : leases;
}

/** The leases when `heir` takes over what it can use of the one that it succeeds: together they hold no more than the larger. */
export function succeeded(
  leases: readonly Lease[],
  heir: Lease,
  lease: string | undefined,
): readonly Lease[] {
  const former = leases.find(({ id }) => id === lease);
  if (!former) return [...leases, heir];
  const slots = Math.min(former.slots, heir.slots);
  const width = Math.min(former.width, heir.width);
  const rest = { ...former, slots: former.slots - slots, width: former.width - width };
  // It lasts as long as the other: what it has taken over may be in use until then.
  const expiresAt = Math.max(heir.expiresAt, former.expiresAt);
  const others = leases.map((one) => (one === former ? rest : one));
  return [...others, { ...heir, expiresAt, took: { lease: former.id, slots, width } }];
}

/** The leases when this one is over: what it has of another that is not over yet goes back to it. */
export function ended(leases: readonly Lease[], { id, took }: Lease): readonly Lease[] {
  const returned = (one: Lease) =>
    one.id === took?.lease ? { ...one, slots: one.slots + took.slots, width: one.width + took.width } : one;
  return leases.filter((one) => one.id !== id).map(returned);
}

export function slotsOf(leases: readonly Lease[]): number {
  return leases.reduce((sum, lease) => sum + lease.slots, 0);
}

export function widthsOf(leases: readonly Lease[]): number {
  return leases.reduce((sum, lease) => sum + lease.width, 0);
}
