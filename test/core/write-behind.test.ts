import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { AdmitRequest } from "../../src/core/admit.ts";
import type { AttemptSignal } from "../../src/core/destination-state.ts";
import type { GateState } from "../../src/core/gate-state.ts";
import { figuresOf } from "../../src/core/gate-view.ts";
import { liveLeases } from "../../src/core/lease.ts";
import type { GateSettings } from "../../src/core/limits.ts";
import { type MetricResult, results } from "../../src/core/retry/classify.ts";
import { afterHold, afterUnattemptedDead, scheduleDrain } from "../../src/core/settle.ts";
import { afterDecision, BEHIND_MS, restored } from "../../src/core/write-behind.ts";
import { historyArbitrary, momentsOf, start, sumOf, trusted } from "../support/gate-arbitraries.ts";
import {
  checkSlots,
  failed,
  fast,
  fine,
  type GateObject,
  gateObject,
  life,
  play,
} from "../support/gate-lives.ts";

function withResult(rollups: GateState["rollups"], result: MetricResult): GateState["rollups"] {
  const counts = rollups.ever.results.map((count, i) => count + (results[i] === result ? 1 : 0));
  return { ...rollups, ever: { ...rollups.ever, results: counts } };
}

let delivery = 0;
/** One delivery is admitted, delivered and settled. */
function deliver(gate: GateObject, tookMs = 5, deliveries = 1): void {
  const ids = Array.from({ length: deliveries }, () => (delivery += 1));
  const grant = gate.admit({ deliveries: ids })?.grant;
  if (!grant) throw new Error("It was refused");
  gate.pass(tookMs);
  gate.settle(
    grant.id,
    ids.map(() => fine(gate.now())),
  );
}

describe("rows written", () => {
  it("are one for a delivery that comes alone, to an object without memory", () => {
    const gate = gateObject(trusted(10));
    for (let i = 0; i < 10; i++) {
      deliver(gate);
      gate.evict();
      gate.pass(60_000);
      gate.alarm();
    }
    expect(gate.rows()).toBe(10);
    expect(gate.newest().memory?.state.rollups.ever.delivered).toBe(9);
    expect(
      figuresOf(
        gate.newest().memory?.state as GateState,
        [],
        { windows: ["1h"], series: true },
        fast,
        gate.now(),
      ),
    ).toMatchObject({
      ever: { delivered: 10 },
      view: { inFlight: 0 },
      windows: { "1h": { sum: { delivered: 10 } } },
    });
  });

  it("are two for the first delivery to a destination, and for each if only one may be in flight", () => {
    const gate = gateObject();
    deliver(gate);
    expect(gate.rows()).toBe(2);
    const single = gateObject();
    for (let i = 0; i < 5; i++) {
      const grant = single.admit({ deliveries: [i] }, { ...fast, maxConcurrency: 1 })?.grant;
      single.settle(grant?.id ?? "", [fine(single.now())], { ...fast, maxConcurrency: 1 });
      single.evict();
      single.pass(60_000);
    }
    expect(single.rows()).toBe(10);
  });

  it.each([
    [1, 3_600, 0.11],
    [4, 900, 0.14],
    [9, 400, 0.27],
    [60, 60, 1],
  ])("for deliveries every %i s, %i in an hour, are at most %f each", (seconds, deliveries, most) => {
    const gate = gateObject(trusted(10));
    for (let i = 0; i < deliveries; i++) {
      deliver(gate);
      // The platform drops an object that is idle for ten seconds.
      if (seconds >= 10) gate.evict();
      for (let ms = 0; ms < seconds * 1_000 - 5; gate.alarm())
        ms += gate.pass(Math.min(100, seconds * 1_000 - 5 - ms));
    }
    expect(gate.rows() / deliveries).toBeLessThanOrEqual(most);
  });

  it("are a small fraction of one for each of 250 a second, two at most in ten seconds", () => {
    const gate = gateObject();
    for (let i = 0; i < 15_000; i++) {
      deliver(gate, 2);
      gate.pass(2);
      gate.alarm();
    }
    expect(gate.rows()).toBeLessThan(6 * 2 + 12);
  });

  it("are at most one for each batch of a hundred, and a few in ten seconds for their ends", () => {
    const gate = gateObject(trusted(10));
    for (let i = 0; i < 200; i++) {
      deliver(gate, 50, 100);
      gate.pass(50);
      gate.alarm();
    }
    expect(gate.rows()).toBeLessThan(200 + 10);
  });
});

