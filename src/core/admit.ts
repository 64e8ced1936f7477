/**
 * The gate's first decision: which deliveries may be attempted now, over how many connections and how fast, and why
 * the others must wait. One call decides for a whole group of deliveries.
 */

import { noFailures } from "./auto-disable.ts";
import { type Capacity, type CapacityRequest, capacityFor, mostStarts, rateRefusal } from "./capacity.ts";
import { reopened } from "./concurrency-window.ts";
import { portionOf } from "./crash-loop.ts";
import { type CircuitEvent, circuitChange, destinationStateAt } from "./destination-state.ts";
import { afterArrival, afterRefusal, alarmBy } from "./drain-scheduler.ts";
import { type GateState, sideOf, withoutExpired, withSettled } from "./gate-state.ts";
import {
  afterNamed,
  afterShare,
  type BlockNeeds,
  type GroupPart,
  type Membership,
  needsOf,
  withinBlock,
  withoutBlock,
} from "./group/member.ts";
import { type Grant, type Lane, type Lease, LOOK_UP_MS, leaseMs, liveLeases, succeeded } from "./lease.ts";
import type { GateSettings } from "./limits.ts";
import { withDeaths } from "./lone-lease.ts";
import { packNumbers, sharedWith } from "./number-sets.ts";
import type { Refusal } from "./reasons.ts";

export type { Refusal, RefusalReason } from "./reasons.ts";

/** Plain values: it crosses from a Worker to the gate's object. */
export type AdmitRequest = Readonly<{
  lane: Lane;
  /** Event numbers, in the order in which they should go. */
  deliveries: readonly number[];
  /** Which of them is the probe of a half-open circuit, which admits one only; the first by default. */
  probe?: number;
  /** How many to admit at most. */
  most?: number;
  /** How long ago the caller read the deliveries from D1; 0 when it reads them after it is admitted. */
  lookedUpMsAgo?: number;
  /**
   * The caller's lease that this one continues without a pause: the new lease takes over its slots. The caller never
   * has more connections open under both than the larger of the two allows.
   */
  succeeds?: string;
  /** How many connections the caller can use at once. */
  connections: number;
  /** For how long the caller will start attempts, once it is ready for the first. */
  startWithinMs: number;
  /** Absent: the destination is in no group. */
  group?: GroupPart | undefined;
}>;

/** Plain values, as the request. Each delivery of the request is in one of the first three, or beyond `most`. */
export type AdmitResult = Readonly<{
  grant: Grant | null;
  refused: Readonly<{ deliveries: readonly number[] } & Refusal> | null;
  /** Deliveries that another lease holds, or held until a moment ago, and when to read them from D1 again. */
  inFlight: Readonly<{ deliveries: readonly number[]; until: number }> | null;
  /**
   * Which granted deliveries were settled recently, and how long ago (ms). The gate cannot know how long the request was
   * under way, so the caller decides whether the settlement came after its read of D1.
   */
  settled?: readonly Readonly<{ delivery: number; msAgo: number }>[];
  /** The caller's read of D1 is older than the gate's memory: it rereads the granted deliveries, under the lease. */
  readAgain?: true;
  /** Changes by passage of time since the gate was last called. */
  events?: readonly CircuitEvent[];
  /** Nothing is decided: the caller requests this from the group, and calls the gate again with the answer. */
  needs?: BlockNeeds;
  block?: string;
  /** The block that came with the request is not needed: the caller gives it back. */
  unused?: true;
}>;

type Admission = Readonly<{ state: GateState; result: AdmitResult }>;

export function admit(
  before: GateState,
  request: AdmitRequest,
  settings: GateSettings,
  now: number,
): Admission {
  const start = withRequest(before, request, settings, now);
  const known = knownOf(start, request.deliveries);
  const decided = decide(start, known, request, settings, now);
  const { result } = decided;
  // The caller requests again at once: only the second call counts as a request.
  const { turns, drainSchedule } = before;
  const asked = result.needs ? { ...decided.state, turns, drainSchedule } : decided.state;
  const { state, unused } = withoutUnused(asked, request);
  const { holding, events } = circuitChange(before, destinationStateAt(before.destinationState, now), now);
  const settled = settledOf(known, request, result.grant?.deliveries ?? [], now);
  const also = {
    ...(events.length > 0 && { events }),
    ...(settled.length > 0 && { settled }),
    ...(unused && { unused }),
  };
  return { state: { ...state, holding }, result: { ...result, ...also } };
}

