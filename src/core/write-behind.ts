/**
 * What a gate writes before it answers, and what it leaves to a later write. Each write is billed.
 *
 * The object works from memory, and storage may be behind it by what a crash would not hurt: leases granted out of
 * the slack, leases that have ended, successes counted, a window grown by them. Everything else is written before the
 * answer goes out. What is behind is written with the next thing that must be, or ten seconds after the last write, by
 * the alarm. So a crash loses less than ten seconds of successes from the figures, and nothing else.
 *
 * `max_concurrency` holds through any crash, and while an instance that has been cut off still answers beside its
 * successor. The slack is like a lease that the object has granted itself: it is stored, as many slots as it has are
 * taken in the eyes of everybody else, and it expires. Only the incarnation that stored it grants leases out of it,
 * only for ten seconds, and only such as expire before it does. Whoever begins without a memory takes it for in
 * flight until then. So it counts at least what its predecessor has in flight, what that one may still grant
 * included, and grants only what the limit leaves beside it. A limit that has changed is stored before anything is
 * granted under it; only of one that is raised and lowered again within ten seconds does an instance hear too late
 * that has been cut off meanwhile.
 *
 * At most half of the limit is slack, the rest of its predecessors included, so that no incarnation finds all of it
 * taken by what it does not know. There is none below two; none while the window is one, as behind any door that has
 * just been shut; and none for deliveries that come alone, because it would be in the way of the next
 * incarnation's first.
 */

import type { Circuit } from "./circuit-breaker.ts";
import { type Window, widthOf } from "./concurrency-window.ts";
import { blockedBy, type DestinationState } from "./destination-state.ts";
import { drainsDue } from "./drain-scheduler.ts";
import { type GateState, newGateState, type Slack, sideOf } from "./gate-state.ts";
import { type Lease, live, slotsOf, widthsOf } from "./lease.ts";
import { results } from "./metrics.ts";
import { effectiveRate } from "./rate-limit.ts";
import type { Rollups } from "./rollups.ts";

/** For so long after its last write a gate grants from memory, and leaves what it counts unwritten. */
export const BEHIND_MS = 10_000;
/** So long after the last ask it may be over: the object could be gone before it would have used its slack. */
const PAUSE_MS = 5_000;
/** A rate below one in so many ms is counted from what is stored alone: nobody waits longer for what is not known. */
const SLOWEST_MS = 1_000;

/** A gate in memory. */
export type Memory = Readonly<{
  state: GateState;
  /** What this incarnation has written last; null before it has written anything. */
  written: Written | null;
  /** Whether storage lacks what was settled. */
  isBehind: boolean;
  /** When the alarm goes off, as far as this incarnation knows. */
  alarmAt: number | null;
  /** When live traffic asked last but one. */
  askedBefore: number;
  /** How long the last lease of live traffic lasts; 0: not known yet. */
  leaseMs: number;
}>;

type Written = Readonly<{ at: number; leases: ReadonlySet<string>; slack: Slack | null }>;

/** What is to be done before the answer goes out. */
export type Step = Readonly<{
  memory: Memory;
  /** Whether `memory.state` is to be stored. */
  writes: boolean;
  /** What the alarm is to be set to, null for no alarm; undefined when it stays as it is. */
  alarm?: number | null;
}>;

/**
 * The memory of a new incarnation. It assumes the worst of what another may have done out of the slack: that all of it
 * is in flight, that the rate's burst is spent, and that any delivery may have been settled up to now.
 * @param stored undefined when nothing is
 */
export function restored(stored: GateState | undefined, now: number): Memory {
  const state = stored ? reborn(stored, now) : newGateState(now);
  return {
    state,
    written: null,
    isBehind: false,
    alarmAt: state.drainSchedule.at,
    askedBefore: 0,
    leaseMs: 0,
  };
}

function reborn(stored: GateState, now: number): GateState {
  const state = { ...stored, incarnation: stored.incarnation + 1, slack: null };
  const { slack } = stored;
  if (!slack) return state;
  const { slots, width, expiresAt } = slack;
  const id = `lost-${state.incarnation}`;
  const lost = { id, lane: "fresh", slots, width, deliveries: "", lost: true, tat: 0, expiresAt } as const;
  return {
    ...state,
    leases: live([...state.leases, lost], now),
    tat: Math.max(state.tat, Math.min(now, slack.grantsUntil) + slack.aheadMs),
    forgottenAt: Math.max(state.forgottenAt, Math.min(now, expiresAt)),
  };
}