describe("a change that may wait", () => {
  /** With slack: two have come one after the other. */
  function busy(maxConcurrency = 10): GateObject {
    const gate = gateObject(trusted(maxConcurrency));
    const settings = { ...fast, maxConcurrency };
    for (let i = 0; i < 2; i++) {
      const grant = gate.admit({ deliveries: [1_000_000 + i] }, settings)?.grant;
      gate.settle(grant?.id ?? "", [fine(gate.now())], settings);
    }
    return gate;
  }
  /** With slack, and all of it written. */
  function written(): GateObject {
    const gate = gateObject(trusted(10));
    for (let i = 0; i < 2; i++) gate.admit({ deliveries: [1_000_000 + i] });
    return gate;
  }
  const writesFor = (gate: GateObject, change: (gate: GateObject) => unknown) => {
    const before = gate.rows();
    change(gate);
    return gate.rows() - before;
  };

  it("is a lease within half of the limit, and no further one", () => {
    const gate = busy();
    for (let i = 0; i < 5; i++) expect(writesFor(gate, () => gate.admit({ deliveries: [i] }))).toBe(0);
    expect(writesFor(gate, () => gate.admit({ deliveries: [5] }))).toBe(1);
  });

  it("is no lease if only one may be in flight", () => {
    const gate = busy(1);
    expect(writesFor(gate, () => gate.admit({}, { ...fast, maxConcurrency: 1 }))).toBe(1);
  });

  it.each<[string, Partial<AdmitRequest>, Partial<GateSettings>]>([
    ["of a drain", { lane: "backlog" }, {}],
    ["that lasts longer than the slack", { startWithinMs: 60_000 }, {}],
    ["under another limit", {}, { maxConcurrency: 9 }],
    ["at another rate", {}, { ratePerSecond: 9_999 }],
    ["beside which others are refused", { deliveries: [1, 2, 3] }, { ratePerSecond: 1, rateBurst: 1 }],
  ])("is no lease %s", (_, ask, settings) => {
    const gate = busy();
    gate.admit({ lane: "backlog", deliveries: [500] });
    expect(writesFor(gate, () => gate.admit(ask, { ...fast, ...settings }))).toBeGreaterThan(0);
  });

  it("is no lease that reserves the rate further ahead than the slack", () => {
    const settings = { ...fast, ratePerSecond: 10, rateBurst: 2 };
    const gate = gateObject(trusted(10));
    for (let i = 0; i < 2; i++) gate.admit({ deliveries: [10 + i] }, settings);
    gate.pass(1_000);
    expect(writesFor(gate, () => gate.admit({ deliveries: [1, 2] }, settings))).toBe(0);
    expect(writesFor(gate, () => gate.admit({ deliveries: [3, 4] }, settings))).toBe(1);
  });

  it("is no lease ten seconds after the last write, however soon it ends", () => {
    const soon = { startWithinMs: 1 };
    const gate = written();
    gate.pass(BEHIND_MS - 1);
    expect(writesFor(gate, () => gate.admit({ ...soon, deliveries: [1] }))).toBe(0);
    gate.pass(1);
    expect(writesFor(gate, () => gate.admit({ ...soon, deliveries: [2] }))).toBe(1);
  });

  it("is no lease when the clock has gone back behind the last write", () => {
    const gate = written();
    gate.pass(-1);
    expect(writesFor(gate, () => gate.admit({ deliveries: [1] }))).toBe(1);
  });

  it("is no lease with more slots than the slack, however narrow it begins", () => {
    const state = trusted(10);
    const window = { size: 4, threshold: 1_000_000 };
    const gate = gateObject({ ...state, destinationState: { ...state.destinationState, window } });
    for (let i = 0; i < 2; i++) gate.admit({ deliveries: [1_000_000 + i] });
    expect(gate.stored()?.slack).toMatchObject({ slots: 5, width: 2 });
    expect(writesFor(gate, () => gate.admit({ deliveries: [1, 2, 3, 4, 5, 6] }))).toBe(1);
  });

  it("is no lease of more than half the window", () => {
    const state = trusted(10);
    const window = { size: 5, threshold: 1_000_000 };
    const gate = gateObject({ ...state, destinationState: { ...state.destinationState, window } });
    for (let i = 0; i < 2; i++) gate.admit({ deliveries: [1_000_000 + i] });
    for (let i = 0; i < 2; i++) expect(writesFor(gate, () => gate.admit({ deliveries: [i] }))).toBe(0);
    expect(writesFor(gate, () => gate.admit({ deliveries: [2] }))).toBe(1);
  });

  it("is no lease behind a circuit that has opened, and none at a rate of less than one a second", () => {
    const gate = busy();
    const grant = gate.admit({ deliveries: [1] })?.grant;
    gate.settle(
      grant?.id ?? "",
      Array.from({ length: 10 }, () => failed(gate.now())),
    );
    expect(gate.stored()).toMatchObject({ slack: null, destinationState: { circuit: { kind: "open" } } });
    const slow = { ...fast, ratePerSecond: 0.9 };
    const other = gateObject(trusted(10));
    for (let i = 0; i < 4; i++) other.admit({ deliveries: [i] }, slow);
    expect(other.rows()).toBe(4);
  });

  it("is the end of a lease with only successes", () => {
    const { at } = fine(start);
    const signals: readonly [AttemptSignal, number][] = [
      [fine(start), 0],
      [failed(start), 1],
      [{ at, health: "unhealthy", backsOff: false }, 1],
      [{ at, health: "throttled", backsOff: false }, 1],
      [{ ...fine(start), health: "throttled", backsOff: true }, 1],
      [{ ...fine(start), holdUntil: start + 60_000 }, 1],
      [{ ...fine(start), remaining: 2 }, 1],
      [{ ...fine(start), metric: { attempt: 1, result: "4xx", end: "dead", tookMs: 5, lateMs: 5 } }, 1],
    ];
    for (const [signal, writes] of signals) {
      const gate = busy();
      const grant = gate.admit({ deliveries: [1] })?.grant;
      expect(writesFor(gate, () => gate.settle(grant?.id ?? "", [signal]))).toBe(writes);
    }
  });

  it.each<[string, (state: GateState) => Partial<GateState>]>([
    ["hold", (state) => afterHold(state, start + 60_000, start).state],
    [
      "end of a hold",
      ({ destinationState }) => ({ destinationState: { ...destinationState, heldUntil: start } }),
    ],
    ["delivery that died without an attempt", (state) => afterUnattemptedDead(state, 1, start).state],
    ["backlog to be drained", (state) => scheduleDrain(state, start)],
    ["test event", () => ({ testedAt: start })],
    ["digest that was sent", () => ({ deadLetterDigest: { dead: 0, since: 0, sentAt: start } })],
    ["sickness", () => ({ failureStreak: { refusals: 0, failures: 1, failingSince: start } })],
    [
      "notice",
      ({ alertState }) => ({ alertState: { ...alertState, storm: { isActive: true, notifiedAt: start } } }),
    ],
    ["failure that was counted", ({ rollups }) => ({ rollups: withResult(rollups, "5xx") })],
  ])("is no %s", (_, change) => {
    const gate = busy();
    const writes = writesFor(gate, () => gate.call((state) => ({ state: { ...state, ...change(state) } })));
    expect(writes).toBeGreaterThan(0);
  });

  it("is written by the alarm ten seconds after the last write, and the alarm is not set again", () => {
    const gate = busy();
    const writtenAt = gate.now();
    gate.pass(1_000);
    deliver(gate, 0);
    expect(gate.stored()?.rollups.ever.delivered).toBe(1);
    expect(gate.alarmAt()).toBe(writtenAt + BEHIND_MS);
    gate.pass(BEHIND_MS - 1_000);
    gate.alarm();
    expect(gate.stored()?.rollups.ever.delivered).toBe(3);
    expect(gate.stored()?.slack).toBeNull();
    expect(gate.alarmAt()).toBeNull();
  });

  it("is written without slack when there was no request for a while", () => {
    const gate = busy();
    gate.pass(3_000);
    deliver(gate, 0);
    gate.pass(1_000);
    deliver(gate, 0);
    gate.pass(6_000);
    gate.alarm();
    expect(gate.stored()?.rollups.ever.delivered).toBe(4);
    expect(gate.stored()?.slack).toBeNull();
  });

  it("is written although its alarm was lost, and another is set for what comes after it", () => {
    const gate = busy();
    gate.pass(BEHIND_MS + 1);
    for (let i = 0; i < 3; i++) deliver(gate, 0);
    expect(gate.stored()?.rollups.ever.delivered).toBeGreaterThan(1);
    expect(gate.alarmAt()).toBeGreaterThan(gate.now());
  });

  it("is written by the alarm that goes off for drains, and does not delay the drains", () => {
    const gate = busy();
    const drain = gate.admit({ lane: "backlog", deliveries: [500] })?.grant;
    deliver(gate, 0);
    expect(gate.alarmAt()).toBe(start + BEHIND_MS);
    gate.pass(BEHIND_MS);
    gate.alarm();
    expect(gate.stored()?.rollups.ever.delivered).toBe(3);
    expect(gate.alarmAt()).toBe(start + (drain?.expiresInMs ?? 0));
  });
});

