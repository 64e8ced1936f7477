/**
 * The gate's whole state. It is one stored value, because one write then keeps it consistent and costs one row; and
 * small, because a busy gate copies it with every call.
 */

import { type AlertState, type DeadLetterDigest, emptyDigest, noAlerts } from "./alerts.ts";
import { type FailureStreak, noFailures } from "./auto-disable.ts";
import { afterLostLease, type CrashLoop, noCrashLoop } from "./crash-loop.ts";
import {
  type AttemptSignal,
  type CircuitEvent,
  type DestinationState,
  destinationStateAfter,
  newDestinationState,
} from "./destination-state.ts";
import type { Membership } from "./group/member.ts";
import { type Lane, type Lease, LOOK_UP_MS, liveLeases, provesDeath, tatOf } from "./lease.ts";
import type { GateSettings } from "./limits.ts";
import type { PackedNumbers } from "./number-sets.ts";
import type { Rate } from "./rate-limit.ts";
import type { PauseReason } from "./reasons.ts";
import { newRollups, type Rollups, rollupsAfter } from "./rollups.ts";

/** Live: first attempts and retries, from the deliveries' queue. Backlog: what waited in D1, from drains. */
export type Side = "live" | "backlog";

/** When a side last requested, was last granted a lease, and was last refused. */
type Turn = Readonly<{ askedAt: number; servedAt: number; wantedAt: number }>;

/** When drains are due: see drain-scheduler.ts. */
export type DrainSchedule = Readonly<{
  /** When a delivery was last refused; 0 when nothing waits. */
  waitingSince: number;
  /** When drains are due; null when none are scheduled. */
  at: number | null;
  /** Since when the expected drains are counted. */
  expectedSince: number;
  /** Drains that will ask for a lease: enqueued, or between two leases. */
  expected: number;
}>;

/** The events of a destination's history, which its owner is shown. */
export type HistoryKind =
  | Exclude<CircuitEvent, "circuit_half_open" | "hold_ended">
  | "paused"
  | "resumed"
  | "hold_cleared";

/** Since when a destination was paused (epoch ms), and why. */
export type Pause = Readonly<{ at: number; reason: PauseReason }>;

export type HistoryEntry = Readonly<{
  /** Epoch ms; of repeated events, the first time. */
  at: number;
  what: HistoryKind;
  /** How often, if more than once with nothing else between: each failed probe opens the circuit again. */
  times?: number;
  /** The end of a hold. */
  until?: number;
  reason?: PauseReason;
}>;

type SettledLease = readonly [at: number, deliveries: PackedNumbers];

/** How much may be in flight under leases that are granted without a write (see write-behind.ts). */
export type Slack = Readonly<{
  slots: number;
  /** Width of the concurrency window. */
  width: number;
  /** The incarnation that stored it, and no other, may grant leases out of it until then. */
  grantsUntil: number;
  /** By then these leases have expired. */
  expiresAt: number;
  /** How far ahead of the clock they may move the rate's theoretical arrival time. */
  aheadMs: number;
}>;

/** Finite numbers, strings and booleans only, because it is stored as JSON. */
export type GateState = Readonly<{
  version: 1;
  destinationState: DestinationState;
  /** The rate's theoretical arrival time by the starts of leases that have ended; a live lease has its own. */
  tat: number;
  leases: readonly Lease[];
  /** Expired leases of former incarnations, presumed to have ended: see lone-lease.ts. */
  presumed: readonly Pick<Lease, "deliveries" | "expiresAt">[];
  /** Recently settled deliveries: a caller that read one from D1 before has an outdated state of it. */
  settled: readonly SettledLease[];
  /** Leases settled up to then are forgotten, so data read from D1 before then must not be used. */
  forgottenAt: number;
  /** Leases ever granted: part of the next one's id. */
  granted: number;
  /** How often the object began without memory: part of the ids too, because its last grants may not be stored. */
  incarnation: number;
  slack: Slack | null;
  /** Recent leases that expired unsettled. */
  crashLoop: CrashLoop;
  turns: Readonly<Record<Side, Turn>>;
  /** The destination's `max_concurrency` as last seen: it bounds how many drains are enqueued. */
  maxConcurrency: number;
  /** Its owner's rate as last seen, which bounds the number of drains too. */
  rate: Rate;
  drainSchedule: DrainSchedule;
  rollups: Rollups;
  failureStreak: FailureStreak;
  /** Deliveries that a version of the destination's transformation made no request of, since the last resumption. */
  transformFaults: Readonly<{ version: number; count: number }>;
  /** Whether the beginning of a hold has been logged, and its end has not. */
  holding: boolean;
  alertState: AlertState;
  deadLetterDigest: DeadLetterDigest;
  /** When it was last sent a test event, epoch ms; 0: never. */
  testedAt: number;
  /** The last events, the newest last. */
  history: readonly HistoryEntry[];
  /** This incarnation's knowledge of the destination's group; null while it is in none. */
  membership: Membership | null;
}>;

const HISTORY = 20;
/** The message of an invocation that has died usually comes as soon as its lease has expired, so a few are enough. */
const PRESUMED = 10;
/**
 * Characters of `settled`. At four thousand deliveries a second they reach back about a second and a half, several
 * times as long as a read of D1 usually takes, and the busiest state stays below 64 KB.
 */
const SETTLED_LENGTH = 8_000;
/** Characters of a settled lease in JSON beside its deliveries. */
const ENTRY_LENGTH = 20;

const NEVER: Turn = { askedAt: 0, servedAt: 0, wantedAt: 0 };

export const noTransformFaults = { version: 0, count: 0 } as const;

