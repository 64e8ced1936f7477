/**
 * The gate's second decision: what a lease's outcomes mean for its destination. The lease ends, the
 * outcomes move the condition in the order in which they happened, sends that were not made are given
 * back to the rate, and whoever waits may be sent for.
 *
 * Settling twice, or settling a lease that has expired, changes nothing.
 */
import { emptied, expecting, freed, told, turnedAway } from "./bell.ts";
import { type Circuit, closedCircuit } from "./circuit.ts";
import { type Condition, conditionAfter, conditionAt, type Sign, shutBy } from "./condition.ts";
import { type DoorEvent, doorChange } from "./door-events.ts";
import type { GateSettings } from "./gate-settings.ts";
import {
  type GateState,
  type Pause,
  type Remembered,
  remembering,
  settling,
  withoutExpired,
  withPause,
} from "./gate-state.ts";
import { ended } from "./lease.ts";
import { type Notice, saidAfter } from "./said.ts";
import { type Diagnosis, diagnosisOf, sicknessAfter, wellness } from "./sickness.ts";
import { counted } from "./tallies.ts";
import { tollAfter } from "./toll.ts";
import { recentTraffic } from "./traffic.ts";
import { reopened } from "./window.ts";

export type Settlement = Readonly<{
  /** The lease's id. */
  lease: string;
  /** One sign per attempt made, in the order of their ends. */
  signs: readonly Sign[];
  /** Deliveries of the lease that were not attempted and wait in D1 now. */
  left: number;
  /**
   * How long after this report the rate's theoretical arrival time is, by what was really started (see places.ts);
   * negative when it has passed. Without it nothing was started, or, where there are signs, all of it on time.
   */
  tatInMs?: number;
  /** Whether a drain settles that will ask again at once. */
  continues?: boolean;
}>;

export type Settled = Readonly<{
  state: GateState;
  /** What happened to the door. */
  events: readonly DoorEvent[];
  /** What the operator is to be told of. */
  notices: readonly Notice[];
  /** Whether somebody is to come in a while and ask for the dead. */
  tollDue: boolean;
  /** What the destination is sick of; said again with every failure until it is paused. */
  diagnosis?: Diagnosis | undefined;
}>;

const NO_NEWS = { events: [], notices: [], tollDue: false } as const;

/** @param random in [0, 1): spreads the end of a cool-down */
export function settle(
  before: GateState,
  settlement: Settlement,
  settings: GateSettings,
  now: number,
  random: number,
): Settled {
  const current = withoutExpired(before, now);
  const { leases } = current;
  const lease = leases.find(({ id }) => id === settlement.lease);
  if (!lease) return { state: current, ...NO_NEWS };
  const start = conditionAt(before.condition, now);
  const heard = settlement.signs.reduce((c, sign) => conditionAfter(c, sign, settings, random), start);
  // Only the probe judges a half-open circuit. What others still had under way may ask for quiet, no more.
  const judged = start.circuit.kind !== "half_open" || lease.probe;
  const condition = quiet(judged ? heard : { ...start, heldUntil: heard.heldUntil }, now);
  const { holding, events } = doorChange(before, condition, now);
  const state = {
    ...remembering(current, rememberedOf(start, condition), now, condition.heldUntil),
    condition,
    holding,
    leases: ended(leases, lease),
    ...settling(current, lease.deliveries, now),
    // What it did not send is given back, unless another lease has reserved after it: that one's slots stay its own.
    tat: Math.max(current.tat, startedUpTo(settlement, lease.tat, now)),
  };
  return { ...watched({ ...state, bell: bellAfter(state, settlement, now) }, settlement.signs, now), events };
}

/** The theoretical arrival time that a lease's real starts imply; 0 when it has started nothing. */
function startedUpTo({ signs, tatInMs }: Settlement, reservedTat: number, now: number): number {
  if (tatInMs !== undefined) return Math.max(0, now + tatInMs);
  return signs.length > 0 ? reservedTat : 0;
}

/** What the attempts are counted for, and what becomes apparent by it. */
function watched(state: GateState, signs: readonly Sign[], now: number): Omit<Settled, "events"> {
  const samples = signs.flatMap(({ sample }) => sample ?? []);
  const sickness = sicknessAfter(state.sickness, samples, now);
  const tallies = counted(state.tallies, samples, now);
  const { said, notices } = saidAfter(state.said, state.condition, recentTraffic(tallies, now), now);
  const { toll, isDue } = tollAfter(state.toll, samples.filter(({ end }) => end === "dead").length, now);
  const diagnosis = samples.length > 0 ? diagnosisOf(sickness, now) : undefined;
  return { state: { ...state, sickness, said, toll, tallies }, notices, tollDue: isDue, diagnosis };
}

