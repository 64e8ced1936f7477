/**
 * The gate's first decision: who may go in now, over how many connections, and why the rest must wait.
 *
 * One call decides for a whole group of deliveries. The checks run from the most lasting reason to the
 * most fleeting one, so that the reason given is the one that a person would name.
 */
import { answered, sooner, turnedAway } from "./bell.ts";
import { conditionAt, shutBy } from "./condition.ts";
import type { GateSettings } from "./gate-settings.ts";
import { type GateState, sideOf } from "./gate-state.ts";
import { type Grant, type Lane, type Lease, leaseMs, live, slotsOf, widthsOf } from "./lease.ts";
import { nextSendAt, type Reservation, reserve } from "./rate.ts";
import { isBacklogsTurn, shareLeft } from "./shares.ts";
import { reopened, widthOf } from "./window.ts";

/**
 * A destination that takes longer than this is served by drains, which run on a queue of their own: in a
 * batch of the live queue it would make every other destination wait for its end.
 */
const SLOW_MS = 1_000;

export type Ask = Readonly<{
  lane: Lane;
  /** Event rows, in the order in which they should go. */
  deliveries: readonly number[];
  /** As many of them at most; those beyond are neither let in nor turned away. */
  most?: number;
  /** How many connections the asker can use at once. */
  connections: number;
  /** How long after asking it will start attempts. */
  startWithinMs: number;
}>;

/**
 * `slow`: the destination takes longer than a batch may last, so it is served by drains alone.
 * `recovered` is said by the sweep: the delivery was lost on its way.
 */
export type RefusalReason =
  | "paused"
  | "hold"
  | "circuit_open"
  | "probing"
  | "concurrency"
  | "rate"
  | "slow"
  | "recovered";

/** The gate's no: why, and when to expect otherwise; null when only a person can tell. */
export type Refusal = Readonly<{ reason: RefusalReason; until: number | null }>;

export type Answer = Readonly<{
  grant: Grant | null;
  /** The deliveries that were turned away, and why. */
  refused: Readonly<{ deliveries: readonly number[] } & Refusal> | null;
  /** The deliveries that another live lease holds, and when that lease ends at the latest. */
  inFlight: Readonly<{ deliveries: readonly number[]; until: number }> | null;
}>;

export type Admission = Readonly<{ state: GateState; answer: Answer }>;

export function admit(before: GateState, ask: Ask, settings: GateSettings, now: number): Admission {
  const state = asked(before, ask, settings, now);
  const { free, inFlight } = apart(state, ask);
  if (free.length === 0) return { state, answer: { grant: null, refused: null, inFlight } };
  const room = roomFor(state, ask.lane, settings, now);
  if ("reason" in room) return refuse(state, ask, free, room, inFlight, now);
  const reserved = rateFor(state, ask, Math.min(free.length, room.deliveries), settings, now);
  if (reserved.sends === 0) return refuse(state, ask, free, rateRefusal(state, settings, now), inFlight, now);
  return grant(state, ask, free, room, reserved, inFlight, settings, now);
}

/** What would be answered to one delivery at `now`: undefined when it would be let in. */
export function refusalAt(
  state: GateState,
  lane: Lane,
  settings: GateSettings,
  now: number,
): Refusal | undefined {
  const { answer } = admit(state, { lane, deliveries: [0], connections: 1, startWithinMs: 0 }, settings, now);
  return answer.refused ? { reason: answer.refused.reason, until: answer.refused.until } : undefined;
}

function asked(state: GateState, ask: Ask, settings: GateSettings, now: number): GateState {
  const side = sideOf(ask.lane);
  const condition = conditionAt(state.condition, now);
  return {
    ...state,
    // What a pause ends, begins again with one.
    condition: settings.paused ? { ...condition, window: reopened(condition.window) } : condition,
    leases: live(state.leases, now),
    turns: { ...state.turns, [side]: { ...state.turns[side], askedAt: now } },
    breadth: settings.maxConcurrency,
    bell: side === "backlog" ? answered(state.bell) : state.bell,
  };
}

function apart(state: GateState, ask: Ask) {
  const leased = new Map(
    state.leases.flatMap((lease) => lease.deliveries.map((id) => [id, lease.expiresAt])),
  );
  const free = ask.deliveries.filter((id) => !leased.has(id)).slice(0, ask.most);
  const busy = ask.deliveries.filter((id) => leased.has(id));
  const until = Math.max(0, ...busy.map((id) => leased.get(id) ?? 0));
  return { free, inFlight: busy.length > 0 ? { deliveries: busy, until } : null };
}

type Room = Readonly<{ slots: number; width: number; deliveries: number; probe: boolean }>;

