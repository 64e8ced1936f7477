/**
 * The gate's second decision: the effect of a lease's attempts on its destination. The lease ends, its signals update
 * the destination's state in the order in which the attempts ended, sends that were not made are given back to the
 * rate, and drains may be due. Settling twice, or settling a lease that has expired, changes nothing.
 *
 * Below it are the other changes of a gate's state: by an operator, by a hold, by drains and by deaths without attempt.
 */

import { type Alert, alertsAfter, digestAfter } from "./alerts.ts";
import { type DisableReason, disableReasonOf, failureStreakAfter, noFailures } from "./auto-disable.ts";
import { type Circuit, closedCircuit } from "./circuit-breaker.ts";
import { reopened } from "./concurrency-window.ts";
import { afterSettledLease } from "./crash-loop.ts";
import {
  type AttemptSignal,
  type CircuitEvent,
  circuitChange,
  type DestinationState,
  destinationStateAfter,
  destinationStateAt,
} from "./destination-state.ts";
import {
  afterEmpty,
  afterRefusal,
  afterRelease,
  afterReport,
  waitsFor,
  withExpected,
} from "./drain-scheduler.ts";
import {
  type GateState,
  type HistoryKind,
  noTransformFaults,
  type Pause,
  withHistory,
  withoutExpired,
  withPause,
  withSettled,
} from "./gate-state.ts";
import { afterShareEnd, leftGroup } from "./group/member.ts";
import type { BlockEnd } from "./group/report.ts";
import { ended, type Lease } from "./lease.ts";
import type { GateSettings } from "./limits.ts";
import { recentTraffic, rollupsAfter, type TrafficSum, trafficSum } from "./rollups.ts";

export type SettleRequest = Readonly<{
  /** The lease's id. */
  lease: string;
  /** One for each attempt made, in the order of their ends. */
  signals: readonly AttemptSignal[];
  /** Deliveries of the lease that were not attempted and wait in D1 now. */
  left: number;
  /**
   * The rate's theoretical arrival time by what was really started (see rate-limit.ts), relative to this report and
   * negative when it has passed. Without it nothing was started or, where there are signals, everything on time.
   */
  tatInMs?: number;
  /** Whether this is a drain that will request another lease at once. */
  continues?: boolean;
  /** The failures count in the group's circuit, and so not in this one. */
  counted?: boolean;
  /** When the request was sent, by the worker's clock; absent from 0.3.0. */
  sentAt?: number;
}>;

/**
 * The end of a hold by the gate's clock. A worker's clock may be behind: what is left of the hold counts from the
 * arrival of its call, so that a hold ends later by the time that the call took, and never earlier than the receiver
 * requested.
 * @param until by the clock of the worker that sent it at `sentAt`
 */
export function holdByGate(until: number, sentAt: number | undefined, now: number): number {
  return sentAt === undefined ? until : now + until - sentAt;
}

type Settlement = Readonly<{
  state: GateState;
  /** Each is one line in the log. */
  events: readonly CircuitEvent[];
  /** To be published. */
  alerts: readonly Alert[];
  /** Whether to schedule the dead-letter digest. */
  digestDue: boolean;
  /** Why the destination is to be paused; repeated with every failure until it is. */
  disableReason?: DisableReason | undefined;
  /** Blocks that are over, to be reported to the group. */
  over?: Readonly<{ ends: readonly BlockEnd[]; succeeded: number }> | undefined;
}>;

/** The gate's answer to the holder of the lease. */
export type SettleResult = Omit<Settlement, "state"> &
  Readonly<{
    at: number;
    figures: Readonly<{
      /** When an open circuit admits a probe, and the openings in a row. */
      circuitUntil: number | null;
      trips: number;
      heldUntil: number | null;
      traffic: TrafficSum;
    }>;
  }>;

/** @param random in [0, 1): spreads the end of a cool-down */
export function settle(
  before: GateState,
  request: SettleRequest,
  settings: GateSettings,
  now: number,
  random: number,
): Settlement {
  const current = withoutExpired(before, settings, now);
  const { leases } = current;
  const lease = leases.find(({ id }) => id === request.lease);
  if (!lease) return { state: current, events: [], alerts: [], digestDue: false };
  const start = destinationStateAt(current.destinationState, now);
  const signals = request.signals.map((signal) => {
    const { holdUntil: until } = signal;
    const own =
      until === undefined ? signal : { ...signal, holdUntil: holdByGate(until, request.sentAt, now) };
    return request.counted ? asCounted(own) : own;
  });
  const destinationState = stateAfter(start, lease, signals, settings, now, random);
  const { holding, events } = circuitChange(before, destinationState, now);
  const state = {
    ...withHistory(current, historyKinds(start, destinationState), now, destinationState.heldUntil),
    destinationState,
    holding,
    leases: ended(leases, lease),
    crashLoop: request.signals.length > 0 ? afterSettledLease(current.crashLoop) : current.crashLoop,
    ...withSettled(current, lease.deliveries, now),
    // Sends that were not made are given back, unless another lease has reserved after them: its slots stay its own.
    tat: Math.max(current.tat, startedUpTo(request, lease.tat, now)),
  };
  const { membership, over } = membershipAfter(state, lease, request, now);
  const shared = { ...state, membership };
  const scheduled = { ...shared, drainSchedule: drainScheduleAfter(shared, request, now) };
  return { ...counted(scheduled, request.signals, now), events, over };
}

