/**
 * The state of a destination: its circuit, concurrency window, hold, attempt duration and adaptive limit. The gate
 * owns it. A Worker that holds a lease has a copy, and updates it with the same function after each attempt, so that
 * it stops at the failure that blocks the destination and widens with successes without calling the gate.
 */

import { type Circuit, circuitAfter, circuitAt, closedCircuit } from "./circuit-breaker.ts";
import { laterByOwnClock } from "./clocks.ts";
import { eased, grown, halved, newWindow, reopened, type Window } from "./concurrency-window.ts";
import type { GateSettings } from "./limits.ts";
import type { AttemptMetric } from "./metrics.ts";
import { type AdaptiveLimit, loweredLimit, noAdaptiveLimit } from "./rate-limit.ts";
import type { GateReason } from "./reasons.ts";
import type { ExchangeHealth } from "./retry/classify.ts";

export type DestinationState = Readonly<{
  circuit: Circuit;
  window: Window;
  /** The end of the hold that the receiver requested (Retry-After); 0: never. */
  heldUntil: number;
  /** How long an attempt takes, a moving average; 0: not known. */
  tookMs: number;
  /** The rate learned from its 429s. */
  adaptiveLimit: AdaptiveLimit;
}>;

/** The health that an attempt shows of its destination. */
export type AttemptSignal = Readonly<{
  at: number;
  health: ExchangeHealth;
  /** Whether the window must be halved. */
  backsOff: boolean;
  /** The receiver requested a hold of the whole destination until then. */
  holdUntil?: number;
  /** Requests that the receiver says it will still take. */
  remaining?: number;
  /** How long the attempt took. */
  tookMs?: number;
  metric?: AttemptMetric;
  /** The failure counts in the circuit of the destination's group. */
  elsewhere?: true;
}>;

/** Why nothing is admitted, and until when at the earliest; null when only an operator can end it. */
type Block = Readonly<{
  reason: Extract<GateReason, "paused" | "hold" | "circuit_open">;
  until: number | null;
}>;

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

/** The state at `now`: a cool-down that has ended makes the circuit half-open. */
export function destinationStateAt(destinationState: DestinationState, now: number): DestinationState {
  const circuit = circuitAt(destinationState.circuit, now);
  return circuit === destinationState.circuit ? destinationState : { ...destinationState, circuit };
}

/** The block of the destination at `now`; undefined when it admits attempts, if only the probe of a half-open circuit. */
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

/** The state after one more attempt. `random` in [0, 1) spreads the end of a cool-down. */
export function destinationStateAfter(
  destinationState: DestinationState,
  signal: AttemptSignal,
  settings: GateSettings,
  random: number,
): DestinationState {
  const circuit = signal.elsewhere
    ? destinationState.circuit
    : circuitAfter(destinationState.circuit, signal.health, watching(settings), signal.at, random);
  const heldUntil = Math.max(destinationState.heldUntil, signal.holdUntil ?? 0);
  const isReset = circuit.kind !== destinationState.circuit.kind || heldUntil > destinationState.heldUntil;
  // Attempts that end while the destination is blocked were under way before: the same failure again carries no new
  // information.
  const isOpen =
    destinationState.circuit.kind === "closed" && !blockedBy(destinationState, settings, signal.at);
  const window = isOpen ? windowAfter(destinationState.window, signal, settings) : destinationState.window;
  return {
    circuit,
    heldUntil,
    window: isReset ? reopened(destinationState.window) : window,
    adaptiveLimit:
      signal.health === "throttled"
        ? limitAfter429(destinationState, settings, signal.at)
        : destinationState.adaptiveLimit,
    tookMs:
      destinationState.tookMs +
      ((signal.tookMs ?? destinationState.tookMs) - destinationState.tookMs) * NEWEST_WEIGHT,
  };
}

/** A gate's state, and when it was read, by the gate's clock; absent from 0.3.0. */
export type ReadState = DestinationState & Readonly<{ at?: number }>;

/** The state by the clock of its reader: a hold or a cool-down ends no earlier than by the gate's. */
export function stateByOwnClock({ at, ...state }: ReadState, askedAt: number, now: number): DestinationState {
  const later = at === undefined ? 0 : laterByOwnClock({ at, askedAt }, now);
  const { circuit, heldUntil } = state;
  return {
    ...state,
    heldUntil: heldUntil + later,
    circuit: circuit.kind === "open" ? { ...circuit, until: circuit.until + later } : circuit,
  };
}

/** A lease holder's copy, with an opening or a hold that the gate has learned from other leases. */
export function withLearned(own: DestinationState, gates: DestinationState): DestinationState {
  const circuit = gates.circuit.kind === "open" ? gates.circuit : own.circuit;
  return { ...own, circuit, heldUntil: Math.max(own.heldUntil, gates.heldUntil) };
}

/**
 * The copy that a holder takes from one lease to the next: with its own findings, which it has not reported to the gate
 * yet, and those of the gate from others. A window that has shrunk meanwhile stays so.
 * @param since the gate's state when the first of the two leases was granted
 * @param gates the gate's state now
 */
export function carriedOver(
  own: DestinationState,
  since: DestinationState,
  gates: DestinationState,
): DestinationState {
  const isLarger = own.window.size >= since.window.size && gates.window.size > own.window.size;
  return { ...withLearned(own, gates), window: isLarger ? gates.window : own.window };
}

/**
 * The refused rate is known by Little's law: the number at once, divided by the time of each. A hold is reported before
 * its lease is settled, so the window may be back at one by now: then its threshold is the size that worked.
 */
function limitAfter429(
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
 * The breaker's window must be long enough for the failures that trip it. A receiver that hangs fails at most once per
 * timeout, so the window is never shorter than twice `minAttempts` timeouts.
 */
function watching({ breaker, timeoutMs }: GateSettings): GateSettings["breaker"] {
  return { ...breaker, windowMs: Math.max(breaker.windowMs, 2 * breaker.minAttempts * timeoutMs) };
}

export type CircuitEvent = "circuit_opened" | "circuit_half_open" | "circuit_closed" | "held" | "hold_ended";

/**
 * The events between two states, each once; changes by passage of time up to `now` come first.
 * @param before as last seen. `holding`: the beginning of a hold has been logged, and its end has not
 */
export function circuitChange(
  before: Readonly<{ destinationState: DestinationState; holding: boolean }>,
  destinationState: DestinationState,
  now: number,
): Readonly<{ holding: boolean; events: readonly CircuitEvent[] }> {
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
  return after.kind === before.kind ? [] : [eventOf[after.kind]];
}

const eventOf = {
  open: "circuit_opened",
  half_open: "circuit_half_open",
  closed: "circuit_closed",
} as const;
