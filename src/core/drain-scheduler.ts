/**
 * The drain scheduler: when deliveries wait in D1 and may be admitted, it decides how many drains to enqueue, and when.
 *
 * There is one alarm, at the earliest time at which anything could be admitted. If it goes off too early it is set
 * again, so a later reason never overwrites an earlier one and none is lost.
 *
 * The second half of the file is for the drains themselves: how far one reads into the backlog for deliveries that no
 * other drain has leased. No further than it must, because D1 bills rows read and handles one query at a time. At the
 * two ends of the backlog it finds as many as it may lease, unless other drains work there. Then it reads a little
 * further, and at a random place between the ends, which costs the same for any number of drains. Only if that is taken
 * too, it reads as many as all drains together may hold.
 */

import { widthOf } from "./concurrency-window.ts";
import { blockedBy } from "./destination-state.ts";
import { type DrainSchedule, type GateState, sideOf } from "./gate-state.ts";
import { CONNECTIONS, type Lease, liveLeases, tatOf } from "./lease.ts";
import { effectiveRate, sendsBy } from "./rate-limit.ts";

/** A refused delivery is written to D1 right after the refusal: a drain should find it there. */
const WRITE_MS = 1_000;
/** It is written with its whole batch at the latest: until then a drain that finds nothing proves nothing. */
const WRITTEN_MS = 5_000;
/**
 * A drain is worth starting now for sends that the rate allows within this time, which is about the length of one
 * lease.
 */
const AHEAD_MS = 3_000;
/** The time after which an enqueued drain that has not requested a lease counts as lost: another is enqueued. */
const LOST_MS = 30_000;
/** The pause after the queue has refused a drain. */
const UNSENT_MS = 2_000;

/** A delivery was refused and will wait. It may be admitted at `until`; null when that is not known. */
export function afterRefusal(drainSchedule: DrainSchedule, until: number | null, now: number): DrainSchedule {
  const waiting = { ...drainSchedule, waitingSince: now };
  return until === null ? waiting : alarmBy(waiting, Math.max(until, now + WRITE_MS), now);
}

/** Deliveries wait in D1 already: a drain that read D1 before now cannot disprove it. */
export function afterReport(drainSchedule: DrainSchedule, now: number): DrainSchedule {
  return { ...drainSchedule, waitingSince: Math.max(drainSchedule.waitingSince, now - WRITTEN_MS) };
}

/** Sets the alarm unless it is set for an earlier time already. One long overdue was lost. */
export function alarmBy(drainSchedule: DrainSchedule, at: number, now: number): DrainSchedule {
  const set = drainSchedule.at !== null && drainSchedule.at <= at && drainSchedule.at > now - LOST_MS;
  return set ? drainSchedule : { ...drainSchedule, at };
}

/** Capacity was given back: drains are due now, if deliveries wait and there is capacity for more drains. */
export function afterRelease(state: GateState, now: number): DrainSchedule {
  if (state.drainSchedule.waitingSince === 0) return state.drainSchedule;
  return drainsMissing(state, now) > 0
    ? alarmBy(state.drainSchedule, now, now)
    : alarmBy(state.drainSchedule, now + LOST_MS, now);
}

/** Notes that this many more drains will request a lease: enqueued, or between two leases. */
export function withExpected(drainSchedule: DrainSchedule, drains: number, now: number): DrainSchedule {
  const known = expectedAt(drainSchedule, now);
  // Timed from the first of them, so that lost drains are not expected for ever.
  return {
    ...drainSchedule,
    expected: known + drains,
    expectedSince: known > 0 ? drainSchedule.expectedSince : now,
  };
}

/** Notes that this many drains could not be enqueued: they are not expected, and due again soon. */
export function afterUnsent(drainSchedule: DrainSchedule, drains: number, now: number): DrainSchedule {
  return alarmBy(
    { ...drainSchedule, expected: Math.max(0, drainSchedule.expected - drains) },
    now + UNSENT_MS,
    now,
  );
}

/** A drain that read D1 at `lookedAt` found nothing waiting. Deliveries refused since still wait. */
export function afterEmpty(before: DrainSchedule, lookedAt: number, now: number): DrainSchedule {
  const drainSchedule = afterArrival(before);
  const sureAt = drainSchedule.waitingSince + WRITTEN_MS;
  if (lookedAt >= sureAt) return { ...drainSchedule, waitingSince: 0, at: null };
  return alarmBy(drainSchedule, Math.max(sureAt, now + WRITE_MS), now);
}

/** One of the expected drains requests a lease. */
export function afterArrival(drainSchedule: DrainSchedule): DrainSchedule {
  return drainSchedule.expected === 0
    ? drainSchedule
    : { ...drainSchedule, expected: drainSchedule.expected - 1 };
}

/**
 * The reason why drains have to wait, and until when. The group calls a member when its turn comes, so its refusal
 * lasts longer than a call should take.
 */
export function waitsFor(
  { destinationState, membership }: GateState,
  now: number,
): Readonly<{ until: number | null }> | undefined {
  const block = blockedBy(destinationState, { paused: false }, now);
  if (block) return block;
  const { until = 0 } = membership?.refusal ?? {};
  return until > now ? { until } : undefined;
}

