/**
 * The member's side of a group: how a gate uses blocks of the shared capacity. The gate's own checks come first; a
 * block bounds what they allow. Without a fitting block the gate answers with its needs, and its caller fetches a block
 * from the group and calls again.
 *
 * Only the incarnation that got a block knows it: a new one treats it as spent. So only one object ever grants leases
 * from a block, and only until its `useBy`.
 */
import { laterByOwnClock } from "../clocks.ts";
import type { Reservation } from "../rate-limit.ts";
import type { BlockAnswer, GivenBlock } from "./deal.ts";
import { GROUP_SKEW_MS } from "./group-state.ts";
import type { BlockEnd } from "./report.ts";

/** A lease's part of a block. */
export type LeaseShare = Readonly<{
  block: string;
  /** Its slots when it was granted: they belong to it until it ends, even if a successor takes slots over. */
  slots: number;
  /** Its sends, by their places in the block. */
  from: number;
  sends: number;
}>;

type MemberBlock = GivenBlock &
  Readonly<{
    /** Sends leased, from the first on. */
    taken: number;
    /** The most slots that were in use at once. */
    peak: number;
    /** Attempts that were answered below 500 and are not reported yet. */
    succeeded: number;
  }>;

/** A gate's knowledge of its group. */
export type Membership = Readonly<{
  /** The group's name; empty when the destination has left a group and no request has named another one yet. */
  group: string;
  /** Since when the gate knows that. */
  since: number;
  blocks: readonly MemberBlock[];
  /** Why the group has refused it, and when its drains and its live traffic may request again. */
  refusal: Extract<BlockAnswer, { kind: "refused" }>["refusal"] | null;
}>;

/** A gate's request to its group, and its report with it. Plain values. */
export type BlockNeeds = Readonly<{
  /** By the gate's clock. */
  askedAt: number;
  slots: number;
  sends: number;
  leaseMs: number;
  ends: readonly BlockEnd[];
  succeeded: number;
}>;

export function newMembership(group: string, since: number): Membership {
  return { group, since, blocks: [], refusal: null };
}

export function leftGroup(now: number): Membership {
  return newMembership("", now);
}

/** The factor by which a busy gate's request exceeds its recent use, so that one block serves many leases. */
const AHEAD = 2;
const MOST_SENDS = 1_000;
/** How long ended blocks are remembered, to be reported with the next request. */
const REMEMBERED_MS = 60_000;

type Sharing = Readonly<{ share?: LeaseShare }>;

/** The same value as in capacity.ts, which cannot be imported here because it imports the gate's state and so this file. */
type Room = Readonly<{ slots: number; reservation: Reservation; probe: boolean }>;

/** The group's answer, and when the gate requested it by its own clock. */
export type Answered = Readonly<{ answer: BlockAnswer; askedAt: number }>;

/** A request's group, and that group's answer to the gate's needs, once the caller has it. */
export type GroupPart = Readonly<{ name: string; answered?: Answered | undefined }>;

/**
 * The membership after a request. It stays in its group if the request is of one that the destination has left: its caller has
 * called the gate, or read the destination, before that.
 * @param readAt when the caller read the destination
 */
export function afterNamed(
  membership: Membership | null,
  { name, answered }: GroupPart,
  readAt: number,
  now: number,
): Membership {
  if (membership?.group === name) return withAnswer(membership, answered, now);
  if (membership && (answered || readAt < membership.since)) return membership;
  return withAnswer(newMembership(name, now), answered, now);
}

/** The membership with what the group has answered. A block that comes too late is of no use, and is not taken. */
export function withAnswer(membership: Membership, answered: Answered | undefined, now: number): Membership {
  if (!answered) return membership;
  const answer = byOwnClock(answered, now);
  if (answer.kind === "refused") return { ...membership, refusal: answer.refusal };
  const { block } = answer;
  // A call that is repeated brings the same block again.
  const isKnown = membership.blocks.some(({ id }) => id === block.id);
  if (isKnown || block.useBy <= now) return { ...membership, refusal: null };
  const blocks = [...membership.blocks, { ...block, taken: 0, peak: 0, succeeded: 0 }];
  return { ...membership, blocks, refusal: null };
}

