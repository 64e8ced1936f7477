/** The scenarios of the gate's model, and gates that are broken on purpose, each with one in which it shows. */
import type { GateState } from "../../src/core/gate-state.ts";
import { ended, live } from "../../src/core/lease.ts";
import { gateModel, type Parts, production } from "./gate.ts";
import type { Scenario } from "./gate-world.ts";
import { type Checked, checked, type Variant } from "./report.ts";

const alone: Scenario = { messages: [[0]], maxConcurrency: 1, faults: 2, failures: 0, delays: 0, ticks: 9 };
const three: Scenario = {
  messages: [[0, 1], [2]],
  maxConcurrency: 2,
  faults: 1,
  failures: 0,
  delays: 0,
  ticks: 7,
};
const failing: Scenario = {
  messages: [[0], [1]],
  maxConcurrency: 2,
  faults: 0,
  failures: 1,
  delays: 0,
  ticks: 9,
};
const single: Scenario = {
  messages: [[0], [1], [2]],
  maxConcurrency: 1,
  faults: 1,
  failures: 0,
  delays: 0,
  ticks: 7,
};

export const scenarios = { alone, three, failing, single };

/** Some thousands of states each. */
export const smallGates: readonly Checked[] = [
  checked("One delivery, at most 1 at once, two faults", () => gateModel(alone)),
  checked("Three deliveries in two messages, at most 2 at once, one fault", () => gateModel(three)),
  checked("Two deliveries, one failed attempt that opens the circuit", () => gateModel(failing)),
];

export const deepGates: readonly Checked[] = [
  checked("One delivery, two faults, two delays", () => gateModel({ ...alone, delays: 2 })),
  checked("Three deliveries in a message each, one at once, one fault", () => gateModel(single)),
  checked("Two deliveries, one failed attempt, one fault", () => gateModel({ ...failing, faults: 1 })),
];

function broken(name: string, scenario: Scenario, parts: Partial<Parts>): Variant {
  return checked(name, () => gateModel(scenario, { ...production, ...parts }));
}

/** The newest lease with another end. */
function withEnd(state: GateState, granted: number, expiresAt: number): GateState {
  const newest = state.leases.length - 1;
  if (state.granted === granted) return state;
  return {
    ...state,
    leases: state.leases.map((lease, i) => (i === newest ? { ...lease, expiresAt } : lease)),
  };
}

export const brokenGates: readonly Variant[] = [
  broken("A new incarnation forgets the slack of the one before", three, {
    restored: (stored, now) => production.restored(stored && { ...stored, slack: null }, now),
  }),
  broken("A lease goes out before it is stored", three, {
    afterDecision: (...args) => ({ ...production.afterDecision(...args), writes: false }),
  }),
  broken("A settlement of an unknown lease ends another one", single, {
    settle: (before, request, settings, now, random) => {
      const settled = production.settle(before, request, settings, now, random);
      const [oldest] = settled.state.leases;
      const isKnown = before.leases.some(({ id }) => id === request.lease);
      if (isKnown || !oldest) return settled;
      return { ...settled, state: { ...settled.state, leases: ended(settled.state.leases, oldest) } };
    },
  }),
  broken(
    "A lease never expires",
    { ...alone, faults: 1 },
    {
      admit: (before, request, settings, now) => {
        const { state, result } = production.admit(before, request, settings, now);
        return { state: withEnd(state, before.granted, Number.MAX_SAFE_INTEGER), result };
      },
    },
  ),
  broken(
    "A lease expires at the gate before its holder stops",
    { ...single, faults: 0, delays: 1 },
    {
      admit: (before, request, settings, now) => {
        const { state, result } = production.admit(before, request, settings, now);
        return { state: withEnd(state, before.granted, now + 5_000), result };
      },
    },
  ),
  broken(
    "What was settled is not remembered",
    { ...alone, faults: 1 },
    {
      settle: (before, ...args) => {
        const settled = production.settle(before, ...args);
        return { ...settled, state: { ...settled.state, settled: before.settled } };
      },
    },
  ),
  broken(
    "An expired lease's deliveries are not doubted",
    { ...alone, faults: 1, delays: 4 },
    {
      admit: (before, request, settings, now) =>
        production.admit({ ...before, leases: live(before.leases, now) }, request, settings, now),
    },
  ),
  broken(
    "A lease is counted from when its answer arrives",
    { ...alone, messages: [], waiting: 1, faults: 0, delays: 4 },
    {
      arrivedGrant: (grant) => grant,
    },
  ),
];
