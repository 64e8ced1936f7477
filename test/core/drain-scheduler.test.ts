import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type AdmitRequest, admit } from "../../src/core/admit.ts";
import {
  afterArrival,
  afterEmpty,
  afterRefusal,
  afterRelease,
  afterUnsent,
  alarmBy,
  drainsDue,
  withExpected,
} from "../../src/core/drain-scheduler.ts";
import { type DrainSchedule, type GateState, newGateState } from "../../src/core/gate-state.ts";
import { CONNECTIONS } from "../../src/core/lease.ts";
import { scheduleDrain, settle } from "../../src/core/settle.ts";
import { historyArbitrary, momentsOf, start as now, steady } from "../support/gate-arbitraries.ts";

const lostMs = 30_000;
const silent: DrainSchedule = { waitingSince: 0, at: null, expectedSince: 0, expected: 0 };
const waiting: DrainSchedule = { ...silent, waitingSince: now - 60_000 };
const drain: AdmitRequest = {
  lane: "backlog",
  deliveries: [1],
  connections: CONNECTIONS,
  startWithinMs: 1000,
};

function gate(
  drainSchedule: DrainSchedule,
  destinationState: Partial<GateState["destinationState"]> = {},
): GateState {
  const state = newGateState(now);
  return {
    ...state,
    drainSchedule,
    maxConcurrency: 100,
    destinationState: { ...state.destinationState, ...destinationState },
  };
}
const wide = { window: { size: 20, threshold: 20 } };

describe("a refusal", () => {
  it("schedules drains for the moment at which the block may end", () => {
    expect(afterRefusal(silent, now + 9_000, now)).toEqual({ ...silent, waitingSince: now, at: now + 9_000 });
  });

  it("leaves time to write what was refused", () => {
    expect(afterRefusal(silent, now, now).at).toBe(now + 1_000);
  });

  it("schedules none if the end is not known", () => {
    expect(afterRefusal(silent, null, now)).toEqual({ ...silent, waitingSince: now });
  });
});

describe("the one alarm", () => {
  it.each<[string, number | null, number, number]>([
    ["is set where none was", null, now + 5_000, now + 5_000],
    ["is not put off by a later reason", now + 5_000, now + 9_000, now + 5_000],
    ["is moved forward by an earlier one", now + 9_000, now + 5_000, now + 5_000],
    ["is believed for a while when it is overdue", now - lostMs + 1, now + 5_000, now - lostMs + 1],
    ["is set anew when it must have been lost", now - lostMs, now + 5_000, now + 5_000],
  ])("%s", (_, at, wanted, expected) => {
    expect(alarmBy({ ...waiting, at }, wanted, now).at).toBe(expected);
  });
});

