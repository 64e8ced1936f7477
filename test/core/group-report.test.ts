import { describe, expect, it } from "vitest";
import { type BlockAnswer, called, deal } from "../../src/core/group/deal.ts";
import {
  afterGroupReset,
  type GroupSettings,
  type GroupState,
  groupBlockedBy,
  groupStateAt,
  groupViewOf,
  newGroupState,
} from "../../src/core/group/group-state.ts";
import { afterGroupReport, type GroupReport } from "../../src/core/group/report.ts";
import { start, steady } from "../support/gate-arbitraries.ts";

const settings: GroupSettings = {
  maxConcurrency: 8,
  ratePerSecond: 1_000,
  rateBurst: 1_000,
  breaker: steady.breaker,
};
const none = {
  ends: [],
  succeeded: 0,
  failed: 0,
  unreached: 0,
  limited: 0,
  waitMs: 0,
  isOneHost: true,
} as const;

/** A group, its clock and what members report to it. */
class Group {
  now = start;
  settings = settings;
  state: GroupState = newGroupState(start);

  report(tenant: string, part: Partial<GroupReport>): boolean {
    const report = { ...none, member: `${tenant}-1`, tenant, ...part };
    const after = afterGroupReport(this.state, report, this.settings, this.now, 0);
    this.state = after.state;
    return after.counted;
  }

  ask(tenant: string, slots = 1, sends = slots): BlockAnswer {
    const report = { ...none, member: `${tenant}-1`, tenant };
    const dealt = deal(this.state, { slots, sends, leaseMs: 20_000, report }, this.settings, this.now, 0);
    this.state = dealt.state;
    return dealt.answer;
  }

  /** The block under which a probe of that tenant runs. */
  probe(tenant: string): string {
    const answer = this.ask(tenant);
    if (answer.kind !== "block" || !answer.block.probe) throw new Error(`${tenant} may not probe`);
    return answer.block.id;
  }

  end(block: string) {
    return { block, ends: [{ block, slots: 0, unused: 0 }] };
  }

  get blockedMs(): number {
    return Math.max(0, (groupBlockedBy(this.state, this.now)?.until ?? 0) - this.now);
  }

  get circuit(): string {
    return groupStateAt(this.state, this.now).circuit.kind;
  }
}

/** Reports that two tenants' attempts fail until the circuit opens. */
function outage(group: Group): void {
  group.report("acme", { failed: 3 });
  group.report("globex", { failed: 3 });
}

describe("the circuit of a group", () => {
  it("opens for failures of two tenants, and takes the failure that opened it and those after it", () => {
    const group = new Group();
    expect(group.report("acme", { failed: 3 })).toBe(false);
    expect(group.report("globex", { failed: 3 })).toBe(true);
    expect(group.circuit).toBe("open");
    expect(group.report("initech", { failed: 1 })).toBe(true);
  });

  it("does not open for one tenant, however long its paths fail, time out or flap", () => {
    const group = new Group();
    for (let minute = 0; minute < 24 * 60; minute++) {
      expect(group.report("mallory", { failed: 50 })).toBe(false);
      group.report("mallory", { succeeded: minute % 2 });
      group.now += 60_000;
      expect(group.circuit).toBe("closed");
    }
    expect(groupViewOf(group.state, settings, group.now).window).toBe(8);
  });

  it("does not open for one tenant and the odd failure of another, while others succeed", () => {
    const group = new Group();
    for (const tenant of ["a", "b", "c", "d"]) group.report(tenant, { succeeded: 1 });
    group.report("mallory", { failed: 500 });
    group.report("a", { failed: 2 });
    expect(group.circuit).toBe("closed");
  });

  it("opens for one tenant that cannot even connect, if all members have the same host", () => {
    const group = new Group();
    group.report("acme", { failed: 5, unreached: 5, isOneHost: false });
    expect(group.circuit).toBe("closed");
    group.report("acme", { failed: 5, unreached: 5 });
    expect(group.circuit).toBe("open");
  });

  it("admits one probe in all, and closes with a window of one", () => {
    const group = new Group();
    outage(group);
    expect(group.ask("acme")).toMatchObject({ kind: "refused", refusal: { why: "circuit_open" } });
    group.now += 30_000;
    const block = group.probe("acme");
    expect(group.ask("globex")).toMatchObject({ kind: "refused", refusal: { why: "probing" } });
    group.report("acme", { succeeded: 1, ...group.end(block) });
    expect(group.circuit).toBe("closed");
    // The probe's success is the first of the slow start.
    expect(groupViewOf(group.state, settings, group.now).window).toBeLessThanOrEqual(2);
  });

  it("closes for a probe that is answered 429, and opens again only when probes of two tenants fail", () => {
    const group = new Group();
    outage(group);
    group.now += 30_000;
    group.report("acme", { limited: 1, ...group.end(group.probe("acme")) });
    expect(group.circuit).toBe("closed");
    outage(group);
    group.now += 60_000;
    group.report("mallory", { failed: 1, ...group.end(group.probe("mallory")) });
    expect(group.circuit).toBe("half_open");
    expect(group.ask("mallory")).toMatchObject({ kind: "refused", refusal: { why: "probing" } });
    group.report("globex", { failed: 1, ...group.end(group.probe("globex")) });
    expect(group.circuit).toBe("open");
  });

  it("is not kept open by a tenant whose own path fails", () => {
    const group = new Group();
    outage(group);
    group.now += 30_000;
    group.report("mallory", { failed: 1, ...group.end(group.probe("mallory")) });
    group.report("acme", { succeeded: 1, ...group.end(group.probe("acme")) });
    expect(group.circuit).toBe("closed");
  });

  it("continues with another tenant's probe when the probing one has died", () => {
    const group = new Group();
    outage(group);
    group.now += 30_000;
    group.probe("acme");
    group.now += 25_000;
    group.probe("globex");
  });

  it("and a hold end when an operator resets the group", () => {
    const group = new Group();
    outage(group);
    group.state = afterGroupReset(group.state, group.now);
    expect(group.circuit).toBe("closed");
    expect(group.ask("acme", 5)).toMatchObject({ kind: "block", block: { slots: 1 } });
  });
});

