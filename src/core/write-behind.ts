/**
 * Write-behind: the parts of a gate's state that are stored before it returns a result, and those that are left to a
 * later write. Each write is billed.
 *
 * The object works from memory. Storage may lack changes whose loss is harmless: leases granted out of the slack,
 * leases that have ended, successes counted, and growth of the window. Everything else is written before the result
 * goes out. These are written with the next necessary write, or by the alarm ten seconds after the last one. Few
 * successes set no alarm, because it costs a row and its write another. So a crash loses less than ten seconds of
 * counted successes, or else ten of them at most and no more than this incarnation has stored; and nothing else. The
 * success of a lone delivery never causes a write: see lone-lease.ts.
 *
 * `max_concurrency` holds through any crash, and while an instance that was cut off still answers beside its successor
 * (an incarnation is one life of the object in memory). The slack is like a lease that the object grants itself: it is
 * stored, it takes slots, and it expires. Only the incarnation that stored it grants leases out of it, only for ten
 * seconds (thirty in sparse traffic), and only leases that expire before the slack does. An incarnation that begins
 * without memory counts the stored slack as in flight until it expires. So it counts at least what its predecessor has
 * in flight or may still grant, and grants only what the limit leaves beside that. A changed limit is stored before
 * anything is granted under it. One case remains: a limit that is raised and lowered again while the slack of an
 * instance that was cut off lasts, which learns of it too late. That instance learns too late of holds and openings as
 * well.
 *
 * At most half of the limit is slack, including what is left of predecessors' slack, so that no incarnation finds the
 * whole limit taken by leases it does not know. There is no slack if the limit is below two; none while the window is
 * one, as after any circuit or hold; and none for deliveries that come alone, because it would be in the way of the
 * next incarnation's first.
 */

import type { Circuit } from "./circuit-breaker.ts";
import { type Window, widthOf } from "./concurrency-window.ts";
import type { DestinationState } from "./destination-state.ts";
import { type DrainDecision, drainsDue, waitsFor } from "./drain-scheduler.ts";
import { type GateState, newGateState, type Slack, sideOf } from "./gate-state.ts";
import { type Lease, liveLeases, slotsOf, widthsOf } from "./lease.ts";
import { endsEvidence, endsOnlyLone, inherited } from "./lone-lease.ts";
import { effectiveRate } from "./rate-limit.ts";
import { results } from "./retry/classify.ts";
import type { Rollups } from "./rollups.ts";

/** How long after its last write a gate may grant from memory, and leave successes unwritten. */
export const BEHIND_MS = 10_000;
/** The same in sparse traffic: the rows of a gate that is called every few seconds are most of what its deliveries cost. */
export const SPARSE_BEHIND_MS = 30_000;
/** Traffic is sparse while its last two requests were at least this far apart. */
const SPARSE_GAP_MS = 1_000;
/** The number of successes that may be lost with the object's memory in sparse traffic. */
const FEW_SUCCESSES = 10;
/** The time after live traffic's last request at which the object may be evicted before it would use its slack. */
const IDLE_MS = 5_000;
/** No slack for a rate below one send in this time: the next incarnation would wait that long for an unknown send. */
const SLOWEST_INTERVAL_MS = 1_000;

export type GateMemory = Readonly<{
  state: GateState;
  /** This incarnation's last write; null before it. */
  written: Written | null;
  /** Whether storage lacks anything that was settled. */
  isBehind: boolean;
  /** When the alarm is set for, as far as this incarnation knows. */
  alarmAt: number | null;
  /** When live traffic made its last request but one for a lease. */
  askedBefore: number;
  /** The duration of live traffic's last lease; 0: not known yet. */
  leaseMs: number;
  /** Successes that this incarnation has counted. */
  successes: number;
}>;

type Written = Readonly<{ at: number; leases: ReadonlySet<string>; slack: Slack | null; successes: number }>;

/** The actions before the result goes out. */
export type GateStep = Readonly<{
  memory: GateMemory;
  /** Whether `memory.state` is to be stored. */
  writes: boolean;
  /** The new time of the alarm; null deletes it, undefined leaves it. */
  alarm?: number | null;
}>;

