/**
 * The gate's first decision: who may go in now, over how many connections, and why the rest must wait.
 * One call decides for a whole group of deliveries.
 */

import { noFailures } from "./auto-disable.ts";
import { aheadMs, type Capacity, capacityFor, isBacklogsTurn } from "./capacity.ts";
import { reopened } from "./concurrency-window.ts";
import { type CircuitEvent, circuitChange, destinationStateAt } from "./destination-state.ts";
import { afterArrival, afterRefusal, alarmBy } from "./drain-scheduler.ts";
import { type GateState, sideOf, withoutExpired } from "./gate-state.ts";
import {
  type Grant,
  type Lane,
  type Lease,
  LOOK_UP_MS,
  leaseMs,
  startable,
  succeeded,
  tatOf,
} from "./lease.ts";
import type { GateSettings } from "./limits.ts";
import { packNumbers, sharedWith } from "./number-sets.ts";
import { effectiveRate, nextSendAt, type Reservation, reserve, reserveNow } from "./rate-limit.ts";

export type Admission = Readonly<{ state: GateState; result: AdmitResult }>;

export function admit(before: GateState, ask: AdmitRequest, settings: GateSettings, now: number): Admission {
  const start = asked(before, ask, settings, now);
  const known = knownOf(start, ask.deliveries);
  const { state, result } = decide(start, known, ask, settings, now);
  const { holding, events } = circuitChange(before, destinationStateAt(before.destinationState, now), now);
  const settled = settledOf(known, ask, result.grant?.deliveries ?? [], now);
  const also = { ...(events.length > 0 && { events }), ...(settled.length > 0 && { settled }) };
  return { state: { ...state, holding }, result: { ...result, ...also } };
}

/** What the gate knows of the deliveries asked for: when each was settled of late, and until when leases hold it. */
type Known = Readonly<{
  settled: readonly (readonly [delivery: number, at: number])[];
  leased: ReadonlyMap<number, number>;
}>;

/** One pass over what is remembered: a busy gate remembers much, and is asked often. */
function knownOf({ leases, settled }: GateState, deliveries: readonly number[]): Known {
  const sorted = deliveries.toSorted((a, b) => a - b);
  const leased = new Map<number, number>();
  for (const lease of leases)
    for (const id of sharedWith(sorted, lease.deliveries)) leased.set(id, lease.expiresAt);
  return {
    settled: settled.flatMap(([at, some]) => sharedWith(sorted, some).map((id) => [id, at] as const)),
    leased,
  };
}

/** Who looks up after asking need not know. */
function settledOf(
  { settled }: Known,
  { lookedUpMsAgo = 0 }: AdmitRequest,
  deliveries: readonly number[],
  now: number,
): NonNullable<AdmitResult["settled"]> {
  if (lookedUpMsAgo === 0 || settled.length === 0) return [];
  const given = new Set(deliveries);
  return settled.flatMap(([id, at]) => (given.has(id) ? [{ delivery: id, msAgo: now - at }] : []));
}

function decide(
  state: GateState,
  known: Known,
  ask: AdmitRequest,
  settings: GateSettings,
  now: number,
): Admission {
  const { free, inFlight } = apart(state, known, ask, now);
  if (free.length === 0) return { state, result: { grant: null, refused: null, inFlight } };
  const asking = { state, ask, settings, now, free, inFlight };
  const room = capacityFor(withoutFormer(state, ask), ask.lane, settings, now);
  if ("reason" in room) return refuse(asking, free, room);
  const reserved = rateFor(asking, room);
  if (reserved.sends === 0) return refuse(asking, free, rateRefusal(state, settings, now));
  return grant(asking, room, reserved);
}

/** What the asker holds is its own to go on with. */
function withoutFormer(state: GateState, { succeeds }: AdmitRequest): GateState {
  if (succeeds === undefined) return state;
  const leases = state.leases.map((one) => (one.id === succeeds ? { ...one, slots: 0, width: 0 } : one));
  return { ...state, leases };
}

/** Why one delivery would be refused at `now`; undefined when it would be admitted. */
export function refusalAt(
  state: GateState,
  lane: Lane,
  settings: GateSettings,
  now: number,
): Refusal | undefined {
  const { result } = admit(state, { lane, deliveries: [0], connections: 1, startWithinMs: 0 }, settings, now);
  return result.refused ? { reason: result.refused.reason, until: result.refused.until } : undefined;
}