/**
 * The answer with its times by the gate's clock, however far the clocks differ: the group answered between the gate's
 * request and `now`. They stay as they are if that does not contradict the clocks. Otherwise nothing begins before it
 * would if the answer had been given just now; and a block ends at most GROUP_SKEW_MS later than if it had been given
 * at the request, which is as long as the group waits for it.
 */
function byOwnClock({ answer, askedAt }: Answered, now: number): BlockAnswer {
  const least = askedAt - answer.at;
  const most = now - answer.at;
  const begins = laterByOwnClock({ at: answer.at, askedAt }, now);
  if (answer.kind === "refused") {
    const { why, until, quietUntil } = answer.refusal;
    return { ...answer, refusal: { why, until: until + begins, quietUntil: quietUntil + begins } };
  }
  const ends = Math.max(least, Math.min(0, most, least + GROUP_SKEW_MS));
  const { firstAt, useBy, leasesEndBy } = answer.block;
  const own = { firstAt: firstAt + begins, useBy: useBy + ends, leasesEndBy: leasesEndBy + ends };
  return { ...answer, block: { ...answer.block, ...own } };
}

/** The membership without an unused block; undefined when there is none. */
export function withoutBlock(membership: Membership, id: string): Membership | undefined {
  const blocks = membership.blocks.filter((block) => block.id !== id || block.taken > 0 || block.peak > 0);
  return blocks.length < membership.blocks.length ? { ...membership, blocks } : undefined;
}

/** The part of the capacity that fits into a block; undefined when none has room. */
export function withinBlock<Capacity extends Room>(
  { blocks }: Membership,
  leases: readonly Sharing[],
  capacity: Capacity,
  leaseMs: number,
  now: number,
): Readonly<{ block: string; capacity: Capacity }> | undefined {
  const found = blocks.find(
    (block) =>
      now < block.useBy &&
      now + leaseMs <= block.leasesEndBy &&
      block.taken < block.sends &&
      usedOf(block, leases) < block.slots,
  );
  if (!found) return undefined;
  const { reservation } = capacity;
  const firstAt = Math.max(reservation.firstAt, found.firstAt + found.taken * found.everyMs);
  const slots = Math.min(capacity.slots, found.slots - usedOf(found, leases));
  const everyMs = Math.max(reservation.everyMs, found.everyMs);
  const sends = Math.min(reservation.sends, found.sends - found.taken);
  const slackMs = Math.min(reservation.slackMs, found.slackMs);
  // As if the member's own rate were the slower of the two: its later sends come no sooner.
  const tat = Math.max(
    reservation.tat - (reservation.sends - sends) * reservation.everyMs,
    firstAt + sends * everyMs,
  );
  return {
    block: found.id,
    capacity: { ...capacity, slots, reservation: { sends, firstAt, everyMs, slackMs, tat } },
  };
}

/** The request to the group. Ended blocks are reported with it, and forgotten. */
export function needsOf(
  membership: Membership,
  leases: readonly Sharing[],
  { slots, reservation, probe }: Room,
  { leaseMs, connections }: Readonly<{ leaseMs: number; connections: number }>,
  now: number,
): Readonly<{ membership: Membership; needs: BlockNeeds }> {
  const { blocks, ends, succeeded } = returned(membership.blocks, leases, now, {
    isOver: ({ useBy }, used) => useBy <= now && used === 0,
    hasIdle: ({ useBy, slots: held }, used) => useBy <= now && used < held,
  });
  const used = membership.blocks.filter(({ leasesEndBy, useBy }) => useBy > now - 1_000 && leasesEndBy > now);
  const sends = probe ? 1 : Math.max(reservation.sends, Math.min(MOST_SENDS, AHEAD * sum(used, "taken")));
  const needed = Math.min(slots, reservation.sends, connections);
  const wanted = probe ? 1 : Math.max(needed, Math.min(slots, AHEAD * sum(used, "peak")));
  return {
    membership: { ...membership, blocks },
    needs: { askedAt: now, slots: wanted, sends, leaseMs, ends, succeeded },
  };
}

