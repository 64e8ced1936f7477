import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type AdmitRequest, admit } from "../../src/core/admit.ts";
import { type GateState, newGateState } from "../../src/core/gate-state.ts";
import { type BlockAnswer, deal } from "../../src/core/group/deal.ts";
import {
  BLOCK_MS,
  type GroupSettings,
  type GroupState,
  newGroupState,
  slotsOut,
} from "../../src/core/group/group-state.ts";
import type { Answered, BlockNeeds } from "../../src/core/group/member.ts";
import { afterGroupReport, type GroupReport } from "../../src/core/group/report.ts";
import type { Grant } from "../../src/core/lease.ts";
import { sendSlotsOf } from "../../src/core/rate-limit.ts";
import { settle } from "../../src/core/settle.ts";
import { restored } from "../../src/core/write-behind.ts";
import { start, steady } from "../support/gate-arbitraries.ts";

const { breaker } = steady;
const noOutcome = {
  succeeded: 0,
  failed: 0,
  unreached: 0,
  limited: 0,
  waitMs: 0,
  isOneHost: true,
} as const;

type Running = { readonly member: number; readonly grant: Grant; readonly until: number; slots: number };

/** Members' gates, their group and the crashes between them, with the attempts that are really in flight. */
class Histories {
  now = start;
  readonly settings: GroupSettings;
  readonly gates: GateState[];
  group: GroupState = newGroupState(start);
  stored: GroupState = this.group;
  running: Running[] = [];
  /** When attempts have really started, at the earliest that their leases allow. */
  readonly starts: number[] = [];
  /** Reports that are sent separately from requests. */
  reports = 0;
  /** Answers that are still under way to the member's gate. */
  late: { member: number; answered: Answered }[] = [];
  /** How far each gate's clock is ahead of the group's. */
  readonly #aheadMs: readonly number[];
  #event = 0;

