/**
 * The gate's bell: when to send for a drain, because something waits in D1 and the door may open.
 *
 * There is one alarm. It is set to the earliest moment at which anything could be let in; when it rings
 * too early it is set again, so a later reason never overwrites an earlier one and none is forgotten.
 */
import { shutBy } from "./condition.ts";
import { type Bell, type GateState, sideOf } from "./gate-state.ts";
import { live } from "./lease.ts";

/** A refused delivery is written to D1 right after the refusal: the drain should find it there. */
const WRITE_MS = 1_000;
/** A drain that was sent for and never asked: send again after this long. */
const LOST_MS = 30_000;

/** Something was turned away and will wait; it may be let in at `until`, or null when nobody can say. */
export function turnedAway(bell: Bell, until: number | null, now: number): Bell {
  const waiting = { ...bell, waitingSince: now };
  return until === null ? waiting : sooner(waiting, Math.max(until, now + WRITE_MS), now);
}

/** Sets the alarm unless it is set for an earlier time already; one long overdue has been lost. */
export function sooner(bell: Bell, at: number, now: number): Bell {
  const set = bell.at !== null && bell.at <= at && bell.at > now - LOST_MS;
  return set ? bell : { ...bell, at };
}

/** Capacity was given back: if something waits and no drain is at work or on its way, ring now. */
export function freed(state: GateState, now: number): Bell {
  if (state.bell.waitingSince === 0 || isDraining(state, now)) return state.bell;
  const onItsWay = state.bell.rungAt > state.turns.backlog.askedAt;
  return sooner(state.bell, onItsWay ? state.bell.rungAt + LOST_MS : now, now);
}

/** A drain that looked at `lookedAt` found nothing left to do. What was turned away since still waits. */
export function emptied(bell: Bell, lookedAt: number, now: number): Bell {
  const tooEarly = bell.waitingSince + WRITE_MS > lookedAt;
  return tooEarly ? sooner(bell, now + WRITE_MS, now) : { ...bell, waitingSince: 0, at: null };
}

/** The alarm has gone off: whether to send for a drain, and when to ring next. */
export function rings(state: GateState, now: number): Readonly<{ bell: Bell; drain: boolean }> {
  const silent = (at: number | null) => ({ bell: { ...state.bell, at }, drain: false });
  if (state.bell.waitingSince === 0) return silent(null);
  const shut = shutBy(state.condition, { paused: false }, now);
  if (shut) return silent(shut.until);
  const drains = live(state.leases, now).filter((lease) => sideOf(lease.lane) === "backlog");
  if (drains.length > 0) return silent(Math.min(...drains.map((lease) => lease.expiresAt)));
  return { bell: { ...state.bell, rungAt: now, at: now + LOST_MS }, drain: true };
}

function isDraining(state: GateState, now: number): boolean {
  return live(state.leases, now).some((lease) => sideOf(lease.lane) === "backlog");
}
