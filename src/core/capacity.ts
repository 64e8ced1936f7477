/**
 * How much room there is behind the door for one more lease. The checks run from the most lasting reason
 * to the most fleeting one, so that the reason given is the one that a person would name.
 */
import type { Refusal } from "./admit.ts";
import { widthOf } from "./concurrency-window.ts";
import { blockedBy } from "./destination-state.ts";
import { type GateState, type Side, sideOf } from "./gate-state.ts";
import { type Lane, type Lease, slotsOf, widthsOf } from "./lease.ts";
import type { GateSettings } from "./limits.ts";

// §§ Fair shares between live traffic and backlog, when both want in.
//
// Of any capacity above one, live traffic leaves a quarter to the backlog, and the backlog an eighth to live
// traffic (at least one each), while the other is about: what live traffic does not use of its part is lost to
// the drain, and what it lacks at once it gets from the next lease that ends. A capacity of one cannot be shared, so it takes turns: live traffic stands back when the backlog
// has been turned away since live was last served. The backlog never stands back from a capacity of one:
// live deliveries that are turned away become backlog themselves, and the drain takes the newest first
// among its own.

/** How long a side counts as being about after it asked or was turned away. */
const ABOUT_MS = 10_000;

/** How much of `capacity` is left for one more lease of `side`, given what each lease takes of it. */
export function fairShareLeft(
  state: GateState,
  side: Side,
  capacity: number,
  taken: (leases: readonly Lease[]) => number,
  now: number,
): number {
  const own = state.leases.filter((lease) => sideOf(lease.lane) === side);
  const kept = reservedAgainst(state, side, capacity, now);
  return Math.min(capacity - taken(state.leases), capacity - kept - taken(own));
}

/**
 * How far ahead a side may reserve the rate. Drains look further ahead than batches do: while live traffic
 * is about, they leave it the later three quarters of their time, or it would find every place taken.
 */
export function aheadMs(state: GateState, side: Side, startWithinMs: number, now: number): number {
  const leaves = side === "backlog" && isAbout(state.turns.live.askedAt, now);
  return leaves ? startWithinMs / 4 : startWithinMs;
}

function reservedAgainst(state: GateState, side: Side, capacity: number, now: number): number {
  if (side === "backlog")
    return capacity > 1 && isAbout(state.turns.live.askedAt, now) ? part(capacity, 8) : 0;
  if (!wantsMore(state, now)) return 0;
  return capacity > 1 ? part(capacity, 4) : isBacklogsTurn(state, now) ? 1 : 0;
}

/** Whether live traffic, when there is not enough for both, has to let the backlog go first. */
export function isBacklogsTurn(state: GateState, now: number): boolean {
  return wantsMore(state, now) && state.turns.live.servedAt > state.turns.backlog.servedAt;
}

function wantsMore({ turns: { backlog } }: GateState, now: number): boolean {
  return backlog.wantedAt > 0 && backlog.wantedAt >= backlog.servedAt && isAbout(backlog.wantedAt, now);
}

function isAbout(at: number, now: number): boolean {
  return at > 0 && now - at < ABOUT_MS;
}

function part(capacity: number, of: number): number {
  return Math.max(1, Math.floor(capacity / of));
}

export type Capacity = Readonly<{ slots: number; width: number; deliveries: number; probe: boolean }>;

/**
 * A destination that takes longer than this is served by drains, which run on a queue of their own: in a
 * batch of the live queue it would make every other destination wait for its end.
 */
const SLOW_MS = 1_000;

export function capacityFor(
  state: GateState,
  lane: Lane,
  settings: GateSettings,
  now: number,
): Capacity | Refusal {
  const shut = blockedBy(state.destinationState, settings, now);
  if (shut) return shut;
  const probing = state.destinationState.circuit.kind === "half_open";
  const probe = state.leases.find((lease) => lease.probe);
  if (probing && probe) return { reason: "probing", until: probe.expiresAt };
  const side = sideOf(lane);
  if (side === "live" && state.destinationState.tookMs > SLOW_MS) return { reason: "slow", until: now };
  const window = probing ? 1 : widthOf(state.destinationState.window, settings.maxConcurrency);
  const slots = fairShareLeft(state, side, settings.maxConcurrency, slotsOf, now);
  const width = fairShareLeft(state, side, window, widthsOf, now);
  if (slots < 1 || width < 1) return { reason: "concurrency", until: firstExpiry(state, now) };
  if (probing) return { slots: 1, width: 1, deliveries: 1, probe: true };
  return { slots, width, deliveries: Number.POSITIVE_INFINITY, probe: false };
}

/** When a place is free at the latest; a lease that is settled frees it sooner, and rings then. */
function firstExpiry({ leases }: GateState, now: number): number {
  return leases.length > 0 ? Math.min(...leases.map((lease) => lease.expiresAt)) : now;
}
