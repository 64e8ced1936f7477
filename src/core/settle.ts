/**
 * The gate's second decision: what a lease's outcomes mean for its destination. The lease ends, the
 * outcomes move the condition in the order in which they happened, sends that were not made are given
 * back to the rate, and whoever waits may be sent for.
 *
 * Settling twice, or settling a lease that has expired, changes nothing.
 */

import { type Alert, alertsAfter, digestAfter } from "./alerts.ts";
import { type DisableReason, disableReasonOf, failureStreakAfter, noFailures } from "./auto-disable.ts";
import { type Circuit, closedCircuit } from "./circuit-breaker.ts";
import { reopened } from "./concurrency-window.ts";
import {
  type AttemptSignal,
  blockedBy,
  type CircuitEvent,
  circuitChange,
  type DestinationState,
  destinationStateAfter,
  destinationStateAt,
} from "./destination-state.ts";
import { afterEmpty, afterRefusal, afterRelease, afterReport, withExpected } from "./drain-scheduler.ts";
import {
  type GateState,
  type HistoryKind,
  type Pause,
  withHistory,
  withoutExpired,
  withPause,
  withSettled,
} from "./gate-state.ts";
import { ended } from "./lease.ts";
import type { GateSettings } from "./limits.ts";
import { recentTraffic, rollupsAfter, type TrafficSum, trafficSum } from "./rollups.ts";

export type SettleRequest = Readonly<{
  /** The lease's id. */
  lease: string;
  /** One sign per attempt made, in the order of their ends. */
  signals: readonly AttemptSignal[];
  /** Deliveries of the lease that were not attempted and wait in D1 now. */
  left: number;
  /**
   * How long after this report the rate's theoretical arrival time is, by what was really started (see rate-limit.ts);
   * negative when it has passed. Without it nothing was started, or, where there are signs, all of it on time.
   */
  tatInMs?: number;
  /** Whether a drain settles that will ask again at once. */
  continues?: boolean;
}>;

type Settled = Readonly<{
  state: GateState;
  /** What happened to the door. */
  events: readonly CircuitEvent[];
  /** What the operator is to be told of. */
  alerts: readonly Alert[];
  /** Whether somebody is to come in a while and ask for the dead. */
  digestDue: boolean;
  /** What the destination is sick of; said again with every failure until it is paused. */
  disableReason?: DisableReason | undefined;
}>;

const NO_NEWS = { events: [], alerts: [], digestDue: false } as const;

/** @param random in [0, 1): spreads the end of a cool-down */
export function settle(
  before: GateState,
  settlement: SettleRequest,
  settings: GateSettings,
  now: number,
  random: number,
): Settled {
  const current = withoutExpired(before, now);
  const { leases } = current;
  const lease = leases.find(({ id }) => id === settlement.lease);
  if (!lease) return { state: current, ...NO_NEWS };
  const start = destinationStateAt(before.destinationState, now);
  const heard = settlement.signals.reduce(
    (c, signal) => destinationStateAfter(c, signal, settings, random),
    start,
  );
  // Only the probe judges a half-open circuit. What others still had under way may ask for quiet, no more.
  const judged = start.circuit.kind !== "half_open" || lease.probe;
  const destinationState = quiet(judged ? heard : { ...start, heldUntil: heard.heldUntil }, now);
  const { holding, events } = circuitChange(before, destinationState, now);
  const state = {
    ...withHistory(current, rememberedOf(start, destinationState), now, destinationState.heldUntil),
    destinationState,
    holding,
    leases: ended(leases, lease),
    ...withSettled(current, lease.deliveries, now),
    // What it did not send is given back, unless another lease has reserved after it: that one's slots stay its own.
    tat: Math.max(current.tat, startedUpTo(settlement, lease.tat, now)),
  };
  return {
    ...watched({ ...state, drainSchedule: bellAfter(state, settlement, now) }, settlement.signals, now),
    events,
  };
}

/** The theoretical arrival time that a lease's real starts imply; 0 when it has started nothing. */
function startedUpTo({ signals, tatInMs }: SettleRequest, reservedTat: number, now: number): number {
  if (tatInMs !== undefined) return Math.max(0, now + tatInMs);
  return signals.length > 0 ? reservedTat : 0;
}

/** What the attempts are counted for, and what becomes apparent by it. */
function watched(state: GateState, signals: readonly AttemptSignal[], now: number): Omit<Settled, "events"> {
  const metrics = signals.flatMap(({ metric }) => metric ?? []);
  const failureStreak = failureStreakAfter(state.failureStreak, metrics, now);
  const rollups = rollupsAfter(state.rollups, metrics, now);
  const { alertState, alerts } = alertsAfter(
    state.alertState,
    state.destinationState,
    recentTraffic(rollups, now),
    now,
  );
  const { deadLetterDigest, isDue } = digestAfter(
    state.deadLetterDigest,
    metrics.filter(({ end }) => end === "dead").length,
    now,
  );
  const disableReason = metrics.length > 0 ? disableReasonOf(failureStreak, now) : undefined;
  return {
    state: { ...state, failureStreak, alertState, deadLetterDigest, rollups },
    alerts,
    digestDue: isDue,
    disableReason,
  };
}

/** Deliveries have ended dead without an attempt: they are counted. */
export function afterUnattemptedDead(
  state: GateState,
  deliveries: number,
  now: number,
): Readonly<{ state: GateState; digestDue: boolean }> {
  const { deadLetterDigest, isDue } = digestAfter(state.deadLetterDigest, deliveries, now);
  return {
    state: { ...state, deadLetterDigest, rollups: rollupsAfter(state.rollups, [], now, deliveries) },
    digestDue: isDue,
  };
}

