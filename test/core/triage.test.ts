import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type DeliveryProgress, type DeliverySource, readinessOf } from "../../src/core/triage.ts";
import { start as now } from "../support/gate-arbitraries.ts";

const standing: DeliveryProgress = {
  state: undefined,
  nextAttemptAt: null,
  giveUpAt: now + 72 * 3_600_000,
  destinationDeleted: false,
  erased: false,
};
const due = { kind: "due" };
const done = { kind: "done" };
const expired = { kind: "over", state: "dead", reason: "expired" };
const erased = { kind: "over", state: "cancelled", reason: "erased" };
const cancelled = { kind: "over", state: "cancelled", reason: "destination_deleted" };

describe("readinessOf", () => {
  it.each<[string, Partial<DeliveryProgress>, DeliverySource, object]>([
    ["is due before its first outcome", {}, "queue", due],
    ["is due before its first outcome when a drain brings it", {}, "drain", due],
    ["leaves what waits to the drain", { state: "waiting" }, "queue", done],
    ["is due when the drain brings what waits", { state: "waiting" }, "drain", due],
    ["is early before its first time", { nextAttemptAt: now + 1 }, "queue", { kind: "early", at: now + 1 }],
    ["is due at its first time", { nextAttemptAt: now }, "queue", due],
    ["is due when its retry's time has come", { state: "retrying", nextAttemptAt: now }, "queue", due],
    [
      "is early before that",
      { state: "retrying", nextAttemptAt: now + 1 },
      "queue",
      { kind: "early", at: now + 1 },
    ],
    ["is due when a retry has no time", { state: "retrying" }, "queue", due],
    ["leaves what is in flight to the queue", { state: "in_flight", nextAttemptAt: now }, "drain", done],
    ["leaves retries to the queue", { state: "retrying", nextAttemptAt: now }, "drain", done],
    ["ends at its age limit exactly", { giveUpAt: now }, "queue", expired],
    ["is due one millisecond before", { giveUpAt: now + 1 }, "queue", due],
    ["ends at its age limit while it waits", { state: "waiting", giveUpAt: now }, "drain", expired],
    ["ends when its destination is gone", { destinationDeleted: true }, "queue", cancelled],
    [
      "ends as cancelled rather than expired",
      { destinationDeleted: true, giveUpAt: now },
      "queue",
      cancelled,
    ],
    [
      "does not wait for its time when its destination is gone",
      { state: "retrying", nextAttemptAt: now + 1, destinationDeleted: true },
      "queue",
      cancelled,
    ],
    ["ends when its event is erased", { erased: true }, "queue", erased],
    ["ends when its event is erased while it waits", { state: "waiting", erased: true }, "drain", erased],
    [
      "does not wait for its time when its event is erased",
      { state: "retrying", nextAttemptAt: now + 1, erased: true },
      "queue",
      erased,
    ],
    [
      "waits for its time in flight, even when its destination is gone",
      { state: "in_flight", nextAttemptAt: now + 1, destinationDeleted: true },
      "queue",
      { kind: "early", at: now + 1 },
    ],
    [
      "ends in flight at that time when its destination is gone",
      { state: "in_flight", nextAttemptAt: now, destinationDeleted: true },
      "queue",
      cancelled,
    ],
  ])("%s", (_, part, bringer, readiness) => {
    expect(readinessOf({ ...standing, ...part }, bringer, now)).toEqual(readiness);
  });

  it.each(["delivered", "dead", "cancelled"] as const)("is done once %s, whatever its source", (state) => {
    for (const bringer of ["queue", "drain"] as const) {
      const ended = { ...standing, state, giveUpAt: now, destinationDeleted: true };
      expect(readinessOf(ended, bringer, now)).toEqual(done);
    }
  });
});

describe("whatever a delivery's state", () => {
  const standings: fc.Arbitrary<DeliveryProgress> = fc.record({
    state: fc.constantFrom(undefined, "waiting", "retrying", "delivered", "dead", "cancelled"),
    nextAttemptAt: fc.option(fc.integer({ min: -5, max: 5 }).map((ms) => now + ms)),
    isInFlight: fc.boolean(),
    giveUpAt: fc.integer({ min: -5, max: 5 }).map((ms) => now + ms),
    destinationDeleted: fc.boolean(),
    erased: fc.boolean(),
  });

  it("has one owner: once it has a row, queue and drain never both find it due", () => {
    fc.assert(
      fc.property(standings, (one) => {
        const kinds = (["queue", "drain"] as const).map((bringer) => readinessOf(one, bringer, now).kind);
        if (one.state !== undefined) expect(kinds).toContain("done");
      }),
    );
  });

  it("is never attempted early, past its age limit or to a deleted destination", () => {
    fc.assert(
      fc.property(standings, fc.constantFrom<DeliverySource>("queue", "drain"), (one, bringer) => {
        if (readinessOf(one, bringer, now).kind !== "due") return;
        if (one.state === "retrying") expect(one.nextAttemptAt ?? now).toBeLessThanOrEqual(now);
        expect(one.giveUpAt).toBeGreaterThan(now);
        expect(one.destinationDeleted).toBe(false);
      }),
      { numRuns: 500 },
    );
  });

  it("is early only for a future time, so that it never circles", () => {
    fc.assert(
      fc.property(standings, fc.constantFrom<DeliverySource>("queue", "drain"), (one, bringer) => {
        const readiness = readinessOf(one, bringer, now);
        if (readiness.kind === "early") expect(readiness.at).toBeGreaterThan(now);
      }),
      { numRuns: 500 },
    );
  });
});
