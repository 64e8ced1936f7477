/**
 * Leases: permission to make attempts over `slots` connections until a deadline. Live leases are the semaphore: the sum
 * of their slots is never above `max_concurrency`, whatever crashes, because a lease that is never settled expires by
 * the clock alone.
 */
import type { DestinationState } from "./destination-state.ts";
import type { LeaseShare } from "./group/member.ts";
import type { PackedNumbers } from "./number-sets.ts";
import type { Pace } from "./rate-limit.ts";

/**
 * Attempts of one invocation that may wait for their headers at the same time. The platform queues the seventh request of
 * an invocation; the sixth is left to sends to queues, and to calls of D1 and gates, in case these count too.
 * https://developers.cloudflare.com/workers/platform/limits/#simultaneous-open-connections
 */
export const CONNECTIONS = 5;

/** `fresh`: first attempts. `retry`: later ones. `backlog`: deliveries that waited in D1, sent by drains. */
export type Lane = "fresh" | "retry" | "backlog";

/** A lease as the gate stores it. */
export type Lease = Readonly<{
  id: string;
  lane: Lane;
  /** Connections that may be open at once under this lease. */
  slots: number;
  /** Its share of the concurrency window when it was granted: how many of the slots it may use at first. */
  width: number;
  /** Event numbers. The same delivery is never in two live leases. */
  deliveries: PackedNumbers;
  /** The one probe of a half-open circuit. */
  probe?: true;
  /** The slots that it took over from its predecessor, which gets them back if this one ends first. */
  took?: Readonly<{ lease: string; slots: number; width: number }>;
  /** Represents what a former incarnation of the gate may have granted without storing it. It is never settled. */
  lost?: true;
  /** When it was granted, if it is the first attempt of one delivery (see lone-lease.ts). */
  lone?: number;
  /** A former incarnation granted it, and may have left its end unwritten. */
  inherited?: true;
  /** Its part of a block of the destination's group. */
  share?: LeaseShare;
  /** The rate's theoretical arrival time after this lease's sends, if all of them start on time. */
  tat: number;
  expiresAt: number;
}>;

/** A lease as its holder gets it. Times are relative to the moment the grant arrives. */
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

/** For reading the granted deliveries from D1 before the first attempt starts. */
const LOAD_MARGIN_MS = 5_000;
/** For recording and settling after the last attempt has timed out. */
const SETTLE_MARGIN_MS = 5_000;

/** How long a lease lives, given how long its holder starts attempts and how long each may take. */
export function leaseMs(startWithinMs: number, timeoutMs: number): number {
  return LOAD_MARGIN_MS + startWithinMs + timeoutMs + SETTLE_MARGIN_MS;
}

/**
 * Until when attempts may be started under a lease whose holder was ready at `readyAt`: as long as was requested, and
 * so that the last of them has timed out, and is recorded, before the lease expires.
 */
export function startsUntil(
  { startWithinMs, expiresInMs }: Pick<Grant, "startWithinMs" | "expiresInMs">,
  grantedAt: number,
  readyAt: number,
  timeoutMs: number,
): number {
  return Math.min(readyAt + startWithinMs, grantedAt + expiresInMs - timeoutMs - SETTLE_MARGIN_MS);
}

/**
 * The grant as its holder may use it. The gate may have given it as soon as it was requested, so the answer's travel
 * time is subtracted from the lease.
 */
export function arrivedGrant(grant: Grant, requestedAt: number, arrivedAt: number): Grant {
  return { ...grant, expiresInMs: grant.expiresInMs - (arrivedAt - requestedAt) };
}

/** How many attempts this many connections can start in this time. `tookMs` is how long one takes; 0: not known. */
export function startable(slots: number, startWithinMs: number, tookMs: number): number {
  return tookMs > 0 ? slots * (1 + Math.floor(startWithinMs / tookMs)) : Number.POSITIVE_INFINITY;
}

/**
 * How long settled deliveries are remembered; an older read of D1 must not be used. Longer than such a read and the
 * following calls take; no longer, because a busy gate passes all of it through every call.
 */
export const LOOK_UP_MS = 6_000;

/** The rate's theoretical arrival time, including what live leases have reserved. */
export function tatOf(leases: readonly Lease[], tat: number): number {
  return leases.reduce((latest, lease) => Math.max(latest, lease.tat), tat);
}

export function liveLeases(leases: readonly Lease[], now: number): readonly Lease[] {
  return leases.some((lease) => lease.expiresAt <= now) ? leases.filter((l) => l.expiresAt > now) : leases;
}

/** The leases with `heir`, which takes over what it can use of its predecessor: together they hold the larger one's. */
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
  // It lasts as long as the other, whose attempts may use what was taken over until then.
  const expiresAt = Math.max(heir.expiresAt, former.expiresAt);
  const others = leases.map((one) => (one === former ? rest : one));
  return [...others, { ...heir, expiresAt, took: { lease: former.id, slots, width } }];
}

/** The leases without this one. What it took over from a lease that still lives goes back to that. */
export function ended(leases: readonly Lease[], { id, took }: Lease): readonly Lease[] {
  const returned = (one: Lease) =>
    one.id === took?.lease ? { ...one, slots: one.slots + took.slots, width: one.width + took.width } : one;
  return leases.filter((one) => one.id !== id).map(returned);
}

/**
 * Whether a lease that has expired is lost, whichever incarnation granted it: a drain's, or a probe's. A lease with a
 * successor leaves that to the successor.
 */
export function provesDeath({ id, lane, probe }: Lease, leases: readonly Lease[]): boolean {
  return (lane === "backlog" || probe === true) && !leases.some(({ took }) => took?.lease === id);
}

export function slotsOf(leases: readonly Lease[]): number {
  return leases.reduce((sum, lease) => sum + lease.slots, 0);
}

export function widthsOf(leases: readonly Lease[]): number {
  return leases.reduce((sum, lease) => sum + lease.width, 0);
}

/**
 * The granted deliveries that may have been settled after the caller's look-up: the request was under way while that
 * happened. A slow result includes deliveries that were not settled; a result that comes later
 * than the gate remembers includes all of them. Both times are the caller's.
 */
export function settledSince(
  {
    grant,
    settled = [],
  }: Readonly<{ grant: Grant | null; settled?: readonly Readonly<{ delivery: number; msAgo: number }>[] }>,
  lookedUpAt: number,
  arrivedAt: number,
): readonly number[] {
  if (arrivedAt - lookedUpAt > LOOK_UP_MS) return grant?.deliveries ?? [];
  return settled.filter(({ msAgo }) => arrivedAt - msAgo > lookedUpAt).map(({ delivery }) => delivery);
}