/** Deliveries have ended dead without an attempt: they are counted. */
export function died(
  state: GateState,
  deliveries: number,
  now: number,
): Readonly<{ state: GateState; tollDue: boolean }> {
  const { toll, isDue } = tollAfter(state.toll, deliveries, now);
  return { state: { ...state, toll, tallies: counted(state.tallies, [], now, deliveries) }, tollDue: isDue };
}

/** A drain that looked at `lookedAt` found nothing waiting. */
export function nothingWaits(state: GateState, lookedAt: number, now: number): GateState {
  return { ...state, bell: emptied(state.bell, lookedAt, now) };
}

/** The receiver has asked for quiet until then: said at once, because it holds for every lease there is. */
export function held(
  state: GateState,
  until: number,
  now: number,
): Readonly<{ state: GateState; events: readonly DoorEvent[] }> {
  if (until <= state.condition.heldUntil) return { state, events: [] };
  const start = conditionAt(state.condition, now);
  const condition = { ...start, heldUntil: until, window: reopened(start.window) };
  const { holding, events } = doorChange(state, condition, now);
  const after = { ...state, condition, holding };
  return { state: remembering(after, ["held"], now), events };
}

/** Something waits that this gate may not know of: ring as soon as the door allows. */
export function ringFor(state: GateState, now: number): GateState {
  return { ...state, bell: freed({ ...state, bell: told(state.bell, now) }, now) };
}

/**
 * A person has said "try again": a pause was lifted, or the destination has another URL. It starts afresh: no hold
 * and no cool-down is waited for, what it was paused for is forgotten, and traffic begins with one. A circuit that
 * was open is half-open now, so that one probe decides; one that was closed has forgotten its failures.
 * @param pause what was lifted, to be remembered
 */
export function resumed(state: GateState, now: number, pause?: Pause): GateState {
  const { circuit, window } = state.condition;
  const history = pause ? withPause(state.history, pause) : state.history;
  const afresh: Circuit =
    circuit.kind === "closed" ? closedCircuit(now) : { kind: "half_open", since: now, trips: 0 };
  const condition = { ...state.condition, circuit: afresh, heldUntil: 0, window: reopened(window) };
  const after = { ...state, condition, history, holding: false, sickness: wellness };
  return ringFor(remembering(after, ["resumed"], now), now);
}

/**
 * A person has ended the receiver's hold: traffic begins with one, and what waits is rung for. The circuit stays
 * as it is. Without a hold nothing changes, so that it is safe to repeat.
 */
export function holdCleared(
  before: GateState,
  now: number,
): Readonly<{ state: GateState; events: readonly DoorEvent[] }> {
  const start = conditionAt(before.condition, now);
  if (start.heldUntil <= now) return { state: before, events: [] };
  const condition = { ...start, heldUntil: 0, window: reopened(start.window) };
  const { holding, events } = doorChange({ ...before, condition }, condition, now);
  const after = remembering({ ...before, condition, holding }, ["hold_cleared"], now);
  return { state: ringFor(after, now), events };
}

/** While the receiver wants quiet, what others still bring home does not widen the window again. */
function quiet(condition: Condition, now: number): Condition {
  return condition.heldUntil > now ? { ...condition, window: reopened(condition.window) } : condition;
}

function bellAfter(state: GateState, { left, continues, signs }: Settlement, now: number): GateState["bell"] {
  const shut = shutBy(state.condition, { paused: false }, now);
  const known = continues ? expecting(state.bell, 1, now) : state.bell;
  const bell = left > 0 ? turnedAway(known, shut?.until ?? now, now) : known;
  if (shut) return bell;
  // A lease that has sent nothing is followed by another only after a while, or nothing would come of both at once.
  const idle = left > 0 && signs.length === 0;
  return idle ? bell : freed({ ...state, bell }, now);
}

/** What people are shown: a hold that is prolonged too, because then it lasts until another time. */
function rememberedOf(before: Condition, after: Condition): Remembered[] {
  const events: Remembered[] = [];
  if (after.circuit.kind === "open" && before.circuit.kind !== "open") events.push("circuit_opened");
  if (after.circuit.kind === "closed" && before.circuit.kind === "half_open") events.push("circuit_closed");
  if (after.heldUntil > before.heldUntil) events.push("held");
  return events;
}