describe("the alarm that has gone off", () => {
  it("is over when nothing waits", () => {
    expect(drainsDue(gate(silent), now)).toEqual({ drainSchedule: silent, drains: 0, drainsAtWork: 0 });
  });

  it("sends one drain, and is set again in case that drain is lost", () => {
    const { drainSchedule, drains } = drainsDue(gate(waiting), now);
    expect(drains).toBe(1);
    expect(drainSchedule).toMatchObject({ expectedSince: now, at: now + lostMs, expected: 1 });
  });

  it("sends as many drains as the window has room for", () => {
    expect(drainsDue(gate(waiting, wide), now).drains).toBe(Math.ceil(20 / CONNECTIONS));
    expect(drainsDue({ ...gate(waiting, wide), maxConcurrency: 7 }, now).drains).toBe(2);
  });

  it("sends none beyond those that are at work", () => {
    const { state } = admit(gate(waiting, wide), drain, { ...steady, maxConcurrency: 7 }, now);
    expect(drainsDue(state, now)).toMatchObject({ drains: 1, drainsAtWork: 2 });
  });

  it("sends no more than the rate can occupy", () => {
    const limited = { ...gate(waiting, wide), rate: { perSecond: 1, burst: 1 } };
    expect(drainsDue(limited, now).drains).toBe(1);
  });

  it("does not count other attempts as drains at work", () => {
    const settings = { ...steady, maxConcurrency: 100 };
    const { state } = admit(gate(waiting, wide), { ...drain, lane: "fresh" }, settings, now);
    expect(state.leases).toHaveLength(1);
    expect(drainsDue(state, now).drains).toBe(Math.ceil(20 / CONNECTIONS));
  });

  it("sends none beyond those on their way, until they must be lost", () => {
    const drained = { ...gate(waiting), drainSchedule: drainsDue(gate(waiting), now).drainSchedule };
    expect(drainsDue(drained, now + lostMs - 1)).toMatchObject({
      drains: 0,
      drainSchedule: { at: now + 2 * lostMs - 1 },
    });
    expect(drainsDue(drained, now + lostMs)).toMatchObject({
      drains: 1,
      drainSchedule: { at: now + 2 * lostMs },
    });
  });

  it("does not change the number on their way when no more are needed", () => {
    const { drainSchedule } = drainsDue(gate(waiting), now);
    const later = now + 10_000;
    for (const expected of [1, 2]) {
      const enough = { ...drainSchedule, expected };
      expect(drainsDue({ ...gate(waiting), drainSchedule: enough }, later)).toEqual({
        drainSchedule: { ...enough, at: later + lostMs },
        drains: 0,
        drainsAtWork: 0,
      });
    }
  });

  it("counts a drain with two leases once if the first has no slots left", () => {
    const { state } = admit(gate(waiting, wide), drain, { ...steady, maxConcurrency: 7 }, now);
    const leases = state.leases.flatMap((lease) => [{ ...lease, id: "former", slots: 0 }, lease]);
    expect(drainsDue({ ...state, leases }, now)).toMatchObject({ drains: 1, drainsAtWork: 2 });
  });

  it("is set again when it goes off too early: for the hold's end, the cool-down's end", () => {
    expect(drainsDue(gate(waiting, { heldUntil: now + 5_000 }), now)).toMatchObject({
      drains: 0,
      drainSchedule: { at: now + 5_000 },
    });
    const circuit = { kind: "open", since: now, until: now + 7_000, trips: 1 } as const;
    expect(drainsDue(gate(waiting, { circuit }), now)).toMatchObject({
      drains: 0,
      drainSchedule: { at: now + 7_000 },
    });
  });
});

describe("capacity given back", () => {
  it("makes drains due at once when something waits", () => {
    expect(afterRelease(gate(waiting), now).at).toBe(now);
  });

  it("makes none due when nothing waits", () => {
    expect(afterRelease(gate(silent), now)).toEqual(silent);
  });

  it("makes none due while the drain that gives it back will continue", () => {
    expect(afterRelease(gate(withExpected(waiting, 1, now)), now).at).toBe(now + lostMs);
  });
});

describe("drains that could not be enqueued", () => {
  it("are no longer expected, and due again in two seconds", () => {
    const sent = { ...withExpected(waiting, 3, now), at: now + lostMs };
    expect(afterUnsent(sent, 2, now)).toMatchObject({ expected: 1, at: now + 2_000 });
  });

  it("are not counted twice when they have requested a lease nevertheless", () => {
    expect(afterUnsent(withExpected(waiting, 1, now), 2, now).expected).toBe(0);
  });
});