  constructor(
    members: number,
    maxConcurrency: number,
    ratePerSecond: number,
    rateBurst: number,
    aheadMs: readonly number[] = [],
  ) {
    this.#aheadMs = aheadMs;
    this.settings = { maxConcurrency, ratePerSecond, rateBurst, breaker };
    this.gates = Array.from({ length: members }, (_, member) => {
      const state = newGateState(this.#nowAt(member));
      const destinationState = { ...state.destinationState, window: { size: 20, threshold: 20 } };
      return { ...state, destinationState };
    });
  }

  gate(member: number): GateState {
    return this.gates[member] ?? newGateState(start);
  }

  request(
    member: number,
    deliveries: number,
    lane: "fresh" | "backlog",
    crash: "none" | "fetched" | "late",
  ): void {
    const ids = Array.from({ length: deliveries }, () => ++this.#event);
    const request: AdmitRequest = { lane, deliveries: ids, connections: 5, startWithinMs: 3_000 };
    const first = this.#admit(member, { ...request, group: { name: "shared" } });
    if (!first.needs) return;
    const answered = { answer: this.deal(member, first.needs), askedAt: first.needs.askedAt };
    if (crash === "fetched") return;
    if (crash === "late") this.late.push({ member, answered });
    else this.#admit(member, { ...request, group: { name: "shared", answered } });
  }

  deal(member: number, needs: BlockNeeds): BlockAnswer {
    const { slots, sends, leaseMs, ends, succeeded } = needs;
    const report = { ...noOutcome, ...this.#who(member), ends, succeeded };
    const dealt = deal(this.group, { slots, sends, leaseMs, report }, this.settings, this.now, 0);
    this.group = dealt.state;
    // A block is stored before it goes out; the rest may be lost.
    if (dealt.answer.kind === "block") this.stored = this.group;
    return dealt.answer;
  }

  arrive(): void {
    const next = this.late.shift();
    if (!next) return;
    const ids = [++this.#event, ++this.#event];
    const request: AdmitRequest = { lane: "backlog", deliveries: ids, connections: 5, startWithinMs: 3_000 };
    this.#admit(next.member, { ...request, group: { name: "shared", answered: next.answered } });
  }

  end(which: number, share: number): void {
    const lease = this.running[which % Math.max(1, this.running.length)];
    if (!lease) return;
    this.running = this.running.filter((one) => one !== lease);
    const started = Math.floor(lease.grant.deliveries.length * share);
    this.#start(lease, started);
    const now = this.#nowAt(lease.member);
    const signals = Array.from({ length: started }, () => ({
      at: now,
      health: "healthy" as const,
      backsOff: false,
    }));
    const request = { lease: lease.grant.id, signals, left: 0 };
    const { state, over } = settle(this.gate(lease.member), request, steady, now, 0);
    this.gates[lease.member] = state;
    if (!over) return;
    this.reports += 1;
    this.report(lease.member, over);
  }

  report(member: number, part: Partial<GroupReport>): boolean {
    const report = { ...noOutcome, ends: [], ...this.#who(member), ...part };
    const { state, counted } = afterGroupReport(this.group, report, this.settings, this.now, 0);
    this.group = state;
    return counted;
  }

  /** The gate is evicted: its next incarnation begins with what is stored, all of which it knows here. */
  evict(member: number): void {
    this.gates[member] = restored(this.gate(member), this.#nowAt(member)).state;
  }

  evictGroup(): void {
    this.group = { ...this.stored, incarnation: this.group.incarnation + 1 };
  }

  pass(ms: number): void {
    this.now += ms;
    for (const lease of this.running.filter(({ until }) => until <= this.now))
      this.#start(lease, lease.grant.deliveries.length);
    this.running = this.running.filter(({ until }) => until > this.now);
  }

  inFlight(): number {
    return this.running.reduce((sum, { slots }) => sum + slots, 0);
  }

  #nowAt(member: number): number {
    return this.now + (this.#aheadMs[member] ?? 0);
  }

  #who(member: number) {
    return { member: `m${member}`, tenant: `t${member % 3}` };
  }

  #admit(member: number, request: AdmitRequest) {
    const { state, result } = admit(this.gate(member), request, steady, this.#nowAt(member));
    this.gates[member] = state;
    const { grant } = result;
    if (grant) this.running.push({ member, grant, until: this.now + grant.expiresInMs, slots: grant.slots });
    return result;
  }

  #start({ member, grant }: Running, started: number): void {
    const grantedAt = Number.parseInt(grant.id.split("-")[0] ?? "0", 36);
    const slots = sendSlotsOf(grant, grantedAt);
    for (let i = 0; i < started; i++) {
      const at = Math.max(grantedAt, slots.claim() ?? 0);
      slots.use(at);
      this.starts.push(at - (this.#aheadMs[member] ?? 0));
    }
  }
}

type Step =
  | {
      kind: "request";
      member: number;
      deliveries: number;
      lane: "fresh" | "backlog";
      crash: "none" | "fetched" | "late";
    }
  | { kind: "end"; which: number; share: number }
  | { kind: "pass"; ms: number }
  | { kind: "evict"; member: number }
  | { kind: "evictGroup" | "arrive" };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("request" as const),
      member: fc.nat(4),
      deliveries: fc.integer({ min: 1, max: 20 }),
      lane: fc.constantFrom("fresh" as const, "backlog" as const),
      crash: fc.constantFrom(
        "none" as const,
        "none" as const,
        "none" as const,
        "fetched" as const,
        "late" as const,
      ),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("end" as const),
      which: fc.nat(20),
      share: fc.constantFrom(0, 0.5, 1),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant("pass" as const),
      ms: fc.constantFrom(1, 50, 400, 1_100, 40_000),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("evict" as const), member: fc.nat(4) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom("evictGroup" as const, "arrive" as const) }) },
);

function play(histories: Histories, one: Step): void {
  if (one.kind === "request") histories.request(one.member, one.deliveries, one.lane, one.crash);
  if (one.kind === "end") histories.end(one.which, one.share);
  if (one.kind === "pass") histories.pass(one.ms);
  if (one.kind === "evict") histories.evict(one.member);
  if (one.kind === "evictGroup") histories.evictGroup();
  if (one.kind === "arrive") histories.arrive();
}

/** How far gates' clocks are ahead of the group's. */
const clocks = fc.array(fc.constantFrom(0, 0, 900, -900, 5_000, -5_000, 3_600_000, -3_600_000), {
  minLength: 5,
  maxLength: 5,
});

describe("a group's capacity", () => {
  it("is never exceeded, whatever crashes, expires or comes late, and however wrong the clocks are", () => {
    const limits = fc.integer({ min: 1, max: 9 });
    fc.assert(
      fc.property(limits, clocks, fc.array(step, { maxLength: 80 }), (limit, aheadMs, steps) => {
        const histories = new Histories(5, limit, 1_000, 1_000, aheadMs);
        for (const one of steps) {
          play(histories, one);
          expect(histories.inFlight()).toBeLessThanOrEqual(limit);
        }
      }),
      { numRuns: 600 },
    );
  });

  /** The most starts within a second, of a group with that rate and a burst of 3. */
  function fullestSecond(rate: number, steps: readonly Step[], aheadMs: readonly number[] = []): number {
    const histories = new Histories(5, 50, rate, 3, aheadMs);
    for (const one of steps) play(histories, one);
    histories.pass(100_000);
    const starts = histories.starts.toSorted((a, b) => a - b);
    return Math.max(
      0,
      ...starts.map((from) => starts.filter((at) => at >= from && at < from + 1_000).length),
    );
  }

  it("limits the rate as well: no second has more starts than the burst, its own sends, and those of late blocks", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 30 }),
        clocks,
        fc.array(step, { maxLength: 80 }),
        (rate, aheadMs, steps) => {
          expect(fullestSecond(rate, steps, aheadMs)).toBeLessThanOrEqual(3 + rate * (1 + BLOCK_MS / 1_000));
        },
      ),
      { numRuns: 400 },
    );
  });

  it("is exceeded by the sends of a block that are used late, as those of a lease are, and by no more", () => {
    const request = { kind: "request", lane: "fresh", crash: "none" } as const;
    const steps: readonly Step[] = [
      { ...request, member: 4, deliveries: 2 },
      { kind: "pass", ms: 400 },
      { kind: "end", which: 0, share: 0 },
      { ...request, member: 0, deliveries: 5 },
      { ...request, member: 4, deliveries: 2 },
      { ...request, member: 0, deliveries: 1 },
    ];
    expect(fullestSecond(4, steps)).toBe(8);
  });

  it("is used: a single tenant gets all but an eighth of it, and another one gets the rest", () => {
    const histories = new Histories(2, 8, 1_000, 1_000);
    for (let i = 0; i < 10; i++) histories.request(0, 20, "fresh", "none");
    expect(histories.inFlight()).toBe(7);
    histories.request(1, 20, "fresh", "none");
    expect(histories.inFlight()).toBe(8);
  });

  it.each([5_000, -5_000])("is used by gates whose clocks are %i ms ahead", (aheadMs) => {
    const histories = new Histories(1, 8, 1_000, 1_000, [aheadMs]);
    for (let i = 0; i < 10; i++) histories.request(0, 20, "fresh", "none");
    expect(histories.inFlight()).toBe(7);
  });

  it.each([
    ["from a block that the group has forgotten", 40_000, 0],
    ["from one that comes after the group has forgotten it", 0, 40_000],
  ])("is not used by a gate whose clock is behind %s", (_, passedMs, lateMs) => {
    const histories = new Histories(2, 1, 1_000, 1_000, [-60_000]);
    histories.request(0, 3, "fresh", lateMs > 0 ? "late" : "none");
    histories.end(0, 0);
    histories.pass(passedMs + lateMs);
    histories.arrive();
    histories.request(0, 1, "fresh", "none");
    histories.request(1, 1, "fresh", "none");
    expect(histories.inFlight()).toBe(1);
  });

  it("is given back by a member with a hanging attempt, except for that attempt's slot", () => {
    const histories = new Histories(4, 8, 1_000, 1_000);
    for (let i = 0; i < 7; i++) histories.request(0, 1, "fresh", "none");
    for (let i = 0; i < 7; i++) histories.pass(150);
    // It has learned how many it needs: this block is for several leases.
    for (let i = 0; i < 6; i++) histories.end(0, 1);
    for (let i = 0; i < 6; i++) histories.request(0, 1, "fresh", "none");
    for (let i = 0; i < 6; i++) histories.end(1, 1);
    expect(histories.inFlight()).toBe(1);
    // Its own slot stays counted.
    expect(slotsOut(histories.group.blocks)).toBeGreaterThanOrEqual(1);
    expect(slotsOut(histories.group.blocks)).toBeLessThanOrEqual(2);
    histories.request(1, 20, "fresh", "none");
    expect(histories.inFlight()).toBeGreaterThanOrEqual(6);
  });

  it("costs a busy member one block for ten leases and more", () => {
    const histories = new Histories(1, 100, 1_000, 1_000);
    for (let i = 0; i < 1_000; i++) {
      histories.request(0, 1, "fresh", "none");
      histories.end(0, 1);
      histories.pass(20);
    }
    // 1,000 leases in twenty seconds: a block a second, and a few more while the first ones were small.
    expect(histories.group.given).toBeLessThan(40);
  });

  it("costs a lone delivery one block of one send, whose end need not be reported", () => {
    const histories = new Histories(1, 100, 1_000, 1_000);
    histories.request(0, 1, "fresh", "none");
    expect(histories.group.blocks).toMatchObject([{ slots: 1 }]);
    histories.end(0, 1);
    expect(histories.reports).toBe(0);
  });
});
