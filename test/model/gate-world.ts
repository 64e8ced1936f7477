/**
 * The state of the gate's model: one destination, its gate's object with storage, alarm and instances, what D1 and the
 * queues have of a few deliveries, and the invocations at work on them.
 */
import type { AdmitResult } from "../../src/core/admit.ts";
import type { GateState } from "../../src/core/gate-state.ts";
import type { Grant, Lane } from "../../src/core/lease.ts";
import type { GateSettings } from "../../src/core/limits.ts";
import type { Memory } from "../../src/core/write-behind.ts";

/** The clock moves by so much: as long as an attempt may take, and the margins of a lease. */
export const TICK_MS = 5_000;
export const TIMEOUT_MS = 5_000;
export const STARTS_MS = 5_000;
/** A call of the gate that takes longer has failed. */
export const CALL_MS = 10_000;
export const BEGINNING = 1_000_000;

export type Scenario = Readonly<{
  /** The deliveries of each message. */
  messages: readonly (readonly number[])[];
  /** Deliveries that wait from the beginning; a drain has been enqueued for them. */
  waiting?: number;
  maxConcurrency: number;
  /** What goes wrong at most: deaths, evictions, take-overs, lost calls, messages that come twice. */
  faults: number;
  /** Attempts that fail at most; the first opens the circuit. */
  failures: number;
  /** How often the clock moves although somebody has something to do: calls, messages and alarms that are late. */
  delays: number;
  /** How far the clock goes. */
  ticks: number;
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
  memory: Memory;
  /** The leases that it has granted, or found stored when it began. */
  knows: readonly string[];
}>;

/** What D1 has of a delivery. */
export type Stored = Readonly<{
  state: "queued" | "waiting" | "retrying" | "ended";
  /** Of a retry. */
  at: number;
  attempts: number;
  /** By which lease its end was recorded, and whether that was before the lease ended by itself. */
  end?: Readonly<{ lease: string; isInTime: boolean }>;
}>;

/** A delivery of a lease in the hands of an invocation. */
export type Item = Readonly<{
  delivery: number;
  state: "unsent" | "sending" | "succeeded" | "failed";
  startedAt: number;
}>;

/**
 * `loaded`, `answered`, `loading` and `attempted` are left at once, unless something is slow: then only when the clock has moved.
 */
export type Phase = "loaded" | "asking" | "answered" | "loading" | "ready" | "attempted" | "recorded";

/** An invocation: a consumer with one message, or a drain. */
export type Run = Readonly<{
  lane: Lane;
  phase: Phase;
  /** It was slow: what comes next comes no earlier. */
  slowUntil: number;
  /** What the message names, or what a drain has found waiting. */
  deliveries: readonly number[];
  /** When it read them from D1; a drain reads them after the grant. */
  readAt: number;
  askedAt: number;
  grant?: Readonly<{
    grant: Grant;
    /** The leases that the instance knew of. */
    knows: readonly string[];
    /** When the lease ends by itself, by the gate's clock. */
    expiresAt: number;
  }>;
  settled: NonNullable<AdmitResult["settled"]>;
  refused: readonly number[];
  /** When the message is to come again for what others hold. */
  againAt?: number | undefined;
  grantedAt: number;
  readyAt: number;
  items: readonly Item[];
}>;

export type World = Readonly<{
  now: number;
  faults: number;
  failures: number;
  delays: number;
  /** The clock stops here. */
  endsAt: number;
  isCalm: boolean;
  storage: GateState | undefined;
  alarmAt: number | null;
  current: Instance | undefined;
  /** An instance that was cut off from its storage, and still answers. */
  former: Instance | undefined;
  /** Instances so far. */
  lives: number;
  deliveries: readonly Stored[];
  /** Messages of the deliveries' queue, and when they come. */
  messages: readonly Readonly<{ deliveries: readonly number[]; at: number }>[];
  /** Messages of the drains' queue. */
  drains: number;
  runs: readonly Run[];
  /** Requests of dead invocations, which their receiver may still be working on until then. */
  orphans: readonly number[];
  wrong?: string;
}>;

export function inFlight({ runs, orphans, now }: World): number {
  const sending = runs.flatMap(({ items }) => items.filter(({ state }) => state === "sending"));
  return sending.length + orphans.filter((until) => until > now).length;
}

/**
 * What decides about a world's future. Left out: counters and history of the gate, which decide nothing here; the rate's
 * reservations, because no rate limits anything here; and the names of leases, which stand for themselves.
 */
export function keyOf(world: World): string {
  const { current, former, storage, runs, messages, orphans, deliveries, now, ...rest } = world;
  const { faults, failures, delays, isCalm, alarmAt, drains, wrong } = rest;
  const parts = [
    [now, faults, failures, delays, isCalm, alarmAt, drains, wrong].join(),
    storage && keyOfGate(storage),
    current && keyOfInstance(current),
    former && keyOfInstance(former),
    deliveries.map(keyOfPart).join(),
    runs.map(keyOfPart).sort().join(),
    messages.map(keyOfPart).sort().join(),
    orphans
      .filter((until) => until > now)
      .sort()
      .join(),
  ];
  const names = new Map<string, string>();
  return parts.join("|").replaceAll(/"(?:lost-\d+|[0-9a-z]+-[0-9a-z]+-\d+)"/g, (name) => {
    const short = names.get(name) ?? `"${names.size}"`;
    names.set(name, short);
    return short;
  });
}

/** States share most of their parts. */
function remembered<Part extends object>(keyOfPart: (part: Part) => string): (part: Part) => string {
  const keys = new WeakMap<Part, string>();
  return (part) => {
    const key = keys.get(part) ?? keyOfPart(part);
    keys.set(part, key);
    return key;
  };
}

const keyOfPart = remembered((part: object) => JSON.stringify(part));

const keyOfInstance = remembered(({ memory, knows }: Instance) => {
  const { state, written, ...rest } = memory;
  const known = written && { ...written, leases: [...written.leases].sort() };
  return keyOfGate(state) + JSON.stringify([known, rest, knows]);
});

const keyOfGate = remembered((state: GateState) => {
  const { destinationState, leases, settled, forgottenAt, slack, crashLoop, turns, drainSchedule } = state;
  const held = leases.map(({ tat: _, ...lease }) => lease);
  return JSON.stringify([
    destinationState,
    held,
    settled,
    forgottenAt,
    slack,
    crashLoop,
    turns,
    drainSchedule,
  ]);
});