describe("a new incarnation", () => {
  function crashed(maxConcurrency = 10) {
    const settings = { ...fast, maxConcurrency };
    const gate = gateObject(trusted(maxConcurrency));
    for (let i = 0; i < 2; i++) {
      const grant = gate.admit({ deliveries: [10 + i] }, settings)?.grant;
      gate.settle(grant?.id ?? "", [fine(gate.now())], settings);
    }
    const unstored = gate.admit({ deliveries: [1] }, settings)?.grant;
    gate.pass(1_000);
    gate.evict();
    return { gate, settings, unstored };
  }

  it("has the other half of the limit at once, and all of it when the longest lease has ended", () => {
    const { gate } = crashed();
    const slots = () =>
      sumOf(liveLeases(gate.newest().memory?.state.leases ?? [], gate.now()), (lease) => lease.slots);
    // Five of the slack, and one that was stored before it was settled.
    expect(slots()).toBe(6);
    expect(gate.admit({ deliveries: [2, 3, 4, 5, 6, 7] })?.grant?.slots).toBe(4);
    gate.pass((gate.stored()?.leases.find(({ lost }) => lost)?.expiresAt ?? 0) - gate.now());
    expect(gate.admit({ deliveries: [20, 21, 22, 23, 24, 25] })?.grant?.slots).toBe(6);
  });

  it("takes no further half for itself while its predecessor's may be in flight", () => {
    const { gate } = crashed();
    for (let i = 0; i < 3; i++) gate.admit({ deliveries: [100 + i] });
    gate.pass(100);
    gate.evict();
    const { leases = [] } = gate.newest().memory?.state ?? {};
    expect(leases.filter(({ lost }) => lost).map(({ slots }) => slots)).toEqual([5]);
    expect(gate.admit({ deliveries: [200] })?.grant?.slots).toBe(1);
  });

  it("has older reads of D1 repeated, because it does not know unstored grants", () => {
    const { gate } = crashed();
    expect(gate.admit({ deliveries: [7], lookedUpMsAgo: 1 })).toMatchObject({
      grant: { deliveries: [7] },
      readAgain: true,
    });
    expect(gate.admit({ deliveries: [1] })?.grant?.deliveries).toEqual([1]);
  });

  it("has forgotten the successes of less than ten seconds, and not the window's last stored size", () => {
    const { gate } = crashed();
    expect(gate.newest().memory?.state.rollups.ever.delivered).toBe(1);
    expect(gate.newest().memory?.state.destinationState.window.size).toBe(10);
  });

  it("lets the first delivery after a quiet time neither wait nor be reread", () => {
    const gate = gateObject(trusted(10));
    for (let i = 0; i < 50; i++) deliver(gate);
    gate.pass(BEHIND_MS);
    gate.alarm();
    gate.evict();
    const grant = gate.admit({ deliveries: [1, 2, 3, 4, 5, 6], lookedUpMsAgo: 20 })?.grant;
    expect(grant).toMatchObject({ deliveries: [1, 2, 3, 4, 5, 6], slots: 6 });
    expect(grant?.pace.firstInMs).toBeLessThanOrEqual(0);
  });

  it("grants the first delivery after sparse traffic, and loses few successes of its predecessor", () => {
    let longest = 0;
    fc.assert(
      fc.property(
        fc.integer({ min: 2, max: 12 }),
        fc.integer({ min: 1, max: 12 }),
        fc.array(fc.integer({ min: 1_000, max: 9_900 }), { minLength: 1, maxLength: 30, size: "max" }),
        fc.integer({ min: 10_000, max: 70_000 }),
        (maxConcurrency, size, gaps, pause) => {
          const state = trusted(maxConcurrency);
          const window = { size, threshold: 1_000_000 };
          const gate = gateObject({ ...state, destinationState: { ...state.destinationState, window } });
          const settings = { ...fast, maxConcurrency };
          const pass = (ms: number) => {
            const until = gate.now() + ms;
            for (; gate.now() < until; gate.alarm()) gate.pass(Math.min(100, until - gate.now()));
          };
          for (const [i, gap] of gaps.entries()) {
            const grant = gate.admit({ deliveries: [i] }, settings)?.grant;
            pass(50);
            gate.settle(grant?.id ?? "", [fine(gate.now())], settings);
            pass(gap);
          }
          pass(10_000 - (gaps.at(-1) ?? 0));
          const counted = () => gate.newest().memory?.state.rollups.ever.delivered ?? 0;
          const before = counted();
          gate.pass(pause - 10_000);
          gate.evict();
          const lookedUpMsAgo = 20;
          expect(gate.admit({ deliveries: [1_000], lookedUpMsAgo }, settings)).toMatchObject({
            grant: { deliveries: [1_000] },
            refused: null,
            inFlight: null,
          });
          const lost = before - counted();
          longest = Math.max(longest, lost);
          expect(lost).toBeLessThanOrEqual(Math.min(10, 1 + before / 2));
        },
      ),
      { numRuns: 500 },
    );
    expect(longest).toBeGreaterThan(5);
  });
});

