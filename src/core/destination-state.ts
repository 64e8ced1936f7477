/**
 * The condition of a destination: its circuit, its window, its hold, its pace. The gate keeps it; a worker that
 * holds a lease carries a copy and moves it with the same function after each attempt, so that it stops
 * at the failure that shuts the door and widens with the successes that open it, without asking.
 */

import { type Circuit, circuitAfter, circuitAt, closedCircuit } from "./circuit-breaker.ts";
import { eased, grown, halved, newWindow, reopened, type Window } from "./concurrency-window.ts";
import type { GateSettings } from "./limits.ts";
import type { AttemptMetric } from "./metrics.ts";
import { type AdaptiveLimit, loweredLimit, noAdaptiveLimit } from "./rate-limit.ts";
import type { Health } from "./retry/classify.ts";

export type DestinationState = Readonly<{
  circuit: Circuit;
  window: Window;
  /** The receiver asked for quiet until then (Retry-After); 0 when it never did. */
  heldUntil: number;
  /** How long an attempt takes of late, a moving average. */
  tookMs: number;
  /** What its 429s have taught. */
  adaptiveLimit: AdaptiveLimit;
}>;

/** What an attempt tells about its destination. */
export type AttemptSignal = Readonly<{
  at: number;
  health: Health;
  /** Whether the window must be halved. */
  backsOff: boolean;
  /** The whole destination must stay closed until then. */
  holdUntil?: number;
  /** Requests that the receiver says it will still take. */
  remaining?: number;
  /** How long the attempt took. */
  tookMs?: number;
  /** What is counted of it. */
  metric?: AttemptMetric;
}>;

/** Why a gate lets nothing in, and until when at the earliest; null when only a person can tell. */
export type Block = Readonly<{ reason: "paused" | "hold" | "circuit_open"; until: number | null }>;

/** How much the newest attempt counts in the average. */
const NEWEST_WEIGHT = 0.3;

export function newDestinationState(now: number): DestinationState {
  return {
    circuit: closedCircuit(now),
    window: newWindow,
    heldUntil: 0,
    tookMs: 0,
    adaptiveLimit: noAdaptiveLimit,
  };
}

/** The condition at `now`: a cool-down that is over makes the circuit half-open. */
export function destinationStateAt(destinationState: DestinationState, now: number): DestinationState {
  const circuit = circuitAt(destinationState.circuit, now);
  return circuit === destinationState.circuit ? destinationState : { ...destinationState, circuit };
}

/** Whether the door is shut at `now`, or undefined when it stands open (or half-open, for a probe). */
export function blockedBy(
  destinationState: DestinationState,
  settings: Pick<GateSettings, "paused">,
  now: number,
): Block | undefined {
  const { circuit, heldUntil } = destinationStateAt(destinationState, now);
  if (settings.paused) return { reason: "paused", until: null };
  if (heldUntil > now && (circuit.kind !== "open" || heldUntil >= circuit.until)) {
    return { reason: "hold", until: heldUntil };
  }
  return circuit.kind === "open" ? { reason: "circuit_open", until: circuit.until } : undefined;
}

/** The condition after one more attempt. `random` in [0, 1) spreads the end of a cool-down. */
export function destinationStateAfter(
  destinationState: DestinationState,
  signal: AttemptSignal,
  settings: GateSettings,
  random: number,
): DestinationState {
  const circuit = circuitAfter(
    destinationState.circuit,
    signal.health,
    watching(settings),
    signal.at,
    random,
  );
  const heldUntil = Math.max(destinationState.heldUntil, signal.holdUntil ?? 0);
  const turned = circuit.kind !== destinationState.circuit.kind || heldUntil > destinationState.heldUntil;
  // What ends behind a shut door was under way before it shut: the same trouble again teaches nothing new.
  const open =
    destinationState.circuit.kind === "closed" && !blockedBy(destinationState, settings, signal.at);
  const heard = open ? windowAfter(destinationState.window, signal, settings) : destinationState.window;
  return {
    circuit,
    heldUntil,
    window: turned ? reopened(destinationState.window) : heard,
    adaptiveLimit:
      signal.health === "throttled"
        ? taught(destinationState, settings, signal.at)
        : destinationState.adaptiveLimit,
    tookMs:
      destinationState.tookMs +
      ((signal.tookMs ?? destinationState.tookMs) - destinationState.tookMs) * NEWEST_WEIGHT,
  };
}

