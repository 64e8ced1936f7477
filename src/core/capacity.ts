/**
 * The capacity that one more lease may have: slots, a share of the concurrency window, and sends of the rate; or the
 * refusal.
 *
 * The checks run from the most lasting reason to the most fleeting one, so that the reason given is the one that an
 * operator would name.
 *
 * Live traffic and the backlog share the capacity. While the other side is active, live traffic leaves a quarter of a
 * capacity above one to the backlog, and the backlog an eighth to live traffic (at least one each). Capacity that live
 * traffic leaves and the drain does not use is unused for the moment; the drain gets the rest of its share when the
 * next lease ends. A capacity of one cannot be shared, so the sides take turns: live traffic yields when the backlog
 * has been refused since live traffic was last served. The backlog never yields a capacity of one, because live
 * deliveries that are refused become backlog themselves, and a drain takes the newest of the backlog too.
 */
import { widthOf } from "./concurrency-window.ts";
import { isApart } from "./crash-loop.ts";
import { blockedBy } from "./destination-state.ts";
import { type GateState, type Side, sideOf } from "./gate-state.ts";
import { type Lane, type Lease, slotsOf, startable, tatOf, widthsOf } from "./lease.ts";
import type { GateSettings } from "./limits.ts";
import { effectiveRate, nextSendAt, type Reservation, reserve, reserveNow } from "./rate-limit.ts";
import type { Refusal } from "./reasons.ts";

/** The part of a request that capacity depends on. */
export type CapacityRequest = Readonly<{
  lane: Lane;
  deliveries: number;
  connections: number;
  startWithinMs: number;
}>;

export type Capacity = Readonly<{
  /** Connections. */
  slots: number;
  /** Width of the concurrency window. */
  width: number;
  /** At least one send. */
  reservation: Reservation;
  /** The one attempt that a half-open circuit admits. */
  probe: boolean;
}>;

type Shares = Pick<Capacity, "slots" | "width" | "probe">;

/**
 * A destination that takes longer than this is served by drains, which run on a queue of their own: in a batch of the
 * deliveries' queue every other destination would wait for its end.
 */
export const SLOW_MS = 1_000;

export function capacityFor(
  state: GateState,
  wanted: CapacityRequest,
  settings: GateSettings,
  now: number,
): Capacity | Refusal {
  const shares = sharesFor(state, sideOf(wanted.lane), settings, now);
  if ("reason" in shares) return shares;
  const reservation = reservationFor(state, wanted, shares, settings, now);
  return reservation.sends === 0 ? rateRefusal(state, settings, now) : { ...shares, reservation };
}

/** The most attempts that a lease can start in its time, by how long one takes. */
export function mostStarts(
  { destinationState: { tookMs } }: GateState,
  { connections, startWithinMs }: CapacityRequest,
  { slots }: Shares,
): number {
  return startable(Math.min(slots, connections), startWithinMs, tookMs);
}

export function rateRefusal(state: GateState, settings: GateSettings, now: number): Refusal {
  const rate = effectiveRate(state.destinationState.adaptiveLimit, settings, now);
  return { reason: "rate", until: nextSendAt(tatOf(state.leases, state.tat), rate, now) };
}

function sharesFor(state: GateState, side: Side, settings: GateSettings, now: number): Shares | Refusal {
  const block = blockedBy(state.destinationState, settings, now);
  if (block) return block;
  const isHalfOpen = state.destinationState.circuit.kind === "half_open";
  const probe = state.leases.find((lease) => lease.probe);
  if (isHalfOpen && probe) return { reason: "probing", until: probe.expiresAt };
  if (side === "live" && isApart(state.crashLoop)) return { reason: "crash_loop", until: now };
  if (side === "live" && state.destinationState.tookMs > SLOW_MS) return { reason: "slow", until: now };
  const window = isHalfOpen ? 1 : widthOf(state.destinationState.window, settings.maxConcurrency);
  const slots = fairShareLeft(state, side, settings.maxConcurrency, slotsOf, now);
  const width = fairShareLeft(state, side, window, widthsOf, now);
  if (slots < 1 || width < 1) return { reason: "concurrency", until: firstExpiry(state, now) };
  return isHalfOpen ? { slots: 1, width: 1, probe: true } : { slots, width, probe: false };
}

/** The latest time at which a slot becomes free: a lease that is settled frees it sooner, and schedules a drain then. */
function firstExpiry({ leases }: GateState, now: number): number {
  return leases.length > 0 ? Math.min(...leases.map((lease) => lease.expiresAt)) : now;
}

function reservationFor(
  state: GateState,
  wanted: CapacityRequest,
  shares: Shares,
  settings: GateSettings,
  now: number,
): Reservation {
  const rate = effectiveRate(state.destinationState.adaptiveLimit, settings, now);
  const tat = tatOf(state.leases, state.tat);
  if (shares.probe) return reserveNow(tat, rate, now);
  const side = sideOf(wanted.lane);
  const horizonAt = now + aheadMs(state, side, wanted.startWithinMs, now);
  const sends = Math.min(wanted.deliveries, mostStarts(state, wanted, shares));
  const reserved = reserve(tat, sends, rate, horizonAt, now);
  // After it no further attempt could start at once: the backlog has to wait for capacity that live traffic takes now.
  const isScarce = nextSendAt(reserved.tat, rate, now) > now;
  const yields = isScarce && side === "live" && isBacklogsTurn(state, now);
  return yields ? { ...reserved, sends: 0 } : reserved;
}

/** How long a side counts as active after it requested or was refused. */
const ACTIVE_MS = 10_000;

/** How much of `capacity` is left for one more lease of `side`, given what each lease takes of it. */
export function fairShareLeft(
  state: GateState,
  side: Side,
  capacity: number,
  taken: (leases: readonly Lease[]) => number,
  now: number,
): number {
  const own = state.leases.filter((lease) => sideOf(lease.lane) === side);
  const kept = keptForOther(state, side, capacity, now);
  return Math.min(capacity - taken(state.leases), capacity - kept - taken(own));
}

/**
 * How far ahead a side may reserve the rate. Drains look further ahead than batches do: while live traffic is active,
 * they leave it the later three quarters of their time; otherwise it would find every send reserved.
 */
export function aheadMs(state: GateState, side: Side, startWithinMs: number, now: number): number {
  const yields = side === "backlog" && isActive(state.turns.live.askedAt, now);
  return yields ? startWithinMs / 4 : startWithinMs;
}

/** Whether live traffic, if the capacity does not suffice for both, has to let the backlog go first. */
export function isBacklogsTurn(state: GateState, now: number): boolean {
  return backlogWantsMore(state, now) && state.turns.live.servedAt > state.turns.backlog.servedAt;
}

function keptForOther(state: GateState, side: Side, capacity: number, now: number): number {
  if (side === "backlog")
    return capacity > 1 && isActive(state.turns.live.askedAt, now) ? part(capacity, 8) : 0;
  if (!backlogWantsMore(state, now)) return 0;
  return capacity > 1 ? part(capacity, 4) : isBacklogsTurn(state, now) ? 1 : 0;
}

function backlogWantsMore({ turns: { backlog } }: GateState, now: number): boolean {
  return backlog.wantedAt >= backlog.servedAt && isActive(backlog.wantedAt, now);
}

/** @param at 0: never */
function isActive(at: number, now: number): boolean {
  return now - at < ACTIVE_MS;
}

function part(capacity: number, of: number): number {
  return Math.max(1, Math.floor(capacity / of));
}