/** The state without a block that came with the request and was not used: it goes back to the group. */
function withoutUnused(
  state: GateState,
  { group }: AdmitRequest,
): Readonly<{ state: GateState; unused?: true }> {
  const { membership } = state;
  const answer = group?.answered?.answer;
  if (!membership || !group || answer?.kind !== "block") return { state };
  if (membership.group !== group.name) return { state, unused: true };
  const without = withoutBlock(membership, answer.block.id);
  return without ? { state: { ...state, membership: without }, unused: true } : { state };
}

/** Why one delivery would be refused at `now`; undefined when it would be admitted. */
export function refusalAt(
  state: GateState,
  lane: Lane,
  settings: GateSettings,
  now: number,
): Refusal | undefined {
  // It is unknown here whether it would get a block.
  const { group: name, refusal } = state.membership ?? {};
  const answer = refusal ? ({ at: now, kind: "refused", refusal } as const) : undefined;
  const group = name === undefined ? undefined : { name, answered: answer && { answer, askedAt: now } };
  const request = { lane, deliveries: [0], connections: 1, startWithinMs: 0, group };
  const { refused } = admit(state, request, settings, now).result;
  return refused ? { reason: refused.reason, until: refused.until } : undefined;
}

/**
 * Deliveries are changed in D1 by others than the holders of leases. A caller that read one of them before has to
 * reread it before it is granted. Deliveries that a live lease holds are left to its holder, and returned.
 */
export function recheck(
  state: GateState,
  deliveries: readonly number[],
  now: number,
): Readonly<{ state: GateState; inFlight: readonly number[] }> {
  const { leased } = knownOf({ ...state, leases: liveLeases(state.leases, now) }, deliveries);
  const free = deliveries.filter((id) => !leased.has(id));
  const inFlight = [...leased.keys()];
  if (free.length === 0) return { state, inFlight };
  return { state: { ...state, ...withSettled(state, packNumbers(free), now) }, inFlight };
}

/** The least time between two test events: they bypass the gate, so they need a bound of their own. */
const TEST_INTERVAL_MS = 5_000;

/** The same before a run of the conformance suite, which makes several requests and may take as long. */
const SUITE_INTERVAL_MS = 60_000;

/**
 * When the next test event, or suite, may be sent after one at `testedAt`; undefined when it may at `now`. A suite also waits
 * for the end of a hold.
 */
export function testRefusedUntil(
  { testedAt, destinationState: { heldUntil } }: TestedState,
  now: number,
  isSuite = false,
): number | undefined {
  if (isSuite && heldUntil > now) return heldUntil;
  const interval = isSuite ? SUITE_INTERVAL_MS : TEST_INTERVAL_MS;
  // A time in the future comes from a clock that was wrong.
  return testedAt <= now && now - testedAt < interval ? testedAt + interval : undefined;
}

type TestedState = Pick<GateState, "testedAt"> &
  Readonly<{ destinationState: Pick<GateState["destinationState"], "heldUntil"> }>;

/** The state after the request's arrival, whatever its result: expired leases removed, settings and turn noted. */
function withRequest(before: GateState, request: AdmitRequest, settings: GateSettings, now: number) {
  const state = withoutExpired(withDeaths(before, request, now), settings, now);
  const side = sideOf(request.lane);
  const destinationState = destinationStateAt(state.destinationState, now);
  return {
    ...state,
    // After a pause traffic restarts from one.
    destinationState: settings.paused
      ? { ...destinationState, window: reopened(destinationState.window) }
      : destinationState,
    failureStreak: settings.paused ? noFailures : state.failureStreak,
    turns: { ...state.turns, [side]: { ...state.turns[side], askedAt: now } },
    maxConcurrency: settings.maxConcurrency,
    rate: { perSecond: settings.ratePerSecond, burst: settings.rateBurst },
    // A drain that goes on from its own lease is none of those that are expected.
    drainSchedule:
      side === "backlog" && request.succeeds === undefined
        ? afterArrival(state.drainSchedule)
        : state.drainSchedule,
    membership: request.group
      ? afterNamed(state.membership, request.group, now - (request.lookedUpMsAgo ?? 0), now)
      : null,
  };
}

/** The gate's knowledge of the requested deliveries: when each was recently settled, and until when a lease holds it. */
type Known = Readonly<{
  settled: readonly (readonly [delivery: number, at: number])[];
  leased: ReadonlyMap<number, number>;
}>;

/** One pass over the leases and what was settled: a busy gate has many, and is called often. */
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

/** Empty for a caller that reads D1 after the grant. */
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

/** A request under decision. */
type Pending = Readonly<{
  state: GateState;
  request: AdmitRequest;
  wanted: CapacityRequest;
  settings: GateSettings;
  now: number;
  /** The requested deliveries that no live lease holds. */
  free: readonly number[];
  inFlight: AdmitResult["inFlight"];
  isOutdated: boolean;
}>;