/** What a holder of a lease knows, with what the gate has learned from others: they may have shut the door. */
export function withLearned(own: DestinationState, news: DestinationState): DestinationState {
  const circuit = news.circuit.kind === "open" ? news.circuit : own.circuit;
  return { ...own, circuit, heldUntil: Math.max(own.heldUntil, news.heldUntil) };
}

/**
 * What a holder goes on with from one lease to the next: what it has learned itself, which the gate has not heard of
 * yet, and what the gate has learned from others. A window that has shrunk meanwhile stays so.
 * @param since what the gate said when the first of the two was let in
 */
export function carriedOver(
  own: DestinationState,
  since: DestinationState,
  news: DestinationState,
): DestinationState {
  const isLarger = own.window.size >= since.window.size && news.window.size > own.window.size;
  return { ...withLearned(own, news), window: isLarger ? news.window : own.window };
}

/**
 * What was being sent, by Little's law: so many at once, each taking so long. A hold is told before its lease is
 * settled, so the door may have been shut meanwhile: then its width is remembered as the size that worked.
 */
function taught(
  { adaptiveLimit, window, tookMs }: DestinationState,
  settings: GateSettings,
  now: number,
): AdaptiveLimit {
  const width = Math.min(settings.maxConcurrency, window.size > 1 ? window.size : window.threshold);
  return loweredLimit(adaptiveLimit, settings, (width * 1000) / Math.max(1, tookMs), now);
}

function windowAfter(window: Window, signal: AttemptSignal, { maxConcurrency }: GateSettings): Window {
  if (signal.backsOff) return halved(window);
  if (signal.health !== "healthy") return window;
  return eased(grown(window, maxConcurrency), signal.remaining);
}

/**
 * The breaker's window must be able to hold enough failures to trip it: a receiver that hangs fails at
 * most once per timeout, so the window is never shorter than twice that.
 */
function watching({ breaker, timeoutMs }: GateSettings): GateSettings["breaker"] {
  return { ...breaker, windowMs: Math.max(breaker.windowMs, 2 * breaker.minAttempts * timeoutMs) };
}

// §§ What has happened to a door between two moments: each of it once, for the log.

export type CircuitEvent = "circuit_opened" | "circuit_half_open" | "circuit_closed" | "held" | "hold_ended";

/** A door as it was last seen: `holding` says that the beginning of a hold has been told, and not its end. */
export type ObservedState = Readonly<{ destinationState: DestinationState; holding: boolean }>;

export type CircuitChange = Readonly<{ holding: boolean; events: readonly CircuitEvent[] }>;

/** What has happened from then to `condition`, what time alone has brought by `now` before the rest. */
export function circuitChange(
  before: ObservedState,
  destinationState: DestinationState,
  now: number,
): CircuitChange {
  const start = destinationStateAt(before.destinationState, now);
  const holding = destinationState.heldUntil > now;
  const isOver = before.holding && start.heldUntil <= now;
  const events = [
    ...circuitEvents(before.destinationState, start),
    ...(isOver ? (["hold_ended"] as const) : []),
    ...circuitEvents(start, destinationState),
    // A hold that is prolonged is the same hold.
    ...(holding && (!before.holding || isOver) ? (["held"] as const) : []),
  ];
  return { holding, events };
}

function circuitEvents(
  { circuit: before }: DestinationState,
  { circuit: after }: DestinationState,
): CircuitEvent[] {
  return after.kind === before.kind ? [] : [circuitTurns[after.kind]];
}

const circuitTurns = {
  open: "circuit_opened",
  half_open: "circuit_half_open",
  closed: "circuit_closed",
} as const;
