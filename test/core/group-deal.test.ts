import { describe, expect, it } from "vitest";
import { called, deal } from "../../src/core/group/deal.ts";
import { type GroupState, newGroupState } from "../../src/core/group/group-state.ts";
import { steady } from "../support/gate-arbitraries.ts";

const NOW = 1_000_000;
const empty = newGroupState(NOW);
/** An eighth of the slots is two. Ten sends take 100 ms. */
const settings = { maxConcurrency: 16, ratePerSecond: 100, rateBurst: 1, breaker: steady.breaker };
const halfOpen = { kind: "half_open", since: NOW, trips: 1 } as const;

type Waiter = GroupState["ring"][number];
type Block = GroupState["blocks"][number];

/** A member's name begins with its tenant's. */
const tenantOf = (member: string) => member[0] ?? "";

function waiter(member: string, part: Partial<Waiter> = {}): Waiter {
  return { member, tenant: tenantOf(member), since: NOW, askedAt: NOW, calledAt: 0, ...part };
}

function block(member: string, slots: number, part: Partial<Block> = {}): Block {
  const id = `${member} ${slots}`;
  return {
    id,
    member,
    tenant: tenantOf(member),
    slots,
    everyMs: 10,
    tat: 0,
    expiresAt: NOW + 7_000,
    ...part,
  };
}

function ask(
  state: GroupState,
  member: string,
  { slots = 20, sends = 100, now = NOW, maxConcurrency = 16, rateBurst = 1 } = {},
) {
  const none = { ends: [], succeeded: 0, failed: 0, unreached: 0, limited: 0, waitMs: 0 };
  const report = { ...none, member, tenant: tenantOf(member), isOneHost: true };
  const request = { slots, sends, leaseMs: 5_000, report };
  return deal(state, request, { ...settings, maxConcurrency, rateBurst }, now, 0);
}

/** The block that the member gets, or why it is refused. */
function givenTo(...given: Parameters<typeof ask>) {
  const { answer } = ask(...given);
  return answer.kind === "block"
    ? { slots: answer.block.slots, sends: answer.block.sends }
    : answer.refusal.why;
}

