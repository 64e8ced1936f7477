/**
 * The gate's bell: when to send for drains, and how many, because something waits in D1 and the door may
 * open.
 *
 * There is one alarm. It is set to the earliest moment at which anything could be let in; when it rings
 * too early it is set again, so a later reason never overwrites an earlier one and none is forgotten.
 */
import { rateUnder } from "./ceiling.ts";
import { shutBy } from "./condition.ts";
import { type Bell, type GateState, sideOf } from "./gate-state.ts";
import { type Lease, live, tatOf } from "./lease.ts";
import { sendsBy } from "./rate.ts";
import { widthOf } from "./window.ts";

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
export function turnedAway(bell: Bell, until: number | null, now: number): Bell {
  const waiting = { ...bell, waitingSince: now };
  return until === null ? waiting : sooner(waiting, Math.max(until, now + WRITE_MS), now);
}

/** Something waits in D1 already: only a drain that looks from now on may say otherwise. */
export function told(bell: Bell, now: number): Bell {
  return { ...bell, waitingSince: Math.max(bell.waitingSince, now - WRITTEN_MS) };
}

/** Sets the alarm unless it is set for an earlier time already; one long overdue has been lost. */
export function sooner(bell: Bell, at: number, now: number): Bell {
  const set = bell.at !== null && bell.at <= at && bell.at > now - LOST_MS;
  return set ? bell : { ...bell, at };
}

/**
 * Capacity was given back: if something waits and fewer drains are at work or on their way than the window
 * has room for, ring now.
 */
export function freed(state: GateState, now: number): Bell {
  if (state.bell.waitingSince === 0) return state.bell;
  return drainsMissing(state, now) > 0
    ? sooner(state.bell, now, now)
    : sooner(state.bell, now + LOST_MS, now);
}

/** So many drains more are on their way: sent for, or at work without a lease at the moment, to ask again at once. */
export function expecting(bell: Bell, drains: number, now: number): Bell {
  const known = onTheirWay(bell, now);
  // Counted from the first on, so that those who are lost are not counted for ever.
  return { ...bell, expected: known + drains, rungAt: known > 0 ? bell.rungAt : now };
}

/** So many of the drains that were to be sent for could not be: they are not on their way, and it rings again soon. */
export function unsent(bell: Bell, drains: number, now: number): Bell {
  return sooner({ ...bell, expected: Math.max(0, bell.expected - drains) }, now + UNSENT_MS, now);
}

/** A drain that looked at `lookedAt` has come and found nothing to do. What was turned away since still waits. */
export function emptied(before: Bell, lookedAt: number, now: number): Bell {
  const bell = answered(before);
  const sureAt = bell.waitingSince + WRITTEN_MS;
  if (lookedAt >= sureAt) return { ...bell, waitingSince: 0, at: null };
  return sooner(bell, Math.max(sureAt, now + WRITE_MS), now);
}

/** A drain has come and asks. */
export function answered(bell: Bell): Bell {
  return bell.expected === 0 ? bell : { ...bell, expected: bell.expected - 1 };
}

export type Ring = Readonly<{
  bell: Bell;
  /** Drains to send for. */
  drains: number;
  /** Drains that will then be at work side by side, at most: each looks past what the others have leased. */
  abreast: number;
}>;

/** The alarm has gone off: how many drains to send for, and when to ring next. */
export function rings(state: GateState, now: number): Ring {
  const silent = (at: number | null) => ({ bell: { ...state.bell, at }, drains: 0, abreast: 0 });
  if (state.bell.waitingSince === 0) return silent(null);
  const shut = shutBy(state.condition, { paused: false }, now);
  if (shut) return silent(shut.until);
  const drains = drainsMissing(state, now);
  if (drains <= 0) return silent(now + LOST_MS);
  const bell = { ...expecting(state.bell, drains, now), at: now + LOST_MS };
  return { bell, drains, abreast: drainsWanted(state, now) };
}

/**
 * How many drains the window has room for, and the rate something to send: one invocation works over a few
 * connections only.
 */
function drainsWanted({ condition, breadth, rate: owners, leases, tat }: GateState, now: number): number {
  const byWindow = Math.ceil(widthOf(condition.window, breadth) / DRAIN_CONNECTIONS);
  const limits = { ratePerSecond: owners.perSecond, rateBurst: owners.burst };
  const rate = rateUnder(condition.ceiling, limits, now);
  const byRate = Math.ceil(sendsBy(now + AHEAD_MS, tatOf(leases, tat), rate, now) / DRAIN_CONNECTIONS);
  return Math.max(1, Math.min(byWindow, byRate));
}

function drainsMissing(state: GateState, now: number): number {
  // A drain that goes on from one lease to the next has two for a while: the first has no slots any more.
  const isAtWork = ({ lane, slots }: Lease) => sideOf(lane) === "backlog" && slots > 0;
  const atWork = live(state.leases, now).filter(isAtWork).length;
  return drainsWanted(state, now) - atWork - onTheirWay(state.bell, now);
}

function onTheirWay({ rungAt, expected }: Bell, now: number): number {
  return now - rungAt < LOST_MS ? expected : 0;
}