function asked(before: GateState, ask: AdmitRequest, settings: GateSettings, now: number): GateState {
  const state = withoutExpired(before, now);
  const side = sideOf(ask.lane);
  const destinationState = destinationStateAt(state.destinationState, now);
  return {
    ...state,
    // What a pause ends, begins again with one.
    destinationState: settings.paused
      ? { ...destinationState, window: reopened(destinationState.window) }
      : destinationState,
    failureStreak: settings.paused ? noFailures : state.failureStreak,
    turns: { ...state.turns, [side]: { ...state.turns[side], askedAt: now } },
    breadth: settings.maxConcurrency,
    rate: { perSecond: settings.ratePerSecond, burst: settings.rateBurst },
    drainSchedule: side === "backlog" ? afterArrival(state.drainSchedule) : state.drainSchedule,
  };
}

/**
 * What may be let in, and what another lease holds. A delivery that was settled after the asker had looked
 * it up may have ended since: it has to be looked at again.
 */
function apart(
  { forgottenAt }: GateState,
  { settled, leased }: Known,
  { deliveries, most, lookedUpMsAgo = 0 }: AdmitRequest,
  now: number,
) {
  const lookedUpAt = now - lookedUpMsAgo;
  const isTooOld = lookedUpMsAgo > LOOK_UP_MS || lookedUpAt < forgottenAt;
  const busy = new Map(isTooOld ? deliveries.map((id) => [id, now]) : []);
  for (const [id, at] of settled) if (at > lookedUpAt) busy.set(id, now);
  if (!isTooOld) for (const [id, until] of leased) busy.set(id, until);
  if (busy.size === 0) return { free: deliveries.slice(0, most), inFlight: null };
  const held = deliveries.filter((id) => busy.has(id));
  const until = Math.max(0, ...held.map((id) => busy.get(id) ?? 0));
  const inFlight = held.length > 0 ? { deliveries: held, until } : null;
  return { free: deliveries.filter((id) => !busy.has(id)).slice(0, most), inFlight };
}

/** What is reserved of the rate: no more than the lease's connections can start in its time. */
function rateFor({ state, ask, settings, now, free }: Asking, room: Capacity): Reservation {
  const rate = effectiveRate(state.destinationState.adaptiveLimit, settings, now);
  const tat = tatOf(state.leases, state.tat);
  if (room.probe) return reserveNow(tat, rate, now);
  const side = sideOf(ask.lane);
  const horizonAt = now + aheadMs(state, side, ask.startWithinMs, now);
  const reserved = reserve(tat, Math.min(free.length, mostFor(state, ask, room)), rate, horizonAt, now);
  // After it not one more could start at once: what live traffic takes now, the backlog has to wait for.
  const scarce = nextSendAt(reserved.tat, rate, now) > now;
  const standsBack = scarce && side === "live" && isBacklogsTurn(state, now);
  return standsBack ? { ...reserved, sends: 0 } : reserved;
}

function mostFor({ destinationState: { tookMs } }: GateState, ask: AdmitRequest, room: Capacity): number {
  return startable(Math.min(room.slots, ask.connections), ask.startWithinMs, tookMs);
}

function rateRefusal(state: GateState, settings: GateSettings, now: number): Refusal {
  const rate = effectiveRate(state.destinationState.adaptiveLimit, settings, now);
  return { reason: "rate", until: nextSendAt(tatOf(state.leases, state.tat), rate, now) };
}

type Asking = Readonly<{
  state: GateState;
  ask: AdmitRequest;
  settings: GateSettings;
  now: number;
  /** The deliveries asked for that no live lease holds. */
  free: readonly number[];
  inFlight: AdmitResult["inFlight"];
}>;

function refuse(
  { state, ask, now, inFlight }: Asking,
  deliveries: readonly number[],
  refusal: Refusal,
): Admission {
  const side = sideOf(ask.lane);
  const turns = { ...state.turns, [side]: { ...state.turns[side], wantedAt: now } };
  return {
    state: { ...state, turns, drainSchedule: afterRefusal(state.drainSchedule, refusal.until, now) },
    result: { grant: null, refused: { deliveries, ...refusal }, inFlight },
  };
}

function grant(asking: Asking, room: Capacity, reserved: Reservation): Admission {
  const deliveries = chosen(asking, room, reserved);
  const { state, ask, now, free, inFlight } = asking;
  const lease = leaseFor(asking, room, reserved, deliveries);
  const served = serve(state, ask, lease, now);
  const grant = {
    id: lease.id,
    slots: lease.slots,
    width: lease.width,
    deliveries,
    startWithinMs: ask.startWithinMs,
    expiresInMs: lease.expiresAt - now,
    pace: { firstInMs: reserved.firstAt - now, everyMs: reserved.everyMs, slackMs: reserved.slackMs },
    destinationState: state.destinationState,
  };
  const given = new Set(deliveries);
  const left = free.filter((id) => !given.has(id));
  const rest =
    left.length > 0 ? restRefusal({ ...asking, state: served }, room, lease, deliveries.length) : undefined;
  if (!rest) return { state: served, result: { grant, refused: null, inFlight } };
  const turned = refuse({ ...asking, state: served }, left, rest);
  return { state: turned.state, result: { ...turned.result, grant } };
}

