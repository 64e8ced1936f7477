/**
 * Random histories of one gate: admit requests, settlements (in time, late, repeated, never), evictions, alarms,
 * pauses, changed settings and a clock that jumps both ways. `momentsOf` takes a gate through a history and keeps a
 * ledger beside it that relies on no state of the gate: only on what was granted, and on what the gate was sent.
 */
import fc from "fast-check";
import { type AdmitRequest, type AdmitResult, admit } from "../../src/core/admit.ts";
import type { AttemptSignal, CircuitEvent } from "../../src/core/destination-state.ts";
import { drainsDue } from "../../src/core/drain-scheduler.ts";
import { type GateState, newGateState } from "../../src/core/gate-state.ts";
import type { Grant } from "../../src/core/lease.ts";
import type { GateSettings } from "../../src/core/limits.ts";
import { afterEmptyDrain, afterHold, afterResume, scheduleDrain, settle } from "../../src/core/settle.ts";

export const start = Date.UTC(2026, 10, 21, 9, 0, 0);

export const steady: GateSettings = {
  paused: false,
  maxConcurrency: 10,
  ratePerSecond: 100,
  rateBurst: 200,
  timeoutMs: 15_000,
  breaker: {
    failureRatio: 0.5,
    minAttempts: 5,
    windowMs: 60_000,
    cooldownMs: 30_000,
    maxCooldownMs: 300_000,
  },
};

/** A gate whose concurrency window is open up to this limit. */
export function trusted(maxConcurrency: number, now = start): GateState {
  const state = newGateState(now);
  const window = { size: maxConcurrency, threshold: 1_000_000 };
  return { ...state, maxConcurrency, destinationState: { ...state.destinationState, window } };
}

/** Evenly drawn: `fc.double` favours numbers next to zero. */
export const fraction = fc.nat(999_999).map((n) => n / 1_000_000);

export const settingsArbitrary: fc.Arbitrary<GateSettings> = fc.record({
  paused: fc.constant(false),
  maxConcurrency: fc.oneof(fc.constantFrom(1, 2), fc.integer({ min: 1, max: 40 })),
  ratePerSecond: fc.constantFrom(0.5, 1, 7, 100, 10_000),
  rateBurst: fc.integer({ min: 1, max: 200 }),
  timeoutMs: fc.integer({ min: 100, max: 30_000 }),
  breaker: fc.record({
    failureRatio: fc.integer({ min: 1, max: 20 }).map((n) => n / 20),
    minAttempts: fc.integer({ min: 1, max: 8 }),
    windowMs: fc.integer({ min: 1, max: 300 }).map((s) => s * 1000),
    cooldownMs: fc.integer({ min: 1, max: 60 }).map((s) => s * 1000),
    maxCooldownMs: fc.integer({ min: 1, max: 300 }).map((s) => s * 1000),
  }),
});

/** The outcome of an attempt. `busy` and `away` request a hold when they have `quietMs`. */
type Attempted = Readonly<{ came: "fine" | "failed" | "busy" | "away"; quietMs: number; remaining?: number }>;

export type Step =
  /** Backwards when negative. */
  | Readonly<{ do: "wait"; ms: number }>
  | Readonly<{ do: "ask"; ask: AdmitRequest }>
  /** Names one of the leases ever granted, ended or not, counted back from the last. */
  | Readonly<{
      do: "settle";
      back: number;
      attempts: readonly Attempted[];
      left: boolean;
      continues: boolean;
    }>
  | Readonly<{ do: "change"; settings: GateSettings }>
  | Readonly<{ do: "pause" | "resume" | "evict" | "alarm" | "ring" }>
  | Readonly<{ do: "empty"; lookedAgoMs: number }>
  | Readonly<{ do: "hold"; forMs: number }>;

const attempted: fc.Arbitrary<Attempted> = fc.oneof(
  { weight: 4, arbitrary: fc.constant({ came: "fine", quietMs: 0 } as const) },
  { weight: 2, arbitrary: fc.constant({ came: "failed", quietMs: 0 } as const) },
  {
    weight: 1,
    arbitrary: fc.record({
      came: fc.constantFrom("busy" as const, "away" as const),
      quietMs: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 120_000 })),
    }),
  },
  { weight: 1, arbitrary: fc.nat(20).map((remaining) => ({ came: "fine", quietMs: 0, remaining }) as const) },
);