describe("a member gets a block", () => {
  it("of all slots but an eighth, and of the sends of most of a second, if it is alone", () => {
    const { state, answer } = ask(empty, "a");
    const id = `${NOW.toString(36)}-0-1`;
    expect(answer).toStrictEqual({
      at: NOW,
      kind: "block",
      block: {
        id,
        ...{ slots: 14, sends: 88, firstAt: NOW, everyMs: 10, slackMs: 0 },
        ...{ useBy: NOW + 1_000, leasesEndBy: NOW + 6_000, wanted: true },
      },
    });
    const counted = { slots: 14, everyMs: 10, tat: NOW + 880, expiresAt: NOW + 7_000 };
    expect(state).toStrictEqual({
      ...empty,
      settings,
      given: 1,
      blocks: [{ id, member: "a", tenant: "a", ...counted }],
    });
  });

  it("of a whole burst in addition to these sends", () => {
    expect(givenTo(empty, "a", { sends: 200, rateBurst: 100 })).toMatchObject({ sends: 187 });
  });

  it("that the group wants back while its window is narrower than the limit", () => {
    const state = { ...empty, window: { ...empty.window, size: 8 } };
    expect(ask(state, "a", { slots: 1 }).answer).toHaveProperty("block.wanted", true);
  });

  it("that the group does not want back while no more than half is given out", () => {
    expect(ask(empty, "a", { slots: 8 }).answer).not.toHaveProperty("block.wanted");
    expect(ask(empty, "a", { slots: 9 }).answer).toHaveProperty("block.wanted", true);
  });

  it("of one send that the group wants back if it has given out many, because it stores them all with each", () => {
    const wide = { maxConcurrency: 10_000, slots: 1 };
    const having = (count: number) => ({
      ...empty,
      blocks: Array.from({ length: count }, (_, i) => block(`m${i}`, 1)),
    });
    expect(ask(having(500), "a", { ...wide, sends: 1 }).answer).toHaveProperty("block.wanted", true);
    expect(ask(having(499), "a", { ...wide, sends: 1 }).answer).not.toHaveProperty("block.wanted");
    expect(ask(having(500), "a", { ...wide, sends: 2 }).answer).not.toHaveProperty("block.wanted");
  });

  it.each([
    [1, 1],
    [2, 1],
    [8, 7],
    [15, 14],
    [24, 21],
  ])("so that of %i slots the first tenant has %i at most", (maxConcurrency, slots) => {
    expect(givenTo(empty, "a", { slots: 50, maxConcurrency })).toMatchObject({ slots });
  });

  it("of no more slots than sends", () => {
    expect(givenTo(empty, "a", { sends: 3 })).toEqual({ slots: 3, sends: 3 });
  });

  it("out of the last eighth, over the whole second, if its tenant has none and the rest is taken", () => {
    const { state, answer } = ask({ ...empty, tat: NOW + 880, blocks: [block("a", 14)] }, "b");
    expect(answer).toMatchObject({ kind: "block", block: { slots: 2, sends: 13 } });
    expect(state.blocks[1]).toMatchObject({ member: "b", fresh: true });
    expect(givenTo(state, "c")).toBe("concurrency");
  });

  it("out of the last eighth, within what is left of it and of the whole", () => {
    expect(givenTo({ ...empty, blocks: [block("a", 15)] }, "b")).toMatchObject({ slots: 1 });
    const rest = { ...empty, ring: [waiter("x")], blocks: [block("b", 1, { fresh: true })] };
    expect(givenTo(rest, "c")).toMatchObject({ slots: 1 });
  });

  it("in addition to those out of the last eighth, which do not count for other shares", () => {
    expect(givenTo({ ...empty, blocks: [block("a", 2, { fresh: true })] }, "b")).toMatchObject({ slots: 14 });
    expect(
      givenTo({ ...empty, blocks: [block("a", 13), block("b", 2, { fresh: true })] }, "a"),
    ).toMatchObject({ slots: 1 });
    // The window has become narrower since.
    const narrowed = { ...empty, blocks: [block("a", 11), block("b", 4, { fresh: true })] };
    expect(givenTo(narrowed, "a")).toMatchObject({ slots: 1 });
    const own = { ring: [waiter("a2", { calledAt: NOW - 10 })], blocks: [block("a1", 2, { fresh: true })] };
    expect(givenTo({ ...empty, ...own }, "a2")).toMatchObject({ slots: 14 });
  });

  it("of only its tenant's share of the sends, if others have blocks", () => {
    expect(givenTo({ ...empty, blocks: [block("b", 1)] }, "a")).toMatchObject({ sends: 50 });
    const many = "bcdefghijklm".split("").map((member) => block(member, 1));
    expect(givenTo({ ...empty, blocks: many }, "a")).toMatchObject({ sends: 10 });
  });
});