/**
 * The memory of a new incarnation. It assumes the worst about its predecessor's slack: that all of it is in flight,
 * that the rate's burst is spent, and that any delivery may have been settled up to now.
 * @param stored undefined when nothing is stored
 */
export function restored(stored: GateState | undefined, now: number): GateMemory {
  const state = stored ? nextIncarnation(stored, now) : newGateState(now);
  return {
    state,
    written: null,
    isBehind: false,
    alarmAt: state.drainSchedule.at,
    askedBefore: 0,
    leaseMs: 0,
    successes: 0,
  };
}

function nextIncarnation(stored: GateState, now: number): GateState {
  const { slack } = stored;
  const leases = inherited(stored.leases);
  const known = { slack: null, membership: null };
  const state = { ...stored, leases, incarnation: stored.incarnation + 1, ...known };
  if (!slack) return state;
  const { slots, width, expiresAt } = slack;
  const id = `lost-${state.incarnation}`;
  const lost = { id, lane: "fresh", slots, width, deliveries: "", lost: true, tat: 0, expiresAt } as const;
  return {
    ...state,
    leases: expiresAt > now ? [...leases, lost] : leases,
    tat: Math.max(state.tat, Math.min(now, slack.grantsUntil) + slack.aheadMs),
    forgottenAt: Math.max(state.forgottenAt, Math.min(now, expiresAt)),
  };
}

/** The memory after a decision, and whether to write it before the result goes out. */
export function afterDecision(before: GateMemory, after: GateState, now: number): GateStep {
  const memory = withState(before, after, now);
  const isLate = memory.isBehind && !mayStayBehind(memory, now);
  return mayWait(before, after, now) && !isLate
    ? withAlarm(before, memory, now, false)
    : withWrite(before, memory, now);
}

/**
 * Handles the alarm: unstored changes are written, and drains are enqueued if they are due. If it is too early for
 * them, they stay scheduled for their time, or for the end of the block of the destination.
 */
export function afterAlarm(
  before: GateMemory,
  now: number,
): GateStep & Pick<DrainDecision, "drains" | "drainsAtWork"> {
  const fired = { ...before, alarmAt: null };
  const { state } = before;
  const isDue = state.drainSchedule.at !== null && (state.drainSchedule.at <= now || waitsFor(state, now));
  const { drainSchedule, drains, drainsAtWork } = isDue
    ? drainsDue(state, now)
    : { drainSchedule: state.drainSchedule, drains: 0, drainsAtWork: 0 };
  const memory = { ...fired, state: { ...state, drainSchedule } };
  const step =
    memory.isBehind || !isSame(drainSchedule, state.drainSchedule)
      ? withWrite(fired, memory, now)
      : withAlarm(fired, memory, now, false);
  return { ...step, drains, drainsAtWork };
}

function withState(before: GateMemory, state: GateState, now: number): GateMemory {
  const { turns, settled, rollups, destinationState, granted } = before.state;
  const newest = state.granted === granted ? undefined : state.leases.at(-1);
  const isUnneeded = !before.written?.slack && endsOnlyLone(before.state, state);
  const changed =
    state.settled !== settled || state.rollups !== rollups || state.destinationState !== destinationState;
  return {
    ...before,
    state,
    isBehind: before.isBehind || (changed && !isUnneeded),
    askedBefore: state.turns === turns ? before.askedBefore : turns.live.askedAt,
    leaseMs: newest && sideOf(newest.lane) === "live" ? newest.expiresAt - now : before.leaseMs,
    successes: before.successes + state.rollups.ever.delivered - rollups.ever.delivered,
  };
}

/**
 * Whether unstored changes may wait for the alarm. A lone change is written at once, because setting the alarm and its
 * write cost a row each.
 */
function mayStayBehind(memory: GateMemory, now: number): boolean {
  const { written, alarmAt } = memory;
  if (written === null) return false;
  if (lacksFew(memory) && isWithin(written.at, SPARSE_BEHIND_MS, now)) return true;
  if (!isWithin(written.at, BEHIND_MS, now)) return false;
  const isSet = alarmAt !== null && alarmAt > now && alarmAt <= written.at + BEHIND_MS;
  return isSet || isBusy(memory, now);
}

