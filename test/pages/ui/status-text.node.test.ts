import { describe, expect, it } from "vitest";
import type { DestinationNow } from "../../../src/core/destination-status.ts";
import type { GateView } from "../../../src/core/gate-view.ts";
import { statusText } from "../../../src/pages/ui/status-text.ts";
import { idleGateView } from "../../support/idle-gate-view.ts";

const NOW = Date.parse("2026-11-21T09:00:00Z");
const SECOND = 1000;
const MINUTE = 60 * SECOND;

const quiet = idleGateView.traffic;

const calm: GateView = { ...idleGateView, tookMs: 120 };

const minute = (ago: number, failures: number) => ({
  from: NOW - ago,
  first: failures,
  retries: 0,
  failures,
  troubled: failures,
});

/** The given number of attempts in the last 15 minutes, of which those of the given minutes failed. */
const failed = (attempts: number, ...minutes: ReturnType<typeof minute>[]) => ({
  minutes,
  traffic: { ...quiet, first: attempts },
});

const open = { circuit: "open", circuitUntil: NOW + 42 * SECOND, trips: 1 } as const;

function textOf(view: Partial<GateView> | undefined, status: Partial<DestinationNow> = {}): string {
  const full = { status: "active", statusReason: null, maxConcurrency: 10, ...status } as const;
  const { tone, label, text, reason } = statusText({ ...full, view: view && { ...calm, ...view } }, NOW);
  return `${tone} | ${label} | ${text}${reason === undefined ? "" : `: ${reason}`}`;
}

describe("the status of a destination", () => {
  it.each<[string, Partial<GateView>, string]>([
    [
      "an open circuit",
      { ...open, ...failed(28, minute(5 * MINUTE, 12), minute(2 * MINUTE, 0)) },
      "bad | Circuit open | Circuit open, next probe in 42 s: 12 of 28 attempts in the last 15 minutes failed",
    ],
    [
      "a circuit opened again by its probe",
      { ...open, trips: 3, ...failed(1, minute(10 * SECOND, 1)) },
      "bad | Circuit open | Circuit open, next probe in 42 s: the one attempt in the last 15 minutes failed",
    ],
    [
      "an open circuit whose failures are no longer recorded",
      { ...open, trips: 7 },
      "bad | Circuit open | Circuit open, next probe in 42 s: the circuit opened 7 times in a row",
    ],
    [
      "a cool-down of minutes",
      { ...open, circuitUntil: NOW + 4 * MINUTE + 30 * SECOND },
      "bad | Circuit open | Circuit open, next probe in 4 min 30 s: the circuit opened once",
    ],
    [
      "the last instant of a cool-down",
      { ...open, circuitUntil: NOW + 1 },
      "bad | Circuit open | Circuit open, next probe in 1 s: the circuit opened once",
    ],
    [
      "a hold",
      { heldUntil: NOW + 90 * SECOND },
      "warn | On hold | On hold for 1 min 30 s: the receiver sent Retry-After",
    ],
    [
      "a hold that outlasts the circuit",
      { ...open, heldUntil: NOW + 43 * SECOND },
      "warn | On hold | On hold for 43 s: the receiver sent Retry-After",
    ],
    [
      "a hold that the circuit outlasts",
      { ...open, heldUntil: NOW + 41 * SECOND },
      "bad | Circuit open | Circuit open, next probe in 42 s: the circuit opened once",
    ],
    [
      "a half-open circuit",
      { circuit: "half_open", trips: 2 },
      "warn | Probing | Probing with one attempt at a time: the circuit opened 2 times in a row",
    ],
    [
      "a storm",
      { traffic: { first: 20, retries: 124, failures: 120, retryRatio: 6.2, storm: true } },
      "bad | Retry storm | Sending, but in a retry storm: a retry ratio of 6.2 in the last 15 minutes",
    ],
    [
      "mostly failures",
      { traffic: { ...quiet, first: 9, failures: 5 } },
      "warn | Failing | Failing: 4 of 9 attempts in the last 15 minutes succeeded",
    ],
    [
      "a concurrency window that grows again",
      { window: 3, traffic: { ...quiet, first: 90, retries: 10, failures: 8 } },
      "busy | Recovering | Recovering, with 3 of 10 concurrent attempts allowed: 92 of 100 attempts in the last 15 minutes succeeded",
    ],
    [
      "a rate limit that is reached",
      { refusal: { reason: "rate", until: NOW + SECOND }, traffic: { ...quiet, first: 900 } },
      "busy | Rate limited | Sending at the destination's rate limit",
    ],
    [
      "all well",
      { traffic: { ...quiet, first: 214 } },
      "good | Healthy | Healthy: all 214 attempts in the last 15 minutes succeeded",
    ],
    [
      "one that succeeded",
      { traffic: { ...quiet, first: 1 } },
      "good | Healthy | Healthy: the one attempt in the last 15 minutes succeeded",
    ],
    [
      "a few failures among many",
      { traffic: { ...quiet, first: 214, failures: 2 } },
      "good | Healthy | Healthy: 212 of 214 attempts in the last 15 minutes succeeded",
    ],
    [
      "one that failed",
      { traffic: { ...quiet, first: 1, failures: 1 } },
      "warn | Failing | Failing: the one attempt in the last 15 minutes failed",
    ],
    ["no traffic", {}, "quiet | Idle | Idle; nothing was sent in the last 15 minutes"],
  ])("names for %s what happens and why", (_what, view, expected) => {
    expect(textOf(view)).toBe(expected);
  });

  it.each<[string | null, string]>([
    ["manual", "quiet | Paused | Paused manually"],
    [null, "quiet | Paused | Paused manually"],
    ["gone", "bad | Paused | Paused until you resume it: the receiver answered 410 Gone"],
    ["no_such_reason_yet", "bad | Paused | Paused until you resume it: no such reason yet"],
  ])("names why it was paused: %s", (statusReason, expected) => {
    expect(textOf({ ...open, heldUntil: NOW + MINUTE }, { status: "paused", statusReason })).toBe(expected);
  });

  it("is unknown while its gate does not respond", () => {
    expect(textOf(undefined)).toBe("warn | Unknown | The gate of this destination is not responding");
  });
});