describe("through evictions, crashes, lost answers, changed limits and instances that are cut off", () => {
  it("the slots in flight are never more than max_concurrency", () => {
    // The deep lane has ten times as many.
    checkSlots(600);
  });

  it("no two leases have the same name, and no instance grants a delivery twice that it knows to be in flight", () => {
    fc.assert(
      fc.property(life, ([cap, steps]) => {
        const names = new Set<string>();
        play(cap, steps, (granted, others) => {
          expect(names).not.toContain(granted.id);
          names.add(granted.id);
          const own = others.filter(({ by }) => by === granted.by).flatMap(({ deliveries }) => deliveries);
          expect(granted.deliveries.filter((id) => own.includes(id))).toEqual([]);
        });
      }),
      { numRuns: 300 },
    );
  });

  it("the rate holds, its burst included, while one instance follows the other", () => {
    const waits = fc.array(fc.tuple(fc.nat(1_500), fc.integer({ min: 0, max: 5 })), {
      minLength: 10,
      maxLength: 60,
      size: "max",
    });
    fc.assert(
      fc.property(
        fc.constantFrom(2, 10, 50),
        fc.integer({ min: 1, max: 20 }),
        waits,
        (perSecond, burst, asks) => {
          const settings = { ...fast, ratePerSecond: perSecond, rateBurst: burst };
          const gate = gateObject(trusted(10));
          const sends: number[] = [];
          for (const [i, [ms, chance]] of asks.entries()) {
            gate.pass(ms);
            gate.alarm();
            if (chance === 0) gate.evict();
            const deliveries = Array.from({ length: 1 + (ms % 4) }, (_, n) => 10 * i + n);
            const grant = gate.admit({ deliveries, startWithinMs: 0 }, settings)?.grant;
            if (!grant) continue;
            sends.push(...grant.deliveries.map(() => gate.now()));
            gate.settle(
              grant.id,
              grant.deliveries.map(() => fine(gate.now())),
              settings,
            );
          }
          const everyMs = 1000 / perSecond;
          let tat = 0;
          for (const at of sends) {
            expect(at).toBeGreaterThanOrEqual(tat - (burst - 1) * everyMs - 1);
            tat = Math.max(tat, at) + everyMs;
          }
        },
      ),
      { numRuns: 300 },
    );
  });
});

