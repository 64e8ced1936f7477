/**
 * Members' reports to their group: ends of blocks, and outcomes that may concern the receiver as a whole.
 *
 * On a shared host customers choose what their own path answers. So the group does not rely on one tenant's outcomes:
 * its circuit opens when tenants that fail outvote those that do not, each with one vote; and a 429 holds all until the
 * time that a second tenant has got one as well. One tenant's 429 holds all for a minute at most, and not again while
 * its 429s continue. Only a failure to connect to a group's single host counts from one tenant, because a path cannot
 * cause it.
 */
import { opened } from "../circuit-breaker.ts";
import { grown, halved, reopened } from "../concurrency-window.ts";
import type { BreakerSettings } from "../limits.ts";
import {
  type GroupBlock,
  type GroupSettings,
  type GroupState,
  groupStateAt,
  type TenantVote,
  type ThrottledTenant,
} from "./group-state.ts";

/** The state of a block when its member reports it. */
export type BlockEnd = Readonly<{
  block: string;
  /** Slots that are still in use; 0: the block has ended. */
  slots: number;
  /** Sends at its end that were never made, and will not be; 0 while it is not over. */
  unused: number;
}>;

/** Outcomes of attempts. Plain values. */
export type GroupReport = Readonly<{
  member: string;
  tenant: string;
  ends: readonly BlockEnd[];
  /** Attempts that were answered below 500. */
  succeeded: number;
  /** Answered with a 5xx, too late, or not at all. */
  failed: number;
  /** The number of failed attempts that could not even connect. */
  unreached: number;
  /** Answered 429. */
  limited: number;
  /**
   * How much longer the receiver requested a hold, ms; 0: not at all. Clocks differ, so it counts from the report's
   * arrival.
   */
  waitMs: number;
  /** The block under which they were made. */
  block?: string;
  /** Whether all members send to one host. */
  isOneHost: boolean;
}>;

/** How long one tenant's 429 may hold all. */
const ALONE_MS = 60_000;
/** How long the tenant must have had none before. */
const QUIET_MS = 3_600_000;
/** Two tenants that were refused within this time were refused for the same cause. */
const SAME_CAUSE_MS = 60_000;
/** All refusals within this are one round. */
const ROUND_MS = 1_000;
/** The longest hold of a group. */
const LONGEST_HOLD_MS = 30 * 86_400_000;
const MAX_TENANTS = 200;

/** The outcome is `counted` when the failures are the group's: then they do not count in the member's own circuit. */
export function afterGroupReport(
  before: GroupState,
  report: GroupReport,
  settings: GroupSettings,
  now: number,
  random: number,
): Readonly<{ state: GroupState; counted: boolean }> {
  const start: Reported = { ...groupStateAt(before, now), settings };
  const isProbe = start.blocks.find(({ id }) => id === report.block)?.probe === true;
  const held = withThrottled(withEnds(start, report), report, now);
  const outcome = (isProbe ? afterProbe : withVotes)(held, report, now, random);
  const wasTroubled = start.circuit.kind !== "closed";
  const counted = report.failed > 0 && (wasTroubled || outcome.circuit.kind !== "closed");
  return { state: grownBy(outcome, report, now), counted };
}

/** The state with the settings that came with the report. */
type Reported = GroupState & Readonly<{ settings: GroupSettings }>;

/** Reports of blocks that have expired, or were reported before, change nothing. */
function withEnds(state: Reported, { ends, member }: GroupReport): Reported {
  if (ends.length === 0) return state;
  const by = new Map(ends.map((end) => [end.block, end]));
  let { tat } = state;
  const blocks = state.blocks.flatMap((block): GroupBlock[] => {
    const end = block.member === member ? by.get(block.id) : undefined;
    if (!end) return [block];
    const slots = Math.min(block.slots, end.slots);
    const usedTat = block.tat - end.unused * block.everyMs;
    if (slots > 0) return [{ ...block, slots, tat: usedTat }];
    tat = Math.max(tat, usedTat);
    return [];
  });
  return { ...state, blocks, tat };
}

/** A hold lasts as long as two tenants have to wait; or a minute, if one has to, for the first time in an hour. */
function withThrottled(state: Reported, { tenant, waitMs, limited }: GroupReport, now: number): Reported {
  if (limited === 0 && waitMs === 0) return state;
  const former = state.throttled.find((one) => one.tenant === tenant);
  const asked = waitMs > 0 ? now + waitMs : 0;
  const until = Math.min(now + LONGEST_HOLD_MS, Math.max(former?.until ?? 0, asked));
  const mine: ThrottledTenant = { tenant, until, at: now };
  const throttled = [
    ...state.throttled.filter((one) => one.tenant !== tenant && now - one.at < QUIET_MS),
    mine,
  ].slice(-MAX_TENANTS);
  const ends = recent(throttled, now)
    .map((one) => one.until)
    .filter((end) => end > now)
    .toSorted((a, b) => b - a);
  const isNew = former === undefined || now - former.at >= QUIET_MS;
  const alone = isNew && until > now ? Math.min(until, now + ALONE_MS) : 0;
  const together = ends[1] ?? 0;
  const heldUntil = Math.max(state.heldUntil, together, alone);
  const window = together > state.heldUntil ? reopenedWithin(state) : state.window;
  return narrowed({ ...state, throttled, heldUntil, window }, limited, now);
}