/** A failure that counts in the group's circuit is not one in this one, but narrows the window nevertheless. */
function asCounted(signal: AttemptSignal): AttemptSignal {
  return signal.health === "unhealthy" ? { ...signal, elsewhere: true } : signal;
}

function membershipAfter(
  { membership, leases }: GateState,
  lease: Lease,
  { signals }: SettleRequest,
  now: number,
) {
  if (!membership) return { membership };
  const succeeded = signals.filter(({ health }) => health === "healthy").length;
  const after = afterShareEnd(membership, lease, { started: signals.length, succeeded }, leases, now);
  const isOver = after.ends.length > 0;
  return {
    membership: after.membership,
    over: isOver ? { ends: after.ends, succeeded: after.succeeded } : undefined,
  };
}

/** Undefined when the caller has nothing to do, as nearly always. */
export function settleResultOf({ state, ...found }: Settlement, now: number): SettleResult | undefined {
  const { events, alerts, digestDue, disableReason, over } = found;
  if (events.length + alerts.length === 0 && !digestDue && disableReason === undefined && !over)
    return undefined;
  const { circuit, heldUntil } = destinationStateAt(state.destinationState, now);
  const figures = {
    circuitUntil: circuit.kind === "open" ? circuit.until : null,
    trips: circuit.trips,
    heldUntil: heldUntil > 0 ? heldUntil : null,
    traffic: trafficSum(recentTraffic(state.rollups, now)),
  };
  return { ...found, at: now, figures };
}

function stateAfter(
  start: DestinationState,
  lease: Lease,
  signals: readonly AttemptSignal[],
  settings: GateSettings,
  now: number,
  random: number,
): DestinationState {
  const afterOne = (state: DestinationState, signal: AttemptSignal) =>
    destinationStateAfter(state, signal, settings, random);
  const after = signals.reduce(afterOne, start);
  // Only the probe decides about a half-open circuit. Attempts that were under way before may cause a hold, no more.
  const decides = start.circuit.kind !== "half_open" || lease.probe;
  return quiet(decides ? after : { ...start, heldUntil: after.heldUntil }, now);
}

/** During a hold the successes of attempts that were under way do not widen the window again. */
function quiet(destinationState: DestinationState, now: number): DestinationState {
  return destinationState.heldUntil > now
    ? { ...destinationState, window: reopened(destinationState.window) }
    : destinationState;
}

/** The theoretical arrival time that a lease's real starts imply; 0 when it has started nothing. */
function startedUpTo({ signals, tatInMs }: SettleRequest, reservedTat: number, now: number): number {
  if (tatInMs !== undefined) return Math.max(0, now + tatInMs);
  return signals.length > 0 ? reservedTat : 0;
}

/** Counts the attempts, for figures, alerts, the dead-letter digest and the failure streak. */
function counted(
  state: GateState,
  signals: readonly AttemptSignal[],
  now: number,
): Omit<Settlement, "events"> {
  const metrics = signals.flatMap(({ metric }) => metric ?? []);
  const failureStreak = failureStreakAfter(state.failureStreak, metrics, now);
  const rollups = rollupsAfter(state.rollups, metrics, now);
  const traffic = recentTraffic(rollups, now);
  const { alertState, alerts } = alertsAfter(state.alertState, state.destinationState, traffic, now);
  const dead = metrics.filter(({ end }) => end === "dead").length;
  const { deadLetterDigest, isDue } = digestAfter(state.deadLetterDigest, dead, now);
  const disableReason = metrics.length > 0 ? disableReasonOf(failureStreak, now) : undefined;
  return {
    state: { ...state, failureStreak, alertState, deadLetterDigest, rollups },
    alerts,
    digestDue: isDue,
    disableReason,
  };
}

/** Counts deliveries that ended dead without an attempt. */
export function afterUnattemptedDead(
  state: GateState,
  deliveries: number,
  now: number,
): Readonly<{ state: GateState; isDue: boolean }> {
  const { deadLetterDigest, isDue } = digestAfter(state.deadLetterDigest, deliveries, now);
  const rollups = rollupsAfter(state.rollups, [], now, deliveries);
  return { state: { ...state, deadLetterDigest, rollups }, isDue };
}

/**
 * The number of deliveries that a version of a transformation may fail for. They wait, and a drain reads fifty
 * deliveries from either end of the backlog: with fewer of these its first step finds others.
 */
const TOLERATED_FAULTS = 40;

