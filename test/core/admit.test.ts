import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type AdmitRequest, admit, recheck, refusalAt, testRefusedUntil } from "../../src/core/admit.ts";
import { type GateState, newGateState } from "../../src/core/gate-state.ts";
import { LOOK_UP_MS, settledSince } from "../../src/core/lease.ts";
import type { GateSettings } from "../../src/core/limits.ts";
import { unpackNumbers } from "../../src/core/number-sets.ts";
import { settle } from "../../src/core/settle.ts";
import {
  historyArbitrary,
  type Moment,
  momentsOf,
  start as now,
  steady,
} from "../support/gate-arbitraries.ts";

const fresh: AdmitRequest = { lane: "fresh", deliveries: [1, 2, 3], connections: 6, startWithinMs: 1000 };
const drain: AdmitRequest = { ...fresh, lane: "backlog", deliveries: [7, 8, 9] };

function gate(destinationState: Partial<GateState["destinationState"]> = {}): GateState {
  const state = newGateState(now);
  return { ...state, destinationState: { ...state.destinationState, ...destinationState } };
}
const wide = { window: { size: 100, threshold: 100 } };
const open = gate({ circuit: { kind: "open", since: now, until: now + 30_000, trips: 1 } });
const held = gate({ heldUntil: now + 10_000 });
const paused = { ...steady, paused: true };

function refusal(state: GateState, ask: AdmitRequest = fresh, settings: GateSettings = steady, at = now) {
  const { result } = admit(state, ask, settings, at);
  expect(result.grant).toBeNull();
  return { reason: result.refused?.reason, until: result.refused?.until };
}

function granted(state: GateState, ask: AdmitRequest = fresh, settings: GateSettings = steady, at = now) {
  const { state: next, result } = admit(state, ask, settings, at);
  if (!result.grant) throw new Error(`refused: ${result.refused?.reason}`);
  return { state: next, grant: result.grant, result };
}

