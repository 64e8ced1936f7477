import { describe, expect, it } from "vitest";
import { type DestinationStatus, destinationStatus } from "../../src/core/destination-status.ts";
import type { GateView } from "../../src/core/gate-view.ts";
import type { Traffic } from "../../src/core/rollups.ts";
import { idleGateView } from "../support/idle-gate-view.ts";

const NOW = Date.UTC(2026, 10, 21, 9);

function statusOf(view: Partial<GateView>): DestinationStatus {
  const active = { status: "active", statusReason: null, maxConcurrency: 10 } as const;
  return destinationStatus({ ...active, view: { ...idleGateView, ...view } }, NOW);
}

const minute = (from: number, changes: Partial<Traffic[number]> = {}) => ({
  from,
  first: 6,
  retries: 4,
  failures: 3,
  troubled: 3,
  ...changes,
});

describe("the status of a destination without a query to its gate", () => {
  it("is paused, whatever its gate says, and has the reason", () => {
    const paused = { status: "paused", statusReason: "gone", maxConcurrency: 10 } as const;
    const status = { kind: "paused", reason: "gone" };
    expect(destinationStatus({ ...paused, view: undefined }, NOW)).toEqual(status);
    expect(destinationStatus({ ...paused, view: { ...idleGateView, heldUntil: NOW + 1 } }, NOW)).toEqual(
      status,
    );
  });

  it("is unknown while its gate does not answer", () => {
    const active = { status: "active", statusReason: null, maxConcurrency: 10, view: undefined } as const;
    expect(destinationStatus(active, NOW)).toEqual({ kind: "unknown" });
  });
});

describe("a destination that is blocked", () => {
  const open = { circuit: "open", circuitUntil: NOW + 30_000, trips: 2 } as const;
  const circuitOpen = { kind: "circuit_open", until: NOW + 30_000, trips: 2 } as const;

  it.each<[string, Partial<GateView>, Partial<DestinationStatus>]>([
    ["is held until the end of its hold", { heldUntil: NOW + 1 }, { kind: "hold", until: NOW + 1 }],
    ["is not held at the end of its hold", { heldUntil: NOW }, { kind: "idle" }],
    ["is not held when its hold has passed", { heldUntil: NOW - 1 }, { kind: "idle" }],
    ["is open where its circuit lasts longer", { ...open, heldUntil: NOW + 29_999 }, circuitOpen],
    [
      "is held where hold and circuit end at once",
      { ...open, heldUntil: NOW + 30_000 },
      { kind: "hold", until: NOW + 30_000 },
    ],
    [
      "is probing behind a half-open circuit",
      { circuit: "half_open", trips: 2 },
      { kind: "probing", trips: 2 },
    ],
  ])("%s", (_, view, status) => {
    expect(statusOf(view)).toEqual(status);
  });

  it("has the failures of all recent minutes, among first attempts and retries", () => {
    const minutes = [
      minute(NOW - 120_000),
      minute(NOW - 60_000, { troubled: 1 }),
      minute(NOW, { troubled: 0 }),
    ];
    const traffic = { ...idleGateView.traffic, first: 18, retries: 12 };
    const last = { attempts: 30, failures: 4 };
    expect(statusOf({ ...open, minutes, traffic })).toEqual({ ...circuitOpen, last });
  });

  it("has no failures if none are known", () => {
    expect(statusOf(open)).not.toHaveProperty("last");
  });
});

describe("a destination that admits attempts", () => {
  const refused = (reason: "rate" | "concurrency") => ({ reason, until: NOW + 500 });
  const traffic = (attempts: number, failures: number) => ({
    traffic: { ...idleGateView.traffic, first: attempts, failures },
  });

  it.each<[string, Partial<GateView>, DestinationStatus["kind"]]>([
    ["fails when more than half of its attempts do", traffic(10, 6), "failing"],
    ["does not fail when half of its attempts do", traffic(10, 5), "healthy"],
    ["recovers while its window is narrow after failures", { ...traffic(10, 1), window: 9 }, "recovering"],
    ["is healthy with a narrow window and no failure", { ...traffic(10, 0), window: 9 }, "healthy"],
    ["is healthy with a whole window after failures", { ...traffic(10, 1), window: 10 }, "healthy"],
    ["is idle without an attempt", traffic(0, 0), "idle"],
    [
      "is healthy while it limits concurrency",
      { ...traffic(10, 0), refusal: refused("concurrency") },
      "healthy",
    ],
  ])("%s", (_, view, kind) => {
    expect(statusOf(view).kind).toBe(kind);
  });

  it("is in a storm, or at the limit of its rate, whatever the outcomes of its attempts", () => {
    const storm = { ...idleGateView.traffic, first: 20, retries: 120, retryRatio: 6, storm: true };
    expect(statusOf({ traffic: storm })).toEqual({ kind: "storm", retryRatio: 6 });
    const limited = { kind: "rate_limited", until: NOW + 500 };
    expect(statusOf({ ...traffic(10, 6), refusal: refused("rate") })).toEqual(limited);
  });

  it("is judged by first attempts and retries together", () => {
    const retried = { traffic: { ...idleGateView.traffic, first: 6, retries: 4, failures: 4 } };
    expect(statusOf(retried)).toEqual({ kind: "healthy", attempts: 10, failures: 4 });
  });
});