/** Why the rest is not let in; undefined when a drain may ask for it as soon as it has worked off what was. */
function restRefusal(
  { state, ask, settings, now }: Asking,
  room: Capacity,
  lease: Lease,
  granted: number,
): Refusal | undefined {
  if (room.probe) return { reason: "probing", until: lease.expiresAt };
  if (granted < mostFor(state, ask, room)) return rateRefusal(state, settings, now);
  return sideOf(ask.lane) === "backlog" ? undefined : { reason: "slow", until: now };
}

function chosen({ ask: { probe }, free }: Asking, room: Capacity, { sends }: Reservation): readonly number[] {
  return room.probe && probe !== undefined && free.includes(probe) ? [probe] : free.slice(0, sends);
}

function leaseFor(
  { state, ask, settings, now }: Asking,
  room: Capacity,
  reserved: Reservation,
  deliveries: readonly number[],
): Lease {
  const slots = Math.min(room.slots, ask.connections, deliveries.length);
  return {
    id: `${now.toString(36)}-${state.incarnation.toString(36)}-${state.granted + 1}`,
    lane: ask.lane,
    slots,
    width: Math.min(room.width, slots),
    deliveries: packNumbers(deliveries),
    ...(room.probe && { probe: true }),
    tat: reserved.tat,
    expiresAt: now + leaseMs(ask.startWithinMs, settings.timeoutMs),
  };
}

function serve(state: GateState, { succeeds }: AdmitRequest, lease: Lease, now: number): GateState {
  const side = sideOf(lease.lane);
  return {
    ...state,
    granted: state.granted + 1,
    leases: succeeded(state.leases, lease, succeeds),
    turns: { ...state.turns, [side]: { ...state.turns[side], servedAt: now } },
    // A drain that dies with its lease is sent for again when the lease has expired.
    drainSchedule:
      side === "backlog" ? alarmBy(state.drainSchedule, lease.expiresAt, now) : state.drainSchedule,
  };
}

// §§ What is asked of a gate and what it answers: plain values, because they cross from Worker to object.

export type AdmitRequest = Readonly<{
  lane: Lane;
  /** Event rows, in the order in which they should go. */
  deliveries: readonly number[];
  /** The one of them that goes when a half-open circuit lets in no other; the first, when it is not said. */
  probe?: number;
  /** As many of them at most; those beyond are neither let in nor turned away. */
  most?: number;
  /** How long ago the asker looked the deliveries up; 0 when it looks them up after it is let in. */
  lookedUpMsAgo?: number;
  /**
   * The lease that the asker is working off, and goes on from without a pause: what is let in takes over its slots.
   * The asker never has more open under both than the larger of the two allows.
   */
  succeeds?: string;
  /** How many connections the asker can use at once. */
  connections: number;
  /** How long after asking it will start attempts. */
  startWithinMs: number;
}>;

/**
 * `slow`: the destination takes longer than a batch may last, so it is served by drains alone.
 * `recovered` is said by the sweep: the delivery was lost on its way. The last three are said before the
 * gate is asked: no master key opens the destination's secret, its host name cannot be looked up, or it
 * leads to an address that is not public.
 */
export type RefusalReason =
  | "paused"
  | "hold"
  | "circuit_open"
  | "probing"
  | "concurrency"
  | "rate"
  | "slow"
  | "recovered"
  | "sealed"
  | "unresolved"
  | "forbidden_address";

/** The gate's no: why, and when to expect otherwise; null when only a person can tell. */
export type Refusal = Readonly<{ reason: RefusalReason; until: number | null }>;

export type AdmitResult = Readonly<{
  grant: Grant | null;
  /** The deliveries that were turned away, and why. */
  refused: Readonly<{ deliveries: readonly number[] } & Refusal> | null;
  /** The deliveries that another lease holds, or held a moment ago, and when to look at them again. */
  inFlight: Readonly<{ deliveries: readonly number[]; until: number }> | null;
  /**
   * Of those let in, which were settled of late, each with how long ago (ms): how long the question was under way the
   * gate cannot know, so whether that was before the look-up the asker tells, when it has its result.
   */
  settled?: readonly Readonly<{ delivery: number; msAgo: number }>[];
  /** What time has done to the door since it was last looked at, where it has done something. */
  events?: readonly CircuitEvent[];
}>;

// §§ How often a destination may be sent a test event. Tests pass by the door, because a person who is about to
// open it wants to know what is behind; so they have a bound of their own.

const APART_MS = 5_000;

/** When the next test may be made after one at `testedAt`, if not at `now`. */
export function testRefusedUntil(testedAt: number, now: number): number | undefined {
  // A time in the future is a clock's that was wrong.
  return testedAt <= now && now - testedAt < APART_MS ? testedAt + APART_MS : undefined;
}
