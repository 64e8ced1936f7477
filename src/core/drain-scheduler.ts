/**
 * The gate's bell: when to send for drains, and how many, because something waits in D1 and the door may
 * open.
 *
 * There is one alarm. It is set to the earliest moment at which anything could be let in; when it rings
 * too early it is set again, so a later reason never overwrites an earlier one and none is forgotten.
 */

import { widthOf } from "./concurrency-window.ts";
import { blockedBy } from "./destination-state.ts";
import { type DrainSchedule, type GateState, sideOf } from "./gate-state.ts";
import { type Lease, live, tatOf } from "./lease.ts";
import { effectiveRate, sendsBy } from "./rate-limit.ts";

/** Connections of one drain: what one invocation of a Worker can have open. */
export const DRAIN_CONNECTIONS = 6;
/** A refused delivery is written to D1 right after the refusal: the drain should find it there. */
const WRITE_MS = 1_000;
/** At the latest it is written when its whole batch has been worked on: until then "nothing" means little. */
const WRITTEN_MS = 5_000;
/** A drain works off so much under one lease: what the rate allows within it is worth a drain now. */
const AHEAD_MS = 3_000;
/** A drain that was sent for and never asked: send again after this long. */
const LOST_MS = 30_000;
/** The queue did not take a drain: try it again after this long. */
const UNSENT_MS = 2_000;

/** Something was turned away and will wait; it may be let in at `until`, or null when nobody can say. */
export function afterRefusal(drainSchedule: DrainSchedule, until: number | null, now: number): DrainSchedule {
  const waiting = { ...drainSchedule, waitingSince: now };
  return until === null ? waiting : alarmBy(waiting, Math.max(until, now + WRITE_MS), now);
}

/** Something waits in D1 already: only a drain that looks from now on may say otherwise. */
export function afterReport(drainSchedule: DrainSchedule, now: number): DrainSchedule {
  return { ...drainSchedule, waitingSince: Math.max(drainSchedule.waitingSince, now - WRITTEN_MS) };
}

/** Sets the alarm unless it is set for an earlier time already; one long overdue has been lost. */
export function alarmBy(drainSchedule: DrainSchedule, at: number, now: number): DrainSchedule {
  const set = drainSchedule.at !== null && drainSchedule.at <= at && drainSchedule.at > now - LOST_MS;
  return set ? drainSchedule : { ...drainSchedule, at };
}

/**
 * Capacity was given back: if something waits and fewer drains are at work or on their way than the window
 * has room for, ring now.
 */
export function afterRelease(state: GateState, now: number): DrainSchedule {
  if (state.drainSchedule.waitingSince === 0) return state.drainSchedule;
  return drainsMissing(state, now) > 0
    ? alarmBy(state.drainSchedule, now, now)
    : alarmBy(state.drainSchedule, now + LOST_MS, now);
}

/** So many drains more are on their way: sent for, or at work without a lease at the moment, to ask again at once. */
export function withExpected(drainSchedule: DrainSchedule, drains: number, now: number): DrainSchedule {
  const known = onTheirWay(drainSchedule, now);
  // Counted from the first on, so that those who are lost are not counted for ever.
  return {
    ...drainSchedule,
    expected: known + drains,
    expectedSince: known > 0 ? drainSchedule.expectedSince : now,
  };
}

/** So many of the drains that were to be sent for could not be: they are not on their way, and it rings again soon. */
export function afterUnsent(drainSchedule: DrainSchedule, drains: number, now: number): DrainSchedule {
  return alarmBy(
    { ...drainSchedule, expected: Math.max(0, drainSchedule.expected - drains) },
    now + UNSENT_MS,
    now,
  );
}

/** A drain that looked at `lookedAt` has come and found nothing to do. What was turned away since still waits. */
export function afterEmpty(before: DrainSchedule, lookedAt: number, now: number): DrainSchedule {
  const drainSchedule = afterArrival(before);
  const sureAt = drainSchedule.waitingSince + WRITTEN_MS;
  if (lookedAt >= sureAt) return { ...drainSchedule, waitingSince: 0, at: null };
  return alarmBy(drainSchedule, Math.max(sureAt, now + WRITE_MS), now);
}