describe("the votes of tenants", () => {
  const failing = (tenants: readonly string[], part: Partial<GroupReport>) => {
    const group = new Group();
    for (const tenant of tenants) group.report(tenant, part);
    return group;
  };

  it("count for a window after the tenant's first", () => {
    for (const [waitMs, circuit] of [
      [59_999, "open"],
      [60_000, "closed"],
    ] as const) {
      const group = failing(["acme"], { failed: 3 });
      group.now += waitMs;
      group.report("globex", { failed: 3 });
      expect(group.circuit).toBe(circuit);
    }
  });

  it("open it for exactly as many failures as the breaker requires, over several reports", () => {
    const group = failing(["acme", "globex"], { failed: 2 });
    expect(group.circuit).toBe("closed");
    expect(group.report("acme", { failed: 1 })).toBe(true);
    expect(failing(["acme", "acme"], { failed: 3 }).circuit).toBe("closed");
  });

  it("are those of tenants with the breaker's share of failures", () => {
    const two = ["acme", "globex"];
    expect(failing(two, { failed: 3, succeeded: 3 }).circuit).toBe("open");
    expect(failing(two, { failed: 3, succeeded: 4 }).circuit).toBe("closed");
  });

  it("open it when the breaker's share of the tenants that have sent anything fails", () => {
    for (const [others, circuit] of [
      [2, "open"],
      [3, "closed"],
    ] as const) {
      const group = failing(["a", "b", "c"].slice(0, others), { succeeded: 1 });
      outage(group);
      expect(group.circuit).toBe(circuit);
    }
    const group = failing(["a", "b", "c"], {});
    outage(group);
    expect(group.circuit).toBe("open");
  });

  it("are not counted while it is open, and a success is no failure of the group", () => {
    const group = new Group();
    outage(group);
    const { state } = group;
    expect(group.report("initech", { succeeded: 3 })).toBe(false);
    outage(group);
    expect(group.state.circuit).toEqual(state.circuit);
    expect(group.state.window).toEqual(state.window);
  });

  it("of one tenant that cannot connect begin anew with a success", () => {
    const group = failing(["acme"], { failed: 4, unreached: 4 });
    group.report("acme", { succeeded: 1 });
    group.report("acme", { failed: 4, unreached: 4 });
    expect(group.circuit).toBe("closed");
  });

  it("open it for twice as long within a window after it has closed, and then as at first", () => {
    for (const [laterMs, openMs] of [
      [59_999, 60_000],
      [60_000, 30_000],
    ] as const) {
      const group = new Group();
      outage(group);
      group.now += 30_000;
      group.report("acme", { succeeded: 1, ...group.end(group.probe("acme")) });
      group.now += laterMs;
      outage(group);
      expect(group.blockedMs).toBe(openMs);
    }
  });
});