describe("a gate that is not blocked", () => {
  it("admits a whole group under one lease, beginning with one attempt", () => {
    const { grant } = granted(gate());
    expect(grant).toMatchObject({ deliveries: [1, 2, 3], slots: 3, width: 1, startWithinMs: 1000 });
    expect(grant.expiresInMs).toBe(1000 + 15_000 + 10_000);
  });

  it("gives no more slots than the caller has connections, and no more width than the window", () => {
    const many = { ...fresh, deliveries: Array.from({ length: 50 }, (_, i) => i) };
    expect(granted(gate(wide), many).grant).toMatchObject({ slots: 6, width: 6 });
    expect(granted(gate({ window: { size: 2.9, threshold: 9 } }), many).grant).toMatchObject({
      slots: 6,
      width: 2,
    });
    expect(granted(gate(wide), many, { ...steady, maxConcurrency: 4 }).grant).toMatchObject({
      slots: 4,
      width: 4,
    });
  });

  it("gives no more slots than earlier leases have left of max_concurrency, however narrow they begin", () => {
    const six = (from: number) => ({ ...fresh, deliveries: Array.from({ length: 6 }, (_, i) => from + i) });
    const narrow = gate({ window: { size: 4, threshold: 4 } });
    const { state } = granted(narrow, { ...six(1), connections: 3 }, { ...steady, maxConcurrency: 4 });
    const { grant } = granted(state, six(10), { ...steady, maxConcurrency: 4 });
    expect(grant).toMatchObject({ slots: 1, width: 1 });
  });

  it("stays below the rate learned from 429s, without bursts", () => {
    const taught = gate({ ...wide, adaptiveLimit: { perSecond: 10, loweredAt: now } });
    const { grant, result } = granted(taught, {
      ...fresh,
      deliveries: Array.from({ length: 50 }, (_, i) => i),
    });
    expect(grant.pace).toEqual({ firstInMs: 0, everyMs: 100, slackMs: 0 });
    expect(grant.deliveries).toHaveLength(11);
    expect(result.refused).toMatchObject({ reason: "rate", until: now + 1_100 });
  });

  it("ignores deliveries beyond the requested number", () => {
    const { result } = granted(gate(), { ...fresh, most: 2 });
    expect(result).toMatchObject({ grant: { deliveries: [1, 2] }, refused: null, inFlight: null });
    expect(granted(gate(wide), { ...drain, most: 2 }).grant.deliveries).toEqual([7, 8]);
  });

  it("reports which deliveries another lease holds, and until when", () => {
    const first = granted(gate(wide));
    const { result } = granted(first.state, { ...fresh, deliveries: [2, 3, 4] });
    expect(result).toMatchObject({
      grant: { deliveries: [4] },
      inFlight: { deliveries: [2, 3], until: now + first.grant.expiresInMs },
    });
  });

  it("neither grants nor refuses when another lease holds everything", () => {
    const { result } = admit(granted(gate(wide)).state, fresh, steady, now);
    expect(result).toMatchObject({ grant: null, refused: null, inFlight: { deliveries: [1, 2, 3] } });
  });

  it("asks the caller to reread deliveries that were changed after it had read them, and names those in flight", () => {
    const { state } = granted(gate(wide), { ...fresh, deliveries: [1, 2] });
    const { state: after, inFlight } = recheck(state, [2, 3], now + 100);
    expect(inFlight).toEqual([2]);
    const again = (lookedUpMsAgo: number) =>
      admit(after, { ...fresh, deliveries: [3, 4], lookedUpMsAgo }, steady, now + 200).result;
    expect(again(101)).toMatchObject({ grant: { deliveries: [4] }, inFlight: { deliveries: [3] } });
    expect(again(100)).toMatchObject({ grant: { deliveries: [3, 4] }, inFlight: null });
    expect(recheck(state, [2], state.leases[0]?.expiresAt ?? 0)).toMatchObject({ inFlight: [] });
  });

  it("is not used when its answer arrives after the gate has forgotten what was settled", () => {
    const { grant } = granted(gate(wide));
    expect(settledSince({ grant }, now, now + LOOK_UP_MS)).toEqual([]);
    expect(settledSince({ grant: null }, now, now + LOOK_UP_MS + 1)).toEqual([]);
    const settled = [99, 100, 101].map((msAgo) => ({ delivery: msAgo, msAgo }));
    expect(settledSince({ grant, settled }, now, now + 100)).toEqual([99]);
    expect(settledSince({ grant }, now, now + LOOK_UP_MS + 1)).toEqual(grant.deliveries);
  });

  it("asks the caller to reread a delivery that was settled after it had read it", () => {
    const { state, grant } = granted(gate(wide));
    const settlement = { lease: grant.id, signals: [], left: 0 };
    const after = settle(state, settlement, steady, now + 100, 0).state;
    const again = (lookedUpMsAgo: number) =>
      admit(after, { ...fresh, deliveries: [3, 4], lookedUpMsAgo }, steady, now + 200).result;
    expect(again(101)).toMatchObject({
      grant: { deliveries: [4] },
      inFlight: { deliveries: [3], until: now + 200 },
    });
    // The request may have been under way for longer than it seems: the caller knows.
    const settled = [{ delivery: 3, msAgo: 100 }];
    expect(again(100)).toMatchObject({ grant: { deliveries: [3, 4] }, inFlight: null, settled });
    expect(again(20_000)).toMatchObject({
      grant: { deliveries: [4] },
      readAgain: true,
      inFlight: { deliveries: [3] },
    });
    expect(again(101)).not.toHaveProperty("readAgain");
    // A caller that reads after the grant gets no hints.
    expect(admit(after, fresh, steady, now + 200).result).not.toHaveProperty("settled");
  });

  it("lets a caller's next lease take over the slots of its former one", () => {
    const full = { ...steady, maxConcurrency: 3 };
    const { state, grant } = granted(gate(wide), drain, full);
    const next = { ...drain, deliveries: [17, 18, 19] };
    expect(admit(state, next, full, now).result).toMatchObject({
      grant: null,
      refused: { reason: "concurrency" },
    });
    expect(granted(state, { ...next, succeeds: grant.id }, full).grant).toMatchObject({ slots: 3, width: 3 });
    expect(admit(state, { ...next, succeeds: "another" }, full, now).result.grant).toBeNull();
  });

  it("counts only drains without a lease as expected drains, and schedules the next one only for a drain's lease", () => {
    const drainSchedule = { waitingSince: now, at: null, expectedSince: now, expected: 2 };
    const expecting = { ...gate(wide), drainSchedule };
    expect(granted(expecting, fresh).state.drainSchedule).toEqual(drainSchedule);
    const { state, grant } = granted(expecting, drain);
    expect(state.drainSchedule).toMatchObject({ expected: 1, at: now + grant.expiresInMs });
    const next = { ...drain, deliveries: [17, 18, 19], succeeds: grant.id };
    expect(admit(state, next, steady, now).state.drainSchedule.expected).toBe(1);
  });

  it("reports to a caller when its own deliveries were settled, not when others' were", () => {
    const { state, grant } = granted(gate(wide));
    const after = settle(state, { lease: grant.id, signals: [], left: 0 }, steady, now + 100, 0).state;
    const request = { ...fresh, deliveries: [3, 1], most: 1, lookedUpMsAgo: 100 };
    const settled = [{ delivery: 3, msAgo: 100 }];
    expect(admit(after, request, steady, now + 200).result).toMatchObject({ settled });
  });

  it("finds leased deliveries in any order of the request", () => {
    const { state } = granted(gate(wide), { ...fresh, deliveries: [2, 5, 11] });
    const { result } = granted(state, { ...fresh, deliveries: [11, 3, 5, 1] });
    expect(result).toMatchObject({ grant: { deliveries: [3, 1] }, inFlight: { deliveries: [11, 5] } });
  });

  it("has a read older than its memory repeated under the lease, except for deliveries in flight", () => {
    const isOutdated = (state: GateState, lookedUpMsAgo: number) =>
      granted(state, { ...fresh, lookedUpMsAgo }).result.readAgain === true;
    expect(isOutdated(gate(wide), LOOK_UP_MS)).toBe(false);
    expect(isOutdated(gate(wide), LOOK_UP_MS + 1)).toBe(true);
    const forgotten = { ...gate(wide), forgottenAt: now - 100 };
    expect(isOutdated(forgotten, 100)).toBe(false);
    expect(isOutdated(forgotten, 101)).toBe(true);
    const { state, grant } = granted(gate(wide));
    const old = { ...fresh, deliveries: [1, 2, 3, 4], lookedUpMsAgo: LOOK_UP_MS + 1 };
    const until = now + grant.expiresInMs;
    expect(admit(state, old, steady, now).result).toMatchObject({
      grant: { deliveries: [4] },
      readAgain: true,
      inFlight: { deliveries: [1, 2, 3], until },
    });
  });

  it("leaves what is in flight to its holder when others have changed it", () => {
    const { state } = granted(gate(wide), { ...fresh, deliveries: [1, 2] });
    const [entry] = recheck(state, [2, 3], now + 100).state.settled;
    expect(entry && unpackNumbers(entry[1])).toEqual([3]);
    expect(recheck(state, [1, 2], now + 100).state).toBe(state);
  });

  it("reports the end of a hold once", () => {
    const over = { ...gate({ ...wide, heldUntil: now - 1 }), holding: true };
    const ending = granted(over);
    expect(ending.result.events).toEqual(["hold_ended"]);
    expect(granted(ending.state, drain).result).not.toHaveProperty("events");
    const { result } = granted(gate(wide));
    expect(result).not.toHaveProperty("events");
    expect(result).not.toHaveProperty("settled");
  });

  it("keeps its window and its failures, which a pause forgets", () => {
    const failureStreak = { refusals: 1, failures: 2, failingSince: now };
    const before = { ...gate(wide), failureStreak };
    const stateUnder = (settings: GateSettings) => admit(before, fresh, settings, now).state;
    expect(stateUnder(steady)).toMatchObject({ failureStreak, destinationState: wide });
    expect(stateUnder(paused)).toMatchObject({
      failureStreak: { failures: 0 },
      destinationState: { window: { size: 1 } },
    });
  });

  it("grants a copy of the destination's state for the worker", () => {
    const state = gate(wide);
    expect(granted(state).grant.destinationState).toEqual(state.destinationState);
  });
});

