import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { admit } from "../../src/core/admit.ts";
import { newDestinationState } from "../../src/core/destination-state.ts";
import { newGateState } from "../../src/core/gate-state.ts";
import {
  arrivedGrant,
  ended,
  type Lease,
  leaseMs,
  liveLeases,
  slotsOf,
  startable,
  startsUntil,
  succeeded,
  widthsOf,
} from "../../src/core/lease.ts";
import {
  askArbitrary,
  historyArbitrary,
  momentsOf,
  start as now,
  steady,
  sumOf,
} from "../support/gate-arbitraries.ts";

const lease = (slots: number, width: number, expiresAt: number): Lease => ({
  id: `${slots}-${expiresAt}`,
  lane: "fresh",
  slots,
  width,
  deliveries: "",
  tat: 0,
  expiresAt,
});

describe("leases", () => {
  it("end no later for a holder that got the answer late, however slowly it reads afterwards", () => {
    const timeoutMs = 5_000;
    const { result } = admit(
      newGateState(0),
      { lane: "backlog", deliveries: [1], connections: 1, startWithinMs: 5_000 },
      { ...steady, timeoutMs },
      0,
    );
    if (!result.grant) throw new Error("It was refused");
    const expiresAt = leaseMs(5_000, timeoutMs);
    for (const arrivedAt of [0, 5_000, 10_000]) {
      const grant = arrivedGrant(result.grant, 0, arrivedAt);
      for (const readyAt of [arrivedAt, arrivedAt + 5_000, arrivedAt + 10_000])
        expect(startsUntil(grant, arrivedAt, readyAt, timeoutMs) + timeoutMs).toBeLessThanOrEqual(expiresAt);
    }
  });

  const three = [lease(3, 1, now), lease(2, 2, now + 1), lease(4, 1, now + 2)];

  it("live until their deadline, and no longer", () => {
    expect(liveLeases(three, now - 1)).toBe(three);
    expect(liveLeases(three, now).map(({ slots }) => slots)).toEqual([2, 4]);
    expect(liveLeases(three, now + 2)).toEqual([]);
  });

  it("take up their slots and their widths", () => {
    expect(slotsOf(three)).toBe(9);
    expect(widthsOf(three)).toBe(4);
    expect([slotsOf([]), widthsOf([])]).toEqual([0, 0]);
  });

  it("outlive the last attempt's timeout, with time to record and settle", () => {
    expect(leaseMs(3_000, 15_000)).toBeGreaterThan(3_000 + 15_000 + 5_000);
  });

  it("give their slots back by the clock alone when they are never settled (regression: opossum)", () => {
    const ask = { lane: "fresh", deliveries: [1, 2], connections: 6, startWithinMs: 1000 } as const;
    const settings = { ...steady, maxConcurrency: 1 };
    const first = admit(newGateState(now), ask, settings, now);
    const deadline = now + (first.result.grant?.expiresInMs ?? 0);
    const other = { ...ask, deliveries: [3] };
    expect(admit(first.state, other, settings, deadline - 1).result.refused).toMatchObject({
      reason: "concurrency",
      until: deadline,
    });
    expect(admit(first.state, other, settings, deadline).result.grant).not.toBeNull();
    expect(admit(first.state, ask, settings, deadline).result.grant?.deliveries).toEqual([1, 2]);
  });
});

describe("a lease that succeeds another", () => {
  const other = lease(2, 2, now + 5);
  const [small, large] = [lease(2, 1, now + 10), lease(6, 4, now + 20)];

  it.each<[string, Lease, Lease]>([
    ["a larger one", small, large],
    ["a smaller one", large, small],
  ])("takes over what it can use, whether the successor is %s; together they hold the larger one's", (_, former, heir) => {
    const leases = succeeded([other, former], heir, former.id);
    expect(leases[0]).toBe(other);
    expect(leases[1]).toEqual({ ...former, slots: former.slots - 2, width: former.width - 1 });
    expect(leases[2]).toEqual({
      ...heir,
      expiresAt: now + 20,
      took: { lease: former.id, slots: 2, width: 1 },
    });
    const returned = leases[2] ? ended(leases, leases[2]) : [];
    expect(returned).toEqual([other, former]);
  });

  it("takes over nothing from one that has ended", () => {
    expect(succeeded([other], small, "gone")).toEqual([other, small]);
  });
});

it("a grant is shortened by the time that it took to arrive", () => {
  const grant = admit(
    newGateState(now),
    { lane: "fresh", deliveries: [1], connections: 1, startWithinMs: 9 },
    steady,
    now,
  );
  const { expiresInMs = 0 } = grant.result.grant ?? {};
  const arrived = grant.result.grant && arrivedGrant(grant.result.grant, now + 1, now + 31);
  expect(arrived).toEqual({ ...grant.result.grant, expiresInMs: expiresInMs - 30 });
});