/** Whether the unwritten successes are few enough, in sparse traffic, to be lost: then none of them sets the alarm. */
function lacksFew({ written, successes }: GateMemory): boolean {
  if (!written?.slack || written.slack.grantsUntil - written.at < SPARSE_BEHIND_MS) return false;
  return successes - written.successes <= Math.min(FEW_SUCCESSES, written.successes);
}

/** Whether live traffic made two requests recently, and continues. */
function isBusy({ state, askedBefore }: GateMemory, now: number): boolean {
  return now - askedBefore < BEHIND_MS && now - state.turns.live.askedAt < IDLE_MS;
}

/** False when the clock was set back: how much time has passed is unknown. */
function isWithin(from: number, ms: number, now: number): boolean {
  return now >= from && now < from + ms;
}

function withWrite(before: GateMemory, memory: GateMemory, now: number): GateStep {
  const slack = isBusy(memory, now) ? slackOf(memory, now) : null;
  const state = { ...memory.state, slack };
  const stored = new Set(state.leases.map(({ id }) => id));
  const written = { at: now, leases: stored, slack, successes: memory.successes };
  const next = { ...memory, state, written, isBehind: false };
  return withAlarm(before, next, now, true);
}

/** Adds what to set the alarm to. An alarm that is too early is left alone, and set again when it has gone off. */
function withAlarm(before: GateMemory, after: GateMemory, now: number, writes: boolean): GateStep {
  const { alarmAt } = before;
  const [drainsWereAt, drainsAt] = [before.state.drainSchedule.at, after.state.drainSchedule.at];
  const flushAt = after.isBehind && after.written && !lacksFew(after) ? after.written.at + BEHIND_MS : null;
  const at = earlier(drainsAt, flushAt);
  // An overdue alarm was lost. One for drains is as wanted until the drain scheduler judges it lost, and moves them.
  const setFor = alarmAt !== null && alarmAt > now ? alarmAt : null;
  const isTooLate = at !== null && (setFor === null || setFor > at);
  const wasForDrains = alarmAt === drainsWereAt;
  if (at === alarmAt || !(isTooLate || wasForDrains)) return { memory: after, writes };
  return { memory: { ...after, alarmAt: at }, writes, alarm: at };
}

function earlier(a: number | null, b: number | null): number | null {
  return a === null || b === null ? (a ?? b) : Math.min(a, b);
}

/**
 * The part of half the limit, and of half the window, that predecessors' slack leaves. It lasts longer in sparse
 * traffic, but only where it leaves the next incarnation a slot beside all stored leases, whose ends may stay unwritten
 * for as long.
 */
function slackOf({ state, leaseMs, askedBefore }: GateMemory, now: number): Slack | null {
  const { window, adaptiveLimit } = state.destinationState;
  const { perSecond, burst } = effectiveRate(
    adaptiveLimit,
    { ratePerSecond: state.rate.perSecond, rateBurst: state.rate.burst },
    now,
  );
  const everyMs = 1000 / perSecond;
  if (leaseMs === 0 || everyMs > SLOWEST_INTERVAL_MS) return null;
  const live = liveLeases(state.leases, now);
  const lost = live.filter((lease) => lease.lost);
  const trusted = widthOf(window, state.maxConcurrency);
  const slots = Math.floor(state.maxConcurrency / 2) - slotsOf(lost);
  const width = Math.floor(trusted / 2) - widthsOf(lost);
  if (slots < 1 || width < 1) return null;
  const isSparse = state.turns.live.askedAt - askedBefore >= SPARSE_GAP_MS;
  const leavesRoom = slots + slotsOf(live) < state.maxConcurrency && width + widthsOf(live) < trusted;
  const grantsUntil = now + (isSparse && leavesRoom ? SPARSE_BEHIND_MS : BEHIND_MS);
  return {
    slots,
    width,
    grantsUntil,
    expiresAt: grantsUntil + leaseMs,
    aheadMs: Math.min(Math.ceil(burst * everyMs), BEHIND_MS),
  };
}