/** After 429s of two tenants fewer attempts are made at once. */
function narrowed(state: Reported, limited: number, now: number): Reported {
  if (limited === 0 || recent(state.throttled, now).length < 2 || now - state.narrowedAt < ROUND_MS)
    return state;
  return { ...state, window: halved(withinLimit(state)), narrowedAt: now };
}

function recent(throttled: readonly ThrottledTenant[], now: number): readonly ThrottledTenant[] {
  return throttled.filter(({ at }) => now - at < SAME_CAUSE_MS);
}

/** The one probe decides. A tenant whose own path fails cannot keep the circuit open: another's probe comes next. */
function afterProbe(state: Reported, report: GroupReport, now: number, random: number): Reported {
  const { circuit, settings } = state;
  if (circuit.kind !== "half_open") return state;
  const { succeeded, limited, failed, tenant } = report;
  const closed = { kind: "closed", since: now, trips: circuit.trips } as const;
  if (succeeded + limited > 0 && failed === 0) return { ...state, circuit: closed, votes: [], unreached: 0 };
  if (failed === 0) return state;
  const isAgreed = isUnreachable(report) || (circuit.failed && circuit.failed.tenant !== tenant);
  if (isAgreed) return withOpened(state, now, random);
  const { until } = opened(circuit.trips + 1, settings.breaker, now, random);
  return { ...state, circuit: { ...circuit, failed: { tenant, until } } };
}

function withVotes(state: Reported, report: GroupReport, now: number, random: number): Reported {
  const { circuit } = state;
  const { breaker } = state.settings;
  const { succeeded, failed, tenant } = report;
  if (circuit.kind !== "closed" || succeeded + failed === 0) return state;
  const inWindow = state.votes.filter(({ from }) => now - from < breaker.windowMs);
  const former = inWindow.find((one) => one.tenant === tenant);
  const { from, attempts, failures } = former ?? { from: now, attempts: 0, failures: 0 };
  const mine = { tenant, from, attempts: attempts + succeeded + failed, failures: failures + failed };
  const votes = [...inWindow.filter((one) => one.tenant !== tenant), mine].slice(-MAX_TENANTS);
  const unreached = succeeded > 0 ? 0 : state.unreached + (isUnreachable(report) ? report.unreached : 0);
  const next = { ...state, votes, unreached };
  const isCertain = unreached >= breaker.minAttempts;
  return failed > 0 && (isCertain || isOutvoted(votes, breaker)) ? withOpened(next, now, random) : next;
}

function isUnreachable({ isOneHost, unreached }: GroupReport): boolean {
  return isOneHost && unreached > 0;
}

function isOutvoted(votes: readonly TenantVote[], { failureRatio, minAttempts }: BreakerSettings): boolean {
  const failing = votes.filter(
    ({ attempts, failures }) => failures >= attempts * failureRatio && failures > 0,
  );
  const failures = failing.reduce((sum, vote) => sum + vote.failures, 0);
  return failing.length >= 2 && failing.length >= votes.length * failureRatio && failures >= minAttempts;
}

function withOpened(state: Reported, now: number, random: number): Reported {
  const { circuit } = state;
  const { breaker } = state.settings;
  // After a whole window without an opening, the next one starts with the first cool-down again.
  const isFirst = circuit.kind === "closed" && now - circuit.since >= breaker.windowMs;
  const trips = isFirst ? 0 : circuit.trips;
  return {
    ...state,
    circuit: opened(trips + 1, breaker, now, random),
    votes: [],
    unreached: 0,
    window: reopenedWithin(state),
  };
}

/** Successes widen the window again. During a hold they come from attempts that were under way before. */
function grownBy(state: Reported, { succeeded }: GroupReport, now: number): GroupState {
  const { window, circuit, heldUntil } = state;
  const { maxConcurrency } = state.settings;
  if (circuit.kind !== "closed" || heldUntil > now || window.size >= maxConcurrency) return state;
  let next = window;
  for (let i = 0; i < Math.min(succeeded, maxConcurrency); i++) next = grown(next, maxConcurrency);
  return { ...state, window: next };
}

function reopenedWithin(state: Reported): GroupState["window"] {
  return reopened(withinLimit(state));
}

/** The window is no wider than the limit, so that its half is less. */
function withinLimit({ window, settings }: Reported): GroupState["window"] {
  return { ...window, size: Math.min(window.size, settings.maxConcurrency) };
}