describe("a refusal", () => {
  const taken = granted(gate(), { ...fresh, deliveries: [5] });
  const expiry = now + taken.grant.expiresInMs;
  const slowly = { ...steady, ratePerSecond: 0.1, rateBurst: 1 };
  const sent = granted(gate(wide), { ...fresh, deliveries: [5] }, slowly);

  it.each<[string, GateState, GateSettings, object]>([
    ["a pause, with no end", gate(), paused, { reason: "paused", until: null }],
    ["a pause before a hold", held, paused, { reason: "paused", until: null }],
    ["a hold, until its end", held, steady, { reason: "hold", until: now + 10_000 }],
    [
      "an open circuit, until its cool-down is over",
      open,
      steady,
      { reason: "circuit_open", until: now + 30_000 },
    ],
    ["a full window, until a lease must end", taken.state, steady, { reason: "concurrency", until: expiry }],
    ["a spent rate, until the next send", sent.state, slowly, { reason: "rate", until: now + 10_000 }],
    ["a slow receiver, which drains serve", gate({ tookMs: 1001 }), steady, { reason: "slow", until: now }],
  ])("names %s", (_, state, settings, expected) => {
    expect(refusal(state, fresh, settings)).toEqual(expected);
  });

  it("names a hold before a spent rate, as the more lasting reason", () => {
    const state = { ...sent.state, destinationState: held.destinationState };
    expect(refusal(state, fresh, slowly)).toMatchObject({ reason: "hold" });
  });

  it("is partial if the rate suffices for some", () => {
    const { result } = granted(gate(wide), fresh, { ...steady, ratePerSecond: 1, rateBurst: 1 });
    expect(result).toMatchObject({
      grant: { deliveries: [1, 2] },
      refused: { deliveries: [3], reason: "rate", until: now + 2000 },
    });
  });

  it("is partial if a slow receiver leaves no time for all, except for a drain, which requests more later", () => {
    const slow = gate({ ...wide, tookMs: 600 });
    const many = { deliveries: [1, 2, 3, 4, 5], connections: 1 };
    expect(granted(slow, { ...fresh, ...many }).result).toMatchObject({
      grant: { deliveries: [1, 2] },
      refused: { deliveries: [3, 4, 5], reason: "slow", until: now },
    });
    expect(granted(slow, { ...drain, ...many }).result).toMatchObject({
      grant: { deliveries: [1, 2] },
      refused: null,
    });
  });

  it("does not affect a drain for a slow receiver", () => {
    expect(granted(gate({ tookMs: 20_000 }), drain).grant.deliveries).toEqual([7, 8, 9]);
  });

  it("is read without changing anything, and matches the refusal of a request", () => {
    expect(refusalAt(held, "backlog", steady, now)).toEqual({ reason: "hold", until: now + 10_000 });
    expect(refusalAt(gate(), "backlog", steady, now)).toBeUndefined();
  });
});

