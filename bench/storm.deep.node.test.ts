import { describe, expect, it } from "vitest";
import { simulationFiguresOf } from "../src/simulator/figures.ts";
import { runs } from "../test/support/effort.ts";
import { contend } from "./storm/aws.ts";
import { chart } from "./storm/chart.ts";
import { type Comparison, comparisonOf, resultOf } from "./storm/compare.ts";
import { ourselves } from "./storm/contenders.ts";
import { limits } from "./storm/goals.ts";
import { section } from "./storm/report.ts";
import { outageOfAnHour, quietOutage, type Scenario, slow, WEEKENDS, weekend } from "./storm/scenarios.ts";
import type { Contender } from "./storm/sender.ts";
import { svix } from "./storm/senders/peers.ts";
import { withoutJitter } from "./storm/senders/policies.ts";
import { simulate } from "./storm/simulate.ts";
import { wideDrain } from "./storm/wide-drain.ts";

/** Plays a run once, for several tests. */
function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined;
  return () => {
    made ??= make();
    return made;
  };
}

async function compare(
  scenario: Scenario,
  contenders: readonly Contender[],
  seed: number,
): Promise<Comparison> {
  const { runs: parts, read } = comparisonOf(scenario, contenders, seed);
  const results = new Map<unknown, unknown>();
  for (const run of parts) results.set(run, await run.play());
  return read((run) => results.get(run) as never);
}

describe("storm benchmark: the production delivery path in virtual time", () => {
  // One seed makes the figures the same each time. The benchmark itself has 50,000 deliveries, for which its goals are.
  const hour = once(async () =>
    simulationFiguresOf(await simulate(outageOfAnHour(runs(8_000, 20_000)), ourselves, 1)),
  );

  it("loses nothing and brings nothing down in an outage of an hour", async () => {
    expect(await hour()).toMatchObject({ secondOutages: 0, lost: 0, pending: 0 });
  });

  it("sends no more than the receiver can take after an outage of an hour", async () => {
    expect((await hour()).peak).toBeLessThanOrEqual(limits.peak);
  });

  it("wastes no more attempts than the goal in an outage of an hour", async () => {
    expect((await hour()).wasted).toBeLessThanOrEqual(limits.wasted);
  });

  it("drains close to the optimum, the time to notice the recovery included", async () => {
    const { drain = Number.NaN, optimumS } = await hour();
    // As much longer as 50,000 may take, whose optimum is 652 s: most of it does not depend on their number.
    expect((drain - 1) * optimumS).toBeLessThanOrEqual((limits.drain - 1) * 652);
  });

  it.each([
    [WEEKENDS.three, 1],
    [WEEKENDS.two, 60],
  ])("loses nothing in an outage of %i ms with %i events an hour", async (lastMs, perHour) => {
    const figures = simulationFiguresOf(await simulate(weekend(lastMs, perHour), ourselves, 1));
    expect(figures).toMatchObject({ lost: 0, pending: 0, secondOutages: 0 });
    expect(figures.peak).toBeLessThanOrEqual(limits.peak);
  });

  it("does not bring down a slow receiver, although a job queue does", async () => {
    const compared = await compare(slow, [withoutJitter, ourselves], 1);
    expect(resultOf(compared, withoutJitter.name).figures.secondOutages).toBeGreaterThan(0);
    expect(resultOf(compared, ourselves.name).figures).toMatchObject({
      secondOutages: 0,
      lost: 0,
      wasted: 0,
    });
  });

  it("drains with as many concurrent requests as the destination allows", async () => {
    const { sustained } = await wideDrain(7_000, 1);
    expect(sustained).toBeGreaterThanOrEqual(limits.wide);
  });

  it("delivers events as soon as the platform permits while nothing is wrong", async () => {
    const { p50S } = simulationFiguresOf(await simulate(quietOutage, ourselves, 1));
    // Two hops of up to a quarter of a second, and the calls in between.
    expect(p50S).toBeLessThan(0.5);
  });

  it("writes and draws the same bytes for the same seed, and other bytes for another seed", async () => {
    const run = async (seed: number) => {
      const comparison = await compare(quietOutage, [svix, ourselves], seed);
      return [...section(comparison), chart(comparison.scenario, comparison.results, 600)];
    };
    const first = await run(7);
    expect(await run(7)).toEqual(first);
    const other = await run(8);
    for (const [i, text] of first.slice(1).entries()) expect(other[i + 1]).not.toBe(text);
  });
});

describe("storm benchmark: AWS, Exponential Backoff And Jitter", () => {
  it("ranks the kinds of jitter as the article does", async () => {
    const [none, equal, full, decorrelated] = await Promise.all(
      (["none", "equal", "full", "decorrelated"] as const).map((jitter) => contend(100, jitter, 1)),
    );
    if (!none || !equal || !full || !decorrelated) throw new Error("A result is missing");
    expect(full.calls).toBeLessThan(0.6 * none.calls);
    expect(decorrelated.calls).toBeLessThan(0.6 * none.calls);
    expect(equal.ms).toBeLessThan(none.ms);
    expect(equal.ms).toBeGreaterThan(full.ms);
  });
});
