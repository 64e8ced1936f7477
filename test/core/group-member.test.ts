import { describe, expect, it } from "vitest";
import { type AdmitRequest, admit } from "../../src/core/admit.ts";
import { waitsFor } from "../../src/core/drain-scheduler.ts";
import { type GateState, newGateState } from "../../src/core/gate-state.ts";
import type { GivenBlock } from "../../src/core/group/deal.ts";
import {
  type Answered,
  afterShare,
  afterShareEnd,
  type Membership,
  needsOf,
  newMembership,
  withAnswer,
  withinBlock,
  withoutBlock,
} from "../../src/core/group/member.ts";
import { afterGroupLeft, afterResume, settle } from "../../src/core/settle.ts";
import { steady } from "../support/gate-arbitraries.ts";

const NOW = 1_000_000;
const refusal = { why: "rate", until: NOW + 60_000, quietUntil: NOW + 2_000 } as const;

/** A block of five slots and ten sends, one every 20 ms. */
const given: GivenBlock = {
  id: "a",
  slots: 5,
  sends: 10,
  firstAt: NOW,
  everyMs: 20,
  slackMs: 100,
  useBy: NOW + 1_000,
  leasesEndBy: NOW + 6_000,
};
type Block = Membership["blocks"][number];
const answered = { answer: { at: NOW, kind: "block", block: given }, askedAt: NOW } as const;
const block = (part: Partial<Block> = {}): Block => ({ ...given, taken: 0, peak: 0, succeeded: 0, ...part });
const GROUP = "billing";
const member = newMembership(GROUP, NOW);
const having = (...blocks: readonly Block[]): Membership => ({ ...member, blocks });
const share = (slots: number, part = {}) => ({ share: { block: "a", slots, from: 0, sends: 4, ...part } });

const reservation = { sends: 20, firstAt: NOW - 50, everyMs: 10, slackMs: 200, tat: NOW + 150 };
const room = { slots: 8, reservation, probe: false };
const LEASE_MS = 5_000;

/**
 * The group's answer by a clock that is so far behind the member's. The member requested it so long ago, and got the
 * answer at once.
 */
const blockBy = (behindMs = 0, agoMs = 0, now = NOW) => {
  const at = now - agoMs - behindMs;
  const moved = { firstAt: at, useBy: at + 1_000, leasesEndBy: at + 6_000 };
  const answer = { at, kind: "block", block: { ...given, ...moved } } as const;
  return withAnswer(member, { answer, askedAt: now - agoMs }, now).blocks[0];
};

describe("a member takes the group's answer", () => {
  it("and is unchanged without one", () => {
    expect(withAnswer(having(block()), undefined, NOW)).toEqual(having(block()));
  });

  it("remembering a refusal in addition to its blocks", () => {
    const answer = { at: NOW, kind: "refused", refusal } as const;
    const after = withAnswer(having(block()), { answer, askedAt: NOW }, NOW);
    expect(after).toEqual({ ...having(block()), refusal });
  });

  it("adding an unused block, and forgetting the refusal", () => {
    const other = block({ id: "b" });
    const after = withAnswer({ ...having(other), refusal }, answered, NOW);
    expect(after).toEqual(having(other, block()));
  });

  it("once, although a repeated call brings the block again", () => {
    const used = block({ taken: 3 });
    const after = withAnswer({ ...having(used), refusal }, answered, NOW);
    expect(after).toEqual(having(used));
  });

  it.each([
    [given.useBy - 1, 1],
    [given.useBy, 0],
  ])("unless it comes too late: at %i it has %i blocks", (now, blocks) => {
    const after = withAnswer({ ...member, refusal }, answered, now);
    expect(after.blocks).toHaveLength(blocks);
    expect(after.refusal).toBeNull();
  });

  it("unchanged while the clocks may agree", () => {
    expect(blockBy(0, 100)).toMatchObject({ firstAt: NOW - 100, useBy: NOW + 900, leasesEndBy: NOW + 5_900 });
    expect(blockBy(-100, 100)).toMatchObject({ firstAt: NOW, useBy: NOW + 1_000, leasesEndBy: NOW + 6_000 });
  });

  it.each([5_000, -5_000])("from a group whose clock is %i ms behind, not to send before now", (behindMs) => {
    expect(blockBy(behindMs, 100)?.firstAt).toBe(NOW);
  });

  it("from a group whose clock is behind, as if it had been given at the request", () => {
    expect(blockBy(5_000, 100)).toMatchObject({ useBy: NOW + 900, leasesEndBy: NOW + 5_900 });
    expect(blockBy(5_000, 1_000)).toBeUndefined();
  });

  it("from a group whose clock is ahead, as if it had been given now, and no later than the group waits for", () => {
    expect(blockBy(-5_000, 100)).toMatchObject({ useBy: NOW + 1_000, leasesEndBy: NOW + 6_000 });
    expect(blockBy(-5_000, 1_500)).toMatchObject({ useBy: NOW + 500, leasesEndBy: NOW + 5_500 });
    expect(blockBy(-5_000, 2_000)).toBeUndefined();
  });

  it.each([5_000, -5_000])("waiting as long as a refusal of a clock %i ms off says", (behindMs) => {
    const at = NOW - behindMs;
    const moved = { ...refusal, until: at + 60_000, quietUntil: at + 2_000 };
    const answer = { at, kind: "refused", refusal: moved } as const;
    expect(withAnswer(member, { answer, askedAt: NOW }, NOW).refusal).toEqual(refusal);
  });
});