describe("a half-open circuit", () => {
  const at = now + 30_000;

  it("admits exactly one probe, with one delivery over one connection", () => {
    const { grant, result, state } = granted(open, fresh, steady, at);
    expect(grant).toMatchObject({
      deliveries: [1],
      slots: 1,
      width: 1,
      destinationState: { circuit: { kind: "half_open" } },
    });
    expect(result.refused).toMatchObject({
      deliveries: [2, 3],
      reason: "probing",
      until: at + grant.expiresInMs,
    });
    expect(refusal(state, drain, steady, at)).toEqual({ reason: "probing", until: at + grant.expiresInMs });
  });

  it("admits the delivery that the caller names, if it is free; a closed circuit admits all", () => {
    expect(granted(open, { ...fresh, probe: 3 }, steady, at).grant.deliveries).toEqual([3]);
    expect(granted(open, { ...fresh, probe: 4 }, steady, at).grant.deliveries).toEqual([1]);
    expect(granted(gate(wide), { ...fresh, probe: 3 }).grant.deliveries).toEqual([1, 2, 3]);
  });

  it("admits the next probe when the first was never settled (regression: opossum)", () => {
    const { grant, state } = granted(open, fresh, steady, at);
    expect(granted(state, drain, steady, at + grant.expiresInMs).grant.deliveries).toHaveLength(1);
  });

  it("admits the next probe when the first came back without an attempt", () => {
    const { grant, state } = granted(open, fresh, steady, at);
    const settlement = { lease: grant.id, signals: [], left: 1 };
    const { state: settled } = settle(state, settlement, steady, at + 10, 0);
    expect(granted(settled, drain, steady, at + 20).grant.deliveries).toEqual([7]);
  });

  it("holds its probe back until the leases from before the opening have ended", () => {
    const old = granted(gate(), { ...fresh, startWithinMs: 60_000 });
    const state = { ...old.state, destinationState: open.destinationState };
    expect(refusal(state, drain, steady, at)).toMatchObject({ reason: "concurrency" });
  });
});

describe("a pause that refused requests", () => {
  it("is followed by traffic from one, even if the gate does not learn that it was lifted", () => {
    const { state } = admit(gate(wide), fresh, paused, now);
    expect(granted(state).grant.width).toBe(1);
  });
});

