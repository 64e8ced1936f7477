/**
 * The state of the gate's model: one destination, its gate's object with storage, alarm and instances, what D1 and the
 * queues have of a few deliveries, and the invocations at work on them.
 */
import type { AdmitResult } from "../../src/core/admit.ts";
import type { GateState } from "../../src/core/gate-state.ts";
import type { Grant, Lane } from "../../src/core/lease.ts";
import type { GateSettings } from "../../src/core/limits.ts";
import type { GateMemory } from "../../src/core/write-behind.ts";

/** The clock moves by so much: as long as an attempt may take, and the margins of a lease. */
export const TICK_MS = 5_000;
export const TIMEOUT_MS = 5_000;
export const STARTS_MS = 5_000;
/** A call of the gate that takes longer has failed. */
export const CALL_MS = 10_000;
/** How long a hold is that a receiver requests. */
export const HOLD_MS = 2 * TICK_MS;
export const BEGINNING = 1_000_000;

export type Scenario = Readonly<{
  /** The deliveries of each message. */
  messages: readonly (readonly number[])[];
  /** Deliveries that wait from the beginning; the gate knows of them. */
  waiting?: number;
  /** The most deliveries that a drain leases at once; then it continues with another lease. Absent: all at once. */
  portion?: number;
  maxConcurrency: number;
  /** The most faults: deaths, evictions, take-overs, lost calls, messages that come twice. */
  faults: number;
  /** Attempts that fail at most; the first opens the circuit. */
  failures: number;
  /** How often the clock moves although a process could act: calls, messages and alarms that are late. */
  delays: number;
  /** The most answers that request a hold. */
  holds?: number;
  /** How often an operator pauses the destination, and ends a hold. */
  pauses?: number;
  clears?: number;
  /** How far the clock goes. */
  ticks: number;
  /** Where the gate is quiet: how many attempts the destination is trusted with, and in which tick each message comes. */
  quiet?: Readonly<{ window: number; arrivals: readonly number[] }>;
}>;

/** The history by which a quiet world judges its gate. */
export type Quiet = Readonly<{
  /** Attempts that the destination was trusted with at first. */
  window: number;
  /** Whether any lease was granted that will not be settled. */
  hasLost: boolean;
  /** Whether the gate's memory was lost with successes, or leases out of the slack, that were not written. */
  hasForgotten: boolean;
  /** Whether slack was stored that did not have to leave the next incarnation a slot: that of dense traffic. */
  hasDense: boolean;
  /** Deliveries whose invocations died with a lease. */
  died: readonly number[];
  /** For each recorded success, when its lease expires by itself. */
  successes: readonly number[];
}>;

export const settingsOf = ({ maxConcurrency }: Scenario): GateSettings => ({
  paused: false,
  maxConcurrency,
  ratePerSecond: 10_000,
  rateBurst: 10_000,
  timeoutMs: TIMEOUT_MS,
  breaker: {
    failureRatio: 0.5,
    minAttempts: 1,
    windowMs: 60_000,
    cooldownMs: 2 * TICK_MS,
    maxCooldownMs: 2 * TICK_MS,
  },
});

/** One life of the gate's object in memory. */
export type Instance = Readonly<{
  name: string;
  memory: GateMemory;
  /** The leases that it has granted, or found stored when it began. */
  knows: readonly string[];
  /** For an instance that was cut off: the end of the hold that it knew of, and when it was cut off. */
  heldUntil: number;
  cutOffAt?: number;
}>;

/** A delivery in D1. */
export type Stored = Readonly<{
  state: "queued" | "waiting" | "retrying" | "ended";
  /** The time of a retry. */
  at: number;
  attempts: number;
  /** By which lease its end was recorded, and whether that was before the lease ended by itself. */
  end?: Readonly<{ lease: string; isInTime: boolean; isSettled?: true }>;
}>;

/** A delivery of a lease in the hands of an invocation. */
export type Item = Readonly<{
  delivery: number;
  state: "unsent" | "sending" | "succeeded" | "failed";
  startedAt: number;
  /** Its answer has requested a hold until then. */
  holdUntil?: number;
}>;

