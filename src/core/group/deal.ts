/**
 * Dealing: which member gets a block of the shared capacity now, how large, and who is called next.
 *
 * It is fair among tenants, however many destinations and deliveries each has:
 *
 * - An eighth of the capacity is left for tenants that have no block, so that a single event does not wait for another
 *   tenant's backlog.
 * - Refused members wait in a ring. As capacity returns they are called in turn, by a drain; while one waits, no later
 *   one gets more, and a turn is a share of the capacity.
 * - A few more are called than can be served at once, because a drain takes time to arrive.
 */
import { nextSendAt, reserve, reserveNow, sendsBy } from "../rate-limit.ts";
import {
  BLOCK_MS,
  GROUP_SKEW_MS,
  type GroupBlock,
  type GroupSettings,
  type GroupState,
  groupBlockedBy,
  groupRate,
  groupStateAt,
  groupTat,
  groupWidth,
  slotsOut,
  type Waiter,
} from "./group-state.ts";
import { afterGroupReport, type GroupReport } from "./report.ts";

/** Plain values: it crosses from a Worker to the group's object. */
export type BlockRequest = Readonly<{
  /** At least one. */
  slots: number;
  sends: number;
  /** How long a lease lives that is granted from the block. */
  leaseMs: number;
  /** The requesting member, and the blocks that it returns. */
  report: GroupReport;
}>;

/** A block as its member gets it. */
export type GivenBlock = Readonly<{
  id: string;
  slots: number;
  sends: number;
  /** The i-th send may not start before `firstAt + i × everyMs`; one that is late by no more than `slackMs` is on time. */
  firstAt: number;
  everyMs: number;
  slackMs: number;
  /** No lease is granted from it later. */
  useBy: number;
  /** By then its leases have expired. */
  leasesEndBy: number;
  probe?: true;
  /** Whether the group wants to know when it is over: others wait for it, or may soon. */
  wanted?: true;
}>;

/** Why a member gets no block, and when to request again unless it is called before. */
type BlockRefusal = Readonly<{
  why: "hold" | "circuit_open" | "probing" | "concurrency" | "rate";
  until: number;
  /** Until then live traffic makes no request. */
  quietUntil: number;
}>;

/** `at`: when the group answered. All times are by its clock. */
export type BlockAnswer = Readonly<{ at: number }> &
  (Readonly<{ kind: "block"; block: GivenBlock }> | Readonly<{ kind: "refused"; refusal: BlockRefusal }>);

/** How far ahead the rate is given away to members that have waited or have blocks: an eighth is left. */
const TAKEN_MS = (BLOCK_MS * 7) / 8;
/** Sends of a member's turn, at least: a drain costs several calls. */
const TURN_SENDS = 10;
/** How long a called member is waited for. */
const CALLED_MS = 5_000;
/** The age from which a request may be called before there is capacity for it: when its drain arrives there may be. */
const AHEAD_AFTER_MS = 1_000;
/**
 * The number of those for each slot that is left for tenants without a block: a drain takes longer to arrive than a
 * block to end.
 */
const AHEAD_EACH = 3;
/** A member requests again by itself after this, later if more wait before it, because a call may be lost. */
const FALLBACK_MS = 60_000;
const FALLBACK_EACH_MS = 1_000;
/** How long a refusal counts for live traffic. */
const QUIET_MS = 2_000;
const MAX_RING = 2_000;
/** The most members of one tenant in the ring. */
const MAX_OF_TENANT = 200;
/**
 * Blocks beyond which a block of one send is wanted back: the state is stored as a whole with each block that is given out,
 * and nobody makes another use of such a block.
 */
const MANY_BLOCKS = 500;
/** While members wait, how often to check whether one can be called. */
const CALL_MS = 1_000;

type Dealt = Readonly<{ state: GroupState; answer: BlockAnswer }>;

/** Gives a block, or says why not. The reports that come with the request count first. */
export function deal(
  before: GroupState,
  request: BlockRequest,
  settings: GroupSettings,
  now: number,
  random: number,
): Dealt {
  const { state } = afterGroupReport(before, request.report, settings, now, random);
  const asking = { state, request, settings, now };
  const block = groupBlockedBy(state, now);
  if (block) return refused(asking, block.reason, block.until);
  if (state.circuit.kind === "half_open") return dealProbe(asking);
  return dealShare(asking);
}

type Asking = Readonly<{ state: GroupState; request: BlockRequest; settings: GroupSettings; now: number }>;

function dealProbe(asking: Asking): Dealt {
  const { state, request, settings, now } = asking;
  const { circuit, blocks } = state;
  const { tenant } = request.report;
  const running = blocks.find(({ probe }) => probe);
  if (running) return refused(asking, "probing", running.expiresAt);
  if (circuit.kind === "half_open" && circuit.failed?.tenant === tenant && circuit.failed.until > now)
    return refused(asking, "probing", circuit.failed.until);
  const reservation = reserveNow(groupTat(state), groupRate(settings), now);
  return given(asking, { slots: 1, reservation, probe: true });
}