describe("a member gives a block back", () => {
  it("that was not used, and keeps the others", () => {
    expect(withoutBlock(having(block(), block({ id: "b" })), "a")).toEqual(having(block({ id: "b" })));
  });

  it.each([{ taken: 1 }, { peak: 1 }])("but not one that was used: %j", (used) => {
    expect(withoutBlock(having(block(used)), "a")).toBeUndefined();
  });
});

describe("a member grants from a block", () => {
  const within = (blocks: readonly Block[], leases: Parameters<typeof withinBlock>[1] = [], now = NOW) =>
    withinBlock(having(...blocks), leases, room, LEASE_MS, now);

  it("no more than the block and the gate's own capacity have, at the slower pace of the two", () => {
    expect(within([block()])).toEqual({
      block: "a",
      capacity: {
        slots: 5,
        probe: false,
        // Its own ten later sends are left: 150 - 10 × 10 ms. The block's ten end 200 ms from now.
        reservation: { sends: 10, firstAt: NOW, everyMs: 20, slackMs: 100, tat: NOW + 200 },
      },
    });
  });

  it("so that its own later sends come no sooner than its own rate lets them", () => {
    const later = { ...room, reservation: { ...reservation, tat: NOW + 600 } };
    const within = withinBlock(having(block()), [], later, LEASE_MS, NOW);
    expect(within?.capacity.reservation).toMatchObject({ sends: 10, tat: NOW + 500 });
  });

  it("no more than the gate's own capacity if that is less", () => {
    const own = { sends: 2, firstAt: NOW + 500, everyMs: 30, slackMs: 0, tat: NOW + 900 };
    const narrow = { slots: 1, reservation: own, probe: true };
    expect(withinBlock(having(block()), [], narrow, LEASE_MS, NOW)?.capacity).toEqual({
      slots: 1,
      probe: true,
      reservation: own,
    });
  });

  it("what earlier leases have left, beginning where their sends end", () => {
    const left = within([block({ taken: 6 })], [share(2), { share: { ...share(9).share, block: "b" } }, {}]);
    expect(left?.capacity.slots).toBe(3);
    expect(left?.capacity.reservation).toMatchObject({ sends: 4, firstAt: NOW + 120, tat: NOW + 200 });
  });

  it.each([
    ["its time is over", { useBy: NOW }, []],
    ["the lease would outlast it", { leasesEndBy: NOW + LEASE_MS - 1 }, []],
    ["all sends are taken", { taken: 10 }, []],
    ["all slots are in use", {}, [share(5)]],
  ] as const)("unless %s: then from the next one", (_, part, leases) => {
    expect(within([block(part)], leases)).toBeUndefined();
    expect(within([block(part), block({ id: "b" })], leases)?.block).toBe("b");
  });

  it("up to the last moment that the block allows", () => {
    expect(
      within([block({ useBy: NOW + 1, leasesEndBy: NOW + LEASE_MS, taken: 9 })], [share(4)]),
    ).toBeDefined();
  });
});