describe("a probe", () => {
  const halfOpen = () => {
    const group = new Group();
    outage(group);
    group.now += 30_000;
    return group;
  };

  it("that has failed excludes its tenant from the next one for the next cool-down, and does not count twice", () => {
    const group = halfOpen();
    group.report("mallory", { failed: 1, ...group.end(group.probe("mallory")) });
    group.now += 59_999;
    expect(group.ask("mallory").kind).toBe("refused");
    group.now += 1;
    group.report("mallory", { failed: 1, ...group.end(group.probe("mallory")) });
    expect(group.circuit).toBe("half_open");
  });

  it("that cannot connect to the only host opens it at once", () => {
    const group = halfOpen();
    group.report("acme", { failed: 1, unreached: 1, ...group.end(group.probe("acme")) });
    expect(group.circuit).toBe("open");
  });

  it("without an outcome, or with a failure beside a success, does not close it", () => {
    for (const part of [{}, { succeeded: 1, failed: 1 }]) {
      const group = halfOpen();
      group.report("acme", { ...part, ...group.end(group.probe("acme")) });
      expect(group.circuit).toBe("half_open");
      group.probe("globex");
    }
  });
});

describe("a report of a block", () => {
  it("ends no other member's block, and gives back the unused sends", () => {
    const group = new Group();
    group.settings = { ...settings, ratePerSecond: 100 };
    group.ask("acme", 4, 4);
    const [block] = group.state.blocks;
    if (block === undefined) throw new Error("It was refused");
    const inFlight = () => groupViewOf(group.state, settings, group.now).inFlight;
    group.report("globex", group.end(block.id));
    expect(inFlight()).toBe(4);
    group.report("acme", { ends: [{ block: block.id, slots: 1, unused: 0 }] });
    expect(inFlight()).toBe(1);
    group.report("acme", { ends: [{ block: block.id, slots: 0, unused: 3 }] });
    expect([inFlight(), group.state.tat]).toEqual([0, block.tat - 30]);
  });
});

describe("the window of a group", () => {
  const narrowed = () => {
    const group = new Group();
    group.report("acme", { limited: 1 });
    group.report("globex", { limited: 1 });
    return group;
  };
  const size = (group: Group) => group.state.window.size;

  it("is halved once in a second, and widened by each success", () => {
    const group = narrowed();
    group.now += 999;
    group.report("acme", { limited: 1 });
    expect(size(group)).toBe(4);
    group.now += 1;
    group.report("acme", { limited: 1 });
    expect(size(group)).toBe(2);
    const [one, three] = [1, 3].map((succeeded) => {
      const after = narrowed();
      after.report("acme", { succeeded });
      return size(after);
    });
    expect([(one ?? 0) > 4, (three ?? 0) > (one ?? 0)]).toEqual([true, true]);
  });

  it("stays during a hold, and if it is wider than the limit", () => {
    const group = narrowed();
    group.report("initech", { limited: 1, waitMs: 5_000 });
    const held = size(group);
    group.report("acme", { succeeded: 3 });
    expect(size(group)).toBe(held);
    const wide = new Group();
    const before = size(wide);
    wide.report("acme", { succeeded: 3 });
    expect(size(wide)).toBe(before);
  });

  it("is one when two tenants got Retry-After", () => {
    const group = new Group();
    for (const tenant of ["acme", "globex"]) group.report(tenant, { failed: 1, waitMs: 120_000 });
    expect([group.blockedMs, groupViewOf(group.state, settings, group.now).window]).toEqual([120_000, 1]);
  });
});