describe("drains on their way", () => {
  /**
   * As many drains as the window has room for, scheduled or running: each requests a lease, settles it and continues,
   * in turn.
   */
  function working(drains: number, drainSchedule: DrainSchedule) {
    let state = gate(drainSchedule, wide);
    let drained = 0;
    let at = now;
    const pass = (ms: number) => {
      at += ms;
      if (state.drainSchedule.at === null || state.drainSchedule.at > at) return;
      const due = drainsDue(state, at);
      state = { ...state, drainSchedule: due.drainSchedule };
      drained += due.drains;
    };
    const settings = { ...steady, maxConcurrency: 100 };
    const leased: string[] = [];
    const ask = (delivery: number) => {
      const { state: after, result } = admit(state, { ...drain, deliveries: [delivery] }, settings, at);
      state = after;
      leased.push(result.grant?.id ?? "");
    };
    const goOn = () => {
      const settlement = { lease: leased.shift() ?? "", signals: [], left: 0, unsent: 0, continues: true };
      state = settle(state, settlement, settings, at, 0).state;
    };
    pass(1);
    for (let i = 0; i < drains; i++) ask(i);
    return { ask, goOn, pass, enqueued: () => drained };
  }

  it("are not sent again while they continue, whether one or all of them are between two leases", () => {
    const { ask, goOn, pass, enqueued } = working(4, { ...waiting, at: now });
    expect(enqueued()).toBe(4);
    for (let round = 0; round < 20; round++) {
      for (let i = 0; i <= round % 4; i++) goOn();
      pass(100);
      for (let i = 0; i <= round % 4; i++) ask(100 + 4 * round + i);
      pass(1_900);
    }
    expect(enqueued()).toBe(4);
  });

  it("are not sent again while only one of them has come so far", () => {
    const { ask, goOn, pass, enqueued } = working(1, { ...waiting, at: now });
    for (let round = 0; round < 20; round++) {
      goOn();
      pass(10);
      ask(100 + round);
      pass(20);
    }
    expect(enqueued()).toBe(4);
  });

  it("are counted together with those who were on their way before, and no longer than until they must be lost", () => {
    const some = withExpected(waiting, 3, now);
    expect(withExpected(some, 2, now + 1_000)).toMatchObject({ expectedSince: now, expected: 5 });
    expect(withExpected(some, 2, now + lostMs)).toMatchObject({ expectedSince: now + lostMs, expected: 2 });
  });

  it("count as arrived when they find nothing", () => {
    expect(afterEmpty(withExpected(waiting, 3, now), now, now + 10).expected).toBe(2);
  });
});

describe("a drain that found nothing", () => {
  const turned = afterRefusal(silent, now, now);

  it("ends the waiting", () => {
    expect(afterEmpty(waiting, now, now + 10)).toEqual({ ...silent, at: null });
  });

  it.each([
    500, 1_500, 3_000,
  ])("does not end it for a delivery refused %i ms before, which may not be written yet", (agoMs) => {
    const drainSchedule = afterEmpty({ ...turned, at: null }, now + agoMs, now + agoMs + 10);
    expect(drainSchedule.waitingSince).toBe(now);
    expect(drainSchedule.at).toBeGreaterThanOrEqual(now + agoMs + 10 + 1_000);
    expect(drainSchedule.at).toBeLessThanOrEqual(now + 10_000);
  });

  it("ends it for a delivery refused five seconds before, which is written", () => {
    expect(afterEmpty(turned, now + 5_000, now + 5_010).waitingSince).toBe(0);
    expect(afterEmpty(turned, now + 4_999, now + 5_010).waitingSince).toBe(now);
  });

  it("reads again when everything must be written, a second later at the earliest", () => {
    const unset = { ...turned, at: null };
    expect(afterEmpty(unset, now + 1_000, now + 1_010).at).toBe(now + 5_000);
    expect(afterEmpty(unset, now + 4_500, now + 4_510).at).toBe(now + 5_510);
  });

  it("does not end it for deliveries that were reported to the gate after the drain had read D1", () => {
    const scheduled = scheduleDrain(gate(silent), now);
    expect(afterEmpty(scheduled.drainSchedule, now - 1, now + 100).at).not.toBeNull();
    expect(afterEmpty(scheduled.drainSchedule, now + 1, now + 100).at).toBeNull();
  });
});