export const askArbitrary: fc.Arbitrary<AdmitRequest> = fc
  .record({
    lane: fc.constantFrom("fresh" as const, "retry" as const, "backlog" as const),
    first: fc.integer({ min: 1, max: 60 }),
    count: fc.integer({ min: 1, max: 20 }),
    connections: fc.integer({ min: 1, max: 6 }),
    startWithinMs: fc.integer({ min: 1, max: 3_000 }),
    lookedUpMsAgo: fc.oneof(fc.constant(0), fc.nat(2_000), fc.nat(20_000)),
  })
  .map(({ first, count, ...ask }) => ({
    ...ask,
    deliveries: Array.from({ length: count }, (_, i) => first + i),
  }));

const waited = fc.oneof(
  { weight: 5, arbitrary: fc.nat(2_000) },
  { weight: 3, arbitrary: fc.nat(60_000) },
  { weight: 1, arbitrary: fc.nat(3_600_000) },
  { weight: 1, arbitrary: fc.integer({ min: -600_000, max: 0 }) },
);

const stepArbitrary: fc.Arbitrary<Step> = fc.oneof(
  { weight: 8, arbitrary: askArbitrary.map((ask) => ({ do: "ask", ask }) as const) },
  { weight: 4, arbitrary: waited.map((ms) => ({ do: "wait", ms }) as const) },
  {
    weight: 7,
    arbitrary: fc.record({
      do: fc.constant("settle" as const),
      back: fc.oneof(fc.constant(0), fc.nat(5)),
      attempts: fc.array(attempted, { maxLength: 20 }),
      left: fc.boolean(),
      continues: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: settingsArbitrary.map((settings) => ({ do: "change", settings }) as const) },
  {
    weight: 4,
    arbitrary: fc
      .constantFrom("pause" as const, "resume" as const, "evict" as const, "alarm" as const, "ring" as const)
      .map((what) => ({ do: what })),
  },
  { weight: 1, arbitrary: fc.nat(10_000).map((lookedAgoMs) => ({ do: "empty", lookedAgoMs }) as const) },
  { weight: 1, arbitrary: fc.nat(60_000).map((forMs) => ({ do: "hold", forMs }) as const) },
);

export const historyArbitrary = fc.tuple(
  settingsArbitrary,
  fc.array(stepArbitrary, { minLength: 1, maxLength: 80, size: "max" }),
);

/** A lease as its holder knows it. */
export type Ticket = Grant & Readonly<{ lane: AdmitRequest["lane"]; grantedAt: number; expiresAt: number }>;

export type Moment = Readonly<{
  step: Step;
  before: GateState;
  after: GateState;
  settings: GateSettings;
  now: number;
  /** The latest time that the clock has shown. */
  latest: number;
  result?: AdmitResult;
  events?: readonly CircuitEvent[];
  /** The lease that this step granted. */
  granted?: Ticket;
  /** The lease that this step settled while it was live; null when it was not. */
  settled?: Ticket | null;
  /** Leases granted before that are neither settled nor expired. */
  others: readonly Ticket[];
  /** The latest end of quiet that was reported to the gate. */
  quietUntil: number;
  /** Whether no success has been settled since the circuit was last opened. */
  fromOne: boolean;
  /** The number of drains that an alarm sent. */
  drains?: number;
}>;

export function* momentsOf([opening, steps]: readonly [GateSettings, readonly Step[]]): Generator<Moment> {
  let state = newGateState(start);
  let settings = opening;
  let now = start;
  let latest = start;
  let quietUntil = 0;
  let fromOne = true;
  let ended = new Set<string>();
  const tickets: Ticket[] = [];

  for (const step of steps) {
    const before = state;
    if (step.do === "wait") now += step.ms;
    latest = Math.max(latest, now);
    ended = new Set([...ended, ...tickets.filter(({ expiresAt }) => expiresAt <= now).map(({ id }) => id)]);
    const others = tickets.filter(({ id }) => !ended.has(id));
    let told: Pick<Moment, "result" | "events" | "granted" | "settled" | "drains"> = {};

    switch (step.do) {
      case "ask": {
        const { state: after, result } = admit(state, step.ask, settings, now);
        state = after;
        told = { result };
        if (result.grant) {
          const expiresAt = now + result.grant.expiresInMs;
          const granted = { ...result.grant, lane: step.ask.lane, grantedAt: now, expiresAt };
          tickets.push(granted);
          told = { result, granted };
        }
        break;
      }
      case "settle": {
        const ticket = tickets.at(-1 - step.back);
        if (!ticket) break;
        const signals = signsOf(step.attempts.slice(0, ticket.deliveries.length), ticket, now);
        const unsent = ticket.deliveries.length - signals.length;
        const left = step.left ? unsent : 0;
        const settlement = { lease: ticket.id, signals, left, continues: step.continues };
        const { state: after, events } = settle(state, settlement, settings, now, 0.5);
        state = after;
        // Judged by the gate's clock: if it has gone back, an expired lease is live again.
        const isLive = before.leases.some(({ id, expiresAt }) => id === ticket.id && expiresAt > now);
        told = { events, settled: isLive ? ticket : null };
        if (!isLive) break;
        ended.add(ticket.id);
        quietUntil = Math.max(quietUntil, ...signals.map(({ holdUntil }) => holdUntil ?? 0));
        const closed =
          before.destinationState.circuit.kind === "closed" &&
          after.destinationState.circuit.kind === "closed";
        const success = signals.some(({ health, at }) => health === "healthy" && at >= quietUntil);
        fromOne = closed && success && !settings.paused ? false : fromOne || events.length > 0;
        break;
      }
      case "change":
        settings = { ...step.settings, paused: settings.paused };
        break;
      case "pause":
        settings = { ...settings, paused: true };
        break;
      case "resume":
        if (!settings.paused) break;
        settings = { ...settings, paused: false };
        state = afterResume(state, now);
        quietUntil = 0;
        fromOne = true;
        break;
      case "evict":
        state = structuredClone(JSON.parse(JSON.stringify(state)));
        break;
      case "alarm": {
        if (state.drainSchedule.at === null || state.drainSchedule.at > now) break;
        const { drainSchedule, drains } = drainsDue(state, now);
        state = { ...state, drainSchedule };
        told = { drains };
        break;
      }
      case "ring":
        state = scheduleDrain(state, now);
        break;
      case "empty":
        state = afterEmptyDrain(state, now - step.lookedAgoMs, now);
        break;
      case "hold":
        state = afterHold(state, now + step.forMs, now).state;
        fromOne ||= now + step.forMs > quietUntil;
        quietUntil = Math.max(quietUntil, now + step.forMs);
        break;
    }
    yield { step, before, after: state, settings, now, latest, others, quietUntil, fromOne, ...told };
  }
}

/** The signals of attempts that ended one after the other, the last of them now. */
function signsOf(attempts: readonly Attempted[], { grantedAt }: Ticket, now: number): AttemptSignal[] {
  const everyMs = Math.max(0, now - grantedAt) / Math.max(1, attempts.length);
  return attempts.map(({ came, quietMs, remaining }, i) => {
    const at = Math.round(now - (attempts.length - 1 - i) * everyMs);
    return {
      at,
      health: came === "fine" ? "healthy" : came === "busy" ? "throttled" : "unhealthy",
      backsOff: came !== "fine",
      tookMs: Math.round(everyMs),
      ...(quietMs > 0 && { holdUntil: at + quietMs }),
      ...(remaining !== undefined && { remaining }),
    };
  });
}

/** Every number in a value, at any depth. */
export function numbersIn(value: unknown, found: number[] = []): number[] {
  if (typeof value === "number") found.push(value);
  else if (typeof value === "object" && value !== null)
    for (const part of Object.values(value)) numbersIn(part, found);
  return found;
}

export function sumOf<T>(items: readonly T[], amount: (item: T) => number): number {
  return items.reduce((sum, item) => sum + amount(item), 0);
}