function mayWait({ state: before, written }: GateMemory, after: GateState, now: number): boolean {
  if (!parts.every((part) => partMayWait(part, before, after)) || endsEvidence(before, after, now))
    return false;
  const isGranted = after.granted !== before.granted;
  if (!written) return !isGranted;
  const { at, leases, slack } = written;
  const unstored = after.leases.filter(({ id }) => !leases.has(id));
  return !isGranted || (slack !== null && fits(unstored, slack, at, now));
}

/** Whether the leases that are not stored, with the newest of them, are within the slack. */
function fits(unstored: readonly Lease[], slack: Slack, writtenAt: number, now: number): boolean {
  const newest = unstored.at(-1);
  return (
    newest !== undefined &&
    now >= writtenAt &&
    now < slack.grantsUntil &&
    sideOf(newest.lane) === "live" &&
    newest.expiresAt <= slack.expiresAt &&
    newest.tat <= now + slack.aheadMs &&
    slotsOf(unstored) <= slack.slots &&
    widthsOf(unstored) <= slack.width
  );
}

type Rules = {
  readonly [Part in keyof GateState]: (before: GateState[Part], after: GateState[Part]) => boolean;
};

const always = () => true;

/** For each part of the state, whether its change may wait. Leases are checked by `mayWait`. */
const rules: Rules = {
  version: isSame,
  destinationState: isNoWorse,
  tat: always,
  leases: always,
  presumed: always,
  settled: always,
  forgottenAt: always,
  granted: always,
  incarnation: isSame,
  slack: always,
  crashLoop: always,
  turns: (before, after) =>
    before.live.wantedAt === after.live.wantedAt && before.backlog.wantedAt === after.backlog.wantedAt,
  maxConcurrency: isSame,
  rate: isSame,
  drainSchedule: isSame,
  rollups: onlySuccessesCounted,
  failureStreak: isSame,
  transformFaults: isSame,
  holding: isSame,
  alertState: isSame,
  deadLetterDigest: isSame,
  testedAt: isSame,
  history: isSame,
  // The next incarnation treats blocks as spent.
  membership: always,
};

const parts = Object.keys(rules) as (keyof GateState)[];

function partMayWait<Part extends keyof GateState>(part: Part, before: GateState, after: GateState): boolean {
  return before[part] === after[part] || rules[part](before[part], after[part]);
}

function isNoWorse(before: DestinationState, after: DestinationState): boolean {
  return (
    before.heldUntil === after.heldUntil &&
    isSame(before.adaptiveLimit, after.adaptiveLimit) &&
    isNoSmaller(before.window, after.window) &&
    hasNotFailed(before.circuit, after.circuit)
  );
}

function isNoSmaller(before: Window, after: Window): boolean {
  const hasFailed = after.troubled && !before.troubled;
  return after.size >= before.size && after.threshold === before.threshold && !hasFailed;
}

/** Whether a circuit was closed and stayed closed without another failure. */
function hasNotFailed(before: Circuit, after: Circuit): boolean {
  if (before.kind !== "closed" || after.kind !== "closed") return isSame(before, after);
  const known = new Map(before.slices.map(({ from, failures }) => [from, failures]));
  const isNew = ({ from, failures }: (typeof after.slices)[number]) => failures > (known.get(from) ?? 0);
  return !after.slices.some(isNew);
}

function onlySuccessesCounted({ ever: before }: Rollups, { ever: after }: Rollups): boolean {
  const noFailures = results.every((result, i) => result === "2xx" || before.results[i] === after.results[i]);
  return noFailures && before.dead === after.dead;
}

/** Deep equality of JSON values. */
function isSame(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  const own = a as Readonly<Record<string, unknown>>;
  const other = b as Readonly<Record<string, unknown>>;
  const names = Object.keys(own);
  return names.length === Object.keys(other).length && names.every((name) => isSame(own[name], other[name]));
}