describe("a 429 with Retry-After", () => {
  it("of two tenants holds all for the time that both were given", () => {
    const group = new Group();
    group.report("acme", { limited: 1, waitMs: 3_600_000 });
    expect(group.blockedMs).toBe(60_000);
    group.report("globex", { limited: 1, waitMs: 600_000 });
    expect(group.blockedMs).toBe(600_000);
    expect(group.ask("initech")).toMatchObject({ kind: "refused", refusal: { why: "hold" } });
  });

  it("of one tenant alone holds all for a minute, even in a day of them", () => {
    const group = new Group();
    let heldMs = 0;
    for (let second = 0; second < 86_400; second += 30) {
      group.report("mallory", { limited: 1, waitMs: 86_400_000 });
      if (group.blockedMs > 0) heldMs += 30_000;
      group.now += 30_000;
    }
    expect(heldMs).toBeLessThanOrEqual(60_000);
    expect(groupViewOf(group.state, settings, group.now).window).toBe(8);
  });

  it("of one tenant does not extend another's short hold", () => {
    const group = new Group();
    group.report("mallory", { limited: 1, waitMs: 86_400_000 });
    group.now += 61_000;
    group.report("mallory", { limited: 1, waitMs: 86_400_000 });
    group.report("acme", { limited: 1, waitMs: 5_000 });
    expect(group.blockedMs).toBe(5_000);
  });

  it("of one tenant holds all again after an hour without one", () => {
    for (const [laterMs, heldMs] of [
      [3_599_999, 0],
      [3_600_000, 60_000],
    ] as const) {
      const group = new Group();
      group.report("mallory", { limited: 1, waitMs: 60_000 });
      group.now += laterMs;
      group.report("mallory", { limited: 1, waitMs: 86_400_000 });
      expect(group.blockedMs).toBe(heldMs);
    }
  });

  it("of another tenant within a minute counts as the same cause, by the longest time that each was given", () => {
    for (const [laterMs, heldMs] of [
      [59_999, 3_600_000 - 59_999],
      [60_000, 60_000],
    ] as const) {
      const group = new Group();
      group.report("acme", { limited: 1, waitMs: 3_600_000 });
      group.report("acme", { limited: 1, waitMs: 1_000 });
      group.now += laterMs;
      group.report("globex", { limited: 1, waitMs: 3_600_000 });
      expect(group.blockedMs).toBe(heldMs);
    }
  });

  it("needs tenants that were refused: one that was answered does not count as the second", () => {
    const group = new Group();
    group.report("acme", { succeeded: 1 });
    group.report("mallory", { limited: 1 });
    expect(groupViewOf(group.state, settings, group.now).window).toBe(8);
  });

  it("of two tenants narrows what is sent at once, and of one does not", () => {
    const group = new Group();
    for (let i = 0; i < 100; i++) group.report("mallory", { limited: 1 });
    expect(groupViewOf(group.state, settings, group.now).window).toBe(8);
    group.report("acme", { limited: 1 });
    expect(groupViewOf(group.state, settings, group.now).window).toBe(4);
  });
});

describe("the ring", () => {
  it("calls refused members in turn, as many as the free capacity serves", () => {
    const group = new Group();
    const block = group.ask("acme", 8);
    expect(group.ask("b").kind).toBe("block");
    for (const tenant of ["c", "d", "e"]) expect(group.ask(tenant).kind).toBe("refused");
    expect(called(group.state, settings, group.now).members).toEqual([]);
    if (block.kind !== "block") throw new Error("It was refused");
    group.report("acme", group.end(block.block.id));
    const { members, state } = called(group.state, settings, group.now);
    expect(members).toEqual(["c-1", "d-1", "e-1"]);
    expect(called(state, settings, group.now).members).toEqual([]);
  });

  it("lets none overtake those that wait, except a tenant without a block, into the last eighth", () => {
    const group = new Group();
    group.ask("acme", 7);
    expect(group.ask("acme").kind).toBe("refused");
    expect(group.ask("fresh").kind).toBe("block");
    expect(group.ask("another").kind).toBe("refused");
    group.now += 22_001;
    // Everything is free now, and it is acme's turn.
    expect(group.ask("b", 3)).toMatchObject({ kind: "block", block: { slots: 1 } });
    expect(group.ask("c").kind).toBe("refused");
    expect(group.ask("acme", 3)).toMatchObject({ kind: "block", block: { slots: 1 } });
  });

  it("takes turns among tenants, however many members of one wait", () => {
    const group = new Group();
    const asked = (member: string, tenant: string) => {
      const report = { ...none, member, tenant };
      group.state = deal(
        group.state,
        { slots: 1, sends: 1, leaseMs: 20_000, report },
        settings,
        group.now,
        0,
      ).state;
    };
    group.ask("x", 8);
    group.ask("y");
    for (let i = 0; i < 50; i++) asked(`many-${i}`, "many");
    asked("one-1", "one");
    group.now += 22_001;
    expect(called(group.state, settings, group.now).members.slice(0, 2)).toEqual(["many-0", "one-1"]);
  });

  it("calls a few that have waited for a while a little before their turn, and never one that has just been refused", () => {
    const group = new Group();
    group.ask("acme", 8);
    group.ask("b");
    for (const tenant of ["c", "d", "e", "f"]) group.ask(tenant);
    group.now += 999;
    expect(called(group.state, settings, group.now).members).toEqual([]);
    group.now += 1;
    const { members, state } = called(group.state, settings, group.now);
    expect(members).toEqual(["c-1", "d-1", "e-1"]);
    group.state = state;
    group.ask("c");
    expect(called(group.state, settings, group.now).members).toEqual(["f-1"]);
  });

  it("gives up on a member that was called and does not come", () => {
    const group = new Group();
    group.ask("acme", 8);
    group.ask("b");
    group.ask("gone");
    group.now += 22_001;
    expect(called(group.state, settings, group.now).members).toEqual(["gone-1"]);
    group.state = called(group.state, settings, group.now).state;
    group.now += 5_000;
    expect(called(group.state, settings, group.now)).toMatchObject({ members: [], at: null });
  });
});