describe("a member asks its group", () => {
  const needs = (blocks: readonly Block[], leases: Parameters<typeof needsOf>[1] = [], capacity = room) =>
    needsOf(having(...blocks), leases, capacity, { leaseMs: LEASE_MS, connections: 6 }, NOW);

  it("for as much as it has room and connections for", () => {
    expect(needs([]).needs).toEqual({
      askedAt: NOW,
      slots: 6,
      sends: 20,
      leaseMs: LEASE_MS,
      ends: [],
      succeeded: 0,
    });
    expect(needs([], [], { ...room, slots: 3 }).needs.slots).toBe(3);
    expect(needs([], [], { ...room, reservation: { ...reservation, sends: 2 } }).needs.slots).toBe(2);
  });

  it("for one attempt if it may only make a probe, however busy it was", () => {
    const { slots, sends } = needs([block({ taken: 40, peak: 8 })], [], { ...room, probe: true }).needs;
    expect([slots, sends]).toEqual([1, 1]);
  });

  it("for twice what it used recently, within its room and a thousand sends", () => {
    const busy = [block({ taken: 15, peak: 2 }), block({ id: "b", taken: 5, peak: 2, useBy: NOW - 999 })];
    const little = { ...room, reservation: { ...reservation, sends: 1 } };
    expect(needs(busy, [], little).needs).toMatchObject({ slots: 8, sends: 40 });
    expect(needs([block({ taken: 501, peak: 3 })], [], little).needs).toMatchObject({
      slots: 6,
      sends: 1_000,
    });
  });

  it.each([{ useBy: NOW - 1_000 }, { leasesEndBy: NOW }])("not for what it used before: %j", (part) => {
    expect(needs([block({ taken: 40, peak: 8, ...part })]).needs).toMatchObject({ slots: 6, sends: 20 });
  });

  it("and reports blocks that are over, with what succeeded in them", () => {
    const over = block({ useBy: NOW, taken: 7, succeeded: 4 });
    const live = block({ id: "b", useBy: NOW + 1, succeeded: 2 });
    const { membership, needs: asked } = needs([over, live]);
    expect(asked).toMatchObject({ ends: [{ block: "a", slots: 0, unused: 3 }], succeeded: 4 });
    expect(membership.blocks).toEqual([live]);
  });

  it("and gives back the idle slots of a block whose leases are still running", () => {
    const { membership, needs: asked } = needs([block({ useBy: NOW, taken: 7, succeeded: 4 })], [share(2)]);
    expect(asked).toMatchObject({ ends: [{ block: "a", slots: 2, unused: 0 }], succeeded: 0 });
    expect(membership.blocks).toMatchObject([{ id: "a", slots: 2 }]);
  });

  it.each([
    ["its time is not over", block({ useBy: NOW + 1 }), [share(2)]],
    ["all of them are in use", block({ useBy: NOW }), [share(5)]],
  ])("but not where %s", (_, one, leases) => {
    const { membership, needs: asked } = needs([one], leases);
    expect(asked.ends).toEqual([]);
    expect(membership.blocks).toEqual([one]);
  });

  it("and forgets a block a minute after its last lease, even if something runs in it", () => {
    const at = (leasesEndBy: number) =>
      needs([block({ useBy: NOW, leasesEndBy })], [share(5)]).membership.blocks.length;
    expect(at(NOW - 60_000)).toBe(0);
    expect(at(NOW - 59_999)).toBe(1);
  });
});

describe("a lease has its part of a block", () => {
  it("from the end of the last one's part, and the block remembers the most slots at once", () => {
    const before = having(block({ taken: 3, peak: 2 }), block({ id: "b" }));
    const { membership, share: part } = afterShare(before, "a", { slots: 2, sends: 4 }, [share(1)]);
    expect(part).toEqual({ block: "a", slots: 2, from: 3, sends: 4 });
    expect(membership).toEqual(having(block({ taken: 7, peak: 3 }), block({ id: "b" })));
  });

  it("from the first place if the block is no longer known", () => {
    const { membership, share: part } = afterShare(having(), "a", { slots: 2, sends: 4 }, []);
    expect([membership, part.from]).toEqual([having(), 0]);
  });

  it("without lowering the most slots that there were", () => {
    const { membership } = afterShare(having(block({ peak: 4 })), "a", { slots: 2, sends: 1 }, []);
    expect(membership.blocks).toMatchObject([{ peak: 4 }]);
  });
});