function decide(
  state: GateState,
  known: Known,
  request: AdmitRequest,
  settings: GateSettings,
  now: number,
): Admission {
  const { free: all, inFlight, isOutdated } = split(state, known, request, now);
  const free = wantedOf(state, request, all);
  if (free.length === 0) return { state, result: { grant: null, refused: null, inFlight } };
  const { lane, connections, startWithinMs } = request;
  const wanted = { lane, deliveries: free.length, connections, startWithinMs };
  const pending = { state, request, wanted, settings, now, free, inFlight, isOutdated };
  const capacity = capacityFor(withoutFormer(state, request), wanted, settings, now);
  if ("reason" in capacity) return refuse({ ...pending, state: withoutCall(state, request) }, free, capacity);
  const { membership } = state;
  if (!membership || !request.group) return grant(pending, capacity);
  // It has left that group since the caller read it. What waits is read again.
  if (membership.group !== request.group.name) return refuse(pending, free, { reason: "group", until: now });
  return grantShare(pending, membership, capacity);
}

/** A drain that the group has called, and the gate refuses: from now on drains wait until the time of that refusal. */
function withoutCall(state: GateState, { lane }: AdmitRequest): GateState {
  const { membership } = state;
  if (!membership?.refusal || sideOf(lane) === "live") return state;
  return { ...state, membership: { ...membership, refusal: null } };
}

/** Grants what a block of the group leaves of the gate's own capacity. */
function grantShare(pending: Pending, membership: Membership, capacity: Capacity): Admission {
  const { state, request, settings, now, free, inFlight } = pending;
  const former = state.leases.find(({ id }) => id === request.succeeds);
  // A lease lasts at least as long as the one that it succeeds.
  const lastsMs = Math.max(
    leaseMs(request.startWithinMs, settings.timeoutMs),
    (former?.expiresAt ?? now) - now,
  );
  const found = withinBlock(membership, state.leases, capacity, lastsMs, now);
  if (found) return grant(pending, found.capacity, found.block);
  const { refusal } = membership;
  const isQuiet = refusal && sideOf(request.lane) === "live" && refusal.quietUntil > now;
  if (refusal && (request.group?.answered || isQuiet))
    return refuse(pending, free, { reason: "group", until: refusal.until });
  // A block that came too late is requested again.
  if (request.group?.answered) return refuse(pending, free, { reason: "group", until: now });
  const asked = needsOf(
    membership,
    state.leases,
    capacity,
    { leaseMs: lastsMs, connections: request.connections },
    now,
  );
  return {
    state: { ...state, membership: asked.membership },
    result: { grant: null, refused: null, inFlight, needs: asked.needs },
  };
}

/**
 * The deliveries that may be leased, and those that another lease holds. A delivery that was settled after the caller
 * read it may have ended since, so it has to be reread. If the gate does not know, the caller rereads it under the
 * lease.
 */
function split(
  { forgottenAt }: GateState,
  { settled, leased }: Known,
  { deliveries, lookedUpMsAgo = 0 }: AdmitRequest,
  now: number,
) {
  const lookedUpAt = now - lookedUpMsAgo;
  const isOutdated = lookedUpMsAgo > LOOK_UP_MS || lookedUpAt < forgottenAt;
  const busy = new Map<number, number>();
  for (const [id, at] of settled) if (at > lookedUpAt) busy.set(id, now);
  for (const [id, until] of leased) busy.set(id, until);
  if (busy.size === 0) return { free: deliveries, inFlight: null, isOutdated };
  const held = deliveries.filter((id) => busy.has(id));
  const until = Math.max(0, ...held.map((id) => busy.get(id) ?? 0));
  return {
    free: deliveries.filter((id) => !busy.has(id)),
    inFlight: { deliveries: held, until },
    isOutdated,
  };
}

/** As many of them as the caller wants, or, for a drain in a crash loop, fewer and others. */
function wantedOf(
  { crashLoop, granted }: GateState,
  { lane, most = Number.POSITIVE_INFINITY }: AdmitRequest,
  free: readonly number[],
): readonly number[] {
  return sideOf(lane) === "live"
    ? free.slice(0, most)
    : portionOf(crashLoop, free, Math.min(most, free.length), granted);
}

/** The slots of the caller's former lease are available to its next one. */
function withoutFormer(state: GateState, { succeeds }: AdmitRequest): GateState {
  if (succeeds === undefined) return state;
  const leases = state.leases.map((one) => (one.id === succeeds ? { ...one, slots: 0, width: 0 } : one));
  return { ...state, leases };
}

