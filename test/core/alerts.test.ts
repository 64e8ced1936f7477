import { describe, expect, it } from "vitest";
import { type Alert, type AlertState, alertsAfter, isStalled, noAlerts } from "../../src/core/alerts.ts";
import { type DestinationState, newDestinationState } from "../../src/core/destination-state.ts";
import type { Traffic } from "../../src/core/rollups.ts";

const NOW = 1_800_000_000_000;
const SECOND = 1_000;
const MINUTE = 60_000;

const closed = newDestinationState(NOW);
const open: DestinationState = {
  ...closed,
  circuit: { kind: "open", since: NOW, until: NOW + 30 * SECOND, trips: 1 },
};
const halfOpen: DestinationState = { ...closed, circuit: { kind: "half_open", since: NOW, trips: 1 } };
const quiet: Traffic = [];
const traffic = (first: number, retries: number, from = NOW): Traffic => [
  { from, first, retries, failures: 0, troubled: 0 },
];

type Moment = readonly [after: number, destinationState: DestinationState, traffic?: Traffic];

/** The alerts of a sequence of moments, at the given times after `NOW`. */
function alertsOf(...moments: readonly Moment[]): (readonly [number, Alert])[] {
  const published: (readonly [number, Alert])[] = [];
  let alertState: AlertState = noAlerts;
  for (const [after, destinationState, seen = quiet] of moments) {
    const next = alertsAfter(alertState, destinationState, seen, NOW + after);
    alertState = next.alertState;
    published.push(...next.alerts.map((alert) => [after, alert] as const));
  }
  return published;
}

describe("a circuit", () => {
  it("is an alert when it opens and when it closes, and not with every probe that fails", () => {
    const alerts = alertsOf([0, open], [40 * SECOND, halfOpen], [41 * SECOND, open], [90 * SECOND, closed]);
    expect(alerts).toEqual([
      [0, "circuit_opened"],
      [90 * SECOND, "circuit_closed"],
    ]);
  });

  it("that closes soon is an alert at once", () => {
    expect(alertsOf([0, open], [SECOND, closed])).toEqual([
      [0, "circuit_opened"],
      [SECOND, "circuit_closed"],
    ]);
  });

  it("that flaps is an alert once a minute, and finally shows its real state", () => {
    const flaps = Array.from(
      { length: 60 },
      (_, i) => [i * 5 * SECOND, i % 2 === 0 ? open : closed] as const,
    );
    const alerts = alertsOf(...flaps, [600 * SECOND, open]);
    expect(alerts.filter(([, alert]) => alert === "circuit_opened")).toHaveLength(6);
    expect(alerts.filter(([, alert]) => alert === "circuit_closed")).toHaveLength(5);
    expect(alerts.at(-1)).toEqual([600 * SECOND, "circuit_opened"]);
  });

  it("that opens again is an alert a minute after the last one", () => {
    const again = (after: number) => alertsOf([0, open], [0, closed], [after, open]).slice(2);
    expect(again(0)).toEqual([]);
    expect(again(MINUTE - 1)).toEqual([]);
    expect(again(MINUTE)).toEqual([[MINUTE, "circuit_opened"]]);
  });

  it("that was open for a long time before it closed is an alert at once when it opens again", () => {
    const moments: Moment[] = [0, 59, 70].map((seconds) => [seconds * SECOND, open]);
    const alerts = alertsOf(...moments, [71 * SECOND, closed], [72 * SECOND, open]);
    expect(alerts.at(-1)).toEqual([72 * SECOND, "circuit_opened"]);
  });

  it("is an alert although the clock was set back", () => {
    const { alerts } = alertsAfter(
      { ...noAlerts, open: { isActive: false, notifiedAt: NOW + MINUTE } },
      open,
      quiet,
      NOW,
    );
    expect(alerts).toEqual(["circuit_opened"]);
  });
});

describe("a storm", () => {
  const storm = traffic(20, 101);

  it("is an alert when more than five retries come for each first attempt, and more than a hundred", () => {
    expect(alertsOf([0, closed, traffic(20, 100)])).toEqual([]);
    expect(alertsOf([0, closed, traffic(21, 105)])).toEqual([]);
    expect(alertsOf([0, closed, storm])).toEqual([[0, "storm_detected"]]);
  });

  it.each([
    ["is over when there are half as many retries for each first attempt", traffic(100, 250)],
    ["is over when there are half as many retries", traffic(1, 50)],
  ])("%s", (_, calm) => {
    expect(alertsOf([0, closed, storm], [MINUTE, closed, calm]).at(-1)).toEqual([MINUTE, "recovered"]);
  });

  it("does not end at the bound itself, nor while the circuit is open", () => {
    const alerts = alertsOf([0, closed, storm], [MINUTE, closed, traffic(20, 99)], [2 * MINUTE, open]);
    expect(alerts.map(([, alert]) => alert)).toEqual(["storm_detected", "circuit_opened"]);
  });

  it("that comes and goes is an alert once in 15 minutes", () => {
    const moments = Array.from({ length: 30 }, (_, i): Moment => {
      const at = i * MINUTE;
      return [at, closed, i % 2 === 0 ? traffic(20, 101, NOW + at) : quiet];
    });
    const alerts = alertsOf(...moments);
    expect(alerts.filter(([, alert]) => alert === "storm_detected")).toHaveLength(2);
    expect(alerts.filter(([, alert]) => alert === "recovered")).toHaveLength(2);
  });
});

it("the sweep has stalled if it was completed before, but not in the last five minutes", () => {
  expect(isStalled(NOW, NOW + 5 * MINUTE)).toBe(false);
  expect(isStalled(NOW, NOW + 5 * MINUTE + 1)).toBe(true);
  expect(isStalled(null, NOW)).toBe(false);
});