describe("a member is refused", () => {
  const full: GroupState = { ...empty, blocks: [block("a", 14), block("b", 2, { fresh: true })] };

  it("and enters the ring, and retries the later the more are before it", () => {
    const first = ask(full, "c");
    expect(first.answer).toEqual({
      at: NOW,
      kind: "refused",
      refusal: { why: "concurrency", until: NOW + 60_000, quietUntil: NOW + 2_000 },
    });
    expect(first.state.ring).toEqual([waiter("c")]);
    const second = ask(first.state, "d");
    expect(second.answer).toMatchObject({ refusal: { until: NOW + 61_000 } });
    expect(second.state.ring).toEqual([waiter("c"), waiter("d")]);
  });

  it("again at its old place, although it was called", () => {
    const ring = [waiter("c", { calledAt: NOW - 10 }), waiter("d")];
    const { state, answer } = ask({ ...full, ring }, "c", { now: NOW + 5 });
    expect(state.ring).toEqual([waiter("c", { askedAt: NOW + 5 }), waiter("d")]);
    expect(answer).toMatchObject({ refusal: { until: NOW + 60_005 } });
  });

  it("while the rate is used up, until after its next send", () => {
    expect(ask({ ...empty, tat: NOW + 10_000 }, "a").answer).toMatchObject({
      refusal: { why: "rate", until: NOW + 70_000 },
    });
  });

  it("during a hold or while the circuit is open, until its end", () => {
    expect(ask({ ...empty, heldUntil: NOW + 5_000 }, "a").answer).toMatchObject({
      refusal: { why: "hold", until: NOW + 65_000 },
    });
    const open = { kind: "open", since: NOW, until: NOW + 3_000.5, trips: 1 } as GroupState["circuit"];
    expect(ask({ ...empty, circuit: open }, "a").answer).toMatchObject({
      refusal: { why: "circuit_open", until: NOW + 63_001 },
    });
  });

  it("without a place in a ring that is full, or in which its tenant has two hundred places", () => {
    const own = Array.from({ length: 200 }, (_, i) => waiter(`c${i}`));
    const others = (count: number) =>
      Array.from({ length: count }, (_, i) => waiter(`d${i}`, { tenant: `${i}` }));
    const { state, answer } = ask({ ...full, ring: own }, "cc");
    expect(state.ring).toEqual(own);
    expect(answer).toMatchObject({ refusal: { until: NOW + 260_000 } });
    expect(ask({ ...full, ring: own.slice(1) }, "cc").state.ring).toHaveLength(200);
    expect(ask({ ...full, ring: own }, "e").state.ring).toHaveLength(201);
    expect(ask({ ...full, ring: others(2_000) }, "e").state.ring).toHaveLength(2_000);
    expect(ask({ ...full, ring: others(1_999) }, "e").state.ring).toHaveLength(2_000);
  });
});

describe("while others wait, a member", () => {
  it("gets its turn, a share of the capacity, and its tenant's other members come after other tenants'", () => {
    const ring = [waiter("b1", { calledAt: NOW - 10 }), waiter("c1"), waiter("b2")];
    const { state, answer } = ask({ ...empty, ring }, "b1");
    expect(answer).toMatchObject({ block: { slots: 7, sends: 50, wanted: true } });
    expect(state.ring).toEqual([waiter("c1"), waiter("b2")]);
    expect(state.served).toEqual([{ tenant: "b", at: NOW }]);
  });

  it("has no more than its tenant's share over all its members", () => {
    const ring = [waiter("b2", { calledAt: NOW - 10 }), waiter("c1", { calledAt: NOW - 10 })];
    const having = (slots: number) => givenTo({ ...empty, ring, blocks: [block("b1", slots)] }, "b2");
    expect(having(5)).toMatchObject({ slots: 2 });
    expect(having(7)).toBe("concurrency");
  });

  it("that was not called waits only for those before it", () => {
    const ring = [waiter("b"), waiter("c")];
    expect(givenTo({ ...empty, ring }, "b")).toMatchObject({ slots: 7 });
    expect(givenTo({ ...empty, ring }, "c")).toBe("concurrency");
  });

  it("that was called does not wait", () => {
    const ring = [waiter("b"), waiter("c", { calledAt: NOW - 10 })];
    expect(givenTo({ ...empty, ring }, "c")).toMatchObject({ slots: 7 });
  });

  it("that is behind a called one leaves a slot for it", () => {
    const ring = [waiter("b", { calledAt: NOW - 10 }), waiter("c")];
    const blocks = (slots: number) => ({ ...empty, ring, blocks: [block("d", slots)] });
    expect(givenTo(blocks(10), "c")).toMatchObject({ slots: 3 });
    expect(givenTo(blocks(13), "c")).toBe("concurrency");
  });

  it("that is new gets something of the last eighth at once", () => {
    const ring = [waiter("b"), waiter("c")];
    expect(ask({ ...empty, ring }, "d").state.blocks).toMatchObject([{ slots: 2, fresh: true }]);
    expect(givenTo({ ...empty, ring, blocks: [block("d", 1)] }, "d2")).toBe("concurrency");
    expect(givenTo({ ...empty, ring }, "b2")).toBe("concurrency");
  });

  it.each([
    ["since its tenant had a turn", NOW - 10, [], "concurrency"],
    ["from before its tenant's turn's moment", NOW, [], "concurrency"],
    ["only after its tenant's turn", NOW + 1, [], { slots: 2, sends: 50 }],
    ["but has got something meanwhile", NOW - 10, [block("c2", 1)], { slots: 2, sends: 50 }],
  ] as const)("gets nothing of it where another tenant waits %s: %i", (_, since, blocks, expected) => {
    const state = { ...empty, ring: [waiter("c", { since })], served: [{ tenant: "b", at: NOW }], blocks };
    expect(givenTo(state, "b")).toEqual(expected);
  });

  it("gets nothing of it if one of several has waited since its tenant had a turn", () => {
    const ring = [waiter("c", { since: NOW - 10 }), waiter("d", { since: NOW + 1 })];
    expect(givenTo({ ...empty, ring, served: [{ tenant: "b", at: NOW }] }, "b")).toBe("concurrency");
  });

  it("gets it if the other tenant was served later", () => {
    const served = [
      { tenant: "b", at: NOW - 5 },
      { tenant: "c", at: NOW - 4 },
    ];
    const ring = [waiter("c", { since: NOW - 10 })];
    expect(givenTo({ ...empty, ring, served }, "b")).toMatchObject({ slots: 2 });
    expect(givenTo({ ...empty, ring, served: served.toReversed() }, "b")).toBe("concurrency");
  });

  it("makes the group forget turns from before the first waiting member came", () => {
    const served = [
      { tenant: "x", at: NOW - 51 },
      { tenant: "y", at: NOW - 50 },
      { tenant: "b", at: NOW - 40 },
    ];
    const ring = [waiter("b", { calledAt: NOW - 1 }), waiter("c", { since: NOW - 50 }), waiter("d")];
    expect(ask({ ...empty, ring, served }, "b").state.served).toEqual([
      { tenant: "y", at: NOW - 50 },
      { tenant: "b", at: NOW },
    ]);
    expect(ask({ ...empty, ring: [waiter("b")], served }, "b").state.served).toEqual([]);
    const many = Array.from({ length: 2_000 }, (_, i) => ({ tenant: `${i}`, at: NOW }));
    const { state } = ask({ ...empty, ring, served: many }, "b");
    expect(state.served).toEqual([...many.slice(1), { tenant: "b", at: NOW }]);
  });
});