describe("through any history of a gate", () => {
  it("nothing is granted during a hold, a cool-down or a pause", () => {
    fc.assert(
      fc.property(historyArbitrary, (history) => {
        for (const { granted, before, quietUntil, settings, now } of momentsOf(history)) {
          if (!granted) continue;
          expect(quietUntil).toBeLessThanOrEqual(now);
          expect(settings.paused).toBe(false);
          const { circuit } = before.destinationState;
          if (circuit.kind === "open") expect(circuit.until).toBeLessThanOrEqual(now);
        }
      }),
      { numRuns: 300 },
    );
  });

  it("nothing is granted on knowledge from before its last settlement", () => {
    fc.assert(
      fc.property(historyArbitrary, (history) => {
        const settledAt = new Map<number, number>();
        let latest = Number.NEGATIVE_INFINITY;
        for (const { granted, settled, step, now, result } of momentsOf(history)) {
          latest = Math.max(latest, now);
          for (const id of settled?.deliveries ?? []) settledAt.set(id, now);
          // A clock that goes back by more reaches times that have been forgotten.
          if (!granted || result?.readAgain || step.do !== "ask" || latest - now > LOOK_UP_MS) continue;
          const lookedUpAt = now - (step.ask.lookedUpMsAgo ?? 0);
          for (const id of granted.deliveries) expect(settledAt.get(id) ?? 0).toBeLessThanOrEqual(lookedUpAt);
        }
      }),
      { numRuns: 300 },
    );
  });

  it("a half-open circuit has one probe at a time, and nothing beside it", () => {
    fc.assert(
      fc.property(historyArbitrary, (history) => {
        for (const { granted, others } of momentsOf(history)) {
          if (!granted) continue;
          expect(others.some(({ destinationState }) => destinationState.circuit.kind === "half_open")).toBe(
            false,
          );
          if (granted.destinationState.circuit.kind === "half_open")
            expect(granted.deliveries).toHaveLength(1);
        }
      }),
      { numRuns: 300 },
    );
  });

  it("after any reopening the widths add up to one until a success has been settled", () => {
    fc.assert(
      fc.property(historyArbitrary, (history) => {
        for (const { granted, others, fromOne } of momentsOf(history)) {
          if (!granted || !fromOne) continue;
          expect(granted.width).toBe(1);
          expect(others).toEqual([]);
        }
      }),
      { numRuns: 500 },
    );
  });

  it("every refusal names a time at which a request is granted, or leads there in a few steps", () => {
    fc.assert(
      fc.property(historyArbitrary, (history) => {
        const last = [...momentsOf(history)].at(-1);
        if (!last) return;
        const settings = { ...last.settings, paused: false };
        let { after: state, now } = last;
        for (let asks = 0; asks < 60; asks++) {
          const { state: next, result } = admit(state, { ...drain, deliveries: [999] }, settings, now);
          if (result.grant) return;
          expect(result.refused?.until).toBeGreaterThanOrEqual(now);
          state = next;
          now = Math.max(now + 1, result.refused?.until ?? 0);
        }
        throw new Error("asked sixty times, each time when refused until");
      }),
      { numRuns: 300 },
    );
  });

  it("a blocked gate admits again when everything that blocks it is over", () => {
    const opensAt = ({ after: { destinationState, leases, tat }, now }: Moment) =>
      Math.max(
        now,
        tat,
        ...leases.map((lease) => lease.tat),
        destinationState.heldUntil,
        destinationState.circuit.kind === "open" ? destinationState.circuit.until : 0,
        ...leases.map(({ expiresAt }) => expiresAt),
      );
    fc.assert(
      fc.property(historyArbitrary, (history) => {
        for (const moment of momentsOf(history)) {
          const at = opensAt(moment);
          const settings = { ...moment.settings, paused: false };
          expect(refusalAt(moment.after, "backlog", settings, at)).toBeUndefined();
          // Live traffic may have to wait for the backlog, but not for ever, and never waits for a drain.
          const live = refusalAt(moment.after, "fresh", settings, Math.max(at, moment.latest) + 10_000);
          expect(["slow", "crash_loop"]).toContain(live?.reason ?? "slow");
          // The time is not in the far future.
          const { breaker, timeoutMs } = slowest;
          const rest = Math.max(breaker.maxCooldownMs * 1.1, timeoutMs + 13_000 + 120_000, 400 * 2000);
          expect(at).toBeLessThanOrEqual(moment.latest + rest);
        }
      }),
    );
  });
});

const slowest = { timeoutMs: 30_000, breaker: { maxCooldownMs: 300_000 } };

it.each<[string, number, number | undefined]>([
  ["five seconds after the one before", now - 5_000, undefined],
  ["not sooner", now - 4_999, now + 1],
  ["not at the same time", now, now + 5_000],
  ["after one of a clock that was ahead", now + 1, undefined],
])("a test event may be sent %s", (_, testedAt, until) => {
  expect(testRefusedUntil({ ...newGateState(now), testedAt }, now)).toBe(until);
});

it.each<[string, number, number, number | undefined]>([
  ["a minute after the last test", now - 60_000, 0, undefined],
  ["not sooner", now - 59_999, 0, now + 1],
  ["not during a hold", 0, now + 9, now + 9],
])("the conformance suite may be run %s", (_, testedAt, heldUntil, until) => {
  const state = newGateState(now);
  const destinationState = { ...state.destinationState, heldUntil };
  expect(testRefusedUntil({ ...state, testedAt, destinationState }, now, true)).toBe(until);
});