export function newGateState(now: number): GateState {
  return {
    version: 1,
    destinationState: newDestinationState(now),
    tat: 0,
    leases: [],
    presumed: [],
    settled: [],
    forgottenAt: 0,
    granted: 0,
    incarnation: 0,
    slack: null,
    crashLoop: noCrashLoop,
    turns: { live: NEVER, backlog: NEVER },
    maxConcurrency: 1,
    rate: { perSecond: 1_000_000, burst: 1_000_000 },
    drainSchedule: { waitingSince: 0, at: null, expectedSince: 0, expected: 0 },
    rollups: newRollups(now),
    failureStreak: noFailures,
    transformFaults: noTransformFaults,
    holding: false,
    alertState: noAlerts,
    deadLetterDigest: emptyDigest,
    testedAt: 0,
    history: [],
    membership: null,
  };
}

export function sideOf(lane: Lane): Side {
  return lane === "backlog" ? "backlog" : "live";
}

/** Adds deliveries that were settled now. Keeps no more than a read of D1 may need, or than the state may hold. */
export function withSettled(
  { settled, forgottenAt }: GateState,
  deliveries: PackedNumbers,
  now: number,
): Pick<GateState, "settled" | "forgottenAt"> {
  const all: SettledLease[] = [...settled.filter(([at]) => at > now - LOOK_UP_MS), [now, deliveries]];
  let length = 0;
  let from = all.length - 1;
  for (; from >= 0; from--) {
    length += ENTRY_LENGTH + (all[from]?.[1].length ?? 0);
    if (length > SETTLED_LENGTH) break;
  }
  const [lastForgotten = forgottenAt] = all[from] ?? [];
  return { settled: all.slice(from + 1), forgottenAt: Math.max(forgottenAt, lastForgotten) };
}

/**
 * Without expired leases. Their attempts are unknown, so their whole reservation of the rate counts. The records of
 * their holders before the end are unknown too: a caller that read such a delivery before has to reread it.
 */
export function withoutExpired(before: GateState, settings: GateSettings, now: number): GateState {
  const leases = liveLeases(before.leases, now);
  if (leases === before.leases) return before;
  const expired = before.leases.filter((lease) => !leases.includes(lease));
  const isPresumed = (lease: Lease) => lease.inherited === true && !provesDeath(lease, before.leases);
  const isLost = expired.some((lease) => lease.lost !== true && !isPresumed(lease));
  const state = expired
    .filter(isPresumed)
    .reduce((next, lease) => withPresumedEnd(next, lease, settings, now), before);
  return {
    ...state,
    leases,
    settled: withEnds(state.settled, expired),
    tat: tatOf(expired, state.tat),
    crashLoop: isLost ? afterLostLease(state.crashLoop, now) : state.crashLoop,
  };
}

/** A former incarnation may have left this lease's end unwritten. A lone one counts as a success. */
function withPresumedEnd(
  before: GateState,
  { deliveries, expiresAt, lone: at }: Lease,
  settings: GateSettings,
  now: number,
): GateState {
  const state = {
    ...before,
    presumed: [...before.presumed, { deliveries, expiresAt }].slice(-PRESUMED),
  };
  if (at === undefined) return state;
  const { destinationState, rollups } = state;
  const { circuit, tookMs } = destinationState;
  const metric = { attempt: 1, result: "2xx", end: "delivered", tookMs, lateMs: 0 } as const;
  // A former success proves nothing about present trouble.
  const isWell =
    circuit.kind === "closed" &&
    circuit.streak === 0 &&
    circuit.slices.every(({ failures }) => failures === 0) &&
    destinationState.heldUntil <= now;
  const signal: AttemptSignal = { at, health: "healthy", backsOff: false };
  return {
    ...state,
    rollups: rollupsAfter(rollups, [metric], at),
    destinationState: isWell
      ? destinationStateAfter(destinationState, signal, settings, 0)
      : destinationState,
  };
}

/** In the order of their times. */
function withEnds(settled: GateState["settled"], expired: readonly Lease[]): GateState["settled"] {
  const ends = expired
    .filter(({ deliveries }) => deliveries !== "")
    .map(({ expiresAt, deliveries }): SettledLease => [expiresAt, deliveries]);
  return ends.length === 0 ? settled : [...settled, ...ends].toSorted(([a], [b]) => a - b);
}

/** @param heldUntil the end of a hold among the events */
export function withHistory(
  state: GateState,
  events: readonly HistoryKind[],
  at: number,
  heldUntil = state.destinationState.heldUntil,
): GateState {
  if (events.length === 0) return state;
  const entries = events.map((what) => ({ at, what, ...(what === "held" && { until: heldUntil }) }));
  return { ...state, history: entries.reduce(withEntry, state.history).slice(-HISTORY) };
}

/** The history with a pause where it belongs: events after it come from attempts that were under way. */
export function withPause(history: readonly HistoryEntry[], { at, reason }: Pause): readonly HistoryEntry[] {
  const after = history.findIndex((entry) => entry.at > at);
  return history.toSpliced(after === -1 ? history.length : after, 0, { at, what: "paused", reason });
}

/** Repeated events are one entry, so that a long outage does not push out the events that led to it. */
function withEntry(history: readonly HistoryEntry[], next: HistoryEntry): readonly HistoryEntry[] {
  const last = history.at(-1);
  const repeats = last?.what === next.what && next.at <= (last.until ?? next.at);
  if (!repeats) return [...history, next];
  return [...history.slice(0, -1), { ...last, ...next, at: last.at, times: (last.times ?? 1) + 1 }];
}