function dealShare(asking: Asking): Dealt {
  const { state, request, settings, now } = asking;
  const { isFresh, slots, contenders } = slotsFor(asking);
  if (slots < 1) return refused(asking, "concurrency", now);
  const rate = groupRate(settings);
  const horizonAt = now + (isFresh ? BLOCK_MS : TAKEN_MS);
  const share = Math.max(TURN_SENDS, Math.floor((rate.perSecond * BLOCK_MS) / 1000 / contenders));
  const wanted = contenders > 1 ? Math.min(request.sends, share) : request.sends;
  const reservation = reserve(groupTat(state), wanted, rate, horizonAt, now);
  if (reservation.sends === 0) return refused(asking, "rate", nextSendAt(groupTat(state), rate, now));
  return given(asking, { slots: Math.min(slots, reservation.sends), reservation, fresh: isFresh });
}

function slotsFor({ state, request, settings }: Asking) {
  const { blocks, ring } = state;
  const { member, tenant } = request.report;
  const capacity = groupWidth(state, settings);
  const kept = keptOf(capacity);
  const others = ring.filter((one) => one.member !== member);
  const waiter = ring.find((one) => one.member === member);
  const mine = slotsOut(blocks.filter((block) => block.tenant === tenant));
  const contenders = new Set([tenant, ...[...blocks, ...others].map((one) => one.tenant)]).size;
  const common = freeFor(state, others, waiter, capacity - kept, capacity);
  // From the last eighth, if the rest is taken or others wait for it. A tenant that has had a turn waits for the
  // others'.
  const waits = ring.some((one) => one.tenant === tenant);
  const isFresh = mine === 0 && !waits && !isAhead(state, tenant) && common < 1;
  const free = isFresh ? freeForFresh(state, capacity, kept) : common;
  // While others wait a tenant has no more than its share, over all its members.
  const share = others.length > 0 ? Math.max(1, Math.floor((capacity - kept) / contenders)) - mine : free;
  return { isFresh, contenders, slots: Math.min(request.slots, free, share) };
}

/** Slots for tenants without a block; nothing below a capacity of two. */
function keptOf(capacity: number): number {
  return capacity > 1 ? Math.max(1, Math.floor(capacity / 8)) : 0;
}

/** Whether the tenant has got a block since which another one waits, and has none. */
function isAhead({ served, ring, blocks }: GroupState, tenant: string): boolean {
  const place = served.findIndex((one) => one.tenant === tenant);
  const mine = served[place];
  if (!mine) return false;
  const others = new Set([...served.slice(place), ...blocks].map((one) => one.tenant));
  return ring.some((one) => one.since <= mine.at && !others.has(one.tenant));
}

function freeForFresh({ blocks }: GroupState, capacity: number, kept: number): number {
  return Math.min(capacity - slotsOut(blocks), kept - slotsOut(blocks.filter((block) => block.fresh)));
}

function freeFor(
  { blocks, ring }: GroupState,
  others: readonly Waiter[],
  waiter: Waiter | undefined,
  shared: number,
  capacity: number,
): number {
  const taken = slotsOut(blocks.filter((block) => !block.fresh));
  const free = Math.min(shared - taken, capacity - slotsOut(blocks));
  if (waiter && waiter.calledAt > 0) return free;
  const ahead = waiter ? ring.slice(0, ring.indexOf(waiter)) : others;
  if (ahead.some(({ calledAt }) => calledAt === 0)) return 0;
  return free - ahead.length;
}

type Given = Readonly<{
  slots: number;
  reservation: ReturnType<typeof reserve>;
  probe?: true;
  fresh?: boolean;
}>;

function given(
  { state, request, settings, now }: Asking,
  { slots, reservation, probe, fresh }: Given,
): Dealt {
  const { member, tenant } = request.report;
  const { sends, firstAt, everyMs, slackMs, tat } = reservation;
  const count = state.given + 1;
  const id = `${now.toString(36)}-${state.incarnation.toString(36)}-${count}`;
  const useBy = now + BLOCK_MS;
  const leasesEndBy = useBy + request.leaseMs;
  const block: GroupBlock = {
    ...{ id, member, tenant, slots, everyMs, tat, expiresAt: leasesEndBy + GROUP_SKEW_MS },
    ...(probe && { probe }),
    ...(fresh && { fresh: true }),
  };
  // The tenant's other members come after those of others.
  const before = state.ring.filter((one) => one.tenant !== tenant);
  const behind = state.ring.filter((one) => one.tenant === tenant && one.member !== member);
  const ring = [...before, ...behind];
  const oldest = Math.min(...ring.map(({ since }) => since));
  const others = state.served.filter((one) => one.tenant !== tenant && one.at >= oldest);
  const served = ring.length > 0 ? [...others, { tenant, at: now }].slice(-MAX_RING) : [];
  const next = { ...state, given: count, ring, served, blocks: [...state.blocks, block] };
  const wanted = isScarce(next, settings) || (sends === 1 && next.blocks.length > MANY_BLOCKS);
  const terms = { id, slots, sends, firstAt, everyMs, slackMs, useBy, leasesEndBy };
  const marks = { ...(probe && { probe }), ...(wanted && { wanted }) };
  return { state: next, answer: { at: now, kind: "block", block: { ...terms, ...marks } } };
}

