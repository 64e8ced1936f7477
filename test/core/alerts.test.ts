import { describe, expect, it } from "vitest";
import { type Alert, type AlertState, alertsAfter, noAlerts } from "../../src/core/alerts.ts";
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

/** What is told of moments in their order, at the times after `NOW` that they name. */
function tellingsOf(...moments: readonly Moment[]): (readonly [number, Alert])[] {
  const heard: (readonly [number, Alert])[] = [];
  let alertState: AlertState = noAlerts;
  for (const [after, destinationState, seen = quiet] of moments) {
    const told = alertsAfter(alertState, destinationState, seen, NOW + after);
    alertState = told.alertState;
    heard.push(...told.alerts.map((notice) => [after, notice] as const));
  }
  return heard;
}

describe("a circuit", () => {
  it("is told of when it opens and when it closes, and not by every probe that fails", () => {
    const told = tellingsOf([0, open], [40 * SECOND, halfOpen], [41 * SECOND, open], [90 * SECOND, closed]);
    expect(told).toEqual([
      [0, "circuit_opened"],
      [90 * SECOND, "circuit_closed"],
    ]);
  });

  it("that closes soon is told of at once", () => {
    expect(tellingsOf([0, open], [SECOND, closed])).toEqual([
      [0, "circuit_opened"],
      [SECOND, "circuit_closed"],
    ]);
  });

  it("that flaps is told of once a minute, and at last as it is", () => {
    const flaps = Array.from(
      { length: 60 },
      (_, i) => [i * 5 * SECOND, i % 2 === 0 ? open : closed] as const,
    );
    const told = tellingsOf(...flaps, [600 * SECOND, open]);
    expect(told.filter(([, notice]) => notice === "circuit_opened")).toHaveLength(6);
    expect(told.filter(([, notice]) => notice === "circuit_closed")).toHaveLength(5);
    expect(told.at(-1)).toEqual([600 * SECOND, "circuit_opened"]);
  });

  it("is told of although the clock was set back", () => {
    const told = alertsAfter(
      { ...noAlerts, open: { isActive: false, notifiedAt: NOW + MINUTE } },
      open,
      quiet,
      NOW,
    );
    expect(told.alerts).toEqual(["circuit_opened"]);
  });
});

describe("a storm", () => {
  const storm = traffic(20, 101);

  it("is told of when more than five retries come for each first attempt, and more than a hundred", () => {
    expect(tellingsOf([0, closed, traffic(20, 100)])).toEqual([]);
    expect(tellingsOf([0, closed, traffic(21, 105)])).toEqual([]);
    expect(tellingsOf([0, closed, storm])).toEqual([[0, "storm_detected"]]);
  });

  it.each([
    ["is over when there are half as many retries for each first attempt", traffic(100, 250)],
    ["is over when there are half as many retries", traffic(1, 50)],
  ])("%s", (_, calm) => {
    expect(tellingsOf([0, closed, storm], [MINUTE, closed, calm]).at(-1)).toEqual([MINUTE, "recovered"]);
  });

  it("is not over at the bound itself, nor while the circuit is open", () => {
    const told = tellingsOf([0, closed, storm], [MINUTE, closed, traffic(20, 99)], [2 * MINUTE, open]);
    expect(told.map(([, notice]) => notice)).toEqual(["storm_detected", "circuit_opened"]);
  });

  it("that comes and goes is told of once in 15 minutes", () => {
    const moments = Array.from({ length: 30 }, (_, i): Moment => {
      const at = i * MINUTE;
      return [at, closed, i % 2 === 0 ? traffic(20, 101, NOW + at) : quiet];
    });
    const told = tellingsOf(...moments);
    expect(told.filter(([, notice]) => notice === "storm_detected")).toHaveLength(2);
    expect(told.filter(([, notice]) => notice === "recovered")).toHaveLength(2);
  });
});