/** Counts further deliveries for which the transformation made no request. */
export function afterTransformFaults(
  state: GateState,
  version: number,
  deliveries: number,
): Readonly<{ state: GateState; isOver: boolean }> {
  const { transformFaults: known } = state;
  const count = (known.version === version ? known.count : 0) + deliveries;
  return { state: { ...state, transformFaults: { version, count } }, isOver: count > TOLERATED_FAULTS };
}

/** A drain that read D1 at `lookedAt` found nothing waiting. */
export function afterEmptyDrain(state: GateState, lookedAt: number, now: number): GateState {
  return { ...state, drainSchedule: afterEmpty(state.drainSchedule, lookedAt, now) };
}

type Held = Pick<Settlement, "state" | "events">;

/** The receiver requested a hold until then. Applied before the lease is settled, because it concerns all leases. */
export function afterHold(state: GateState, until: number, now: number): Held {
  if (until <= state.destinationState.heldUntil) return { state, events: [] };
  const start = destinationStateAt(state.destinationState, now);
  return withHold(state, { ...start, heldUntil: until }, "held", now);
}

/** The state with the beginning or the end of a hold, after which traffic restarts from one. */
function withHold(before: GateState, held: DestinationState, what: HistoryKind, now: number): Held {
  const destinationState = { ...held, window: reopened(held.window) };
  const { holding, events } = circuitChange(before, destinationState, now);
  return { state: withHistory({ ...before, destinationState, holding }, [what], now), events };
}

/** Deliveries wait in D1 that this gate may not know of: drains are due as soon as they may be admitted. */
export function scheduleDrain(state: GateState, now: number): GateState {
  return {
    ...state,
    drainSchedule: afterRelease({ ...state, drainSchedule: afterReport(state.drainSchedule, now) }, now),
  };
}

/**
 * The destination was moved to another group, or out of one: drains no longer wait for the former group's call, and its
 * answers that are under way count no more.
 */
export function afterGroupLeft(state: GateState, now: number): GateState {
  return scheduleDrain({ ...state, membership: leftGroup(now) }, now);
}

/**
 * An operator has the destination tried again: a pause was lifted, or its URL changed. Hold and cool-down end, the
 * failure streak is reset, and traffic restarts from one. An open circuit is half-open now, so that one probe decides;
 * a closed one forgets its failures.
 * @param pause the pause that was lifted, for the history; absent: its URL has changed, perhaps to another group's
 */
export function afterResume(state: GateState, now: number, pause?: Pause): GateState {
  const { circuit, window } = state.destinationState;
  const { membership } = state;
  const history = pause ? withPause(state.history, pause) : state.history;
  const restarted: Circuit =
    circuit.kind === "closed" ? closedCircuit(now) : { kind: "half_open", since: now, trips: 0 };
  const after = {
    ...{ ...state, history, holding: false, failureStreak: noFailures, transformFaults: noTransformFaults },
    destinationState: {
      ...state.destinationState,
      circuit: restarted,
      heldUntil: 0,
      window: reopened(window),
    },
    // The group gets its blocks back with the next request.
    membership: membership && (pause ? { ...membership, refusal: null } : leftGroup(now)),
    // Requests under way have the settings of the pause, and are refused yet: a drain that finds nothing now proves nothing.
    drainSchedule: afterRefusal(state.drainSchedule, null, now),
  };
  return scheduleDrain(withHistory(after, ["resumed"], now), now);
}

/**
 * An operator ended the receiver's hold: traffic restarts from one, and drains are due. The circuit stays as it is.
 * Without a hold nothing changes, so it is safe to repeat.
 */
export function afterHoldCleared(before: GateState, now: number): Held {
  const start = destinationStateAt(before.destinationState, now);
  if (start.heldUntil <= now) return { state: before, events: [] };
  const cleared = { ...start, heldUntil: 0 };
  const { state, events } = withHold({ ...before, destinationState: cleared }, cleared, "hold_cleared", now);
  return { state: scheduleDrain(state, now), events };
}

function drainScheduleAfter(
  state: GateState,
  { left, continues, signals }: SettleRequest,
  now: number,
): GateState["drainSchedule"] {
  const block = waitsFor(state, now);
  const known = continues ? withExpected(state.drainSchedule, 1, now) : state.drainSchedule;
  const drainSchedule = left > 0 ? afterRefusal(known, block?.until ?? now, now) : known;
  if (block) return drainSchedule;
  // After a lease that sent nothing the next drain comes only after a while, or both would be in vain.
  const idle = left > 0 && signals.length === 0;
  return idle ? drainSchedule : afterRelease({ ...state, drainSchedule }, now);
}

/** For the history. A prolonged hold is an event too, because it has another end. */
function historyKinds(before: DestinationState, after: DestinationState): HistoryKind[] {
  const kinds: HistoryKind[] = [];
  if (after.circuit.kind === "open" && before.circuit.kind !== "open") kinds.push("circuit_opened");
  if (after.circuit.kind === "closed" && before.circuit.kind === "half_open") kinds.push("circuit_closed");
  if (after.heldUntil > before.heldUntil) kinds.push("held");
  return kinds;
}