export type DrainDecision = Readonly<{
  drainSchedule: DrainSchedule;
  /** Drains to enqueue. */
  drains: number;
  /** Drains that then work at the same time, at most: each reads past what the others have leased. */
  drainsAtWork: number;
}>;

/** Handles the alarm: how many drains to enqueue, and when it is due next. */
export function drainsDue(state: GateState, now: number): DrainDecision {
  const none = (at: number | null) => ({
    drainSchedule: { ...state.drainSchedule, at },
    drains: 0,
    drainsAtWork: 0,
  });
  if (state.drainSchedule.waitingSince === 0) return none(null);
  const block = waitsFor(state, now);
  if (block) return none(block.until);
  const drains = drainsMissing(state, now);
  if (drains <= 0) return none(now + LOST_MS);
  const drainSchedule = { ...withExpected(state.drainSchedule, drains, now), at: now + LOST_MS };
  return { drainSchedule, drains, drainsAtWork: drainsWanted(state, now) };
}

/** How many drains the window and the rate can occupy: one invocation has a few connections only. */
function drainsWanted(
  { destinationState, maxConcurrency, rate: owners, leases, tat }: GateState,
  now: number,
): number {
  const byWindow = Math.ceil(widthOf(destinationState.window, maxConcurrency) / CONNECTIONS);
  const limits = { ratePerSecond: owners.perSecond, rateBurst: owners.burst };
  const rate = effectiveRate(destinationState.adaptiveLimit, limits, now);
  const byRate = Math.ceil(sendsBy(now + AHEAD_MS, tatOf(leases, tat), rate, now) / CONNECTIONS);
  return Math.max(1, Math.min(byWindow, byRate));
}

function drainsMissing(state: GateState, now: number): number {
  // A drain that continues with another lease has two for a while, of which the first has no slots left.
  const isAtWork = ({ lane, slots }: Lease) => sideOf(lane) === "backlog" && slots > 0;
  const atWork = liveLeases(state.leases, now).filter(isAtWork).length;
  return drainsWanted(state, now) - atWork - expectedAt(state.drainSchedule, now);
}

function expectedAt({ expectedSince, expected }: DrainSchedule, now: number): number {
  return now - expectedSince < LOST_MS ? expected : 0;
}

/** Deliveries that one drain leases at once: as many as a bundle has, so that a bundle is loaded once. */
export const LEASED = 100;

export type DrainRange = Readonly<{
  /** Deliveries to read from each end of the backlog. */
  perEnd: number;
  /** Deliveries to read from a random place between the ends. */
  between: number;
  /** Whether there is no wider range: a drain that finds nothing here has to wait for the others. */
  isFurthest: boolean;
}>;

/**
 * @param drains at work at the same time, this one included
 * @param distance how many times this drain has found its range taken by others
 * @param own deliveries that it is attempting meanwhile: it reads past them, and past as many of each other drain
 * @param isBlocked whether deliveries at the ends cannot be sent now
 */
export function drainRangeOf(drains: number, distance: number, own = 0, isBlocked = false): DrainRange {
  if (isBlocked) return { perEnd: LEASED, between: LEASED, isFurthest: true };
  const held = own > 0 ? 2 : 1;
  // For a few drains a narrower range does not save enough to be worth another call of the gate.
  const isFurthest = drains <= 3 || distance > 1;
  if (isFurthest) return { perEnd: (LEASED / 2) * drains * held, between: 0, isFurthest };
  return distance === 0
    ? { perEnd: (LEASED / 2) * held, between: 0, isFurthest }
    : { perEnd: LEASED, between: LEASED, isFurthest };
}

/**
 * The distance of a drain's next read. It does not return to the nearest range, because the others are still there.
 * @param crowded whether other drains held most of what it read
 */
export function nextDistance(distance: number, crowded: boolean): number {
  return crowded ? distance + 1 : Math.min(distance, 1);
}

/**
 * Waiting deliveries in four classes: without an attempt and with attempts, each from the oldest on and from the newest back.
 * The first is drawn among those that have any.
 */
export function inClasses<T extends Readonly<{ attempts: number }>>(
  oldest: readonly T[],
  newest: readonly T[],
  drawn: number,
): readonly (readonly T[])[] {
  const isNew = ({ attempts }: T) => attempts === 0;
  const isOld = ({ attempts }: T) => attempts > 0;
  const classes = [oldest.filter(isNew), newest.filter(isNew), oldest.filter(isOld), newest.filter(isOld)];
  const some = classes.filter((list) => list.length > 0);
  const start = Math.floor(drawn * some.length);
  return [...some.slice(start), ...some.slice(0, start)];
}

/** The first of each list, then the second of each, and so on. */
export function interleaved<T>(lists: readonly (readonly T[])[]): T[] {
  const longest = Math.max(0, ...lists.map((list) => list.length));
  return Array.from({ length: longest }, (_, i) => lists.flatMap((list) => list.slice(i, i + 1))).flat();
}
