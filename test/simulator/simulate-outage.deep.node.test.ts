import { describe, expect, it } from "vitest";
import { ourselves } from "../../bench/storm/contenders.ts";
import { outageOf10Minutes } from "../../bench/storm/scenarios.ts";
import { simulate } from "../../bench/storm/simulate.ts";
import { defaultGateSettings as gate } from "../../src/core/limits.ts";
import { presets } from "../../src/core/retry/presets.ts";
import { type Figures, simulationFiguresOf } from "../../src/simulator/figures.ts";
import { simulateOutage } from "../../src/simulator/simulate-outage.ts";

const tenMinutes = { lastsMs: 600_000, perSecond: 10, slots: 10, serviceMs: 100 };
const behindGate = await simulateOutage(presets.breakwater, gate, tenMinutes, 1);
const alone = await simulateOutage(presets.breakwater, null, tenMinutes, 1);

type Noticed = Pick<Figures, "drain" | "noticedS" | "optimumS" | "p50S">;

/** Without the time until the recovery was noticed, which chance decides: a cool-down may have just begun. */
const drainOf = ({ drain, noticedS, optimumS }: Noticed) => (drain ?? 99) - (noticedS ?? 0) / (optimumS ?? 1);
const afterNotice = ({ p50S, noticedS }: Noticed) => p50S - (noticedS ?? 0);

describe("a simulated outage", () => {
  it("gives the same report for the same seed, and another for another", async () => {
    expect(await simulateOutage(presets.breakwater, gate, tenMinutes, 1)).toEqual(behindGate);
    expect(await simulateOutage(presets.breakwater, gate, tenMinutes, 2)).not.toEqual(behindGate);
  });

  it("shows the purpose of the gate: with the same policy, hardly any attempt is wasted", async () => {
    expect(behindGate).toMatchObject({ secondOutages: 0, lost: 0, pending: 0, complete: true });
    expect(behindGate.peak).toBeLessThanOrEqual(1);
    expect(behindGate.wasted * 100).toBeLessThan(alone.wasted);
    expect(alone.delivered).toBe(behindGate.delivered);
  });

  it("is close to the production code in virtual time", async () => {
    const played = simulationFiguresOf(await simulate(outageOf10Minutes, ourselves, 1));
    expect(behindGate.wasted).toBeCloseTo(played.wasted, -1);
    expect(Math.abs(drainOf(behindGate) - drainOf(played))).toBeLessThan(0.3);
    expect(Math.abs(behindGate.peak - played.peak)).toBeLessThan(0.2);
    expect(Math.abs(afterNotice(behindGate) - afterNotice(played))).toBeLessThan(30);
  });

  it("reports every second's requests, from the first on", async () => {
    const requests = behindGate.arrivals.reduce((sum, n) => sum + n, 0);
    expect(requests).toBe(behindGate.delivered + behindGate.wasted);
    expect(behindGate.failures.slice(0, 60).every((n) => n === 0)).toBe(true);
    expect(behindGate.capacity).toBe(100);
  });

  it("loses the deliveries that a policy with too few attempts gives up", async () => {
    const long = { ...tenMinutes, lastsMs: 3 * 3_600_000, perSecond: 0.1 };
    expect((await simulateOutage(presets.gethook, null, long, 1)).lost).toBeGreaterThan(0);
  });

  it("ends after the given number of steps, and reports that it is not complete", async () => {
    const part = await simulateOutage(presets.breakwater, gate, { ...tenMinutes, perSecond: 1000 }, 1, 5_000);
    expect(part.complete).toBe(false);
    expect(part.delivered).toBeGreaterThan(0);
  });
});