/**
 * `loaded`, `answered`, `loading` and `attempted` are left at once, unless something is slow: then only when the clock has moved.
 */
export type Phase = "loaded" | "asking" | "answered" | "loading" | "ready" | "attempted" | "recorded";

/** An invocation: a consumer with one message, or a drain. */
export type Run = Readonly<{
  lane: Lane;
  phase: Phase;
  /** It was slow: the next step comes no earlier. */
  slowUntil: number;
  /** The deliveries that the message names, or that a drain has found waiting. */
  deliveries: readonly number[];
  /** When it read them from D1; a drain reads them after the grant. */
  readAt: number;
  /** Whether the destination was paused then. */
  paused: boolean;
  /** For leases that succeed one another in one drain: the first of them, and the one before. */
  chain?: string;
  succeeds?: string;
  /** A lease that succeeds this one has been requested. */
  isFollowed?: true;
  askedAt: number;
  grant?: Readonly<{
    grant: Grant;
    /** The leases that the instance knew of. */
    knows: readonly string[];
    /** When the lease ends by itself, by the gate's clock. */
    expiresAt: number;
    /** The deliveries whose ends were settled before, with the instance that could write. */
    over: readonly number[];
    /** Until when the hold lasts in which it was granted; 0: in none. */
    heldUntil: number;
  }>;
  /** Connections in use at most, by the newest lease of the drain. */
  slots: number;
  /** One of its own answers has requested a hold until then: it starts nothing more. */
  heldUntil: number;
  settled: NonNullable<AdmitResult["settled"]>;
  /** The gate has told it to read again what was granted. */
  readsAgain?: true;
  refused: readonly number[];
  /** When the message is to come again for what others hold. */
  againAt?: number | undefined;
  grantedAt: number;
  readyAt: number;
  items: readonly Item[];
}>;

/** The gate's object in a world. */
export type ObjectWorld = Readonly<{
  now: number;
  storage: GateState | undefined;
  alarmAt: number | null;
  current: Instance | undefined;
  /** An instance that was cut off from its storage, and still answers. */
  former: Instance | undefined;
  /** Instances so far. */
  lives: number;
  /** Messages of the drains' queue. */
  drains: number;
  /** The end of the hold that the gate knows; 0: none. */
  heldUntil: number;
}>;

export type World = ObjectWorld &
  Readonly<{
    faults: number;
    failures: number;
    delays: number;
    holds: number;
    pauses: number;
    clears: number;
    /** The clock stops here. */
    endsAt: number;
    isCalm: boolean;
    deliveries: readonly Stored[];
    /** Messages of the deliveries' queue, and when they come. */
    messages: readonly Readonly<{ deliveries: readonly number[]; at: number }>[];
    runs: readonly Run[];
    /** The destination in D1. */
    paused: boolean;
    /** The pause was lifted in D1, and the gate does not know it yet. */
    isResuming: boolean;
    /** A request that was older than the end of a pause was refused as paused: only the sweep finds what it named. */
    isOutdated?: boolean;
    /** Holds that are not reported to the gate yet. */
    tells: readonly number[];
    /** Requests of dead invocations, which their receiver may process until then. */
    orphans: readonly number[];
    quiet?: Quiet;
    wrong?: string;
  }>;

export function inFlight({ runs, orphans, now }: World): number {
  const sending = runs.flatMap(({ items }) => items.filter(({ state }) => state === "sending"));
  return sending.length + orphans.filter((until) => until > now).length;
}

/** The gate's instance that may write, or the one that was cut off. */
export type Which = "current" | "former";

export function withRun(world: World, i: number, change: Partial<Run>): World {
  return { ...world, runs: world.runs.map((run, k) => (k === i ? { ...run, ...change } : run)) };
}

export function withoutRun(world: World, i: number): World {
  return { ...world, runs: world.runs.toSpliced(i, 1) };
}

/** The leases of the same invocation, in the order in which they succeed one another. */
export function chainOf({ runs }: World, run: Run): readonly Run[] {
  return run.chain === undefined ? [run] : runs.filter(({ chain }) => chain === run.chain);
}