describe("a drain that requests a lease", () => {
  it("is no longer expected, and the number expected is never negative", () => {
    expect(afterArrival({ ...waiting, expected: 2 }).expected).toBe(1);
    expect(afterArrival(waiting).expected).toBe(0);
  });

  it("is sent again when it dies with its lease", () => {
    const { state, result } = admit(gate({ ...waiting, at: null }), drain, steady, now);
    expect(state.drainSchedule.at).toBe(now + (result.grant?.expiresInMs ?? 0));
  });
});

describe("through any history of a gate", () => {
  it("no waiting delivery is forgotten: unless an operator has paused it, drains are scheduled", () => {
    fc.assert(
      fc.property(historyArbitrary, (history) => {
        for (const { after, settings } of momentsOf(history)) {
          if (after.drainSchedule.waitingSince === 0 || settings.paused) continue;
          expect(after.drainSchedule.at).not.toBeNull();
        }
      }),
      { numRuns: 500 },
    );
  });

  it("a delivery refused with a time has a drain scheduled for that time, a second later at most, or sooner", () => {
    fc.assert(
      fc.property(historyArbitrary, (history) => {
        for (const { after, result, now } of momentsOf(history)) {
          const until = result?.refused?.until;
          if (until === undefined || until === null) continue;
          expect(after.drainSchedule.waitingSince).toBe(now);
          expect(after.drainSchedule.at).toBeLessThanOrEqual(Math.max(until, now + 1_000));
        }
      }),
    );
  });

  it("no reason puts off an alarm that is set, except the alarm itself and a drain that found nothing", () => {
    fc.assert(
      fc.property(historyArbitrary, (history) => {
        for (const { before, after, step, now } of momentsOf(history)) {
          const { at } = before.drainSchedule;
          if (step.do === "alarm" || step.do === "empty" || at === null || at <= now - lostMs) continue;
          expect(after.drainSchedule.at).not.toBeNull();
          expect(after.drainSchedule.at).toBeLessThanOrEqual(at);
        }
      }),
      { numRuns: 300 },
    );
  });

  it("an alarm that goes off is set again, and later, for as long as something waits", () => {
    fc.assert(
      fc.property(historyArbitrary, (history) => {
        for (const { after, now } of momentsOf(history)) {
          if (after.drainSchedule.waitingSince === 0) continue;
          const at = Math.max(now, after.drainSchedule.at ?? 0);
          expect(drainsDue(after, at).drainSchedule.at).toBeGreaterThan(at);
        }
      }),
    );
  });

  it("waiting deliveries are drained in the end, even if the first drains and their leases are lost", () => {
    fc.assert(
      fc.property(historyArbitrary, fc.nat(3), (history, lost) => {
        const last = [...momentsOf(history)].at(-1);
        if (!last || last.after.drainSchedule.waitingSince === 0 || last.settings.paused) return;
        let state = last.after;
        let toBeLost = lost;
        for (let alarms = 0; alarms < 100; alarms++) {
          if (state.drainSchedule.at === null) throw new Error("forgotten");
          const at = Math.max(last.now, state.drainSchedule.at);
          const { drainSchedule, drains } = drainsDue(state, at);
          state = { ...state, drainSchedule };
          if (drains === 0) continue;
          toBeLost -= 1;
          if (toBeLost >= 0 && toBeLost % 2 === 0) continue;
          const { state: next, result } = admit(
            state,
            { ...drain, deliveries: [999] },
            last.settings,
            at + 500,
          );
          state = next;
          if (!result.grant) continue;
          if (toBeLost < 0) return;
        }
        throw new Error("a hundred alarms brought nothing");
      }),
      { numRuns: 300 },
    );
  });

  it("a settled drain leaves drains scheduled for as long as it has not reported that nothing waits", () => {
    const { state, result } = admit(gate({ ...waiting, at: now }), drain, steady, now);
    const settlement = { lease: result.grant?.id ?? "", signals: [], left: 0, unsent: 1, continues: true };
    expect(settle(state, settlement, steady, now + 100, 0).state.drainSchedule.at).not.toBeNull();
  });
});