describe("the time in which attempts may be started", () => {
  const terms = { startWithinMs: 3_000, expiresInMs: leaseMs(3_000, 15_000) };

  it("begins when the holder is ready", () => {
    expect(startsUntil(terms, now, now + 1, 15_000)).toBe(now + 3_001);
  });

  it("ends early enough for the last attempt to time out, and to be recorded, within the lease", () => {
    const late = startsUntil(terms, now, now + 60_000, 15_000);
    expect(late + 15_000 + 5_000).toBeLessThanOrEqual(now + terms.expiresInMs);
    expect(late).toBeGreaterThanOrEqual(now + 3_000);
  });

  it.each([
    [0, Number.POSITIVE_INFINITY],
    [1_000, 8],
    [1_001, 6],
    [9_000, 2],
  ])("suffices, at %d ms for an attempt, for %d of two connections", (tookMs, attempts) => {
    expect(startable(2, 3_000, tookMs)).toBe(attempts);
  });
});

describe("through any history of a gate", () => {
  it("the slots of live leases are never more than max_concurrency when one is granted", () => {
    fc.assert(
      fc.property(historyArbitrary, (history) => {
        for (const { granted, others, settings } of momentsOf(history)) {
          if (!granted) continue;
          expect(granted.slots).toBeGreaterThanOrEqual(1);
          expect(granted.slots + sumOf(others, ({ slots }) => slots)).toBeLessThanOrEqual(
            settings.maxConcurrency,
          );
        }
      }),
      { numRuns: 300 },
    );
  });

  it("the slots of leases that a trusted receiver's gate grants in a row are never more than max_concurrency", () => {
    const asks = fc.array(askArbitrary, { minLength: 2, maxLength: 8 });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 12 }), asks, (maxConcurrency, all) => {
        const settings = { ...steady, maxConcurrency };
        const window = { size: maxConcurrency, threshold: 100 };
        let state = { ...newGateState(now), destinationState: { ...newDestinationState(now), window } };
        let slots = 0;
        for (const [i, ask] of all.entries()) {
          const deliveries = ask.deliveries.map((delivery) => 100 * i + delivery);
          const admitted = admit(state, { ...ask, deliveries, lookedUpMsAgo: 0 }, settings, now + i);
          state = admitted.state;
          slots += admitted.result.grant?.slots ?? 0;
        }
        expect(slots).toBeGreaterThan(0);
        expect(slots).toBeLessThanOrEqual(maxConcurrency);
      }),
    );
  });

  it("a lease begins with no more than its slots, and with no more slots than it can use", () => {
    fc.assert(
      fc.property(historyArbitrary, (history) => {
        for (const { granted, step } of momentsOf(history)) {
          if (!granted || step.do !== "ask") continue;
          expect(granted.width).toBeGreaterThanOrEqual(1);
          expect(granted.width).toBeLessThanOrEqual(granted.slots);
          expect(granted.slots).toBeLessThanOrEqual(
            Math.min(step.ask.connections, granted.deliveries.length),
          );
        }
      }),
    );
  });

  it("a delivery is never in two live leases, and is reported as in flight when it would be", () => {
    fc.assert(
      fc.property(historyArbitrary, (history) => {
        for (const { after, granted, others, result, step } of momentsOf(history)) {
          if (!result || step.do !== "ask") continue;
          const busy = new Set(others.flatMap(({ deliveries }) => deliveries));
          expect(granted?.deliveries.filter((id) => busy.has(id)) ?? []).toEqual([]);
          const named = [result.grant, result.refused, result.inFlight].flatMap(
            (part) => part?.deliveries ?? [],
          );
          if (step.ask.lane === "backlog" && after.crashLoop.level > 0) {
            // Some of the requested ones, each once.
            expect(new Set(named).size).toBe(named.length);
            expect(step.ask.deliveries).toEqual(expect.arrayContaining(named));
            continue;
          }
          // A drain requests again what its connections could not start in time anyway.
          const most =
            result.grant && step.ask.lane === "backlog" ? named.length : step.ask.deliveries.length;
          const unheld = step.ask.deliveries.filter((id) => !result.inFlight?.deliveries.includes(id));
          const inOrder = [...unheld.slice(0, most - (result.inFlight?.deliveries.length ?? 0))];
          expect(named.toSorted()).toEqual([...inOrder, ...(result.inFlight?.deliveries ?? [])].toSorted());
        }
      }),
      { numRuns: 300 },
    );
  });

  it("no two leases ever have the same name", () => {
    fc.assert(
      fc.property(historyArbitrary, (history) => {
        const names = [...momentsOf(history)].flatMap(({ granted }) => granted?.id ?? []);
        expect(new Set(names).size).toBe(names.length);
      }),
    );
  });
});