/** A drain that looked at `lookedAt` found nothing waiting. */
export function afterEmptyDrain(state: GateState, lookedAt: number, now: number): GateState {
  return { ...state, drainSchedule: afterEmpty(state.drainSchedule, lookedAt, now) };
}

/** The receiver has asked for quiet until then: said at once, because it holds for every lease there is. */
export function afterHold(
  state: GateState,
  until: number,
  now: number,
): Readonly<{ state: GateState; events: readonly CircuitEvent[] }> {
  if (until <= state.destinationState.heldUntil) return { state, events: [] };
  const start = destinationStateAt(state.destinationState, now);
  const destinationState = { ...start, heldUntil: until, window: reopened(start.window) };
  const { holding, events } = circuitChange(state, destinationState, now);
  const after = { ...state, destinationState, holding };
  return { state: withHistory(after, ["held"], now), events };
}

/** Something waits that this gate may not know of: ring as soon as the door allows. */
export function scheduleDrain(state: GateState, now: number): GateState {
  return {
    ...state,
    drainSchedule: afterRelease({ ...state, drainSchedule: afterReport(state.drainSchedule, now) }, now),
  };
}

/**
 * A person has said "try again": a pause was lifted, or the destination has another URL. It starts afresh: no hold
 * and no cool-down is waited for, what it was paused for is forgotten, and traffic begins with one. A circuit that
 * was open is half-open now, so that one probe decides; one that was closed has forgotten its failures.
 * @param pause what was lifted, to be remembered
 */
export function afterResume(state: GateState, now: number, pause?: Pause): GateState {
  const { circuit, window } = state.destinationState;
  const history = pause ? withPause(state.history, pause) : state.history;
  const afresh: Circuit =
    circuit.kind === "closed" ? closedCircuit(now) : { kind: "half_open", since: now, trips: 0 };
  const destinationState = {
    ...state.destinationState,
    circuit: afresh,
    heldUntil: 0,
    window: reopened(window),
  };
  const after = { ...state, destinationState, history, holding: false, failureStreak: noFailures };
  return scheduleDrain(withHistory(after, ["resumed"], now), now);
}

/**
 * A person has ended the receiver's hold: traffic begins with one, and what waits is rung for. The circuit stays
 * as it is. Without a hold nothing changes, so that it is safe to repeat.
 */
export function afterHoldCleared(
  before: GateState,
  now: number,
): Readonly<{ state: GateState; events: readonly CircuitEvent[] }> {
  const start = destinationStateAt(before.destinationState, now);
  if (start.heldUntil <= now) return { state: before, events: [] };
  const destinationState = { ...start, heldUntil: 0, window: reopened(start.window) };
  const { holding, events } = circuitChange({ ...before, destinationState }, destinationState, now);
  const after = withHistory({ ...before, destinationState, holding }, ["hold_cleared"], now);
  return { state: scheduleDrain(after, now), events };
}

/** While the receiver wants quiet, what others still bring home does not widen the window again. */
function quiet(destinationState: DestinationState, now: number): DestinationState {
  return destinationState.heldUntil > now
    ? { ...destinationState, window: reopened(destinationState.window) }
    : destinationState;
}

function bellAfter(
  state: GateState,
  { left, continues, signals }: SettleRequest,
  now: number,
): GateState["drainSchedule"] {
  const shut = blockedBy(state.destinationState, { paused: false }, now);
  const known = continues ? withExpected(state.drainSchedule, 1, now) : state.drainSchedule;
  const drainSchedule = left > 0 ? afterRefusal(known, shut?.until ?? now, now) : known;
  if (shut) return drainSchedule;
  // A lease that has sent nothing is followed by another only after a while, or nothing would come of both at once.
  const idle = left > 0 && signals.length === 0;
  return idle ? drainSchedule : afterRelease({ ...state, drainSchedule }, now);
}

/** What people are shown: a hold that is prolonged too, because then it lasts until another time. */
function rememberedOf(before: DestinationState, after: DestinationState): HistoryKind[] {
  const events: HistoryKind[] = [];
  if (after.circuit.kind === "open" && before.circuit.kind !== "open") events.push("circuit_opened");
  if (after.circuit.kind === "closed" && before.circuit.kind === "half_open") events.push("circuit_closed");
  if (after.heldUntil > before.heldUntil) events.push("held");
  return events;
}

// §§ What a settlement has brought to light, with the figures that tell of it.

export type SettleResult = Readonly<{
  /** Each is one line in the log. */
  events: readonly CircuitEvent[];
  alerts: readonly Alert[];
  digestDue: boolean;
  disableReason?: DisableReason | undefined;
  at: number;
  figures: Readonly<{
    /** When an open circuit lets a probe in, and the openings in a row. */
    circuitUntil: number | null;
    trips: number;
    heldUntil: number | null;
    traffic: TrafficSum;
  }>;
}>;

/** Undefined when there is nothing to tell, as nearly always. */
export function settleResultOf({ state, ...found }: Settled, now: number): SettleResult | undefined {
  const { events, alerts, digestDue, disableReason } = found;
  if (events.length + alerts.length === 0 && !digestDue && disableReason === undefined) return undefined;
  const { circuit, heldUntil } = destinationStateAt(state.destinationState, now);
  const figures = {
    circuitUntil: circuit.kind === "open" ? circuit.until : null,
    trips: circuit.trips,
    heldUntil: heldUntil > 0 ? heldUntil : null,
    traffic: trafficSum(recentTraffic(state.rollups, now)),
  };
  return { ...found, at: now, figures };
}