describe("while the circuit is half-open, a member", () => {
  it("gets one attempt at once, and no other member does until that has ended", () => {
    const { state, answer } = ask({ ...empty, circuit: halfOpen, tat: NOW + 900 }, "a");
    expect(answer).toMatchObject({
      block: { slots: 1, sends: 1, firstAt: NOW, probe: true, wanted: true },
    });
    expect(state.blocks).toMatchObject([{ slots: 1, probe: true, tat: NOW + 900 }]);
    expect(ask(state, "b").answer).toMatchObject({ refusal: { why: "probing", until: NOW + 67_000 } });
  });

  it("gets one in addition to blocks that are not probes", () => {
    expect(givenTo({ ...empty, circuit: halfOpen, blocks: [block("a", 3)] }, "b")).toMatchObject({
      sends: 1,
    });
  });

  it("of the tenant whose probe has failed waits, while others may try", () => {
    const circuit = { ...halfOpen, failed: { tenant: "a", until: NOW + 4_000 } };
    expect(ask({ ...empty, circuit }, "a").answer).toMatchObject({
      refusal: { why: "probing", until: NOW + 64_000 },
    });
    expect(givenTo({ ...empty, circuit }, "b")).toEqual({ slots: 1, sends: 1 });
    expect(givenTo({ ...empty, circuit }, "a", { now: NOW + 4_000 })).toEqual({ slots: 1, sends: 1 });
  });
});

