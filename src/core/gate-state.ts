/** Everything a gate remembers: small, plain, and one stored value, so that one write keeps it whole. */

import { type AlertState, type DeadLetterDigest, emptyDigest, noAlerts } from "./alerts.ts";
import { type FailureStreak, noFailures } from "./auto-disable.ts";
import { type CircuitEvent, type DestinationState, newDestinationState } from "./destination-state.ts";
import { type Lane, type Lease, LOOK_UP_MS, live, tatOf } from "./lease.ts";
import type { PackedNumbers } from "./number-sets.ts";
import type { Rate } from "./rate-limit.ts";
import { newRollups, type Rollups } from "./rollups.ts";

/** Fresh deliveries and retries come from outside; the backlog is what the drain brings. */
export type Side = "live" | "backlog";

/** When a side last asked, was last served, and last wanted more than it got. */
export type Turn = Readonly<{ askedAt: number; servedAt: number; wantedAt: number }>;

export type DrainSchedule = Readonly<{
  /** When a delivery was last turned away; 0 when nothing waits. */
  waitingSince: number;
  /** When the alarm rings; null when it is not set. */
  at: number | null;
  /** Since when those on their way have been counted. */
  expectedSince: number;
  /** Drains on their way: sent for, or about to ask again. */
  expected: number;
}>;

/** What is remembered of the door, for the destination's owner. */
export type HistoryKind =
  | Exclude<CircuitEvent, "circuit_half_open" | "hold_ended">
  | "paused"
  | "resumed"
  | "hold_cleared";

/** Since when a destination was paused (epoch ms), and why. */
export type Pause = Readonly<{ at: number; reason: string }>;

export type HistoryEntry = Readonly<{
  /** Epoch ms; of what went on happening, the first time. */
  at: number;
  what: HistoryKind;
  /** How often, when more than once with nothing else between: a probe that failed opens the circuit again. */
  times?: number;
  /** Until when a hold lasts. */
  until?: number;
  /** Why it was paused. */
  reason?: string;
}>;

/** A lease that was settled. */
export type SettledLease = readonly [at: number, deliveries: PackedNumbers];

/** How much may be in flight under leases that are granted from memory and not stored (see write-behind.ts). */
export type Slack = Readonly<{
  slots: number;
  /** As much of the window. */
  width: number;
  /** Whoever has stored it may grant leases out of it until then, and no other. */
  grantsUntil: number;
  /** By then they have expired. */
  expiresAt: number;
  /** How far ahead of the clock they may take the rate's theoretical arrival time. */
  aheadMs: number;
}>;

/** Of finite numbers, texts and truths alone: it is stored as JSON. */
export type GateState = Readonly<{
  version: 1;
  destinationState: DestinationState;
  /** The rate's theoretical arrival time by the starts of leases that have ended; a live one has its own. */
  tat: number;
  leases: readonly Lease[];
  /** What was settled of late: whoever looked a delivery up before that knows too little of it. */
  settled: readonly SettledLease[];
  /** What was settled up to then is forgotten, though look-ups from before may be under way: they are not used. */
  forgottenAt: number;
  /** Leases ever granted: part of the next one's name. */
  granted: number;
  /** How often the object has begun without a memory: part of the names too, because what it granted last is unknown. */
  incarnation: number;
  slack: Slack | null;
  turns: Readonly<Record<Side, Turn>>;
  /** The destination's `max_concurrency` as last seen: how wide drains may be. */
  breadth: number;
  /** Its rate as last seen, as its owner has set it: more drains than that can feed are not sent for. */
  rate: Rate;
  drainSchedule: DrainSchedule;
  rollups: Rollups;
  failureStreak: FailureStreak;
  /** Whether a hold has begun and its end has not been noticed. */
  holding: boolean;
  alertState: AlertState;
  deadLetterDigest: DeadLetterDigest;
  /** When it was last sent a test event, epoch ms; 0: never. */
  testedAt: number;
  /** The last things that happened to the door, the newest last. */
  history: readonly HistoryEntry[];
}>;

