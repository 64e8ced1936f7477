import { describe, expect, it } from "vitest";
import { type AdmitRequest, admit } from "../../src/core/admit.ts";
import type { GateState } from "../../src/core/gate-state.ts";
import { type BlockRequest, called, deal } from "../../src/core/group/deal.ts";
import { type GroupSettings, type GroupState, newGroupState } from "../../src/core/group/group-state.ts";
import type { BlockNeeds } from "../../src/core/group/member.ts";
import { afterGroupReport, type GroupReport } from "../../src/core/group/report.ts";
import type { Grant, Lane } from "../../src/core/lease.ts";
import { sendSlotsOf } from "../../src/core/rate-limit.ts";
import { settle } from "../../src/core/settle.ts";
import { BEGINNING } from "../../src/simulator/scenario.ts";
import { virtualTime } from "../../src/simulator/virtual-time.ts";
import { steady, trusted } from "../support/gate-arbitraries.ts";

/** A round trip. */
const ROUND_TRIP_MS = 50;
/** From a call to the drain that it starts. */
const HOP_MS = 100;
const SERVICE_MS = 100;
const LIMIT = { ...steady, maxConcurrency: 50, ratePerSecond: 10_000 };

type Member = { readonly name: string; readonly tenant: string; gate: GateState; waiting: number };

/** Members of a group whose deliveries wait, drains that are called, and a receiver that answers after a while. */
class SharedReceiver {
  readonly time = virtualTime(1);
  readonly served = new Map<string, number>();
  readonly #settings: GroupSettings;
  readonly #members: Member[] = [];
  #group: GroupState = newGroupState(BEGINNING);
  #event = 0;

  constructor(maxConcurrency: number, ratePerSecond: number) {
    this.#settings = { maxConcurrency, ratePerSecond, rateBurst: 1, breaker: steady.breaker };
    this.#look();
  }

  member(tenant: string, waiting: number): Member {
    const name = `${tenant}-${this.#members.length}`;
    const member = { name, tenant, gate: trusted(LIMIT.maxConcurrency, BEGINNING), waiting };
    this.#members.push(member);
    if (waiting > 0) this.time.after(HOP_MS, () => this.#drain(member));
    return member;
  }

  runFor(ms: number): void {
    const until = this.time.now() + ms;
    while ((this.time.nextAt() ?? until) < until) this.time.step();
  }

  /** An event comes. `started` gets how long it took until its attempt. */
  post(member: Member, started: (afterMs: number) => void): void {
    const postedAt = this.time.now();
    this.#ask(member, "fresh", 1, (grant) => {
      if (!grant) throw new Error("The event has to wait for a drain");
      this.#attempt(member, grant, () => started(this.time.now() - postedAt));
    });
  }

  #drain(member: Member): void {
    if (member.waiting === 0) return;
    // It reads first what waits.
    this.time.after(ROUND_TRIP_MS, () =>
      this.#ask(member, "backlog", Math.min(100, member.waiting), (grant) => {
        if (!grant) return;
        member.waiting -= grant.deliveries.length;
        this.#attempt(member, grant, () => {});
      }),
    );
  }

  #ask(member: Member, lane: Lane, deliveries: number, then: (grant: Grant | null) => void): void {
    const ids = Array.from({ length: deliveries }, () => ++this.#event);
    const request = { lane, deliveries: ids, connections: 5, startWithinMs: 3_000 };
    this.#atGate(member, { ...request, group: { name: "shared" } }, ({ grant, needs }) => {
      if (!needs) return then(grant);
      this.#atGroup(member, needs, (group) =>
        this.#atGate(member, { ...request, group }, (second) => then(second.grant)),
      );
    });
  }

  #call(decide: () => () => void): void {
    this.time.after(ROUND_TRIP_MS / 2, () => {
      const answered = decide();
      this.time.after(ROUND_TRIP_MS / 2, answered);
    });
  }

  #atGate(
    member: Member,
    request: AdmitRequest,
    then: (result: ReturnType<typeof admit>["result"]) => void,
  ): void {
    this.#call(() => {
      const { state, result } = admit(member.gate, request, LIMIT, this.time.now());
      member.gate = state;
      return () => then(result);
    });
  }

  #atGroup(
    member: Member,
    needs: BlockNeeds,
    then: (group: NonNullable<AdmitRequest["group"]>) => void,
  ): void {
    const { askedAt, slots, sends, leaseMs, ends, succeeded } = needs;
    const request: BlockRequest = { slots, sends, leaseMs, report: reportOf(member, { ends, succeeded }) };
    this.#call(() => {
      const { state, answer } = deal(this.#group, request, this.#settings, this.time.now(), 0);
      this.#group = state;
      this.#callMembers();
      return () => then({ name: "shared", answered: { answer, askedAt } });
    });
  }

  #report(member: Member, part: Partial<GroupReport>): void {
    this.#call(() => {
      const report = reportOf(member, part);
      this.#group = afterGroupReport(this.#group, report, this.#settings, this.time.now(), 0).state;
      this.#callMembers();
      return () => {};
    });
  }

  #look(): void {
    this.#callMembers();
    this.time.after(1_000, () => this.#look());
  }

  #callMembers(): void {
    const { state, members } = called(this.#group, this.#settings, this.time.now());
    this.#group = state;
    for (const name of members) {
      const member = this.#members.find((one) => one.name === name);
      if (member) this.time.after(HOP_MS, () => this.#drain(member));
    }
  }

  /** Each slot makes one attempt after the other, at the pace of the lease. */
  #attempt(member: Member, grant: Grant, onStart: () => void): void {
    const slots = sendSlotsOf(grant, this.time.now());
    let left = grant.deliveries.length;
    const next = () => {
      const at = slots.claim();
      if (at !== undefined) this.time.after(Math.max(0, at - this.time.now()), start);
    };
    const start = () => {
      if (!slots.isFree(this.time.now())) {
        slots.giveBack();
        return next();
      }
      slots.use(this.time.now());
      onStart();
      this.time.after(SERVICE_MS, () => {
        left -= 1;
        this.served.set(member.tenant, (this.served.get(member.tenant) ?? 0) + 1);
        if (left === 0) this.#settle(member, grant);
        else next();
      });
    };
    for (let i = 0; i < Math.min(grant.slots, 5, left); i++) next();
  }

  #settle(member: Member, { id, deliveries }: Grant): void {
    this.#call(() => {
      const at = this.time.now();
      const signals = deliveries.map(() => ({ at, health: "healthy" as const, backsOff: false }));
      const { state, over } = settle(member.gate, { lease: id, signals, left: 0 }, LIMIT, at, 0);
      member.gate = state;
      if (over) this.#report(member, over);
      return () => this.#drain(member);
    });
  }
}

