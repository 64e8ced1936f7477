import { describe, expect, it } from "vitest";
import { type Traffic, trafficAfter, trafficSum } from "../../src/policy/traffic.ts";

const MINUTE = 60_000;
const NOW = 1_000_000_000_000;
const none: Traffic = [];

function attempts(count: number, retry: boolean, failed = false) {
  return Array.from({ length: count }, () => ({ retry, failed }));
}

describe("traffic", () => {
  it("counts first attempts, retries and failures of the last fifteen minutes", () => {
    const traffic = trafficAfter(
      trafficAfter(none, attempts(3, false), NOW),
      attempts(2, true, true),
      NOW + 1,
    );
    expect(trafficSum(traffic, NOW + 1)).toMatchObject({ first: 3, retries: 2, failures: 2, storm: false });
  });

  it("forgets what is older than fifteen minutes", () => {
    const traffic = trafficAfter(none, attempts(5, true), NOW);
    expect(trafficSum(traffic, NOW + 15 * MINUTE - 1).retries).toBe(5);
    expect(trafficSum(traffic, NOW + 15 * MINUTE).retries).toBe(0);
  });

  it("never keeps more than sixteen minutes, however long it runs", () => {
    let traffic = none;
    for (let at = NOW; at < NOW + 60 * MINUTE; at += 7_000)
      traffic = trafficAfter(traffic, attempts(1, false), at);
    expect(traffic.length).toBeLessThanOrEqual(16);
  });

  it.each([
    ["six retries for each of twenty first attempts", 20, 120, true],
    ["five for each: not above the ratio", 21, 105, false],
    ["a high ratio of few", 1, 100, false],
    ["nothing but retries", 0, 101, true],
    ["nothing at all", 0, 0, false],
  ])("tells a storm from traffic: %s", (_, first, retries, storm) => {
    const traffic = trafficAfter(
      trafficAfter(none, attempts(first, false), NOW),
      attempts(retries, true),
      NOW,
    );
    expect(trafficSum(traffic, NOW).storm).toBe(storm);
  });
});