function refuse(
  { state, request, now, inFlight }: Pending,
  deliveries: readonly number[],
  refusal: Refusal,
): Admission {
  const side = sideOf(request.lane);
  const turns = { ...state.turns, [side]: { ...state.turns[side], wantedAt: now } };
  return {
    state: { ...state, turns, drainSchedule: afterRefusal(state.drainSchedule, refusal.until, now) },
    result: { grant: null, refused: { deliveries, ...refusal }, inFlight },
  };
}

function grant(pending: Pending, capacity: Capacity, block?: string): Admission {
  const deliveries = chosen(pending, capacity);
  const { state, request, now, free, inFlight, isOutdated } = pending;
  const { lease, membership } = shared(
    state,
    leaseFor(pending, capacity, deliveries),
    deliveries.length,
    block,
  );
  const after = withLease({ ...state, membership }, request, lease, now);
  const grant = grantOf(pending, capacity, lease, deliveries);
  const granted = new Set(deliveries);
  const left = free.filter((id) => !granted.has(id));
  const rest =
    left.length > 0 ? restRefusal({ ...pending, state: after }, capacity, lease, deliveries) : undefined;
  const given = {
    grant,
    ...(isOutdated && { readAgain: true as const }),
    ...(block !== undefined && { block }),
  };
  if (!rest) return { state: after, result: { ...given, refused: null, inFlight } };
  const refused = refuse({ ...pending, state: after }, left, rest);
  return { state: refused.state, result: { ...refused.result, ...given } };
}

/** The lease with its share of the block, if it is of one. */
function shared({ membership, leases }: GateState, lease: Lease, sends: number, block: string | undefined) {
  if (!membership || block === undefined) return { lease, membership };
  const after = afterShare(membership, block, { slots: lease.slots, sends }, leases);
  return { lease: { ...lease, share: after.share }, membership: after.membership };
}

function chosen({ request: { probe }, free }: Pending, capacity: Capacity): readonly number[] {
  if (capacity.probe && probe !== undefined && free.includes(probe)) return [probe];
  return free.slice(0, capacity.reservation.sends);
}

function leaseFor(
  { state, request, settings, now }: Pending,
  capacity: Capacity,
  deliveries: readonly number[],
): Lease {
  const slots = Math.min(capacity.slots, request.connections, deliveries.length);
  return {
    id: `${now.toString(36)}-${state.incarnation.toString(36)}-${state.granted + 1}`,
    lane: request.lane,
    slots,
    width: Math.min(capacity.width, slots),
    deliveries: packNumbers(deliveries),
    ...(capacity.probe && { probe: true }),
    ...(request.lane === "fresh" && !capacity.probe && deliveries.length === 1 && { lone: now }),
    tat: capacity.reservation.tat,
    expiresAt: now + leaseMs(request.startWithinMs, settings.timeoutMs),
  };
}

function grantOf(
  { state, request, now }: Pending,
  { reservation: { firstAt, everyMs, slackMs } }: Capacity,
  { id, slots, width, expiresAt }: Lease,
  deliveries: readonly number[],
): Grant {
  return {
    id,
    slots,
    width,
    deliveries,
    startWithinMs: request.startWithinMs,
    expiresInMs: expiresAt - now,
    pace: { firstInMs: firstAt - now, everyMs, slackMs },
    destinationState: state.destinationState,
  };
}

function withLease(state: GateState, { succeeds }: AdmitRequest, lease: Lease, now: number): GateState {
  const side = sideOf(lease.lane);
  return {
    ...state,
    granted: state.granted + 1,
    leases: succeeded(state.leases, lease, succeeds),
    turns: { ...state.turns, [side]: { ...state.turns[side], servedAt: now } },
    // A drain may die with its lease: the next one is scheduled for when that has expired.
    drainSchedule:
      side === "backlog" ? alarmBy(state.drainSchedule, lease.expiresAt, now) : state.drainSchedule,
  };
}

/** Why the rest is refused; undefined when a drain may request it as soon as it has finished its lease. */
function restRefusal(
  { state, wanted, settings, now }: Pending,
  capacity: Capacity,
  lease: Lease,
  granted: readonly number[],
): Refusal | undefined {
  if (capacity.probe) return { reason: "probing", until: lease.expiresAt };
  const isBacklog = sideOf(wanted.lane) === "backlog";
  // A drain requests the rest when it has finished this lease.
  if (lease.share && granted.length < mostStarts(state, wanted, capacity))
    return isBacklog ? undefined : { reason: "group", until: now };
  if (granted.length < mostStarts(state, wanted, capacity)) return rateRefusal(state, settings, now);
  return isBacklog ? undefined : { reason: "slow", until: now };
}