const HISTORY = 20;
/**
 * Characters of what was settled: with four thousand deliveries a second they reach back about a second and a half,
 * several times as long as a look-up usually takes, and a state at its busiest stays below 64 KB.
 */
const SETTLED_LENGTH = 8_000;
/** Of a settled lease beside its deliveries, as JSON. */
const PAST_LENGTH = 20;

const NEVER: Turn = { askedAt: 0, servedAt: 0, wantedAt: 0 };

export function newGateState(now: number): GateState {
  return {
    version: 1,
    destinationState: newDestinationState(now),
    tat: 0,
    leases: [],
    settled: [],
    forgottenAt: 0,
    granted: 0,
    incarnation: 0,
    slack: null,
    turns: { live: NEVER, backlog: NEVER },
    breadth: 1,
    rate: { perSecond: 1_000_000, burst: 1_000_000 },
    drainSchedule: { waitingSince: 0, at: null, expectedSince: 0, expected: 0 },
    rollups: newRollups(now),
    failureStreak: noFailures,
    holding: false,
    alertState: noAlerts,
    deadLetterDigest: emptyDigest,
    testedAt: 0,
    history: [],
  };
}

export function sideOf(lane: Lane): Side {
  return lane === "backlog" ? "backlog" : "live";
}

/**
 * Remembers that these deliveries were settled now, for as long as a look-up may take, and within what a state may
 * carry through every call.
 */
export function withSettled(
  { settled, forgottenAt }: GateState,
  deliveries: PackedNumbers,
  now: number,
): Pick<GateState, "settled" | "forgottenAt"> {
  const all: SettledLease[] = [...settled.filter(([at]) => at > now - LOOK_UP_MS), [now, deliveries]];
  let length = 0;
  let from = all.length - 1;
  for (; from >= 0; from--) {
    length += PAST_LENGTH + (all[from]?.[1].length ?? 0);
    if (length > SETTLED_LENGTH) break;
  }
  const [lastForgotten = forgottenAt] = all[from] ?? [];
  return { settled: all.slice(from + 1), forgottenAt: Math.max(forgottenAt, lastForgotten) };
}

/** Without the leases that have expired: nobody knows what they sent, so all that they had reserved counts. */
export function withoutExpired(state: GateState, now: number): GateState {
  const leases = live(state.leases, now);
  if (leases === state.leases) return state;
  return {
    ...state,
    leases,
    tat: tatOf(
      state.leases.filter((lease) => !leases.includes(lease)),
      state.tat,
    ),
  };
}

/** @param heldUntil how long a hold among the events lasts */
export function withHistory(
  state: GateState,
  events: readonly HistoryKind[],
  at: number,
  heldUntil = state.destinationState.heldUntil,
): GateState {
  if (events.length === 0) return state;
  const happenings = events.map((what) => ({ at, what, ...(what === "held" && { until: heldUntil }) }));
  return { ...state, history: happenings.reduce(noted, state.history).slice(-HISTORY) };
}

/** The history with a pause in its place: what came in after it was on its way before. */
export function withPause(history: readonly HistoryEntry[], { at, reason }: Pause): readonly HistoryEntry[] {
  const after = history.findIndex((happening) => happening.at > at);
  return history.toSpliced(after === -1 ? history.length : after, 0, { at, what: "paused", reason });
}

/** What goes on is one entry, so that a long outage does not push out what led to it. */
function noted(history: readonly HistoryEntry[], next: HistoryEntry): readonly HistoryEntry[] {
  const last = history.at(-1);
  const goesOn = last?.what === next.what && next.at <= (last.until ?? next.at);
  if (!goesOn) return [...history, next];
  return [...history.slice(0, -1), { ...last, ...next, at: last.at, times: (last.times ?? 1) + 1 }];
}