/** What becomes of the memory, and of storage, when the state changes so. */
export function afterDecision(before: Memory, after: GateState, now: number): Step {
  const memory = heard(before, after, now);
  const isLate = memory.isBehind && !mayStayBehind(memory, now);
  return mayWait(before, after, now) && !isLate
    ? alarmed(before, memory, now, false)
    : written(before, memory, now);
}

export type AlarmStep = Step & Readonly<{ drains: number; abreast: number }>;

/**
 * The alarm has gone off: what is behind is written, and drains are sent for when it is their time. Too early for
 * that, the bell is left to its time, or to the end of what shuts the door.
 */
export function afterAlarm(before: Memory, now: number): AlarmStep {
  const silent = { ...before, alarmAt: null };
  const { state } = before;
  const isDue =
    state.drainSchedule.at !== null &&
    (state.drainSchedule.at <= now || blockedBy(state.destinationState, { paused: false }, now));
  const { drainSchedule, drains, abreast } = isDue
    ? drainsDue(state, now)
    : { drainSchedule: state.drainSchedule, drains: 0, abreast: 0 };
  const memory = { ...silent, state: { ...state, drainSchedule } };
  const step =
    memory.isBehind || !isSame(drainSchedule, state.drainSchedule)
      ? written(silent, memory, now)
      : alarmed(silent, memory, now, false);
  return { ...step, drains, abreast };
}

function heard(before: Memory, state: GateState, now: number): Memory {
  const { turns, settled, rollups, destinationState, granted } = before.state;
  const newest = state.granted === granted ? undefined : state.leases.at(-1);
  const changed =
    state.settled !== settled || state.rollups !== rollups || state.destinationState !== destinationState;
  return {
    ...before,
    state,
    isBehind: before.isBehind || changed,
    askedBefore: state.turns === turns ? before.askedBefore : turns.live.askedAt,
    leaseMs: newest && sideOf(newest.lane) === "live" ? newest.expiresAt - now : before.leaseMs,
  };
}

/**
 * Whether what is behind may wait for the alarm. What comes alone is written at once, because the alarm and its write
 * cost a row each.
 */
function mayStayBehind(memory: Memory, now: number): boolean {
  const { written, alarmAt } = memory;
  if (written === null || !isWithin(written.at, BEHIND_MS, now)) return false;
  const comes = alarmAt !== null && alarmAt > now && alarmAt <= written.at + BEHIND_MS;
  return comes || isBusy(memory, now);
}

/** Whether live traffic has asked twice of late, and goes on. */
function isBusy({ state, askedBefore }: Memory, now: number): boolean {
  return now - askedBefore < BEHIND_MS && now - state.turns.live.askedAt < PAUSE_MS;
}

/** Not when the clock has gone back: nobody knows how much time has passed. */
function isWithin(from: number, ms: number, now: number): boolean {
  return now >= from && now < from + ms;
}

function written(before: Memory, memory: Memory, now: number): Step {
  const { slack: _, ...rest } = memory.state;
  const slack = isBusy(memory, now) ? slackOf(memory, now) : null;
  const state = { ...rest, slack };
  const leases = new Set(state.leases.map(({ id }) => id));
  const next = { ...memory, state, written: { at: now, leases, slack }, isBehind: false };
  return alarmed(before, next, now, true);
}

/** With what the alarm is to be set to. One that is early is left alone, and set again when it has gone off. */
function alarmed(before: Memory, after: Memory, now: number, writes: boolean): Step {
  const { alarmAt } = before;
  const [rang, rings] = [before.state.drainSchedule.at, after.state.drainSchedule.at];
  const flushAt = after.isBehind && after.written ? after.written.at + BEHIND_MS : null;
  const at = earlier(rings, flushAt);
  // One that was to flush and is long over has been lost. The bell looks after its own.
  const comes = alarmAt !== null && (alarmAt > now || alarmAt === rings) ? alarmAt : null;
  const isTooLate = at !== null && (comes === null || comes > at);
  const isForNothing = alarmAt === rang && rang !== rings;
  if (at === alarmAt || !(isTooLate || isForNothing)) return { memory: after, writes };
  return { memory: { ...after, alarmAt: at }, writes, alarm: at };
}

