/** The scenarios of the rate limit's model, and gates that break the rate on purpose, each with one in which it shows. */
import { liveLeases } from "../../src/core/lease.ts";
import { type Parts, production } from "./gate-object.ts";
import { type RateScenario, rateModel } from "./rate.ts";
import { type Checked, checked, type Variant } from "./report.ts";

/** Fast enough for a slack; a lease lives 13 s. */
const quick: RateScenario = {
  everyMs: 1_000,
  burst: 2,
  tickMs: 1_000,
  startWithinMs: 2_000,
  wanted: [2, 2],
  faults: 1,
  delays: 0,
  ticks: 16,
};
/** So slow that a burst outlasts a lease, which lives 20 s. */
const slow: RateScenario = {
  everyMs: 5_000,
  burst: 6,
  tickMs: 5_000,
  startWithinMs: 5_000,
  wanted: [4, 5],
  faults: 1,
  delays: 0,
  ticks: 8,
};

/** Some thousands of states each. */
export const smallRates: readonly Checked[] = [
  checked("One send a second, two at once, one fault", () => rateModel({ ...quick, ticks: 6 })),
];

export const deepRates: readonly Checked[] = [
  checked("One send in five seconds, six at once, one fault", () => rateModel({ ...slow, ticks: 5 })),
  checked("One send a second, two at once, one fault, beyond the end of a lease", () => rateModel(quick)),
  checked("One send a second, two at once, one fault, two delays", () =>
    rateModel({ ...quick, delays: 2, ticks: 6 }),
  ),
  checked("One send in five seconds, six at once, two faults", () => rateModel({ ...slow, faults: 2 })),
];

function broken(name: string, scenario: RateScenario, parts: Partial<Parts>): Variant {
  return checked(name, () => rateModel(scenario, { ...production, ...parts }));
}

export const brokenRates: readonly Variant[] = [
  broken("What an expired lease has reserved is forgotten", slow, {
    admit: (before, request, settings, now) =>
      production.admit({ ...before, leases: liveLeases(before.leases, now) }, request, settings, now),
  }),
  broken("What a lease has started is given back with the rest", quick, {
    settle: (before, { tatInMs: _, ...request }, settings, now, random) =>
      production.settle(before, { ...request, signals: [] }, settings, now, random),
  }),
  broken("A new incarnation takes no account of what the one before has reserved", quick, {
    restored: (stored, now) => production.restored(stored && { ...stored, slack: null }, now),
  }),
  broken("Leases may reach further ahead than the slack", quick, {
    afterDecision: (before, after, now) => {
      const { written } = before;
      const slack = written?.slack && { ...written.slack, aheadMs: Number.MAX_SAFE_INTEGER };
      return production.afterDecision(
        slack ? { ...before, written: { ...written, slack } } : before,
        after,
        now,
      );
    },
  }),
];
