import { describe, expect, it } from "vitest";
import type { GateView } from "../../src/core/gate-view.ts";
import { type CircuitStatus, statusText } from "../../src/dashboard/status-text.ts";
import { idleGateView } from "../support/idle-gate-view.ts";

const NOW = Date.parse("2026-11-21T09:00:00Z");
const SECOND = 1000;
const MINUTE = 60 * SECOND;

const quiet = idleGateView.traffic;

const calm: GateView = { ...idleGateView, tookMs: 120 };

const minute = (ago: number, attempts: number, failures: number) => ({
  from: NOW - ago,
  first: attempts,
  retries: 0,
  failures,
  troubled: failures,
});

const open = { circuit: "open", circuitUntil: NOW + 42 * SECOND, trips: 1 } as const;

function says(view: Partial<GateView> | undefined, door: Partial<CircuitStatus> = {}): string {
  const full = { status: "active", statusReason: null, maxConcurrency: 10, ...door } as const;
  const { tone, short, says, reason } = statusText({ ...full, view: view && { ...calm, ...view } }, NOW);
  return `${tone} | ${short} | ${says}${reason === undefined ? "" : `: ${reason}`}`;
}

describe("the door in words", () => {
  it.each<[string, Partial<GateView>, string]>([
    [
      "an open circuit",
      { ...open, minutes: [minute(30 * SECOND, 20, 12)] },
      "bad | Circuit open | Open for probing in 42 s: 12 of 20 attempts failed in the last minute",
    ],
    [
      "an open circuit whose failures are older",
      { ...open, minutes: [minute(5 * MINUTE, 20, 12), minute(2 * MINUTE, 8, 0)] },
      "bad | Circuit open | Open for probing in 42 s: 12 of 20 attempts failed before it opened",
    ],
    [
      "a circuit opened again by its probe",
      { ...open, trips: 3, minutes: [minute(4 * MINUTE, 20, 12), minute(10 * SECOND, 1, 1)] },
      "bad | Circuit open | Open for probing in 42 s: the last attempt failed",
    ],
    [
      "an open circuit whose failures nobody remembers",
      { ...open, trips: 7 },
      "bad | Circuit open | Open for probing in 42 s: the circuit opened 7 times in a row",
    ],
    [
      "a cool-down of minutes",
      { ...open, circuitUntil: NOW + 4 * MINUTE + 30 * SECOND },
      "bad | Circuit open | Open for probing in 4 min 30 s: the circuit opened once",
    ],
    [
      "the last instant of a cool-down",
      { ...open, circuitUntil: NOW + 1 },
      "bad | Circuit open | Open for probing in 1 s: the circuit opened once",
    ],
    [
      "a hold",
      { heldUntil: NOW + 90 * SECOND },
      "warn | On hold | On hold for 1 min 30 s: the receiver asked for quiet with Retry-After",
    ],
    [
      "a hold that outlasts the circuit",
      { ...open, heldUntil: NOW + 43 * SECOND },
      "warn | On hold | On hold for 43 s: the receiver asked for quiet with Retry-After",
    ],
    [
      "a hold that the circuit outlasts",
      { ...open, heldUntil: NOW + 41 * SECOND },
      "bad | Circuit open | Open for probing in 42 s: the circuit opened once",
    ],
    [
      "a half-open circuit",
      { circuit: "half_open", trips: 2 },
      "warn | Probing | Probing: one attempt at a time is testing the ground: the circuit opened 2 times in a row",
    ],
    [
      "a storm",
      { traffic: { first: 20, retries: 124, failures: 120, retryRatio: 6.2, storm: true } },
      "bad | Storm | Open, but in a retry storm: 6.2 retries for each first attempt in the last 15 minutes",
    ],
    [
      "mostly failures",
      { traffic: { ...quiet, first: 9, failures: 5 } },
      "warn | Failing | Open, but failing: 4 of 9 attempts of the last 15 minutes succeeded",
    ],
    [
      "a door that widens again",
      { window: 3, traffic: { ...quiet, first: 90, retries: 10, failures: 8 } },
      "busy | Widening | Open, and widening: 3 of 10 at once: 92 of 100 attempts of the last 15 minutes succeeded",
    ],
    [
      "a rate that is used up",
      { refusal: { reason: "rate", until: NOW + SECOND }, traffic: { ...quiet, first: 900 } },
      "busy | Open | Open, at the rate that it is allowed",
    ],
    [
      "all well",
      { traffic: { ...quiet, first: 214 } },
      "good | Open | Open: all 214 attempts of the last 15 minutes succeeded",
    ],
    [
      "one that went well",
      { traffic: { ...quiet, first: 1 } },
      "good | Open | Open: the one attempt of the last 15 minutes succeeded",
    ],
    [
      "a few failures among many",
      { traffic: { ...quiet, first: 214, failures: 2 } },
      "good | Open | Open: 212 of 214 attempts of the last 15 minutes succeeded",
    ],
    ["no traffic", {}, "quiet | Idle | Open; nothing was sent in the last 15 minutes"],
  ])("says of %s what it does and why", (_what, view, expected) => {
    expect(says(view)).toBe(expected);
  });

  it.each<[string | null, string]>([
    ["manual", "quiet | Paused | Paused by hand"],
    [null, "quiet | Paused | Paused by hand"],
    ["gone", "bad | Paused | Paused until somebody resumes it: the receiver answered 410 Gone"],
    ["no_such_reason_yet", "bad | Paused | Paused until somebody resumes it: no such reason yet"],
  ])("says who paused it: %s", (statusReason, expected) => {
    expect(says({ ...open, heldUntil: NOW + MINUTE }, { status: "paused", statusReason })).toBe(expected);
  });

  it("says when nobody knows", () => {
    expect(says(undefined)).toBe("warn | Unknown | Its gate does not answer at the moment");
  });
});