function earlier(a: number | null, b: number | null): number | null {
  return a === null || b === null ? (a ?? b) : Math.min(a, b);
}

/** What is left of half the limit, and of half the window. */
function slackOf({ state, leaseMs }: Memory, now: number): Slack | null {
  const { window, adaptiveLimit } = state.destinationState;
  const { perSecond, burst } = effectiveRate(
    adaptiveLimit,
    { ratePerSecond: state.rate.perSecond, rateBurst: state.rate.burst },
    now,
  );
  const everyMs = 1000 / perSecond;
  if (leaseMs === 0 || everyMs > SLOWEST_MS) return null;
  const lost = live(state.leases, now).filter((lease) => lease.lost);
  const slots = Math.floor(state.maxConcurrency / 2) - slotsOf(lost);
  const width = Math.floor(widthOf(window, state.maxConcurrency) / 2) - widthsOf(lost);
  if (slots < 1 || width < 1) return null;
  const grantsUntil = now + BEHIND_MS;
  return {
    slots,
    width,
    grantsUntil,
    expiresAt: grantsUntil + leaseMs,
    aheadMs: Math.min(Math.ceil(burst * everyMs), BEHIND_MS),
  };
}

function mayWait({ state: before, written }: Memory, after: GateState, now: number): boolean {
  if (!parts.every((part) => partMayWait(part, before, after))) return false;
  const isGranted = after.granted !== before.granted;
  if (!written) return !isGranted;
  const { at, leases, slack } = written;
  const unstored = after.leases.filter(({ id }) => !leases.has(id));
  return !isGranted || (slack !== null && fits(unstored, slack, at, now));
}

/** Whether all that is in flight beside what is stored is within the slack, with the newest of the leases. */
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

/** For each part of the state, whether its change may wait. Leases are looked at apart. */
const rules: Rules = {
  version: isSame,
  destinationState: onlyTrustHasGrown,
  tat: always,
  leases: always,
  settled: always,
  forgottenAt: always,
  granted: always,
  incarnation: isSame,
  slack: always,
  turns: (before, after) =>
    before.live.wantedAt === after.live.wantedAt && before.backlog.wantedAt === after.backlog.wantedAt,
  maxConcurrency: isSame,
  rate: isSame,
  drainSchedule: isSame,
  rollups: onlySuccessesCounted,
  failureStreak: isSame,
  holding: isSame,
  alertState: isSame,
  deadLetterDigest: isSame,
  testedAt: isSame,
  history: isSame,
};

const parts = Object.keys(rules) as (keyof GateState)[];

function partMayWait<Part extends keyof GateState>(part: Part, before: GateState, after: GateState): boolean {
  return before[part] === after[part] || rules[part](before[part], after[part]);
}

function onlyTrustHasGrown(before: DestinationState, after: DestinationState): boolean {
  return (
    before.heldUntil === after.heldUntil &&
    isSame(before.adaptiveLimit, after.adaptiveLimit) &&
    isNoSmaller(before.window, after.window) &&
    hasNotFailed(before.circuit, after.circuit)
  );
}

function isNoSmaller(before: Window, after: Window): boolean {
  const isTroubled = (after.troubled ?? false) && !before.troubled;
  return after.size >= before.size && after.threshold === before.threshold && !isTroubled;
}

/** Whether a circuit was closed and has stayed so without another failure. */
function hasNotFailed(before: Circuit, after: Circuit): boolean {
  if (before.kind !== "closed" || after.kind !== "closed") return isSame(before, after);
  const known = new Map(before.slices.map(({ from, failures }) => [from, failures]));
  const isNew = ({ from, failures }: (typeof after.slices)[number]) => failures > (known.get(from) ?? 0);
  return !after.slices.some(isNew);
}

function onlySuccessesCounted({ ever: before }: Rollups, { ever: after }: Rollups): boolean {
  const isCalm = results.every((result, i) => result === "2xx" || before.results[i] === after.results[i]);
  return isCalm && before.dead === after.dead;
}

/** Of values such as JSON has. */
function isSame(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false;
  const own = a as Readonly<Record<string, unknown>>;
  const other = b as Readonly<Record<string, unknown>>;
  const names = Object.keys(own);
  return names.length === Object.keys(other).length && names.every((name) => isSame(own[name], other[name]));
}