describe("a lease that ends", () => {
  const end = (
    blocks: readonly Block[],
    part = {},
    { started = 4, succeeded = 0, leases = [] as Parameters<typeof afterShareEnd>[3] } = {},
  ) => afterShareEnd(having(...blocks), share(2, part), { started, succeeded }, leases, NOW);

  it("without a part of a block changes nothing", () => {
    const before = having(block({ wanted: true, taken: 1 }));
    const outcome = { started: 1, succeeded: 1 };
    expect(afterShareEnd(before, {}, outcome, [], NOW)).toEqual({
      membership: before,
      ends: [],
      succeeded: 0,
    });
  });

  it("gives back its unused sends, if it was the last to take some", () => {
    expect(end([block({ taken: 4 })], {}, { started: 1 }).membership).toEqual(having(block({ taken: 1 })));
    expect(end([block({ taken: 9 })], {}, { started: 1 }).membership).toEqual(having(block({ taken: 9 })));
    expect(end([block({ taken: 9 })], { from: 5 }, { started: 9 }).membership).toEqual(
      having(block({ taken: 9 })),
    );
  });

  it("adds what has succeeded to its block, and to no other", () => {
    const before = [block({ taken: 4, succeeded: 1 }), block({ id: "b", succeeded: 5 })];
    const { membership, ...back } = end(before, {}, { succeeded: 3 });
    expect(membership.blocks).toMatchObject([{ succeeded: 4 }, { succeeded: 5 }]);
    expect(back).toEqual({ ends: [], succeeded: 0 });
  });

  it("ends a block that the group wants back and that is no longer used, with the report of successes", () => {
    const { membership, ...back } = end(
      [block({ wanted: true, taken: 4, succeeded: 2 })],
      {},
      { succeeded: 3 },
    );
    expect(membership).toEqual(having());
    expect(back).toEqual({ ends: [{ block: "a", slots: 0, unused: 6 }], succeeded: 5 });
  });

  it.each([
    ["the group does not want", block({ taken: 4 }), { started: 4 }],
    ["of which no send was made", block({ taken: 4, wanted: true }), { started: 0 }],
  ])("keeps a block that %s", (_, one, outcome) => {
    expect(end([one], {}, outcome).ends).toEqual([]);
  });

  it("ends a probe's block even if the probe was not made", () => {
    expect(end([block({ taken: 4, wanted: true, probe: true })], {}, { started: 0 }).ends).toHaveLength(1);
  });

  it.each([
    [5, 2, [{ block: "a", slots: 2, unused: 0 }]],
    [4, 2, [{ block: "a", slots: 2, unused: 0 }]],
    [3, 2, []],
  ])("gives back idle slots once half are: of %i with %i in use", (slots, used, ends) => {
    const after = end([block({ wanted: true, taken: 4, slots })], {}, { leases: [share(used)] });
    expect(after.ends).toEqual(ends);
    expect(after.membership.blocks).toMatchObject([{ slots: ends.length > 0 ? used : slots }]);
  });

  it("gives back no slots of a block that the group does not want", () => {
    expect(end([block({ taken: 4 })], {}, { leases: [share(1)] }).ends).toEqual([]);
  });

  it("has nothing given back if its block is not known, as one of a former group", () => {
    const before = having(block({ id: "b", wanted: true, taken: 4 }));
    const outcome = { started: 1, succeeded: 1 };
    expect(afterShareEnd(before, share(2), outcome, [], NOW)).toEqual({
      membership: before,
      ends: [],
      succeeded: 0,
    });
  });
});

it("a member knows of no block, and of no refusal, at first", () => {
  expect(member).toEqual({ group: GROUP, since: NOW, blocks: [], refusal: null });
});

