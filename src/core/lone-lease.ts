/**
 * Lone leases: the first attempt of one delivery, granted without slack. The lease is written when it is granted; its
 * success is not written at all, because each write is billed. So the next incarnation finds the lease stored, and cannot
 * know whether it was settled.
 *
 * That must not look like a crash. When the lease has expired, the next incarnation counts it as one success, unless its
 * message has come again and the delivery is still open: only then its invocation has died. How often a message was sent
 * proves nothing, because messages are retried in good order too. A delivery that a drain requests proves nothing either:
 * somebody may have requeued it.
 */

import { widthOf } from "./concurrency-window.ts";
import { afterLostLease } from "./crash-loop.ts";
import { type GateState, sideOf } from "./gate-state.ts";
import { type Lane, type Lease, slotsOf, widthsOf } from "./lease.ts";
import { sharedWith, unpackNumbers } from "./number-sets.ts";

/** The leases as they are written: the newest is lone if it is the first attempt of one delivery. */
export function withLone({ leases, incarnation }: GateState, now: number): readonly Lease[] {
  const newest = leases.at(-1);
  if (newest?.lane !== "fresh" || newest.probe || unpackNumbers(newest.deliveries).length !== 1)
    return leases;
  return leases.with(-1, { ...newest, lone: { at: now, incarnation } });
}

/**
 * Whether all that a decision has done is to end lone leases with successes, of which no incarnation needs to know: limit
 * and window leave the next lease a slot although these look live, and the destination has no trouble.
 */
export function endsOnlyLone(before: GateState, after: GateState): boolean {
  const { leases, destinationState, maxConcurrency, drainSchedule, crashLoop } = before;
  if (after.leases.length === leases.length || crashLoop.level > 0 || drainSchedule.waitingSince > 0)
    return false;
  const left = new Set(after.leases.map(({ id }) => id));
  const width = widthOf(destinationState.window, maxConcurrency);
  return (
    leases.every(({ id, lone }) => left.has(id) || lone !== undefined) &&
    slotsOf(leases) < maxConcurrency &&
    widthsOf(leases) < width &&
    // One that expired is a success of a former incarnation, or evidence; one that attempted nothing is no success.
    after.presumed === before.presumed &&
    after.crashLoop === crashLoop &&
    after.destinationState !== destinationState
  );
}

type Requested = Readonly<{ lane: Lane; deliveries: readonly number[]; lookedUpMsAgo?: number }>;

/** The state with what a request proves: its deliveries are open, so the invocations of their lone leases have died. */
export function withDeaths(
  state: GateState,
  { lane, deliveries, lookedUpMsAgo = 0 }: Requested,
  now: number,
): GateState {
  if (sideOf(lane) === "backlog") return state;
  const sorted = deliveries.toSorted((a, b) => a - b);
  const isOpen = ({ deliveries: some, expiresAt }: Pick<Lease, "deliveries" | "expiresAt">) =>
    expiresAt <= now - lookedUpMsAgo && sharedWith(sorted, some).length > 0;
  const hasDied = (lease: Lease) => lease.lone !== undefined && isOpen(lease);
  const presumed = state.presumed.filter((lease) => !isOpen(lease));
  const isWrong = presumed.length < state.presumed.length;
  if (!isWrong && !state.leases.some(hasDied)) return state;
  return {
    ...state,
    leases: state.leases.map((lease) => (hasDied(lease) ? withoutLone(lease) : lease)),
    presumed,
    crashLoop: isWrong ? afterLostLease(state.crashLoop, now) : state.crashLoop,
  };
}

/** An ordinary lease: one that expires is lost. */
function withoutLone({ lone: _, ...lease }: Lease): Lease {
  return lease;
}