describe("through any history of a gate", () => {
  /** The state that must survive every crash. */
  const lasting = ({
    destinationState,
    turns,
    rollups,
    drainSchedule,
    failureStreak,
    holding,
    alertState,
    deadLetterDigest,
    history,
    rate,
    maxConcurrency,
  }: GateState) => ({
    circuit: destinationState.circuit.kind,
    heldUntil: destinationState.heldUntil,
    adaptiveLimit: destinationState.adaptiveLimit,
    wanted: [turns.live.wantedAt, turns.backlog.wantedAt],
    failures: rollups.ever.results.slice(1),
    dead: rollups.ever.dead,
    others: {
      drainSchedule,
      failureStreak,
      holding,
      alertState,
      deadLetterDigest,
      history,
      rate,
      maxConcurrency,
    },
  });

  it("changes that matter to others are stored before the answer, and the rest soon after the last write", () => {
    fc.assert(
      fc.property(historyArbitrary, (history) => {
        let memory = restored(undefined, start);
        let stored = memory.state;
        for (const { after, now } of momentsOf(history)) {
          const step = afterDecision(memory, { ...after, slack: memory.state.slack }, now);
          ({ memory } = step);
          if (step.writes) stored = memory.state;
          expect(lasting(stored)).toEqual(lasting(after));
          if (!memory.isBehind) continue;
          const { written, alarmAt } = memory;
          if (alarmAt !== null && alarmAt <= (written?.at ?? 0) + BEHIND_MS) continue;
          // In sparse traffic, a few successes may be lost.
          expect(now).toBeLessThan(written?.slack?.grantsUntil ?? 0);
          expect(memory.successes - (written?.successes ?? 0)).toBeLessThanOrEqual(10);
        }
      }),
      { numRuns: 300 },
    );
  });
});