function roomFor(state: GateState, lane: Lane, settings: GateSettings, now: number): Room | Refusal {
  const shut = shutBy(state.condition, settings, now);
  if (shut) return shut;
  const probing = state.condition.circuit.kind === "half_open";
  const probe = state.leases.find((lease) => lease.probe);
  if (sideOf(lane) === "live" && state.condition.tookMs > SLOW_MS) return { reason: "slow", until: now };
  if (probing && probe) return { reason: "probing", until: probe.expiresAt };
  const side = sideOf(lane);
  const window = probing ? 1 : widthOf(state.condition.window, settings.maxConcurrency);
  const slots = shareLeft(state, side, settings.maxConcurrency, slotsOf, now);
  const width = shareLeft(state, side, window, widthsOf, now);
  if (slots < 1 || width < 1) return { reason: "concurrency", until: firstExpiry(state, now) };
  if (probing) return { slots: 1, width: 1, deliveries: 1, probe: true };
  return { slots, width, deliveries: Number.POSITIVE_INFINITY, probe: false };
}

function firstExpiry(state: GateState, now: number): number {
  return state.leases.length > 0 ? Math.min(...state.leases.map((lease) => lease.expiresAt)) : now;
}

function rateFor(
  state: GateState,
  ask: Ask,
  wanted: number,
  settings: GateSettings,
  now: number,
): Reservation {
  const rate = { perSecond: settings.ratePerSecond, burst: settings.rateBurst };
  const reserved = reserve(state.tat, wanted, rate, now + ask.startWithinMs, now);
  const scarce = reserved.sends < wanted;
  const standsBack = scarce && sideOf(ask.lane) === "live" && isBacklogsTurn(state, now);
  return standsBack ? { ...reserved, sends: 0 } : reserved;
}

function rateRefusal(state: GateState, settings: GateSettings, now: number): Refusal {
  const rate = { perSecond: settings.ratePerSecond, burst: settings.rateBurst };
  return { reason: "rate", until: nextSendAt(state.tat, rate, now) };
}

function refuse(
  state: GateState,
  ask: Ask,
  deliveries: readonly number[],
  refusal: Refusal,
  inFlight: Answer["inFlight"],
  now: number,
): Admission {
  return {
    state: { ...wanting(state, ask, now), bell: turnedAway(state.bell, refusal.until, now) },
    answer: { grant: null, refused: { deliveries, ...refusal }, inFlight },
  };
}

function wanting(state: GateState, ask: Ask, now: number): GateState {
  const side = sideOf(ask.lane);
  return { ...state, turns: { ...state.turns, [side]: { ...state.turns[side], wantedAt: now } } };
}

function grant(
  state: GateState,
  ask: Ask,
  free: readonly number[],
  room: Room,
  reserved: Reservation,
  inFlight: Answer["inFlight"],
  settings: GateSettings,
  now: number,
): Admission {
  const deliveries = free.slice(0, reserved.sends);
  const lease = leaseFor(state, ask, deliveries, room, reserved, settings, now);
  const served = serve(state, lease, now);
  const given: Grant = {
    id: lease.id,
    slots: lease.slots,
    width: lease.width,
    deliveries,
    startWithinMs: ask.startWithinMs,
    expiresInMs: lease.expiresAt - now,
    pace: { firstInMs: reserved.firstAt - now, everyMs: reserved.everyMs },
    condition: state.condition,
  };
  const left = free.slice(reserved.sends);
  if (left.length === 0) return { state: served, answer: { grant: given, refused: null, inFlight } };
  const rest: Refusal = room.probe
    ? { reason: "probing", until: lease.expiresAt }
    : rateRefusal(served, settings, now);
  const turned = refuse(served, ask, left, rest, inFlight, now);
  return { ...turned, answer: { ...turned.answer, grant: given } };
}

function leaseFor(
  state: GateState,
  ask: Ask,
  deliveries: readonly number[],
  room: Room,
  reserved: Reservation,
  settings: GateSettings,
  now: number,
): Lease {
  const slots = Math.min(room.slots, ask.connections, deliveries.length);
  return {
    id: `${now.toString(36)}-${state.granted + 1}`,
    lane: ask.lane,
    slots,
    width: Math.min(room.width, slots),
    deliveries,
    probe: room.probe,
    tat: reserved.tat,
    expiresAt: now + leaseMs(ask.startWithinMs, settings.timeoutMs),
  };
}

function serve(state: GateState, lease: Lease, now: number): GateState {
  const side = sideOf(lease.lane);
  return {
    ...state,
    tat: lease.tat,
    granted: state.granted + 1,
    leases: [...state.leases, lease],
    turns: { ...state.turns, [side]: { ...state.turns[side], servedAt: now } },
    // A drain that dies with its lease is sent for again when the lease has expired.
    bell: side === "backlog" ? sooner(state.bell, lease.expiresAt, now) : state.bell,
  };
}