/** A drain has come and asks. */
export function afterArrival(drainSchedule: DrainSchedule): DrainSchedule {
  return drainSchedule.expected === 0
    ? drainSchedule
    : { ...drainSchedule, expected: drainSchedule.expected - 1 };
}

export type DrainDecision = Readonly<{
  drainSchedule: DrainSchedule;
  /** Drains to send for. */
  drains: number;
  /** Drains that will then be at work side by side, at most: each looks past what the others have leased. */
  abreast: number;
}>;

/** The alarm has gone off: how many drains to send for, and when to ring next. */
export function drainsDue(state: GateState, now: number): DrainDecision {
  const silent = (at: number | null) => ({
    drainSchedule: { ...state.drainSchedule, at },
    drains: 0,
    abreast: 0,
  });
  if (state.drainSchedule.waitingSince === 0) return silent(null);
  const shut = blockedBy(state.destinationState, { paused: false }, now);
  if (shut) return silent(shut.until);
  const drains = drainsMissing(state, now);
  if (drains <= 0) return silent(now + LOST_MS);
  const drainSchedule = { ...withExpected(state.drainSchedule, drains, now), at: now + LOST_MS };
  return { drainSchedule, drains, abreast: drainsWanted(state, now) };
}

/**
 * How many drains the window has room for, and the rate something to send: one invocation works over a few
 * connections only.
 */
function drainsWanted(
  { destinationState, breadth, rate: owners, leases, tat }: GateState,
  now: number,
): number {
  const byWindow = Math.ceil(widthOf(destinationState.window, breadth) / DRAIN_CONNECTIONS);
  const limits = { ratePerSecond: owners.perSecond, rateBurst: owners.burst };
  const rate = effectiveRate(destinationState.adaptiveLimit, limits, now);
  const byRate = Math.ceil(sendsBy(now + AHEAD_MS, tatOf(leases, tat), rate, now) / DRAIN_CONNECTIONS);
  return Math.max(1, Math.min(byWindow, byRate));
}

function drainsMissing(state: GateState, now: number): number {
  // A drain that goes on from one lease to the next has two for a while: the first has no slots any more.
  const isAtWork = ({ lane, slots }: Lease) => sideOf(lane) === "backlog" && slots > 0;
  const atWork = live(state.leases, now).filter(isAtWork).length;
  return drainsWanted(state, now) - atWork - onTheirWay(state.drainSchedule, now);
}

function onTheirWay({ expectedSince, expected }: DrainSchedule, now: number): number {
  return now - expectedSince < LOST_MS ? expected : 0;
}

// §§ How far a drain looks for deliveries that no other drain holds: no further than it must, because D1 bills
// what is looked at, and does one thing at a time.
//
// At the ends of what waits it finds as many as it may lease, unless others are at work there. Then it looks
// a little further, and at a place of its own between the ends, which costs the same however many drains work
// side by side. Only where that is taken too, it looks at as many as all of them together may hold.

/** Deliveries that one drain leases at once: as many as a bundle has, so that each is loaded once. */
export const LEASED = 100;

export type DrainRange = Readonly<{
  /** Deliveries looked at from each end of what waits, and from a place between them. */
  perEnd: number;
  between: number;
  /** Whether a drain that finds nothing here has to wait for the others. */
  isFurthest: boolean;
}>;

/**
 * @param drains at work side by side, this one included
 * @param distance 0 is the nearest; so many times it has been too crowded there
 * @param own deliveries that it is working off while it looks: it looks past them, and past what others hold so
 */
export function drainRangeOf(drains: number, distance: number, own = 0): DrainRange {
  const held = own > 0 ? 2 : 1;
  // For a few drains it is not worth another call of the gate.
  const isFurthest = drains <= 3 || distance > 1;
  if (isFurthest) return { perEnd: (LEASED / 2) * drains * held, between: 0, isFurthest };
  return distance === 0
    ? { perEnd: (LEASED / 2) * held, between: 0, isFurthest }
    : { perEnd: LEASED, between: LEASED, isFurthest };
}

/**
 * How far a drain looks next. Where others have been they still are: it does not go back to the nearest, which
 * is for whoever comes first.
 * @param crowded whether others held most of what it looked at
 */
export function nextDistance(distance: number, crowded: boolean): number {
  return crowded ? distance + 1 : Math.min(distance, 1);
}
