/**
 * Ended leases, as a new incarnation finds them: a former one may have left their ends unwritten, because each write is
 * billed. That must not look like a crash.
 *
 * An inherited lease of live traffic that has expired counts as ended, unless its message has come again and a delivery
 * of it is still open: only then its invocation has died. How often a message was sent proves nothing, because messages
 * are retried in normal operation too. A delivery that a drain requests proves nothing either: an operator may have
 * requeued it. The end of a drain's lease, or of a probe's, is therefore always written, and such a lease that expires
 * is lost.
 *
 * A lone lease is the first attempt of one delivery. Its success is not written at all if the gate has no slack. An
 * inherited one that expires counts as one success.
 */

import { widthOf } from "./concurrency-window.ts";
import { afterLostLease } from "./crash-loop.ts";
import { type GateState, sideOf } from "./gate-state.ts";
import { type Lane, type Lease, provesDeath, slotsOf, widthsOf } from "./lease.ts";
import { sharedWith } from "./number-sets.ts";

/** The leases as the next incarnation finds them. */
export function inherited(leases: readonly Lease[]): readonly Lease[] {
  return leases.map((lease) => (lease.lost ? lease : { ...lease, inherited: true }));
}

/** Whether a decision has ended a lease that would look lost to the next incarnation. */
export function endsEvidence(
  { leases: before }: GateState,
  { leases: after }: GateState,
  now: number,
): boolean {
  const left = new Set(after.map(({ id }) => id));
  const hasEnded = ({ id, expiresAt }: Lease) => expiresAt > now && !left.has(id);
  return before.some((lease) => hasEnded(lease) && provesDeath(lease, before));
}

/**
 * Whether a decision has only ended lone leases with successes, which no incarnation needs to know: limit and window
 * leave the next lease a slot although these look live, and the destination has no trouble.
 */
export function endsOnlyLone(before: GateState, after: GateState): boolean {
  const { leases, destinationState, maxConcurrency, drainSchedule, crashLoop } = before;
  if (after.leases.length === leases.length || drainSchedule.waitingSince > 0) return false;
  const left = new Set(after.leases.map(({ id }) => id));
  const width = widthOf(destinationState.window, maxConcurrency);
  return (
    leases.every(({ id, lone }) => left.has(id) || lone !== undefined) &&
    slotsOf(leases) < maxConcurrency &&
    widthsOf(leases) < width &&
    // One that expired is a success of a former incarnation, or evidence; one without an attempt is not a success.
    // While leases are lost, each settled one counts.
    after.presumed === before.presumed &&
    after.crashLoop === crashLoop &&
    after.destinationState !== destinationState
  );
}

type Requested = Readonly<{ lane: Lane; deliveries: readonly number[]; lookedUpMsAgo?: number }>;

/**
 * The state with the evidence of a request: its deliveries are open, so the invocations of their inherited leases have
 * died.
 */
export function withDeaths(
  state: GateState,
  { lane, deliveries, lookedUpMsAgo = 0 }: Requested,
  now: number,
): GateState {
  if (sideOf(lane) === "backlog") return state;
  const sorted = deliveries.toSorted((a, b) => a - b);
  const isOpen = ({ deliveries: some, expiresAt }: Pick<Lease, "deliveries" | "expiresAt">) =>
    expiresAt <= now - lookedUpMsAgo && sharedWith(sorted, some).length > 0;
  const hasDied = (lease: Lease) => lease.inherited === true && isOpen(lease);
  const presumed = state.presumed.filter((lease) => !isOpen(lease));
  const isWrong = presumed.length < state.presumed.length;
  if (!isWrong && !state.leases.some(hasDied)) return state;
  return {
    ...state,
    leases: state.leases.map((lease) => (hasDied(lease) ? asOwn(lease) : lease)),
    presumed,
    crashLoop: isWrong ? afterLostLease(state.crashLoop, now) : state.crashLoop,
  };
}

/** As one that this incarnation has granted: if it expires, it is lost. */
function asOwn({ inherited: _, ...lease }: Lease): Lease {
  return lease;
}