describe("the gate of a destination that is moved to another group", () => {
  const limits = { ...steady, maxConcurrency: 20 };
  const request = (name: string, part: Partial<AdmitRequest> = {}): AdmitRequest => ({
    ...{ lane: "backlog", deliveries: [1, 2], connections: 5, startWithinMs: 1_000, group: { name } },
    ...part,
  });
  /** The request with the group's answer. */
  const answeredBy = (name: string, answer: Answered["answer"]) =>
    request(name, { group: { name, answered: { answer, askedAt: NOW } } });
  const blockOf = (name: string): Answered["answer"] => {
    const block = { ...given, id: name, leasesEndBy: NOW + 100_000, wanted: true } as const;
    return { at: NOW, kind: "block", block };
  };
  const refusedFor = { at: NOW, kind: "refused", refusal } as const;
  const fresh = newGateState(NOW);
  const window = { size: 20, threshold: 20 };
  const gate = { ...fresh, destinationState: { ...fresh.destinationState, window } };
  /** A caller has read the destination before it was moved, and is at its former group. */
  const asking = admit(gate, request("old"), limits, NOW);
  /** It was moved, and has a block of its new group. */
  const moved = () => {
    const left = afterGroupLeft(asking.state, NOW);
    const first = admit(left, request("new", { deliveries: [7, 8] }), limits, NOW);
    const answered = { ...answeredBy("new", blockOf("new")), deliveries: [7, 8] };
    return admit(first.state, answered, limits, NOW);
  };

  it("grants nothing from a late block of the former group, which is given back", () => {
    expect(asking.result.needs).toBeDefined();
    for (const before of [afterGroupLeft(asking.state, NOW), moved().state]) {
      const { state, result } = admit(before, answeredBy("old", blockOf("old")), limits, NOW);
      expect(result).toMatchObject({ grant: null, refused: { reason: "group", until: NOW }, unused: true });
      expect(state.membership).toEqual(before.membership);
      expect(admit(state, request("new", { deliveries: [3] }), limits, NOW).result.block).not.toBe("old");
    }
  });

  it("does not wait for what the former group has refused", () => {
    for (const before of [afterGroupLeft(asking.state, NOW), moved().state]) {
      const { state, result } = admit(before, answeredBy("old", refusedFor), limits, NOW);
      expect(result.refused).toMatchObject({ reason: "group", until: NOW });
      expect(state.membership?.refusal).toBeNull();
      expect(waitsFor(state, NOW)).toBeUndefined();
    }
  });

  it("neither leases to a caller that read it before, nor forgets the new group's blocks for one", () => {
    const before = moved().state;
    const from = (lookedUpMsAgo: number) =>
      admit(before, request("old", { deliveries: [3], lookedUpMsAgo }), limits, NOW + 1);
    const { state, result } = from(2);
    expect(result).toMatchObject({ grant: null, refused: { reason: "group", until: NOW + 1 } });
    expect(result).not.toHaveProperty("needs");
    expect(state.membership).toEqual(before.membership);
    // It has been moved back.
    expect(from(1)).toMatchObject({
      state: { membership: { group: "old", since: NOW + 1 } },
      result: { needs: {} },
    });
  });

  it("grants nothing to a request of the new group from the former group's block", () => {
    const { state, result } = admit(asking.state, answeredBy("old", blockOf("old")), limits, NOW);
    expect(result.block).toBe("old");
    const first = admit(state, request("new", { deliveries: [3] }), limits, NOW).result;
    expect(first).toMatchObject({ grant: null, needs: { ends: [] } });
  });

  it("gives no block of the new group back to the former one", () => {
    const former = admit(asking.state, answeredBy("old", blockOf("old")), limits, NOW);
    const left = afterGroupLeft(former.state, NOW);
    const first = admit(left, request("new", { deliveries: [3] }), limits, NOW).state;
    const second = admit(first, { ...answeredBy("new", blockOf("new")), deliveries: [3] }, limits, NOW);
    expect(second.result.block).toBe("new");
    const settled = (state: GateState, lease = "") =>
      settle(
        state,
        { lease, signals: [{ at: NOW, health: "healthy", backsOff: false }], left: 0 },
        limits,
        NOW,
        0,
      );
    const { state, over } = settled(second.state, former.result.grant?.id);
    expect(over).toBeUndefined();
    expect(settled(state, second.result.grant?.id).over).toMatchObject({ ends: [{ block: "new" }] });
  });
});

describe("the gate of a destination that is tried again", () => {
  const limits = { ...steady, maxConcurrency: 20 };
  const over = having(block({ useBy: NOW, taken: 4 }));
  const before: GateState = { ...newGateState(NOW), membership: { ...over, refusal } };
  const request: AdmitRequest = {
    ...{ lane: "backlog", deliveries: [1], connections: 5, startWithinMs: 1_000, group: { name: GROUP } },
  };

  it("gives its group the blocks back that it held, and does not wait for the group's call", () => {
    const state = afterResume(before, NOW, { at: NOW, reason: "manual" });
    expect(waitsFor(state, NOW)).toBeUndefined();
    expect(admit(state, request, limits, NOW).result.needs?.ends).toEqual([
      { block: "a", slots: 0, unused: 6 },
    ]);
  });

  it("has left its group if its URL has changed", () => {
    expect(afterResume(before, NOW).membership).toEqual(newMembership("", NOW));
    expect(afterResume({ ...before, membership: null }, NOW).membership).toBeNull();
  });
});