/** Whether the ends of blocks matter: members wait, half is out, or successes are to widen the window. */
function isScarce(state: GroupState, settings: GroupSettings): boolean {
  const width = groupWidth(state, settings);
  return state.ring.length > 0 || width < settings.maxConcurrency || slotsOut(state.blocks) * 2 > width;
}

function refused({ state, request, now }: Asking, why: BlockRefusal["why"], end: number): Dealt {
  const { member, tenant } = request.report;
  const isKnown = state.ring.some((one) => one.member === member);
  const isFull =
    state.ring.length >= MAX_RING ||
    state.ring.filter((one) => one.tenant === tenant).length >= MAX_OF_TENANT;
  // One that was called and could not be served keeps its place.
  const ring = isKnown
    ? state.ring.map((one) => (one.member === member ? { ...one, askedAt: now, calledAt: 0 } : one))
    : isFull
      ? state.ring
      : [...state.ring, { member, tenant, since: now, askedAt: now, calledAt: 0 }];
  const place = ring.findIndex((one) => one.member === member);
  const behind = place === -1 ? ring.length : place;
  const until = Math.ceil(Math.max(end, now) + FALLBACK_MS + behind * FALLBACK_EACH_MS);
  const refusal = { why, until, quietUntil: now + QUIET_MS };
  return { state: { ...state, ring }, answer: { at: now, kind: "refused", refusal } };
}

/** The members to call, and when to check again; null when none waits. */
export type Calls = Readonly<{ state: GroupState; members: readonly string[]; at: number | null }>;

/** Calls as many waiting members as could be served now, in turn. A call is a drain for the member. */
export function called(before: GroupState, settings: GroupSettings, now: number): Calls {
  const current = groupStateAt(before, now);
  const isComing = ({ calledAt }: Waiter) => calledAt === 0 || now - calledAt < CALLED_MS;
  const ring = current.ring.every(isComing) ? current.ring : current.ring.filter(isComing);
  const state = ring === current.ring ? current : { ...current, ring };
  if (ring.length === 0) return { state, members: [], at: null };
  const block = groupBlockedBy(state, now);
  if (block) return { state, members: [], at: Math.ceil(block.until) };
  const coming = ring.filter(({ calledAt }) => calledAt > 0).length;
  const { free, ahead } = servable(state, settings, now);
  const turns = inTurn(state, now);
  const places = Math.max(0, free - coming);
  const hasWaited = ({ askedAt }: Waiter) => now - askedAt >= AHEAD_AFTER_MS;
  const early = turns.slice(places).filter(hasWaited);
  const next = [...turns.slice(0, places), ...early.slice(0, Math.max(0, free + ahead - coming - places))];
  const members = next.map(({ member }) => member);
  const chosen = new Set(members);
  const after = ring.map((one) => (chosen.has(one.member) ? { ...one, calledAt: now } : one));
  return { state: members.length > 0 ? { ...state, ring: after } : state, members, at: now + CALL_MS };
}

/** The members that have not been called: one of each tenant first. */
function inTurn({ ring, circuit }: GroupState, now: number): readonly Waiter[] {
  const failed =
    circuit.kind === "half_open" && circuit.failed && circuit.failed.until > now
      ? circuit.failed.tenant
      : undefined;
  const waiting = ring.filter(({ calledAt, tenant }) => calledAt === 0 && tenant !== failed);
  const seen = new Set(ring.filter(({ calledAt }) => calledAt > 0).map(({ tenant }) => tenant));
  const first: Waiter[] = [];
  const later: Waiter[] = [];
  for (const one of waiting) {
    (seen.has(one.tenant) ? later : first).push(one);
    seen.add(one.tenant);
  }
  return [...first, ...later];
}

/** How many members' turns fit into the free capacity, and a few more that will have arrived when more is free. */
function servable(
  state: GroupState,
  settings: GroupSettings,
  now: number,
): Readonly<{ free: number; ahead: number }> {
  const { blocks, circuit } = state;
  if (circuit.kind === "half_open") return { free: blocks.some(({ probe }) => probe) ? 0 : 1, ahead: 0 };
  const capacity = groupWidth(state, settings);
  const kept = keptOf(capacity);
  const free = Math.max(0, capacity - kept - slotsOut(blocks.filter((block) => !block.fresh)));
  const sends = sendsBy(now + TAKEN_MS, groupTat(state), groupRate(settings), now);
  const bySends = Math.ceil(sends / TURN_SENDS);
  return { free: Math.min(free, bySends), ahead: Math.min(AHEAD_EACH * kept, Math.max(0, bySends - free)) };
}
