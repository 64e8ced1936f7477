import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { admit } from "../../src/core/admit.ts";
import {
  afterLostLease,
  afterSettledLease,
  type CrashLoop,
  isApart,
  isSuspect,
  noCrashLoop,
  portionOf,
} from "../../src/core/crash-loop.ts";
import { type GateState, newGateState } from "../../src/core/gate-state.ts";
import { settle } from "../../src/core/settle.ts";
import { start as NOW, steady } from "../support/gate-arbitraries.ts";

const MINUTE = 60_000;

/** After so many lost leases, a minute apart. */
function lost(times: number): CrashLoop {
  let loop = noCrashLoop;
  for (let i = 0; i < times; i++) loop = afterLostLease(loop, NOW + i * MINUTE);
  return loop;
}

describe("a crash loop", () => {
  it.each([
    [0, 100, false],
    [1, 25, false],
    [2, 6, true],
    [3, 1, true],
    [9, 1, true],
  ])("after %d lost leases has portions of %d", (times, portion, apart) => {
    const deliveries = Array.from({ length: 200 }, (_, i) => i);
    expect(portionOf(lost(times), deliveries, 100, 7)).toHaveLength(portion);
    expect(isApart(lost(times))).toBe(apart);
    expect(isSuspect(lost(times))).toBe(times > 0);
  });

  it("takes leases that are lost at the same time for one event, such as a deployment", () => {
    const once = afterLostLease(noCrashLoop, NOW);
    expect(afterLostLease(once, NOW + 29_999)).toEqual(once);
    expect(afterLostLease(once, NOW + 30_000).level).toBe(2);
  });

  it("is over after ten settled leases for each of its levels, however high it was", () => {
    let loop = lost(9);
    let settled = 0;
    while (loop.level > 0) {
      loop = afterSettledLease(loop);
      settled += 1;
    }
    expect(settled).toBe(40);
    expect(afterSettledLease(loop)).toEqual(loop);
  });

  it("counts anew from each lost lease, so that a faulty delivery sustains it", () => {
    let loop = lost(2);
    for (let i = 0; i < 9; i++) loop = afterSettledLease(loop);
    loop = afterSettledLease(afterLostLease(loop, NOW + 10 * MINUTE));
    expect(loop).toMatchObject({ level: 3, settled: 1 });
  });

  it("tries each delivery alone in turn, whichever is at fault", () => {
    fc.assert(
      fc.property(fc.integer({ min: 2, max: 300 }), (count) => {
        const deliveries = Array.from({ length: count }, (_, i) => i);
        const first = new Set(
          Array.from({ length: count * 3 }, (_, turn) => portionOf(lost(9), deliveries, 100, turn)[0]),
        );
        expect(first.size).toBe(count);
      }),
    );
  });

  it("leases no delivery twice, however few there are", () => {
    for (let turn = 0; turn < 20; turn++)
      expect(portionOf(lost(1), [1, 2, 3, 4, 5], 100, turn).toSorted()).toEqual([1, 2, 3, 4, 5]);
  });

  it("does not change the order without lost leases", () => {
    expect(portionOf(noCrashLoop, [3, 1, 2], 2, 5)).toEqual([3, 1]);
  });
});

describe("the gate", () => {
  const deliveries = Array.from({ length: 50 }, (_, i) => i + 1);
  const request = { deliveries, most: 50, connections: 5, startWithinMs: 1_000 };
  const ask = (state: GateState, now: number, lane: "backlog" | "fresh" = "backlog") =>
    admit(state, { ...request, lane }, steady, now);
  const fresh = newGateState(NOW);
  const window = { size: 100, threshold: 100 };
  const wide = { ...fresh, destinationState: { ...fresh.destinationState, window } };

  it("gives a drain in a crash loop fewer deliveries than it requests, even when it requests all", () => {
    const { most: _, ...all } = { ...request, lane: "backlog" as const };
    const { result } = admit({ ...wide, crashLoop: lost(1) }, all, steady, NOW);
    expect(result.grant?.deliveries).toHaveLength(12);
  });

  it("gives a drain fewer deliveries when its lease was not settled, and others", () => {
    const first = ask(wide, NOW);
    const { expiresInMs = 0, deliveries: leased = [] } = first.result.grant ?? {};
    const second = ask(first.state, NOW + expiresInMs).result.grant?.deliveries ?? [];
    expect(leased).toHaveLength(50);
    expect(second).toHaveLength(12);
    expect(second[0]).not.toBe(leased[0]);
  });

  it("refuses live traffic once two leases have been lost, and takes it again when ten have been settled", () => {
    let { state, result } = ask(wide, NOW);
    let now = NOW;
    for (let i = 0; i < 2; i++) {
      now += MINUTE;
      ({ state, result } = ask(state, now));
    }
    expect(ask(state, now, "fresh").result.refused).toMatchObject({ reason: "crash_loop", until: now });
    for (let i = 0; i < 10; i++) {
      const signals = [{ at: now, health: "healthy", backsOff: false }] as const;
      state = settle(state, { lease: result.grant?.id ?? "", signals, left: 0 }, steady, now, 0).state;
      ({ state, result } = ask(state, now));
    }
    expect(ask(state, now, "fresh").result.refused?.reason).not.toBe("crash_loop");
  });

  it("does not count slack of a former incarnation that nothing settles as a lost lease", () => {
    const lost = {
      id: "lost-1",
      lane: "fresh",
      slots: 1,
      width: 1,
      deliveries: "",
      lost: true,
      tat: 0,
    } as const;
    const state = { ...wide, leases: [{ ...lost, expiresAt: NOW + 1 }] };
    expect(ask(state, NOW + 1).state.crashLoop).toEqual(noCrashLoop);
  });
});