function reportOf({ name: member, tenant }: Member, part: Partial<GroupReport>): GroupReport {
  const none = { ends: [], succeeded: 0, failed: 0, unreached: 0, limited: 0, waitMs: 0 };
  return { ...none, member, tenant, isOneHost: true, ...part };
}

/** Jain's index: 1 when all have the same, 1 ÷ n when one has everything. */
function jain(values: readonly number[]): number {
  const sum = values.reduce((a, b) => a + b, 0);
  const squares = values.reduce((a, b) => a + b * b, 0);
  return (sum * sum) / (values.length * squares);
}

describe("a group is fair among tenants", () => {
  it.each([
    ["slots are", 16, 10_000],
    ["the rate is", 200, 40],
  ])("that want the same, when %s short", (_, maxConcurrency, ratePerSecond) => {
    const receiver = new SharedReceiver(maxConcurrency, ratePerSecond);
    for (let i = 0; i < 20; i++) receiver.member(`t${i}`, 1_000_000);
    receiver.runFor(120_000);
    expect(receiver.served.size).toBe(20);
    expect(jain([...receiver.served.values()])).toBeGreaterThanOrEqual(0.95);
  });

  it("however many destinations each has", () => {
    const receiver = new SharedReceiver(16, 10_000);
    for (let i = 0; i < 10; i++)
      for (let own = 0; own <= (i % 2) * 9; own++) receiver.member(`t${i}`, 1_000_000);
    receiver.runFor(120_000);
    expect(jain([...receiver.served.values()])).toBeGreaterThanOrEqual(0.95);
  });

  it.each([
    ["in one destination", 1],
    ["in fifty destinations", 50],
  ])("so that 50,000 deliveries of one, %s, delay another's event by four round trips", (_, members) => {
    const receiver = new SharedReceiver(16, 10_000);
    for (let i = 0; i < members; i++) receiver.member("hog", 50_000 / members);
    const other = receiver.member("other", 0);
    const delays: number[] = [];
    for (let i = 0; i < 50; i++) {
      receiver.runFor(1_000);
      receiver.post(other, (afterMs) => delays.push(afterMs));
    }
    receiver.runFor(1_000);
    expect(delays).toHaveLength(50);
    expect(Math.max(...delays)).toBeLessThanOrEqual(4 * ROUND_TRIP_MS);
    expect(receiver.served.get("hog")).toBeGreaterThan(2_000);
  });

  it("so that 50,000 deliveries of one delay another's event by a second when the rate is short", () => {
    const receiver = new SharedReceiver(200, 40);
    receiver.member("hog", 50_000);
    const other = receiver.member("other", 0);
    const delays: number[] = [];
    for (let i = 0; i < 50; i++) {
      receiver.runFor(1_000);
      receiver.post(other, (afterMs) => delays.push(afterMs));
    }
    receiver.runFor(2_000);
    expect(delays).toHaveLength(50);
    expect(Math.max(...delays)).toBeLessThanOrEqual(1_000 + 2 * ROUND_TRIP_MS);
  });
});