/** The membership after a lease was granted from the block, and the lease's share. */
export function afterShare(
  membership: Membership,
  id: string,
  { slots, sends }: Readonly<{ slots: number; sends: number }>,
  leases: readonly Sharing[],
): Readonly<{ membership: Membership; share: LeaseShare }> {
  const block = membership.blocks.find((one) => one.id === id);
  const from = block?.taken ?? 0;
  const blocks = membership.blocks.map((one) =>
    one.id === id
      ? { ...one, taken: from + sends, peak: Math.max(one.peak, usedOf(one, leases) + slots) }
      : one,
  );
  return { membership: { ...membership, blocks }, share: { block: id, slots, from, sends } };
}

/**
 * The membership after a lease has ended, and the report to the group at once, if it wants that: ended blocks, and
 * slots of others, once half of them are idle. A lease whose block is not known may be of a former group, to which
 * its holder would report the others.
 * @param leases those that are left
 */
export function afterShareEnd(
  membership: Membership,
  { share }: Sharing,
  { started, succeeded }: Readonly<{ started: number; succeeded: number }>,
  leases: readonly Sharing[],
  now: number,
): Readonly<{ membership: Membership; ends: readonly BlockEnd[]; succeeded: number }> {
  if (!share || !membership.blocks.some(({ id }) => id === share.block))
    return { membership, ends: [], succeeded: 0 };
  const blocks = membership.blocks.map((block) => {
    if (block.id !== share.block) return block;
    const isLast = block.taken === share.from + share.sends;
    return {
      ...block,
      taken: isLast ? share.from + Math.min(started, share.sends) : block.taken,
      succeeded: block.succeeded + succeeded,
    };
  });
  const { blocks: left, ...back } = returned(blocks, leases, now, {
    isOver: ({ wanted, probe, taken }, used) =>
      wanted === true && used === 0 && (probe === true || taken > 0),
    // One attempt that hangs does not hold its neighbours' slots.
    hasIdle: ({ wanted, slots }, used) => wanted === true && used * 2 <= slots,
  });
  return { membership: { ...membership, blocks: left }, ...back };
}

type Returning = Readonly<Record<"isOver" | "hasIdle", (block: MemberBlock, used: number) => boolean>>;

/** The blocks that stay, and those returned to the group: whole blocks, and idle slots of others. */
function returned(
  all: readonly MemberBlock[],
  leases: readonly Sharing[],
  now: number,
  { isOver, hasIdle }: Returning,
): Readonly<{ blocks: readonly MemberBlock[]; ends: readonly BlockEnd[]; succeeded: number }> {
  const blocks: MemberBlock[] = [];
  const ends: BlockEnd[] = [];
  let succeeded = 0;
  for (const block of all) {
    const { id, sends, taken } = block;
    const slots = usedOf(block, leases);
    if (isOver(block, slots)) {
      ends.push({ block: id, slots: 0, unused: sends - taken });
      succeeded += block.succeeded;
    } else if (!isForgotten(block, now)) {
      const gives = slots > 0 && hasIdle(block, slots);
      if (gives) ends.push({ block: id, slots, unused: 0 });
      blocks.push(gives ? { ...block, slots } : block);
    }
  }
  return { blocks, ends, succeeded };
}

function isForgotten({ leasesEndBy }: MemberBlock, now: number): boolean {
  return leasesEndBy + REMEMBERED_MS <= now;
}

function usedOf({ id }: MemberBlock, leases: readonly Sharing[]): number {
  return leases.reduce((used, { share }) => used + (share?.block === id ? share.slots : 0), 0);
}

function sum(blocks: readonly MemberBlock[], name: "taken" | "peak"): number {
  return blocks.reduce((total, block) => total + block[name], 0);
}