describe("the group calls members that wait", () => {
  const call = (part: Partial<GroupState>, own: Partial<typeof settings> = {}) =>
    called({ ...empty, ...part }, { ...settings, ...own }, NOW);

  it("and stops checking when none waits", () => {
    expect(call({})).toEqual({ state: empty, members: [], at: null });
  });

  it("one of each tenant first, and checks again after a second", () => {
    const ring = ["a", "b1", "b2", "c"].map((member) => waiter(member));
    const { state, members, at } = call({ ring });
    expect(members).toEqual(["a", "b1", "c", "b2"]);
    expect(state.ring).toEqual(ring.map((one) => ({ ...one, calledAt: NOW })));
    expect(at).toBe(NOW + 1_000);
  });

  it("of tenants with called members after those of other tenants", () => {
    const ring = [waiter("a1", { calledAt: NOW - 10 }), waiter("a2"), waiter("b")];
    expect(call({ ring }).members).toEqual(["b", "a2"]);
  });

  it("as many as slots are free, already called ones included", () => {
    const ring = ["a", "b", "c"].map((member) => waiter(member));
    const { state, members } = call({ ring, blocks: [block("d", 12), block("e", 2, { fresh: true })] });
    expect(members).toEqual(["a", "b"]);
    expect(state.ring.map(({ calledAt }) => calledAt)).toEqual([NOW, NOW, 0]);
    const coming = [waiter("x", { calledAt: NOW - 10 }), ...ring];
    expect(call({ ring: coming, blocks: [block("d", 12)] }).members).toEqual(["a"]);
    expect(call({ ring }, { maxConcurrency: 1 }).members).toEqual(["a"]);
    const none = { ring, blocks: [block("d", 14)] };
    expect(call(none)).toEqual({ state: { ...empty, ...none }, members: [], at: NOW + 1_000 });
  });

  it("as many as the rate has turns for", () => {
    const ring = "abcdefghijklmn".split("").map((member) => waiter(member));
    expect(call({ ring }).members).toHaveLength(9);
    expect(call({ ring }, { ratePerSecond: 50 }).members).toHaveLength(5);
    expect(call({ ring, tat: NOW + 875 }).members).toHaveLength(1);
    expect(call({ ring, tat: NOW + 876 }).members).toHaveLength(0);
  });

  it("and a few more that were refused a second ago, because a drain takes a while", () => {
    const asked = (askedAt: number) => "abcdefghij".split("").map((member) => waiter(member, { askedAt }));
    const blocks = [block("x", 13)];
    expect(call({ ring: asked(NOW - 999), blocks }).members).toHaveLength(1);
    expect(call({ ring: asked(NOW - 1_000), blocks }).members).toEqual("abcdefg".split(""));
    const coming = [waiter("y", { calledAt: NOW - 10 }), waiter("z", { calledAt: NOW - 10 })];
    expect(call({ ring: [...coming, ...asked(NOW - 1_000)], blocks }).members).toHaveLength(5);
    // The rate has turns for two.
    expect(call({ ring: asked(NOW - 1_000), blocks, tat: NOW + 760 }).members).toHaveLength(2);
  });

  it("and waits five seconds for one that it has called", () => {
    const ring = [waiter("a", { calledAt: NOW - 5_000 }), waiter("b", { calledAt: NOW - 4_999 })];
    expect(call({ ring }).state.ring).toEqual(ring.slice(1));
    expect(call({ ring: ring.slice(0, 1) })).toEqual({ state: empty, members: [], at: null });
  });

  it("when a block of the whole group is over", () => {
    const ring = [waiter("a")];
    const held = { ring, heldUntil: NOW + 5_000.5 };
    expect(call(held)).toEqual({ state: { ...empty, ...held }, members: [], at: NOW + 5_001 });
  });

  it("one for the probe of a half-open circuit, and none while that runs", () => {
    const ring = [waiter("a", { askedAt: 0 }), waiter("b", { askedAt: 0 })];
    expect(call({ ring, circuit: halfOpen }).members).toEqual(["a"]);
    expect(call({ ring, circuit: halfOpen, blocks: [block("c", 1)] }).members).toEqual(["a"]);
    expect(call({ ring, circuit: halfOpen, blocks: [block("c", 1, { probe: true })] }).members).toEqual([]);
  });

  it("of another tenant than the one whose probe has failed, until that one may try again", () => {
    const ring = [waiter("a"), waiter("b")];
    const failed = (until: number) => ({ ...halfOpen, failed: { tenant: "a", until } });
    expect(call({ ring, circuit: failed(NOW + 1) }).members).toEqual(["b"]);
    expect(call({ ring, circuit: failed(NOW) }).members).toEqual(["a"]);
  });
});
